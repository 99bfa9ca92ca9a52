"""Reads a document: finds its changed chunks, extracts from each, and computes vectors where a reader does so.

The input is a `ReadingTask`. `plan_chunks` decides which chunks stay, move, are removed, added or read again; the
extractor reads the new ones and those, and its output is brought into canonical form (`extraction/base`). Nothing is
written, so reading may happen on another host. The output is a `DocumentReading`, from which a `DocumentChange` is
made.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from functools import cached_property, partial
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from heliograph.calls.tasks import in_thread
from heliograph.errors import IngestError
from heliograph.extraction.base import Extractor, canonical_extraction, moved_extraction, with_introduced_aliases
from heliograph.ingest.chunking import Chunker
from heliograph.models import Chunk, Curation, Document, Extraction
from heliograph.observing import stage
from heliograph.stores.changeset import TextEntry
from heliograph.text.analysis import chunk_index_text, passage_terms

# Planning the update of a document's chunks: which stay, move, are removed, added, or read again.
#
# The new chunks and the stored ones give a `ChunkPlan`. A chunk that stays keeps its mentions and its vector. A chunk
# whose extraction failed or is missing is read again, as is one with another context. One under other headings is read
# and embedded again, since extraction and indexing depend on headings.


@dataclass(frozen=True, slots=True)
class StoredChunks:
    """A document's stored chunks and the extractions of all of them, or of those in `replaced_chunks`.

    `all_read` means that every chunk is known to have been read without an error.
    """

    chunks: Mapping[str, Chunk] = field(default_factory=dict[str, Chunk])
    extractions: Mapping[str, Extraction] = field(default_factory=dict[str, Extraction])
    all_read: bool = False

    def stands_alike(self, chunk: Chunk) -> bool:
        """Return whether a chunk is stored with the same headings and the same table columns."""
        stored = self.chunks.get(chunk.id)
        return stored is not None and (stored.headings, stored.columns) == (chunk.headings, chunk.columns)

    def is_read(self, chunk_id: str) -> bool:
        """Return whether a chunk was read without an error."""
        if self.all_read:
            return chunk_id in self.chunks
        extraction = self.extractions.get(chunk_id)
        return extraction is not None and not extraction.error


@dataclass(frozen=True, slots=True)
class ChunkPlan:
    """The plan of changes to a document's chunks; empty by default.

    Attributes:
        unread: Chunks to read.
        written: Chunks to write: those that are new or differ in any field from the stored ones.
        removed: Ids of chunks to remove.
        replaced: Stored extractions of chunks that are removed, moved or read again.
        moved: Extractions of chunks that only move, at their new position.
        passages: Text to embed per id of a chunk that is new or under other headings. Vectors of entities and relations
            that are made from its vector are made again, too.
        terms: Full-text index entries of these chunks.
    """

    chunk_count: int = 0
    unread: tuple[Chunk, ...] = ()
    written: tuple[Chunk, ...] = ()
    removed: tuple[str, ...] = ()
    replaced: tuple[Extraction, ...] = ()
    moved: tuple[Extraction, ...] = ()
    passages: Mapping[str, str] = field(default_factory=dict[str, str])
    terms: tuple[TextEntry, ...] = ()


NO_CHUNKS = ChunkPlan()


def replaced_chunks(chunks: Sequence[Chunk], stored: StoredChunks) -> list[str]:
    """Return the ids of stored chunks whose extractions are removed, moved or redone; `stored` may lack extractions."""
    kept = {chunk.id: _reading_basis(chunk) for chunk in chunks}
    return [id_ for id_, before in stored.chunks.items() if kept.get(id_) != _reading_basis(before)]


def _reading_basis(chunk: Chunk) -> tuple[int, tuple[str, ...], tuple[str, ...], str]:
    return chunk.position, chunk.headings, chunk.columns, chunk.context


def removal_of(stored: StoredChunks) -> ChunkPlan:
    """Return the plan that removes all stored chunks of a document."""
    return ChunkPlan(removed=tuple(stored.chunks), replaced=tuple(stored.extractions.values()))


def plan_chunks(title: str, chunks: Sequence[Chunk], stored: StoredChunks, *, keeps_readings: bool) -> ChunkPlan:
    """Plan the update from a document's stored chunks to new ones, in order. CPU time is proportional to new text.

    With `keeps_readings`, unchanged chunks keep their mentions and vectors; False if the title may have changed.
    """
    current = {chunk.id for chunk in chunks}
    indexed = {chunk.id for chunk in chunks if keeps_readings and stored.stands_alike(chunk)}
    same = {chunk.id for chunk in chunks if chunk.id in indexed and stored.chunks[chunk.id].context == chunk.context}
    unread = [chunk for chunk in chunks if chunk.id not in same or not stored.is_read(chunk.id)]
    unread_ids = {chunk.id for chunk in unread}
    moved = [
        chunk for chunk in chunks if chunk.id not in unread_ids and stored.chunks[chunk.id].position != chunk.position
    ]
    removed = tuple(id_ for id_ in stored.chunks if id_ not in current)
    replaced = (*removed, *unread_ids, *(chunk.id for chunk in moved))
    passages = {chunk.id: chunk_index_text(title, chunk) for chunk in chunks if chunk.id not in indexed}
    return ChunkPlan(
        chunk_count=len(chunks),
        unread=tuple(unread),
        written=tuple(chunk for chunk in chunks if stored.chunks.get(chunk.id) != chunk),
        removed=removed,
        replaced=tuple(stored.extractions[id_] for id_ in replaced if id_ in stored.extractions),
        moved=tuple(moved_extraction(stored.extractions[chunk.id], chunk.position) for chunk in moved),
        passages=passages,
        terms=tuple(TextEntry(id_, tuple(passage_terms(passage))) for id_, passage in passages.items()),
    )


@dataclass(frozen=True, slots=True)
class DocumentChange:
    """The change of one document.

    Attributes:
        basis: The stored document, from which the change was computed.
        document: The document to store; None removes it.
        plan: Changes of its chunks.
        extractions: Replacements of the extractions in `plan.replaced`, canonical.
        vectors: Vector per passage that was embedded before.
        texts: Texts to store, by document id; other texts stay as they are.
        dropped_texts: Ids of documents whose own text is deleted.
        others: Further documents to write as given here.
        gone: Ids of further documents to remove; the plan removes their chunks.
        relied_on: Other documents that it writes or relies on, as stored.
        is_new: Whether it is not stored yet, not even as pending.
        is_joint: Whether the change also covers `others`, which are new documents like it (a joint commit).
        may_call_chat: Whether a chat model may be called for descriptions; else cached ones are used where available,
            and fragments are joined.
    """

    basis: Document
    document: Document | None = None
    plan: ChunkPlan = NO_CHUNKS
    extractions: tuple[Extraction, ...] = ()
    vectors: Mapping[str, NDArray[np.float32]] = field(default_factory=dict[str, NDArray[np.float32]])
    texts: Mapping[str, str] = field(default_factory=dict[str, str])
    dropped_texts: tuple[str, ...] = ()
    others: tuple[Document, ...] = ()
    gone: tuple[str, ...] = ()
    relied_on: tuple[Document, ...] = ()
    is_new: bool = False
    is_joint: bool = False
    may_call_chat: bool = True
    curations: ClassVar[tuple[Curation, ...]] = ()  # people make these, in a `CurationChange`

    @property
    def is_removal(self) -> bool:
        """Whether the document is removed."""
        return self.document is None

    @property
    def expected_documents(self) -> dict[str, Document | None]:
        """All documents that it writes or relies on, by id, in the version that must be stored; None for a new one."""
        expected: dict[str, Document | None] = {item.id: item for item in (self.basis, *self.relied_on)}
        return expected | {self.basis.id: None} if self.is_new else expected


# Returns the stored chunks of the document with these new chunks; None requests all extractions.
FindStored = Callable[[Sequence[Chunk] | None], Awaitable[StoredChunks]]

# Chunking and analysing shorter texts takes one or two milliseconds and is not worth a thread.
_THREAD_FROM_CHARACTERS = 4_000


class ChunkProgress(Protocol):
    """Receives the progress of reading one document, in the event loop's thread."""

    def begin_chunks(self, count: int) -> None:
        """Record how many chunks will be read."""
        ...

    def finish_chunk(self) -> None:
        """Record that one chunk was read."""
        ...


class ReadingScope(Enum):
    """How much of a document is read."""

    WHOLE = auto()
    """Every chunk."""
    CHANGES = auto()
    """Chunks that are not stored under the same title and headings."""
    FAILED_CHUNKS = auto()
    """Stored chunks whose extraction failed; the chunks stay as they are."""


@dataclass(frozen=True, slots=True)
class ReadingTask:
    """A document to read.

    Attributes:
        document: The stored document.
        text: Its clean text; None if it must be read from the store. A `Reader` gets None if it is to read only failed
            chunks.
        all_read: Whether all its stored chunks are known to have been read without an error.
        is_known: Whether an identical version of it was waiting already.
    """

    document: Document
    text: str | None = None
    scope: ReadingScope = ReadingScope.WHOLE
    all_read: bool = False
    is_known: bool = False


@dataclass(frozen=True, slots=True)
class DocumentReading:
    """The result of reading a document: one canonical extraction per chunk of `plan.unread`, in order.

    `vectors` has vectors of all, some or none of the texts of `plan.passages`; the commit embeds the missing ones.
    """

    plan: ChunkPlan
    extractions: tuple[Extraction, ...]
    vectors: Mapping[str, NDArray[np.float32]] = field(default_factory=dict[str, NDArray[np.float32]])


class Reader(ABC):
    """Reads documents. Implementations are safe to call from many tasks at once."""

    @abstractmethod
    async def read(self, task: ReadingTask, find_stored: FindStored, progress: ChunkProgress) -> DocumentReading:
        """Read one document; `find_stored` is called once, for its stored chunks.

        Raises:
            IngestError: The document is empty, or cannot be read.
            ModelError: A model failed.
            ClusterUnavailable: The cluster that reads documents is out of reach.
            StoreError: The stored chunks cannot be read.
        """


class InProcessReader(Reader):
    """Reads in this process, long texts in threads; `extractor` may be a factory, called on the first document."""

    def __init__(self, chunker: Chunker, extractor: Extractor | Callable[[], Extractor]) -> None:
        self._chunker = chunker
        self._given = extractor

    @cached_property
    def _extractor(self) -> Extractor:
        return self._given if isinstance(self._given, Extractor) else self._given()

    async def read(self, task: ReadingTask, find_stored: FindStored, progress: ChunkProgress) -> DocumentReading:
        """See `Reader.read`; makes no vectors, since the commit embeds all texts in one call."""
        with stage("ingest.chunk"):
            document, text = task.document, task.text
            if text is None:
                stored = await find_stored(None)
                plan = plan_chunks(document.title, list(stored.chunks.values()), stored, keeps_readings=True)
            else:
                is_long = len(text) >= _THREAD_FROM_CHARACTERS
                chunks = await in_thread(self._cut, document, text) if is_long else self._cut(document, text)
                if not chunks:
                    raise IngestError(f"the document {document.source!r} holds nothing but separators; give it a text")
                stored = await find_stored(chunks)
                keeps = task.scope is not ReadingScope.WHOLE
                compare = partial(plan_chunks, document.title, chunks, stored, keeps_readings=keeps)
                plan = await in_thread(compare) if is_long and not stored.chunks else compare()
        progress.begin_chunks(len(plan.unread))
        with stage("ingest.extract", chunks=len(plan.unread)):
            extractions = await self._extract(task.document, plan.unread, progress.finish_chunk)
        return DocumentReading(plan, tuple(extractions))

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

        return await in_thread(finish) if characters >= 10 * _THREAD_FROM_CHARACTERS else finish()
