"""Telemetry events of the running engine: stages, questions, model calls, cache lookups.

Packages call the functions of this file, or report events to `OBSERVER.get()`. `observing` sets an `Observer` for a
block, a task or a request; tasks and threads started there inherit it. Without one, an event costs one lookup of a
context variable. No event names a document, or holds texts or secrets: stages, modes and purposes are words of this
program.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import TracebackType
from typing import Literal, Self

from heliograph.models import Mode, Usage

# Id of the request that the current task serves, shown in log lines; empty outside a request.
REQUEST_ID: ContextVar[str] = ContextVar("heliograph_request_id", default="")


@dataclass(frozen=True, slots=True)
class CallCount:
    """Calls of one kind to a model so far.

    Attributes:
        calls: How many were made; for an embedding, those with at least one text.
        usage: Tokens read and written; replies shared with a cache or another call cost none.
        texts: For an embedding, the texts of the calls that did not fail.
    """

    calls: int = 0
    failures: int = 0
    usage: Usage = field(default_factory=Usage)
    texts: int = 0

    def __add__(self, other: CallCount) -> CallCount:
        return CallCount(
            self.calls + other.calls,
            self.failures + other.failures,
            self.usage + other.usage,
            self.texts + other.texts,
        )


@dataclass(frozen=True, slots=True)
class ModelCalls:
    """Calls of one kind to a model, and what they cost.

    Attributes:
        model: Which kind of model.
        purpose: A `Purpose` for chat calls, `query` or `document` for embeddings.
        calls: Failed ones too: for a chat model each try, for an embedding each request, cached vectors included.
    """

    model: Literal["chat", "embedding"]
    purpose: str
    calls: int = 0
    failures: int = 0
    usage: Usage = field(default_factory=Usage)


@dataclass(frozen=True, slots=True)
class QuestionReport:
    """How one question went.

    Attributes:
        outcome: `cached` is an answer from the cache; `cancelled` means that the caller gave up.
        seconds: Duration of each stage it went through (`keywords`, `search`, `rerank`, `context`, `answer`), and
            `total`.
        is_unanswered: Whether the answer says that the documents do not answer the question.
    """

    mode: str
    outcome: Literal["ok", "cached", "error", "cancelled"]
    seconds: Mapping[str, float]
    is_unanswered: bool = False


@dataclass(frozen=True, slots=True)
class Origin:
    """Id of the request that caused some work, empty if none did, and the `traceparent` of its stage."""

    request_id: str = ""
    traceparent: str = ""


class Observer:
    """Telemetry: receives the measurements for monitoring, which name no document, question or text.

    This base class ignores all of them; subclasses must neither raise nor block. Called from many threads.
    """

    def stage(
        self,
        name: str,  # noqa: ARG002
        attributes: Mapping[str, str | int],  # noqa: ARG002
        *,
        is_parent: bool = True,  # noqa: ARG002
        traceparent: str | None = None,  # noqa: ARG002
    ) -> AbstractContextManager[None]:
        """Return a context manager around a stage, such as `query.search`; errors pass through it.

        Args:
            name: Name of the stage.
            attributes: Numbers and words about it.
            is_parent: Whether stages started within it become its children. False where the block yields control to a
                caller, as generators do.
            traceparent: Its parent, as returned by `traceparent`; None means the enclosing stage, an empty string none.
        """
        return nullcontext()

    def traceparent(self) -> str:
        """Return an id of the enclosing stage, as the parent of later work; empty if it is not traced."""
        return ""

    def tell_question(self, report: QuestionReport) -> None:
        """Record a question that was answered, failed or was cancelled."""

    def tell_model_calls(self, calls: ModelCalls) -> None:
        """Record calls to a model."""

    def tell_lookup(self, cache: str, *, is_hit: bool) -> None:
        """Record a cache lookup."""


_NOBODY = Observer()
# The observer of the current task.
OBSERVER: ContextVar[Observer] = ContextVar("heliograph_observer", default=_NOBODY)


def observe(observer: Observer | None) -> None:
    """Set the observer (None for none) of this task and of the tasks that it starts."""
    OBSERVER.set(observer or _NOBODY)


@contextmanager
def observing(observer: Observer) -> Generator[None]:
    """Set the observer for the length of a block."""
    token = OBSERVER.set(observer)
    try:
        yield
    finally:
        OBSERVER.reset(token)


def stage(name: str, *, is_parent: bool = True, **attributes: str | int) -> AbstractContextManager[None]:
    """Observe a stage that lasts as long as the block; see `Observer.stage`."""
    return OBSERVER.get().stage(name, attributes, is_parent=is_parent)


def origin() -> Origin:
    """Return the origin of the current task's work."""
    return Origin(REQUEST_ID.get(), OBSERVER.get().traceparent())


@contextmanager
def working_for(origin: Origin, name: str, **attributes: str | int) -> Generator[None]:
    """Run a block on behalf of an earlier request: as a stage of it, and under its id in the log."""
    token = REQUEST_ID.set(origin.request_id)
    try:
        with OBSERVER.get().stage(name, attributes, traceparent=origin.traceparent):
            yield
    finally:
        REQUEST_ID.reset(token)


# Durations of the stages of a question, in wall-clock seconds.
#
# A stage that runs twice adds up; stages inside another count in both, so the sum may exceed `total`. The observer
# gets each stage as `query.<stage>`.

# Called with the name of each stage as it begins.
TellStage = Callable[[str], None]
# Called during work on a whole workspace with the kind of item processed, and how many are done.
TellCount = Callable[[str, int], None]


class StageClock:
    """Measures the stages of one question; `total` starts when the clock is created."""

    def __init__(self) -> None:
        self._started = time.perf_counter()
        self._seconds: dict[str, float] = {}

    @contextmanager
    def measure(self, name: str) -> Generator[None]:
        """Add the time that the block takes to a stage, whether it succeeds or not."""
        started = time.perf_counter()
        try:
            with stage(f"query.{name}"):
                yield
        finally:
            self._seconds[name] = self._seconds.get(name, 0.0) + time.perf_counter() - started

    def read(self) -> Mapping[str, float]:
        """Return the seconds of every stage so far, in the order in which they first ended, and `total`."""
        return {**self._seconds, "total": time.perf_counter() - self._started}


class QuestionTimer:
    """Times a question from start to answer, and reports it once, when its block is left."""

    def __init__(self, mode: Mode) -> None:
        self._mode = mode
        self._started = time.perf_counter()
        self._seconds: dict[str, float] = {}
        self._outcome: Literal["ok", "cached"] = "ok"
        self._is_unanswered = False

    def note_answer(self, *, from_cache: bool, is_unanswered: bool) -> None:
        """Record whether the answer was cached or unanswered; every kind of answer is recorded here."""
        self._outcome = "cached" if from_cache else "ok"
        self._is_unanswered = is_unanswered

    def note_retrieval(self, timings: Mapping[str, float]) -> None:
        """Add the durations of the stages of retrieval."""
        self._seconds |= stage_seconds(timings)

    @contextmanager
    def answering(self, *, in_pieces: bool = False) -> Generator[None]:
        """Measure the writing of the answer; in pieces, that includes the time the caller takes to read them."""
        started = time.perf_counter()
        try:
            with stage("query.answer", is_parent=not in_pieces):
                yield
        finally:
            self._seconds["answer"] = time.perf_counter() - started

    @contextmanager
    def unless_answered(self) -> Generator[None]:
        """Report the question only if the block fails, since no answer follows then."""
        try:
            yield
        except BaseException as error:
            self._tell(type(error))
            raise

    def give_up(self) -> None:
        """Report an answer whose stream was abandoned."""
        self._tell(GeneratorExit)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._tell(kind)

    def _tell(self, kind: type[BaseException] | None) -> None:
        seconds = {**self._seconds, "total": time.perf_counter() - self._started}
        # Tasks and generators are cancelled by a BaseException that is no Exception.
        outcome = self._outcome if kind is None else "error" if issubclass(kind, Exception) else "cancelled"
        OBSERVER.get().tell_question(QuestionReport(self._mode.value, outcome, seconds, self._is_unanswered))


def stage_seconds(timings: Mapping[str, float]) -> dict[str, float]:
    """Aggregate the timings of a retrieval into the consecutive stages that users see.

    `keywords` includes understanding the question, `search` includes embedding it, and `context` is the rest except
    `rerank`: selecting, reading and cutting the results. A stage that did not run is left out.
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
