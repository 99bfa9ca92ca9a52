"""Ctrl-C: the first stops a command cleanly, the second ends the process at once.

Cleanly means that an ingest is asked to cancel and anything else gets a `KeyboardInterrupt`. Ending at once loses
nothing: every document is one transaction.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Self

from heliograph.cli.exit_codes import EXIT_INTERRUPTED
from heliograph.cli.output import Output

__all__ = ["Interrupts"]


class Interrupts:
    """Handles SIGINT while its block runs; outside the main thread, where signals cannot be caught, does nothing.

    Attributes:
        is_stopping: Whether there was one.
    """

    def __init__(self, output: Output) -> None:
        self.is_stopping = False
        self._output = output
        self._cancel: Callable[[], None] | None = None
        self._is_main = threading.current_thread() is threading.main_thread()
        self._before = signal.getsignal(signal.SIGINT)

    @contextmanager
    def cancelling(self, cancel: Callable[[], None]) -> Generator[None]:
        """Within the block, call `cancel` on the first SIGINT and let the work come to its end."""
        self._cancel = cancel
        try:
            yield
        finally:
            self._cancel = None

    def __enter__(self) -> Self:
        if self._is_main:
            signal.signal(signal.SIGINT, self._handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_main:
            signal.signal(signal.SIGINT, signal.default_int_handler if self._before is None else self._before)

    def _handle(self, _number: int, _frame: FrameType | None) -> None:
        if self.is_stopping:
            self._output.notes.show_cursor()
            os._exit(EXIT_INTERRUPTED)
        self.is_stopping = True
        if self._cancel is None:
            raise KeyboardInterrupt
        self._cancel()
        self._output.note("stopping after the commits under way; press Ctrl-C again to stop at once")
