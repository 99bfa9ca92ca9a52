"""Looks up, in the store with the truth, what is there now of what the outbox names, for one projection.

A change is made of what several reads find, one after the other. A commit in between is noted in the outbox and thus
looked up again, so that what a projection ends with is of one moment.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from heliograph.models import Chunk, Document, Entity
from heliograph.stores.base import Store
from heliograph.stores.changeset import Collection, TextEntry
from heliograph.stores.full_text import chunk_terms, entity_terms
from heliograph.stores.inspection import ScanKind
from heliograph.stores.outbox import OutboxEntry, OutboxKind
from heliograph.stores.projection import Projection, ProjectionChange

_PAGE = 500
_COLLECTIONS = {
    OutboxKind.CHUNKS: Collection.CHUNKS,
    OutboxKind.ENTITIES: Collection.ENTITIES,
    OutboxKind.RELATIONS: Collection.RELATIONS,
}
_SCANS = {
    OutboxKind.DOCUMENTS: ScanKind.DOCUMENTS,
    OutboxKind.CHUNKS: ScanKind.CHUNKS,
    OutboxKind.ENTITIES: ScanKind.ENTITIES,
    OutboxKind.RELATIONS: ScanKind.RELATIONS,
}


@dataclass(frozen=True, slots=True)
class _Origins:
    owners: Mapping[str, Document] = field(default_factory=dict[str, Document])
    owner_ids: Mapping[str, str] = field(default_factory=dict[str, str])
    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])


class Lookup:
    """Makes changes for a projection.

    Args:
        home: Holds the truth.
        projection: For which; says what it needs.
    """

    def __init__(self, home: Store, projection: Projection) -> None:
        self._home = home
        self._projection = projection

    async def everything(self) -> AsyncGenerator[ProjectionChange]:
        """Yield all that there is, page by page."""
        for kind in sorted(self._projection.kinds & set(_SCANS)):
            after = ""
            while ids := await self._home.inspection.scan(_SCANS[kind], after, _PAGE):
                yield await self.look_up({kind: ids})
                after = ids[-1]

    async def changes(self, entries: Sequence[OutboxEntry]) -> AsyncGenerator[ProjectionChange]:
        """Yield what entries name, page by page."""
        for start in range(0, len(entries), _PAGE):
            ids: dict[OutboxKind, list[str]] = {}
            for entry in entries[start : start + _PAGE]:
                ids.setdefault(entry.kind, []).append(entry.id)
            kept = {OutboxKind.KEPT_REPLIES: [e.id for e in entries if e.kind is OutboxKind.KEPT_REPLIES]}
            yield await self.look_up(ids | kept)

    async def look_up(self, ids: Mapping[OutboxKind, Sequence[str]]) -> ProjectionChange:
        """Return what is there now under these ids, and which of them are gone."""
        wanted = {kind: list(named) for kind, named in ids.items() if kind in self._projection.kinds}
        documents = await self._home.records.get_documents(wanted.get(OutboxKind.DOCUMENTS, []))
        chunks = await self._home.records.get_chunks(wanted.get(OutboxKind.CHUNKS, []))
        entities = await self._home.graph.get_entities(wanted.get(OutboxKind.ENTITIES, []))
        relations = await self._home.graph.get_relations(wanted.get(OutboxKind.RELATIONS, []))
        origins = await self._find_origins(chunks, entities) if self._projection.needs_origins else _Origins()
        there = {item.id for item in (*documents, *chunks, *entities, *relations)}
        return ProjectionChange(
            documents=tuple(documents),
            chunks=tuple(chunks),
            entities=tuple(entities),
            relations=tuple(relations),
            vectors=await self._vectors(wanted) if self._projection.needs_vectors else {},
            texts=await self._texts(chunks, entities) if self._projection.needs_texts else {},
            owners=origins.owners,
            owner_ids=origins.owner_ids,
            names=origins.names,
            chunk_ids=await self._chunk_ids(documents) if self._projection.needs_origins else {},
            removed={kind: [id_ for id_ in named if id_ not in there] for kind, named in wanted.items()},
            kept_replies=tuple(ids.get(OutboxKind.KEPT_REPLIES, ())),
        )

    async def _vectors(
        self, wanted: Mapping[OutboxKind, Sequence[str]]
    ) -> dict[Collection, Mapping[str, NDArray[np.float32]]]:
        return {
            _COLLECTIONS[kind]: await self._home.vectors.get_vectors(_COLLECTIONS[kind], named)
            for kind, named in wanted.items()
            if kind in _COLLECTIONS
        }

    async def _texts(
        self, chunks: Sequence[Chunk], entities: Sequence[Entity]
    ) -> dict[Collection, tuple[TextEntry, ...]]:
        documents = await self._home.records.get_documents(sorted({chunk.document_id for chunk in chunks}))
        titles = {item.id: item.title for item in documents}
        # A page is a tenth of a second of work and more; other tasks go on meanwhile.
        of_chunks = await asyncio.to_thread(
            lambda: tuple(chunk_terms(titles.get(chunk.document_id, ""), chunk) for chunk in chunks)
        )
        return {Collection.CHUNKS: of_chunks, Collection.ENTITIES: tuple(map(entity_terms, entities))}

    async def _chunk_ids(self, documents: Sequence[Document]) -> dict[str, tuple[str, ...]]:
        read = self._home.records.get_document_chunks
        return {item.id: tuple(chunk.id for chunk in await read(item.id)) for item in documents}

    async def _find_origins(self, chunks: Sequence[Chunk], entities: Sequence[Entity]) -> _Origins:
        owner_ids = {chunk.id: chunk.document_id for chunk in chunks}
        missing = sorted({id_ for entity in entities for id_ in entity.chunk_ids} - set(owner_ids))
        for start in range(0, len(missing), _PAGE):
            others = await self._home.records.get_chunks(missing[start : start + _PAGE])
            owner_ids |= {chunk.id: chunk.document_id for chunk in others}
        documents = await self._home.records.get_documents(sorted({chunk.document_id for chunk in chunks}))
        read = await self._home.records.get_extractions([chunk.id for chunk in chunks])
        names = {item.chunk_id: tuple(dict.fromkeys(mention.name for mention in item.entities)) for item in read}
        return _Origins({item.id: item for item in documents}, owner_ids, names)
