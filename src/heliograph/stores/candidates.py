"""Candidates for the nearest of many unit vectors, from a 4-bit index in memory, and which of them to score exactly.

The caller holds the vectors and reads those of a few candidates to rank them: first the best by estimate, then those
that may still be among the best, given the estimation errors seen so far. Equal vectors have equal estimates and equal
scores and are candidates together, so that ids decide which of them are hits.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from turbovec import IdMapIndex  # pyright: ignore[reportMissingTypeStubs]

from heliograph.stores.view import Keys, KeySet

_BITS = 4
_BLOCK = 8
_CANDIDATES_PER_HIT = 4
_LEAST_CANDIDATES = 64
# Share of all vectors; from here on a search restricted to some vectors examines all of them.
_LARGE_SHARE = 0.4
_WIDENING = 1.5
_TRIES = 3
# Fetch more candidates as long as the last ones are equal, up to this many.
_MOST_EQUALS = 65_536
# Estimates may be off by this many times the largest error seen.
_SAFETY = 2.0
# The first index of a process computes tables for 80 ms; the lock keeps two loads from both computing them.
_LOADING = threading.Lock()


@dataclass(frozen=True, slots=True)
class Candidates:
    """Keys whose vectors are probably nearest, nearest first, each with an estimated cosine; infinite if not known."""

    keys: Keys
    scores: NDArray[np.float32]


def count_candidates(limit: int) -> int:
    """Return how many candidates to fetch for `limit` hits."""
    return max(limit * _CANDIDATES_PER_HIT, _LEAST_CANDIDATES)


def count_first(limit: int) -> int:
    """Return how many of the candidates, the first ones, are always scored."""
    return limit + limit // 2


def late_candidates(candidates: Candidates, keys: Keys, scores: NDArray[np.float32], limit: int) -> Keys:
    """Return those candidates after the first that may be among the best `limit`."""
    first = count_first(limit)
    if len(keys) < limit or len(candidates.keys) <= first:
        return candidates.keys[first:]
    head, order = candidates.keys[:first], np.argsort(candidates.keys[:first])
    estimates = candidates.scores[:first][order[np.searchsorted(head, keys, sorter=order)]]
    least = np.partition(scores, -limit)[-limit] - _SAFETY * np.abs(scores - estimates).max()
    return candidates.keys[first:][candidates.scores[first:] >= least]


class CandidateIndex:
    """Vectors by key. Searches may run in other threads during a change; changes run one at a time.

    The first index of a process spends 80 ms on computing its code tables (`is_any_made`).
    """

    is_any_made: ClassVar[bool] = False

    def __init__(self, dimension: int, index: Any = None) -> None:
        CandidateIndex.is_any_made = True
        self._dimension = dimension
        # The index takes dimensions that are multiples of 8: shorter vectors are padded with zeros, which changes no
        # cosine.
        self._padded = -(-dimension // _BLOCK) * _BLOCK
        self._index: Any = IdMapIndex(dim=self._padded, bit_width=_BITS) if index is None else index
        self._among: WeakKeyDictionary[KeySet, NDArray[np.uint64]] = WeakKeyDictionary()

    @classmethod
    def load(cls, path: Path, dimension: int) -> CandidateIndex | None:
        """Return the index in a file; None if its vectors have another dimension.

        Raises:
            OSError: It cannot be read.
            ValueError: It is damaged.
        """
        with _LOADING:
            loaded = cls(dimension, IdMapIndex.load(str(path)))
        return loaded if loaded._index.dim in (None, loaded._padded) else None

    def sync(self, path: Path) -> None:
        """Update the file that this index was loaded from, or create one."""
        self._index.sync(str(path))

    def __len__(self) -> int:
        return len(self._index)

    def __contains__(self, key: int) -> bool:
        return key in self._index

    def remove(self, keys: Keys) -> None:
        """Remove the vectors under these keys."""
        for key in keys.tolist():
            self._index.remove(key)

    def add(self, keys: NDArray[np.uint64], vectors: NDArray[np.float32]) -> None:
        """Add vectors, `(n, dimension)`, under keys that are not in the index."""
        self._index.add_with_ids(self._pad(vectors), keys)

    def search(self, vector: NDArray[np.float32], limit: int, allowed: KeySet | None = None) -> Candidates:
        """Return up to `limit` keys whose vectors are probably nearest to one, `(dimension,)` float32 of length 1.

        Some of the allowed keys may have no vector.
        """
        return self._nearest(vector, limit) if allowed is None else self._search_within(vector, limit, allowed)

    def _nearest(self, vector: NDArray[np.float32], limit: int, among: NDArray[np.uint64] | None = None) -> Candidates:
        most = len(self._index)
        limit = min(limit, most)
        if limit == 0:
            return _unscored(np.empty(0, np.int64))
        while True:
            scores, keys = self._index.search(self._pad(vector[None, :]), k=limit, allowlist=among)
            found = len(keys[0])
            # Hits are the first candidates: hits can be missing only if equal scores reach from there to the end.
            if (
                found < limit
                or limit in (most, _MOST_EQUALS)
                or scores[0][found // _CANDIDATES_PER_HIT] > scores[0][-1]
            ):
                return Candidates(keys[0].astype(np.int64), scores[0])
            limit = min(limit * _CANDIDATES_PER_HIT, most, max(limit, _MOST_EQUALS))

    def _search_within(self, vector: NDArray[np.float32], limit: int, allowed: KeySet) -> Candidates:
        if len(allowed) <= limit:
            return _unscored(allowed.keys)
        share = len(allowed) / max(len(self._index), 1)
        if share >= _LARGE_SHARE:
            # Searching wider and filtering the results is faster than passing the index a filter.
            wide = int(limit / share * _WIDENING)
            nearest = self._nearest(vector, wide)
            kept = np.flatnonzero(allowed.holds(nearest.keys))[:limit]
            if len(kept) >= limit or wide >= len(self._index):
                return Candidates(nearest.keys[kept], nearest.scores[kept])
        for _ in range(_TRIES):
            # The index usually has all of the keys; it refuses keys that it lacks.
            among = self._among.get(allowed)
            if among is None:
                among = allowed.keys.astype(np.uint64)
            try:
                return self._nearest(vector, limit if len(among) else 0, among)
            except KeyError:
                # Cache the keys that it has, as long as the set lives. Another thread may still remove one.
                among = np.array([key for key in allowed.keys.tolist() if key in self._index], np.uint64)
                self._among[allowed] = among
        return _unscored(allowed.keys)

    def _pad(self, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        missing = self._padded - self._dimension
        return np.ascontiguousarray(np.pad(vectors, ((0, 0), (0, missing))) if missing else vectors)


def _unscored(keys: Keys) -> Candidates:
    return Candidates(keys, np.full(len(keys), np.inf, np.float32))
