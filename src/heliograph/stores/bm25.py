"""Full text by BM25 (Robertson and Zaragoza 2009): the formula, and an index of posting lists.

All back ends use the formula and constants of SQLite's FTS5. The index holds rows of terms in memory, or mapped from a
file, and ranks them exactly: segments are built once, then only merged or given tombstones, and ranking skips rows that
cannot be among the best.
"""

from __future__ import annotations

import json
import math
import mmap
import os
import struct
import zlib
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from hashlib import blake2b
from itertools import chain, count, pairwise
from pathlib import Path
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from heliograph.stores.view import Keys, KeySet

Number = TypeVar("Number", np.int64, np.uint64)

K1, B = 1.2, 0.75


def inverse_frequency(rows: float, total: float) -> float:
    """Return the idf of a term in `rows` of `total` rows: `ln((N - n + 0.5) / (n + 0.5))`, at least a millionth."""
    value = math.log(max(1e-9, total - rows + 0.5) / (rows + 0.5))
    return value if value > 0 else 1e-6


# The file of a full-text index: a header that describes the layout, then the arrays, memory-mapped when read.
#
# It is written to a temporary file and then renamed, so a reader in any process always has a whole file, and keeps
# using its own when it is replaced. The header and all arrays except the postings, which are most of the file, are
# verified by checksum on reading. Postings have a checksum per block, verified when the block is first used, so that
# opening a file stays cheap; a damaged block raises `IndexError`.

_MAGIC = b"heliopst"
_FORMAT = 2
# Magic, format, bytes of the header, its CRC-32.
_PREFIX = struct.Struct("<8sIII")
_ALIGNMENT = 64
_TYPES = ("<i8", "<f4", "<u8", "<i8", "<u4", "<u2", "<u4")
_POSTINGS = (4, 5)
_BLOCK = 1 << 14


def write_segments(path: Path, segments: Sequence[Segment], mark: str) -> None:
    """Write segments to a file, replacing it; it is on disk when this returns.

    Raises:
        OSError: It cannot be written; the previous file is kept.
        IndexError: Postings that were read from a file are damaged.
    """
    part = path.with_name(f".{path.name}.part")
    sizes = [[len(array) for array in _arrays(segment)] for segment in segments]
    sums = [_checksum(_arrays(segment)) for segment in segments]
    # Verify postings against their old checksums before they get new ones.
    postings = [segment.postings(0, len(segment.slots)) for segment in segments]
    blocks = [[_block_sum(*held, place) for place in range(-(-len(held[0]) // _BLOCK))] for held in postings]
    header = json.dumps({"mark": mark, "segments": sizes, "sums": sums, "blocks": blocks}).encode()
    try:
        with part.open("wb") as file:
            file.write(_PREFIX.pack(_MAGIC, _FORMAT, len(header), zlib.crc32(header)) + header)
            for segment in segments:
                for array, kind in zip(_arrays(segment), _TYPES, strict=True):
                    file.write(bytes(-file.tell() % _ALIGNMENT))
                    file.write(np.ascontiguousarray(array, kind).data)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def read_segments(path: Path) -> tuple[list[Segment], str]:
    """Return the segments in a file, and its mark.

    Raises:
        OSError: It cannot be read.
        ValueError: It is damaged, or of another format.
    """
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        prefix = file.read(_PREFIX.size)
        if len(prefix) < _PREFIX.size or not prefix.startswith(_MAGIC):
            raise ValueError("it is no full-text index")
        _, number, length, check = _PREFIX.unpack(prefix)
        if number != _FORMAT:
            raise ValueError(f"its format is {number} and not {_FORMAT}")
        read = file.read(length)
        if zlib.crc32(read) != check:
            raise ValueError("its header is damaged")
        header: dict[str, Any] = json.loads(read)
        sizes: list[list[int]] = header["segments"]
        places, end = _places(sizes, _PREFIX.size + length)
        if end != size:
            raise ValueError(f"it has {size} bytes and not {end}")
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    segments: list[Segment] = []
    for counts, check, blocks in zip(sizes, header["sums"], header["blocks"], strict=True):
        arrays: list[NDArray[Any]] = [
            np.frombuffer(mapped, kind, count, next(places)) for kind, count in zip(_TYPES, counts, strict=True)
        ]
        if _checksum(arrays) != check:
            raise ValueError("its contents are damaged")
        segment = Segment(*arrays)
        segment.check = _BlockCheck(segment.slots, segment.counts, blocks)
        segments.append(segment)
    return segments, str(header["mark"])


def _places(sizes: Sequence[Sequence[int]], begin: int) -> tuple[Iterator[int], int]:
    """Return where each array begins, and where the last one ends."""
    places: list[int] = []
    for counts in sizes:
        for kind, size in zip(_TYPES, counts, strict=True):
            places.append(begin + -begin % _ALIGNMENT)
            begin = places[-1] + np.dtype(kind).itemsize * size
    return iter(places), begin


def _checksum(arrays: Sequence[NDArray[Any]]) -> int:
    """Return the CRC-32 of all arrays except the postings."""
    check = 0
    for place, (array, kind) in enumerate(zip(arrays, _TYPES, strict=True)):
        if place not in _POSTINGS:
            check = zlib.crc32(np.ascontiguousarray(array, kind).data, check)
    return check


class _BlockCheck:
    """Verifies blocks of postings against their checksums, each once; thread-safe."""

    def __init__(self, slots: NDArray[np.uint32], counts: NDArray[np.uint16], sums: Sequence[int]) -> None:
        self._slots = slots
        self._counts = counts
        self._sums = sums
        self._is_right = bytearray(len(sums))

    def __call__(self, begin: int, end: int) -> None:
        for place in range(begin // _BLOCK, -(-end // _BLOCK)):
            if not self._is_right[place]:
                if _block_sum(self._slots, self._counts, place) != self._sums[place]:
                    raise IndexError(f"the postings of block {place} are damaged")
                self._is_right[place] = 1


def _block_sum(slots: NDArray[np.uint32], counts: NDArray[np.uint16], place: int) -> int:
    block = slice(place * _BLOCK, (place + 1) * _BLOCK)
    check = zlib.crc32(np.ascontiguousarray(slots[block], "<u4").data)
    return zlib.crc32(np.ascontiguousarray(counts[block], "<u2").data, check)


def _arrays(segment: Segment) -> tuple[NDArray[Any], ...]:
    return (
        *(segment.keys, segment.lengths, segment.hashes, segment.starts),
        *(segment.slots, segment.counts, segment.dead),
    )


# A segment: rows of one part of a full-text index, by term. It is built once, then only merged or given tombstones.
#
# A term is stored as 64 bits of its BLAKE2b hash, so that a lookup is a search in a sorted array and files hold no
# words; two of a million terms collide with a probability of 3 in 10^8. Rows are numbered from 0; each term has the
# numbers of its rows in ascending order, and how often it occurs in each.

_MOST_COUNT = 65_535
# Postings copied at once when segments are merged; each takes some 30 bytes meanwhile.
_ROWS_AT_ONCE = 1 << 20
_MOST_FREQUENCIES = 20_000


@lru_cache(maxsize=50_000)
def hash_term(term: str) -> int:
    """Return the hash of a term, the same in every process."""
    return int.from_bytes(blake2b(term.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


class Segment:
    """`R` rows with `T` distinct terms in `P` postings. Its arrays are immutable.

    Args:
        keys: `(R,)` int64, distinct.
        lengths: `(R,)` float32, terms of a row.
        hashes: `(T,)` uint64, ascending.
        starts: `(T + 1,)` int64; postings of term `t` are those from `starts[t]` to `starts[t + 1]`.
        slots: `(P,)` uint32, numbers of rows, ascending within a term.
        counts: `(P,)` uint16, occurrences in the row; 65,535 for that many and more.
        dead: uint32, numbers of removed rows, ascending.
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
        # Called before a range of postings is used; raises `IndexError` if they are damaged. Postings in memory need no
        # check.
        self.check: Callable[[int, int], None] = lambda _begin, _end: None
        self._by_key: tuple[Keys, NDArray[np.int64]] | None = None
        self._frequencies: dict[int, int] = {}

    def __len__(self) -> int:
        """Return how many rows remain."""
        return len(self.keys) - len(self.dead)

    def postings(self, begin: int, end: int) -> tuple[NDArray[np.uint32], NDArray[np.uint16]]:
        """Return slots and counts of a range of postings.

        Raises:
            IndexError: They differ from what was written to their file.
        """
        self.check(begin, end)
        return self.slots[begin:end], self.counts[begin:end]

    def is_left(self) -> NDArray[np.bool_]:
        """Return, per row, whether it remains."""
        left = np.ones(len(self.keys), np.bool_)
        left[self.dead] = False
        return left

    def find_slots(self, keys: Keys) -> NDArray[np.int64]:
        """Return the numbers of the remaining rows under these keys, ascending."""
        if not len(self.keys):
            return np.empty(0, np.int64)
        if self._by_key is None:
            order = np.argsort(self.keys, kind="stable")
            self._by_key = self.keys[order], order
        ascending, order = self._by_key
        places = np.minimum(np.searchsorted(ascending, keys), len(ascending) - 1)
        slots = distinct(order[places[ascending[places] == keys]])
        return np.setdiff1d(slots, self.dead, assume_unique=True) if len(self.dead) else slots

    def without(self, slots: NDArray[np.int64]) -> Segment:
        """Return this segment with more rows removed."""
        dead = np.union1d(self.dead, slots.astype(np.uint32))
        segment = Segment(self.keys, self.lengths, self.hashes, self.starts, self.slots, self.counts, dead)
        segment._by_key, segment.check = self._by_key, self.check
        return segment

    def find(self, hashes: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the range of postings of each term, including removed rows; empty if there are none."""
        if not len(self.hashes):
            return np.zeros(len(hashes), np.int64), np.zeros(len(hashes), np.int64)
        places = np.minimum(np.searchsorted(self.hashes, hashes), len(self.hashes) - 1)
        begins = self.starts[places]
        return begins, np.where(self.hashes[places] == hashes, self.starts[places + 1], begins)

    def count_left(self, begin: int, end: int) -> int:
        """Return how many of a term's postings belong to remaining rows."""
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
    """Return a segment of rows, at least one; each row is its terms, with repeats, under a distinct key."""
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    # Sort small integers beside the row number, which is fast; hashes would not fit.
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
    """Return one segment of the remaining rows of several, in time that grows with their postings alone."""
    parts = [_without_dead(segment) for segment in segments]
    hashes = distinct(np.concatenate([part.hashes for part in parts]))
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
    """Return a segment of the remaining rows, renumbered, and of their terms."""
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
    """Yield ranges of terms with about `_ROWS_AT_ONCE` postings each; a term with more is a range of its own."""
    marks = np.searchsorted(starts, np.arange(0, starts[-1], _ROWS_AT_ONCE))
    return pairwise(distinct(np.append(marks, len(starts) - 1)).tolist())


def distinct(numbers: NDArray[Number]) -> NDArray[Number]:
    """Return the distinct values, ascending; `np.unique` imports `numpy.ma` on its first call, which takes 8 ms."""
    ordered = np.sort(numbers)
    return np.concatenate((ordered[:1], ordered[1:][ordered[1:] != ordered[:-1]]))


# BM25 over posting lists: the exact best rows, without reading rows that cannot be among them.
#
# Terms are read from the rarest on, and their rows' scores are summed in one array. A term adds at most `idf * 2.2`;
# so once the best rows found so far score more than all remaining terms could add together, no row without any of the
# terms read can be among the best, and remaining terms are looked up only for candidate rows (MaxScore: Turtle and
# Flood, "Query evaluation: strategies and optimizations", 1995). Every row's score is summed in the same order, so
# equal rows have equal scores.

Slots = NDArray[np.int64]

# Up to this many postings, reading them is faster than finding out whether they are needed.
_FEW = 4_000
# Looking up one row in a posting list takes as long as reading this many of its postings.
_LOOKUP = 8
# Relative rounding error of a score; bounds are off by at most this much.
_ROUNDING = 1e-9
# The least score of a row that holds any term.
_LEAST = float(np.finfo(np.float64).tiny)
# Share of all rows; if fewer rows were touched, they are kept as a list instead of searched for in the array.
_SMALL_SHARE = 1 / 64


@dataclass(frozen=True, slots=True)
class TermPostings:
    """The `size` rows that hold a term, in all segments; `weight` is the most that the term can add to a score.

    `parts` holds, per segment: the segment, the number of its first row among all, and its range of postings.
    """

    weight: float
    size: int
    parts: tuple[tuple[Segment, int, int, int], ...]


def rank_rows(
    terms: Sequence[TermPostings], lengths: NDArray[np.float32], mean_length: float, limit: int
) -> tuple[Slots, NDArray[np.float64]]:
    """Return the best rows, in no order, and their scores; more than `limit` only if their scores are equal.

    Terms are sorted from the rarest on. `lengths` are those of all rows, infinite for rows to exclude; `mean_length` is
    the mean over rows that count.
    """
    scoring = _Scoring(lengths, mean_length, limit)
    total = left = sum(term.weight for term in terms)
    wanted: Slots | None = None
    for group in _grouped(terms):
        left -= sum(term.weight for term in group)
        scoring.add(group, wanted)
        if wanted is not None:
            wanted = scoring.narrow(wanted, left)
        elif _ROUNDING * total < left < total - left:
            wanted = scoring.settle(left)
    return scoring.best(wanted)


def _grouped(terms: Sequence[TermPostings]) -> Iterator[list[TermPostings]]:
    """Yield groups of terms that are read at once: several where they have few postings."""
    group: list[TermPostings] = []
    for term in terms:
        if group and sum(item.size for item in group) + term.size > _FEW:
            yield group
            group = []
        group.append(term)
    if group:
        yield group


def _read(
    terms: Sequence[TermPostings], wanted: Slots | None
) -> tuple[Slots, NDArray[np.float64], NDArray[np.float64]]:
    """Return rows, how often each holds a term, and the term's weight; of `wanted` rows (ascending) at least all."""
    slots: list[NDArray[np.uint32]] = []
    counts: list[NDArray[np.uint16]] = []
    kinds: list[tuple[int, float]] = []
    for term in terms:
        for segment, base, begin, end in term.parts:
            held, numbers = segment.postings(begin, end)
            if wanted is not None:
                first, last = wanted.searchsorted((base, base + len(segment.keys)))
                if (last - first) * _LOOKUP < len(held):
                    asked = (wanted[first:last] - base).astype(np.uint32)
                    places = np.minimum(held.searchsorted(asked), len(held) - 1)
                    places = places[held[places] == asked]
                    held, numbers = held[places], numbers[places]
            slots.append(held)
            counts.append(numbers)
            kinds.append((base, term.weight))
    sizes = [len(held) for held in slots]
    rows = np.concatenate(slots).astype(np.int64)
    rows += np.repeat([base for base, _ in kinds], sizes)
    return rows, np.concatenate(counts).astype(np.float64), np.repeat([weight for _, weight in kinds], sizes)


class _Scoring:
    """The scores of all rows as far as they are known."""

    def __init__(self, lengths: NDArray[np.float32], mean_length: float, limit: int) -> None:
        self._lengths = lengths
        self._limit = limit
        self._per_length = K1 * B / mean_length
        self._scores = np.zeros(len(lengths), np.float64)
        self._touched: list[Slots] | None = []
        # A lower bound for the score of the last of the best rows.
        self._least = 0.0

    def add(self, terms: Sequence[TermPostings], wanted: Slots | None) -> None:
        """Add the scores of terms; if `wanted` is given, at least for these rows."""
        slots, counts, weights = _read(terms, wanted)
        divisors = np.multiply(self._lengths.take(slots), self._per_length, dtype=np.float64)
        divisors += K1 * (1 - B)
        divisors += counts
        counts *= weights
        counts /= divisors
        np.add.at(self._scores, slots, counts)
        if self._touched is not None:
            self._touched.append(slots)
            if sum(map(len, self._touched)) > len(self._lengths) * _SMALL_SHARE:
                self._touched = None

    def settle(self, left: float) -> Slots | None:
        """Return the candidate rows, if other terms add at most `left`; None if any row may be among the best."""
        found = self._at_least(self._least)
        if len(found) < self._limit:
            return None
        self._least = _last_of_best(self._scores.take(found), self._limit)
        return self._at_least(self._threshold(left)) if self._threshold(left) > 0 else None

    def narrow(self, wanted: Slots, left: float) -> Slots:
        """Return those of the wanted rows that may still be among the best."""
        values = self._scores.take(wanted)
        if len(wanted) > self._limit:
            self._least = max(self._least, _last_of_best(values, self._limit))
        return wanted[values >= self._threshold(left)]

    def best(self, wanted: Slots | None) -> tuple[Slots, NDArray[np.float64]]:
        """Return the best rows, once all terms were added."""
        found = self._at_least(self._least) if wanted is None else wanted
        values = self._scores.take(found)
        if len(found) > self._limit:
            kept = values >= _last_of_best(values, self._limit)
            found, values = found[kept], values[kept]
        return found, values

    def _threshold(self, left: float) -> float:
        return self._least - left - _ROUNDING * self._least

    def _at_least(self, score: float) -> Slots:
        """Return the rows with at least that score, and more than 0, ascending."""
        least = max(score, _LEAST)
        if self._touched is None:
            return np.flatnonzero(self._scores >= least)
        if not self._touched:
            return np.empty(0, np.int64)
        found = np.sort(np.concatenate(self._touched))
        values = self._scores.take(found)
        return found[(np.diff(found, prepend=-1) > 0) & (values >= least)]


def _last_of_best(values: NDArray[np.float64], limit: int) -> float:
    place = len(values) - limit
    return float(np.partition(values, place)[place])


# A segment is merged with the next one when that has grown to this fraction of it.
_GROWN = 1 / 2
# Fraction of a segment's rows; a segment with more removed rows is rewritten.
_MOST_DEAD = 1 / 4


class PostingIndex:
    """Rows by key. Searches may run in other threads during a change; changes run one at a time."""

    def __init__(self, segments: Sequence[Segment] = ()) -> None:
        self._moment = _Moment(tuple(segments))

    @classmethod
    def load(cls, path: Path, marks: Container[str] = ("",)) -> PostingIndex:
        """Return the index in a file; it is read as it is used, and the file may be replaced meanwhile.

        Raises:
            OSError: It cannot be read.
            ValueError: It is damaged, of another format, or its mark is none of these.
        """
        segments, mark = read_segments(path)
        if mark not in marks:
            raise ValueError("it was written for another store, or by a process that did not say so")
        return cls(segments)

    def read_whole(self) -> None:
        """Verify the checksums of all postings; raises `IndexError` if some differ."""
        for segment in self._moment.segments:
            segment.postings(0, len(segment.slots))

    def save(self, path: Path, mark: str = "") -> None:
        """Write this index to a file, replacing it, under a mark that `load` checks.

        Raises:
            OSError: It cannot be written; the previous file is kept.
        """
        write_segments(path, self._moment.segments, mark)

    def fork(self) -> PostingIndex:
        """Return an index of the same rows; this one does not see its changes."""
        return PostingIndex(self._moment.segments)

    def __len__(self) -> int:
        return self._moment.rows

    def __contains__(self, key: int) -> bool:
        return self.count(np.array([key], np.int64)) > 0

    def count(self, keys: Keys) -> int:
        """Return how many of these distinct keys are in the index."""
        return sum(len(segment.find_slots(keys)) for segment in self._moment.segments)

    def add(self, rows: Iterable[tuple[int, Sequence[str]]]) -> None:
        """Upsert rows, each a key and its terms with repeats."""
        latest = dict(rows)
        if not latest:
            return
        new = build_segment(list(latest), list(latest.values()))
        self._moment = _Moment(_joined([*_without(self._moment.segments, new.keys), new]))

    def remove(self, keys: Keys) -> None:
        """Remove the rows under these keys."""
        self._moment = _Moment(_joined(_without(self._moment.segments, keys)))

    def search(
        self, terms: Iterable[str], limit: int, allowed: KeySet | None = None
    ) -> tuple[Keys, NDArray[np.float64]]:
        """Return keys and scores of the best rows that hold any of the terms, best first, ties by key.

        Each term counts once, and its rarity is measured over all rows, not only the `allowed` ones. More than `limit`
        are returned only if they score as much as the last of these.
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
    """The segments at one moment, with their rows numbered consecutively."""

    def __init__(self, segments: tuple[Segment, ...]) -> None:
        self.segments = segments
        self.bases = np.cumsum([0, *(len(segment.keys) for segment in segments)])
        self.rows = sum(map(len, segments))
        # Rows without any terms have no length; avoid division by a mean of 0.
        self.mean_length = max(sum(segment.total_length for segment in segments) / max(self.rows, 1), 1e-9)
        self._among: WeakKeyDictionary[KeySet, NDArray[np.float32]] = WeakKeyDictionary()

    @cached_property
    def lengths(self) -> NDArray[np.float32]:
        """Return the length of every row; removed rows have infinite length and so score 0."""
        lengths = np.concatenate([segment.lengths for segment in self.segments])
        for base, segment in zip(self.bases.tolist(), self.segments, strict=False):
            lengths[segment.dead.astype(np.int64) + base] = np.inf
        return lengths

    def lengths_of(self, allowed: KeySet | None) -> NDArray[np.float32]:
        """Return the lengths of the rows under some keys, infinite for others; cached as long as the set lives."""
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
        """Return the postings of those terms that occur, the rarest first."""
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
        """Return the keys of rows, given their numbers."""
        keys = np.empty(len(slots), np.int64)
        places = np.searchsorted(self.bases, slots, side="right") - 1
        for place in np.flatnonzero(np.bincount(places)).tolist():
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
    """Return segments, each larger than the ones after it; others are merged."""
    kept: list[Segment] = []
    for segment in segments:
        last, rows = [segment], len(segment.keys)
        while kept and len(kept[-1].keys) * _GROWN < rows:
            last.insert(0, kept.pop())
            rows += len(last[0].keys)
        kept.append(merge_segments(last) if len(last) > 1 else segment)
    return tuple(kept)
