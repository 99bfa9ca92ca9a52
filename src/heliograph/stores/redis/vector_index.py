"""The vectors of one collection as one process sees them: candidates in memory, exact ones in Redis.

A search takes candidates and asks Redis for their vectors and whether anything changed. If so, the index is brought up
to the data version that Redis then has, by the changes since the one it stands at, and searched again; where these are
too many, or not known any more, all vectors are read anew, some at a time. What takes longer than an instant runs in a
thread.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heliograph.errors import SchemaMismatch
from heliograph.stores.candidates import CandidateIndex, Candidates
from heliograph.stores.changeset import Collection
from heliograph.stores.inspection import ScanKind
from heliograph.stores.key_sets import KeySet
from heliograph.stores.redis.session import Session
from heliograph.stores.redis.vector_scripts import CHANGED, EXACT, PAGE

__all__ = ["VECTOR_SCANS", "KnownVectors", "Nearest", "VectorIndex"]

VECTOR_SCANS = {
    Collection.CHUNKS: ScanKind.CHUNK_VECTORS,
    Collection.ENTITIES: ScanKind.ENTITY_VECTORS,
    Collection.RELATIONS: ScanKind.RELATION_VECTORS,
}
# Changes that are worth replaying; of more, all vectors are read anew, which costs about as much.
_MOST_REPLAYED = 50_000
_PAGE = 2_000
_NUL = b"\0"


class KnownVectors:
    """Candidates by ids, as of one data version. All methods block; a search may run beside a change."""

    def __init__(self, dimension: int) -> None:
        self.version = -1
        self.token = b""
        self._index = CandidateIndex(dimension)
        self._ids: list[bytes] = []
        self._keys: dict[bytes, int] = {}
        self._lock = threading.Lock()
        # Odd while a change is under way.
        self._changes = 0

    def change(self, gone: Sequence[bytes], ids: Sequence[bytes], vectors: NDArray[np.float32]) -> None:
        """Forget the vectors of some ids, then learn those of others; doing it twice changes nothing more."""
        with self._lock:
            self._changes += 1
            try:
                self._index.remove(np.fromiter((self._key(id_) for id_ in {*gone, *ids}), np.int64))
                if ids:
                    self._index.add(np.fromiter(map(self._key, ids), np.uint64, len(ids)), vectors)
            finally:
                self._changes += 1

    def _key(self, id_: bytes) -> int:
        key = self._keys.get(id_)
        if key is None:
            key = self._keys[id_] = len(self._ids)
            self._ids.append(id_)
        return key

    def find(self, vector: NDArray[np.float32], count: int, allowed: KeySet | None) -> Candidates:
        """Return probably nearest vectors, as `CandidateIndex.search` does."""
        before = self._changes
        found = self._index.search(vector, count, allowed)
        if before == self._changes and before % 2 == 0:
            return found
        # What is being changed is taken out and put back, and might have been missed.
        with self._lock:
            return self._index.search(vector, count, allowed)

    def ids_of(self, keys: Iterable[int]) -> list[bytes]:
        """Return the ids that keys stand for."""
        return [self._ids[key] for key in keys]

    def keys_of(self, ids: Iterable[bytes]) -> NDArray[np.int64]:
        """Return the keys of those of the ids that ever had a vector."""
        return np.array([key for key in map(self._keys.get, ids) if key is not None], np.int64)


@dataclass(frozen=True, slots=True)
class Nearest:
    """What a search in memory found.

    Attributes:
        known: Where it was found.
        candidates: All.
        keys: Those of the first of them that have a vector.
        vectors: These, exact: `(n, dimension)`.
    """

    known: KnownVectors
    candidates: Candidates
    keys: NDArray[np.int64]
    vectors: NDArray[np.float32]


class VectorIndex:
    """The vectors of one collection.

    Args:
        session: Reads from Redis.
        collection: Which.
        embedding: Name and dimension of what they are made with.
    """

    def __init__(self, session: Session, collection: Collection, embedding: tuple[str, int]) -> None:
        self._session = session
        self._collection = collection
        self._embedding = embedding
        self._known = KnownVectors(embedding[1])
        self._lock = asyncio.Lock()

    async def search(self, find: Callable[[KnownVectors], Candidates], first: int, *, is_eager: bool) -> Nearest:
        """Return what is found in the latest commit, or in a later one.

        Args:
            find: Takes candidates from what is known; runs in a thread.
            first: How many of them to read.
            is_eager: Whether to look before it is known that nothing changed, and again if something did.

        Raises:
            SchemaMismatch: The workspace has been embedded anew since it was opened.
        """
        known = self._known
        if is_eager and known.version >= 0:
            version, token = known.version, known.token
            candidates = await asyncio.to_thread(find, known)
            ids = known.ids_of(candidates.keys[:first].tolist())
            (latest, *_), commit, has_changed, _, there, rows = await self._ask(CHANGED, version, token, 0, *ids)
            if not has_changed:
                if known.version == version:
                    known.version, known.token = latest, commit
                return self._nearest(known, candidates, *self._vectors(there, rows))
        known = await self._catch_up()
        candidates = await asyncio.to_thread(find, known)
        ids = known.ids_of(candidates.keys[:first].tolist())
        return self._nearest(known, candidates, *await self.read(ids))

    def _nearest(
        self, known: KnownVectors, candidates: Candidates, ids: Sequence[bytes], vectors: NDArray[np.float32]
    ) -> Nearest:
        return Nearest(known, candidates, known.keys_of(ids), vectors)

    async def _catch_up(self) -> KnownVectors:
        """Return what is known of the latest commit, or of a later one."""
        async with self._lock:
            known = self._known
            while not await self._replay(known):
                known = await self._load()
            self._known = known
            return known

    async def read(self, ids: Sequence[bytes]) -> tuple[list[bytes], NDArray[np.float32]]:
        """Return those of the ids that have a vector, in order, and these, exact: `(n, dimension)`.

        Raises:
            SchemaMismatch: The workspace has been embedded anew since it was opened.
        """
        _, there, rows = await self._ask(EXACT, *ids)
        return self._vectors(there, rows)

    async def _replay(self, known: KnownVectors) -> bool:
        """Bring `known` up to date; return whether that is possible."""
        arguments = known.version, known.token, _MOST_REPLAYED
        (version, *_), latest, is_too_far, changed, there, rows = await self._ask(CHANGED, *arguments)
        if is_too_far:
            return False
        if changed:
            ids, vectors = self._vectors(there, rows)
            await asyncio.to_thread(known.change, changed.split(_NUL), ids, vectors)
        known.version, known.token = version, latest
        return True

    async def _load(self) -> KnownVectors:
        """Return what is there now; commits that come meanwhile may be in it or not."""
        known = KnownVectors(self._embedding[1])
        (known.version, *_), known.token, *_ = await self._ask(CHANGED, -1, "", 0)
        key, after = self._session.keys.ids(VECTOR_SCANS[self._collection]), b""
        while True:
            _, after, there, rows = await self._ask(PAGE, key, after, _PAGE)
            if not after:
                return known
            await asyncio.to_thread(known.change, (), *self._vectors(there, rows))

    async def _ask(self, script: str, *arguments: str | bytes | int) -> list[Any]:
        prefix = self._session.keys.prefix
        command = ("EVAL", script, 0, prefix, self._collection.value, *arguments)
        (answer,) = await self._session.read_bytes([command])
        _, name, dimension = answer[0]
        if (stored := (name.decode(), int(dimension))) != self._embedding:
            # A question that began before the switch to another embedding must not be compared with its vectors.
            raise SchemaMismatch(
                f"the store was embedded anew with {stored!r} since it was opened with {self._embedding!r}; "
                "configure that embedding and open the store again"
            )
        return answer

    def _vectors(self, there: bytes, rows: bytes) -> tuple[list[bytes], NDArray[np.float32]]:
        ids = there.split(_NUL) if there else []
        return ids, np.frombuffer(rows, np.float32).reshape(len(ids), self._embedding[1])
