"""Requests that came in and are not answered yet, so that the end of the input does not break off what is under way.

The SDK cancels everything when its input ends. Here the end is told to it once all that was asked is answered, or the
time for that has passed. A request that its client has cancelled waits for no answer. What came in and is no message is
answered here, since the SDK answers nothing to it.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from mcp.shared.message import SessionMessage
from mcp.types import JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse, RequestId

from heliograph.mcp.malformed import answer_malformed

_CANCELLED = "notifications/cancelled"
Incoming = SessionMessage | Exception


class Unanswered:
    """Counts requests of one connection.

    Args:
        patience_seconds: How long the end of the input is held back at the most.
    """

    def __init__(self, patience_seconds: float) -> None:
        self._patience_seconds = patience_seconds
        self._ids: set[RequestId] = set()
        self._none_left = asyncio.Event()
        self._none_left.set()

    def reading(self, stream: Any, replies: Writing) -> Reading:
        """Return a stream with its end held back until there is nothing left to answer.

        Args:
            stream: What comes in.
            replies: Where it is told that something is no message.
        """
        return Reading(stream, self, replies)

    def writing(self, stream: Any) -> Writing:
        """Return a stream whose answers are noted once they are handed on."""
        return Writing(stream, self)

    def note_read(self, item: Incoming) -> None:
        """Note what came in."""
        message = None if isinstance(item, Exception) else item.message
        if isinstance(message, JSONRPCRequest):
            self._ids.add(message.id)
            self._none_left.clear()
        elif isinstance(message, JSONRPCNotification) and message.method == _CANCELLED:
            self._settle((message.params or {}).get("requestId"))

    def note_written(self, item: SessionMessage) -> None:
        """Note what went out."""
        if isinstance(item.message, JSONRPCResponse | JSONRPCError):
            self._settle(item.message.id)

    async def wait(self) -> None:
        """Wait until nothing is left to answer, or patience is at its end."""
        # What is left then is cancelled by the SDK, which loses no document.
        with suppress(TimeoutError):
            async with asyncio.timeout(self._patience_seconds):
                await self._none_left.wait()

    def _settle(self, id_: RequestId | None) -> None:
        if id_ is not None:
            self._ids.discard(id_)
        if not self._ids:
            self._none_left.set()


class Reading:
    """What the SDK takes for its input: all of a stream of its own, and the end only when it may come."""

    def __init__(self, stream: Any, unanswered: Unanswered, replies: Writing) -> None:
        self._stream = stream
        self._unanswered = unanswered
        self._replies = replies

    @property
    def last_context(self) -> object:
        """Where the SDK finds the context of who sent the last message."""
        return getattr(self._stream, "last_context", None)

    async def receive(self) -> Incoming:
        """Return the next message; an error of the stream if there is none any more."""
        return await self._taken(await self._stream.receive())

    async def aclose(self) -> None:
        """Close the stream."""
        await self._stream.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Incoming:
        try:
            item = await self._stream.__anext__()
        except StopAsyncIteration:
            await self._unanswered.wait()
            raise
        return await self._taken(item)

    async def _taken(self, item: Incoming) -> Incoming:
        self._unanswered.note_read(item)
        if isinstance(item, Exception) and (reply := answer_malformed(item)) is not None:
            await self._replies.send(reply)
        return item

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> bool | None:
        return await self._stream.__aexit__(exc_type, exc_val, exc_tb)


class Writing:
    """What the SDK takes for its output."""

    def __init__(self, stream: Any, unanswered: Unanswered) -> None:
        self._stream = stream
        self._unanswered = unanswered

    async def send(self, item: SessionMessage, /) -> None:
        """Hand a message on."""
        try:
            await self._stream.send(item)
        finally:
            self._unanswered.note_written(item)

    async def aclose(self) -> None:
        """Close the stream."""
        await self._stream.aclose()

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> bool | None:
        return await self._stream.__aexit__(exc_type, exc_val, exc_tb)
