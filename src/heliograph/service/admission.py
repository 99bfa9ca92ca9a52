"""Admission control: how many questions one process answers at once, how many wait, and whose turn is next.

Turns go round-robin over the waiting clients, so a client that sends hundreds delays others by at most one question.
Within a client it is first come, first served. A finished question hands its turn directly to the next one, so later
arrivals cannot slip in between; a caller that gives up while waiting leaves the queue. Waiting places are shared as
well: if all are taken, the last caller of the client with the most places makes room for a client with fewer.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from heliograph.errors import OverloadedError

# Weight of the latest turn in the mean length of a turn, from which the waiting time is estimated.
_LATEST = 0.1
_LONGEST_RETRY_SECONDS = 60.0


class Admission:
    """Limits concurrent questions, for use within one event loop; refuses callers beyond `max_waiting` waiting ones.

    async with admission.turn(principal.client):
        await kb.query("...")
    """

    def __init__(self, max_concurrent: int, max_waiting: int) -> None:
        self.running = 0
        self._max_concurrent = max_concurrent
        self._max_waiting = max_waiting
        self._queues: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()
        self._mean_seconds = 1.0

    @property
    def waiting(self) -> int:
        """The number of callers waiting for a turn."""
        return sum(map(len, self._queues.values()))

    @asynccontextmanager
    async def turn(self, client: str = "") -> AsyncGenerator[None]:
        """Wait for a turn and hold it until the block is left; turns go round among clients.

        Raises:
            OverloadedError: All waiting places are taken, and no client has at least two more than this one.
        """
        await self._enter(client)
        start = time.monotonic()
        try:
            yield
        finally:
            self._mean_seconds += _LATEST * (time.monotonic() - start - self._mean_seconds)
            self._pass_on()

    async def _enter(self, client: str) -> None:
        if self.running < self._max_concurrent:
            self.running += 1
            return
        if self.waiting >= self._max_waiting:
            self._make_room(client)
        turn = asyncio.get_running_loop().create_future()
        self._queues.setdefault(client, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.done() or turn.cancelled():
                queue = self._queues.get(client)
                if queue is not None and turn in queue:
                    queue.remove(turn)
                    if not queue:
                        del self._queues[client]
            elif turn.exception() is None:
                self._pass_on()
            raise

    def _make_room(self, client: str) -> None:
        """Refuse the last caller of the client with most places, or the new one if its client would have as many."""
        seconds = self._mean_seconds * (self.waiting + 1) / self._max_concurrent
        refused = OverloadedError(
            f"{self.running} questions are being answered and {self.waiting} wait; try again later",
            min(max(seconds, 1.0), _LONGEST_RETRY_SECONDS),
        )
        greediest = max(self._queues, key=lambda name: len(self._queues[name]), default=client)
        queue = self._queues.get(greediest, deque())
        if len(queue) <= len(self._queues.get(client, ())) + 1:
            raise refused
        turn = queue.pop()
        if not turn.done():
            turn.set_exception(refused)

    def _pass_on(self) -> None:
        """Hand a turn to the next client in line; if there is none, free it."""
        while self._queues:
            client, queue = self._queues.popitem(last=False)
            turn = queue.popleft()
            if queue:
                self._queues[client] = queue
            if not turn.done():
                turn.set_result(None)
                return
        self.running -= 1
