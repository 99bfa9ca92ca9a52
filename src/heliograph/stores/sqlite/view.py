"""What a filter leaves of the embedded store, read as a store: records, evidence, graph, text and vectors."""

from __future__ import annotations

import collections.abc
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress, groupby, pairwise
from operator import itemgetter
from typing import Literal, TypeVar

import apsw
import numpy as np
from numpy.typing import NDArray

from heliograph.filters import And, Filter
from heliograph.ids import is_subject_rank
from heliograph.models import (
    Chunk,
    Document,
    Entity,
    EntityEvidence,
    EntityMention,
    Extraction,
    GraphPath,
    Relation,
    RelationEvidence,
    RelationMention,
    Subgraph,
)
from heliograph.stores.base import (
    DocumentPage,
    DocumentQuery,
    EntityPlaces,
    Fold,
    GraphStore,
    Hit,
    IncidentRelation,
    RecordsStore,
    StoreView,
    TextStore,
    VectorStore,
)
from heliograph.stores.changeset import Collection
from heliograph.stores.key_sets import KeySet
from heliograph.stores.paths import PathSearch
from heliograph.stores.sqlite.accelerator import TextAccelerator, VectorAccelerator
from heliograph.stores.sqlite.database import Database, Row, array, fetch, fetch_value
from heliograph.stores.sqlite.identity import KnownIds, find_ids, find_keys
from heliograph.stores.sqlite.records import (
    CHUNKS_BY_DOCUMENT,
    CHUNKS_BY_ID,
    DOCUMENTS_BY_ID,
    TEXT_BY_DOCUMENT,
    find_documents,
    grouped,
    read_entity_mentions,
    read_extractions,
    read_relation_mention,
    read_sources,
    to_chunk,
    to_document,
    to_places,
)
from heliograph.stores.sqlite.scope import Scope, ScopeMemory
from heliograph.stores.sqlite.text import SEARCHED, distinct_terms, find_texts, phrase_keys, to_hits
from heliograph.stores.sqlite.vectors import find_nearest, read_vectors

# How the roles of a view read: in one transaction, together with what the filter leaves at that moment.

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ScopedReader:
    """Reads under one filter; what is done with it stays as exact as its latest read."""

    database: Database
    scopes: ScopeMemory
    filter: Filter
    fold: Fold

    async def read(self, work: Callable[[apsw.Connection, Scope], T]) -> T:
        """Run `work` on a reading connection and the scope of the same moment."""
        return await self.database.read(lambda connection: work(connection, self.scope(connection)))

    def scope(self, connection: apsw.Connection) -> Scope:
        """Return the scope as of the transaction that is open."""
        return self.scopes.get(connection, self.filter, self.fold)


# Evidence and folds of what a `Scope` leaves, from the mentions in its chunks alone.
#
# A thing's mentions are read in canonical order and those elsewhere passed over; where it has far more of them than
# the scope has chunks, the scope's chunks are asked for theirs instead, so that a fold takes time in proportion to
# the smaller of the two. What was folded is kept in the scope.

M = TypeVar("M", EntityMention, RelationMention)

_Kind = Literal["entity", "relation"]
_COLUMNS: dict[_Kind, str] = {
    "entity": "entity_key, chunk_key, name, type, description, rank, name_hash IS NOT NULL",
    "relation": "relation_key, chunk_key, source, target, keywords, description, weight, rank, source_key, target_key",
}
# A thing with more mentions than this per chunk of the scope, and more than a few, is read by the scope's chunks.
_MENTIONS_PER_CHUNK = 4
_FEW_MENTIONS = 64


@dataclass(frozen=True, slots=True)
class _Said:
    """The rows of one thing's mentions in a scope, in canonical order, and the earliest moment of their documents."""

    rows: Sequence[Row]
    moment: int


def keys_within(connection: apsw.Connection, ids: Iterable[str], allowed: KeySet) -> dict[str, int]:
    """Return the keys of those ids that are allowed, in the order given."""
    wanted = list(dict.fromkeys(ids))
    keys = find_keys(connection, wanted)
    known = [id_ for id_ in wanted if id_ in keys]
    holds = allowed.holds(np.array([keys[id_] for id_ in known], np.int64)).tolist()
    return {id_: keys[id_] for id_, is_allowed in zip(known, holds, strict=True) if is_allowed}


def read_entity_evidence(
    connection: apsw.Connection, scope: Scope, fold: Fold, ids: Sequence[str], leading: int
) -> list[EntityEvidence]:
    """Return, in order, the evidence that the scope has of these entities."""
    keys = keys_within(connection, ids, scope.entities)
    mentions = _entity_mentions(
        connection, {key: id_ for id_, key in keys.items()}, _said(connection, scope, "entity", keys.values())
    )
    counted = (fold.count_entity(id_, mentions[key], leading) for id_, key in keys.items())
    return [replace(evidence, version=scope.version) for evidence in counted]


def read_places_within(connection: apsw.Connection, scope: Scope, ids: Sequence[str], most: int) -> list[EntityPlaces]:
    """Return, in order, where the scope mentions these entities, as `RecordsStore.get_mention_places` does."""
    keys = keys_within(connection, ids, scope.entities)
    rows = _rows_within(connection, scope, "entity", list(keys.values()), "entity_key, chunk_key, rank") if keys else ()
    mentions = {key: list(group) for key, group in groupby(rows, itemgetter(0))}
    kept = {
        key: (group if len(group) <= most else [row for row in group if is_subject_rank(row[2])])[:most]
        for key, group in mentions.items()
    }
    chunk_ids = find_ids(connection, {chunk for group in kept.values() for _, chunk, _ in group})
    return [to_places(id_, len(mentions[key]), kept[key], chunk_ids) for id_, key in keys.items()]


def read_relation_evidence(
    connection: apsw.Connection, scope: Scope, fold: Fold, ids: Sequence[str], leading: int
) -> list[RelationEvidence]:
    """Return, in order, the evidence that the scope has of these relations."""
    keys = keys_within(connection, ids, scope.relations)
    ends = _ends(connection, keys.values())
    mentions = _relation_mentions(connection, _said(connection, scope, "relation", keys.values()))
    counted = (fold.count_relation(id_, ends[key], mentions[key], leading) for id_, key in keys.items())
    return [replace(evidence, version=scope.version) for evidence in counted]


def fold_entities(connection: apsw.Connection, scope: Scope, fold: Fold, keys: Sequence[int]) -> dict[int, Entity]:
    """Return the entities with these keys, all of them in the scope, as the scope folds them."""
    found = {key: item for key in keys if isinstance(item := scope.folded.get(key), Entity)}
    ids = find_ids(connection, [key for key in keys if key not in found])
    if not ids:
        return found
    said = _said(connection, scope, "entity", ids)
    mentions = _entity_mentions(connection, ids, said)
    degrees = scope.degrees[scope.entities.places(np.array(list(ids), np.int64))].tolist()
    for (key, id_), degree in zip(ids.items(), degrees, strict=True):
        entity = fold.fold_entity(fold.count_entity(id_, mentions[key], fold.leading))
        found[key] = replace(entity, degree=degree, created_at=said[key].moment)
        scope.remember(key, found[key])
    return found


def fold_relations(connection: apsw.Connection, scope: Scope, fold: Fold, keys: Sequence[int]) -> dict[int, Relation]:
    """Return the relations with these keys, all of them in the scope, as the scope folds them."""
    found = {key: item for key in keys if isinstance(item := scope.folded.get(key), Relation)}
    ids = find_ids(connection, [key for key in keys if key not in found])
    if not ids:
        return found
    said = _said(connection, scope, "relation", ids)
    mentions = _relation_mentions(connection, said)
    ends = _ends(connection, ids)
    for key, id_ in ids.items():
        relation = fold.fold_relation(fold.count_relation(id_, ends[key], mentions[key], fold.leading))
        found[key] = replace(relation, created_at=said[key].moment)
        scope.remember(key, found[key])
    return found


def _entity_mentions(
    connection: apsw.Connection, ids: dict[int, str], said: dict[int, _Said]
) -> dict[int, list[EntityMention]]:
    chunk_ids = _chunk_ids(connection, said)
    return {
        key: [
            EntityMention(chunk_ids[chunk], name, kind, text, rank, ids[key] if is_resolved else "")
            for _, chunk, name, kind, text, rank, is_resolved in item.rows
        ]
        for key, item in said.items()
    }


def _relation_mentions(connection: apsw.Connection, said: dict[int, _Said]) -> dict[int, list[RelationMention]]:
    chunk_ids = _chunk_ids(connection, said)
    resolved = {key for item in said.values() for row in item.rows for key in row[-2:] if key is not None}
    ids = find_ids(connection, resolved)
    return {key: [_relation_mention(chunk_ids[row[1]], row, ids) for row in item.rows] for key, item in said.items()}


def _relation_mention(chunk_id: str, row: Row, ids: Mapping[int, str]) -> RelationMention:
    _, _, source, target, keywords, description, weight, rank, source_key, target_key = row
    said = source, target, keywords, description, weight, rank
    return read_relation_mention(chunk_id, *said, ids.get(source_key), ids.get(target_key))


def _chunk_ids(connection: apsw.Connection, said: dict[int, _Said]) -> dict[int, str]:
    return find_ids(connection, {row[1] for item in said.values() for row in item.rows})


def _ends(connection: apsw.Connection, relations: Iterable[int]) -> dict[int, tuple[str, str]]:
    query = """SELECT relation_evidence.key, source.id, target.id FROM carray(?) AS wanted
               CROSS JOIN relation_evidence ON relation_evidence.key = wanted.value
               CROSS JOIN identity AS source ON source.key = source_key
               CROSS JOIN identity AS target ON target.key = target_key"""
    keys = list(relations)
    rows = fetch(connection, query, (array(keys),)) if keys else []
    return {key: (source, target) for key, source, target in rows}


def _said(connection: apsw.Connection, scope: Scope, kind: _Kind, keys: Iterable[int]) -> dict[int, _Said]:
    """Return what the scope says of these things, each of which it has; the order of the result is any."""
    wanted = list(keys)
    rows = list(_rows_within(connection, scope, kind, wanted, _COLUMNS[kind])) if wanted else []
    chunks = np.fromiter((row[1] for row in rows), np.int64, len(rows))
    moments = iter(scope.moments[scope.chunks.places(chunks)].tolist())
    grouped = ((key, list(group)) for key, group in groupby(rows, itemgetter(0)))
    return {key: _Said(group, min(next(moments) for _ in group)) for key, group in grouped}


def _rows_within(
    connection: apsw.Connection, scope: Scope, kind: _Kind, keys: list[int], columns: str
) -> Iterator[Row]:
    """Yield the rows of the mentions of each thing that stand in the scope, thing by thing, in canonical order."""
    limit = max(_FEW_MENTIONS, _MENTIONS_PER_CHUNK * len(scope.chunks))
    query = f"SELECT key, mention_count > ? FROM carray(?) AS wanted CROSS JOIN {kind}_evidence ON key = wanted.value"
    is_large = dict(fetch(connection, query, (limit, array(keys))))
    small = [key for key in keys if not is_large.get(key)]
    if small:
        # The table is clustered by thing, rank, chunk and ordinal, and is read in that order.
        query = f"""SELECT {columns} FROM carray(?) AS wanted
                    CROSS JOIN {kind}_mention ON {kind}_key = wanted.value"""
        rows = fetch(connection, query, (array(small),))
        chunks = np.fromiter((row[1] for row in rows), np.int64, len(rows))
        yield from compress(rows, scope.chunks.holds(chunks).tolist())
    for key in keys:
        if is_large.get(key):
            query = f"""SELECT {columns} FROM carray(?) AS wanted
                        CROSS JOIN {kind}_mention INDEXED BY {kind}_mention_by_chunk
                        ON chunk_key = wanted.value AND {kind}_key = ? ORDER BY rank, chunk_key, ordinal"""
            yield from fetch(connection, query, (array(scope.chunks.keys), key))


# The graph that a filter leaves: folds from `scoped_evidence`, walks over the arrays of the `Scope`.

Places = NDArray[np.int64]


class ScopedGraphStore(GraphStore):
    """Entities and relations as the matching documents tell of them."""

    def __init__(self, reader: ScopedReader) -> None:
        self._reader = reader
        self._fold = reader.fold

    async def get_entities(self, ids: Sequence[str]) -> list[Entity]:

        def read(connection: apsw.Connection, scope: Scope) -> list[Entity]:
            keys = keys_within(connection, ids, scope.entities)
            found = fold_entities(connection, scope, self._fold, list(keys.values()))
            return [found[keys[id_]] for id_ in ids if id_ in keys]

        return await self._reader.read(read)

    async def get_relations(self, ids: Sequence[str]) -> list[Relation]:

        def read(connection: apsw.Connection, scope: Scope) -> list[Relation]:
            keys = keys_within(connection, ids, scope.relations)
            found = fold_relations(connection, scope, self._fold, list(keys.values()))
            return [found[keys[id_]] for id_ in ids if id_ in keys]

        return await self._reader.read(read)

    async def rank_incident_relations(self, entity_ids: Sequence[str]) -> list[IncidentRelation]:

        def read(connection: apsw.Connection, scope: Scope) -> list[IncidentRelation]:
            keys = keys_within(connection, entity_ids, scope.entities)
            places = scope.touching(scope.entities.places(np.array(list(keys.values()), np.int64)))
            relations = scope.relations.keys[places].tolist()
            ids = find_ids(connection, relations)
            degrees = scope.degrees[scope.ends[places]].sum(axis=1).tolist()
            weights = scope.weights[places].tolist()
            ranked = [IncidentRelation(ids[key], *rank) for key, *rank in zip(relations, degrees, weights, strict=True)]
            return sorted(ranked, key=lambda item: (-item.degree, -item.weight, item.id))

        return await self._reader.read(read)

    async def list_entities(self, offset: int, limit: int) -> list[Entity]:

        def read(connection: apsw.Connection, scope: Scope) -> list[Entity]:
            order = np.argsort(-scope.degrees, kind="stable")
            falling = -scope.degrees[order]
            page = falling[max(offset, 0) : max(offset, 0) + max(limit, 0)]
            if not len(page):
                return []
            # Names decide among equals, so all that are equal to the first or the last of the page are read.
            start, end = np.searchsorted(falling, page[0]), np.searchsorted(falling, page[-1], "right")
            ranked = self._ranked(connection, scope, order[start:end])
            return ranked[offset - int(start) :][: len(page)]

        return await self._reader.read(read)

    async def find_relations_among(self, entity_ids: Sequence[str]) -> list[Relation]:

        def read(connection: apsw.Connection, scope: Scope) -> list[Relation]:
            keys = keys_within(connection, entity_ids, scope.entities)
            places = scope.entities.places(np.array(list(keys.values()), np.int64))
            return _relations_among(connection, scope, self._fold, places)

        return await self._reader.read(read)

    async def get_neighbourhood(self, entity_id: str, depth: int, max_entities: int) -> Subgraph:

        def read(connection: apsw.Connection, scope: Scope) -> Subgraph:
            keys = keys_within(connection, [entity_id], scope.entities)
            if not keys or max_entities < 1:
                return Subgraph((), (), is_truncated=False)
            return self._walk(connection, scope, keys[entity_id], depth, max_entities)

        return await self._reader.read(read)

    async def find_shortest_paths(
        self, source_id: str, target_id: str, max_length: int, limit: int, most_visited: int = 200_000
    ) -> list[GraphPath]:

        def read(connection: apsw.Connection, scope: Scope) -> list[GraphPath]:
            keys = keys_within(connection, [source_id, target_id], scope.entities)
            if len(keys) < len({source_id, target_id}) or limit < 1:
                return []
            ends = keys[source_id], keys[target_id]
            paths = _find_paths(connection, scope, *ends, max_length, limit, most_visited)
            entities = fold_entities(connection, scope, self._fold, list({key for path in paths for key in path}))
            places = scope.entities.places(np.array(list(entities), np.int64))
            between = {
                frozenset((relation.source_id, relation.target_id)): relation
                for relation in _relations_among(connection, scope, self._fold, places)
            }
            return [_path([entities[key] for key in path], between) for path in paths]

        return await self._reader.read(read)

    def _ranked(self, connection: apsw.Connection, scope: Scope, places: Places) -> list[Entity]:
        """Return the entities at these places by degree (descending), then name."""
        found = fold_entities(connection, scope, self._fold, scope.entities.keys[places].tolist())
        return sorted(found.values(), key=lambda entity: (-entity.degree, entity.name, entity.id))

    def _walk(self, connection: apsw.Connection, scope: Scope, start: int, depth: int, max_entities: int) -> Subgraph:
        frontier = scope.entities.places(np.array([start], np.int64))
        seen = frontier
        found = self._ranked(connection, scope, frontier)
        is_truncated = False
        for _ in range(depth):
            level = np.setdiff1d(scope.ends[scope.touching(frontier)], seen)
            room = max_entities - len(found)
            is_truncated = len(level) > room
            nearest = self._ranked(connection, scope, _best_connected(scope, level, room))[:room]
            found += nearest
            frontier = _places(connection, scope, nearest)
            seen = np.union1d(seen, frontier)
            if is_truncated or not len(frontier):
                break
        relations = _relations_among(connection, scope, self._fold, seen)
        return Subgraph(tuple(found), tuple(relations), is_truncated)


def _best_connected(scope: Scope, places: Places, limit: int) -> Places:
    """Return those with most relations: at least `limit`, and all that have as many as the last of these."""
    if limit <= 0 or len(places) <= limit:
        return places[: max(limit, 0)]
    degrees = scope.degrees[places]
    least = np.partition(degrees, len(degrees) - limit)[len(degrees) - limit]
    return places[degrees >= least]


def _places(connection: apsw.Connection, scope: Scope, entities: Iterable[Entity]) -> Places:
    keys = keys_within(connection, (entity.id for entity in entities), scope.entities)
    return scope.entities.places(np.array(list(keys.values()), np.int64))


def _relations_among(connection: apsw.Connection, scope: Scope, fold: Fold, places: Places) -> list[Relation]:
    """Return the relations whose two ends are both at these places, heaviest first, then by id."""
    touching = scope.touching(places)
    inside = touching[np.isin(scope.ends[touching], places).all(axis=1)]
    found = fold_relations(connection, scope, fold, scope.relations.keys[inside].tolist())
    return sorted(found.values(), key=lambda relation: (-relation.weight, relation.id))


def _find_paths(
    connection: apsw.Connection,
    scope: Scope,
    source: int,
    target: int,
    max_length: int,
    limit: int,
    most_visited: int,
) -> list[list[int]]:
    search = PathSearch(source, target, max_length, limit, most_visited)
    while frontier := search.frontier:
        search.expand(list(_steps(scope, frontier)))
    return search.paths(lambda found: find_ids(connection, found))


def _steps(scope: Scope, frontier: collections.abc.Collection[int]) -> Iterator[tuple[int, int, float]]:
    """Yield the relations that touch these: the key of one of them, of the other end, weight."""
    wanted = set(frontier)
    touching = scope.touching(scope.entities.places(np.array(list(frontier), np.int64)))
    ends = scope.entities.keys[scope.ends[touching]].tolist()
    for (left, right), weight in zip(ends, scope.weights[touching].tolist(), strict=True):
        if left in wanted:
            yield left, right, weight
        if right in wanted:
            yield right, left, weight


def _path(entities: list[Entity], relations: Mapping[frozenset[str], Relation]) -> GraphPath:
    steps = pairwise(entities)
    return GraphPath(tuple(entities), tuple(relations[frozenset((left.id, right.id))] for left, right in steps))


# Entities found in full text at first, per one asked for; where too few have such names here, all are.
_HITS_PER_HIT = 8
_LEAST_HITS = 64
_TWINS_BY_CHUNK = """SELECT identity.id, document_key, twin.key, twin.source FROM carray(?) AS wanted
                     CROSS JOIN identity ON identity.id = wanted.value CROSS JOIN chunk USING (key)
                     CROSS JOIN document AS twin ON twin.twin_key = chunk.document_key
                     CROSS JOIN identity AS twin_identity ON twin_identity.key = twin.key
                     WHERE twin.status IN ('processed', 'partial') ORDER BY twin_identity.id"""


class SqliteView(StoreView):
    """The embedded store under one filter."""

    def __init__(
        self,
        reader: ScopedReader,
        accelerators: Mapping[Collection, VectorAccelerator],
        texts: Mapping[Collection, TextAccelerator],
    ) -> None:
        self.records = ScopedRecordsStore(reader)
        self.graph = ScopedGraphStore(reader)
        self.vectors = ScopedVectorStore(reader, accelerators)
        self.text = ScopedTextStore(reader, texts)


class ScopedRecordsStore(RecordsStore):
    """Matching documents and what they say."""

    def __init__(self, reader: ScopedReader) -> None:
        self._reader = reader

    async def get_documents(self, ids: Sequence[str]) -> list[Document]:

        def read(connection: apsw.Connection, scope: Scope) -> list[Document]:
            keys = keys_within(connection, ids, scope.documents)
            allowed = [id_ for id_ in ids if id_ in keys]
            rows = fetch(connection, DOCUMENTS_BY_ID, (array(allowed),)) if allowed else []
            return _as_left(connection, scope, [to_document(row) for row in rows])

        return await self._reader.read(read)

    async def find_documents(self, query: DocumentQuery) -> DocumentPage:
        both = And((self._reader.filter, query.filter)) if query.filter else self._reader.filter
        narrow = replace(query, filter=both)

        def read(connection: apsw.Connection, scope: Scope) -> DocumentPage:
            page = find_documents(connection, narrow)
            return replace(page, documents=tuple(_as_left(connection, scope, page.documents)))

        return await self._reader.read(read)

    async def get_document_text(self, document_id: str) -> str | None:

        def read(connection: apsw.Connection, scope: Scope) -> str | None:
            if not keys_within(connection, [document_id], scope.documents):
                return None
            return fetch_value(connection, TEXT_BY_DOCUMENT, (document_id,))

        return await self._reader.read(read)

    async def get_chunks(self, ids: Sequence[str]) -> list[Chunk]:

        def read(connection: apsw.Connection, scope: Scope) -> list[Chunk]:
            allowed = _allowed_chunks(connection, scope, ids)
            rows = fetch(connection, CHUNKS_BY_ID, (array(allowed),)) if allowed else []
            return _owned(connection, scope, [to_chunk(row) for row in rows])

        return await self._reader.read(read)

    async def get_document_chunks(self, document_id: str) -> list[Chunk]:

        def read(connection: apsw.Connection, scope: Scope) -> list[Chunk]:
            if not keys_within(connection, [document_id], scope.documents):
                return []
            held_by = {shown: holder for holder, shown in _owner_ids(connection, scope).items()}
            rows = fetch(connection, CHUNKS_BY_DOCUMENT, (held_by.get(document_id, document_id),))
            return _owned(connection, scope, [to_chunk(row) for row in rows])

        return await self._reader.read(read)

    async def get_sources(self, chunk_ids: Sequence[str]) -> dict[str, str]:

        def read(connection: apsw.Connection, scope: Scope) -> dict[str, str]:
            if not scope.owners:
                return read_sources(connection, keys_within(connection, chunk_ids, scope.chunks))
            allowed = _allowed_chunks(connection, scope, chunk_ids)
            return _sources(connection, scope, allowed) if allowed else {}

        return await self._reader.read(read)

    async def get_twin_sources(self, chunk_ids: Sequence[str]) -> dict[str, tuple[str, ...]]:

        def read(connection: apsw.Connection, scope: Scope) -> dict[str, tuple[str, ...]]:
            allowed = _allowed_chunks(connection, scope, chunk_ids)
            rows = fetch(connection, _TWINS_BY_CHUNK, (array(allowed),)) if allowed else []
            others = [
                (id_, source)
                for id_, holder, twin, source in rows
                if twin in scope.documents and scope.owners.get(holder) != twin
            ]
            return grouped(others)

        return await self._reader.read(read)

    async def get_extractions(self, chunk_ids: Sequence[str]) -> list[Extraction]:

        def read(connection: apsw.Connection, scope: Scope) -> list[Extraction]:
            return read_extractions(connection, _allowed_chunks(connection, scope, chunk_ids))

        return await self._reader.read(read)

    async def get_entity_mentions(self, chunk_ids: Sequence[str]) -> dict[str, tuple[EntityMention, ...]]:

        def read(connection: apsw.Connection, scope: Scope) -> dict[str, tuple[EntityMention, ...]]:
            return read_entity_mentions(connection, _allowed_chunks(connection, scope, chunk_ids))

        return await self._reader.read(read)

    async def get_evidence(
        self, entity_ids: Sequence[str], relation_ids: Sequence[str], leading: int
    ) -> tuple[list[EntityEvidence], list[RelationEvidence]]:
        """See `RecordsStore`; the evidence of a view is counted when it is asked for, and bears the data version."""
        fold = self._reader.fold

        def read(connection: apsw.Connection, scope: Scope) -> tuple[list[EntityEvidence], list[RelationEvidence]]:
            return (
                read_entity_evidence(connection, scope, fold, entity_ids, leading),
                read_relation_evidence(connection, scope, fold, relation_ids, leading),
            )

        return await self._reader.read(read)

    async def get_mention_places(self, entity_ids: Sequence[str], most: int) -> list[EntityPlaces]:
        return await self._reader.read(
            lambda connection, scope: read_places_within(connection, scope, entity_ids, most)
        )


class ScopedVectorStore(VectorStore):
    """Vectors of what is left; those of entities and relations are of all that is said of them, and only order hits."""

    def __init__(self, reader: ScopedReader, accelerators: Mapping[Collection, VectorAccelerator]) -> None:
        self._reader = reader
        self._accelerators = accelerators

    async def search(
        self, collection: Collection, vector: NDArray[np.float32], limit: int, min_score: float
    ) -> list[Hit]:
        vector = np.ascontiguousarray(vector, np.float32)
        accelerator = self._accelerators[collection]

        def find(connection: apsw.Connection, scope: Scope) -> list[Hit]:
            allowed = scope.keys_of(collection)
            return find_nearest(connection, KnownIds(), accelerator, collection, vector, limit, min_score, allowed)

        return await self._reader.read(find)

    async def get_vectors(self, collection: Collection, ids: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        accelerator = self._accelerators[collection]

        def read(connection: apsw.Connection, scope: Scope) -> dict[str, NDArray[np.float32]]:
            keys = keys_within(connection, ids, scope.keys_of(collection))
            allowed = [id_ for id_ in ids if id_ in keys]
            return read_vectors(connection, KnownIds(), accelerator, collection, allowed)

        return await self._reader.read(read)


class ScopedTextStore(TextStore):
    """Full text of what is left; an entity is found by the names that matching documents give it and by no other."""

    def __init__(self, reader: ScopedReader, accelerators: Mapping[Collection, TextAccelerator]) -> None:
        self._reader = reader
        self._accelerators = accelerators

    async def search(self, collection: Collection, terms: Sequence[str], limit: int) -> list[Hit]:
        wanted = distinct_terms(terms)
        if not wanted or limit < 1 or collection not in SEARCHED:
            return []
        accelerator = self._accelerators[collection]

        def find(connection: apsw.Connection, scope: Scope) -> list[Hit]:
            if collection is Collection.ENTITIES:
                return to_hits(*self._entities(connection, scope, accelerator, wanted, limit))
            return find_texts(connection, KnownIds(), accelerator, wanted, limit, scope.chunks)

        return await self._reader.read(find)

    async def find_phrases(
        self, collection: Collection, phrases: Sequence[Sequence[str]], limit: int
    ) -> list[list[str]]:
        """See `TextStore`; entities are found by the names that are left."""
        if limit < 1:
            return [[] for _ in phrases]

        def find(connection: apsw.Connection, scope: Scope) -> list[list[str]]:
            found: list[list[int]] = []
            for phrase in phrases:
                stored = np.array(phrase_keys(connection, collection, phrase, -1), np.int64)
                keys: list[int] = stored[scope.keys_of(collection).holds(stored)].tolist()
                if collection is Collection.ENTITIES:
                    keys = self._called(connection, scope, keys, phrase, limit)
                found.append(keys[:limit])
            ids = find_ids(connection, {key for keys in found for key in keys})
            return [[ids[key] for key in keys] for keys in found]

        return await self._reader.read(find)

    def _called(
        self, connection: apsw.Connection, scope: Scope, keys: list[int], phrase: Sequence[str], limit: int
    ) -> list[int]:
        """Return those of the entities, at least `limit` if there are, whose names in the scope hold a phrase."""
        wanted = f" {' '.join(phrase)} "
        found: list[int] = []
        for start in range(0, len(keys), limit):
            page = keys[start : start + limit]
            entities = fold_entities(connection, scope, self._reader.fold, page)
            found += [key for key in page if wanted in f" {' '.join(self._reader.fold.name_terms(entities[key]))} "]
            if len(found) >= limit:
                break
        return found

    def _entities(
        self, connection: apsw.Connection, scope: Scope, accelerator: TextAccelerator, terms: list[str], limit: int
    ) -> tuple[list[tuple[int, float]], dict[int, str]]:
        """Return the best entities whose names in the scope hold one of the terms, and ids of them and of others."""
        looked_at = max(limit * _HITS_PER_HIT, _LEAST_HITS)
        while True:
            found = accelerator.search(connection, terms, looked_at, scope.entities)
            ids = accelerator.find_ids(connection, KnownIds(), [key for key, _ in found])
            kept = list(self._named(connection, scope, [hit for hit in found if hit[0] in ids], set(terms), limit))
            if len(kept) >= limit or len(found) < looked_at:
                return kept[:limit], ids
            looked_at = len(scope.entities) + 1

    def _named(
        self, connection: apsw.Connection, scope: Scope, hits: list[tuple[int, float]], terms: set[str], limit: int
    ) -> Iterator[tuple[int, float]]:
        """Yield the hits, at least `limit` if there are, whose names in the scope hold one of the terms."""
        found = 0
        for start in range(0, len(hits), limit):
            page = hits[start : start + limit]
            entities = fold_entities(connection, scope, self._reader.fold, [key for key, _ in page])
            for key, score in page:
                if not terms.isdisjoint(self._reader.fold.name_terms(entities[key])):
                    found += 1
                    yield key, score
            if found >= limit:
                return


def _owner_ids(connection: apsw.Connection, scope: Scope) -> dict[str, str]:
    """Return `Scope.owners` by ids."""
    ids = find_ids(connection, {*scope.owners, *scope.owners.values()})
    return {ids[holder]: ids[shown] for holder, shown in scope.owners.items()}


def _owned(connection: apsw.Connection, scope: Scope, chunks: list[Chunk]) -> list[Chunk]:
    """Return chunks under the documents that have them in the scope."""
    if not scope.owners:
        return chunks
    owners = _owner_ids(connection, scope)
    return [
        replace(chunk, document_id=owners[chunk.document_id]) if chunk.document_id in owners else chunk
        for chunk in chunks
    ]


def _as_left(connection: apsw.Connection, scope: Scope, documents: Sequence[Document]) -> list[Document]:
    """Return documents as they would be without those that do not match: a twin may be the original then."""
    if not any(document.twin_of for document in documents):
        return list(documents)
    owners = _owner_ids(connection, scope)
    originals = keys_within(
        connection, [document.twin_of for document in documents if document.twin_of], scope.documents
    )
    left: list[Document] = []
    for document in documents:
        original = document.twin_of
        if original and original not in originals:
            shown = owners.get(original, "")
            original = "" if shown == document.id else shown
        left.append(replace(document, twin_of=original))
    return left


def _sources(connection: apsw.Connection, scope: Scope, chunk_ids: Sequence[str]) -> dict[str, str]:
    """Return, per chunk, the source of the document that has it in the scope."""
    query = """SELECT identity.id, document_key FROM carray(?) AS wanted
               CROSS JOIN identity ON identity.id = wanted.value CROSS JOIN chunk USING (key)"""
    owners = {id_: scope.owners.get(key, key) for id_, key in fetch(connection, query, (array(chunk_ids),))}
    query = "SELECT key, source FROM carray(?) AS wanted CROSS JOIN document ON key = wanted.value"
    sources = dict(fetch(connection, query, (array(set(owners.values())),)))
    return {id_: sources[key] for id_, key in owners.items()}


def _allowed_chunks(connection: apsw.Connection, scope: Scope, ids: Sequence[str]) -> list[str]:
    keys = keys_within(connection, ids, scope.chunks)
    return [id_ for id_ in ids if id_ in keys]
