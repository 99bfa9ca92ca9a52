"""BM25 (Robertson and Zaragoza 2009): its numbers, which all back ends share with SQLite's FTS5, and scoring by them.

Also which terms chunks and entities are found by.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heliograph.models import Chunk, Entity
from heliograph.stores.changeset import TextEntry
from heliograph.text.analysis import chunk_index_text, terms

K1, B = 1.2, 0.75


def inverse_frequency(rows: float, total: float) -> float:
    """Return the idf of a term in `rows` of `total` rows: `ln((N - n + 0.5) / (n + 0.5))`, at least a millionth."""
    value = math.log(max(1e-9, total - rows + 0.5) / (rows + 0.5))
    return value if value > 0 else 1e-6


# The terms by which chunks and entities are found, which follow from what the store with the truth holds of them.
#
# Whoever commits sends these terms, and a store beside it is given them made again: neither needs what the other
# keeps.


def chunk_terms(title: str, chunk: Chunk) -> TextEntry:
    """Return the terms of a chunk under its document's title; takes CPU time in proportion to its text."""
    return TextEntry(chunk.id, tuple(terms(chunk_index_text(title, chunk))))


def entity_terms(entity: Entity) -> TextEntry:
    """Return the terms by which an entity is found: those of its name and of its aliases."""
    found = [term for name in (entity.name, *entity.aliases) for term in terms(name)]
    return TextEntry(entity.id, tuple(found))


# BM25 over postings that a server keeps by number of row: arrays in, rows by score out.

_FIELDS = 3
# Numbers that lie so densely are added up without sorting.
_DENSE = 20


@dataclass(frozen=True, slots=True)
class Question:
    """What is known of the terms that were asked for.

    Attributes:
        terms: Those that any row holds.
        weights: Their idf.
        mean_length: Terms of a row on the average.
    """

    terms: tuple[bytes, ...]
    weights: tuple[float, ...]
    mean_length: float


@dataclass(frozen=True, slots=True)
class Scores:
    """Rows and their scores.

    Attributes:
        numbers: `(n,)` int64, ascending, or best first where they were ranked.
        scores: `(n,)` float64.
    """

    numbers: NDArray[np.int64]
    scores: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.numbers)

    def only(self, numbers: NDArray[np.int64]) -> Scores:
        """Return those of the rows with these numbers."""
        kept = np.isin(self.numbers, numbers)
        return Scores(self.numbers[kept], self.scores[kept])

    def best(self, count: int) -> Scores:
        """Return at least so many, if there are, best first, ties by number; all that score as the last are there."""
        numbers, scores = self.numbers, self.scores
        if count < len(scores):
            kept = np.flatnonzero(scores >= np.partition(scores, -count)[-count])
            numbers, scores = numbers[kept], scores[kept]
        order = np.argsort(-scores, kind="stable")
        return Scores(numbers[order], scores[order])


def read_records(data: bytes) -> NDArray[np.uint32]:
    """Return the records of a string of twelve bytes each that are not void: `(n, 3)` of number, count and length."""
    records = np.frombuffer(data, "<u4").reshape(-1, _FIELDS)
    there = records[:, 1] > 0
    return records if there.all() else records[there]


def score_rows(question: Question, records: Sequence[NDArray[Any]]) -> Scores:
    """Return all rows in these records, an array `(n, 3)` of number, count and length per term of the question."""
    numbers = np.concatenate([of_term[:, 0] for of_term in records]).astype(np.int64)
    gains = [
        _gains(weight, of_term[:, 1].astype(np.float64), of_term[:, 2].astype(np.float64), question.mean_length)
        for weight, of_term in zip(question.weights, records, strict=True)
    ]
    if not len(numbers):
        return Scores(numbers, np.empty(0, np.float64))
    first, last = int(numbers.min()), int(numbers.max())
    if last - first < _DENSE * len(numbers):
        # Adding up in place takes a tenth of the time of sorting. No gain is 0.
        scores = np.bincount(numbers - first, np.concatenate(gains)).astype(np.float64)
        held = np.flatnonzero(scores)
        return Scores(held + first, scores[held])
    rows, places = np.unique(numbers, return_inverse=True)
    return Scores(rows, np.bincount(places, np.concatenate(gains), len(rows)).astype(np.float64))


def score_terms(question: Question, terms: Sequence[bytes]) -> float:
    """Return the score of a row, given its terms."""
    score = 0.0
    for term, weight in zip(question.terms, question.weights, strict=True):
        if count := terms.count(term):
            norm = K1 * (1 - B + B * len(terms) / question.mean_length)
            score += weight * count * (K1 + 1) / (count + norm)
    return score


def _gains(
    weight: float, counts: NDArray[np.float64], lengths: NDArray[np.float64], mean_length: float
) -> NDArray[np.float64]:
    norm = K1 * (1 - B + B * lengths / mean_length)
    return weight * counts * (K1 + 1) / (counts + norm)
