"""A chat model that says what it is told to, for tests.

It records the requests, and can fail, wait, be held back, and break off a stream midway. It counts tokens as the
real models do, so budgets and accounting can be tested on it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager

from heliograph.chat.base import ChatModel, ChatReply, ChatRequest, Purpose
from heliograph.errors import InvalidRequestError, ModelError, ModelUnavailable
from heliograph.models import Usage
from heliograph.text.tokens import count_tokens

__all__ = ["FakeChatModel", "FakeReplies"]

FakeReplies = str | Sequence[str] | Mapping[str, str] | Callable[[ChatRequest], str]


class FakeChatModel(ChatModel):
    """Replies from a script.

    Args:
        replies: One text for all requests; texts to give in turn; a text per `Purpose` or per string that a message
            contains (the first that fits); or a function of the request.
        name: Name of the model.
        is_complete: Whether replies count as complete.
        delay_seconds: Wait before each reply, and before the first piece of each stream.
        piece_characters: Length of a stream's pieces.
        cut_stream_after: Pieces after which every stream fails with a transient `ModelUnavailable`; None means never.

    Attributes:
        requests: All requests in order of arrival, failed ones included.
        gate: While an event is set here, calls wait until it is set.
        under_way: Calls under way now.
        most_under_way: Most calls that were ever under way at once.
        cancelled: Calls that were cancelled, and streams that were left early.
        is_closed: Whether `close` was called.
    """

    def __init__(
        self,
        replies: FakeReplies = "",
        *,
        name: str = "fake",
        is_complete: bool = True,
        delay_seconds: float = 0.0,
        piece_characters: int = 8,
        cut_stream_after: int | None = None,
    ) -> None:
        self._replies = replies
        self._name = name
        self._is_complete = is_complete
        self._delay_seconds = delay_seconds
        self._piece_characters = piece_characters
        self._cut_stream_after = cut_stream_after
        self._given = 0
        self._failures: deque[ModelError] = deque()
        self.requests: list[ChatRequest] = []
        self.gate: asyncio.Event | None = None
        self.under_way = 0
        self.most_under_way = 0
        self.cancelled = 0
        self.is_closed = False

    @property
    def name(self) -> str:
        return self._name

    def fail_next(self, *errors: ModelError) -> None:
        """Let the next calls fail, one with each of these errors."""
        self._failures.extend(errors)

    async def complete(self, request: ChatRequest) -> ChatReply:
        with self._call(request):
            return await self._reply(request)

    async def stream(self, request: ChatRequest) -> AsyncIterator[str]:
        with self._call(request):
            reply = await self._reply(request)
            step = self._piece_characters
            for place, start in enumerate(range(0, len(reply.text), step)):
                if place == self._cut_stream_after:
                    raise ModelUnavailable(f"{self._name!r} broke off its stream", is_transient=True)
                yield reply.text[start : start + step]
                # Other tasks get their turn between two pieces, as with a real stream.
                await asyncio.sleep(0)
            if request.on_finish is not None:
                request.on_finish(reply)

    async def close(self) -> None:
        self.is_closed = True

    @contextmanager
    def _call(self, request: ChatRequest) -> Generator[None]:
        self.requests.append(request)
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            yield
        except (asyncio.CancelledError, GeneratorExit):
            self.cancelled += 1
            raise
        finally:
            self.under_way -= 1

    async def _reply(self, request: ChatRequest) -> ChatReply:
        failure = self._failures.popleft() if self._failures else None
        if self.gate is not None:
            await self.gate.wait()
        await asyncio.sleep(self._delay_seconds)
        if failure is not None:
            raise failure
        text = self._text(request)
        read = sum(count_tokens(message.content) for message in request.messages)
        return ChatReply(text, self._name, Usage(read, count_tokens(text)), self._is_complete)

    def _text(self, request: ChatRequest) -> str:
        replies = self._replies
        if isinstance(replies, str):
            return replies
        if isinstance(replies, Mapping):
            return _first_fitting(replies, request)
        if callable(replies):
            return replies(request)
        if self._given >= len(replies):
            raise InvalidRequestError(f"{self._name!r} has given all its {len(replies)} replies; give it more")
        self._given += 1
        return replies[self._given - 1]


def _first_fitting(replies: Mapping[str, str], request: ChatRequest) -> str:
    for key, text in replies.items():
        # A Purpose is a str too, so it is asked for first.
        if (
            key is request.purpose
            if isinstance(key, Purpose)
            else any(key in part.content for part in request.messages)
        ):
            return text
    raise InvalidRequestError(f"no reply is scripted for {request!r}; add one to the mapping")
