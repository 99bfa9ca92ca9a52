"""Which rows of a large full-text collection are worth scoring for a question.

Scoring a row costs microseconds, so a question with a frequent term cannot score every row that holds it. What a row
can gain is bounded by the rarity of the terms it holds: BM25 adds `idf * f(count, length)` per term, with f between 0
and 2.2. So rows are taken by the sum of the idf of the terms they hold, from the top down until there are enough; a
row with one frequent term is left out where enough rows hold rarer ones. This is the idea of WAND (Broder et al., CIKM
2003) with a threshold that is chosen before scoring, since FTS5 intersects posting lists quickly but cannot skip by
score. Pure: term frequencies in, FTS5 expressions out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from heliograph.stores.bm25 import inverse_frequency

__all__ = ["CandidatePlans", "TermFrequency", "quote"]

# Terms that decide which rows are candidates; 2^12 combinations are looked at.
_MOST_DECIDING = 12
# Combinations of terms in one expression, each an intersection of its own.
_MOST_COMBINATIONS = 24
# Postings read by intersections, at about 0.1 microseconds each.
_MOST_POSTINGS = 120_000
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class TermFrequency:
    """A term and in how many rows it occurs, counted or estimated; at least 1."""

    term: str
    rows: float


class CandidatePlans:
    """Choices of candidates, numbered from 0: the fewest rows first, each a superset of the one before.

    A choice is a threshold: the rows whose terms have at least that sum of idf. Number 0 is the rows that hold all
    deciding terms. Terms in more than half of the rows decide nothing, unless there is no other.

    Attributes:
        thresholds: Per choice, descending.
        rows: Per choice, how many rows that is if terms occur independently of each other.
    """

    def __init__(self, terms: Sequence[TermFrequency], total: float) -> None:
        """Work the choices out.

        Args:
            terms: Distinct terms, at least one.
            total: Rows in the collection.
        """
        chosen = sorted(terms, key=lambda item: item.rows)[:_MOST_DECIDING]
        self._terms = [item for item in chosen if item.rows <= total / 2] or chosen[:1]
        self._weights = np.array([inverse_frequency(item.rows, total) for item in self._terms])
        self._frequencies = np.array([item.rows for item in self._terms])
        combinations = np.arange(1, 1 << len(self._terms))
        self._holds = (combinations[:, None] >> np.arange(len(self._terms)) & 1) == 1
        self._sums = self._holds @ self._weights
        shares: NDArray[np.float64] = np.minimum(1.0, self._frequencies / total)
        exactly = total * np.where(self._holds, shares, 1.0 - shares).prod(axis=1)
        order = np.argsort(-self._sums, kind="stable")
        self.thresholds = (self._sums[order] - _ROUNDING).tolist()
        self.rows = np.cumsum(exactly[order]).tolist()

    def __len__(self) -> int:
        return len(self.rows)

    def expression(self, choice: int) -> str:
        """Return the FTS5 expression whose rows are the candidates of a choice."""
        return _expression([quote(item.term) for item in self._terms], self._weights.tolist(), self.thresholds[choice])

    def is_cheap(self, choice: int) -> bool:
        """Whether a choice needs few intersections, whose rarest terms are rare enough.

        They are those of the smallest combinations that reach the threshold: without any one of their terms they do
        not.
        """
        threshold = self.thresholds[choice]
        least: NDArray[np.float64] = np.where(self._holds, self._weights, np.inf).min(axis=1)
        smallest = (self._sums >= threshold) & (self._sums - least < threshold)
        rarest = np.where(self._holds[smallest], self._frequencies, np.inf).min(axis=1)
        return len(rarest) <= _MOST_COMBINATIONS and float(rarest.sum()) <= _MOST_POSTINGS


def quote(term: str) -> str:
    """Return a term as a string of FTS5's query language."""
    return '"' + term.replace('"', '""') + '"'


def _expression(terms: Sequence[str], weights: Sequence[float], need: float) -> str:
    """Return the expression for "the idf of the terms held adds up to `need`"; empty if all of them do not."""
    if sum(weights) < need:
        return ""
    left = need - weights[0]
    others = _expression(terms[1:], weights[1:], left) if left > 0 else ""
    with_first = f"({terms[0]} AND {others})" if left > 0 else terms[0]
    without = _expression(terms[1:], weights[1:], need)
    return f"({with_first} OR {without})" if without else with_first
