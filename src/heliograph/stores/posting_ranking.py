"""BM25 over posting lists: the best rows exactly, without reading what cannot be among them.

Terms are taken from the rarest on, and their rows' scores added up in one array. A term adds at most `idf * 2.2`; so
once the best rows found so far have more than all further terms could add together, no row without any of the terms
read can be among the best, and further terms are looked up only for rows that may be (MaxScore: Turtle and Flood,
"Query evaluation: strategies and optimizations", 1995). Every row's score is summed in the same order, so equal rows
have equal scores.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from heliograph.stores.bm25 import K1, B
from heliograph.stores.posting_segments import Segment

Slots = NDArray[np.int64]

# So many postings are read sooner than it is found out whether they must be.
_FEW = 4_000
# A row is looked up in a list in the time in which so many of its postings are read.
_LOOKUP = 8
# Of a score; bounds are that much off at the most.
_ROUNDING = 1e-9
# What a row that holds anything scores at least.
_LEAST = float(np.finfo(np.float64).tiny)
# Of all rows; where fewer were touched, they are listed and not looked for.
_SMALL_SHARE = 1 / 64


@dataclass(frozen=True, slots=True)
class TermPostings:
    """The rows that hold a term, in all segments.

    Attributes:
        weight: The most that the term can add to a score.
        size: Postings.
        parts: Segment, number of its first row among all, and where its postings begin and end.
    """

    weight: float
    size: int
    parts: tuple[tuple[Segment, int, int, int], ...]


def rank_rows(
    terms: Sequence[TermPostings], lengths: NDArray[np.float32], mean_length: float, limit: int
) -> tuple[Slots, NDArray[np.float64]]:
    """Return the rows with the best scores, in no order, and the scores; more than `limit` only if they are equal.

    Args:
        terms: The rarest first.
        lengths: Of all rows; infinite for those that are not to be found.
        mean_length: Of those that count.
        limit: Rows wanted, at least 1.
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
    """Yield terms that are read at once: several where they have few postings."""
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
    """Return rows, how often each holds a term, and the term's weight; of some rows at least `wanted` (ascending)."""
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
    """Scores of all rows as far as they are known."""

    def __init__(self, lengths: NDArray[np.float32], mean_length: float, limit: int) -> None:
        self._lengths = lengths
        self._limit = limit
        self._per_length = K1 * B / mean_length
        self._scores = np.zeros(len(lengths), np.float64)
        self._touched: list[Slots] | None = []
        # No more than the last of the best rows will have.
        self._least = 0.0

    def add(self, terms: Sequence[TermPostings], wanted: Slots | None) -> None:
        """Add what terms bring, if wanted rows are given at least to these."""
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
        """Return the rows that may be among the best, where others add `left` at most; None if any row may be."""
        found = self._at_least(self._least)
        if len(found) < self._limit:
            return None
        self._least = _last_of_best(self._scores.take(found), self._limit)
        return self._at_least(self._threshold(left)) if self._threshold(left) > 0 else None

    def narrow(self, wanted: Slots, left: float) -> Slots:
        """Return those of the wanted rows that may yet be among the best."""
        values = self._scores.take(wanted)
        if len(wanted) > self._limit:
            self._least = max(self._least, _last_of_best(values, self._limit))
        return wanted[values >= self._threshold(left)]

    def best(self, wanted: Slots | None) -> tuple[Slots, NDArray[np.float64]]:
        """Return the best of the rows, when all terms were added."""
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
