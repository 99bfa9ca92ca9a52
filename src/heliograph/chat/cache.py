"""No model call is paid for twice: finished replies are kept, and equal calls at the same moment share one.

Kept are replies for extraction, summaries and keywords. Answers are not: what they depend on (parameters, data
version) is known to the query room, which keeps them itself. Streams and replies cut at a length limit pass through
unkept. A key is `default:<purpose>:<hash>` over all that decides a reply: model, messages, JSON mode and length.
"""

from __future__ import annotations

import asyncio
import json
import logging
from dataclasses import dataclass, replace

from heliograph.chat.base import ChatModel, ChatReply, ChatRequest, Purpose
from heliograph.chat.wrappers import WrapperChatModel
from heliograph.errors import StoreError
from heliograph.ids import content_hash
from heliograph.models import utc_now
from heliograph.observing import tell_lookup
from heliograph.stores.base import CachedReply, ReplyCache

_LOG = logging.getLogger(__name__)
_OF_QUESTIONS = frozenset({Purpose.KEYWORDS, Purpose.RERANK})
_KEPT = frozenset({Purpose.EXTRACT, Purpose.SUMMARY}) | _OF_QUESTIONS


@dataclass(slots=True)
class _Flight:
    """One call under way, and who waits for it."""

    task: asyncio.Task[ChatReply]
    waiting: int = 0
    is_claimed: bool = False


class CachedChatModel(WrapperChatModel):
    """Looks among the kept replies first.

    Callers that ask the same at the same moment share one call. It goes on while any of them waits and is cancelled
    with the last; one of them gets the reply as its own, the others get it marked `from_cache`, so that what it cost
    is counted once.

    Args:
        inner: The model to ask for what is not kept.
        replies: Where replies are kept.
    """

    def __init__(self, inner: ChatModel, replies: ReplyCache) -> None:
        super().__init__(inner)
        self._replies = replies
        self._flights: dict[tuple[str, bool], _Flight] = {}

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Return the reply, kept or new.

        Raises:
            ModelError: The model failed.
            StoreError: The kept replies cannot be read, or a reply for indexing cannot be kept.
        """
        if request.purpose not in _KEPT:
            return await self.inner.complete(request)
        key = self._key(request)
        flight = self._board(key, request)
        flight.waiting += 1
        try:
            # The shield keeps the call alive for the others when this caller is cancelled.
            reply = await asyncio.shield(flight.task)
        finally:
            flight.waiting -= 1
            if not flight.waiting and not flight.task.done():
                await self._abandon(key, request, flight)
        if flight.is_claimed:
            return replace(reply, from_cache=True)
        flight.is_claimed = True
        return reply

    async def recall(self, request: ChatRequest) -> ChatReply | None:
        if request.purpose not in _KEPT:
            return None
        return await self._recall(self._key(request))

    def _board(self, key: str, request: ChatRequest) -> _Flight:
        """Return the flight under way for this key, or a new one."""
        place = (key, request.fresh)
        flight = self._flights.get(place)
        if flight is None:
            flight = self._flights[place] = _Flight(asyncio.create_task(self._fetch(key, request)))
            flight.task.add_done_callback(lambda task: self._land(place, task))
        return flight

    def _land(self, place: tuple[str, bool], task: asyncio.Task[ChatReply]) -> None:
        flight = self._flights.get(place)
        if flight is not None and flight.task is task:
            del self._flights[place]
        if not task.cancelled():
            task.exception()  # Marks it as seen; nobody may be left to see it.

    async def _abandon(self, key: str, request: ChatRequest, flight: _Flight) -> None:
        # Off the board at once: who asks from now on starts anew instead of sharing a dying call.
        del self._flights[(key, request.fresh)]
        flight.task.cancel()
        await asyncio.wait({flight.task})

    async def _fetch(self, key: str, request: ChatRequest) -> ChatReply:
        kept = None if request.fresh else await self._recall(key)
        tell_lookup("replies", is_hit=kept is not None)
        if kept is not None:
            return kept
        reply = await self.inner.complete(request)
        return replace(reply, cache_key=key) if await self._keep(key, request, reply) else reply

    async def _recall(self, key: str) -> ChatReply | None:
        kept = await self._replies.get_reply(key)
        return ChatReply(kept.text, kept.model, kept.usage, cache_key=key, from_cache=True) if kept else None

    async def _keep(self, key: str, request: ChatRequest, reply: ChatReply) -> bool:
        """Keep a reply and return whether it is kept now."""
        if not reply.is_complete:
            return False
        kept = CachedReply(key, reply.text, reply.model, reply.usage, utc_now(), request.subject_id)
        try:
            await self._replies.put_reply(kept)
        except StoreError as error:
            # A store that can only be read still answers questions. Indexing stops: it could not commit what it
            # pays for.
            if request.purpose not in _OF_QUESTIONS:
                raise
            _LOG.warning("a reply for %s could not be kept: %s", request.purpose.value, error)
            return False
        return True

    def _key(self, request: ChatRequest) -> str:
        messages = [(message.role, message.content) for message in request.messages]
        arguments = json.dumps([self.name, messages, request.json_mode, request.max_output_tokens])
        return f"default:{request.purpose.value}:{content_hash(arguments)}"
