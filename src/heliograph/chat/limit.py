"""A bound on calls under way, in which queries go before indexing."""

from __future__ import annotations

from collections.abc import AsyncIterator

from heliograph.calls.limit import PriorityLimiter
from heliograph.chat.base import ChatModel, ChatReply, ChatRequest, Purpose
from heliograph.chat.wrapper import WrapperChatModel, open_stream

_PRIORITIES = {Purpose.KEYWORDS: 0, Purpose.ANSWER: 0, Purpose.EXTRACT: 10, Purpose.SUMMARY: 10}


class LimitedChatModel(WrapperChatModel):
    """Lets at most so many calls run at once; a stream counts until it is finished or closed.

    Args:
        inner: The model to call.
        max_concurrency: Calls at once; at least 1.
    """

    def __init__(self, inner: ChatModel, max_concurrency: int) -> None:
        super().__init__(inner)
        self._limiter = PriorityLimiter(max_concurrency)

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Return the inner model's reply, after waiting for a slot."""
        async with self._limiter.slot(_PRIORITIES[request.purpose]):
            return await self.inner.complete(request)

    async def stream(self, request: ChatRequest) -> AsyncIterator[str]:
        """Yield the inner model's pieces, after waiting for a slot."""
        async with self._limiter.slot(_PRIORITIES[request.purpose]), open_stream(self.inner, request) as pieces:
            async for piece in pieces:
                yield piece
