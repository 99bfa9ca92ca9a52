"""Where the notices of workers come in: progress is passed on, costs are counted, replies are looked up and kept.

It stands beside the store, so that a reply of a chat model is durable before a worker goes on with it: a run that is
broken off, here or there, pays for no reply twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Iterable
from contextlib import contextmanager

from heliograph.chat.meter import ChatMeter
from heliograph.distributed.messages import (
    Answer,
    CallsCounted,
    ChunkRead,
    ChunksBegun,
    KeepReply,
    LookUpReply,
    Notice,
    TextsEmbedded,
)
from heliograph.errors import HeliographError
from heliograph.ingest.reading import ChunkProgress
from heliograph.observing import ModelCalls, tell_model_calls
from heliograph.stores.replies import ReplyCache

__all__ = ["Desk", "Watch"]


class Watch:
    """Passes the progress of one document on, each chunk once, however often the document is begun again.

    Args:
        progress: Is told.
    """

    def __init__(self, progress: ChunkProgress) -> None:
        self._progress = progress
        self._expected: int | None = None
        self._told = 0
        self._read = 0

    def begin(self, count: int) -> None:
        """Note that the document is read, from its first chunk on."""
        self._read = 0
        if self._expected is None:
            self._expected = count
            self._progress.begin_chunks(count)

    def read_one(self) -> None:
        """Note that one more chunk was read."""
        self._read += 1
        if self._told < self._read <= (self._expected or 0):
            self._told += 1
            self._progress.finish_chunk()

    def finish(self, count: int) -> None:
        """Note that all chunks were read, whatever was told before."""
        if self._expected is None:
            self.begin(count)
        for _ in range(self._told, count):
            self._told += 1
            self._progress.finish_chunk()


class Desk:
    """Takes notices; used from one event loop.

    Args:
        replies: Where replies are kept; None keeps none.
        meter: Counts what chat models cost.
    """

    def __init__(self, replies: ReplyCache | None, meter: ChatMeter) -> None:
        self._replies = replies
        self._meter = meter
        self._watched: dict[int, Watch] = {}

    @contextmanager
    def watching(self, number: int, progress: ChunkProgress) -> Generator[Watch]:
        """Pass the progress of a document on within the block, and return what is told of it."""
        watch = self._watched[number] = Watch(progress)
        try:
            yield watch
        finally:
            del self._watched[number]

    async def take(self, notices: Iterable[Notice]) -> list[Answer]:
        """Take notices, and return the answers to those that ask."""
        questions = [notice for notice in notices if not self._note(notice)]
        return await asyncio.gather(*map(self._answer, questions))

    def _note(self, notice: Notice) -> bool:
        """Take what asks nothing; return whether it was that."""
        match notice:
            case ChunksBegun(number, count):
                if watch := self._watched.get(number):
                    watch.begin(count)
            case ChunkRead(number):
                if watch := self._watched.get(number):
                    watch.read_one()
            case CallsCounted(purpose, count):
                self._meter.count(purpose, count)
            case TextsEmbedded(usage):
                tell_model_calls(ModelCalls("embedding", "document", calls=1, usage=usage))
            case LookUpReply() | KeepReply():
                return False
        return True

    async def _answer(self, question: Notice) -> Answer:
        match question:
            case LookUpReply(ticket, key):
                try:
                    return Answer(ticket, None if self._replies is None else await self._replies.get_reply(key))
                except HeliographError as error:
                    return Answer(ticket, error=error)
            case KeepReply(ticket, reply):
                try:
                    if self._replies is not None:
                        await self._replies.put_reply(reply)
                except HeliographError as error:
                    return Answer(ticket, error=error)
                return Answer(ticket)
            case _:
                raise TypeError(f"{question!r} asks nothing")
