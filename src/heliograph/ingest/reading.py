"""The seam between what a document says and what becomes of it in the store.

A `ReadingTask` goes in; out come the chunks that change, what was read in them, and their vectors where those were
made on the way. Nothing is written and, but for `find_stored`, nothing of the store is read, so reading may happen in
another process or on another host (`heliograph.distributed`). Folding and committing stay with who owns the store.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from heliograph.errors import IngestError
from heliograph.ingest.aliases import with_introduced_aliases
from heliograph.ingest.chunking import Chunker
from heliograph.ingest.extraction.base import Extractor
from heliograph.ingest.mentions import canonical_extraction
from heliograph.ingest.planning import ChunkPlan, StoredChunks, plan_chunks
from heliograph.models import Chunk, Document, Extraction
from heliograph.observing import stage

__all__ = ["ChunkProgress", "DocumentReading", "FindStored", "InProcessReader", "Reader", "ReadingTask"]

T = TypeVar("T")

# Gives what is stored of the document whose chunks these are; None asks for everything, whatever its chunks will be.
FindStored = Callable[[Sequence[Chunk] | None], Awaitable[StoredChunks]]

# Cutting and analysing shorter texts takes about a millisecond and is not worth a thread.
_THREAD_FROM_CHARACTERS = 2_000


class ChunkProgress(Protocol):
    """Is told how far the reading of one document has come, from the event loop's thread."""

    def begin_chunks(self, count: int) -> None:
        """Note how many chunks will be read."""
        ...

    def finish_chunk(self) -> None:
        """Note that one was read."""
        ...


@dataclass(frozen=True, slots=True)
class ReadingTask:
    """A document to read.

    Attributes:
        document: As it is stored.
        text: Its clean text; None leaves its stored chunks as they were cut, and reads those that were not read.
        keeps_readings: Whether chunks that stay keep what was read in them.
    """

    document: Document
    text: str | None
    keeps_readings: bool = False


@dataclass(frozen=True, slots=True)
class DocumentReading:
    """What a document says.

    Attributes:
        plan: What to do with its chunks.
        extractions: One per chunk of `plan.unread`, in order, canonical.
        vectors: Vector per text of `plan.passages`, or of some of them; what is missing is embedded at commit.
    """

    plan: ChunkPlan
    extractions: tuple[Extraction, ...]
    vectors: Mapping[str, NDArray[np.float32]] = field(default_factory=dict[str, NDArray[np.float32]])


class Reader(ABC):
    """Reads documents. Implementations are safe to call from many tasks at once."""

    @abstractmethod
    async def read(self, task: ReadingTask, find_stored: FindStored, progress: ChunkProgress) -> DocumentReading:
        """Read one document.

        Args:
            task: The document.
            find_stored: Called once, for what is stored of it.
            progress: Told of the chunks to be read, and of each that is.

        Raises:
            IngestError: The document holds nothing, or cannot be read.
            ModelError: A model failed.
            ClusterUnavailable: What reads elsewhere is out of reach.
            StoreError: What is stored cannot be read.
        """


class InProcessReader(Reader):
    """Reads in this process; long texts in threads.

    Args:
        chunker: Cuts texts.
        extractor: Reads chunks.
    """

    def __init__(self, chunker: Chunker, extractor: Extractor) -> None:
        self._chunker = chunker
        self._extractor = extractor

    async def read(self, task: ReadingTask, find_stored: FindStored, progress: ChunkProgress) -> DocumentReading:
        """See `Reader.read`; vectors are left to the commit, which embeds all that it needs in one call."""
        with stage("ingest.chunk"):
            plan = await self._plan(task, find_stored)
        progress.begin_chunks(len(plan.unread))
        with stage("ingest.extract", chunks=len(plan.unread)):
            extractions = await self._extract(task.document, plan.unread, progress.finish_chunk)
        return DocumentReading(plan, tuple(extractions))

    async def _plan(self, task: ReadingTask, find_stored: FindStored) -> ChunkPlan:
        document, text = task.document, task.text
        if text is None:
            stored = await find_stored(None)
            return plan_chunks(document.title, list(stored.chunks.values()), stored, keeps_readings=True)
        chunks = await _compute(lambda: self._cut(document, text), len(text))
        if not chunks:
            raise IngestError(f"the document {document.source!r} holds nothing but separators; give it a text")
        stored = await find_stored(chunks)
        size = len(text) if not stored.chunks else 0
        return await _compute(
            lambda: plan_chunks(document.title, chunks, stored, keeps_readings=task.keeps_readings), size
        )

    def _cut(self, document: Document, text: str) -> list[Chunk]:
        chunks = self._chunker.chunk(document.id, text, document.page_starts)
        contexts = self._extractor.contexts(document, chunks)
        return [
            replace(chunk, context=context) if context else chunk
            for chunk, context in zip(chunks, contexts, strict=True)
        ]

    async def _extract(
        self, document: Document, chunks: Sequence[Chunk], on_chunk: Callable[[], None]
    ) -> list[Extraction]:
        if not chunks:
            return []
        contexts = [chunk.context for chunk in chunks]
        extractions = await self._extractor.extract_in_context(document, chunks, contexts, on_chunk)
        if [item.chunk_id for item in extractions] != [chunk.id for chunk in chunks]:
            raise IngestError(
                f"the extractor {self._extractor.name!r} did not return one extraction per chunk of "
                f"{document.source!r}; report this to its author"
            )
        characters = sum(len(chunk.text) for chunk in chunks)

        def finish() -> list[Extraction]:
            found = [canonical_extraction(item) for item in extractions]
            return [with_introduced_aliases(item, chunk) for item, chunk in zip(found, chunks, strict=True)]

        return await _compute(finish, characters // 10)


async def _compute(work: Callable[[], T], characters: int) -> T:
    return work() if characters < _THREAD_FROM_CHARACTERS else await asyncio.to_thread(work)
