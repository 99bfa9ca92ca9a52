"""A bound on calls under way at once, in which some callers go first.

Slots are handed from the one who leaves straight to the one whose turn it is, so nobody who comes later slips in
between, and a slot is never lost: a waiter cancelled before its turn is skipped, one cancelled in the very moment of
its turn passes the slot on.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from itertools import count


class PriorityLimiter:
    """Lets at most so many callers through at once; lower priority numbers first, then in order of arrival.

    A steady stream of callers with a low number holds the others back for as long as it lasts. For use within one
    event loop.

    Args:
        max_concurrency: Slots; at least 1.

    Raises:
        ValueError: `max_concurrency` is less than 1.
    """

    def __init__(self, max_concurrency: int) -> None:
        if max_concurrency < 1:
            raise ValueError(f"max_concurrency must be at least 1, not {max_concurrency!r}")
        self._free = max_concurrency
        self._arrivals = count()
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []

    @asynccontextmanager
    async def slot(self, priority: int) -> AsyncGenerator[None]:
        """Wait for a slot and hold it until the block is left.

        Args:
            priority: Lower goes first.
        """
        await self._acquire(priority)
        try:
            yield
        finally:
            self._release()

    async def _acquire(self, priority: int) -> None:
        # A free slot means that nobody waits: slots are only freed when no waiter is left to take them.
        if self._free:
            self._free -= 1
            return
        turn = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (priority, next(self._arrivals), turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._release()
            raise

    def _release(self) -> None:
        while self._waiting:
            turn = heapq.heappop(self._waiting)[2]
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1
