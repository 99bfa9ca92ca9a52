"""The sections of a workspace that a migration moves, each with how it is listed, read, compared and written.

Primary data: documents, chunks with their extractions, curations, name rules. Derived data: entity and relation
evidence, entities, relations. A section's checksum is the sum of its items' digests, so it does not depend on a
back end's order.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter

from heliograph.models import (
    Chunk,
    Curation,
    Document,
    Entity,
    EntityEvidence,
    Extraction,
    NameRules,
    Relation,
    RelationEvidence,
)
from heliograph.stores.base import CachedReply, CurationQuery, ScanKind, Store
from heliograph.stores.bm25 import entity_terms
from heliograph.stores.changeset import Changeset, Collection, TextEntry, VectorBatch
from heliograph.text.analysis import chunk_index_text, terms

# Checksums of what is moved: equal for equal things, whichever back end they were read from.
#
# A checksum of many things is the sum of theirs, so the order in which a back end lists them does not matter. What a
# back end gives out by itself (versions, the sequence of curations) is not part of it.

_MODULUS = 1 << 64
_ADAPTERS: dict[type, TypeAdapter[Any]] = {
    kind: TypeAdapter(kind)
    for kind in (
        *(CachedReply, Chunk, Curation, Document, Entity, EntityEvidence),
        *(Extraction, NameRules, Relation, RelationEvidence),
    )
}

Item = (
    CachedReply
    | Chunk
    | Curation
    | Document
    | Entity
    | EntityEvidence
    | Extraction
    | NameRules
    | Relation
    | RelationEvidence
)


@dataclass(frozen=True, slots=True)
class Tally:
    """How many things of one kind there are, and the sum of their checksums modulo 2**64."""

    count: int = 0
    checksum: int = 0

    def __add__(self, other: Tally) -> Tally:
        return Tally(self.count + other.count, (self.checksum + other.checksum) % _MODULUS)


def digest_item(item: Item) -> int:
    """Return the checksum of one thing, without what a back end numbers by itself."""
    plain = _ADAPTERS[type(item)].dump_python(_unnumbered(item), mode="python")
    return _digest(json.dumps(plain, sort_keys=True, default=str).encode())


def digest_text(text: str | None) -> int:
    """Return the checksum of a text; 0 where there is none."""
    return 0 if text is None else _digest(text.encode("utf-8", "surrogatepass"))


def digest_vector(vector: NDArray[np.float32]) -> int:
    """Return the checksum of a vector: of its exact numbers."""
    return _digest(np.ascontiguousarray(vector, "<f4").tobytes())


def _unnumbered(item: Item) -> Item:
    match item:
        case Curation():
            return replace(item, sequence=0)
        case NameRules():
            return replace(item, version=0, curations=())
        case EntityEvidence():
            return replace(item, version=0, leading=())
        case RelationEvidence():
            return replace(item, version=0, leading=())
        case _:
            return item


def _digest(data: bytes) -> int:
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "little")


# The contract of one section of a workspace that is moved: how it is listed, read, compared and written.

PAGE = 500

T = TypeVar("T")


class Section(ABC, Generic[T]):
    """Things that are moved together, each known by an id.

    Attributes:
        name: Of what, for messages and progress.
        is_removable: Whether an earlier run may have copied what the source has lost since; else what the target alone
            has shows that it is another's.
    """

    name: str
    is_removable: bool = False

    @abstractmethod
    def pages(self, store: Store) -> AsyncIterator[list[str]]:
        """Yield all ids, a page at a time."""

    @abstractmethod
    async def read(self, store: Store, ids: Sequence[str]) -> dict[str, T]:
        """Return what is there under these ids, with all that is written along with it."""

    @abstractmethod
    def tally(self, item: T) -> Mapping[str, Tally]:
        """Return the checksums of one thing, per kind of what it consists of."""

    @abstractmethod
    async def write(self, source: Store, target: Store, items: Mapping[str, T]) -> None:
        """Put things into the target, in place of what it has under their ids, in one commit."""

    async def find_removal(self, target: Store, ids: Sequence[str]) -> Changeset:
        """Return what takes things out of the target that the source has not; none where `is_removable` is not set."""
        raise NotImplementedError(f"{self.name} are never taken out; {len(ids)} of {target.describe()!r} were to be")

    async def groups(self, store: Store, ids: Sequence[str]) -> list[list[str]]:  # noqa: ARG002 (of those that differ)
        """Return a page of ids in groups that fit into memory."""
        return [list(ids)]


async def scan_pages(store: Store, kind: ScanKind) -> AsyncIterator[list[str]]:
    """Yield all ids of a kind, ascending, a page at a time."""
    after = ""
    while ids := await store.inspection.scan(kind, after, PAGE):
        yield ids
        after = ids[-1]


# The sections of a workspace that are its truth: documents, chunks with what was read in them, curations, rules.

_MAX_CHARACTERS = 2_000_000


@dataclass(frozen=True, slots=True)
class _WholeText:
    document: Document
    text: str | None


class DocumentSection(Section[_WholeText]):
    """Documents with their texts; a twin's is that of its original."""

    name = "documents"

    def pages(self, store: Store) -> AsyncIterator[list[str]]:
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
        found: dict[str, _WholeText] = {}
        for document in await store.records.get_documents(ids):
            text = None if document.twin_of else await store.records.get_document_text(document.id)
            found[document.id] = _WholeText(document, text)
        return found

    def tally(self, item: _WholeText) -> Mapping[str, Tally]:
        texts = {} if item.text is None else {"document texts": Tally(1, digest_text(item.text))}
        return {"documents": Tally(1, digest_item(item.document)), **texts}

    async def write(self, source: Store, target: Store, items: Mapping[str, _WholeText]) -> None:  # noqa: ARG002
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
        return scan_pages(store, ScanKind.CHUNKS)

    async def read(self, store: Store, ids: Sequence[str]) -> dict[str, _ReadChunk]:
        extractions = {item.chunk_id: item for item in await store.records.get_extractions(ids)}
        vectors = await store.vectors.get_vectors(Collection.CHUNKS, ids)
        chunks = await store.records.get_chunks(ids)
        return {item.id: _ReadChunk(item, extractions.get(item.id), vectors.get(item.id)) for item in chunks}

    def tally(self, item: _ReadChunk) -> Mapping[str, Tally]:
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
        return Changeset(removed_chunks=tuple(ids))


class CurationSection(Section[Curation]):
    """What people corrected, in its order; the target numbers it anew."""

    name = "curations"

    async def pages(self, store: Store) -> AsyncIterator[list[str]]:
        offset = 0
        while page := (await store.curations.find_curations(CurationQuery(offset=offset, limit=PAGE))).curations:
            yield [item.id for item in page]
            offset += len(page)

    async def read(self, store: Store, ids: Sequence[str]) -> dict[str, Curation]:
        return {item.id: item for item in await store.curations.get_curations(ids)}

    def tally(self, item: Curation) -> Mapping[str, Tally]:
        return {"curations": Tally(1, digest_item(item))}

    async def write(self, source: Store, target: Store, items: Mapping[str, Curation]) -> None:  # noqa: ARG002
        await target.apply(Changeset(curations=tuple(replace(item, sequence=0) for item in items.values())))


class RuleSection(Section[NameRules]):
    """What decides which entity a name counts for."""

    name = "name rules"

    def pages(self, store: Store) -> AsyncIterator[list[str]]:
        return scan_pages(store, ScanKind.NAME_RULES)

    async def read(self, store: Store, ids: Sequence[str]) -> dict[str, NameRules]:
        return {item.id: item for item in await store.curations.get_rules(ids)}

    def tally(self, item: NameRules) -> Mapping[str, Tally]:
        return {"name rules": Tally(1, digest_item(item))}

    async def write(self, source: Store, target: Store, items: Mapping[str, NameRules]) -> None:  # noqa: ARG002
        await target.apply(Changeset(name_rules=tuple(items.values())))


def batch_vectors(
    collection: Collection, vectors: Mapping[str, NDArray[np.float32] | None]
) -> dict[Collection, VectorBatch]:
    """Return the vectors there are, as a changeset takes them."""
    found = {id_: vector for id_, vector in vectors.items() if vector is not None}
    return {collection: VectorBatch(tuple(found), np.stack(list(found.values())))} if found else {}


# The sections of a workspace that follow from its truth and are moved as they are: evidence, entities, relations.


class EntityEvidenceSection(Section[EntityEvidence]):
    """Counts over the mentions of entities."""

    name = "entity evidence"
    is_removable = True

    def pages(self, store: Store) -> AsyncIterator[list[str]]:
        return scan_pages(store, ScanKind.ENTITY_EVIDENCE)

    async def read(self, store: Store, ids: Sequence[str]) -> dict[str, EntityEvidence]:
        return {item.id: item for item in (await store.records.get_evidence(ids, [], 0))[0]}

    def tally(self, item: EntityEvidence) -> Mapping[str, Tally]:
        return {self.name: Tally(1, digest_item(item))}

    async def write(self, source: Store, target: Store, items: Mapping[str, EntityEvidence]) -> None:  # noqa: ARG002
        await target.apply(Changeset(entity_evidence=tuple(items.values())))

    async def find_removal(self, target: Store, ids: Sequence[str]) -> Changeset:
        """See `Section`; an entity goes with its evidence, and is copied again if people made it."""
        found = (await self.read(target, ids)).values()
        gone = tuple(replace(item, mention_count=0) for item in found)
        return Changeset(entity_evidence=gone, removed_entities=tuple(ids))


class RelationEvidenceSection(Section[RelationEvidence]):
    """Counts over the mentions of relations."""

    name = "relation evidence"
    is_removable = True

    def pages(self, store: Store) -> AsyncIterator[list[str]]:
        return scan_pages(store, ScanKind.RELATION_EVIDENCE)

    async def read(self, store: Store, ids: Sequence[str]) -> dict[str, RelationEvidence]:
        return {item.id: item for item in (await store.records.get_evidence([], ids, 0))[1]}

    def tally(self, item: RelationEvidence) -> Mapping[str, Tally]:
        return {self.name: Tally(1, digest_item(item))}

    async def write(self, source: Store, target: Store, items: Mapping[str, RelationEvidence]) -> None:  # noqa: ARG002
        await target.apply(Changeset(relation_evidence=tuple(items.values())))

    async def find_removal(self, target: Store, ids: Sequence[str]) -> Changeset:
        """See `Section`; a relation goes with its evidence, and is copied again if people made it."""
        found = (await self.read(target, ids)).values()
        gone = tuple(replace(item, mention_count=0) for item in found)
        return Changeset(relation_evidence=gone, removed_relations=tuple(ids))


@dataclass(frozen=True, slots=True)
class _Placed:
    """An entity or a relation, with its vector."""

    fold: Entity | Relation
    vector: NDArray[np.float32] | None


class EntitySection(Section[_Placed]):
    """Entities with their vectors, their names in full text, and when they first appeared.

    Degrees are counted by the target as relations come, and so are no part of what is compared here.
    """

    name = "entities"
    is_removable = True

    def pages(self, store: Store) -> AsyncIterator[list[str]]:
        return scan_pages(store, ScanKind.ENTITIES)

    async def read(self, store: Store, ids: Sequence[str]) -> dict[str, _Placed]:
        vectors = await store.vectors.get_vectors(Collection.ENTITIES, ids)
        entities = await store.graph.get_entities(ids)
        return {item.id: _Placed(replace(item, degree=0), vectors.get(item.id)) for item in entities}

    def tally(self, item: _Placed) -> Mapping[str, Tally]:
        return {"entities": Tally(1, digest_item(item.fold)), **_vector_tally("entity vectors", item)}

    async def write(self, source: Store, target: Store, items: Mapping[str, _Placed]) -> None:  # noqa: ARG002
        entities = [item.fold for item in items.values() if isinstance(item.fold, Entity)]
        await target.apply(
            Changeset(
                entities=tuple(entities),
                vectors=batch_vectors(Collection.ENTITIES, {id_: item.vector for id_, item in items.items()}),
                texts={Collection.ENTITIES: tuple(map(entity_terms, entities))},
                moments={item.id: item.created_at for item in entities},
            )
        )

    async def find_removal(self, target: Store, ids: Sequence[str]) -> Changeset:
        """See `Section`; the evidence of what people deleted stays."""
        evidence, _ = await target.records.get_evidence(ids, [], 0)
        return Changeset(removed_entities=tuple(ids), entity_evidence=tuple(evidence))


class RelationSection(Section[_Placed]):
    """Relations with their vectors and when they first appeared; entities must be there."""

    name = "relations"
    is_removable = True

    def pages(self, store: Store) -> AsyncIterator[list[str]]:
        return scan_pages(store, ScanKind.RELATIONS)

    async def read(self, store: Store, ids: Sequence[str]) -> dict[str, _Placed]:
        vectors = await store.vectors.get_vectors(Collection.RELATIONS, ids)
        return {item.id: _Placed(item, vectors.get(item.id)) for item in await store.graph.get_relations(ids)}

    def tally(self, item: _Placed) -> Mapping[str, Tally]:
        return {"relations": Tally(1, digest_item(item.fold)), **_vector_tally("relation vectors", item)}

    async def write(self, source: Store, target: Store, items: Mapping[str, _Placed]) -> None:  # noqa: ARG002
        relations = [item.fold for item in items.values() if isinstance(item.fold, Relation)]
        await target.apply(
            Changeset(
                relations=tuple(relations),
                vectors=batch_vectors(Collection.RELATIONS, {id_: item.vector for id_, item in items.items()}),
                moments={item.id: item.created_at for item in relations},
            )
        )

    async def find_removal(self, target: Store, ids: Sequence[str]) -> Changeset:
        """See `Section`; the evidence of what people deleted stays."""
        _, evidence = await target.records.get_evidence([], ids, 0)
        return Changeset(removed_relations=tuple(ids), relation_evidence=tuple(evidence))


def _vector_tally(kind: str, item: _Placed) -> dict[str, Tally]:
    return {} if item.vector is None else {kind: Tally(1, digest_vector(item.vector))}
