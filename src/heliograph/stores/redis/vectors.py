"""Vectors in Redis: exact float32 by id, and in which commit each id last changed.

A search takes candidates from the index in memory (`vector_index`) and ranks them by their exact vectors, in one or
two round trips.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from heliograph.stores.base import Hit, VectorStore
from heliograph.stores.candidates import Candidates, count_candidates, count_first, late_candidates
from heliograph.stores.changeset import Changeset, Collection, VectorBatch
from heliograph.stores.key_sets import KeySet
from heliograph.stores.redis.changes import note_changes
from heliograph.stores.redis.keys import Keys
from heliograph.stores.redis.session import Command, Session
from heliograph.stores.redis.vector_index import VECTOR_SCANS, KnownVectors, VectorIndex

__all__ = ["Allowed", "RedisVectorStore", "vector_commands"]

# Says which of the vectors known may be found.
Allowed = Callable[[KnownVectors], KeySet]

# Ids in one command, so that none keeps Redis busy for long.
_MOST_IDS = 500


class RedisVectorStore(VectorStore):
    """One hash and one index in memory per collection.

    Args:
        session: Reads from Redis.
        embedding: Name and dimension of what vectors are made with.
    """

    def __init__(self, session: Session, embedding: tuple[str, int]) -> None:
        self._indexes = {item: VectorIndex(session, item, embedding) for item in Collection}

    async def search(
        self, collection: Collection, vector: NDArray[np.float32], limit: int, min_score: float
    ) -> list[Hit]:
        """See `VectorStore`."""
        return await self.search_among(collection, vector, limit, min_score)

    async def search_among(
        self,
        collection: Collection,
        vector: NDArray[np.float32],
        limit: int,
        min_score: float,
        allowed: Allowed | None = None,
    ) -> list[Hit]:
        """Return what `search` does, of some vectors only if `allowed` is given."""
        if limit < 1:
            return []
        vector = np.ascontiguousarray(vector, np.float32)
        index = self._indexes[collection]

        def find(known: KnownVectors) -> Candidates:
            return known.find(vector, count_candidates(limit), allowed(known) if allowed else None)

        # What is allowed is remembered for all that is known, so nothing may be missing then.
        found = await index.search(find, count_first(limit), is_eager=allowed is None)
        known, keys, scores = found.known, found.keys, _cosines(found.vectors, vector)
        late = await _score(index, known, late_candidates(found.candidates, keys, scores, limit), vector)
        hits = _hits(known, *late, min_score) + _hits(known, keys, scores, min_score)
        return sorted(hits, key=lambda hit: (-hit.score, hit.id))[:limit]

    async def get_vectors(self, collection: Collection, ids: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        """See `VectorStore`."""
        if not ids:
            return {}
        found, vectors = await self._indexes[collection].read([id_.encode() for id_ in dict.fromkeys(ids)])
        return dict(zip([id_.decode() for id_ in found], vectors, strict=True))


async def _score(
    index: VectorIndex, known: KnownVectors, keys: NDArray[np.int64], vector: NDArray[np.float32]
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return those of the keys that have a vector, and their cosines."""
    if not len(keys):
        return keys, np.empty(0, np.float32)
    found, vectors = await index.read(known.ids_of(keys.tolist()))
    return known.keys_of(found), _cosines(vectors, vector)


def _cosines(vectors: NDArray[np.float32], vector: NDArray[np.float32]) -> NDArray[np.float32]:
    # Equal rows have equal products this way, which a product of matrices does not give.
    return (vectors * vector).sum(axis=1)


def _hits(known: KnownVectors, keys: NDArray[np.int64], scores: NDArray[np.float32], min_score: float) -> list[Hit]:
    ids = known.ids_of(keys.tolist())
    return [Hit(id_.decode(), score) for id_, score in zip(ids, scores.tolist(), strict=True) if score >= min_score]


async def vector_commands(session: Session, changeset: Changeset, version: int) -> list[Command]:
    """Return what applies the vector part of a changeset."""
    removed: Mapping[Collection, Sequence[str]] = {
        Collection.CHUNKS: changeset.removed_chunks,
        Collection.ENTITIES: changeset.removed_entities,
        Collection.RELATIONS: changeset.removed_relations,
    }
    commands: list[Command] = []
    for collection in Collection:
        batch = changeset.vectors.get(collection)
        keys = _CollectionKeys(session.keys, collection)
        if gone := list(removed[collection]):
            commands += keys.remove(gone)
        if batch is not None and batch.ids:
            commands += keys.put(batch)
        if changed := sorted({*gone, *(batch.ids if batch is not None else ())}):
            commands += keys.note(changed, version)
    return commands


class _CollectionKeys:
    """Where vectors of one collection stand, and how they are written."""

    def __init__(self, keys: Keys, collection: Collection) -> None:
        self.vectors = keys.vectors(collection)
        self._changed = keys.changed_vectors(collection)
        self._ids = keys.ids(VECTOR_SCANS[collection])
        self._next = keys.next_vectors(collection)

    def remove(self, ids: Sequence[str]) -> list[Command]:
        """Return what removes vectors."""
        parts = _parts(ids)
        return [(name, key, *part) for part in parts for name, key in (("HDEL", self.vectors), ("ZREM", self._ids))]

    def put(self, batch: VectorBatch) -> list[Command]:
        """Return what upserts vectors."""
        rows = np.ascontiguousarray(batch.vectors, np.float32)
        commands: list[Command] = []
        for start in range(0, len(batch.ids), _MOST_IDS):
            ids = batch.ids[start : start + _MOST_IDS]
            pairs = zip(ids, rows[start : start + _MOST_IDS], strict=True)
            commands.append(("HSET", self.vectors, *(item for id_, row in pairs for item in (id_, row.tobytes()))))
            commands.append(("ZADD", self._ids, *(item for id_ in ids for item in (0, id_))))
        return commands

    def note(self, ids: Sequence[str], version: int) -> list[Command]:
        """Return what tells other processes of a change, and takes away what another embedding made of these ids."""
        commands: list[Command] = [("HDEL", self._next, *part) for part in _parts(ids)]
        return [*commands, *note_changes(self._changed, ids, version)]


def _parts(ids: Sequence[str]) -> list[Sequence[str]]:
    return [ids[start : start + _MOST_IDS] for start in range(0, len(ids), _MOST_IDS)]
