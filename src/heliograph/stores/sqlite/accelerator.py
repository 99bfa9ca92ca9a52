"""A 4-bit index over the vectors of one collection, to find candidates; a projection that may be deleted any time.

It catches up with the database before every search by replaying the changes logged since the data version it stands
at. One file per collection saves the next process the work; the `accelerator` table says at
which version the file stands and which process wrote it, and only a process whose own index is that file's
continuation may append to it. A missing, damaged or foreign file is built again from the database.
"""

from __future__ import annotations

import logging
import secrets
import threading
from itertools import islice
from pathlib import Path

import apsw
import numpy as np
from numpy.typing import NDArray

from heliograph.stores.candidates import CandidateIndex, Candidates
from heliograph.stores.changeset import Collection
from heliograph.stores.key_sets import KeySet
from heliograph.stores.sqlite.embedding_check import check_embedding
from heliograph.stores.sqlite.sql import array, fetch, fetch_one, fetch_value

__all__ = ["Accelerator"]

_LOGGER = logging.getLogger(__name__)
_BATCH = 4096
# Changes older than this many commits are forgotten once the file holds them; who is further behind builds anew.
_KEPT_VERSIONS = 10_000
# Vectors that the file may lack before a process that never searched brings it up to date.
_DUE = 2048


class Accelerator:
    """Candidates for a collection's nearest vectors. All methods block; call them from a reading thread."""

    def __init__(self, folder: Path, collection: Collection, embedding: tuple[str, int]) -> None:
        self._path = folder / f"{collection.value}.turbovec"
        self._collection = collection
        self._embedding = embedding
        self._dimension = embedding[1]
        self._index: CandidateIndex | None = None
        self._version = 0
        self._writer = ""
        self._lock = threading.Lock()

    def search(
        self, connection: apsw.Connection, vector: NDArray[np.float32], limit: int, allowed: KeySet | None = None
    ) -> Candidates:
        """Return up to `limit` keys whose vectors are probably nearest.

        Args:
            connection: Reads what the index lacks.
            vector: `(dimension,)` float32 of length 1.
            limit: Keys at the most.
            allowed: Keys to choose from; None means all. Some of them may have no vector.
        """
        return self._catch_up(connection).search(vector, limit, allowed)

    def check_embedding(self, connection: apsw.Connection) -> None:
        """Raise `SchemaMismatch` if another process has embedded the store anew since it was opened."""
        check_embedding(connection, self._embedding)

    def lock_path(self) -> Path:
        """Return the lock file to hold from `claim` to `record`."""
        return self._path.with_suffix(".lock")

    def is_due(self, connection: apsw.Connection) -> bool:
        """Whether saving now is worth it: the file is far behind, or the index is in memory and a little behind."""
        query = "SELECT coalesce(sum(length(keys)), 0) / 8 FROM vector_change WHERE collection = ? AND version > ?"
        behind = fetch_value(connection, query, (self._collection.value, self._recorded(connection)[0]))
        return behind >= _DUE or (behind > 0 and self._index is not None)

    def claim(self, connection: apsw.Connection) -> bool:
        """Within a writing transaction, take over the file; return whether it continues this index.

        The claim is committed before the file is touched: whoever else had this file in memory will then write it
        anew instead of appending to it, even if this process dies in between.
        """
        version, writer = self._recorded(connection)
        continues = writer == self._writer
        self._writer = secrets.token_hex(8)
        row = (self._collection.value, version, self._writer)
        connection.execute("INSERT OR REPLACE INTO accelerator VALUES (?, ?, ?)", row)
        return continues

    def sync(self, connection: apsw.Connection, *, continues: bool) -> int:
        """Bring the file up to date and return the data version it then stands at."""
        index = self._catch_up(connection)
        with self._lock:
            if not continues:
                self._path.unlink(missing_ok=True)
            index.sync(self._path)
            return self._version

    def record(self, connection: apsw.Connection, version: int) -> None:
        """Within a writing transaction, note that the file stands at `version`."""
        row = (self._collection.value, version, self._writer)
        connection.execute("INSERT OR REPLACE INTO accelerator VALUES (?, ?, ?)", row)
        oldest = max(0, version - _KEPT_VERSIONS)
        query = "DELETE FROM vector_change WHERE collection = ? AND version <= ?"
        connection.execute(query, (self._collection.value, oldest))

    def compare(self, connection: apsw.Connection) -> tuple[int, int]:
        """Return how many stored vectors the index lacks, and how many it has that are not stored."""
        index = self._catch_up(connection)
        rows = connection.execute(f"SELECT key FROM {self._collection.value}_vector")
        found = stored = 0
        for (key,) in rows:
            stored += 1
            found += key in index
        return stored - found, len(index) - found

    def forget(self, connection: apsw.Connection) -> None:
        """Within a writing transaction, have every process build the index anew when it is next opened."""
        row = (self._collection.value, 0, secrets.token_hex(8))
        connection.execute("INSERT OR REPLACE INTO accelerator VALUES (?, ?, ?)", row)
        with self._lock:
            self._index = None

    def _catch_up(self, connection: apsw.Connection) -> CandidateIndex:
        current = int(fetch_value(connection, "SELECT value FROM meta WHERE name = 'data_version'"))
        with self._lock:
            if self._index is None or current - self._version > _KEPT_VERSIONS:
                self._index = self._load(connection, current)
            if self._version < current:
                check_embedding(connection, self._embedding)
                self._replay(connection, self._index)
                self._version = current
            return self._index

    def _load(self, connection: apsw.Connection, current: int) -> CandidateIndex:
        version, writer = self._recorded(connection)
        self._version, self._writer = 0, ""
        # A claim without a version: whoever wrote the file first died before it could say what is in it.
        if version > 0 and current - version <= _KEPT_VERSIONS and self._path.exists():
            try:
                index = CandidateIndex.load(self._path, self._dimension)
            except (OSError, ValueError) as error:
                _LOGGER.warning("building %s again, it cannot be read: %s", self._path.name, error)
            else:
                if index is not None:
                    self._version, self._writer = version, writer
                    return index
        return CandidateIndex(self._dimension)

    def _replay(self, connection: apsw.Connection, index: CandidateIndex) -> None:
        table = f"{self._collection.value}_vector"
        if self._version == 0:
            rows = connection.execute(f"SELECT key, vector FROM {table}")
        else:
            changed = self._changed_since(connection)
            if not len(changed):
                return
            # A key that changed is taken out first, so replaying a change twice, or one undone since, is harmless.
            index.remove(changed)
            query = f"SELECT key, vector FROM carray(?) AS wanted CROSS JOIN {table} ON key = wanted.value"
            rows = connection.execute(query, (array(changed),))
        while batch := list(islice(rows, _BATCH)):
            keys = np.fromiter((key for key, _ in batch), np.uint64, len(batch))
            vectors = np.frombuffer(b"".join(vector for _, vector in batch), np.float32).reshape(len(batch), -1)
            index.add(keys, vectors)

    def _changed_since(self, connection: apsw.Connection) -> NDArray[np.int64]:
        query = "SELECT keys FROM vector_change WHERE collection = ? AND version > ?"
        rows = fetch(connection, query, (self._collection.value, self._version))
        return np.unique(np.frombuffer(b"".join(keys for (keys,) in rows), "<i8").astype(np.int64))

    def _recorded(self, connection: apsw.Connection) -> tuple[int, str]:
        query = "SELECT version, writer FROM accelerator WHERE collection = ?"
        return fetch_one(connection, query, (self._collection.value,)) or (0, "")
