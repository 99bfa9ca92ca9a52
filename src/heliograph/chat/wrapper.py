"""What chat-model wrappers share: passing everything through, and streams that are surely closed."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

from heliograph.chat.base import ChatModel, ChatReply, ChatRequest


class WrapperChatModel(ChatModel):
    """Passes everything to the model inside; subclasses change what they are about and nothing else.

    Args:
        inner: The model inside; it is closed with its wrapper.
    """

    def __init__(self, inner: ChatModel) -> None:
        self.inner = inner

    @property
    def name(self) -> str:
        """The inner model's: a wrapper does not change what is said."""
        return self.inner.name

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Return the inner model's reply."""
        return await self.inner.complete(request)

    def stream(self, request: ChatRequest) -> AsyncIterator[str]:
        """Yield the inner model's pieces."""
        return self.inner.stream(request)

    async def recall(self, request: ChatRequest) -> ChatReply | None:
        """Return what the inner model keeps."""
        return await self.inner.recall(request)

    async def close(self) -> None:
        """Close the inner model."""
        await self.inner.close()


@asynccontextmanager
async def open_stream(model: ChatModel, request: ChatRequest) -> AsyncGenerator[AsyncIterator[str]]:
    """Give a stream's pieces, and end the call when the block is left, however that happens.

    Without this a stream that is left early would run on until the garbage collector finds it.
    """
    pieces = model.stream(request)
    try:
        yield pieces
    finally:
        if isinstance(pieces, AsyncGenerator):
            await pieces.aclose()
