"""A few threads that run short jobs in a fair order.

Queries go before documents. Among equals, batches take turns job by job, so a short batch does not wait for a long one
that came first; a batch that joins starts at the present turn and cannot overtake what has waited. A job whose future
is cancelled before its turn is skipped.
"""

from __future__ import annotations

import heapq
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import count
from typing import Any, TypeVar

from heliograph.embedding.base import EmbeddingKind
from heliograph.errors import ModelUnavailable

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
            self._start_threads()
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

    def _start_threads(self) -> None:
        missing = min(len(self._jobs) - self._idle, self._max_threads - len(self._threads))
        for _ in range(missing):
            thread = threading.Thread(target=self._work, name=self._name, daemon=True)
            self._threads.append(thread)
            thread.start()

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
