"""Vectors in the embedded store: exact float32 in the database, found through the accelerator.

A search takes four times as many candidates as asked for from the 4-bit index and scores exactly those that may be
among the best: how far estimates are off is seen on the first ones, and what is estimated worse than the last hit by
more than twice that is not read (`stores.candidates`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import apsw
import numpy as np
from numpy.typing import NDArray

from heliograph.stores.base import Hit, VectorStore
from heliograph.stores.candidates import Candidates, cosines, count_candidates, count_first, late_candidates
from heliograph.stores.changeset import Changeset, Collection
from heliograph.stores.key_sets import KeySet
from heliograph.stores.sqlite.accelerator import VectorAccelerator, log_changes
from heliograph.stores.sqlite.database import Database, Row, Snapshot, array, fetch
from heliograph.stores.sqlite.identity import IdMemory, KnownIds


class SqliteVectorStore(VectorStore):
    """One table and one accelerator per collection."""

    def __init__(
        self, database: Database | Snapshot, accelerators: Mapping[Collection, VectorAccelerator], ids: IdMemory
    ) -> None:
        self._database = database
        self._ids = ids
        self._accelerators = accelerators

    async def search(
        self, collection: Collection, vector: NDArray[np.float32], limit: int, min_score: float
    ) -> list[Hit]:
        vector = np.ascontiguousarray(vector, np.float32)
        accelerator = self._accelerators[collection]

        def find(connection: apsw.Connection) -> list[Hit]:
            known = self._ids.at(connection)
            return find_nearest(connection, known, accelerator, collection, vector, limit, min_score)

        return await self._database.read(find)

    async def get_vectors(self, collection: Collection, ids: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        accelerator = self._accelerators[collection]
        return await self._database.read(
            lambda connection: read_vectors(connection, self._ids.at(connection), accelerator, collection, ids)
        )


def find_nearest(
    connection: apsw.Connection,
    known: KnownIds,
    accelerator: VectorAccelerator,
    collection: Collection,
    vector: NDArray[np.float32],
    limit: int,
    min_score: float,
    allowed: KeySet | None = None,
) -> list[Hit]:
    """Return the nearest ids, of all or of the keys that are allowed, as `VectorStore.search` does."""
    candidates = accelerator.search(connection, vector, count_candidates(limit), allowed)
    keys, scores = _score(connection, collection, candidates, vector, limit)
    least = max(min_score, np.partition(scores, -limit)[-limit] if 0 < limit < len(scores) else -np.inf)
    best = np.flatnonzero(scores >= least)
    found: list[int] = keys[best].tolist()
    ids = known.find_ids(connection, found)
    hits = [Hit(ids[key], score) for key, score in zip(found, scores[best].tolist(), strict=True)]
    return sorted(hits, key=lambda hit: (-hit.score, hit.id))[:limit]


def read_vectors(
    connection: apsw.Connection,
    known: KnownIds,
    accelerator: VectorAccelerator,
    collection: Collection,
    ids: Sequence[str],
) -> dict[str, NDArray[np.float32]]:
    """Return the stored vectors, exact, per id.

    Raises:
        SchemaMismatch: They are of another embedding than the store was opened with.
    """
    if not ids:
        return {}
    # A question that began before the switch to another embedding must not be compared with vectors made after it.
    accelerator.check_embedding(connection)
    keys = known.find_keys(connection, ids)
    by_key = {keys[id_]: id_ for id_ in ids if id_ in keys}
    rows = _stored(connection, collection, list(by_key)) if by_key else []
    if not rows:
        return {}
    matrix = np.frombuffer(b"".join([vector for _, vector in rows]), np.float32).reshape(len(rows), -1)
    return dict(zip([by_key[key] for key, _ in rows], matrix, strict=True))


def _stored(connection: apsw.Connection, collection: Collection, keys: Sequence[int] | NDArray[np.int64]) -> list[Row]:
    """Return keys and vectors of those of the keys, at least one, that are stored, in order."""
    query = f"""SELECT stored.key, stored.vector FROM carray(?) AS wanted
                CROSS JOIN {collection.value}_vector AS stored ON stored.key = wanted.value"""
    return fetch(connection, query, (array(keys),))


def _score(
    connection: apsw.Connection, collection: Collection, candidates: Candidates, vector: NDArray[np.float32], limit: int
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return the keys of the candidates that may be among the best `limit`, as far as stored, and their scores."""
    keys, scores = _exact_scores(connection, collection, candidates.keys[: count_first(limit)], vector)
    late = late_candidates(candidates, keys, scores, limit)
    late_keys, late_scores = _exact_scores(connection, collection, late, vector)
    return np.concatenate((keys, late_keys)), np.concatenate((scores, late_scores))


def _exact_scores(
    connection: apsw.Connection, collection: Collection, keys: NDArray[np.int64], vector: NDArray[np.float32]
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return those of the keys that are stored, ascending, and their scores."""
    if not len(keys):
        return keys, np.empty(0, np.float32)
    rows = _stored(connection, collection, np.sort(keys))
    matrix = np.frombuffer(b"".join([stored for _, stored in rows]), np.float32).reshape(len(rows), len(vector))
    return np.array([key for key, _ in rows], np.int64), cosines(matrix, vector)


def write_vectors(connection: apsw.Connection, changeset: Changeset, keys: Mapping[str, int], version: int) -> None:
    """Apply the vector part of a changeset."""
    removed = {
        Collection.CHUNKS: changeset.removed_chunks,
        Collection.ENTITIES: changeset.removed_entities,
        Collection.RELATIONS: changeset.removed_relations,
    }
    for collection in Collection:
        table = f"{collection.value}_vector"
        gone = [keys[id_] for id_ in removed[collection] if id_ in keys]
        connection.executemany(f"DELETE FROM {table} WHERE key = ?", ((key,) for key in gone))
        batch = changeset.vectors.get(collection)
        put = [keys[id_] for id_ in batch.ids] if batch else []
        if batch:
            matrix = np.ascontiguousarray(batch.vectors, np.float32)
            rows = ((key, row.tobytes()) for key, row in zip(put, matrix, strict=True))
            connection.executemany(f"INSERT OR REPLACE INTO {table} VALUES (?, ?)", rows)
        if changed := sorted({*gone, *put}):
            # What another embedding made of them, if one is on its way in, is out of date.
            query = f"DELETE FROM next_{table} WHERE key = ?"
            connection.executemany(query, ((key,) for key in changed))
            log_changes(connection, collection.value, version, changed)
