"""The one place where runs of a process enter the section that only one process of all may be in.

The first run in opens it, those that come while it is open join, the last one out closes it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager

__all__ = ["SharedEntry"]


class SharedEntry:
    """Shares one exclusive context among the runs of a process."""

    def __init__(self, exclusive: Callable[[], AbstractAsyncContextManager[None]]) -> None:
        self._exclusive = exclusive
        self._opening = asyncio.Lock()
        self._stack: AsyncExitStack | None = None
        self._inside = 0

    @asynccontextmanager
    async def enter(self) -> AsyncGenerator[None]:
        """Be inside; whatever opening the context raises is raised here."""
        async with self._opening:
            if self._stack is None:
                stack = AsyncExitStack()
                await stack.enter_async_context(self._exclusive())
                self._stack = stack
            self._inside += 1
        try:
            yield
        finally:
            self._inside -= 1
            # Whoever is cancelled here still closes: a section left open would keep all other processes out.
            await _ended(asyncio.create_task(self._leave()))

    async def _leave(self) -> None:
        """Close behind the last run; one that starts meanwhile waits, and opens the section anew."""
        async with self._opening:
            if not self._inside and (stack := self._stack):
                self._stack = None
                await stack.aclose()


async def _ended(task: asyncio.Task[None]) -> None:
    """Wait for the end of a task, also when cancelled, and be cancelled only then."""
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled from (None if task.cancelled() else task.exception())
    task.result()
