"""One question to full text in Redis: reads postings, ranks rows, and names the best of them.

Rows are ranked by number, and named from the best on until there are enough; equals at the end are all named, so that
they can be ordered by id.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from heliograph.stores.base import Hit
from heliograph.stores.bm25 import inverse_frequency
from heliograph.stores.changeset import Collection
from heliograph.stores.redis.session import Session
from heliograph.stores.redis.text_rows import ask, read_ids, read_rows
from heliograph.stores.redis.text_scripts import FIND
from heliograph.stores.redis.text_write import encode
from heliograph.stores.text_scoring import Question, Scores, read_records, score_rows, score_terms

__all__ = ["Keep", "Narrowing", "search_terms"]

# Returns those of some ids that are wanted.
Keep = Callable[[list[str]], Awaitable[set[str]]]

# Records of twelve bytes that one question reads; all there are, where that gave too few hits.
_MOST_RECORDS = (500_000, 2_000_000_000)
# Rows that are scored by their terms where the records of some terms were not read.
_LEAST_RESCORED, _RESCORED_PER_HIT = 256, 4
# Bytes of records that are ranked at once, in about a millisecond; of more, in a thread.
_MOST_INSTANT = 40_000
_LEAST_NAMED, _MOST_NAMED = 32, 1_000
# Rows put in order at first; the rest where these give too few hits.
_LEAST_RANKED = 1_000
_WIDENING = 2
# Of searches in the course of which rows were written anew.
_TRIES = 3
# Equals at the end of the hits are ordered by id as long as there are no more than this.
_MOST_EQUALS = 4_000


@dataclass(frozen=True, slots=True)
class Narrowing:
    """Which rows may be hits.

    Attributes:
        numbers: Numbers of the rows to choose from; None means all.
        keep: Returns those of some ids that are wanted; None wants all.
    """

    numbers: NDArray[np.int64] | None = None
    keep: Keep | None = None


async def search_terms(
    session: Session, collection: Collection, terms: Sequence[str], limit: int, narrowing: Narrowing
) -> list[Hit]:
    """Return the best rows that hold any of the terms, as `TextStore.search` does.

    Args:
        session: Reads.
        collection: Where to look.
        terms: Distinct, at least one.
        limit: Hits at the most, at least one.
        narrowing: Which rows may be hits.
    """
    encoded = [encode(term) for term in terms]
    search, hits, tries = _Search(session, collection, limit, narrowing), list[Hit](), 0
    for most in _MOST_RECORDS:
        hits = await search.run(encoded, most)
        while search.has_moved and tries < _TRIES:
            hits, tries = await search.run(encoded, most), tries + 1
        if len(hits) >= limit or search.is_whole:
            break
    return hits


class _Search:
    """One question.

    Attributes:
        is_whole: Whether all postings were read.
        has_moved: Whether a row went, or got another number, before it was named.
    """

    def __init__(self, session: Session, collection: Collection, limit: int, narrowing: Narrowing) -> None:
        self._session = session
        self._collection = collection
        self._limit = limit
        self._narrowing = narrowing
        self.is_whole = True
        self.has_moved = False

    async def run(self, terms: Sequence[bytes], most: int) -> list[Hit]:
        """Return hits from so many records."""
        self.is_whole, self.has_moved = True, False
        found = await ask(self._session, FIND, self._collection, most, self._limit, *terms)
        total, length, lives, sizes, postings = found
        held = [place for place, rows in enumerate(lives) if rows]
        if not held:
            return []
        weights = tuple(inverse_frequency(lives[place], total) for place in held)
        question = Question(tuple(terms[place] for place in held), weights, max(length / total, 1e-9))
        scores = await self._score(question, [postings[place] for place in held])
        self.is_whole = all(len(postings[place]) // 12 == sizes[place] for place in held)
        if not self.is_whole:
            scores = await self._rescore(question, scores)
        return await self._name(scores)

    async def _score(self, question: Question, postings: Sequence[bytes]) -> Scores:
        def score() -> Scores:
            scores, numbers = score_rows(question, [*map(read_records, postings)]), self._narrowing.numbers
            return scores if numbers is None else scores.only(numbers)

        return score() if sum(map(len, postings)) <= _MOST_INSTANT else await asyncio.to_thread(score)

    async def _rescore(self, question: Question, scores: Scores) -> Scores:
        """Return the best of the rows by all terms, those too whose records were not read."""
        count = max(_LEAST_RESCORED, _RESCORED_PER_HIT * self._limit)
        numbers = scores.best(count).numbers[:count]
        rows = await read_rows(self._session, self._collection, numbers)
        return Scores(numbers, np.array([score_terms(question, row[1]) if row else 0.0 for row in rows]))

    async def _name(self, scores: Scores) -> list[Hit]:
        hits: list[Hit] = []
        start, count = 0, max(self._limit, _LEAST_NAMED)
        ranking = scores.best(max(_LEAST_RANKED, _WIDENING * count))
        while len(hits) < self._limit:
            if start >= len(ranking):
                if len(ranking) == len(scores):
                    break
                ranking = await asyncio.to_thread(scores.best, len(scores))
            stop = _end_of_equals(ranking.scores, start + count)
            hits += await self._hits(ranking, slice(start, stop))
            start, count = stop, min(_MOST_NAMED, count * _WIDENING)
        return hits[: self._limit]

    async def _hits(self, ranking: Scores, part: slice) -> list[Hit]:
        """Return the hits of a part of a ranking that are there and wanted, best first, ties by id."""
        ids = await read_ids(self._session, self._collection, ranking.numbers[part])
        self.has_moved = self.has_moved or None in ids
        scored = zip(ids, ranking.scores[part].tolist(), strict=True)
        hits = [Hit(id_, score) for id_, score in scored if id_ is not None]
        if self._narrowing.keep is not None:
            kept = await self._narrowing.keep([hit.id for hit in hits])
            hits = [hit for hit in hits if hit.id in kept]
        return sorted(hits, key=lambda hit: (-hit.score, hit.id))


def _end_of_equals(scores: NDArray[np.float64], stop: int) -> int:
    """Return where those end that score as much as the last before `stop`, if that is not too far."""
    if stop >= len(scores):
        return len(scores)
    end = int(np.searchsorted(-scores, -scores[stop - 1], side="right"))
    return end if end - stop <= _MOST_EQUALS else stop
