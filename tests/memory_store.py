"""A store that keeps everything in dictionaries until the process ends: exact and plain, for tests.

It passes the same contract suite as the real back ends and has the whole of `Changeset`'s meaning; each call is one
step of the event loop, so all it reads is of one moment. Graph, vectors, full text (BM25 by counting every row) and
replies are classes of their own, which `tests.memory_projection` uses too. A view is a store of its own,
made of what a filter leaves.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from heliograph.embedding.base import EmbeddingInfo, cosines
from heliograph.errors import ConflictError, StaleChangesetError, StoreUnavailable
from heliograph.filters import Filter, chunk_condition, filter_key, matches, matches_chunk
from heliograph.ids import mention_entity_id, mention_relation_id, name_to_entity_id
from heliograph.models import (
    COMMITTED_STATUSES,
    Chunk,
    Curation,
    Document,
    DocumentStatus,
    Entity,
    EntityEvidence,
    EntityMention,
    Extraction,
    GraphPath,
    NameRules,
    Relation,
    RelationEvidence,
    RelationMention,
    Stats,
    Subgraph,
    utc_now,
)
from heliograph.stores.base import (
    CachedReply,
    CurationPage,
    CurationQuery,
    CurationStore,
    DocumentPage,
    DocumentQuery,
    EveryName,
    Fold,
    GraphStore,
    Hit,
    IncidentRelation,
    Inspection,
    RecordsStore,
    Reembedding,
    ReplyCache,
    ScanKind,
    Store,
    StoreView,
    TextStore,
    VectorStore,
)
from heliograph.stores.bm25 import K1, B
from heliograph.stores.changeset import Changeset, Collection, TextEntry, VectorBatch, digest_terms

__all__ = [
    "MemoryCurationStore",
    "MemoryGraphStore",
    "MemoryInspection",
    "MemoryReembedding",
    "MemoryReplyCache",
    "MemoryStore",
    "MemoryTextStore",
    "MemoryVectorStore",
]


class MemoryTextStore(TextStore):
    """Terms in dictionaries, every row of which is scored."""

    def __init__(self) -> None:
        self._entries: dict[Collection, dict[str, Counter[str]]] = {item: {} for item in Collection}
        self._ordered: dict[Collection, dict[str, tuple[str, ...]]] = {item: {} for item in Collection}

    async def search(self, collection: Collection, terms: Sequence[str], limit: int) -> list[Hit]:
        entries = self._entries[collection]
        mean = sum(entry.total() for entry in entries.values()) / len(entries) if entries else 0.0
        scores: Counter[str] = Counter()
        for term in dict.fromkeys(terms):
            holders = {id_: entry[term] for id_, entry in entries.items() if entry[term]}
            rarity = math.log1p((len(entries) - len(holders) + 0.5) / (len(holders) + 0.5))
            for id_, count in holders.items():
                norm = K1 * (1 - B + B * entries[id_].total() / mean)
                scores[id_] += rarity * count * (K1 + 1) / (count + norm)  # pyright: ignore[reportArgumentType]
        hits = [Hit(id_, float(score)) for id_, score in scores.items()]
        return sorted(hits, key=lambda hit: (-hit.score, hit.id))[:limit]

    async def find_phrases(
        self, collection: Collection, phrases: Sequence[Sequence[str]], limit: int
    ) -> list[list[str]]:
        entries = self._ordered[collection]

        def holds(held: tuple[str, ...], phrase: tuple[str, ...]) -> bool:
            places = range(len(held) - len(phrase) + 1)
            return bool(phrase) and any(held[place : place + len(phrase)] == phrase for place in places)

        found = ([id_ for id_, held in entries.items() if holds(held, tuple(phrase))] for phrase in phrases)
        return [sorted(ids)[: max(0, limit)] for ids in found]

    def terms(self, collection: Collection) -> dict[str, list[str]]:
        """Return the terms of every row, in order."""
        return {id_: list(held) for id_, held in self._ordered[collection].items()}

    def remove(self, collection: Collection, ids: Sequence[str]) -> None:
        """Take rows away; those that are not there are passed over."""
        for id_ in ids:
            self._entries[collection].pop(id_, None)
            self._ordered[collection].pop(id_, None)

    def upsert(self, collection: Collection, entries: Sequence[TextEntry]) -> None:
        """Put rows, in place of those with the same ids."""
        self._entries[collection].update((entry.id, Counter(entry.terms)) for entry in entries)
        self._ordered[collection].update((entry.id, tuple(entry.terms)) for entry in entries)


class MemoryGraphStore(GraphStore):
    """Entities and relations in dictionaries.

    Attributes:
        entities: By id.
        relations: By id.
    """

    def __init__(self) -> None:
        self.entities: dict[str, Entity] = {}
        self.relations: dict[str, Relation] = {}
        # Per entity id: relation id -> id of the other end.
        self._incident: defaultdict[str, dict[str, str]] = defaultdict(dict)

    def remove(self, entity_ids: Iterable[str], relation_ids: Iterable[str]) -> None:
        """Drop these; absent ones are passed over."""
        for id_ in relation_ids:
            relation = self.relations.pop(id_, None)
            if relation is not None:
                self._incident[relation.source_id].pop(id_, None)
                self._incident[relation.target_id].pop(id_, None)
        for id_ in entity_ids:
            self.entities.pop(id_, None)

    def upsert(
        self,
        entities: Iterable[Entity],
        relations: Iterable[Relation],
        moment: int,
        moments: Mapping[str, int] | None = None,
    ) -> None:
        """Put these in; new ones appeared at `moment` (Unix seconds), or at one of their own in `moments`."""
        own = moments or {}
        for entity in entities:
            known = self.entities.get(entity.id)
            self.entities[entity.id] = replace(
                entity, created_at=known.created_at if known else own.get(entity.id, moment)
            )
        for relation in relations:
            known_relation = self.relations.get(relation.id)
            created_at = known_relation.created_at if known_relation else own.get(relation.id, moment)
            self.relations[relation.id] = replace(relation, created_at=created_at)
            self._incident[relation.source_id][relation.id] = relation.target_id
            self._incident[relation.target_id][relation.id] = relation.source_id

    async def get_entities(self, ids: Sequence[str]) -> list[Entity]:
        return [self._entity(id_) for id_ in ids if id_ in self.entities]

    async def get_relations(self, ids: Sequence[str]) -> list[Relation]:
        return [self.relations[id_] for id_ in ids if id_ in self.relations]

    async def rank_incident_relations(self, entity_ids: Sequence[str]) -> list[IncidentRelation]:
        ids = dict.fromkeys(relation for entity in entity_ids for relation in self._incident.get(entity, {}))
        ends = {id_: (self.relations[id_].source_id, self.relations[id_].target_id) for id_ in ids}
        degrees = {id_: sum(len(self._incident[end]) for end in of_relation) for id_, of_relation in ends.items()}
        ranked = [IncidentRelation(id_, degree, self.relations[id_].weight) for id_, degree in degrees.items()]
        return sorted(ranked, key=lambda item: (-item.degree, -item.weight, item.id))

    async def list_entities(self, offset: int, limit: int) -> list[Entity]:
        return self._by_degree(self.entities)[offset : offset + limit]

    async def find_relations_among(self, entity_ids: Sequence[str]) -> list[Relation]:
        wanted = set(entity_ids)
        found = [item for item in self.relations.values() if {item.source_id, item.target_id} <= wanted]
        return sorted(found, key=lambda relation: (-relation.weight, relation.id))

    async def get_neighbourhood(self, entity_id: str, depth: int, max_entities: int) -> Subgraph:
        if entity_id not in self.entities or max_entities < 1:
            return Subgraph((), (), is_truncated=False)
        found = {entity_id: self._entity(entity_id)}
        frontier, is_truncated = [entity_id], False
        for _ in range(depth):
            nearby = {other for id_ in frontier for other in self._neighbours(id_)} - found.keys()
            level = self._by_degree(nearby)
            room = max_entities - len(found)
            is_truncated = is_truncated or len(level) > room
            frontier = [entity.id for entity in level[:room]]
            found.update((entity.id, entity) for entity in level[:room])
        inside = dict.fromkeys(relation for id_ in found for relation in self._incident.get(id_, {}))
        relations = [self.relations[id_] for id_ in inside]
        kept = tuple(item for item in relations if item.source_id in found and item.target_id in found)
        return Subgraph(tuple(found.values()), kept, is_truncated)

    async def find_shortest_paths(
        self,
        source_id: str,
        target_id: str,
        max_hops: int,
        limit: int,
        most_visited: int = 200_000,
    ) -> list[GraphPath]:
        if source_id not in self.entities or target_id not in self.entities or max_hops < 0:
            return []
        distances, frontier = {source_id: 0}, [source_id]
        for distance in range(1, max_hops + 1):
            level = {other for id_ in frontier for other in self._neighbours(id_)} - distances.keys()
            distances.update(dict.fromkeys(level, distance))
            frontier = list(level)
        if target_id not in distances:
            return []
        paths = [
            GraphPath(
                tuple(self._entity(id_) for _, id_ in steps),
                tuple(self.relations[relation] for relation, _ in steps[1:]),
            )
            for steps in self._steps_back(target_id, distances)
        ]
        paths.sort(key=lambda path: (-sum(item.weight for item in path.relations), [item.id for item in path.entities]))
        return paths[:limit]

    def _entity(self, id_: str) -> Entity:
        return replace(self.entities[id_], degree=len(self._incident.get(id_, {})))

    def _by_degree(self, ids: Iterable[str]) -> list[Entity]:
        return sorted(map(self._entity, ids), key=lambda entity: (-entity.degree, entity.name, entity.id))

    def _neighbours(self, id_: str) -> list[str]:
        return [other for other in self._incident.get(id_, {}).values() if other in self.entities]

    def _steps_back(self, id_: str, distances: dict[str, int]) -> Iterator[list[tuple[str, str]]]:
        """Yield every shortest way from the start to `id_` as (relation id or empty, entity id), start first."""
        if distances[id_] == 0:
            yield [("", id_)]
        for relation, other in self._incident.get(id_, {}).items():
            if distances.get(other, -1) == distances[id_] - 1:
                for steps in self._steps_back(other, distances):
                    yield [*steps, (relation, id_)]


class MemoryCurationStore(CurationStore):
    """Rules and curations in dictionaries; mentions are those of the records."""

    def __init__(self, chunks: Mapping[str, Chunk], extractions: Mapping[str, Extraction]) -> None:
        self._chunks = chunks
        self._extractions = extractions
        self.rules: dict[str, NameRules] = {}
        self._curations: dict[str, Curation] = {}

    async def get_rules(self, ids: Sequence[str]) -> list[NameRules]:
        active = [item for item in self._in_order() if item.is_active]
        return [
            replace(self.rules[id_], curations=tuple(item for item in active if id_ in item.entity_ids))
            for id_ in ids
            if id_ in self.rules
        ]

    async def find_curations(self, query: CurationQuery) -> CurationPage:
        found = [
            item
            for item in self._in_order()
            if (query.entity_id is None or query.entity_id in item.entity_ids)
            and (query.ids is None or item.id in query.ids)
            and (query.includes_undone or item.is_active)
        ]
        if query.descending:
            found.reverse()
        return CurationPage(tuple(found[query.offset : query.offset + query.limit]), len(found))

    async def find_mentioning_chunks(self, ids: Sequence[str]) -> dict[str, str]:
        wanted = set(ids)
        return {
            id_: self._chunks[id_].document_id
            for id_, extraction in self._extractions.items()
            if any(
                not wanted.isdisjoint((mention_entity_id(m), name_to_entity_id(m.name))) for m in extraction.entities
            )
        }

    def check(self, expected: Mapping[str, int]) -> None:
        """Compare versions of rules with those there are.

        Raises:
            StaleChangesetError: One differs.
        """
        for id_, version in expected.items():
            known = self.rules.get(id_)
            if (known.version if known else 0) != version:
                raise StaleChangesetError(f"the rules of the name {id_!r} have changed since they were read")

    def apply(self, changeset: Changeset, version: int) -> None:
        """Put in the curations and rules of a changeset that is committed as `version`."""
        for item in changeset.curations:
            known = self._curations.get(item.id)
            sequence = item.sequence or (known.sequence if known else len(self._curations) + 1)
            self._curations[item.id] = replace(item, sequence=sequence)
        for rules in changeset.name_rules:
            self.rules[rules.id] = replace(rules, curations=(), version=version)

    def clear(self) -> None:
        """Drop everything."""
        self.rules.clear()
        self._curations.clear()

    def _in_order(self) -> list[Curation]:
        return sorted(self._curations.values(), key=lambda item: item.sequence)


# Whole-workspace reads of the store in memory.

M = TypeVar("M", EntityMention, RelationMention)


def _mentions(
    extractions: Iterable[Extraction],
) -> tuple[dict[str, list[EntityMention]], dict[str, list[RelationMention]]]:
    """Return mentions by the entity, or the relation, that they count for, each in canonical order."""
    entities: defaultdict[str, list[EntityMention]] = defaultdict(list)
    relations: defaultdict[str, list[RelationMention]] = defaultdict(list)
    for item in extractions:
        for mention in item.entities:
            entities[mention_entity_id(mention)].append(mention)
        for mention in item.relations:
            relations[mention_relation_id(mention)].append(mention)
    for said in chain(entities.values(), relations.values()):
        said.sort(key=lambda mention: (mention.rank, mention.chunk_id))
    return dict(entities), dict(relations)


class MemoryInspection(Inspection):
    """Reads the dictionaries of a store."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        # As they are now: a test may put others before them.
        self._graph, self._curations = store.graph, store.curations

    async def scan(self, kind: ScanKind, after: str, limit: int) -> list[str]:
        data = self._store.data
        if kind is ScanKind.MENTIONED_ENTITIES:
            ids = set(_mentions(data.extractions.values())[0])
        elif kind is ScanKind.MENTIONED_RELATIONS:
            ids = set(_mentions(data.extractions.values())[1]) - {""}
        else:
            stored: dict[ScanKind, Iterable[str]] = {
                ScanKind.DOCUMENTS: data.documents,
                ScanKind.CHUNKS: data.chunks,
                ScanKind.EXTRACTIONS: data.extractions,
                ScanKind.ENTITY_EVIDENCE: data.entity_evidence,
                ScanKind.RELATION_EVIDENCE: data.relation_evidence,
                ScanKind.ENTITIES: self._graph.entities,
                ScanKind.RELATIONS: self._graph.relations,
                ScanKind.CHUNK_VECTORS: self._store.vectors.held[Collection.CHUNKS],
                ScanKind.ENTITY_VECTORS: self._store.vectors.held[Collection.ENTITIES],
                ScanKind.RELATION_VECTORS: self._store.vectors.held[Collection.RELATIONS],
                ScanKind.NAME_RULES: self._curations.rules,
            }
            ids = set(stored[kind])
        return sorted(id_ for id_ in ids if id_ > after)[:limit]

    async def get_mentions(
        self, entity_ids: Sequence[str], relation_ids: Sequence[str], offset: int, limit: int
    ) -> tuple[dict[str, list[EntityMention]], dict[str, list[RelationMention]]]:
        entities, relations = _mentions(self._store.data.extractions.values())
        return _page(entities, entity_ids, offset, limit), _page(relations, relation_ids, offset, limit)

    async def digest_texts(self, collection: Collection) -> dict[str, int]:
        return {id_: digest_terms(terms) for id_, terms in self._store.text.terms(collection).items()}


def _page(said: Mapping[str, list[M]], ids: Sequence[str], offset: int, limit: int) -> dict[str, list[M]]:
    pages = {id_: said.get(id_, [])[offset : offset + limit] for id_ in ids}
    return {id_: page for id_, page in pages.items() if page}


class MemoryReembedding(Reembedding):
    """Keeps next vectors in memory."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._embedding: EmbeddingInfo | None = None
        self._next: dict[Collection, dict[str, NDArray[np.float32]]] = {item: {} for item in Collection}

    def note(self, changeset: Changeset) -> None:
        """Take away the next vectors of what a changeset embeds."""
        for collection, batch in changeset.vectors.items():
            for id_ in batch.ids:
                self._next[collection].pop(id_, None)

    async def begin(self, embedding: EmbeddingInfo) -> None:
        if self._embedding != embedding:
            await self.abandon()
        self._embedding = embedding

    async def find_pending(self, collection: Collection, after: str, limit: int) -> list[str]:
        pending = (
            id_ for id_ in self._store.vectors.held[collection] if id_ > after and id_ not in self._next[collection]
        )
        return sorted(pending)[:limit]

    async def get_next(self, collection: Collection, ids: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        return {id_: self._next[collection][id_] for id_ in ids if id_ in self._next[collection]}

    async def put(self, collection: Collection, batch: VectorBatch) -> None:
        if self._embedding is None:
            raise ConflictError("no embedding was begun; begin one first")
        known = self._store.vectors.held[collection]
        rows = zip(batch.ids, batch.vectors, strict=True)
        self._next[collection].update((id_, row) for id_, row in rows if id_ in known)

    async def finish(self) -> int:
        pending = [await self.find_pending(collection, "", 1) for collection in Collection]
        if self._embedding is None or any(pending):
            raise ConflictError("next vectors are missing, or nothing was begun; run reembed again")
        for collection, vectors in self._next.items():
            known = [id_ for id_ in self._store.vectors.held[collection] if id_ in vectors]
            if known:
                self._store.vectors.upsert(collection, known, np.stack([vectors[id_] for id_ in known]))
        await self.abandon()
        self._store.version += 1
        await self._store.replies.delete_replies("query")
        return self._store.version

    async def abandon(self) -> None:
        self._embedding = None
        for vectors in self._next.values():
            vectors.clear()


@dataclass
class _Records:
    documents: dict[str, Document] = field(default_factory=dict[str, Document])
    texts: dict[str, str] = field(default_factory=dict[str, str])
    chunks: dict[str, Chunk] = field(default_factory=dict[str, Chunk])
    extractions: dict[str, Extraction] = field(default_factory=dict[str, Extraction])
    entity_evidence: dict[str, EntityEvidence] = field(default_factory=dict[str, EntityEvidence])
    relation_evidence: dict[str, RelationEvidence] = field(default_factory=dict[str, RelationEvidence])

    def clear(self) -> None:
        for held in vars(self).values():
            held.clear()

    def chunks_of(self, document: Document) -> list[Chunk]:
        """Return the chunks of a document, for a twin its original's."""
        holder = document.twin_of or document.id
        return [chunk for chunk in self.chunks.values() if chunk.document_id == holder]


def _is_wanted(document: Document, query: DocumentQuery, read_chunks: Callable[[Document], Iterable[Chunk]]) -> bool:
    """Return whether every condition of a query holds for a document."""
    return (
        (not query.statuses or document.status in query.statuses)
        and (query.track_id is None or document.track_id == query.track_id)
        and (query.source_prefix is None or document.source.startswith(query.source_prefix))
        and (query.filter is None or matches(query.filter, document, read_chunks))
        and (not query.content_hashes or document.content_hash in query.content_hashes)
        and (query.twin_of is None or document.twin_of == query.twin_of)
    )


class _MemoryRecordsStore(RecordsStore):
    def __init__(self, records: _Records) -> None:
        self._records = records

    async def find_documents(self, query: DocumentQuery) -> DocumentPage:
        records = self._records
        found = [item for item in records.documents.values() if _is_wanted(item, query, records.chunks_of)]
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

    async def get_extractions(self, chunk_ids: Sequence[str]) -> list[Extraction]:
        return [self._records.extractions[id_] for id_ in chunk_ids if id_ in self._records.extractions]

    async def get_evidence(
        self, entity_ids: Sequence[str], relation_ids: Sequence[str], leading: int
    ) -> tuple[list[EntityEvidence], list[RelationEvidence]]:
        records = self._records
        entities, relations = _mentions(records.extractions.values())
        return (
            [
                replace(records.entity_evidence[id_], leading=tuple(entities.get(id_, ())[:leading]))
                for id_ in entity_ids
                if id_ in records.entity_evidence
            ],
            [
                replace(records.relation_evidence[id_], leading=tuple(relations.get(id_, ())[:leading]))
                for id_ in relation_ids
                if id_ in records.relation_evidence
            ],
        )


class MemoryVectorStore(VectorStore):
    """Vectors in dictionaries, every one of which is compared.

    Attributes:
        held: Vectors per collection and id.
    """

    def __init__(self) -> None:
        self.held: dict[Collection, dict[str, NDArray[np.float32]]] = {item: {} for item in Collection}
        self._matrices: dict[Collection, tuple[list[str], NDArray[np.float32]]] = {}

    async def search(
        self, collection: Collection, vector: NDArray[np.float32], limit: int, min_cosine: float
    ) -> list[Hit]:
        if not self.held[collection]:
            return []
        if collection not in self._matrices:
            ids = sorted(self.held[collection])
            self._matrices[collection] = ids, np.stack([self.held[collection][id_] for id_ in ids])
        ids, matrix = self._matrices[collection]
        scores = cosines(matrix, vector)
        # Ids are sorted, so a stable sort leaves ties in the order of ids.
        best = np.argsort(-scores, kind="stable")[:limit]
        return [Hit(ids[index], float(scores[index])) for index in best if scores[index] >= min_cosine]

    async def get_vectors(self, collection: Collection, ids: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        vectors = self.held[collection]
        return {id_: vectors[id_] for id_ in ids if id_ in vectors}

    def remove(self, collection: Collection, ids: Sequence[str]) -> None:
        """Take vectors away; those that are not there are passed over."""
        for id_ in ids:
            self.held[collection].pop(id_, None)
        self._matrices.pop(collection, None)

    def upsert(self, collection: Collection, ids: Sequence[str], vectors: NDArray[np.float32]) -> None:
        """Put vectors, in place of those with the same ids."""
        rows = np.array(vectors, np.float32)
        rows.flags.writeable = False
        self.held[collection].update(zip(ids, rows, strict=True))
        self._matrices.pop(collection, None)


class MemoryReplyCache(ReplyCache):
    """Replies in a dictionary.

    Attributes:
        replies: By key.
    """

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

    def remove_about(self, subject_ids: Sequence[str], kept: Sequence[str]) -> None:
        """Drop the replies about any of these subjects, but for those whose keys are kept."""
        subjects = set(subject_ids) - {""}
        dropped = {key for key, reply in self.replies.items() if reply.subject_id in subjects} - set(kept)
        for key in dropped:
            del self.replies[key]


# Views: what a filter leaves is copied into a store of its own, folded from nothing but that.
#
# Slow and plain, so that the views of real back ends can be compared with it.


class _MemoryView(StoreView):
    """The roles of the store that `filtered` returns; it is called at each use, since what matches may have changed."""

    def __init__(self, filtered: Callable[[], StoreView]) -> None:
        self._filtered = filtered

    def __getattr__(self, name: str) -> Any:
        return getattr(self._filtered(), name)


def _owners(documents: Mapping[str, Document], matching: list[Document]) -> dict[str, str]:
    """Return, per document that holds chunks of matching documents, which of these has them.

    Itself if it matches; else the first of its twins that do. A twin with another title does not vouch for chunks
    that were read under the original's.
    """
    owners = {item.id: item.id for item in matching if not item.twin_of}
    for item in sorted(matching, key=lambda item: item.id):
        original = documents.get(item.twin_of)
        if original is not None and original.title == item.title and item.status in COMMITTED_STATUSES:
            owners.setdefault(original.id, item.id)
    return owners


def _creation_moments(
    documents: Sequence[Document], chunks: Sequence[Chunk], extractions: Sequence[Extraction]
) -> dict[str, int]:
    """Return, per entity and relation that is left, when the first document that mentions it was first seen."""
    seen: dict[str, int] = {}
    for document in documents:
        holder, moment = document.twin_of or document.id, int(document.created_at.timestamp())
        seen[holder] = min(moment, seen.get(holder, moment))
    moments = {chunk.id: seen[chunk.document_id] for chunk in chunks}
    found: dict[str, int] = {}
    for extraction in extractions:
        moment = moments[extraction.chunk_id]
        ids = (*map(mention_entity_id, extraction.entities), *map(mention_relation_id, extraction.relations))
        found.update((id_, min(moment, found.get(id_, moment))) for id_ in ids)
    return found


def _batch(ids: list[str], vectors: Mapping[str, NDArray[np.float32]]) -> VectorBatch:
    present = [id_ for id_ in ids if id_ in vectors]
    rows = np.stack([vectors[id_] for id_ in present]) if present else np.empty((0, 0), np.float32)
    return VectorBatch(tuple(present), rows)


# Roles are typed narrower than in `Store`, since they use each other.
# pyright: reportIncompatibleVariableOverride=false


class MemoryStore(Store):
    """All roles in memory.

    Attributes:
        applied: The changesets applied, in order.
        data: The truth.
        version: The data version.
    """

    graph: MemoryGraphStore
    vectors: MemoryVectorStore
    text: MemoryTextStore
    curations: MemoryCurationStore

    def __init__(self) -> None:
        self.data = _Records()
        self.version = 0
        self._is_closed = False
        self._lock = asyncio.Lock()
        self.records = _MemoryRecordsStore(self.data)
        self.graph = MemoryGraphStore()
        self.vectors = MemoryVectorStore()
        self.text = MemoryTextStore()
        self.names = EveryName(self.graph)
        self.curations = MemoryCurationStore(self.data.chunks, self.data.extractions)
        self.replies = MemoryReplyCache()
        # What is kept stays here when a test puts a role of its own before it.
        self._graph, self._curations, self._replies = self.graph, self.curations, self.replies
        self.inspection = MemoryInspection(self)
        self.reembedding = self._reembedding = MemoryReembedding(self)
        self._views: dict[tuple[str, Fold], tuple[int, MemoryStore]] = {}
        self.applied: list[Changeset] = []

    async def apply(self, changeset: Changeset) -> int:
        if self._is_closed:
            raise StoreUnavailable("the store in memory is closed; make a new one")
        for id_, version in changeset.expected.items():
            evidence = self.data.entity_evidence.get(id_) or self.data.relation_evidence.get(id_)
            if (evidence.version if evidence else 0) != version:
                raise StaleChangesetError(f"the evidence of {id_!r} has changed since it was read; compute it again")
        self._curations.check(changeset.expected_rules)
        if changeset.expected_version not in (None, self.version):
            raise StaleChangesetError("something was committed since this was computed; compute it again")
        for id_, document in changeset.expected_documents.items():
            known = self.data.documents.get(id_)
            if (known and known.version) != (document and document.version):
                raise StaleChangesetError(f"the document {id_!r} has changed since it was read; read it again")
        self.version += 1
        self._remove(changeset)
        self._upsert_truth(changeset)
        self._upsert_projections(changeset)
        self._curations.apply(changeset, self.version)
        await self._replies.delete_replies("query")
        self.applied.append(changeset)
        return self.version

    @asynccontextmanager
    async def ingest_lock(self) -> AsyncGenerator[None]:
        async with self._lock:
            yield

    def view(self, filter_: Filter, fold: Fold) -> StoreView:
        return _MemoryView(lambda: self._filtered(filter_, fold))

    async def get_stats(self) -> Stats:
        counts: Counter[DocumentStatus] = Counter(document.status for document in self.data.documents.values())
        return Stats(
            documents=dict(counts),
            chunks=len(self.data.chunks),
            entities=len(self._graph.entities),
            relations=len(self._graph.relations),
            cached_replies=len(self._replies.replies),
            data_version=self.version,
            bytes_on_disk=0,
        )

    async def clear(self) -> int:
        self.data.clear()
        self._curations.clear()
        self._graph.remove(list(self._graph.entities), list(self._graph.relations))
        for collection in Collection:
            self.vectors.remove(collection, list(self.vectors.held[collection]))
            self.text.remove(collection, list(self.text.terms(collection)))
        self._replies.replies.clear()
        self.version += 1
        return self.version

    async def close(self) -> None:
        self._is_closed = True

    def _filtered(self, filter_: Filter, fold: Fold) -> MemoryStore:
        """Return a store that holds what a filter leaves and nothing else."""
        name = filter_key(filter_), fold
        version, left = self._views.get(name, (-1, self))
        if version != self.version:
            left = MemoryStore()
            left.version = self.version
            changeset = self._left(filter_, fold)
            left._upsert_truth(changeset)
            left._upsert_projections(changeset)
            self._views[name] = self.version, left
        return left

    def _left(self, filter_: Filter, fold: Fold) -> Changeset:
        """Return all that a filter leaves, as one changeset for an empty store."""
        data = self.data
        matching = [item for item in data.documents.values() if matches(filter_, item, data.chunks_of)]
        condition = chunk_condition(filter_)
        owners = _owners(data.documents, matching)
        # As they would be without those that do not match: a twin may be the original then.
        originals = {item.id: owners.get(item.twin_of, "") for item in matching}
        documents = [
            replace(item, twin_of="" if originals[item.id] == item.id else originals[item.id]) for item in matching
        ]
        allowed = {item.id for item in documents}
        chunks = [
            replace(chunk, document_id=owners[chunk.document_id])
            for chunk in data.chunks.values()
            if chunk.document_id in owners and matches_chunk(condition, chunk)
        ]
        extractions = [data.extractions[chunk.id] for chunk in chunks if chunk.id in data.extractions]
        said, related = _mentions(extractions)
        # What a person deleted is mentioned, and yet is not there.
        counted = [fold.count_entity(id_, of, len(of)) for id_, of in said.items() if id_ in self._graph.entities]
        there = {evidence.id for evidence in counted}
        ends = {id_: (item.source_id, item.target_id) for id_, item in self._graph.relations.items()}
        joined = [
            fold.count_relation(id_, ends[id_], of, len(of))
            for id_, of in related.items()
            if id_ in ends and there.issuperset(ends[id_])
        ]
        entities = [fold.fold_entity(evidence) for evidence in counted]
        relations = [fold.fold_relation(evidence) for evidence in joined]
        left = {Collection.CHUNKS: chunks, Collection.ENTITIES: entities, Collection.RELATIONS: relations}
        terms = self.text.terms(Collection.CHUNKS)
        return Changeset(
            documents=tuple(documents),
            document_texts={
                owners.get(id_, id_): text
                for id_, text in data.texts.items()
                if id_ in allowed or owners.get(id_) in allowed
            },
            chunks=tuple(chunks),
            extractions=tuple(extractions),
            entity_evidence=tuple(counted),
            relation_evidence=tuple(joined),
            entities=tuple(entities),
            relations=tuple(relations),
            vectors={
                collection: _batch([item.id for item in items], self.vectors.held[collection])
                for collection, items in left.items()
            },
            texts={
                Collection.CHUNKS: tuple(
                    TextEntry(chunk.id, tuple(terms[chunk.id])) for chunk in chunks if chunk.id in terms
                ),
                Collection.ENTITIES: tuple(TextEntry(entity.id, tuple(fold.name_terms(entity))) for entity in entities),
            },
            moments=_creation_moments(documents, chunks, extractions),
        )

    def _remove(self, changeset: Changeset) -> None:
        for id_ in changeset.removed_documents:
            self.data.documents.pop(id_, None)
            self.data.texts.pop(id_, None)
        for id_ in changeset.removed_chunks:
            self.data.chunks.pop(id_, None)
            self.data.extractions.pop(id_, None)
        self._replies.remove_about(changeset.removed_subjects, changeset.kept_replies)
        self._graph.remove(changeset.removed_entities, changeset.removed_relations)
        for collection, ids in changeset.removed.items():
            self.vectors.remove(collection, ids)
            self.text.remove(collection, ids)

    def _upsert_truth(self, changeset: Changeset) -> None:
        data = self.data
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
                data.entity_evidence[evidence.id] = replace(evidence, leading=(), version=self.version)
        for evidence in changeset.relation_evidence:
            data.relation_evidence.pop(evidence.id, None)
            if evidence.mention_count:
                data.relation_evidence[evidence.id] = replace(evidence, leading=(), version=self.version)

    def _upsert_projections(self, changeset: Changeset) -> None:
        self._graph.upsert(changeset.entities, changeset.relations, int(utc_now().timestamp()), changeset.moments)
        self._reembedding.note(changeset)
        for collection, batch in changeset.vectors.items():
            self.vectors.upsert(collection, batch.ids, batch.vectors)
        for collection, entries in changeset.texts.items():
            self.text.upsert(collection, entries)
