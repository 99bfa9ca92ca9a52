"""What monitoring is told while the engine works: stages, questions, model calls, lookups.

Packages call the functions of this file and tell what happened to `OBSERVER.get()`; an `Observer` is set for a block, a
task or a request by `observing`, and goes on into the tasks and threads that are started there. Without one, telling
costs one look. No event names a document,
or holds texts or secrets: stages, modes and purposes are words of this program.
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

# The request that the current task works for, which log lines name; empty outside of one.
REQUEST_ID: ContextVar[str] = ContextVar("heliograph_request_id", default="")


@dataclass(frozen=True, slots=True)
class CallCount:
    """Calls of one kind to a model so far.

    Attributes:
        calls: How many were made; of an embedding, those that had texts.
        usage: Tokens read and written; what a cache or another call gave costs none.
        texts: Of an embedding, the texts of the calls that did not fail.
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
        purpose: What for: a `Purpose` of chat calls, `query` or `document` of embeddings.
        calls: Failed ones too: of a chat model each try, of an embedding what it was asked for, kept vectors included.
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
        outcome: `cached` is an answer that was kept; `cancelled` means that who asked gave up.
        seconds: Of the stages it went through: `keywords`, `search`, `rerank`, `context`, `answer`, and `total`.
        is_unanswered: Whether its answer says that the documents hold none.
    """

    mode: str
    outcome: Literal["ok", "cached", "error", "cancelled"]
    seconds: Mapping[str, float]
    is_unanswered: bool = False


@dataclass(frozen=True, slots=True)
class Origin:
    """The request that caused some work, by its id, empty if none did, and the `traceparent` of its stage."""

    request_id: str = ""
    traceparent: str = ""


class Observer:
    """Telemetry: receives what is measured for monitoring, and names no document, question or text.

    This one lets everything pass; others must neither fail nor wait. Called from many threads.
    """

    def stage(
        self,
        name: str,  # noqa: ARG002
        attributes: Mapping[str, str | int],  # noqa: ARG002
        *,
        is_parent: bool = True,  # noqa: ARG002
        traceparent: str | None = None,  # noqa: ARG002
    ) -> AbstractContextManager[None]:
        """Return what lasts as long as a stage, such as `query.search`; an error passes through it.

        Args:
            name: What is done.
            attributes: Numbers and words about it.
            is_parent: Whether stages within it belong to it. False where the block hands control to a caller in
                between, as generators do.
            traceparent: What it belongs to, as `traceparent` named it; None means the stage around, and an empty one
                that it belongs to nothing.
        """
        return nullcontext()

    def traceparent(self) -> str:
        """Return a name for the stage around, for work that is done later; empty if it is not traced."""
        return ""

    def tell_question(self, report: QuestionReport) -> None:
        """Note a question that was answered, or came to nothing."""

    def tell_model_calls(self, calls: ModelCalls) -> None:
        """Note calls to a model."""

    def tell_lookup(self, cache: str, *, is_hit: bool) -> None:
        """Note that something was looked for in a cache."""


_NOBODY = Observer()
# Who is told of what the current task does.
OBSERVER: ContextVar[Observer] = ContextVar("heliograph_observer", default=_NOBODY)


def observe(observer: Observer | None) -> None:
    """Set the observer (None for none) of this task and of those that it starts."""
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
    """Return what the current task works for."""
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


# How long the stages of a question take, in seconds by the wall clock.
#
# A stage that runs twice adds up; stages inside another count in both, so the sum may exceed `total`. Who observes
# the engine is told of each stage as `query.<stage>`.

# Is told which stage begins.
TellStage = Callable[[str], None]
# Is told of work on a whole workspace what is gone through, and how much of it is done.
TellCount = Callable[[str, int], None]


class StageClock:
    """Measures one question; `total` runs from when the clock is made."""

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
        """Take over what is told of the answer; every answer comes here, whoever made it."""
        self._outcome = "cached" if from_cache else "ok"
        self._is_unanswered = is_unanswered

    def note_retrieval(self, timings: Mapping[str, float]) -> None:
        """Take over how long the stages of retrieval took."""
        self._seconds |= stage_seconds(timings)

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
        """Report the question only if the block fails, as no answer can follow then."""
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
        # What is no Exception is how tasks and generators are told to stop.
        outcome = self._outcome if kind is None else "error" if issubclass(kind, Exception) else "cancelled"
        OBSERVER.get().tell_question(QuestionReport(self._mode.value, outcome, seconds, self._is_unanswered))


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
