"""A store that keeps everything in dictionaries: exact, plain, gone when the process ends.

For tests of what is built on a store, ours and others'. It passes the same contract suite as the real back ends and
has the whole of `Changeset`'s meaning; each call is one step of the event loop, so all it reads is of one moment.
Vectors are searched by brute force, full text by BM25 over postings in memory. Walks over the graph are in
`heliograph.testing.memory_graph`.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from heliograph.errors import StaleChangesetError, StoreUnavailable
from heliograph.models import (
    Chunk,
    Document,
    DocumentStatus,
    EntityEvidence,
    EntityMention,
    Extraction,
    RelationEvidence,
    RelationMention,
    Stats,
    utc_now,
)
from heliograph.stores.base import (
    CachedReply,
    DocumentPage,
    DocumentQuery,
    Hit,
    RecordsStore,
    ReplyCache,
    Store,
    TextStore,
    VectorStore,
)
from heliograph.stores.changeset import Changeset, Collection, TextEntry
from heliograph.testing.memory_graph import MemoryGraphStore
from heliograph.text.names import name_to_entity_id, names_to_relation_id

__all__ = ["MemoryStore"]

_K1, _B = 1.2, 0.75


@dataclass
class _Records:
    documents: dict[str, Document] = field(default_factory=dict[str, Document])
    texts: dict[str, str] = field(default_factory=dict[str, str])
    chunks: dict[str, Chunk] = field(default_factory=dict[str, Chunk])
    extractions: dict[str, Extraction] = field(default_factory=dict[str, Extraction])
    entity_evidence: dict[str, EntityEvidence] = field(default_factory=dict[str, EntityEvidence])
    relation_evidence: dict[str, RelationEvidence] = field(default_factory=dict[str, RelationEvidence])

    def version_of(self, id_: str) -> int:
        evidence = self.entity_evidence.get(id_) or self.relation_evidence.get(id_)
        return evidence.version if evidence else 0


class _MemoryRecordsStore(RecordsStore):
    def __init__(self, records: _Records) -> None:
        self._records = records

    async def get_documents(self, ids: Sequence[str]) -> list[Document]:
        return [self._records.documents[id_] for id_ in ids if id_ in self._records.documents]

    async def find_documents(self, query: DocumentQuery) -> DocumentPage:
        found = [document for document in self._records.documents.values() if _fits(document, query)]
        found.sort(key=lambda document: document.id)
        found.sort(key=lambda document: getattr(document, query.sort), reverse=query.descending)
        return DocumentPage(tuple(found[query.offset : query.offset + query.limit]), len(found))

    async def get_document_text(self, document_id: str) -> str | None:
        return self._records.texts.get(document_id)

    async def get_chunks(self, ids: Sequence[str]) -> list[Chunk]:
        return [self._records.chunks[id_] for id_ in ids if id_ in self._records.chunks]

    async def get_document_chunks(self, document_id: str) -> list[Chunk]:
        chunks = (chunk for chunk in self._records.chunks.values() if chunk.document_id == document_id)
        return sorted(chunks, key=lambda chunk: chunk.position)

    async def get_sources(self, chunk_ids: Sequence[str]) -> dict[str, str]:
        documents = self._records.documents
        chunks = await self.get_chunks(chunk_ids)
        return {chunk.id: documents[chunk.document_id].source for chunk in chunks if chunk.document_id in documents}

    async def get_extractions(self, chunk_ids: Sequence[str]) -> list[Extraction]:
        return [self._records.extractions[id_] for id_ in chunk_ids if id_ in self._records.extractions]

    async def get_evidence(
        self, entity_ids: Sequence[str], relation_ids: Sequence[str], leading: int
    ) -> tuple[list[EntityEvidence], list[RelationEvidence]]:
        entities = [self._records.entity_evidence[id_] for id_ in entity_ids if id_ in self._records.entity_evidence]
        relations = [
            self._records.relation_evidence[id_] for id_ in relation_ids if id_ in self._records.relation_evidence
        ]
        return (
            [replace(item, leading=self._entity_mentions(item.id)[:leading]) for item in entities],
            [replace(item, leading=self._relation_mentions(item.id)[:leading]) for item in relations],
        )

    def _entity_mentions(self, id_: str) -> tuple[EntityMention, ...]:
        mentions = (mention for item in self._records.extractions.values() for mention in item.entities)
        found = [mention for mention in mentions if name_to_entity_id(mention.name) == id_]
        return tuple(sorted(found, key=lambda mention: (mention.rank, mention.chunk_id)))

    def _relation_mentions(self, id_: str) -> tuple[RelationMention, ...]:
        mentions = (mention for item in self._records.extractions.values() for mention in item.relations)
        found = [mention for mention in mentions if names_to_relation_id(mention.source, mention.target) == id_]
        return tuple(sorted(found, key=lambda mention: (mention.rank, mention.chunk_id)))


def _fits(document: Document, query: DocumentQuery) -> bool:
    return (
        (not query.statuses or document.status in query.statuses)
        and (query.track_id is None or document.track_id == query.track_id)
        and (query.source_prefix is None or document.source.startswith(query.source_prefix))
    )


class _MemoryVectorStore(VectorStore):
    def __init__(self) -> None:
        self._vectors: dict[Collection, dict[str, NDArray[np.float32]]] = {item: {} for item in Collection}
        self._matrices: dict[Collection, tuple[list[str], NDArray[np.float32]]] = {}

    async def search(
        self, collection: Collection, vector: NDArray[np.float32], limit: int, min_score: float
    ) -> list[Hit]:
        if not self._vectors[collection]:
            return []
        ids, matrix = self._matrix(collection)
        scores = matrix @ vector
        # Ids are sorted, so a stable sort leaves ties in the order of ids.
        best = np.argsort(-scores, kind="stable")[:limit]
        return [Hit(ids[index], float(scores[index])) for index in best if scores[index] >= min_score]

    async def get_vectors(self, collection: Collection, ids: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        vectors = self._vectors[collection]
        return {id_: vectors[id_] for id_ in ids if id_ in vectors}

    def remove(self, collection: Collection, ids: Sequence[str]) -> None:
        for id_ in ids:
            self._vectors[collection].pop(id_, None)
        self._matrices.pop(collection, None)

    def upsert(self, collection: Collection, ids: Sequence[str], vectors: NDArray[np.float32]) -> None:
        rows = np.array(vectors, np.float32)
        rows.flags.writeable = False
        self._vectors[collection].update(zip(ids, rows, strict=True))
        self._matrices.pop(collection, None)

    def _matrix(self, collection: Collection) -> tuple[list[str], NDArray[np.float32]]:
        if collection not in self._matrices:
            ids = sorted(self._vectors[collection])
            self._matrices[collection] = ids, np.stack([self._vectors[collection][id_] for id_ in ids])
        return self._matrices[collection]


class _MemoryTextStore(TextStore):
    def __init__(self) -> None:
        self._entries: dict[Collection, dict[str, Counter[str]]] = {item: {} for item in Collection}

    async def search(self, collection: Collection, terms: Sequence[str], limit: int) -> list[Hit]:
        entries = self._entries[collection]
        mean = sum(entry.total() for entry in entries.values()) / len(entries) if entries else 0.0
        scores: Counter[str] = Counter()
        for term in dict.fromkeys(terms):
            holders = {id_: entry[term] for id_, entry in entries.items() if entry[term]}
            rarity = math.log1p((len(entries) - len(holders) + 0.5) / (len(holders) + 0.5))
            for id_, count in holders.items():
                norm = _K1 * (1 - _B + _B * entries[id_].total() / mean)
                scores[id_] += rarity * count * (_K1 + 1) / (count + norm)  # pyright: ignore[reportArgumentType]
        return [Hit(id_, float(score)) for id_, score in sorted(scores.items(), key=_best_first)[:limit]]

    def remove(self, collection: Collection, ids: Sequence[str]) -> None:
        for id_ in ids:
            self._entries[collection].pop(id_, None)

    def upsert(self, collection: Collection, entries: Sequence[TextEntry]) -> None:
        self._entries[collection].update((entry.id, Counter(entry.terms)) for entry in entries)


def _best_first(scored: tuple[str, float]) -> tuple[float, str]:
    return -scored[1], scored[0]


class _MemoryReplyCache(ReplyCache):
    def __init__(self) -> None:
        self.replies: dict[str, CachedReply] = {}

    async def get_reply(self, key: str) -> CachedReply | None:
        return self.replies.get(key)

    async def put_reply(self, reply: CachedReply) -> None:
        self.replies[reply.key] = reply

    async def delete_replies(self, cache_type: str | None = None) -> int:
        dropped = [key for key in self.replies if cache_type in (None, key.split(":")[1])]
        for key in dropped:
            del self.replies[key]
        return len(dropped)

    def remove_of_chunks(self, chunk_ids: Sequence[str]) -> None:
        dropped = {key for key, reply in self.replies.items() if reply.chunk_id in set(chunk_ids)}
        for key in dropped:
            del self.replies[key]


class MemoryStore(Store):
    """All roles in memory.

    Attributes:
        applied: The changesets applied, in order.
    """

    def __init__(self) -> None:
        self._data = _Records()
        self._version = 0
        self._is_closed = False
        self._lock = asyncio.Lock()
        self._graph = MemoryGraphStore()
        self._vectors = _MemoryVectorStore()
        self._text = _MemoryTextStore()
        self._replies = _MemoryReplyCache()
        self.records = _MemoryRecordsStore(self._data)
        self.graph = self._graph
        self.vectors = self._vectors
        self.text = self._text
        self.replies = self._replies
        self.applied: list[Changeset] = []

    async def apply(self, changeset: Changeset) -> int:  # noqa: D102 (an override, here and below)
        if self._is_closed:
            raise StoreUnavailable("the store in memory is closed; make a new one")
        self._check(changeset)
        self._version += 1
        self._remove(changeset)
        self._upsert_truth(changeset)
        self._upsert_projections(changeset)
        await self._replies.delete_replies("query")
        self.applied.append(changeset)
        return self._version

    @asynccontextmanager
    async def ingest_lock(self) -> AsyncGenerator[None]:  # noqa: D102
        async with self._lock:
            yield

    async def get_data_version(self) -> int:  # noqa: D102
        return self._version

    async def get_stats(self) -> Stats:  # noqa: D102
        counts: Counter[DocumentStatus] = Counter(document.status for document in self._data.documents.values())
        return Stats(
            documents=dict(counts),
            chunks=len(self._data.chunks),
            entities=len(self._graph.entities),
            relations=len(self._graph.relations),
            cached_replies=len(self._replies.replies),
            data_version=self._version,
            bytes_on_disk=0,
        )

    async def close(self) -> None:  # noqa: D102
        self._is_closed = True

    def describe(self) -> Mapping[str, str]:  # noqa: D102
        return {"store": "memory"}

    def _check(self, changeset: Changeset) -> None:
        for id_, version in changeset.expected.items():
            if self._data.version_of(id_) != version:
                raise StaleChangesetError(f"the evidence of {id_!r} has changed since it was read; compute it again")
        for id_, content_hash in changeset.expected_documents.items():
            document = self._data.documents.get(id_)
            if (document.content_hash if document else "") != content_hash:
                raise StaleChangesetError(f"the document {id_!r} has changed since it was read; read it again")

    def _remove(self, changeset: Changeset) -> None:
        for id_ in changeset.removed_documents:
            self._data.documents.pop(id_, None)
            self._data.texts.pop(id_, None)
        for id_ in changeset.removed_chunks:
            self._data.chunks.pop(id_, None)
            self._data.extractions.pop(id_, None)
        self._replies.remove_of_chunks(changeset.removed_chunks)
        self._graph.remove(changeset.removed_entities, changeset.removed_relations)
        removed = {
            Collection.CHUNKS: changeset.removed_chunks,
            Collection.ENTITIES: changeset.removed_entities,
            Collection.RELATIONS: changeset.removed_relations,
        }
        for collection, ids in removed.items():
            self._vectors.remove(collection, ids)
            self._text.remove(collection, ids)

    def _upsert_truth(self, changeset: Changeset) -> None:
        data = self._data
        for document in changeset.documents:
            known = data.documents.get(document.id, document)
            data.documents[document.id] = replace(document, created_at=known.created_at)
        data.texts.update(changeset.document_texts)
        data.chunks.update((chunk.id, chunk) for chunk in changeset.chunks)
        data.extractions.update((extraction.chunk_id, extraction) for extraction in changeset.extractions)
        for evidence in changeset.entity_evidence:
            data.entity_evidence.pop(evidence.id, None)
            if evidence.mention_count:
                data.entity_evidence[evidence.id] = replace(evidence, leading=(), version=self._version)
        for evidence in changeset.relation_evidence:
            data.relation_evidence.pop(evidence.id, None)
            if evidence.mention_count:
                data.relation_evidence[evidence.id] = replace(evidence, leading=(), version=self._version)

    def _upsert_projections(self, changeset: Changeset) -> None:
        self._graph.upsert(changeset.entities, changeset.relations, int(utc_now().timestamp()))
        for collection, batch in changeset.vectors.items():
            self._vectors.upsert(collection, batch.ids, batch.vectors)
        for collection, entries in changeset.texts.items():
            self._text.upsert(collection, entries)
