"""Progress notifications of one call: what the engine tells between two awaits goes out one after the other.

Nothing is sent to a client that did not ask. A client that reads slowly gets fewer of them, in order and never going
down, and holds nobody up at the end.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

from heliograph.ingest.models import Progress

_LOG = logging.getLogger(__name__)

SendProgress = Callable[[float, float | None, str | None], Awaitable[None]]

_MOST_WAITING = 64
_LAST_SECONDS = 1.0


class ProgressSender:
    """Sends how far one call is.

        async with sender.sending():
            await kb.query(question, progress=sender.tell_stage)

    Args:
        send: Sends one notification: progress, total and message; None if the client asked for none.
    """

    def __init__(self, send: SendProgress | None) -> None:
        self._send = send
        self._waiting: deque[tuple[float, float | None, str]] = deque(maxlen=_MOST_WAITING)
        self._news = asyncio.Event()
        self._is_over = False
        self._last = 0.0
        self._last_message = ""

    def tell_stage(self, name: str) -> None:
        """Tell that a stage of a question begins."""
        self._tell(self._last + 1, None, name.replace("_", " "))

    def tell_ingest(self, progress: Progress) -> None:
        """Tell how far documents are, counted in chunks."""
        total = progress.chunks_total
        text = (
            f"{progress.documents_done} of {progress.documents_total} documents, "
            f"{progress.chunks_done} of {total} chunks read"
        )
        self._tell(progress.chunks_done + progress.documents_done, total + progress.documents_total or None, text)

    def tell_count(self, what: str, count: int) -> None:
        """Tell that so many things of a kind were looked at."""
        self._tell(self._last + 1, None, f"{what}: {count:,}")

    @asynccontextmanager
    async def sending(self) -> AsyncGenerator[None]:
        """Send within the block; what still waits at its end is sent unless that takes long."""
        if self._send is None:
            yield
            return
        task = asyncio.create_task(self._run(self._send))
        try:
            yield
            self._is_over = True
            self._news.set()
            await asyncio.wait([task], timeout=_LAST_SECONDS)
        finally:
            task.cancel()
            await asyncio.wait([task])
            if not task.cancelled() and (error := task.exception()) is not None:
                _LOG.debug("progress could not be sent: %r", error)

    def _tell(self, progress: float, total: float | None, message: str) -> None:
        if self._send is None or message == self._last_message:
            return
        # The protocol wants it to rise with each notification.
        self._last = max(progress, self._last + 1e-3) if self._last_message else progress
        self._last_message = message
        self._waiting.append((self._last, None if total is None else max(total, self._last), message))
        self._news.set()

    async def _run(self, send: SendProgress) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            while self._waiting:
                await send(*self._waiting.popleft())
            if self._is_over:
                return
