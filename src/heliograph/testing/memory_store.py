"""A store that keeps everything in dictionaries: exact, plain, gone when the process ends.

For tests of what is built on a store, ours and others'. It passes the same contract suite as the real back ends and
has the whole of `Changeset`'s meaning; each call is one step of the event loop, so all it reads is of one moment.
Vectors are searched by brute force, full text by BM25 over postings in memory. Walks over the graph are in
`heliograph.testing.memory_graph`.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from heliograph.errors import InvalidRequestError, StaleChangesetError, StoreUnavailable
from heliograph.filters import Filter, filter_key
from heliograph.models import (
    COMMITTED_STATUSES,
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
    Fold,
    Hit,
    RecordsStore,
    ReplyCache,
    Store,
    StoreView,
    VectorStore,
)
from heliograph.stores.changeset import Changeset, Collection
from heliograph.stores.inspection import ScanKind
from heliograph.stores.listing import is_wanted
from heliograph.testing.memory_curations import MemoryCurationStore
from heliograph.testing.memory_graph import MemoryGraphStore, MemoryNameIndex
from heliograph.testing.memory_inspection import MemoryInspection
from heliograph.testing.memory_reembedding import MemoryReembedding
from heliograph.testing.memory_text import MemoryTextStore
from heliograph.testing.memory_view import MemoryContents, MemoryView, creation_moments, filtered_contents
from heliograph.text.mention_ids import mention_entity_id, mention_relation_id

__all__ = ["MemoryStore"]


@dataclass
class _Records:
    documents: dict[str, Document] = field(default_factory=dict[str, Document])
    texts: dict[str, str] = field(default_factory=dict[str, str])
    chunks: dict[str, Chunk] = field(default_factory=dict[str, Chunk])
    extractions: dict[str, Extraction] = field(default_factory=dict[str, Extraction])
    entity_evidence: dict[str, EntityEvidence] = field(default_factory=dict[str, EntityEvidence])
    relation_evidence: dict[str, RelationEvidence] = field(default_factory=dict[str, RelationEvidence])

    def clear(self) -> None:
        for held in (self.documents, self.texts, self.chunks, self.extractions):
            held.clear()
        self.entity_evidence.clear()
        self.relation_evidence.clear()

    def version_of(self, id_: str) -> int:
        evidence = self.entity_evidence.get(id_) or self.relation_evidence.get(id_)
        return evidence.version if evidence else 0


class _MemoryRecordsStore(RecordsStore):
    def __init__(self, records: _Records) -> None:
        self._records = records

    async def get_documents(self, ids: Sequence[str]) -> list[Document]:
        return [self._records.documents[id_] for id_ in ids if id_ in self._records.documents]

    async def find_documents(self, query: DocumentQuery) -> DocumentPage:
        found = [document for document in self._records.documents.values() if is_wanted(document, query)]
        found.sort(key=lambda document: document.id)
        found.sort(key=lambda document: getattr(document, query.sort), reverse=query.descending)
        return DocumentPage(tuple(found[query.offset : query.offset + query.limit]), len(found))

    async def get_document_text(self, document_id: str) -> str | None:
        document = self._records.documents.get(document_id)
        original = document.twin_of if document else ""
        return self._records.texts.get(document_id) or self._records.texts.get(original)

    async def get_chunks(self, ids: Sequence[str]) -> list[Chunk]:
        return [self._records.chunks[id_] for id_ in ids if id_ in self._records.chunks]

    async def get_document_chunks(self, document_id: str) -> list[Chunk]:
        chunks = (chunk for chunk in self._records.chunks.values() if chunk.document_id == document_id)
        return sorted(chunks, key=lambda chunk: chunk.position)

    async def get_sources(self, chunk_ids: Sequence[str]) -> dict[str, str]:
        documents = self._records.documents
        chunks = await self.get_chunks(chunk_ids)
        return {chunk.id: documents[chunk.document_id].source for chunk in chunks if chunk.document_id in documents}

    async def get_twin_sources(self, chunk_ids: Sequence[str]) -> dict[str, tuple[str, ...]]:
        twins: dict[str, list[str]] = {}
        for document in sorted(self._records.documents.values(), key=lambda document: document.id):
            if document.twin_of and document.status in COMMITTED_STATUSES:
                twins.setdefault(document.twin_of, []).append(document.source)
        chunks = await self.get_chunks(chunk_ids)
        return {chunk.id: tuple(twins[chunk.document_id]) for chunk in chunks if chunk.document_id in twins}

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
        found = [mention for mention in mentions if mention_entity_id(mention) == id_]
        return tuple(sorted(found, key=lambda mention: (mention.rank, mention.chunk_id)))

    def _relation_mentions(self, id_: str) -> tuple[RelationMention, ...]:
        mentions = (mention for item in self._records.extractions.values() for mention in item.relations)
        found = [mention for mention in mentions if mention_relation_id(mention) == id_]
        return tuple(sorted(found, key=lambda mention: (mention.rank, mention.chunk_id)))


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
        # Equal rows have equal sums, which a product of matrices does not give.
        scores = (matrix * vector).sum(axis=1)
        # Ids are sorted, so a stable sort leaves ties in the order of ids.
        best = np.argsort(-scores, kind="stable")[:limit]
        return [Hit(ids[index], float(scores[index])) for index in best if scores[index] >= min_score]

    async def get_vectors(self, collection: Collection, ids: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        vectors = self._vectors[collection]
        return {id_: vectors[id_] for id_ in ids if id_ in vectors}

    def ids(self, collection: Collection) -> list[str]:
        return list(self._vectors[collection])

    def all_vectors(self, collection: Collection) -> Mapping[str, NDArray[np.float32]]:
        return self._vectors[collection]

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

    async def list_replies(self, after: str, limit: int) -> list[CachedReply]:
        return [self.replies[key] for key in sorted(self.replies) if key > after][:limit]

    def drop_answers(self) -> None:
        for key in [key for key in self.replies if key.split(":")[1] == "query"]:
            del self.replies[key]

    def remove_about(self, subject_ids: Sequence[str], kept: Sequence[str]) -> None:
        subjects = set(subject_ids)
        dropped = {key for key, reply in self.replies.items() if reply.subject_id in subjects} - set(kept)
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
        self._text = MemoryTextStore()
        self._replies = _MemoryReplyCache()
        self.records = _MemoryRecordsStore(self._data)
        self.graph = self._graph
        self.vectors = self._vectors
        self.text = self._text
        self.names = MemoryNameIndex(self._graph)
        self._curations = MemoryCurationStore(self._data.chunks, self._data.extractions)
        self.curations = self._curations
        self.replies = self._replies
        self.inspection = MemoryInspection(self._ids, self._data.documents, self._data.extractions, self._text.terms)
        self._reembedding = MemoryReembedding(self._vectors.ids, self._vectors.upsert, self._raise_version)
        self.reembedding = self._reembedding
        self._views: dict[tuple[str, Fold], tuple[int, MemoryStore]] = {}
        self.applied: list[Changeset] = []

    async def apply(self, changeset: Changeset) -> int:
        if self._is_closed:
            raise StoreUnavailable("the store in memory is closed; make a new one")
        self._check(changeset)
        self._version += 1
        self._remove(changeset)
        self._upsert_truth(changeset)
        self._upsert_projections(changeset)
        self._curations.apply(changeset, self._version)
        await self._replies.delete_replies("query")
        self.applied.append(changeset)
        return self._version

    @asynccontextmanager
    async def ingest_lock(self) -> AsyncGenerator[None]:
        async with self._lock:
            yield

    def view(self, filter_: Filter, fold: Fold) -> StoreView:
        return MemoryView(lambda: self._filtered(filter_, fold))

    async def get_data_version(self) -> int:
        return self._version

    async def get_stats(self) -> Stats:
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

    async def clear(self) -> int:
        self._data.clear()
        self._curations.clear()
        self._graph.remove(list(self._graph.entities), list(self._graph.relations))
        for collection in Collection:
            self._vectors.remove(collection, self._vectors.ids(collection))
            self._text.remove(collection, list(self._text.terms(collection)))
        self._replies.replies.clear()
        self._version += 1
        return self._version

    async def vacuum(self) -> None:
        return

    async def backup(self, path: Path) -> None:
        raise InvalidRequestError(f"a store in memory has no backup to write to {str(path)!r}; export it")

    async def close(self) -> None:
        self._is_closed = True

    def describe(self) -> Mapping[str, str]:
        return {"store": "memory"}

    def _ids(self) -> Mapping[ScanKind, Iterable[str]]:
        return {
            ScanKind.DOCUMENTS: self._data.documents,
            ScanKind.CHUNKS: self._data.chunks,
            ScanKind.EXTRACTIONS: self._data.extractions,
            ScanKind.ENTITY_EVIDENCE: self._data.entity_evidence,
            ScanKind.RELATION_EVIDENCE: self._data.relation_evidence,
            ScanKind.ENTITIES: self._graph.entities,
            ScanKind.RELATIONS: self._graph.relations,
            ScanKind.CHUNK_VECTORS: self._vectors.ids(Collection.CHUNKS),
            ScanKind.ENTITY_VECTORS: self._vectors.ids(Collection.ENTITIES),
            ScanKind.RELATION_VECTORS: self._vectors.ids(Collection.RELATIONS),
            ScanKind.NAME_RULES: self._curations.rule_ids(),
        }

    def _raise_version(self) -> int:
        self._version += 1
        self._replies.drop_answers()
        return self._version

    def _filtered(self, filter_: Filter, fold: Fold) -> MemoryStore:
        """Return a store that holds what a filter leaves and nothing else."""
        name = filter_key(filter_), fold
        version, known = self._views.get(name, (-1, self))
        if version != self._version:
            known = self._copy(filter_, fold)
            self._views[name] = self._version, known
        return known

    def _copy(self, filter_: Filter, fold: Fold) -> MemoryStore:
        data, chunks, entities = self._data, Collection.CHUNKS, self._graph.entities
        vectors = {item: self._vectors.all_vectors(item) for item in Collection}
        terms = self._text.terms(chunks)
        held = (data.documents, data.texts, data.chunks, data.extractions, entities, self._graph.relations)
        changeset = filtered_contents(MemoryContents(*held, vectors, terms), filter_, fold)
        left = MemoryStore()
        left._version = self._version
        left._upsert_truth(changeset)
        left._upsert_projections(changeset)
        left._graph.date(creation_moments(changeset))
        return left

    def _check(self, changeset: Changeset) -> None:
        for id_, version in changeset.expected.items():
            if self._data.version_of(id_) != version:
                raise StaleChangesetError(f"the evidence of {id_!r} has changed since it was read; compute it again")
        self._curations.check(changeset.expected_rules)
        if changeset.expected_version not in (None, self._version):
            raise StaleChangesetError("something was committed since this was computed; compute it again")
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
        self._replies.remove_about(changeset.removed_subjects, changeset.kept_replies)
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
        for id_ in changeset.removed_texts:
            data.texts.pop(id_, None)
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
        self._graph.upsert(changeset.entities, changeset.relations, int(utc_now().timestamp()), changeset.moments)
        self._reembedding.note(changeset)
        for collection, batch in changeset.vectors.items():
            self._vectors.upsert(collection, batch.ids, batch.vectors)
        for collection, entries in changeset.texts.items():
            self._text.upsert(collection, entries)
