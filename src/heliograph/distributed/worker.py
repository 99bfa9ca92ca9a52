"""What runs in a worker's process: models loaded once, and the same code that reads in a process of its own.

A worker knows neither the store nor the cluster that carries it. What it needs of the store is asked for through its
outbox. Whatever goes wrong ends as the error of an `Outcome`, a defect too: it fails what was worked on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from heliograph._version import __version__
from heliograph.chat.base import ChatModel
from heliograph.chat.registry import build_chat_model, wrap_chat_model
from heliograph.distributed.messages import Answer, ChunkRead, ChunksBegun, Notice, Outcome, TextsEmbedded, WorkerSetup
from heliograph.distributed.outbox import Outbox, RelayedMeter, RelayedReplies
from heliograph.documents.base import LoadedDocument, RawDocument
from heliograph.documents.isolation import DocumentReader, limits_of
from heliograph.embedding.base import EmbeddingKind, EmbeddingModel, Embeddings
from heliograph.embedding.registry import build_embedding_model
from heliograph.errors import CancelledIngestError, ClusterUnavailable, HeliographError, IngestError
from heliograph.ingest.chunking import make_chunker
from heliograph.ingest.extraction.choosing import choose_extractor
from heliograph.ingest.planning import StoredChunks
from heliograph.ingest.reading import DocumentReading, InProcessReader, Reader, ReadingTask

__all__ = ["ReadingWorker"]


@dataclass(frozen=True, slots=True)
class _Models:
    documents: DocumentReader
    embedding: EmbeddingModel
    chat: ChatModel | None
    reader: Reader


class _RelayedProgress:
    """Tells of the chunks of one document."""

    def __init__(self, number: int, outbox: Outbox) -> None:
        self._number = number
        self._outbox = outbox

    def begin_chunks(self, count: int) -> None:
        self._outbox.tell(ChunksBegun(self._number, count))

    def finish_chunk(self) -> None:
        self._outbox.tell(ChunkRead(self._number))


class ReadingWorker:
    """Loads, reads and embeds; its methods may be called many at once, on one event loop.

    Args:
        setup: What it is made of.
    """

    def __init__(self, setup: WorkerSetup) -> None:
        self._setup = setup
        self._outbox = Outbox()
        self._models: _Models | None = None
        self._reading: dict[int, asyncio.Task[object]] = {}

    async def open(self) -> Outcome:
        """Make the models ready; to be called once, before anything else.

        A `ClusterUnavailable` comes out if this process runs another version, a `SettingsError` if the settings do
        not go together, and a `ModelError` if a model cannot be made ready.
        """
        return await self._end("opening a worker", self._open())

    async def load(self, raw: RawDocument) -> Outcome:
        """Return what the bytes of a source say, a `LoadedDocument`; errors are those of `DocumentReader.load`."""
        return await self._end(repr(raw.name), self._load(raw))

    async def read(self, number: int, task: ReadingTask, stored: StoredChunks) -> Outcome:
        """Return a `DocumentReading` with the vectors of its passages; errors are those of `Reader.read`.

        Args:
            number: Names the document in notices, and in `give_up`.
            task: The document.
            stored: What is stored of it.
        """
        current = asyncio.current_task()
        if current is not None:
            self._reading[number] = current
        try:
            return await self._end(f"the document {task.document.source!r}", self._read(number, task, stored))
        except asyncio.CancelledError:
            return Outcome(error=CancelledIngestError(f"reading {task.document.source!r} was given up"))
        finally:
            self._reading.pop(number, None)

    async def embed(self, texts: Sequence[str], kind: EmbeddingKind) -> Outcome:
        """Return `Embeddings`; errors are those of `EmbeddingModel.embed`."""
        return await self._end(f"the embedding of {len(texts)} texts", self._embed(texts, kind))

    async def attend(self, answers: Sequence[Answer]) -> list[Notice]:
        """Take answers, and return what there is to tell and to ask, waiting a while if there is nothing."""
        return await self._outbox.exchange(answers)

    async def give_up(self, number: int) -> None:
        """Stop reading a document; does nothing if that has ended."""
        task = self._reading.get(number)
        if task is not None:
            task.cancel()

    async def close(self) -> None:
        """Let go of models, connections and processes; nothing may be called after it."""
        models, self._models = self._models, None
        if models is not None:
            await asyncio.to_thread(models.documents.close)
            await models.embedding.close()
            if models.chat is not None:
                await models.chat.close()

    async def _end(self, what: str, work: Awaitable[object]) -> Outcome:
        try:
            value = await work
        except HeliographError as error:
            return Outcome(error=error, notices=self._outbox.take_news())
        except Exception as error:  # noqa: BLE001 (not swallowed: who gave the work logs it)
            return Outcome(error=IngestError.of_defect(what, error), notices=self._outbox.take_news())
        return Outcome(value, notices=self._outbox.take_news())

    async def _open(self) -> None:
        setup = self._setup
        if setup.version != __version__:
            raise ClusterUnavailable(
                f"a worker runs heliograph {__version__} and is to work for {setup.version}; install the same version "
                "on every machine of the cluster"
            )
        embedding = setup.given_embedding or await build_embedding_model(setup.embedding)
        chat = self._open_chat()
        extractor = setup.given_extractor or choose_extractor(setup.ingest, chat)
        extracts_by_chat = chat is not None and setup.ingest.extractor in ("auto", "chat")
        chunker = make_chunker(setup.ingest, embedding.info, extracts_by_chat=extracts_by_chat)
        limits = limits_of(setup.documents, setup.ingest.max_document_characters)
        documents = DocumentReader(limits, isolate=setup.documents.isolate)
        self._models = _Models(documents, embedding, chat, InProcessReader(chunker, extractor))

    def _open_chat(self) -> ChatModel | None:
        setup = self._setup
        replies = RelayedReplies(self._outbox) if setup.keeps_replies else None
        meter = RelayedMeter(self._outbox)
        if setup.given_chat is not None:
            return wrap_chat_model(setup.given_chat, setup.chat, replies, meter)
        return build_chat_model(setup.chat, replies, meter)

    @property
    def _opened(self) -> _Models:
        if self._models is None:
            raise ClusterUnavailable("a worker was given work before it was opened; this is a defect, please report it")
        return self._models

    async def _load(self, raw: RawDocument) -> LoadedDocument:
        return await asyncio.to_thread(self._opened.documents.load, raw)

    async def _embed(self, texts: Sequence[str], kind: EmbeddingKind) -> Embeddings:
        return await self._opened.embedding.embed(texts, kind)

    async def _read(self, number: int, task: ReadingTask, stored: StoredChunks) -> DocumentReading:
        find_stored = _giving(stored)
        reading = await self._opened.reader.read(task, find_stored, _RelayedProgress(number, self._outbox))
        texts = list(dict.fromkeys(reading.plan.passages.values()))
        if not texts:
            return reading
        embedded = await self._opened.embedding.embed(texts, "document")
        self._outbox.tell(TextsEmbedded(embedded.usage))
        return replace(reading, vectors=dict(zip(texts, embedded.vectors, strict=True)))


def _giving(stored: StoredChunks) -> Callable[[object], Awaitable[StoredChunks]]:
    async def give(_: object) -> StoredChunks:
        return stored

    return give
