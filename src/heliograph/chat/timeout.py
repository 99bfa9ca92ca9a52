"""A bound on how long a chat call may take."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from heliograph.chat.base import ChatModel, ChatReply, ChatRequest
from heliograph.chat.wrapper import WrapperChatModel, open_stream
from heliograph.errors import ModelTimeout


class TimedChatModel(WrapperChatModel):
    """Cancels a call that takes too long: a whole reply in all, a stream between two pieces.

    Time that the reader of a stream takes between two pieces does not count.

    Args:
        inner: The model to call.
        timeout_seconds: Longest wait.
    """

    def __init__(self, inner: ChatModel, timeout_seconds: float) -> None:
        super().__init__(inner)
        self._timeout_seconds = timeout_seconds

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Return the inner model's reply.

        Raises:
            ModelTimeout: It did not come in time.
        """
        try:
            async with asyncio.timeout(self._timeout_seconds):
                return await self.inner.complete(request)
        except TimeoutError:
            raise self._error("reply") from None

    async def stream(self, request: ChatRequest) -> AsyncIterator[str]:
        """Yield the inner model's pieces.

        Raises:
            ModelTimeout: The next piece did not come in time.
        """
        async with open_stream(self.inner, request) as pieces:
            while (piece := await self._next(pieces)) is not None:
                yield piece

    async def _next(self, pieces: AsyncIterator[str]) -> str | None:
        try:
            async with asyncio.timeout(self._timeout_seconds):
                return await anext(pieces, None)
        except TimeoutError:
            raise self._error("piece of a streamed reply") from None

    def _error(self, awaited: str) -> ModelTimeout:
        return ModelTimeout(
            f"chat model {self.name!r} gave no {awaited} within {self._timeout_seconds:g} seconds; "
            "try again, or raise `timeout_seconds`"
        )
