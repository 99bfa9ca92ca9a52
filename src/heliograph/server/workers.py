"""Several processes that serve one socket: uvicorn's supervisor, which here also tells how their start went.

A worker reports once: that it serves, or why it cannot. Until all have, none is asked whether it is alive, since one
that cannot start never answers; but only for a while, as one that hangs never reports.
"""

from __future__ import annotations

import logging
import signal
import socket
import time
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.queues import SimpleQueue

import uvicorn
from uvicorn.supervisors.multiprocess import Multiprocess

from heliograph.errors import HeliographError

__all__ = ["Reports", "Workers", "make_reports"]

_logger = logging.getLogger(__name__)

_UNASKED_SECONDS = 60

Reports = SimpleQueue[HeliographError | None]


def make_reports() -> Reports:
    """Return where workers tell how their start went; it can be given to processes that are spawned."""
    return get_context("spawn").SimpleQueue()


class Workers(Multiprocess):
    """Runs the workers until told to stop, or until one of the first cannot start.

    Args:
        config: What they serve, and how many there are.
        listener: The socket they share.
        reports: Where they tell how their start went.
        on_started: Called once all of them serve.

    Attributes:
        error: Why one of the first could not start.
    """

    def __init__(
        self, config: uvicorn.Config, listener: socket.socket, reports: Reports, on_started: Callable[[], None]
    ) -> None:
        super().__init__(config, [listener])
        self.error: HeliographError | None = None
        self._reports = reports
        self._on_started = on_started
        self._starting = config.workers
        self._begun_seconds = time.monotonic()

    def init_processes(self) -> None:
        """Start the workers; Ctrl-C, which reaches all processes of a terminal, is this one's to hear."""
        # What is blocked here stays blocked in a process that is spawned.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            super().init_processes()
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})

    def keep_subprocess_alive(self) -> None:
        """Take reports; then replace workers that are gone, and stop if one of the first cannot start."""
        while not self._reports.empty():
            self._take(self._reports.get())
        if self.error is not None:
            self.should_exit.set()
        elif self._is_settled() or not all(worker.process.is_alive() for worker in self.processes):
            super().keep_subprocess_alive()

    def _is_settled(self) -> bool:
        return self._starting <= 0 or time.monotonic() - self._begun_seconds >= _UNASKED_SECONDS

    def _take(self, error: HeliographError | None) -> None:
        if self._starting <= 0:
            if error is not None:
                _logger.error("a worker that was to replace another cannot start: %s", error)
        elif error is not None:
            self.error = self.error or error
        else:
            self._starting -= 1
            if self._starting == 0:
                self._on_started()
