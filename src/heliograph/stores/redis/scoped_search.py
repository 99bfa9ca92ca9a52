"""Searches in what a filter leaves on Redis: of few allowed ids nothing else is looked at, of many the rest is left.

An entity is found by the names that matching documents give it and by no other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from heliograph.stores.base import Hit, TextStore, VectorStore
from heliograph.stores.changeset import Collection
from heliograph.stores.redis.scoped import RedisReader, RedisReading
from heliograph.stores.redis.text import RedisTextStore
from heliograph.stores.redis.text_rows import read_numbers
from heliograph.stores.redis.text_search import Keep, Narrowing
from heliograph.stores.redis.vectors import RedisVectorStore

__all__ = ["ScopedTextStore", "ScopedVectorStore"]

# Allowed ids whose rows are looked up.
_MOST_LISTED = 20_000
_Fits = Callable[[Sequence[str]], bool]


class ScopedVectorStore(VectorStore):
    """Vectors of what is left; those of entities and relations are of all that is said of them, and only order hits.

    Args:
        reader: Reads what the filter leaves.
        vectors: All vectors.
    """

    def __init__(self, reader: RedisReader, vectors: RedisVectorStore) -> None:
        self._reader = reader
        self._vectors = vectors

    async def search(
        self, collection: Collection, vector: NDArray[np.float32], limit: int, min_score: float
    ) -> list[Hit]:
        """See `VectorStore`."""

        async def read(reading: RedisReading) -> list[Hit]:
            scope = reading.scope
            if not scope.ids_of(collection):
                return []
            return await self._vectors.search_among(
                collection, vector, limit, min_score, lambda known: scope.allowed(collection, known)
            )

        return await self._reader.read(read) if limit > 0 else []

    async def get_vectors(self, collection: Collection, ids: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        """See `VectorStore`."""

        async def read(reading: RedisReading) -> dict[str, NDArray[np.float32]]:
            allowed = reading.scope.ids_of(collection)
            return await self._vectors.get_vectors(collection, [id_ for id_ in ids if id_ in allowed])

        return await self._reader.read(read)


class ScopedTextStore(TextStore):
    """Full text of what is left.

    Args:
        reader: Reads what the filter leaves.
        text: All full text.
    """

    def __init__(self, reader: RedisReader, text: RedisTextStore) -> None:
        self._reader = reader
        self._text = text

    async def search(self, collection: Collection, terms: Sequence[str], limit: int) -> list[Hit]:
        """See `TextStore`."""
        asked = set(terms)

        async def read(reading: RedisReading) -> list[Hit]:
            keep = _keep(reading, collection, lambda names: not asked.isdisjoint(names))
            return await self._text.search_among(collection, terms, limit, await _narrow(reading, collection, keep))

        return await self._reader.read(read) if limit > 0 else []

    async def find_phrases(
        self, collection: Collection, phrases: Sequence[Sequence[str]], limit: int
    ) -> list[list[str]]:
        """See `TextStore`; entities are found by the names that are left."""

        async def read(reading: RedisReading) -> list[list[str]]:
            found: list[list[str]] = []
            if collection is not Collection.ENTITIES:
                narrowing = await _narrow(reading, collection, _keep(reading, collection, lambda _: True))
                return await self._text.find_phrases_among(collection, phrases, limit, narrowing)
            for phrase in phrases:
                narrowing = await _narrow(reading, collection, _keep(reading, collection, _holding(phrase)))
                found += await self._text.find_phrases_among(collection, [phrase], limit, narrowing)
            return found

        return await self._reader.read(read) if limit > 0 else [[] for _ in phrases]


def _holding(phrase: Sequence[str]) -> _Fits:
    wanted = f" {' '.join(phrase)} "
    return lambda names: wanted in f" {' '.join(names)} "


def _keep(reading: RedisReading, collection: Collection, fits: _Fits) -> Keep:
    """Return what keeps of some ids those that are in the scope; of entities those whose names there fit."""

    async def keep(ids: list[str]) -> set[str]:
        if collection is not Collection.ENTITIES:
            return {id_ for id_ in ids if id_ in reading.scope.ids_of(collection)}
        entities = await reading.fold_entities(ids)
        return {id_ for id_, entity in entities.items() if fits(reading.fold.name_terms(entity))}

    return keep


async def _narrow(reading: RedisReading, collection: Collection, keep: Keep) -> Narrowing:
    """Return which rows to look at: if few are in the scope, these alone."""
    scope = reading.scope
    ids = scope.ids_of(collection)
    if len(ids) > _MOST_LISTED:
        return Narrowing(None, keep)
    if collection not in scope.numbers:
        scope.numbers[collection] = np.sort(await read_numbers(reading.session, collection, ids))
    return Narrowing(scope.numbers[collection], keep)
