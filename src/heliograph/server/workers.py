"""Several processes that serve one socket: uvicorn's supervisor, which here also tells how their start went.

A worker reports once: that it serves, or why it cannot. Until it has, it is not asked whether it is alive, since one
that is starting does not answer; but only for a while, as one that hangs never reports.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import time
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.queues import SimpleQueue

import uvicorn
from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors.multiprocess import Multiprocess, Process

from heliograph.errors import HeliographError

_logger = logging.getLogger(__name__)

_UNASKED_SECONDS = 60.0
# So long a worker is left alone that could not start, or did not live, before another is tried.
_REST_SECONDS = 5.0


class Reports:
    """Where workers tell how their start went; it can be given to processes that are spawned."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[tuple[int, HeliographError | None]] = get_context("spawn").SimpleQueue()

    def tell(self, error: HeliographError | None) -> None:
        """Say that this process serves, or why it cannot."""
        self._queue.put((os.getpid(), error))

    def take(self) -> list[tuple[int, HeliographError | None]]:
        """Return what has been told since the last time: by which process, and its error or None."""
        told: list[tuple[int, HeliographError | None]] = []
        while not self._queue.empty():
            told.append(self._queue.get())
        return told


class Workers(Multiprocess):
    """Runs the workers until told to stop, or until one of the first cannot start.

    One that is gone later is replaced; a replacement that cannot start is tried again, while the others serve.

    Args:
        config: What they serve, and how many there are.
        listener: The socket they share.
        reports: Where they tell how their start went.
        on_started: Called once all of them serve.

    Attributes:
        error: Why one of the first could not start.
        has_failed: Whether one of the first could not start for a reason that only the log tells.
    """

    def __init__(
        self, config: uvicorn.Config, listener: socket.socket, reports: Reports, on_started: Callable[[], None]
    ) -> None:
        super().__init__(config, [listener])
        self.error: HeliographError | None = None
        self.has_failed = False
        self._reports = reports
        self._on_started = on_started
        self._awaited = config.workers
        self._begun_seconds: dict[Process, float] = {}
        self._serving: set[int] = set()

    def init_processes(self) -> None:
        """Start the workers."""
        self.processes += [self._start() for _ in range(self.processes_num)]

    def handle_ttin(self) -> None:
        """Serve with one worker more."""
        self.processes_num += 1
        self.processes.append(self._start())

    def keep_subprocess_alive(self) -> None:
        """Take reports; then replace workers that are gone or hang, and stop if one of the first cannot start."""
        self._take_reports()
        self._forget_gone()
        for place, worker in enumerate(self.processes):
            if self.should_exit.is_set():
                return
            if not self._is_alive(worker):
                self._replace(place, worker)

    def _start(self) -> Process:
        worker = Process(self.config, self.sockets)
        # Ctrl-C, which reaches all processes of a terminal, is this one's to hear; what is blocked here stays blocked
        # in a process that is spawned.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            worker.start()
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        self._begun_seconds[worker] = time.monotonic()
        return worker

    def _take_reports(self) -> None:
        for process_id, error in self._reports.take():
            if error is None:
                self._serving.add(process_id)
            if self._awaited > 0:
                self._take_first(error)
            elif error is not None:
                _logger.error("a worker that was to replace another cannot start: %s", error)

    def _forget_gone(self) -> None:
        """Keep notes of those workers only that are there: others were replaced or, at a signal, retired."""
        self._begun_seconds = {
            worker: self._begun_seconds[worker] for worker in self.processes if worker in self._begun_seconds
        }
        self._serving &= {worker.pid for worker in self.processes if worker.pid}

    def _take_first(self, error: HeliographError | None) -> None:
        if error is not None:
            self.error = self.error or error
            self.should_exit.set()
            return
        self._awaited -= 1
        if self._awaited == 0:
            self._on_started()

    def _is_alive(self, worker: Process) -> bool:
        is_starting = worker.pid not in self._serving and self._age_seconds(worker) < _UNASKED_SECONDS
        return worker.process.is_alive() if is_starting else worker.is_alive(self.config.timeout_worker_healthcheck)

    def _age_seconds(self, worker: Process) -> float:
        return time.monotonic() - self._begun_seconds.setdefault(worker, time.monotonic())

    def _replace(self, place: int, worker: Process) -> None:
        if worker.process.is_alive():
            _logger.warning("worker %s does not answer and is ended", worker.pid)
            worker.kill()
            worker.join()
        if worker.exitcode == STARTUP_FAILURE and self._awaited > 0:
            # Its report, if it made one, may have come since.
            self._take_reports()
            self.has_failed = self.error is None
            self.should_exit.set()
        elif self._age_seconds(worker) >= _REST_SECONDS:
            _logger.warning("worker %s is gone (%s); another takes its place", worker.pid, worker.exitcode)
            self.processes[place] = self._start()
