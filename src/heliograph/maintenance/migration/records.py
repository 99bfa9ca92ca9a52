"""The sections of a workspace that are its truth: documents, chunks with what was read in them, curations, rules."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from heliograph.maintenance.migration.digests import Tally, digest_item, digest_text, digest_vector
from heliograph.maintenance.migration.section import PAGE, Section, scan_pages
from heliograph.models import Chunk, Curation, Document, Extraction, NameRules
from heliograph.stores.base import CurationQuery, Store
from heliograph.stores.changeset import Changeset, Collection, TextEntry, VectorBatch
from heliograph.stores.inspection import ScanKind
from heliograph.text.analysis import terms
from heliograph.text.passages import chunk_index_text

__all__ = ["ChunkSection", "CurationSection", "DocumentSection", "RuleSection", "batch_vectors"]

_MAX_CHARACTERS = 2_000_000


@dataclass(frozen=True, slots=True)
class _WholeText:
    document: Document
    text: str | None


class DocumentSection(Section[_WholeText]):
    """Documents with their texts; a twin's is that of its original."""

    name = "documents"

    def pages(self, store: Store) -> AsyncIterator[list[str]]:
        """See `Section`."""
        return scan_pages(store, ScanKind.DOCUMENTS)

    async def groups(self, store: Store, ids: Sequence[str]) -> list[list[str]]:
        """See `Section`; a group's texts are no longer than 2,000,000 characters, or one text."""
        groups: list[list[str]] = []
        room = 0
        for document in await store.records.get_documents(ids):
            if not groups or document.length > room:
                groups.append([])
                room = _MAX_CHARACTERS
            groups[-1].append(document.id)
            room -= document.length
        return groups

    async def read(self, store: Store, ids: Sequence[str]) -> dict[str, _WholeText]:
        """See `Section`."""
        found: dict[str, _WholeText] = {}
        for document in await store.records.get_documents(ids):
            text = None if document.twin_of else await store.records.get_document_text(document.id)
            found[document.id] = _WholeText(document, text)
        return found

    def tally(self, item: _WholeText) -> Mapping[str, Tally]:
        """See `Section`."""
        texts = {} if item.text is None else {"document texts": Tally(1, digest_text(item.text))}
        return {"documents": Tally(1, digest_item(item.document)), **texts}

    async def write(self, source: Store, target: Store, items: Mapping[str, _WholeText]) -> None:  # noqa: ARG002
        """See `Section`."""
        await target.apply(
            Changeset(
                documents=tuple(item.document for item in items.values()),
                document_texts={id_: item.text for id_, item in items.items() if item.text is not None},
                removed_texts=tuple(id_ for id_, item in items.items() if item.document.twin_of),
            )
        )


@dataclass(frozen=True, slots=True)
class _ReadChunk:
    chunk: Chunk
    extraction: Extraction | None
    vector: NDArray[np.float32] | None


class ChunkSection(Section[_ReadChunk]):
    """Chunks with what was read in them, their vectors and their full text."""

    name = "chunks"
    is_removable = True

    def pages(self, store: Store) -> AsyncIterator[list[str]]:
        """See `Section`."""
        return scan_pages(store, ScanKind.CHUNKS)

    async def read(self, store: Store, ids: Sequence[str]) -> dict[str, _ReadChunk]:
        """See `Section`."""
        extractions = {item.chunk_id: item for item in await store.records.get_extractions(ids)}
        vectors = await store.vectors.get_vectors(Collection.CHUNKS, ids)
        chunks = await store.records.get_chunks(ids)
        return {item.id: _ReadChunk(item, extractions.get(item.id), vectors.get(item.id)) for item in chunks}

    def tally(self, item: _ReadChunk) -> Mapping[str, Tally]:
        """See `Section`."""
        tallies = {"chunks": Tally(1, digest_item(item.chunk))}
        if item.extraction is not None:
            tallies["extractions"] = Tally(1, digest_item(item.extraction))
        if item.vector is not None:
            tallies["chunk vectors"] = Tally(1, digest_vector(item.vector))
        return tallies

    async def write(self, source: Store, target: Store, items: Mapping[str, _ReadChunk]) -> None:
        """See `Section`; full text cannot be read back from a store, and is made again from the chunks."""
        chunks = tuple(item.chunk for item in items.values())
        owners = await source.records.get_documents(list(dict.fromkeys(chunk.document_id for chunk in chunks)))
        titles = {document.id: document.title for document in owners}
        passages = {chunk.id: chunk_index_text(titles.get(chunk.document_id, ""), chunk) for chunk in chunks}
        await target.apply(
            Changeset(
                chunks=chunks,
                extractions=tuple(item.extraction for item in items.values() if item.extraction is not None),
                vectors=batch_vectors(Collection.CHUNKS, {id_: item.vector for id_, item in items.items()}),
                texts={Collection.CHUNKS: tuple(TextEntry(id_, tuple(terms(text))) for id_, text in passages.items())},
            )
        )

    async def find_removal(self, target: Store, ids: Sequence[str]) -> Changeset:  # noqa: ARG002
        """See `Section`."""
        return Changeset(removed_chunks=tuple(ids))


class CurationSection(Section[Curation]):
    """What people corrected, in its order; the target numbers it anew."""

    name = "curations"

    async def pages(self, store: Store) -> AsyncIterator[list[str]]:
        """See `Section`."""
        offset = 0
        while page := (await store.curations.find_curations(CurationQuery(offset=offset, limit=PAGE))).curations:
            yield [item.id for item in page]
            offset += len(page)

    async def read(self, store: Store, ids: Sequence[str]) -> dict[str, Curation]:
        """See `Section`."""
        return {item.id: item for item in await store.curations.get_curations(ids)}

    def tally(self, item: Curation) -> Mapping[str, Tally]:
        """See `Section`."""
        return {"curations": Tally(1, digest_item(item))}

    async def write(self, source: Store, target: Store, items: Mapping[str, Curation]) -> None:  # noqa: ARG002
        """See `Section`."""
        await target.apply(Changeset(curations=tuple(replace(item, sequence=0) for item in items.values())))


class RuleSection(Section[NameRules]):
    """What decides which entity a name counts for."""

    name = "name rules"

    def pages(self, store: Store) -> AsyncIterator[list[str]]:
        """See `Section`."""
        return scan_pages(store, ScanKind.NAME_RULES)

    async def read(self, store: Store, ids: Sequence[str]) -> dict[str, NameRules]:
        """See `Section`."""
        return {item.id: item for item in await store.curations.get_rules(ids)}

    def tally(self, item: NameRules) -> Mapping[str, Tally]:
        """See `Section`."""
        return {"name rules": Tally(1, digest_item(item))}

    async def write(self, source: Store, target: Store, items: Mapping[str, NameRules]) -> None:  # noqa: ARG002
        """See `Section`."""
        await target.apply(Changeset(name_rules=tuple(items.values())))


def batch_vectors(
    collection: Collection, vectors: Mapping[str, NDArray[np.float32] | None]
) -> dict[Collection, VectorBatch]:
    """Return the vectors there are, as a changeset takes them."""
    found = {id_: vector for id_, vector in vectors.items() if vector is not None}
    return {collection: VectorBatch(tuple(found), np.stack(list(found.values())))} if found else {}
