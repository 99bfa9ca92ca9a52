"""The 4-bit index over the vectors of one collection, to find candidates."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from pathlib import Path

import apsw
import numpy as np
from numpy.typing import NDArray

from heliograph.stores.candidates import CandidateIndex, Candidates
from heliograph.stores.changeset import Collection
from heliograph.stores.key_sets import Keys, KeySet
from heliograph.stores.sqlite.accelerator import Accelerator
from heliograph.stores.sqlite.embedding_check import check_embedding
from heliograph.stores.sqlite.sql import Row

# Vectors that the file may lack before a process that never searched brings it up to date.
_DUE = 2048
_BLOCK_BYTES = 1 << 20


class VectorAccelerator(Accelerator[CandidateIndex]):
    """Candidates for a collection's nearest vectors."""

    def __init__(self, folder: Path, collection: Collection, embedding: tuple[str, int]) -> None:
        name = collection.value
        super().__init__(folder / f"{name}.turbovec", name, f"{name}_vector", "vector")
        self._embedding = embedding
        self._dimension = embedding[1]

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

    def _check(self, connection: apsw.Connection) -> None:
        self.check_embedding(connection)

    def _make(self) -> CandidateIndex:
        return CandidateIndex(self._dimension)

    def _checksum(self) -> str:
        check = 0
        with self._path.open("rb") as file:
            while block := file.read(_BLOCK_BYTES):
                check = zlib.crc32(block, check)
        return f"{check:08x}"

    def _read(self, writers: Sequence[str]) -> CandidateIndex | None:  # noqa: ARG002
        return CandidateIndex.load(self._path, self._dimension)

    def _write(self, index: CandidateIndex, writer: str, *, continues: bool) -> None:  # noqa: ARG002
        if not continues:
            self._path.unlink(missing_ok=True)
        index.sync(self._path)

    def _fork(self, index: CandidateIndex) -> CandidateIndex:
        return index

    def _remove(self, index: CandidateIndex, keys: Keys) -> None:
        index.remove(keys)

    def _add(self, index: CandidateIndex, rows: Sequence[Row]) -> None:
        keys = np.fromiter((key for key, _ in rows), np.uint64, len(rows))
        vectors = np.frombuffer(b"".join(vector for _, vector in rows), np.float32).reshape(len(rows), -1)
        index.add(keys, vectors)

    def _count(self, index: CandidateIndex, keys: Keys) -> tuple[int, int]:
        return sum(key in index for key in keys.tolist()), len(index)

    def _is_far(self, connection: apsw.Connection, behind: int, index: CandidateIndex | None) -> bool:  # noqa: ARG002
        # What is in memory is only appended to the file.
        return behind >= _DUE or index is not None
