"""The scope of a filter on PostgreSQL: found by the server, read in one snapshot."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from collections.abc import Collection as Some
from dataclasses import dataclass
from itertools import starmap
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from heliograph.filters import Filter
from heliograph.models import EntityMention, RelationMention
from heliograph.stores.base import Fold, Hit
from heliograph.stores.changeset import Collection
from heliograph.stores.postgres.database import (
    ENTITY_MENTION,
    RELATION_MENTION,
    Database,
    Row,
    Session,
    Statement,
    to_json,
    to_relation_mention,
)
from heliograph.stores.postgres.records import PostgresRecordsStore, compile_chunk_filter, compile_filter
from heliograph.stores.postgres.search import PostgresTextStore, PostgresVectorStore
from heliograph.stores.view import (
    MILLION,
    KeySet,
    Kind,
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
_SAID = """SELECT mention.{kind}_id, min(allowed.seen),
    json_agg({mention} ORDER BY mention.rank, mention.chunk_id, mention.ordinal)
  FROM heliograph_{kind}_mention AS mention JOIN allowed ON allowed.id = mention.chunk_id
  WHERE mention.workspace = %s AND mention.{kind}_id = ANY (ARRAY(SELECT json_array_elements_text(%s)))
  GROUP BY mention.{kind}_id"""
_QUERIES: dict[_Mentioned, str] = {
    "entity": _SAID.format(kind="entity", mention=ENTITY_MENTION),
    "relation": _SAID.format(kind="relation", mention=RELATION_MENTION),
}


# A twin's chunks are stored with its original. They were read and are indexed under the original's title, so a twin
# with another title does not make them match.
_HOLDERS = """
WITH matching AS MATERIALIZED (
  SELECT document.id, floor(extract(epoch FROM document.created_at))::bigint AS seen,
    CASE WHEN document.twin_of = '' THEN document.id
         WHEN original.title = document.title AND document.status IN ('processed', 'partial') THEN original.id END
      AS holder
  FROM heliograph_document AS document
  LEFT JOIN heliograph_document AS original
    ON original.workspace = document.workspace AND original.id = document.twin_of AND document.twin_of <> ''
  WHERE document.workspace = %s AND {condition}
), holding AS MATERIALIZED (
  SELECT holder, min(seen) AS seen FROM matching WHERE holder IS NOT NULL GROUP BY holder
), allowed AS (
  SELECT chunk.id, holding.seen FROM holding
  JOIN lightrag_chunks AS chunk ON chunk.workspace = %s AND chunk.full_doc_id = holding.holder WHERE {chunks}
)"""
_IN_CHUNKS = "JOIN allowed ON allowed.id = mention.chunk_id"
_DOCUMENTS = "SELECT id, holder FROM matching ORDER BY id"
_CHUNKS = "SELECT id FROM allowed"
_MATCHING_ENTITIES = f"""SELECT entity.id FROM (
    SELECT DISTINCT mention.entity_id FROM heliograph_entity_mention AS mention {_IN_CHUNKS}
    WHERE mention.workspace = %s
  ) AS said JOIN heliograph_entity AS entity ON entity.workspace = %s AND entity.id = said.entity_id"""
_MATCHING_RELATIONS = f"""SELECT relation.id, relation.source_id, relation.target_id, said.millionths FROM (
    SELECT mention.relation_id, sum(round(mention.weight * {MILLION}))::bigint AS millionths
    FROM heliograph_relation_mention AS mention {_IN_CHUNKS} WHERE mention.workspace = %s GROUP BY mention.relation_id
  ) AS said JOIN heliograph_relation AS relation ON relation.workspace = %s AND relation.id = said.relation_id"""
_VERSION = "SELECT data_version FROM heliograph_workspace WHERE name = %s"
# Allowed ids that are passed to the server, which then searches only these; ten thousand vectors are compared one
# by one in some 20 ms. Beyond that, more hits are fetched than requested and the others are filtered out, four times as
# many in each round until there are enough.
_MOST_LISTED = 10_000
_LEAST_HITS = 64
_WIDENING = 4
_ALL = 2_000_000_000


@dataclass(slots=True, eq=False, kw_only=True)
class PostgresScope(Scope):
    """A scope whose keys are places among the ids of a kind, which ascend; `places` are keys by id, per kind."""

    ids: Mapping[str, Sequence[str]]
    places: Mapping[str, Mapping[str, int]]

    def has_any(self, kind: Kind, ids: Iterable[str], keys: Mapping[str, int]) -> bool:  # noqa: ARG002
        return not self.places[kind].keys().isdisjoint(ids)


@dataclass(frozen=True)
class PostgresReader(ScopedReader):
    """Reads under one filter."""

    database: Database
    embedding: tuple[str, int]
    scopes: ScopeMemory[PostgresScope]
    filter: Filter
    fold: Fold

    async def read(self, work: Callable[[ScopedReading], Coroutine[Any, Any, T]]) -> T:

        async def run(session: Session) -> T:
            (((version,),),) = await session.begin_snapshot(Statement(_VERSION, (session.workspace,)))
            make = self.scopes.get(self.filter, self.fold, version, lambda: _make_scope(session, self.filter, version))
            records = PostgresRecordsStore(session)
            vectors = PostgresVectorStore(session, self.embedding)
            text = PostgresTextStore(session)
            return await work(PostgresReading(await make, self.fold, records, vectors, text, session, self.filter))

        return await self.database.run(run)


@dataclass(frozen=True, slots=True)
class PostgresReading(ScopedReading):
    """One snapshot; the server selects mentions, in canonical order, by the same condition that made the scope."""

    scope: PostgresScope
    vectors: PostgresVectorStore
    text: PostgresTextStore
    session: Session
    filter: Filter

    async def find_keys(self, kind: Kind | Collection, ids: Iterable[str]) -> dict[str, int]:
        places = self.scope.places[kind]
        return {id_: places[id_] for id_ in ids if id_ in places}

    async def find_ids(self, kind: Kind | Collection, keys: Some[int]) -> Mapping[int, str]:
        ids = self.scope.ids[kind]
        return {key: ids[key] for key in keys}

    async def read_entity_mentions(self, keys: Sequence[int]) -> Mapping[int, ScopedMentions[EntityMention]]:
        rows = await self._said("entity", "entities", keys)
        return {key: ScopedMentions(moment, list(starmap(EntityMention, said))) for key, moment, said in rows}

    async def read_relation_mentions(self, keys: Sequence[int]) -> Mapping[int, ScopedMentions[RelationMention]]:
        rows = await self._said("relation", "relations", keys)
        return {key: ScopedMentions(moment, list(starmap(to_relation_mention, said))) for key, moment, said in rows}

    async def find_nearest(
        self, collection: Collection, vector: NDArray[np.float32], limit: int, min_cosine: float
    ) -> list[Hit]:
        allowed = self.scope.ids[collection]

        async def find(count: int, among: Sequence[str] | None = None) -> list[Hit]:
            return await self.vectors.find_nearest(collection, vector, count, min_cosine, among)

        if limit < 1 or not allowed:
            return []
        return await (find(limit, allowed) if len(allowed) <= _MOST_LISTED else self._enough(find, collection, limit))

    async def find_texts(self, collection: Collection, terms: Sequence[str], limit: int) -> list[Hit]:

        async def find(count: int) -> list[Hit]:
            return await self.text.search(collection, terms, count)

        return await self._enough(find, collection, limit) if self.scope.ids[collection] else []

    async def find_phrases(
        self, collection: Collection, phrases: Sequence[Sequence[str]], most: int | None = None
    ) -> list[list[int]]:
        stored = await self.text.find_phrases(collection, phrases, _ALL)
        return [list((await self.find_keys(collection, ids)).values())[:most] for ids in stored]

    async def _said(self, kind: _Mentioned, plural: Kind, keys: Sequence[int]) -> list[Row]:
        """Return, per item, its key, when its first document was first seen, and its mentions in canonical order."""
        if not keys:
            return []
        workspace, ids = self.session.workspace, await self.find_ids(plural, keys)
        statement = _within(workspace, self.filter, _QUERIES[kind], workspace, to_json(ids.values()))
        rows = await self.session.fetch(statement.query, statement.values, is_planned_anew=True)
        return [(self.scope.places[plural][id_], *said) for id_, *said in rows]

    async def _enough(
        self, find: Callable[[int], Awaitable[list[Hit]]], collection: Collection, limit: int
    ) -> list[Hit]:
        """Return the best hits within the scope: `limit` of them if there are as many."""
        places, count = self.scope.places[collection], max(limit * _WIDENING, _LEAST_HITS)
        while True:
            hits = await find(count)
            kept = [hit for hit in hits if hit.id in places]
            if len(kept) >= limit or len(hits) < count:
                return kept[:limit]
            count *= _WIDENING


def _within(workspace: str, filter_: Filter, query: str, *values: Any) -> Statement:
    """Return a statement that may read `matching`, the documents, and `allowed`, their chunks within the filter."""
    condition, arguments = compile_filter(filter_)
    chunks, of_chunks = compile_chunk_filter(filter_)
    common = _HOLDERS.format(condition=condition, chunks=chunks)
    given = (workspace, *arguments, workspace, *of_chunks, *values)
    return Statement(f"{common} {query}", given, is_planned_anew=True)


async def _make_scope(session: Session, filter_: Filter, version: int) -> PostgresScope:
    workspace = session.workspace
    documents, chunks, entities, relations = await session.run(
        _within(workspace, filter_, _DOCUMENTS),
        _within(workspace, filter_, _CHUNKS),
        _within(workspace, filter_, _MATCHING_ENTITIES, workspace, workspace),
        _within(workspace, filter_, _MATCHING_RELATIONS, workspace, workspace),
    )
    there = {id_: place for place, id_ in enumerate(sorted(id_ for (id_,) in entities))}
    whole = sorted(row for row in relations if row[1] in there and row[2] in there)
    ids = {
        "documents": [id_ for id_, _ in documents],
        "chunks": sorted(id_ for (id_,) in chunks),
        "entities": list(there),
        "relations": [row[0] for row in whole],
    }
    sets = {kind: KeySet(np.arange(len(found), dtype=np.int64)) for kind, found in ids.items()}
    ends = np.array([(there[row[1]], there[row[2]]) for row in whole], np.int64).reshape(-1, 2)
    weights = np.array([row[3] / MILLION for row in whole], np.float64)
    return PostgresScope(
        version=version,
        documents=sets["documents"],
        shown_as=find_shown((id_, holder) for id_, holder in documents),
        chunks=sets["chunks"],
        entities=sets["entities"],
        **scoped_relations(sets["entities"], sets["relations"].keys, ends, weights),
        ids=ids,
        places={kind: {id_: place for place, id_ in enumerate(found)} for kind, found in ids.items()},
    )
