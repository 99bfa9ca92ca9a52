"""What a worker has to tell and to ask, until somebody comes for it.

A worker cannot call the process that owns the store; that process asks it again and again (`Outbox.exchange`), brings
the answers to earlier questions, and waits until there is something to take. Questions are handed out at once, mere
news a few times a second.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from itertools import count

from heliograph.chat.base import Purpose
from heliograph.chat.meter import CallCount, ChatMeter
from heliograph.distributed.messages import Answer, CallsCounted, KeepReply, LookUpReply, Notice
from heliograph.errors import StoreError
from heliograph.stores.replies import CachedReply, ReplyCache

__all__ = ["Outbox", "RelayedMeter", "RelayedReplies"]

_NEWS_SECONDS = 0.25
_IDLE_SECONDS = 20.0


class Outbox:
    """Holds notices; used from one event loop."""

    def __init__(self) -> None:
        self._notices: list[Notice] = []
        self._asked: dict[int, asyncio.Future[CachedReply | None]] = {}
        self._tickets = count(1)
        self._has_news = asyncio.Event()
        self._has_questions = asyncio.Event()

    def tell(self, notice: Notice) -> None:
        """Have something told soon."""
        self._notices.append(notice)
        self._has_news.set()

    async def ask(self, question: Callable[[int], Notice]) -> CachedReply | None:
        """Have something asked at once, and return its answer.

        Args:
            question: Makes the question, given its ticket.

        Raises:
            HeliographError: As the answer says.
        """
        ticket = next(self._tickets)
        answer = self._asked[ticket] = asyncio.get_running_loop().create_future()
        self.tell(question(ticket))
        self._has_questions.set()
        try:
            return await answer
        finally:
            del self._asked[ticket]

    async def exchange(self, answers: Sequence[Answer]) -> list[Notice]:
        """Hand over answers, then wait a while for notices and take them all; there may be none."""
        for answer in answers:
            asked = self._asked.get(answer.ticket)
            # Who asked may have been given up meanwhile.
            if asked is not None and not asked.done():
                if answer.error is None:
                    asked.set_result(answer.value)
                else:
                    asked.set_exception(answer.error)
        if await _is_set(self._has_news, _IDLE_SECONDS):
            await _is_set(self._has_questions, _NEWS_SECONDS)
        self._has_news.clear()
        self._has_questions.clear()
        notices, self._notices = self._notices, []
        return notices

    def take_news(self) -> list[Notice]:
        """Take what needs no answer."""
        news: list[Notice] = [notice for notice in self._notices if not isinstance(notice, LookUpReply | KeepReply)]
        self._notices = [notice for notice in self._notices if isinstance(notice, LookUpReply | KeepReply)]
        return news


class RelayedReplies(ReplyCache):
    """Replies that are kept by whoever empties the outbox.

    Args:
        outbox: Where to ask.
    """

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox

    async def get_reply(self, key: str) -> CachedReply | None:
        """See `ReplyCache.get_reply`."""
        return await self._outbox.ask(lambda ticket: LookUpReply(ticket, key))

    async def put_reply(self, reply: CachedReply) -> None:
        """See `ReplyCache.put_reply`."""
        await self._outbox.ask(lambda ticket: KeepReply(ticket, reply))

    async def delete_replies(self, cache_type: str | None = None) -> int:
        """Refuse: replies are dropped by who owns the store.

        Raises:
            StoreError: Always.
        """
        raise StoreError(f"a worker cannot drop kept replies ({cache_type!r}); do it where the store is open")


class RelayedMeter(ChatMeter):
    """Counts of chat calls that are told to whoever empties the outbox.

    Args:
        outbox: Where to tell.
    """

    def __init__(self, outbox: Outbox) -> None:
        super().__init__()
        self._outbox = outbox

    def count(self, purpose: Purpose, counted: CallCount) -> None:
        """See `ChatMeter.count`."""
        super().count(purpose, counted)
        self._outbox.tell(CallsCounted(purpose, counted))


async def _is_set(event: asyncio.Event, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            return await event.wait()
    except TimeoutError:
        return False
