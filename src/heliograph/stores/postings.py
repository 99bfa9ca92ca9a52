"""A full-text index in memory or mapped from a file: rows of terms, found by exact BM25 over all of them.

Rows are kept in segments (`posting_segments`), which are never changed: adding makes one more, removing marks rows, and
segments of like size are joined, so there are few of them and a row is copied a few times in all. What a search reads
is one moment's list of segments; others may go on changing the index meanwhile.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from functools import cached_property
from pathlib import Path
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from heliograph.stores.bm25 import K1, inverse_frequency
from heliograph.stores.key_sets import Keys, KeySet
from heliograph.stores.posting_files import read_segments, write_segments
from heliograph.stores.posting_ranking import TermPostings, rank_rows
from heliograph.stores.posting_segments import Segment, build_segment, hash_term, merge_segments

# A segment is joined with the one after it when that has grown to this part of it.
_GROWN = 1 / 2
# Of a segment's rows; with more of them removed it is written anew.
_MOST_DEAD = 1 / 4


class PostingIndex:
    """Rows by key. Searches may run beside a change, in other threads; changes follow one another."""

    def __init__(self, segments: Sequence[Segment] = ()) -> None:
        self._moment = _Moment(tuple(segments))

    @classmethod
    def load(cls, path: Path, marks: Container[str] = ("",)) -> PostingIndex:
        """Return what a file holds; it is read as far as it is used, and may be replaced meanwhile.

        Raises:
            OSError: It cannot be read.
            ValueError: It is damaged, of another format, or its mark is none of these.
        """
        segments, mark = read_segments(path)
        if mark not in marks:
            raise ValueError("it was written for another store, or by a process that did not say so")
        return cls(segments)

    def read_whole(self) -> None:
        """Compare all postings with what was written.

        Raises:
            IndexError: Some are not.
        """
        for segment in self._moment.segments:
            segment.postings(0, len(segment.slots))

    def save(self, path: Path, mark: str = "") -> None:
        """Make this the contents of a file, under a mark that `load` asks for.

        Raises:
            OSError: It cannot be written; what was there before is left.
        """
        write_segments(path, self._moment.segments, mark)

    def fork(self) -> PostingIndex:
        """Return an index of the same rows, whose changes this one does not see."""
        return PostingIndex(self._moment.segments)

    def __len__(self) -> int:
        return self._moment.rows

    def __contains__(self, key: int) -> bool:
        return self.count(np.array([key], np.int64)) > 0

    def count(self, keys: Keys) -> int:
        """Return how many of these distinct keys are there."""
        return sum(len(segment.find_slots(keys)) for segment in self._moment.segments)

    def add(self, rows: Iterable[tuple[int, Sequence[str]]]) -> None:
        """Put rows, each a key and its terms with repeats; what was there under a key is replaced."""
        latest = dict(rows)
        if not latest:
            return
        new = build_segment(list(latest), list(latest.values()))
        self._moment = _Moment(_joined([*_without(self._moment.segments, new.keys), new]))

    def remove(self, keys: Keys) -> None:
        """Take out what is there of these."""
        self._moment = _Moment(_joined(_without(self._moment.segments, keys)))

    def search(
        self, terms: Iterable[str], limit: int, allowed: KeySet | None = None
    ) -> tuple[Keys, NDArray[np.float64]]:
        """Return keys and scores of the best rows that hold any of the terms, best first, ties by key.

        Args:
            terms: Each counts once.
            limit: Rows wanted; more are returned only if they score as much as the last of these.
            allowed: Keys to choose from; None means all. How rare a term is depends on all rows.
        """
        moment = self._moment
        hashes = sorted({hash_term(term) for term in terms})
        if limit < 1 or not moment.rows or not hashes:
            return np.empty(0, np.int64), np.empty(0, np.float64)
        found = moment.find(np.array(hashes, np.uint64))
        slots, scores = rank_rows(found, moment.lengths_of(allowed), moment.mean_length, limit)
        keys = moment.keys_of(slots)
        order = np.lexsort((keys, -scores))
        return keys[order], scores[order]


class _Moment:
    """The segments at one moment, with their rows numbered one after the other."""

    def __init__(self, segments: tuple[Segment, ...]) -> None:
        self.segments = segments
        self.bases = np.cumsum([0, *(len(segment.keys) for segment in segments)])
        self.rows = sum(map(len, segments))
        # Rows without any terms have no length; a mean of 0 would be divided by.
        self.mean_length = max(sum(segment.total_length for segment in segments) / max(self.rows, 1), 1e-9)
        self._among: WeakKeyDictionary[KeySet, NDArray[np.float32]] = WeakKeyDictionary()

    @cached_property
    def lengths(self) -> NDArray[np.float32]:
        """Return the length of every row, infinite where it was removed: such a row scores nothing."""
        lengths = np.concatenate([segment.lengths for segment in self.segments])
        for base, segment in zip(self.bases.tolist(), self.segments, strict=False):
            lengths[segment.dead.astype(np.int64) + base] = np.inf
        return lengths

    def lengths_of(self, allowed: KeySet | None) -> NDArray[np.float32]:
        """Return the lengths of the rows under some keys, infinite for others; remembered as long as the set is."""
        if allowed is None:
            return self.lengths
        known = self._among.get(allowed)
        if known is None:
            known = np.full(len(self.lengths), np.inf, np.float32)
            for base, segment in zip(self.bases.tolist(), self.segments, strict=False):
                slots = segment.find_slots(allowed.keys)
                known[slots + base] = segment.lengths[slots]
            self._among[allowed] = known
        return known

    def find(self, hashes: NDArray[np.uint64]) -> list[TermPostings]:
        """Return the postings of those of the terms that are held, the rarest first."""
        parts: list[list[tuple[Segment, int, int, int]]] = [[] for _ in hashes]
        sizes, rows = [0] * len(hashes), [0] * len(hashes)
        for base, segment in zip(self.bases.tolist(), self.segments, strict=False):
            begins, ends = segment.find(hashes)
            for place in np.flatnonzero(begins < ends).tolist():
                begin, end = int(begins[place]), int(ends[place])
                parts[place].append((segment, base, begin, end))
                sizes[place] += end - begin
                rows[place] += segment.count_left(begin, end)
        found = [
            TermPostings(inverse_frequency(count, self.rows) * (K1 + 1), size, tuple(held))
            for count, size, held in zip(rows, sizes, parts, strict=True)
            if count
        ]
        return sorted(found, key=lambda term: -term.weight)

    def keys_of(self, slots: NDArray[np.int64]) -> Keys:
        """Return the keys of numbered rows."""
        keys = np.empty(len(slots), np.int64)
        places = np.searchsorted(self.bases, slots, side="right") - 1
        for place in np.unique(places).tolist():
            here = places == place
            keys[here] = self.segments[place].keys[slots[here] - self.bases[place]]
        return keys


def _without(segments: Sequence[Segment], keys: Keys) -> list[Segment]:
    left: list[Segment] = []
    for segment in segments:
        slots = segment.find_slots(keys)
        changed = segment.without(slots) if len(slots) else segment
        if len(changed):
            is_sparse = len(changed.dead) > _MOST_DEAD * len(changed.keys)
            left.append(merge_segments([changed]) if is_sparse else changed)
    return left


def _joined(segments: Sequence[Segment]) -> tuple[Segment, ...]:
    """Return segments of which each is larger than what comes after it; those that are not are joined."""
    kept: list[Segment] = []
    for segment in segments:
        last, rows = [segment], len(segment.keys)
        while kept and len(kept[-1].keys) * _GROWN < rows:
            last.insert(0, kept.pop())
            rows += len(last[0].keys)
        kept.append(merge_segments(last) if len(last) > 1 else segment)
    return tuple(kept)
