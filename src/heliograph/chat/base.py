"""Chat models: the contract (messages in, a reply or its pieces out), wrappers, and the model of the settings.

Wrappers limit and count calls, cache replies, and remove repetition loops and reasoning from replies.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Mapping
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import reduce
from operator import add
from types import MappingProxyType
from typing import Literal

from heliograph.calls.limit import CallGuard, RetryPolicy
from heliograph.errors import ModelError, SettingsError, StoreError, import_optional
from heliograph.ids import content_hash
from heliograph.models import Usage, utc_now
from heliograph.observing import OBSERVER, CallCount, ModelCalls
from heliograph.settings import ChatSettings
from heliograph.stores.base import CachedReply, ReplyCache
from heliograph.text.tokens import count_tokens


class Purpose(StrEnum):
    """The purpose of a call. Queries go before indexing, and tokens are counted per purpose."""

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
        json_mode: Ask for one JSON object if the provider supports that.
        max_output_tokens: Longest reply; None leaves it to the model.
        needed_tokens: A generous bound on the length of a sound reply, without reasoning; a model that exceeds it, or
            repeats itself, may be stopped, and its reply is then not complete. None sets no bound. It is no part of the
            question, so a cached reply stays valid.
        subject_id: Id of the chunk, entity or relation that the call is about, if any; a cached reply is dropped with
            the chunk, or with all mentions of the entity or relation.
        fresh: Call the model even if a reply is cached, and replace that. For a reply that proved unusable.
        on_finish: Called once with the finished reply, its cost and whether it is complete, after the last piece of a
            stream; never called by `complete`.
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
        text: The model's text, without its reasoning.
        usage: Tokens read and written, estimated if the provider does not count; for a cached reply, those spent when
            it was made.
        is_complete: False when the reply was cut, at a length limit or because it repeated itself.
        cache_key: Key under which it is cached; empty when it is not.
        from_cache: Whether it was read from the cache and cost nothing.
    """

    text: str
    model: str
    usage: Usage
    is_complete: bool = True
    cache_key: str = ""
    from_cache: bool = False


class ChatModel(ABC):
    """Answers messages. Implementations must be safe to call from many tasks at once."""

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
        """Release connections; closing twice does nothing."""


# The overhead of each message in the common chat formats: its role and two or three markers.
_TOKENS_PER_MESSAGE = 4


async def estimate_usage(request: ChatRequest, text: str) -> Usage:
    """Return the usage of a call, estimated with `o200k_base` from the request and the reply's text."""
    return await asyncio.to_thread(_count, request, text)


def _count(request: ChatRequest, text: str) -> Usage:
    read = sum(count_tokens(message.content) + _TOKENS_PER_MESSAGE for message in request.messages)
    return Usage(read, count_tokens(text))


class WrapperChatModel(ChatModel):
    """Passes everything to the model inside, which is closed with it; subclasses change one aspect each."""

    def __init__(self, inner: ChatModel) -> None:
        self.inner = inner

    @property
    def name(self) -> str:
        return self.inner.name

    async def complete(self, request: ChatRequest) -> ChatReply:
        return await self.inner.complete(request)

    def stream(self, request: ChatRequest) -> AsyncIterator[str]:
        return self.inner.stream(request)

    async def recall(self, request: ChatRequest) -> ChatReply | None:
        return await self.inner.recall(request)

    async def close(self) -> None:
        await self.inner.close()


@asynccontextmanager
async def open_stream(model: ChatModel, request: ChatRequest) -> AsyncGenerator[AsyncIterator[str]]:
    """Yield a stream's pieces, and end the call when the block is left in any way.

    Without this, a stream that is left early would run on until garbage collection.
    """
    pieces = model.stream(request)
    try:
        yield pieces
    finally:
        if isinstance(pieces, AsyncGenerator):
            await pieces.aclose()


# Stopping replies that go on endlessly: small models fall into loops and write until their window is full.
#
# For each piece of a reply, it decides whether the reply is to end there, because its end repeats itself or because it
# is longer than any sound reply to its task. Reasoning is watched for loops as well, but has no bound. Time is linear
# in the length of the reply.

# Shorter repeats are tables, rules and lists.
_LEAST_LOOP = 600
_LEAST_TIMES = 3
# The longest detectable loop is a third of this.
_WINDOW = 12_000
_STEP = 200
_PROBE = 80
_MOST_PROBES = 16
# Prose of any language has at most this many bytes per token.
_BYTES_PER_TOKEN = 4


class ReplyBounds:
    """Watches one reply, which may have about `most_tokens`; None sets no bound."""

    def __init__(self, most_tokens: int | None) -> None:
        self._bytes_left = None if most_tokens is None else most_tokens * _BYTES_PER_TOKEN
        self._tail = ""
        self._unchecked = 0

    def passes(self, written: str, shown: str) -> bool:
        """Return whether with this piece the reply, reasoning included, is too long or repeats itself for too long."""
        self._tail += written
        self._unchecked += len(written)
        if self._bytes_left is not None:
            self._bytes_left -= len(shown.encode("utf-8", "replace"))
            if self._bytes_left < 0:
                return True
        if self._unchecked < _STEP:
            return False
        self._unchecked = 0
        self._tail = self._tail[-_WINDOW:]
        return _period(self._tail) > 0


def without_repeats(text: str) -> str:
    """Return a text whose end repeats with at most two repeats left; any other unchanged."""
    period = _period(text[-_WINDOW:])
    if not period:
        return text
    start = len(text) - period - _repeated(text, period)
    # The start of a repeat is unknown, so only two of them surely contain a whole one.
    return text[: start + 2 * period]


def _period(text: str) -> int:
    """Return the period, in characters, with which the end of a text repeats three times or more; 0 if it does not."""
    length, place = _PROBE, len(text) - _PROBE
    for _ in range(_MOST_PROBES):
        # The previous occurrence of the text's end.
        place = text.rfind(text[-length:], 0, place + length - 1)
        if place < 0:
            return 0
        period = len(text) - length - place
        repeated = _repeated(text, period)
        if repeated + period >= max(_LEAST_LOOP, _LEAST_TIMES * period):
            return period
        # A longer period cannot break off where this one does.
        length, place = repeated + 1, len(text) - repeated - 1 - period
    return 0


def _repeated(text: str, period: int) -> int:
    """Return how many characters at the end of a text equal those one period before them."""
    low, high = 0, len(text) - period
    while low < high:
        middle = (low + high + 1) // 2
        is_same = text[len(text) - middle :] == text[len(text) - middle - period : len(text) - period]
        low, high = (middle, high) if is_same else (low, middle - 1)
    return low


# Removing the reasoning that a model writes before its reply.
#
# Reasoning models put it between `<think>` and `</think>` at the start of a reply when the service does not separate
# it. Tags later in a reply are text like any other.

_OPENINGS = {"<think>": "</think>", "<thinking>": "</thinking>"}


class ReasoningFilter:
    """Filters a reply that comes in pieces.

    The output adds up to the same text however the reply is cut into pieces. Leading space is left out too.
    """

    def __init__(self) -> None:
        self._held = ""
        self._closing = ""
        self._is_passing = False

    def feed(self, piece: str) -> str:
        """Return the text that can be shown after this piece; often all of it, sometimes nothing."""
        if self._is_passing:
            return piece
        self._held += piece
        while self._advance():
            pass
        return self._release() if self._is_passing else ""

    def finish(self) -> str:
        """Return the text held back as the possible start of a tag; drops reasoning that never closed."""
        return "" if self._closing else self._release()

    def _advance(self) -> bool:
        """Take one step through the held text; return whether another may follow."""
        if self._closing:
            found = re.search(re.escape(self._closing), self._held, re.IGNORECASE)
            if found is None:
                # Drop all but a possible beginning of the closing tag.
                self._held = self._held[-(len(self._closing) - 1) :]
                return False
            self._held, self._closing = self._held[found.end() :], ""
            return True
        self._held = self._held.lstrip()
        start = self._held[: max(map(len, _OPENINGS))].lower()
        for opening, closing in _OPENINGS.items():
            if start.startswith(opening):
                self._held, self._closing = self._held[len(opening) :], closing
                return True
        self._is_passing = not any(opening.startswith(start) for opening in _OPENINGS)
        return False

    def _release(self) -> str:
        held, self._held = self._held, ""
        return held


def strip_reasoning(text: str) -> str:
    """Return a whole reply without the reasoning at its start."""
    reasoning = ReasoningFilter()
    return reasoning.feed(text) + reasoning.finish()


# Counting the cost of chat calls, per purpose.
#
# Every call that reaches the model is counted, failed and cancelled ones too; cached replies are not. Tokens are the
# provider's own count if it gives one, else an estimate.


@dataclass(frozen=True, slots=True)
class ChatUsage:
    """A snapshot of the counts, for every purpose."""

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
        OBSERVER.get().tell_model_calls(
            ModelCalls("chat", purpose.value, counted.calls, counted.failures, counted.usage)
        )

    def usage(self) -> ChatUsage:
        """Return the counts so far, as a snapshot."""
        return ChatUsage(MappingProxyType(dict(self._counts)))


# Queries go before indexing.
_PRIORITIES = {Purpose.KEYWORDS: 0, Purpose.RERANK: 0, Purpose.ANSWER: 0, Purpose.EXTRACT: 10, Purpose.SUMMARY: 10}


class GuardedChatModel(WrapperChatModel):
    """Calls a model within limits, and counts each try.

    A stream holds its slot until it is finished or closed. It is retried only until its first piece, since shown text
    cannot be taken back. The timeout applies between two pieces, without the time that the reader takes.

    Args:
        inner: The model to call.
        guard: The limits; None sets none.
        meter: Where to count; None makes a meter of its own.
    """

    def __init__(self, inner: ChatModel, guard: CallGuard | None = None, meter: ChatMeter | None = None) -> None:
        super().__init__(inner)
        self._guard = guard or CallGuard()
        self._meter = meter or ChatMeter()

    def usage(self) -> ChatUsage:
        """Return the counts so far."""
        return self._meter.usage()

    async def complete(self, request: ChatRequest) -> ChatReply:
        return await self._guard.retry(lambda: self._complete(request))

    async def _complete(self, request: ChatRequest) -> ChatReply:
        async with self._guard.slot(_PRIORITIES[request.purpose]):
            with self._counted(request.purpose):
                reply = await self._guard.within(
                    self.inner.complete(request), f"chat model {self.name!r} gave no reply"
                )
            self._meter.count(request.purpose, CallCount(usage=reply.usage))
            return reply

    async def stream(self, request: ChatRequest) -> AsyncIterator[str]:
        async with AsyncExitStack() as stack:
            first, pieces = await self._guard.retry(lambda: self._start(request, stack))
            if first is None:
                return
            yield first
            async for piece in pieces:
                yield piece

    async def _start(self, request: ChatRequest, stack: AsyncExitStack) -> tuple[str | None, AsyncIterator[str]]:
        """Return a new stream's first piece (None if it has none) and the rest; `stack` closes the stream."""
        async with AsyncExitStack() as attempt:
            pieces = await attempt.enter_async_context(aclosing(self._stream(request)))
            first = await anext(pieces, None)
            stack.push_async_exit(attempt.pop_all())
            return first, pieces

    async def _stream(self, request: ChatRequest) -> AsyncGenerator[str]:
        """Yield the pieces of one try; if it breaks off or is left early, tokens are estimated."""
        replies: list[ChatReply] = []
        seen: list[str] = []

        def finish(reply: ChatReply) -> None:
            replies.append(reply)
            if request.on_finish is not None:
                request.on_finish(reply)

        async with self._guard.slot(_PRIORITIES[request.purpose]):
            try:
                with self._counted(request.purpose):
                    async with open_stream(self.inner, replace(request, on_finish=finish)) as pieces:
                        failure = f"chat model {self.name!r} gave no piece of a streamed reply"
                        while (piece := await self._guard.within(anext(pieces, None), failure)) is not None:
                            seen.append(piece)
                            yield piece
            finally:
                if replies or seen:
                    usage = replies[0].usage if replies else await estimate_usage(request, "".join(seen))
                    self._meter.count(request.purpose, CallCount(usage=usage))

    @contextmanager
    def _counted(self, purpose: Purpose) -> Generator[None]:
        self._meter.count(purpose, CallCount(calls=1))
        try:
            yield
        except ModelError:
            self._meter.count(purpose, CallCount(failures=1))
            raise


# No model call is paid for twice: finished replies are cached, and equal concurrent calls share one.
#
# Replies for extraction, summaries and keywords are cached. Answers are not: the query package knows their dependencies
# (parameters, data version), and caches them itself. Streams and replies cut at a length limit are not cached. A key is
# `default:<purpose>:<hash>` over all that determines a reply: model, messages, JSON mode and length.

_LOG = logging.getLogger(__name__)
_OF_QUESTIONS = frozenset({Purpose.KEYWORDS, Purpose.RERANK})
_KEPT = frozenset({Purpose.EXTRACT, Purpose.SUMMARY}) | _OF_QUESTIONS


@dataclass(slots=True)
class _SharedCall:
    """One call under way, how many callers wait for it, and whether one of them has taken the reply as its own."""

    task: asyncio.Task[ChatReply]
    waiting: int = 0
    is_claimed: bool = False


class CachedChatModel(WrapperChatModel):
    """Looks for a cached reply first.

    Callers with the same request at the same moment share one call. It goes on while any of them waits and is cancelled
    with the last; one of them gets the reply as its own, the others get it marked `from_cache`, so that its cost is
    counted once.
    """

    def __init__(self, inner: ChatModel, replies: ReplyCache) -> None:
        super().__init__(inner)
        self._replies = replies
        self._under_way: dict[tuple[str, bool], _SharedCall] = {}

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Return the reply, cached or new.

        Raises:
            ModelError: The model failed.
            StoreError: The cache cannot be read, or a reply for indexing cannot be stored.
        """
        if request.purpose not in _KEPT:
            return await self.inner.complete(request)
        key = self._key(request)
        place = (key, request.fresh)

        def forget(task: asyncio.Task[ChatReply]) -> None:
            known = self._under_way.get(place)
            if known is not None and known.task is task:
                del self._under_way[place]
            if not task.cancelled():
                task.exception()  # Marks the exception as retrieved, because no caller may be left to retrieve it.

        shared = self._under_way.get(place)
        if shared is None:
            shared = self._under_way[place] = _SharedCall(asyncio.create_task(self._fetch(key, request)))
            shared.task.add_done_callback(forget)
        shared.waiting += 1
        try:
            # The shield keeps the call alive for the others when this caller is cancelled.
            reply = await asyncio.shield(shared.task)
        finally:
            shared.waiting -= 1
            if not shared.waiting and not shared.task.done():
                # Removed at once, so that a later caller starts a new call instead of sharing a dying one.
                del self._under_way[place]
                shared.task.cancel()
                await asyncio.wait({shared.task})
        if shared.is_claimed:
            return replace(reply, from_cache=True)
        shared.is_claimed = True
        return reply

    async def recall(self, request: ChatRequest) -> ChatReply | None:
        if request.purpose not in _KEPT:
            return None
        return await self._recall(self._key(request))

    async def _fetch(self, key: str, request: ChatRequest) -> ChatReply:
        kept = None if request.fresh else await self._recall(key)
        OBSERVER.get().tell_lookup("replies", is_hit=kept is not None)
        if kept is not None:
            return kept
        reply = await self.inner.complete(request)
        if not reply.is_complete:
            return reply
        try:
            await self._replies.put_reply(
                CachedReply(key, reply.text, reply.model, reply.usage, utc_now(), request.subject_id)
            )
        except StoreError as error:
            # With a read-only store, questions still work. Indexing stops: it could not commit what it pays for.
            if request.purpose not in _OF_QUESTIONS:
                raise
            _LOG.warning("a reply for %s could not be kept: %s", request.purpose.value, error)
            return reply
        return replace(reply, cache_key=key)

    async def _recall(self, key: str) -> ChatReply | None:
        kept = await self._replies.get_reply(key)
        return ChatReply(kept.text, kept.model, kept.usage, cache_key=key, from_cache=True) if kept else None

    def _key(self, request: ChatRequest) -> str:
        messages = [(message.role, message.content) for message in request.messages]
        arguments = json.dumps([self.name, messages, request.json_mode, request.max_output_tokens])
        return f"default:{request.purpose.value}:{content_hash(arguments)}"


# Builds the chat model of the settings, with its wrappers in the one order that works.
#
# From the outside in, with the reason:
#
# 1. cache: a cached reply costs nothing, so it waits for no slot and is not counted;
# 2. retry: outside the limit, so that a call holds no slot while it waits for its next try, and queues with its
#    priority when its time comes;
# 3. limit: outside the timeout, so that waiting in the queue does not count as the model's time;
# 4. meter: inside the limit and the retries, so that it counts actual calls, each try on its own;
# 5. timeout: inside the meter, so that a timeout counts as a failure of that try;
# 6. the provider.


def build_chat_model(
    settings: ChatSettings, replies: ReplyCache | None, meter: ChatMeter | None = None
) -> ChatModel | None:
    """Return the chat model of the settings, or None when they name none.

    Args:
        settings: Service, model and limits.
        replies: The reply cache; None caches none.
        meter: Where to count the cost; None makes a meter of its own.

    Raises:
        SettingsError: The address or the key cannot be used.
    """
    model = connect_chat_model(settings)
    return None if model is None else wrap_chat_model(model, settings, replies, meter)


def connect_chat_model(settings: ChatSettings) -> ChatModel | None:
    """Return the bare provider of the settings, for several workspaces to wrap, or None when they name none.

    Raises:
        SettingsError: The address or the key cannot be used, or there is an address and no model.
        MissingDependencyError: There is a model, and the extra `openai` is not installed.
    """
    if not settings.model.strip():
        if settings.base_url.strip():
            raise SettingsError("chat.base_url is set, but chat.model is empty; name the model, or leave both out")
        return None
    # Imported on use: the SDK behind it takes longer to import than all of Heliograph.
    return import_optional("heliograph.chat.openai", "openai").OpenAIChatModel(settings)


def wrap_chat_model(
    model: ChatModel, settings: ChatSettings, replies: ReplyCache | None, meter: ChatMeter | None = None
) -> ChatModel:
    """Wrap any chat model (a caller's own, for example) in the same wrappers.

    Args:
        model: The model to wrap; its own `name` is part of every cache key.
        settings: Timeout, concurrency, retries, and whether to cache replies.
        replies: The reply cache; None caches none.
        meter: Where to count the cost; None makes a meter of its own.
    """
    guard = CallGuard(settings.max_concurrency, settings.timeout_seconds, RetryPolicy(settings.max_retries))
    guarded = GuardedChatModel(model, guard, meter)
    return CachedChatModel(guarded, replies) if settings.cache and replies is not None else guarded
