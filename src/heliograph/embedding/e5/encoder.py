"""Runs the ONNX graph on windows of tokens, in a few threads that take short jobs in a fair order."""

from __future__ import annotations

import heapq
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import count
from typing import Any, TypeVar, cast

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from onnxruntime.capi import onnxruntime_pybind11_state as ort_errors  # pyright: ignore[reportAttributeAccessIssue]

from heliograph.embedding.base import EmbeddingKind
from heliograph.embedding.e5.graph_names import (
    MASK_INPUT,
    OUTPUT,
    PADDED_INPUT,
    PLACES_INPUT,
    ROWS_INPUT,
    SLOTS_INPUT,
    WORDS_INPUT,
)
from heliograph.embedding.e5.weights import E5Weights
from heliograph.errors import ModelUnavailable

# A few threads that run short jobs in a fair order.
#
# Queries go before documents. Among equals, batches take turns job by job, so a short batch does not wait for a long
# one that came first; a batch that joins starts at the present turn and cannot overtake what has waited. A job whose
# future is cancelled before its turn is skipped.

T = TypeVar("T")
_PRIORITIES: dict[EmbeddingKind, int] = {"query": 0, "document": 10}


@dataclass(order=True, slots=True)
class _Job:
    priority: int
    turn: int
    arrival: int
    run: Callable[[], Any] = field(compare=False)
    future: Future[Any] = field(compare=False)

    def perform(self) -> None:
        if not self.future.set_running_or_notify_cancel():
            return
        try:
            result = self.run()
        except BaseException as error:  # noqa: BLE001 (not swallowed: whoever waits for the job gets it)
            self.future.set_exception(error)
        else:
            self.future.set_result(result)


class InferenceQueue:
    """Jobs in, futures out; use from any thread.

    Args:
        name: What the threads are called. They are started by jobs that find none free, and do not keep the process
            alive.
        threads: How many jobs run at once at the most.
    """

    def __init__(self, name: str, threads: int = 1) -> None:
        self._name = name
        self._max_threads = threads
        self._changed = threading.Condition()
        self._jobs: list[_Job] = []
        self._turns = dict.fromkeys(_PRIORITIES.values(), 0)
        self._arrivals = count()
        self._threads: list[threading.Thread] = []
        self._idle = 0
        self._is_closed = False

    def submit(self, runs: Sequence[Callable[[], T]], kind: EmbeddingKind) -> list[Future[T]]:
        """Queue one batch of jobs and return their futures in the same order.

        Raises:
            ModelUnavailable: The queue is closed.
        """
        priority = _PRIORITIES[kind]
        with self._changed:
            if self._is_closed:
                raise _closed()
            first = self._turns[priority]
            jobs = [_Job(priority, turn, next(self._arrivals), run, Future()) for turn, run in enumerate(runs, first)]
            for job in jobs:
                heapq.heappush(self._jobs, job)
            missing = min(len(self._jobs) - self._idle, self._max_threads - len(self._threads))
            for _ in range(missing):
                thread = threading.Thread(target=self._work, name=self._name, daemon=True)
                self._threads.append(thread)
                thread.start()
            self._changed.notify(len(jobs))
        return [job.future for job in jobs]

    def close(self) -> None:
        """Let the jobs under way finish, fail all others with `ModelUnavailable`, and end the threads."""
        with self._changed:
            self._is_closed = True
            jobs, self._jobs = self._jobs, []
            self._changed.notify_all()
        for job in jobs:
            if job.future.set_running_or_notify_cancel():
                job.future.set_exception(_closed())
        for thread in self._threads:
            thread.join()

    def _work(self) -> None:
        while (job := self._next()) is not None:
            job.perform()
            # Or its inputs and result would stay in memory until the next job comes.
            del job

    def _next(self) -> _Job | None:
        with self._changed:
            self._idle += 1
            self._changed.wait_for(lambda: self._jobs or self._is_closed)
            self._idle -= 1
            if not self._jobs:
                return None
            job = heapq.heappop(self._jobs)
            self._turns[job.priority] = job.turn
            return job


def _closed() -> ModelUnavailable:
    return ModelUnavailable("the offline embedding is closed; open the workspace again")


# Far below any score, so that the softmax of it is 0.
_OF_PADDING = np.float32(-10_000)
_ERRORS_ONLY = 3
_ONNXRUNTIME_ERRORS: tuple[type[Exception], ...] = tuple(
    getattr(ort_errors, name)
    for name in (
        "EPFail",
        "Fail",
        "InvalidArgument",
        "InvalidGraph",
        "InvalidProtobuf",
        "NotImplemented",
        "RuntimeException",
    )
)


class E5Encoder:
    """A loaded graph. Safe to use from several threads at once.

    Args:
        graph: What `make_graph` returned.
        weights: Gives the word vectors.

    Raises:
        ModelUnavailable: The graph cannot be loaded.
    """

    def __init__(self, graph: bytes, weights: E5Weights) -> None:
        self._weights = weights
        self._session = _load(graph)

    def encode(self, windows: Sequence[NDArray[np.int32]]) -> NDArray[np.float32]:
        """Return the mean vectors of one run's windows, `(windows, hidden)`, not normalised.

        Raises:
            ModelUnavailable: The run failed, most likely for lack of memory.
        """
        lengths = np.array([len(window) for window in windows], np.int64)
        words = self._weights.word_vectors(np.concatenate(windows))
        vectors = _run(self._session, {WORDS_INPUT: words, **_layout(lengths, self._weights.shape.heads)})
        starts = np.cumsum(lengths) - lengths
        sums = cast("NDArray[np.float32]", np.add.reduceat(vectors, starts))
        return sums / lengths.astype(np.float32)[:, None]


def _load(graph: bytes) -> onnxruntime.InferenceSession:
    try:
        return onnxruntime.InferenceSession(graph, _options(), ["CPUExecutionProvider"])
    except _ONNXRUNTIME_ERRORS as error:
        raise ModelUnavailable(
            f"onnxruntime {onnxruntime.__version__} cannot load the offline embedding: {error}; "
            "run: pip install --upgrade onnxruntime"
        ) from error


def _run(session: onnxruntime.InferenceSession, inputs: dict[str, NDArray[Any]]) -> NDArray[np.float32]:
    try:
        return cast("NDArray[np.float32]", session.run([OUTPUT], inputs)[0])
    except _ONNXRUNTIME_ERRORS as error:
        raise ModelUnavailable(f"the offline embedding failed: {error}; free some memory and try again") from error


def _layout(lengths: NDArray[np.int64], heads: int) -> dict[str, NDArray[Any]]:
    """Return the inputs that say where each token of windows of these lengths belongs."""
    longest = lengths.max()
    is_token = np.arange(longest) < lengths[:, None]
    windows, places = np.nonzero(is_token)
    rows = np.zeros(is_token.shape, np.int64)
    rows[is_token] = np.arange(len(places))
    head = np.arange(heads)
    return {
        PLACES_INPUT: places,
        ROWS_INPUT: rows[:, None, :] * (3 * heads) + head[:, None],
        MASK_INPUT: np.where(is_token, np.float32(0), _OF_PADDING)[:, None, None, :],
        PADDED_INPUT: np.array(not is_token.all()),
        SLOTS_INPUT: (windows[:, None] * heads + head) * longest + places[:, None],
    }


def _options() -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    # Runs are small and alike, so what an arena would save in time is little against what it would keep in memory.
    options.enable_cpu_mem_arena = False
    options.enable_mem_pattern = False
    options.log_severity_level = _ERRORS_ONLY
    return options
