"""What an update does to a document's chunks: which stay, move, go, come, or must be read again.

The chunks of the new text and what is stored come in; a `ChunkPlan` comes out. A chunk that stays keeps its mentions
and its vector. One that was not read, or that now stands under other headings, is read and embedded again: what an
extractor makes of it and how it is indexed depend on them. One whose context is another is read again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from heliograph.ingest.mentions import moved_extraction
from heliograph.models import Chunk, Extraction
from heliograph.stores.changeset import TextEntry
from heliograph.text.analysis import terms
from heliograph.text.passages import chunk_index_text

__all__ = ["ChunkPlan", "StoredChunks", "plan_chunks", "replaced_chunks"]


@dataclass(frozen=True, slots=True)
class StoredChunks:
    """A document's chunks as they are stored, and what was read in them.

    Attributes:
        chunks: All of them, by id.
        extractions: What was read, by chunk id: of all chunks, or of those in `replaced_chunks`.
        all_read: Whether every chunk is known to have been read without an error.
    """

    chunks: Mapping[str, Chunk] = field(default_factory=dict[str, Chunk])
    extractions: Mapping[str, Extraction] = field(default_factory=dict[str, Extraction])
    all_read: bool = False

    def headings(self, chunk_id: str) -> tuple[str, ...] | None:
        """Return the headings that a chunk stood under; None if there is no such chunk."""
        chunk = self.chunks.get(chunk_id)
        return chunk.headings if chunk else None

    def is_read(self, chunk_id: str) -> bool:
        """Whether a chunk was read without an error."""
        if self.all_read:
            return chunk_id in self.chunks
        extraction = self.extractions.get(chunk_id)
        return extraction is not None and not extraction.error


@dataclass(frozen=True, slots=True)
class ChunkPlan:
    """What to do with a document's chunks.

    Attributes:
        chunk_count: Chunks it will have.
        unread: Chunks to read, in order.
        written: Chunks to write: new, moved, or under other headings.
        removed: Ids of chunks that go.
        replaced: What was read in chunks that go, move, or are read again.
        moved: What was read in chunks that only move, at their new place.
        passages: Text to embed per id of a chunk that is new or under other headings.
        terms: Full text of the same.
    """

    chunk_count: int
    unread: tuple[Chunk, ...]
    written: tuple[Chunk, ...]
    removed: tuple[str, ...]
    replaced: tuple[Extraction, ...]
    moved: tuple[Extraction, ...]
    passages: dict[str, str]
    terms: tuple[TextEntry, ...]


def replaced_chunks(chunks: Sequence[Chunk], stored: StoredChunks) -> list[str]:
    """Return the ids of stored chunks whose readings go, move or are made again; `stored` may lack extractions."""
    kept = {chunk.id: _reading_basis(chunk) for chunk in chunks}
    return [id_ for id_, before in stored.chunks.items() if kept.get(id_) != _reading_basis(before)]


def _reading_basis(chunk: Chunk) -> tuple[int, tuple[str, ...], str]:
    return chunk.position, chunk.headings, chunk.context


def plan_chunks(title: str, chunks: Sequence[Chunk], stored: StoredChunks, *, keeps_readings: bool) -> ChunkPlan:
    """Compare a document's chunks with those that are stored of it. Takes CPU time in proportion to new text.

    Args:
        title: The document's title as it shall be.
        chunks: Its chunks as they shall be, in order.
        stored: What there is of it; empty for a new document.
        keeps_readings: Whether chunks that stay keep their mentions and vectors; False if the title may be another.
    """
    current = {chunk.id for chunk in chunks}
    indexed = {chunk.id for chunk in chunks if keeps_readings and stored.headings(chunk.id) == chunk.headings}
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
        terms=tuple(TextEntry(id_, tuple(terms(passage))) for id_, passage in passages.items()),
    )
