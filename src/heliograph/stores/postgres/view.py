"""What a filter leaves of a workspace on PostgreSQL: found by the server, read in one snapshot."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from heliograph.filters import And, Filter
from heliograph.models import Chunk, Document, EntityEvidence, Extraction, RelationEvidence
from heliograph.stores.base import (
    DocumentPage,
    DocumentQuery,
    Fold,
    Hit,
    RecordsStore,
    StoreView,
    TextStore,
    VectorStore,
)
from heliograph.stores.changeset import Collection
from heliograph.stores.postgres.database import Database, Row, Session
from heliograph.stores.postgres.records import (
    CHUNKS_BY_DOCUMENT,
    CHUNKS_BY_ID,
    DOCUMENTS_BY_ID,
    EXTRACTIONS,
    TEXT_BY_DOCUMENT,
    grouped,
    page_statements,
    to_extraction,
    to_page,
)
from heliograph.stores.postgres.rows import (
    ENTITY_MENTION,
    RELATION_MENTION,
    WANTED,
    to_chunk,
    to_document,
    to_entity_mention,
    to_json,
    to_relation_mention,
)
from heliograph.stores.postgres.scope import begin_scope, within_holders
from heliograph.stores.postgres.text import find_phrases, search_terms
from heliograph.stores.postgres.vectors import nearest_statement, stored_statement, to_hits, to_vectors
from heliograph.stores.scoped import EntitySaid, RelationSaid, Scope, ScopedGraphStore, ScopedReading, ScopeMemory

# How the roles of a view read: in one snapshot, together with what the filter leaves at that moment.

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PostgresReader:
    """Reads under one filter; what is done with it stays as exact as its latest read."""

    database: Database
    scopes: ScopeMemory[Scope]
    filter: Filter
    fold: Fold

    async def read(self, work: Callable[[PostgresReading], Awaitable[T]]) -> T:
        """Run `work` on a snapshot and the scope of the same moment."""

        async def run(session: Session) -> T:
            scope = await begin_scope(session, self.scopes, self.filter, self.fold)
            return await work(PostgresReading(scope, self.fold, session, self.filter))

        return await self.database.read(run)


# What is said of entities and relations in what a `Scope` leaves of a workspace on PostgreSQL.
#
# The server picks the mentions, in canonical order, by the same condition that made the scope.

_Kind = Literal["entity", "relation"]
_SAID = """SELECT mention.{kind}_id, min(holding.seen),
    json_agg({mention} ORDER BY mention.rank, mention.chunk_id, mention.ordinal)
  FROM heliograph_{kind}_mention AS mention
  JOIN lightrag_chunks AS chunk ON chunk.workspace = mention.workspace AND chunk.id = mention.chunk_id
  JOIN holding ON holding.holder = chunk.full_doc_id
  WHERE mention.workspace = %s AND mention.{kind}_id = ANY (ARRAY(SELECT json_array_elements_text(%s)))
  GROUP BY mention.{kind}_id"""
_QUERIES: dict[_Kind, str] = {
    "entity": _SAID.format(kind="entity", mention=ENTITY_MENTION),
    "relation": _SAID.format(kind="relation", mention=RELATION_MENTION),
}


@dataclass(frozen=True, slots=True)
class PostgresReading(ScopedReading):
    """One snapshot, what a filter leaves of it, and how it is folded."""

    session: Session
    filter: Filter

    async def read_entity_mentions(self, ids: Sequence[str]) -> dict[str, EntitySaid]:
        rows = await self._said("entity", ids)
        return {id_: (moment, list(map(to_entity_mention, said))) for id_, moment, said in rows}

    async def read_relation_mentions(self, ids: Sequence[str]) -> dict[str, RelationSaid]:
        rows = await self._said("relation", ids)
        return {id_: (moment, list(map(to_relation_mention, said))) for id_, moment, said in rows}

    async def _said(self, kind: _Kind, ids: Sequence[str]) -> list[tuple[Any, ...]]:
        """Return, per thing, the moment its first document was first seen, and its mentions in canonical order."""
        if not ids:
            return []
        workspace = self.session.workspace
        statement = within_holders(workspace, self.filter, _QUERIES[kind], workspace, to_json(ids))
        return await self.session.fetch(statement.query, statement.values, is_planned_anew=True)


# Searches in what a filter leaves on PostgreSQL.
#
# A few allowed ids are handed to the server, which then looks at nothing else. Of many, more hits are taken than
# asked for and the others passed over, doubling until there are enough.

# Allowed ids handed over; ten thousand vectors are compared one by one in some 20 ms.
_MOST_LISTED = 10_000
_LEAST_HITS = 64
_WIDENING = 4
_ALL = 2_000_000_000


class ScopedVectorStore(VectorStore):
    """Vectors of what is left; those of entities and relations are of all that is said of them, and only order hits."""

    def __init__(self, reader: PostgresReader, embedding: tuple[str, int]) -> None:
        self._reader = reader
        self._embedding = embedding

    async def search(
        self, collection: Collection, vector: NDArray[np.float32], limit: int, min_score: float
    ) -> list[Hit]:
        if limit < 1:
            return []

        async def read(reading: PostgresReading) -> list[Hit]:
            allowed = reading.scope.ids_of(collection)

            async def find(count: int, among: Sequence[str] | None) -> list[Hit]:
                statement = nearest_statement(reading.session.workspace, collection, vector, count, min_score, among)
                rows = await reading.session.fetch(statement.query, statement.values, is_planned_anew=True)
                return to_hits(rows, self._embedding)

            if not allowed:
                return []
            if len(allowed) <= _MOST_LISTED:
                return await find(limit, list(allowed))

            async def keep(hits: list[Hit]) -> list[Hit]:
                return [hit for hit in hits if hit.id in allowed]

            return await _enough(lambda count: find(count, None), keep, limit)

        return await self._reader.read(read)

    async def get_vectors(self, collection: Collection, ids: Sequence[str]) -> dict[str, NDArray[np.float32]]:

        async def read(reading: PostgresReading) -> dict[str, NDArray[np.float32]]:
            allowed = reading.scope.ids_of(collection)
            wanted = [id_ for id_ in ids if id_ in allowed]
            if not wanted:
                return {}
            statement = stored_statement(reading.session.workspace, collection, wanted)
            return to_vectors(await reading.session.fetch(statement.query, statement.values), self._embedding)

        return await self._reader.read(read)


class ScopedTextStore(TextStore):
    """Full text of what is left; an entity is found by the names that matching documents give it and by no other."""

    def __init__(self, reader: PostgresReader) -> None:
        self._reader = reader

    async def search(self, collection: Collection, terms: Sequence[str], limit: int) -> list[Hit]:
        if limit < 1:
            return []
        asked = set(terms)

        async def read(reading: PostgresReading) -> list[Hit]:
            allowed = reading.scope.ids_of(collection)

            async def find(count: int) -> list[Hit]:
                return await search_terms(reading.session.fetch, reading.session.workspace, collection, terms, count)

            async def keep(hits: list[Hit]) -> list[Hit]:
                left = [hit for hit in hits if hit.id in allowed]
                if collection is not Collection.ENTITIES:
                    return left
                called = await _called(reading, [hit.id for hit in left], lambda names: not asked.isdisjoint(names))
                return [hit for hit in left if hit.id in called]

            return await _enough(find, keep, limit) if allowed else []

        return await self._reader.read(read)

    async def find_phrases(
        self, collection: Collection, phrases: Sequence[Sequence[str]], limit: int
    ) -> list[list[str]]:
        """See `TextStore`; entities are found by the names that are left."""
        if limit < 1:
            return [[] for _ in phrases]

        async def read(reading: PostgresReading) -> list[list[str]]:
            allowed, session = reading.scope.ids_of(collection), reading.session
            stored = await find_phrases(session.fetch, session.workspace, collection, phrases, _ALL)
            left = [[id_ for id_ in ids if id_ in allowed] for ids in stored]
            if collection is Collection.ENTITIES:
                left = [
                    await _first_called(reading, ids, phrase, limit) for ids, phrase in zip(left, phrases, strict=True)
                ]
            return [ids[:limit] for ids in left]

        return await self._reader.read(read)


async def _enough(
    find: Callable[[int], Awaitable[list[Hit]]], keep: Callable[[list[Hit]], Awaitable[list[Hit]]], limit: int
) -> list[Hit]:
    """Return the best hits that are kept: `limit` of them if there are as many."""
    count = max(limit * _WIDENING, _LEAST_HITS)
    while True:
        hits = await find(count)
        kept = await keep(hits)
        if len(kept) >= limit or len(hits) < count:
            return kept[:limit]
        count *= _WIDENING


async def _first_called(reading: PostgresReading, ids: Sequence[str], phrase: Sequence[str], limit: int) -> list[str]:
    """Return those of the entities, at least `limit` if there are, whose names in the scope hold a phrase."""
    wanted = f" {' '.join(phrase)} "
    found: list[str] = []
    for start in range(0, len(ids), limit):
        page = ids[start : start + limit]
        called = await _called(reading, page, lambda names: wanted in f" {' '.join(names)} ")
        found += [id_ for id_ in page if id_ in called]
        if len(found) >= limit:
            break
    return found


async def _called(reading: PostgresReading, ids: Sequence[str], fits: Callable[[Sequence[str]], bool]) -> set[str]:
    """Return those of the entities whose terms in the scope fit."""
    entities = await reading.fold_entities(ids)
    return {id_ for id_, entity in entities.items() if fits(reading.fold.name_terms(entity))}


_SOURCES = f"""SELECT wanted.id, document.source FROM {WANTED}
  JOIN heliograph_document AS document ON document.workspace = %s AND document.id = wanted.id ORDER BY wanted.place"""
_TWINS = f"""SELECT wanted.id, chunk.full_doc_id, twin.id, twin.source FROM {WANTED}
  JOIN lightrag_chunks AS chunk ON chunk.workspace = %s AND chunk.id = wanted.id
  JOIN heliograph_document AS twin ON twin.workspace = chunk.workspace AND twin.twin_of = chunk.full_doc_id
   AND twin.twin_of <> '' AND twin.status IN ('processed', 'partial') ORDER BY wanted.place, twin.id"""


class PostgresView(StoreView):
    """A workspace under one filter."""

    def __init__(self, reader: PostgresReader, embedding: tuple[str, int]) -> None:
        self.records = ScopedRecordsStore(reader)
        self.graph = ScopedGraphStore(reader)
        self.vectors = ScopedVectorStore(reader, embedding)
        self.text = ScopedTextStore(reader)


class ScopedRecordsStore(RecordsStore):
    """Matching documents and what they say."""

    def __init__(self, reader: PostgresReader) -> None:
        self._reader = reader

    async def get_documents(self, ids: Sequence[str]) -> list[Document]:

        async def read(reading: PostgresReading) -> list[Document]:
            rows = await _fetch(reading, DOCUMENTS_BY_ID, [id_ for id_ in ids if id_ in reading.scope.documents])
            return _as_left(reading.scope, [to_document(row) for row in rows])

        return await self._reader.read(read)

    async def find_documents(self, query: DocumentQuery) -> DocumentPage:
        both = And((self._reader.filter, query.filter)) if query.filter else self._reader.filter
        narrow = replace(query, filter=both)

        async def read(reading: PostgresReading) -> DocumentPage:
            page = to_page(*await reading.session.run(*page_statements(reading.session.workspace, narrow)))
            return replace(page, documents=tuple(_as_left(reading.scope, page.documents)))

        return await self._reader.read(read)

    async def get_document_text(self, document_id: str) -> str | None:

        async def read(reading: PostgresReading) -> str | None:
            if document_id not in reading.scope.documents:
                return None
            return await reading.session.fetch_value(TEXT_BY_DOCUMENT, (reading.session.workspace, document_id))

        return await self._reader.read(read)

    async def get_chunks(self, ids: Sequence[str]) -> list[Chunk]:

        async def read(reading: PostgresReading) -> list[Chunk]:
            return _owned(reading.scope, await _fetch(reading, CHUNKS_BY_ID, _allowed(reading.scope, ids)))

        return await self._reader.read(read)

    async def get_document_chunks(self, document_id: str) -> list[Chunk]:

        async def read(reading: PostgresReading) -> list[Chunk]:
            if document_id not in reading.scope.documents:
                return []
            held_by = {shown: holder for holder, shown in reading.scope.owners.items()}
            values = reading.session.workspace, held_by.get(document_id, document_id)
            return _owned(reading.scope, await reading.session.fetch(CHUNKS_BY_DOCUMENT, values))

        return await self._reader.read(read)

    async def get_sources(self, chunk_ids: Sequence[str]) -> dict[str, str]:

        async def read(reading: PostgresReading) -> dict[str, str]:
            scope = reading.scope
            shown = {id_: scope.owners.get(scope.chunks[id_], scope.chunks[id_]) for id_ in _allowed(scope, chunk_ids)}
            sources = dict(await _fetch(reading, _SOURCES, list(dict.fromkeys(shown.values()))))
            return {id_: sources[owner] for id_, owner in shown.items() if owner in sources}

        return await self._reader.read(read)

    async def get_twin_sources(self, chunk_ids: Sequence[str]) -> dict[str, tuple[str, ...]]:

        async def read(reading: PostgresReading) -> dict[str, tuple[str, ...]]:
            scope = reading.scope
            rows = await _fetch(reading, _TWINS, _allowed(scope, chunk_ids))
            return grouped(
                [
                    (id_, source)
                    for id_, holder, twin, source in rows
                    if twin in scope.documents and scope.owners.get(holder) != twin
                ]
            )

        return await self._reader.read(read)

    async def get_extractions(self, chunk_ids: Sequence[str]) -> list[Extraction]:

        async def read(reading: PostgresReading) -> list[Extraction]:
            return [
                to_extraction(row) for row in await _fetch(reading, EXTRACTIONS, _allowed(reading.scope, chunk_ids))
            ]

        return await self._reader.read(read)

    async def get_evidence(
        self, entity_ids: Sequence[str], relation_ids: Sequence[str], leading: int
    ) -> tuple[list[EntityEvidence], list[RelationEvidence]]:
        """See `RecordsStore`; the evidence of a view is counted when it is asked for, and bears the data version."""

        async def read(reading: PostgresReading) -> tuple[list[EntityEvidence], list[RelationEvidence]]:
            return (
                await reading.read_entity_evidence(entity_ids, leading),
                await reading.read_relation_evidence(relation_ids, leading),
            )

        return await self._reader.read(read)


async def _fetch(reading: PostgresReading, query: str, ids: Sequence[str]) -> list[Row]:
    return await reading.session.fetch(query, (to_json(ids), reading.session.workspace)) if ids else []


def _allowed(scope: Scope, chunk_ids: Sequence[str]) -> list[str]:
    return [id_ for id_ in chunk_ids if id_ in scope.chunks]


def _owned(scope: Scope, rows: Sequence[Row]) -> list[Chunk]:
    """Return chunks under the documents that have them in the scope."""
    chunks = map(to_chunk, rows)
    return [replace(item, document_id=scope.owners.get(item.document_id, item.document_id)) for item in chunks]


def _as_left(scope: Scope, documents: Sequence[Document]) -> list[Document]:
    """Return documents as they would be without those that do not match: a twin may be the original then."""
    left: list[Document] = []
    for document in documents:
        original = document.twin_of
        if original and original not in scope.documents:
            shown = scope.owners.get(original, "")
            original = "" if shown == document.id else shown
        left.append(replace(document, twin_of=original))
    return left
