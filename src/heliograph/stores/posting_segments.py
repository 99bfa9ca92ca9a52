"""Rows of one part of a full-text index, by term: built once, then only ever joined with others or marked as gone.

A term is known by 64 bits of its BLAKE2b hash, so that a search is a look into a sorted array and files hold no words;
two of a million terms share one with a probability of 3 in 10^8. Rows are numbered from 0; per term there are the
numbers of its rows in ascending order, and how often it occurs in each.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from hashlib import blake2b
from itertools import chain, count, pairwise

import numpy as np
from numpy.typing import NDArray

from heliograph.stores.key_sets import Keys

_MOST_COUNT = 65_535
# Postings copied at once when segments are joined; each takes some 30 bytes meanwhile.
_BLOCK = 1 << 20
_MOST_FREQUENCIES = 20_000


@lru_cache(maxsize=50_000)
def hash_term(term: str) -> int:
    """Return the number that a term is known by, the same in every process."""
    return int.from_bytes(blake2b(term.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


class Segment:
    """`R` rows with `T` distinct terms in `P` postings. Its arrays are never written to.

    Args:
        keys: `(R,)` int64, distinct.
        lengths: `(R,)` float32, terms of a row.
        hashes: `(T,)` uint64, ascending.
        starts: `(T + 1,)` int64; postings of term `t` are those from `starts[t]` to `starts[t + 1]`.
        slots: `(P,)` uint32, numbers of rows, ascending within a term.
        counts: `(P,)` uint16, occurrences in the row; 65,535 for that many and more.
        dead: uint32, numbers of rows that were removed, ascending.
    """

    def __init__(
        self,
        keys: Keys,
        lengths: NDArray[np.float32],
        hashes: NDArray[np.uint64],
        starts: NDArray[np.int64],
        slots: NDArray[np.uint32],
        counts: NDArray[np.uint16],
        dead: NDArray[np.uint32] | None = None,
    ) -> None:
        self.keys = keys
        self.lengths = lengths
        self.hashes = hashes
        self.starts = starts
        self.slots = slots
        self.counts = counts
        self.dead = np.empty(0, np.uint32) if dead is None else dead
        self.total_length = float(lengths.sum(dtype=np.float64) - lengths[self.dead].sum(dtype=np.float64))
        # Asked before postings from one place to another are used; raises `IndexError` if they are damaged.
        self.check: Callable[[int, int], None] = _nothing
        self._by_key: tuple[Keys, NDArray[np.int64]] | None = None
        self._frequencies: dict[int, int] = {}

    def __len__(self) -> int:
        """Return how many rows are left."""
        return len(self.keys) - len(self.dead)

    def postings(self, begin: int, end: int) -> tuple[NDArray[np.uint32], NDArray[np.uint16]]:
        """Return slots and counts from one place to another.

        Raises:
            IndexError: They are not what was written into the file that they come from.
        """
        self.check(begin, end)
        return self.slots[begin:end], self.counts[begin:end]

    def is_left(self) -> NDArray[np.bool_]:
        """Return, per row, whether it was not removed."""
        left = np.ones(len(self.keys), np.bool_)
        left[self.dead] = False
        return left

    def find_slots(self, keys: Keys) -> NDArray[np.int64]:
        """Return the numbers of the rows that are left under these keys, ascending."""
        if not len(self.keys):
            return np.empty(0, np.int64)
        ascending, order = self._sorted()
        places = np.minimum(np.searchsorted(ascending, keys), len(ascending) - 1)
        slots = np.unique(order[places[ascending[places] == keys]])
        return np.setdiff1d(slots, self.dead, assume_unique=True) if len(self.dead) else slots

    def _sorted(self) -> tuple[Keys, NDArray[np.int64]]:
        """Return the keys in ascending order, and the row of each; remembered."""
        if self._by_key is None:
            order = np.argsort(self.keys, kind="stable")
            self._by_key = self.keys[order], order
        return self._by_key

    def without(self, slots: NDArray[np.int64]) -> Segment:
        """Return this segment with more rows removed."""
        dead = np.union1d(self.dead, slots.astype(np.uint32))
        segment = Segment(self.keys, self.lengths, self.hashes, self.starts, self.slots, self.counts, dead)
        segment._by_key, segment.check = self._by_key, self.check
        return segment

    def find(self, hashes: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return where the postings of each term begin and end, of rows removed too; nowhere if there are none."""
        if not len(self.hashes):
            return np.zeros(len(hashes), np.int64), np.zeros(len(hashes), np.int64)
        places = np.minimum(np.searchsorted(self.hashes, hashes), len(self.hashes) - 1)
        begins = self.starts[places]
        return begins, np.where(self.hashes[places] == hashes, self.starts[places + 1], begins)

    def count_left(self, begin: int, end: int) -> int:
        """Return how many of a term's postings are of rows that are left."""
        if not len(self.dead) or begin == end:
            return end - begin
        known = self._frequencies.get(begin)
        if known is None:
            slots, _ = self.postings(begin, end)
            places = np.minimum(np.searchsorted(slots, self.dead), len(slots) - 1)
            known = end - begin - int(np.count_nonzero(slots[places] == self.dead))
            if len(self._frequencies) >= _MOST_FREQUENCIES:
                self._frequencies = {}
            self._frequencies[begin] = known
        return known


def build_segment(keys: Sequence[int], rows: Sequence[Sequence[str]]) -> Segment:
    """Return a segment of rows, at least one, given as their terms with repeats, under distinct keys."""
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    # Numbers that fit beside that of a row make sorting fast, which hashes would not.
    vocabulary: defaultdict[str, int] = defaultdict(count().__next__)
    words = np.fromiter(map(vocabulary.__getitem__, chain.from_iterable(rows)), np.int64, int(lengths.sum()))
    hashes = np.fromiter(map(hash_term, vocabulary), np.uint64, len(vocabulary))
    order = np.argsort(hashes)
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order))
    bits = len(rows).bit_length()
    pairs = np.sort(ranks[words] << bits | np.repeat(np.arange(len(rows)), lengths))
    first = np.flatnonzero(np.diff(pairs, prepend=-1))
    counts = np.diff(first, append=len(pairs))
    distinct = pairs[first]
    return Segment(
        np.array(keys, np.int64),
        lengths.astype(np.float32),
        hashes[order],
        np.searchsorted(distinct, np.arange(len(order) + 1) << bits).astype(np.int64),
        (distinct & ((1 << bits) - 1)).astype(np.uint32),
        np.minimum(counts, _MOST_COUNT).astype(np.uint16),
    )


def merge_segments(segments: Sequence[Segment]) -> Segment:
    """Return one segment of the rows that are left in several, in time that grows with their postings alone."""
    parts = [_without_dead(segment) for segment in segments]
    hashes = np.unique(np.concatenate([part.hashes for part in parts]))
    places = [np.searchsorted(hashes, part.hashes) for part in parts]
    totals = np.zeros(len(hashes), np.int64)
    for part, place in zip(parts, places, strict=True):
        totals[place] += np.diff(part.starts)
    starts = np.concatenate((np.zeros(1, np.int64), np.cumsum(totals, dtype=np.int64)))
    slots, counts = np.empty(starts[-1], np.uint32), np.empty(starts[-1], np.uint16)
    free, base = starts[:-1].copy(), 0
    for part, place in zip(parts, places, strict=True):
        for first, last in _blocks(part.starts):
            begin, end = part.starts[first], part.starts[last]
            sizes = np.diff(part.starts[first : last + 1])
            moves = free[place[first:last]] - part.starts[first:last]
            targets = np.repeat(moves, sizes) + np.arange(begin, end)
            held, numbers = part.postings(int(begin), int(end))
            slots[targets] = held + np.uint32(base)
            counts[targets] = numbers
        free[place] += np.diff(part.starts)
        base += len(part.keys)
    keys = np.concatenate([part.keys for part in parts])
    return Segment(keys, np.concatenate([part.lengths for part in parts]), hashes, starts, slots, counts)


def _without_dead(segment: Segment) -> Segment:
    """Return a segment of the rows that are left, numbered anew, and of the terms that these hold."""
    if not len(segment.dead):
        return segment
    left = segment.is_left()
    slots, counts = segment.postings(0, len(segment.slots))
    kept = left[slots]
    starts = np.concatenate((np.zeros(1, np.int64), np.cumsum(kept, dtype=np.int64)))[segment.starts]
    held = np.flatnonzero(np.diff(starts))
    numbers = np.cumsum(left, dtype=np.uint32) - np.uint32(1)
    return Segment(
        segment.keys[left],
        segment.lengths[left],
        segment.hashes[held],
        np.append(starts[held], starts[-1]),
        numbers[slots[kept]],
        counts[kept],
    )


def _blocks(starts: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Yield ranges of terms with about `_BLOCK` postings each, one of more on its own."""
    marks = np.searchsorted(starts, np.arange(0, starts[-1], _BLOCK))
    return pairwise(np.unique(np.append(marks, len(starts) - 1)).tolist())


def _nothing(begin: int, end: int) -> None:
    """Postings in memory need no comparing."""
