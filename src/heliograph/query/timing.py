"""How long the stages of a question take, and what is told of a question to who observes the engine."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Literal, Self

from heliograph.observing import QuestionReport, stage, tell_question
from heliograph.observing import stage as observed_stage
from heliograph.query.retrieved import Mode, Retrieval

# How long the stages of a question take, in seconds by the wall clock.
#
# A stage that runs twice adds up; stages inside another count in both, so the sum may exceed `total`. Who observes
# the engine is told of each stage as `query.<stage>`.

# Is told which stage begins.
Progress = Callable[[str], None]


class StageClock:
    """Measures one question; `total` runs from when the clock is made."""

    def __init__(self) -> None:
        self._started = time.perf_counter()
        self._seconds: dict[str, float] = {}

    @contextmanager
    def measure(self, stage: str) -> Generator[None]:
        """Add the time that the block takes to a stage, whether it succeeds or not."""
        started = time.perf_counter()
        try:
            with observed_stage(f"query.{stage}"):
                yield
        finally:
            self._seconds[stage] = self._seconds.get(stage, 0.0) + time.perf_counter() - started

    def read(self) -> Mapping[str, float]:
        """Return the seconds of every stage so far, in the order in which they first ended, and `total`."""
        return {**self._seconds, "total": time.perf_counter() - self._started}


# One question from being asked to being answered, as who observes the engine is told of it.


class Asked:
    """Measures a question; tells of it once, when its block is left.

    Args:
        mode: The mode it is asked in.
    """

    def __init__(self, mode: Mode) -> None:
        self._mode = mode
        self._started = time.perf_counter()
        self._seconds: dict[str, float] = {}
        self._outcome: Literal["ok", "cached"] = "ok"

    def note_cached(self) -> None:
        """Say that the answer was kept."""
        self._outcome = "cached"

    def note_retrieval(self, retrieval: Retrieval) -> None:
        """Take over how long the stages of retrieval took."""
        self._seconds |= stage_seconds(retrieval.timings)

    @contextmanager
    def answering(self, *, in_pieces: bool = False) -> Generator[None]:
        """Measure the writing of the answer; in pieces, who reads it takes part in how long that is."""
        started = time.perf_counter()
        try:
            with stage("query.answer", is_parent=not in_pieces):
                yield
        finally:
            self._seconds["answer"] = time.perf_counter() - started

    @contextmanager
    def unless_answered(self) -> Generator[None]:
        """Tell of the question only if the block fails, as no answer can follow then."""
        try:
            yield
        except BaseException as error:
            self._tell(type(error))
            raise

    def give_up(self) -> None:
        """Tell that nobody read the answer."""
        self._tell(GeneratorExit)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._tell(kind)

    def _tell(self, kind: type[BaseException] | None) -> None:
        seconds = {**self._seconds, "total": time.perf_counter() - self._started}
        if kind is None:
            tell_question(QuestionReport(self._mode.value, self._outcome, seconds))
        else:
            # What is no Exception is how tasks and generators are told to stop.
            outcome = "error" if issubclass(kind, Exception) else "cancelled"
            tell_question(QuestionReport(self._mode.value, outcome, seconds))


def stage_seconds(timings: Mapping[str, float]) -> dict[str, float]:
    """Sum up the timings of a retrieval to the stages that users know, which follow one another.

    `keywords` includes understanding the question, `search` the embedding of it, and `context` is all else: selecting,
    reading and cutting what was found, but not `rerank`. A stage that did not take place is left out.
    """
    if not timings:
        return {}
    sums: dict[str, float] = {}
    for name, parts in {"keywords": ("understanding", "keywords"), "search": ("embed", "search")}.items():
        if any(part in timings for part in parts):
            sums[name] = sum(timings.get(part, 0.0) for part in parts)
    if "rerank" in timings:
        sums["rerank"] = timings["rerank"]
    if "select" in timings:
        sums["context"] = max(0.0, timings["total"] - sum(sums.values()))
    return sums
