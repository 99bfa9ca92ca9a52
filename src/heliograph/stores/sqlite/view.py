"""The scope of a filter on the embedded store, as sorted arrays of keys, and reads at one moment."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from collections.abc import Collection as Some
from dataclasses import dataclass, field, replace
from itertools import compress, groupby, islice
from operator import itemgetter
from typing import Any, Literal, TypeVar

import apsw
import numpy as np
from numpy.typing import NDArray

from heliograph.filters import Filter
from heliograph.ids import is_subject_rank
from heliograph.models import EntityMention, RelationMention
from heliograph.stores.base import EntityPlaces, Fold, Hit
from heliograph.stores.changeset import Collection
from heliograph.stores.sql import ENTITY_MENTIONS, RELATION_MENTIONS
from heliograph.stores.sqlite.database import (
    Database,
    IdMemory,
    KnownIds,
    Row,
    array,
    data_version,
    fetch,
    find_ids,
)
from heliograph.stores.sqlite.records import (
    SqliteRecordsStore,
    compile_chunk_filter,
    compile_filter,
    to_places,
)
from heliograph.stores.sqlite.search import SqliteTextStore, SqliteVectorStore, phrase_keys
from heliograph.stores.view import (
    MILLION,
    Keys,
    KeySet,
    Kind,
    NotedCommit,
    Scope,
    ScopedMentions,
    ScopedReader,
    ScopedReading,
    ScopeMemory,
    find_shown,
    scoped_relations,
)

T = TypeVar("T")
_Mentioned = Literal["entity", "relation"]
_COLUMNS: dict[_Mentioned, str] = {
    "entity": "entity_key, "
    + ENTITY_MENTIONS.select("entity_mention", chunk_id="chunk_key", entity_id="name_hash IS NOT NULL"),
    "relation": "relation_key, "
    + RELATION_MENTIONS.select(
        "relation_mention", chunk_id="chunk_key", source_id="source_key", target_id="target_key"
    ),
}
# An item with more mentions than this per chunk of the scope, and more than a few, is read by the scope's chunks.
_MENTIONS_PER_CHUNK = 4
_FEW_MENTIONS = 64
# Entities of a scope whose places are cached; some 10 MB.
_MOST_PLACES = 8_192
# Rows with a phrase that are read at a time.
_PHRASE_ROWS = 512


@dataclass(frozen=True)
class SqliteReader(ScopedReader):
    """Reads under one filter; a call's reads are one transaction, in one of the database's threads."""

    database: Database
    ids: IdMemory
    records: SqliteRecordsStore
    vectors: SqliteVectorStore
    text: SqliteTextStore
    scopes: ScopeMemory[SqliteScope]
    filter: Filter
    fold: Fold

    async def read(self, work: Callable[[ScopedReading], Coroutine[Any, Any, T]]) -> T:
        return await self.database.read_at_once(lambda connection: self._read(connection, work))

    async def at_one_moment(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        return await self.database.read_at_once(lambda _: work())

    async def _read(self, connection: apsw.Connection, work: Callable[[ScopedReading], Coroutine[Any, Any, T]]) -> T:
        version = data_version(connection)

        async def make() -> SqliteScope:
            return _make_scope(connection, self.filter, version)

        def renew(scope: SqliteScope, commits: Sequence[NotedCommit]) -> SqliteScope | None:
            return _renew_scope(connection, self.filter, version, scope, commits)

        scope = await self.scopes.get(self.filter, self.fold, version, make, renew)
        roles = self.records, self.vectors, self.text
        return await work(SqliteReading(scope, self.fold, *roles, connection, self.ids.at(connection)))


@dataclass(slots=True, eq=False, kw_only=True)
class SqliteScope(Scope):
    """A scope whose keys are those of the database.

    `moments` are, per chunk, when the first matching document with it was first seen, in Unix seconds; `has_twins` says
    whether a matching document's chunks are stored with another one; `places` are those read so far, by an entity's key
    and the number requested.
    """

    moments: NDArray[np.int64]
    has_twins: bool
    places: dict[tuple[int, int], EntityPlaces] = field(default_factory=dict[tuple[int, int], EntityPlaces])


@dataclass(frozen=True, slots=True)
class SqliteReading(ScopedReading):
    """One transaction.

    An item's mentions are read in canonical order and filtered by scope; if it has far more of them than the scope has
    chunks, the mentions in the scope's chunks are looked up instead, so that a fold takes time in proportion to the
    smaller of the two.
    """

    scope: SqliteScope
    vectors: SqliteVectorStore
    text: SqliteTextStore
    connection: apsw.Connection
    known: KnownIds

    async def find_keys(self, kind: Kind | Collection, ids: Iterable[str]) -> dict[str, int]:
        wanted = list(dict.fromkeys(ids))
        keys = self.known.find_keys(self.connection, wanted)
        there = [id_ for id_ in wanted if id_ in keys]
        holds = self.scope.keys_of(kind).holds(np.array([keys[id_] for id_ in there], np.int64)).tolist()
        return {id_: keys[id_] for id_, is_held in zip(there, holds, strict=True) if is_held}

    async def find_ids(self, kind: Kind | Collection, keys: Some[int]) -> Mapping[int, str]:  # noqa: ARG002
        return self.known.find_ids(self.connection, keys)

    async def read_entity_mentions(self, keys: Sequence[int]) -> Mapping[int, ScopedMentions[EntityMention]]:
        rows = self._said("entity", keys)
        ids = self.known.find_ids(self.connection, {*keys, *(row[1] for row in rows)})
        return self._grouped(
            rows,
            [
                EntityMention(ids[chunk], name, kind, text, rank, ids[key] if is_resolved else "", *more)
                for key, chunk, name, kind, text, rank, is_resolved, *more in rows
            ],
        )

    async def read_relation_mentions(self, keys: Sequence[int]) -> Mapping[int, ScopedMentions[RelationMention]]:
        rows = self._said("relation", keys)
        resolved = {key for row in rows for key in row[8:10] if key is not None}
        ids = self.known.find_ids(self.connection, resolved | {row[1] for row in rows})
        return self._grouped(
            rows,
            [
                RELATION_MENTIONS.record((ids[row[1]], *row[2:8], ids.get(row[8], ""), ids.get(row[9], ""), *row[10:]))
                for row in rows
            ],
        )

    async def read_places(self, ids: Sequence[str], most: int) -> list[EntityPlaces]:
        """Reads only the start of each mention's row; for hubs all are counted, so this is done once per scope."""
        keys, known = await self.find_keys("entities", ids), self.scope.places
        found = {key: places for key in keys.values() if (places := known.get((key, most)))}
        if missing := {key: id_ for id_, key in keys.items() if key not in found}:
            rows = self._rows("entity", list(missing), "entity_key, chunk_key, rank")
            mentions = {key: list(group) for key, group in groupby(rows, itemgetter(0))}
            kept = {
                key: (group if len(group) <= most else [row for row in group if is_subject_rank(row[2])])[:most]
                for key, group in mentions.items()
            }
            chunks = {chunk for group in kept.values() for _, chunk, _ in group}
            chunk_ids = self.known.find_ids(self.connection, chunks)
            if len(known) + len(missing) > _MOST_PLACES:
                known.clear()
            for key, id_ in missing.items():
                found[key] = known[key, most] = to_places(id_, len(mentions[key]), kept[key], chunk_ids)
        return [found[key] for key in keys.values()]

    async def find_nearest(
        self, collection: Collection, vector: NDArray[np.float32], limit: int, min_cosine: float
    ) -> list[Hit]:
        return await self.vectors.search(collection, vector, limit, min_cosine, self.scope.keys_of(collection))

    async def find_texts(self, collection: Collection, terms: Sequence[str], limit: int) -> list[Hit]:
        return await self.text.search(collection, terms, limit, self.scope.keys_of(collection))

    async def find_phrases(
        self, collection: Collection, phrases: Sequence[Sequence[str]], most: int | None = None
    ) -> list[list[int]]:
        allowed, holding = self.scope.keys_of(collection), list[list[int]]()
        for phrase in phrases:
            stored, found = phrase_keys(self.connection, collection, phrase), list[int]()
            # Very many rows may hold a common name, so no more are read than wanted.
            while (most is None or len(found) < most) and (some := list(islice(stored, _PHRASE_ROWS))):
                keys = np.array(some, np.int64)
                found += keys[allowed.holds(keys)].tolist()
            holding.append(found[:most])
        return holding

    def _said(self, kind: _Mentioned, keys: Sequence[int]) -> list[Row]:
        return list(self._rows(kind, list(keys), _COLUMNS[kind])) if keys else []

    def _grouped(self, rows: Sequence[Row], mentions: Sequence[Any]) -> dict[int, ScopedMentions[Any]]:
        scope = self.scope
        chunks = np.fromiter((row[1] for row in rows), np.int64, len(rows))
        moments = scope.moments[scope.chunks.places(chunks)].tolist()
        found: dict[int, ScopedMentions[Any]] = {}
        start = 0
        for key, group in groupby(rows, itemgetter(0)):
            end = start + sum(1 for _ in group)
            found[key] = ScopedMentions(min(moments[start:end]), mentions[start:end])
            start = end
        return found

    def _rows(self, kind: _Mentioned, keys: list[int], columns: str) -> Iterator[Row]:
        """Yield the rows of the items' mentions in the scope, item by item, in canonical order."""
        limit = max(_FEW_MENTIONS, _MENTIONS_PER_CHUNK * len(self.scope.chunks))
        query = (
            f"SELECT key, mention_count > ? FROM carray(?) AS wanted CROSS JOIN {kind}_evidence ON key = wanted.value"
        )
        is_large = dict(fetch(self.connection, query, (limit, array(keys))))
        small = [key for key in keys if not is_large.get(key)]
        if small:
            # The table is clustered by item, rank, chunk and ordinal, and is read in that order.
            query = f"""SELECT {columns} FROM carray(?) AS wanted
                        CROSS JOIN {kind}_mention ON {kind}_key = wanted.value"""
            rows = fetch(self.connection, query, (array(small),))
            chunks = np.fromiter((row[1] for row in rows), np.int64, len(rows))
            yield from compress(rows, self.scope.chunks.holds(chunks).tolist())
        for key in keys:
            if is_large.get(key):
                query = f"""SELECT {columns} FROM carray(?) AS wanted
                            CROSS JOIN {kind}_mention INDEXED BY {kind}_mention_by_chunk
                            ON chunk_key = wanted.value AND {kind}_key = ? ORDER BY rank, chunk_key, ordinal"""
                yield from fetch(self.connection, query, (array(self.scope.chunks.keys), key))


def _make_scope(connection: apsw.Connection, filter_: Filter, version: int) -> SqliteScope:
    documents, seen, holders = _documents(connection, filter_)
    chunks, moments = _chunks(connection, filter_, seen, holders)
    entities = _entities(connection, chunks)
    return SqliteScope(
        version=version,
        documents=documents,
        shown_as=_shown(connection, documents, holders),
        chunks=KeySet(chunks),
        moments=moments,
        has_twins=bool((holders != documents.keys).any()),
        entities=entities,
        **scoped_relations(entities, *_relations(connection, chunks)),
    )


# Limit on documents that later commits may have touched, and on relations appended since they were grouped.
_MOST_RENEWED = 256
_MOST_LATE = 8_192


def _renew_scope(
    connection: apsw.Connection, filter_: Filter, version: int, scope: SqliteScope, commits: Sequence[NotedCommit]
) -> SqliteScope | None:
    """Return a scope updated by these commits, all since it was made; takes time in proportion to what they touched.

    All that they may have changed is looked up again, the rest stays. None if much was changed, if documents share
    texts, or if a commit's changes do not follow from documents: then the scope must be rebuilt.
    """
    changed = _keys((commit.document_ids, commit) for commit in commits)
    follows = all(commit.document_ids and not commit.is_curated for commit in commits)
    if scope.has_twins or not follows or len(changed) > _MOST_RENEWED:
        return None
    query = "SELECT EXISTS (SELECT 1 FROM carray(?) AS wanted CROSS JOIN document ON twin_key = wanted.value)"
    matching, seen, holders = _documents(connection, filter_, changed)
    if (holders != matching.keys).any() or connection.execute(query, (array(changed),)).get:
        return None
    query = """SELECT chunk.key FROM carray(?) AS wanted
               CROSS JOIN chunk INDEXED BY chunk_by_document ON document_key = wanted.value"""
    held = _columns(connection, query, (array(changed),), 1)[0]
    touched = np.union1d(held, _keys((commit.chunk_ids, commit) for commit in commits))
    meets, values = compile_chunk_filter(filter_)
    query = f"SELECT key, document_key, {meets} FROM carray(?) AS wanted CROSS JOIN chunk ON key = wanted.value"
    rows = _columns(connection, query, (*values, array(touched)), 3) if len(touched) else [touched] * 3
    stored, owners, is_allowed = rows[0], rows[1], rows[2] == 1
    was_there = scope.chunks.holds(stored)
    is_matching = matching.holds(owners) & is_allowed
    # Re-extracted chunks of unchanged documents.
    is_kept = was_there & ~np.isin(owners, changed) & is_allowed
    stays = ~np.isin(scope.chunks.keys, touched)
    fresh = stored[is_matching | is_kept]
    moments = np.zeros(len(stored), np.int64)
    moments[is_matching] = seen[matching.places(owners[is_matching])]
    moments[is_kept] = scope.moments[scope.chunks.places(stored[is_kept])]
    chunks = np.concatenate((scope.chunks.keys[stays], fresh))
    ascending = np.argsort(chunks)
    renewed = replace(
        scope,
        version=version,
        documents=scope.documents.rechecked(changed, matching.keys),
        chunks=KeySet(chunks[ascending]),
        moments=np.concatenate((scope.moments[stays], moments[is_matching | is_kept]))[ascending],
    )
    doubtful = _keys((commit.entity_ids, commit) for commit in commits)
    doubtful = np.union1d(doubtful, _mentioned(connection, "entity", stored))
    found = _mentioned(connection, "entity", fresh)
    if not stays.all():
        # Elsewhere in the scope, only items that were in it before can be mentioned.
        others = np.setdiff1d(doubtful[scope.entities.holds(doubtful)], found)
        query = """SELECT entity_key, chunk_key FROM carray(?) AS wanted
                   CROSS JOIN entity_mention ON entity_key = wanted.value"""
        keys, places = _columns(connection, query, (array(others),), 2) if len(others) else (others, others)
        found = np.union1d(found, keys[renewed.chunks.holds(places)])
    else:
        found = np.union1d(found, doubtful[scope.entities.holds(doubtful)])
    entities = scope.entities.rechecked(doubtful, _existing(connection, found))
    return _with_relations(connection, renewed, entities, doubtful, stored, commits)


def _with_relations(
    connection: apsw.Connection,
    scope: SqliteScope,
    entities: KeySet,
    doubtful_entities: Keys,
    touched_chunks: Keys,
    commits: Sequence[NotedCommit],
) -> SqliteScope:
    """Return a scope with new entities and relations, given one with new chunks but its previous relations."""
    doubtful = _keys((commit.relation_ids, commit) for commit in commits)
    doubtful = np.union1d(doubtful, _mentioned(connection, "relation", touched_chunks))
    query = """SELECT relation_key, chunk_key, weight FROM carray(?) AS wanted
               CROSS JOIN relation_mention ON relation_key = wanted.value"""
    rows = fetch(connection, query, (array(doubtful),)) if len(doubtful) else []
    is_here = scope.chunks.holds(np.fromiter((row[1] for row in rows), np.int64, len(rows))).tolist()
    keys, ends, weights = _weighed(connection, [(key, weight) for key, _, weight in compress(rows, is_here)])
    known = scope.relations.holds(keys)
    before, late = KeySet(keys[known]), keys[~known]
    grows = (
        _is_continued(scope.entities.keys, entities.keys)
        and _is_continued(scope.relations.keys, np.concatenate((scope.relations.keys, late)))
        and before.holds(doubtful[scope.relations.holds(doubtful)]).all()
        and entities.holds(ends).all()
        and len(scope.ends) + len(late) - len(scope.incident) // 2 <= _MOST_LATE
    )
    if not grows:
        stays = ~np.isin(scope.relations.keys, doubtful)
        all_keys = np.concatenate((scope.relations.keys[stays], keys))
        all_ends = np.concatenate((scope.entities.keys[scope.ends[stays]].reshape(-1, 2), ends))
        all_weights = np.concatenate((scope.weights[stays], weights))
        order = np.argsort(all_keys)
        relations = scoped_relations(entities, all_keys[order], all_ends[order], all_weights[order])
        return replace(scope, entities=entities, folded={}, places={}, **relations)
    all_weights = scope.weights.copy()
    all_weights[scope.relations.places(keys[known])] = weights[known]
    places = entities.places(ends[~known]).reshape(-1, 2)
    degrees = np.bincount(places.reshape(-1), minlength=len(entities))
    degrees[: len(scope.degrees)] += scope.degrees
    outdated = {*doubtful_entities.tolist(), *doubtful.tolist(), *ends.reshape(-1).tolist()}
    return replace(
        scope,
        entities=entities,
        degrees=degrees,
        relations=KeySet(np.concatenate((scope.relations.keys, late))),
        ends=np.concatenate((scope.ends, places)),
        weights=np.concatenate((all_weights, weights[~known])),
        folded={key: item for key, item in list(scope.folded.items()) if key not in outdated},
        places={key: item for key, item in list(scope.places.items()) if key[0] not in outdated},
    )


def _is_continued(before: Keys, after: Keys) -> bool:
    """Whether `after` is `before` with keys appended, all in ascending order."""
    is_same = len(after) >= len(before) and np.array_equal(before, after[: len(before)])
    return is_same and bool((np.diff(after[max(len(before) - 1, 0) :]) > 0).all())


def _keys(noted: Iterable[tuple[Sequence[str], NotedCommit]]) -> Keys:
    """Return the keys that ids had in their commits, ascending."""
    found = {commit.keys[id_] for ids, commit in noted for id_ in ids if id_ in commit.keys}
    return np.array(sorted(found), np.int64)


def _documents(
    connection: apsw.Connection, filter_: Filter, among: Keys | None = None
) -> tuple[KeySet, NDArray[np.int64], Keys]:
    """Return matching documents, when each was first seen, and which document stores its chunks (0: none may).

    Reads all documents, or those in `among`, at least one.

    A twin's chunks are stored with its original. They were read and are indexed under the original's title, so a twin
    with another title does not make them match.
    """
    condition, values = compile_filter(filter_)
    if among is not None:
        condition, values = f"document.key IN (SELECT value FROM carray(?)) AND {condition}", [array(among), *values]
    query = f"""SELECT document.key, cast(document.created_at AS INTEGER),
                       CASE WHEN document.twin_key IS NULL THEN document.key
                            WHEN original.title = document.title AND document.status IN ('processed', 'partial')
                            THEN document.twin_key ELSE 0 END
                FROM document LEFT JOIN document AS original ON original.key = document.twin_key
                WHERE {condition} ORDER BY 1"""
    documents, seen, holders = _columns(connection, query, tuple(values), 3)
    return KeySet(documents), seen, holders


def _shown(connection: apsw.Connection, documents: KeySet, holders: Keys) -> dict[str, str]:
    """Return the documents under which chunks are shown, as `find_shown` does."""
    missing = (holders != 0) & ~documents.holds(holders)
    pairs = list(zip(documents.keys[missing].tolist(), holders[missing].tolist(), strict=True))
    ids = find_ids(connection, {key for pair in pairs for key in pair})
    return find_shown(sorted((ids[twin], ids[holder]) for twin, holder in pairs))


def _chunks(
    connection: apsw.Connection, filter_: Filter, seen: NDArray[np.int64], holders: Keys
) -> tuple[Keys, NDArray[np.int64]]:
    """Return the chunks of these documents within the filter, and when the first document of each was first seen."""
    if not holders.any():
        return np.empty(0, np.int64), np.empty(0, np.int64)
    order = np.lexsort((seen, holders))
    distinct, first = np.unique(holders[order], return_index=True)
    holding = KeySet(distinct)
    meets, values = compile_chunk_filter(filter_)
    query = f"""SELECT chunk.key, document_key FROM carray(?) AS wanted
                CROSS JOIN chunk INDEXED BY chunk_by_document ON document_key = wanted.value AND {meets}"""
    keys, owners = _columns(connection, query, (array(holding.keys), *values), 2)
    ascending = np.argsort(keys)
    return keys[ascending], seen[order][first][holding.places(owners[ascending])]


def _entities(connection: apsw.Connection, chunks: Keys) -> KeySet:
    """Return the stored entities that the chunks mention."""
    return KeySet(_existing(connection, _mentioned(connection, "entity", chunks)))


def _mentioned(connection: apsw.Connection, kind: _Mentioned, chunks: Keys) -> Keys:
    """Return the keys of the items that the chunks mention, ascending."""
    query = f"""SELECT {kind}_key FROM carray(?) AS wanted
                CROSS JOIN {kind}_mention INDEXED BY {kind}_mention_by_chunk ON chunk_key = wanted.value"""
    return np.unique(_columns(connection, query, (array(chunks),), 1)[0]) if len(chunks) else np.empty(0, np.int64)


def _existing(connection: apsw.Connection, keys: Keys) -> Keys:
    """Return those of the keys that are entities, in the order given."""
    query = "SELECT key FROM carray(?) AS wanted CROSS JOIN entity_degree ON key = wanted.value"
    return _columns(connection, query, (array(keys),), 1)[0] if len(keys) else keys


def _relations(connection: apsw.Connection, chunks: Keys) -> tuple[Keys, Keys, NDArray[np.float64]]:
    """Return the stored relations that the chunks mention, the keys of their ends, and their weights."""
    query = """SELECT relation_key, weight FROM carray(?) AS wanted
               CROSS JOIN relation_mention INDEXED BY relation_mention_by_chunk ON chunk_key = wanted.value"""
    return _weighed(connection, fetch(connection, query, (array(chunks),)) if len(chunks) else [])


def _weighed(connection: apsw.Connection, rows: Sequence[Row]) -> tuple[Keys, Keys, NDArray[np.float64]]:
    """Return stored relations, the keys of their ends, and their weights, given keys and weights of mentions."""
    if not rows:
        return np.empty(0, np.int64), np.empty((0, 2), np.int64), np.empty(0, np.float64)
    mentioned, places = np.unique(np.array([key for key, _ in rows], np.int64), return_inverse=True)
    millionths = np.rint(np.array([weight for _, weight in rows], np.float64) * MILLION)
    weights = np.bincount(places, millionths) / MILLION
    query = """SELECT key, source_key, target_key FROM carray(?) AS wanted
               CROSS JOIN relation ON key = wanted.value"""
    keys, sources, targets = _columns(connection, query, (array(mentioned),), 3)
    return keys, np.stack((sources, targets), axis=1), weights[np.searchsorted(mentioned, keys)]


def _columns(connection: apsw.Connection, query: str, values: tuple[object, ...], count: int) -> list[Keys]:
    """Return the columns of a result, all integers."""
    rows = connection.execute(query, values).fetchall()
    table = np.array(rows, np.int64).reshape(len(rows), count)
    return [np.ascontiguousarray(table[:, column]) for column in range(count)]
