"""Trying a chat call again after a failure that may pass."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack

from heliograph.calls.retry import RetryPolicy, call_with_retry
from heliograph.chat.base import ChatModel, ChatReply, ChatRequest
from heliograph.chat.wrapper import WrapperChatModel, open_stream


class RetryingChatModel(WrapperChatModel):
    """Tries again by a policy; a stream only until its first piece, since what was shown cannot be taken back.

    Args:
        inner: The model to call.
        policy: How often and how long to wait.
        sleep: Waits that many seconds.
    """

    def __init__(
        self, inner: ChatModel, policy: RetryPolicy, *, sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    ) -> None:
        super().__init__(inner)
        self._policy = policy
        self._sleep = sleep

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Return the inner model's reply to the first call that succeeds."""
        return await call_with_retry(lambda: self.inner.complete(request), self._policy, sleep=self._sleep)

    async def stream(self, request: ChatRequest) -> AsyncIterator[str]:
        """Yield the pieces of the first stream that gets as far as its first piece."""
        async with AsyncExitStack() as stack:
            first, pieces = await call_with_retry(lambda: self._start(request, stack), self._policy, sleep=self._sleep)
            if first is None:
                return
            yield first
            async for piece in pieces:
                yield piece

    async def _start(self, request: ChatRequest, stack: AsyncExitStack) -> tuple[str | None, AsyncIterator[str]]:
        """Return a new stream's first piece (None if it has none) and the rest; `stack` closes the stream."""
        async with AsyncExitStack() as attempt:
            pieces = await attempt.enter_async_context(open_stream(self.inner, request))
            first = await anext(pieces, None)
            stack.push_async_exit(attempt.pop_all())
            return first, pieces
