"""Where the notices of workers come in: progress is passed on, costs are counted, replies are looked up and kept.

It stands beside the store, so that a reply of a chat model is durable before a worker goes on with it: a run that is
broken off, here or there, pays for no reply twice.
"""

from __future__ import annotations

import asyncio
import logging
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

_log = logging.getLogger(__name__)


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
        questions: list[LookUpReply | KeepReply] = []
        for notice in notices:
            if isinstance(notice, LookUpReply | KeepReply):
                questions.append(notice)
            else:
                self._note(notice)
        return await asyncio.gather(*map(self._answer, questions))

    def _note(self, notice: ChunksBegun | ChunkRead | CallsCounted | TextsEmbedded) -> None:
        try:
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
        except Exception:  # noqa: BLE001 (news that cannot be told on must not leave questions unanswered)
            _log.exception("what a worker told cannot be told on: %s", type(notice).__name__)

    async def _answer(self, question: LookUpReply | KeepReply) -> Answer:
        """Return the answer, whatever happens: who asked waits for it."""
        try:
            if self._replies is None:
                return Answer(question.ticket)
            if isinstance(question, LookUpReply):
                return Answer(question.ticket, await self._replies.get_reply(question.key))
            await self._replies.put_reply(question.reply)
        except HeliographError as error:
            return Answer(question.ticket, error=error)
        except Exception as error:  # noqa: BLE001 (nobody else would hear of it)
            _log.exception("a worker's question cannot be answered")
            told = f"{type(error).__name__}: {error}"
            failure = HeliographError(f"kept replies cannot be used ({told}), which is a defect; please report it")
            return Answer(question.ticket, error=failure)
        return Answer(question.ticket)
