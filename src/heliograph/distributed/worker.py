"""The code in a worker's process: models loaded once, and the same code that reads documents in one process.

A worker knows neither the store nor the cluster. It cannot call the owner of the store, so its notices and
questions wait in an `Outbox` until the owner fetches them and brings answers. Every error ends as the error of a
`WorkEnd`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from itertools import count

import heliograph.distributed.messages as messages
from heliograph._version import __version__
from heliograph.chat.base import ChatMeter, ChatModel, Purpose, build_chat_model, wrap_chat_model
from heliograph.documents.base import RawDocument
from heliograph.documents.sources import SourceReader
from heliograph.embedding.base import EmbeddingKind, EmbeddingModel, Embeddings, build_embedding_model
from heliograph.errors import CancelledIngestError, ClusterUnavailable, HeliographError, IngestError, StoreError
from heliograph.extraction.base import choose_extractor
from heliograph.ingest.chunking import make_chunker
from heliograph.ingest.reading import DocumentReading, InProcessReader, Reader, ReadingTask, StoredChunks
from heliograph.observing import CallCount
from heliograph.stores.base import CachedReply, ReplyCache

# Questions are sent at once, mere news a few times a second.
_NEWS_SECONDS = 0.25
_IDLE_SECONDS = 20.0


class Outbox:
    """Holds notices; used from one event loop."""

    def __init__(self) -> None:
        self._notices: list[messages.Notice] = []
        self._asked: dict[int, asyncio.Future[CachedReply | None]] = {}
        self._tickets = count(1)
        self._has_news = asyncio.Event()
        self._has_questions = asyncio.Event()

    def tell(self, notice: messages.Notice) -> None:
        """Queue a message to be sent soon."""
        self._notices.append(notice)
        self._has_news.set()

    async def ask(self, question: Callable[[int], messages.Notice]) -> CachedReply | None:
        """Create a request from a new ticket and send it at once; return its answer or raise its error."""
        ticket = next(self._tickets)
        answer = self._asked[ticket] = asyncio.get_running_loop().create_future()
        self.tell(question(ticket))
        self._has_questions.set()
        try:
            return await answer
        finally:
            del self._asked[ticket]

    async def exchange(self, answers: Sequence[messages.NoticeAnswer]) -> list[messages.Notice]:
        """Deliver answers, then wait a while for notices and take them all; there may be none."""
        for answer in answers:
            asked = self._asked.get(answer.ticket)
            # The asking task may have been cancelled meanwhile.
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

    def take_news(self) -> list[messages.Notice]:
        """Take the notices that need no answer."""
        news: list[messages.Notice] = [
            notice for notice in self._notices if not isinstance(notice, messages.ReplyQuestion)
        ]
        self._notices = [notice for notice in self._notices if isinstance(notice, messages.ReplyQuestion)]
        return news


class RelayedReplies(ReplyCache):
    """Looks up and stores cached replies through the outbox."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox

    async def get_reply(self, key: str) -> CachedReply | None:
        return await self._outbox.ask(lambda ticket: messages.ReplyQuestion(ticket, key))

    async def put_reply(self, reply: CachedReply) -> None:
        await self._outbox.ask(lambda ticket: messages.ReplyQuestion(ticket, reply.key, reply))

    async def delete_replies(self, cache_type: str | None = None) -> int:
        """Raise `StoreError`: only the owner of the store drops replies."""
        raise StoreError(f"a worker cannot drop kept replies ({cache_type!r}); do it where the store is open")


class RelayedMeter(ChatMeter):
    """Sends counts of chat calls through the outbox."""

    def __init__(self, outbox: Outbox) -> None:
        super().__init__()
        self._outbox = outbox

    def count(self, purpose: Purpose, counted: CallCount) -> None:
        super().count(purpose, counted)
        self._outbox.tell(messages.CallsCounted(purpose, counted))


async def _is_set(event: asyncio.Event, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            return await event.wait()
    except TimeoutError:
        return False


@dataclass(frozen=True, slots=True)
class _Models:
    documents: SourceReader
    embedding: EmbeddingModel
    chat: ChatModel | None
    reader: Reader


class _RelayedProgress:
    """Reports progress on the chunks of one document."""

    def __init__(self, number: int, outbox: Outbox) -> None:
        self._number = number
        self._outbox = outbox

    def begin_chunks(self, count: int) -> None:
        self._outbox.tell(messages.ChunksBegun(self._number, count))

    def finish_chunk(self) -> None:
        self._outbox.tell(messages.ChunkRead(self._number))


class ReadingWorker:
    """Loads, reads and embeds; its methods may be called concurrently, on one event loop."""

    def __init__(self, setup: messages.WorkerSetup) -> None:
        self._setup = setup
        self._outbox = Outbox()
        self._models: _Models | None = None
        self._reading: dict[int, asyncio.Task[object]] = {}

    async def open(self) -> messages.WorkEnd:
        """Prepare the models; to be called once, before anything else.

        The `WorkEnd` carries a `ClusterUnavailable` if this process runs another version, a `SettingsError` if the
        settings do not fit together, and a `ModelError` if a model cannot be prepared.
        """
        return await self._end("opening a worker", self._open)

    async def load(self, raw: RawDocument) -> messages.WorkEnd:
        """Return what the bytes of a source say, a `LoadedDocument`; errors are those of `SourceReader.load`."""
        return await self._end(repr(raw.name), lambda: asyncio.to_thread(self._opened.documents.load, raw))

    async def read(self, number: int, task: ReadingTask, stored: StoredChunks) -> messages.WorkEnd:
        """Return a `DocumentReading` with the vectors of its passages; errors are those of `Reader.read`.

        The number names the document in notices, and in `give_up`.
        """
        current = asyncio.current_task()
        if current is not None:
            self._reading[number] = current
        try:
            what = f"the document {task.document.source!r}"
            return await self._end(what, lambda: self._read(number, task, stored))
        except asyncio.CancelledError:
            return messages.WorkEnd(error=CancelledIngestError(f"reading {task.document.source!r} was given up"))
        finally:
            self._reading.pop(number, None)

    async def embed(self, texts: Sequence[str], kind: EmbeddingKind) -> messages.WorkEnd:
        """Return `Embeddings`; errors are those of `EmbeddingModel.embed`."""
        what = f"the embedding of {len(texts)} texts"
        return await self._end(what, lambda: self._embed(texts, kind))

    async def attend(self, answers: Sequence[messages.NoticeAnswer]) -> list[messages.Notice]:
        """Deliver answers; return the messages to send, waiting a while if there are none."""
        return await self._outbox.exchange(answers)

    async def give_up(self, number: int) -> None:
        """Cancel reading a document; does nothing if that has ended."""
        task = self._reading.get(number)
        if task is not None:
            task.cancel()

    async def close(self) -> None:
        """Release models, connections and processes; no method may be called after it."""
        models, self._models = self._models, None
        if models is not None:
            await asyncio.to_thread(models.documents.close)
            await models.embedding.close()
            if models.chat is not None:
                await models.chat.close()

    async def _end(self, what: str, work: Callable[[], Awaitable[object]]) -> messages.WorkEnd:
        try:
            value = await work()
        except HeliographError as error:
            return messages.WorkEnd(error=error, notices=self._outbox.take_news())
        except Exception as error:  # noqa: BLE001 (not swallowed: who gave the work logs it)
            return messages.WorkEnd(error=IngestError.of_defect(what, error), notices=self._outbox.take_news())
        return messages.WorkEnd(value, notices=self._outbox.take_news())

    async def _open(self) -> None:
        setup = self._setup
        if setup.version != __version__:
            raise ClusterUnavailable(
                f"a worker runs heliograph {__version__} and is to work for {setup.version}; install the same version "
                "on every machine of the cluster"
            )
        embedding = setup.given.embedding or await build_embedding_model(setup.embedding)
        replies = RelayedReplies(self._outbox) if setup.keeps_replies else None
        calls = setup.chat, replies, RelayedMeter(self._outbox)
        chat = wrap_chat_model(setup.given.chat, *calls) if setup.given.chat else build_chat_model(*calls)
        extractor = setup.given.extractor or choose_extractor(setup.ingest, chat)
        extracts_by_chat = chat is not None and setup.ingest.extractor in ("auto", "chat")
        chunker = make_chunker(setup.ingest, embedding.info, extracts_by_chat=extracts_by_chat)
        documents = SourceReader(setup.documents, setup.ingest.max_document_characters)
        self._models = _Models(documents, embedding, chat, InProcessReader(chunker, extractor))

    @property
    def _opened(self) -> _Models:
        if self._models is None:
            raise ClusterUnavailable("a worker was given work before it was opened; this is a defect, please report it")
        return self._models

    async def _embed(self, texts: Sequence[str], kind: EmbeddingKind) -> Embeddings:
        return await self._opened.embedding.embed(texts, kind)

    async def _read(self, number: int, task: ReadingTask, stored: StoredChunks) -> DocumentReading:
        async def find_stored(_: object) -> StoredChunks:
            return stored

        reading = await self._opened.reader.read(task, find_stored, _RelayedProgress(number, self._outbox))
        texts = list(dict.fromkeys(reading.plan.passages.values()))
        if not texts:
            return reading
        embedded = await self._opened.embedding.embed(texts, "document")
        self._outbox.tell(messages.TextsEmbedded(embedded.usage))
        return replace(reading, vectors=dict(zip(texts, embedded.vectors, strict=True)))
