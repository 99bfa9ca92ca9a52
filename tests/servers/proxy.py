"""A TCP proxy on loopback that cuts, delays, stalls and refuses connections to a server, for tests of faults.

Its clients connect to `port`; what is done to them is said by `delay_seconds`, `is_stalled`, `cut` and `refuse`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

__all__ = ["FaultyProxy", "faulty_proxy"]

_PIECE = 65_536
_ROUNDS_OF_CLOSING = 3
_Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class FaultyProxy:
    """Passes bytes on, as long as it is told to.

    Args:
        connect: Opens a connection to the server.

    Attributes:
        port: Where it listens.
        delay_seconds: How long each piece of data is held back.
        is_stalled: Whether data is held back until further notice.
    """

    def __init__(self, connect: Callable[[], Awaitable[_Streams]]) -> None:
        self.port = 0
        self.delay_seconds = 0.0
        self.is_stalled = False
        self._connect = connect
        self._listener: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def accept(self) -> None:
        """Listen, on the same port each time."""
        if self._listener is None:
            self._listener = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
            self.port = int(self._listener.sockets[0].getsockname()[1])

    async def refuse(self) -> None:
        """Listen no more, and cut what is open."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        self.cut()
        await asyncio.sleep(0)

    def cut(self) -> None:
        """End all connections at once, in the middle of whatever passes."""
        for writer in self._writers:
            writer.transport.abort()

    def heal(self) -> None:
        """Pass everything on again at once."""
        self.delay_seconds, self.is_stalled = 0.0, False

    async def close(self) -> None:
        """End everything, also what was accepted a moment ago and is only now beginning."""
        for _ in range(_ROUNDS_OF_CLOSING):
            await self.refuse()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        ends = [writer]
        self._writers.add(writer)
        try:
            # Whoever ends this ends it in silence: asyncio logs what a connection's task raises.
            with suppress(asyncio.CancelledError, OSError):
                far_reader, far_writer = await self._connect()
                ends.append(far_writer)
                self._writers.add(far_writer)
                await asyncio.gather(self._pass(reader, far_writer), self._pass(far_reader, writer))
        finally:
            for end in ends:
                end.transport.abort()
                self._writers.discard(end)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass one direction on until either end is gone, which ends the other direction, too."""
        with suppress(OSError):
            while piece := await reader.read(_PIECE):
                while self.is_stalled:  # noqa: ASYNC110 (whoever stalls it says nothing when it ends)
                    await asyncio.sleep(0.02)
                if self.delay_seconds:
                    await asyncio.sleep(self.delay_seconds)
                writer.write(piece)
                await writer.drain()
        writer.transport.abort()


@asynccontextmanager
async def faulty_proxy(connect: Callable[[], Awaitable[_Streams]]) -> AsyncGenerator[FaultyProxy]:
    """Run a proxy before a server.

    Args:
        connect: Opens a connection to the server.
    """
    proxy = FaultyProxy(connect)
    await proxy.accept()
    try:
        yield proxy
    finally:
        await proxy.close()
