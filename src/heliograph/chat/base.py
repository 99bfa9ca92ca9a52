"""The contract of a chat model: messages in, a reply or a stream of its pieces out."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from heliograph.models import Usage
from heliograph.text.tokens import count_tokens


class Purpose(StrEnum):
    """What a call is for. Queries go before indexing, and tokens are counted per purpose."""

    EXTRACT = "extract"
    SUMMARY = "summary"
    KEYWORDS = "keywords"
    ANSWER = "answer"
    RERANK = "rerank"


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One turn of a conversation."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """One call.

    Attributes:
        messages: The conversation, oldest first.
        json_mode: Ask for one JSON object where the provider offers that.
        max_output_tokens: Longest reply; None leaves it to the model.
        needed_tokens: How long a sound reply can be, generously, without thoughts; a model that goes on, or repeats
            itself, may be stopped, and its reply is then not complete. None lets it go on. It says nothing of what is
            asked, so a kept reply stands.
        subject_id: Id of the chunk, entity or relation that it is about, if any; a cached reply is dropped with the
            chunk, or with whatever was said of the entity or relation.
        fresh: Ask the model even if a reply is kept; the new one takes its place. For a reply that proved unusable.
        on_finish: Called once with the finished reply when a stream has given its last piece, and so told what it
            cost and whether it is complete; never called by `complete`.
    """

    messages: tuple[ChatMessage, ...]
    purpose: Purpose
    json_mode: bool = False
    max_output_tokens: int | None = None
    needed_tokens: int | None = field(default=None, compare=False)
    subject_id: str = ""
    fresh: bool = False
    on_finish: Callable[[ChatReply], None] | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class ChatReply:
    """A finished reply.

    Attributes:
        text: What the model said, without its reasoning.
        usage: Tokens read and written, estimated where the provider does not tell; those of a reply from the cache
            were spent when it was made.
        is_complete: False when the reply was cut, at a length limit or because it repeated itself.
        cache_key: Key under which it is kept; empty when it is not.
        from_cache: Whether it was read from the cache and cost nothing.
    """

    text: str
    model: str
    usage: Usage
    is_complete: bool = True
    cache_key: str = ""
    from_cache: bool = False


class ChatModel(ABC):
    """Answers messages. Implementations are safe to call from many tasks at once."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Identity of model and sampling settings; part of every cache key."""

    @abstractmethod
    async def complete(self, request: ChatRequest) -> ChatReply:
        """Return the whole reply; its text is never empty.

        Raises:
            ModelError: The model failed; its subclass says how.
        """

    @abstractmethod
    def stream(self, request: ChatRequest) -> AsyncIterator[str]:
        """Yield the reply piece by piece as it comes.

        Closing the iterator early (`aclose()`; `break` alone leaves that to the garbage collector) cancels the call.

        Raises:
            ModelError: On the first or any later piece.
        """

    async def recall(self, request: ChatRequest) -> ChatReply | None:  # noqa: ARG002 (most models keep nothing)
        """Return the cached reply to this request, or None; never calls a model. Raises `StoreError`."""
        return None

    async def close(self) -> None:  # noqa: B027 (most models hold nothing)
        """Let go of connections; closing twice does nothing."""


# What wraps each message in the common chat formats: its role and two or three markers.
_TOKENS_PER_MESSAGE = 4


async def estimate_usage(request: ChatRequest, text: str) -> Usage:
    """Return the `o200k_base` tokens of a request and of the text that came back."""
    return await asyncio.to_thread(_count, request, text)


def _count(request: ChatRequest, text: str) -> Usage:
    read = sum(count_tokens(message.content) + _TOKENS_PER_MESSAGE for message in request.messages)
    return Usage(read, count_tokens(text))
