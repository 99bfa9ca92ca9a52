"""Counting what chat calls cost, per purpose.

Every call that reaches the model is counted, failed and cancelled ones too; what comes from the cache is not. Tokens
are the provider's own count where it tells, else an estimate.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import add
from types import MappingProxyType

from heliograph.chat.base import ChatModel, ChatReply, ChatRequest, Purpose
from heliograph.chat.usage import estimate_usage
from heliograph.chat.wrapper import WrapperChatModel, open_stream
from heliograph.errors import ModelError
from heliograph.models import Usage
from heliograph.observing import ModelCalls, tell_model_calls


@dataclass(frozen=True, slots=True)
class CallCount:
    """Calls of one kind: how many were made, how many of them failed, and the tokens that came back."""

    calls: int = 0
    failures: int = 0
    usage: Usage = field(default_factory=Usage)

    def __add__(self, other: CallCount) -> CallCount:
        return CallCount(self.calls + other.calls, self.failures + other.failures, self.usage + other.usage)


@dataclass(frozen=True, slots=True)
class ChatUsage:
    """What was counted up to one moment; every purpose is there."""

    by_purpose: Mapping[Purpose, CallCount]

    @property
    def total(self) -> CallCount:
        """The sum over all purposes."""
        return reduce(add, self.by_purpose.values(), CallCount())


class ChatMeter:
    """Running counts, for one or several models within one event loop."""

    def __init__(self) -> None:
        self._counts = dict.fromkeys(Purpose, CallCount())

    def count(self, purpose: Purpose, counted: CallCount) -> None:
        """Add to the counts of a purpose."""
        self._counts[purpose] += counted
        tell_model_calls(ModelCalls("chat", purpose.value, counted.calls, counted.failures, counted.usage))

    def usage(self) -> ChatUsage:
        """Return the counts so far; later calls do not change it."""
        return ChatUsage(MappingProxyType(dict(self._counts)))


class MeteredChatModel(WrapperChatModel):
    """Counts the calls to a model.

    Args:
        inner: The model to call.
        meter: Where to count; None makes a meter of its own.
    """

    def __init__(self, inner: ChatModel, meter: ChatMeter | None = None) -> None:
        super().__init__(inner)
        self._meter = meter or ChatMeter()

    def usage(self) -> ChatUsage:
        """Return the counts so far."""
        return self._meter.usage()

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Return the inner model's reply."""
        self._meter.count(request.purpose, CallCount(calls=1))
        try:
            reply = await self.inner.complete(request)
        except ModelError:
            self._meter.count(request.purpose, CallCount(failures=1))
            raise
        self._meter.count(request.purpose, CallCount(usage=reply.usage))
        return reply

    async def stream(self, request: ChatRequest) -> AsyncIterator[str]:
        """Yield the inner model's pieces; of a stream that breaks off or is left early, tokens are estimated."""
        self._meter.count(request.purpose, CallCount(calls=1))
        replies: list[ChatReply] = []
        seen: list[str] = []
        try:
            async with open_stream(self.inner, replace(request, on_finish=_both(replies.append, request))) as pieces:
                async for piece in pieces:
                    seen.append(piece)
                    yield piece
        except ModelError:
            self._meter.count(request.purpose, CallCount(failures=1))
            raise
        finally:
            if replies or seen:
                usage = replies[0].usage if replies else await estimate_usage(request, "".join(seen))
                self._meter.count(request.purpose, CallCount(usage=usage))


def _both(first: Callable[[ChatReply], None], request: ChatRequest) -> Callable[[ChatReply], None]:
    def call(reply: ChatReply) -> None:
        first(reply)
        if request.on_finish is not None:
            request.on_finish(reply)

    return call
