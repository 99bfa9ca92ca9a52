"""Searches in what a filter leaves on PostgreSQL.

A few allowed ids are handed to the server, which then looks at nothing else. Of many, more hits are taken than asked
for and the others passed over, doubling until there are enough.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from heliograph.stores.base import Hit, TextStore, VectorStore
from heliograph.stores.changeset import Collection
from heliograph.stores.postgres.scoped import PostgresReader
from heliograph.stores.postgres.scoped_evidence import PostgresReading
from heliograph.stores.postgres.text import find_phrases, search_terms
from heliograph.stores.postgres.vectors import nearest_statement, stored_statement, to_hits, to_vectors

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
