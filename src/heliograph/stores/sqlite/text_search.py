"""Finds what holds any of some terms by BM25, in time that hardly grows with the collection.

Few rows: FTS5 ranks them all. Many: frequencies are counted up to a bound and estimated beyond it from windows of rows
spread over the collection; `text_plan` chooses candidates; these are scored exactly, by all terms. What is left out
holds only terms so frequent that enough rows hold rarer ones too; how often that matters is measured in
`benchmarks/text_scale.py`. Everything reads one moment and writes nothing.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import accumulate

import apsw

from heliograph.stores.bm25 import inverse_frequency
from heliograph.stores.sqlite.sql import Row, fetch, fetch_value
from heliograph.stores.sqlite.text_frequencies import Frequencies
from heliograph.stores.sqlite.text_plan import CandidatePlans, TermFrequency, quote
from heliograph.stores.sqlite.text_scoring import SCORE, SIZES, pack_weights, register_scoring

__all__ = ["search_terms"]

# Rows that FTS5 ranks in some 7 ms of CPU time.
_MOST_RANKED = 5_000
# Rows scored one by one, at about 3 microseconds and one more a term.
_SCORED_TERM_ROWS = 24_000
_LEAST_SCORED, _MOST_SCORED = 1_000, 4_000
_SCORED_PER_HIT = 8
# Rows of a term that are counted, in about 2 ms; of more, an estimate is within 2%.
_MOST_COUNTED = 50_000
# Of a longer question the rarest terms are ranked by FTS5: which of many terms meet cannot be planned.
_MOST_PLANNED = 20
_MOST_RANKED_OF_MANY = 40_000
_TOO_MANY = 1.5
# What a term adds to a score, over its idf, where it occurs once in a row of a fifth of the mean length, or twice in
# one of four fifths; at the most it adds 2.2.
_LIKELY_GAIN = 1.5
# Opening one costs more than reading it.
_WINDOWS = 4
# Of each quarter of the collection this part is read.
_WINDOW_PART = 20


def search_terms(
    connection: apsw.Connection, table: str, terms: Sequence[str], limit: int, known: Frequencies | None = None
) -> list[Row]:
    """Return key and score of the best rows that hold any of the terms, best first.

    Args:
        connection: In a transaction.
        table: One of the FTS5 tables.
        terms: Distinct, at least one.
        limit: Rows at the most.
        known: How often terms occur, as far as it was counted before in what the connection reads; more is added.
    """
    known = known or Frequencies()
    count = partial(_count, connection, table, limit=_MOST_RANKED + 1)
    counts = {term: known.get((table, term, "counted"), partial(count, quote(term))) for term in terms}
    held = [term for term in terms if counts[term]]
    if not held:
        return []
    if sum(counts.values()) <= _MOST_RANKED or len(held) == 1:
        return _rank(connection, table, " OR ".join(map(quote, held)), limit)
    if len(held) > _MOST_PLANNED:
        held = _rarest(connection, table, counts)
        return _rank(connection, table, " OR ".join(map(quote, held)), limit)
    return _LargeSearch(connection, table, counts, limit, known).run()


def _rarest(connection: apsw.Connection, table: str, counts: Mapping[str, int]) -> list[str]:
    """Return the rarest terms of a long question, as many as FTS5 ranks in reasonable time."""
    most = _MOST_RANKED_OF_MANY
    rows = {
        term: count if count <= _MOST_RANKED else _count(connection, table, quote(term), most)
        for term, count in counts.items()
        if count
    }
    order = sorted(rows, key=lambda term: rows[term])
    sums = accumulate(rows[term] for term in order)
    return [term for place, (term, total) in enumerate(zip(order, sums, strict=True)) if total <= most or place == 0]


class _LargeSearch:
    """One question to a collection in which its terms occur too often to rank every row."""

    def __init__(
        self, connection: apsw.Connection, table: str, counts: Mapping[str, int], limit: int, known: Frequencies
    ) -> None:
        """Estimate how often the terms occur, unless it is known.

        Args:
            connection: In a transaction.
            table: One of the FTS5 tables.
            counts: Rows per term; counted up to `_MOST_RANKED`, more where there are more.
            limit: Rows wanted.
            known: What was estimated before.
        """
        register_scoring(connection)
        self._connection = connection
        self._table = table
        self._limit = limit
        self._windows = _Windows(connection, table, *known.get((table, "", "ends"), partial(_ends, connection, table)))
        held = {term: count for term, count in counts.items() if count}
        self._rows, length = known.get(
            (table, "", "sizes"), partial(_sizes, connection, table, quote(next(iter(held))))
        )
        self._mean_length = length / self._rows
        terms = [
            TermFrequency(term, known.get((table, term), partial(self._frequency, term, count)))
            for term, count in held.items()
        ]
        self._terms = terms
        # Terms in more than half of the rows tell nothing, and reading them costs most.
        self._telling = [item for item in terms if item.rows <= self._rows / 2] or terms
        self._plans = CandidatePlans(terms, self._rows)
        most = max(_LEAST_SCORED, min(_MOST_SCORED, _SCORED_TERM_ROWS // len(self._telling)))
        self._budget = max(most, _SCORED_PER_HIT * limit)

    def run(self) -> list[Row]:
        """Return the best rows, as many as there are up to the limit."""
        plans = self._plans
        first = next((place for place, rows in enumerate(plans.rows) if rows >= 2 * self._limit), 0)
        if first == 0 and self._estimate(0) > _TOO_MANY * self._budget:
            return _rank(self._connection, self._table, plans.expression(0), self._limit)
        place = self._widest(first)
        found, is_cut = self._score(plans.expression(place), self._most(plans.rows[place]))
        if is_cut:
            # Only some of its rows were looked at, in no order that means anything: the better part of them is scored
            # as a whole, and the others come behind.
            smaller = plans.expression(self._fitting(place))
            found = self._merged(found, self._score(smaller, self._most(0))[0])
        if len(found) < self._limit:
            self._telling = self._terms
            anything = " OR ".join(quote(item.term) for item in self._terms)
            found = self._merged(found, self._score(anything, self._most(self._rows))[0])
        return found

    def _widest(self, first: int) -> int:
        """Return the choice to score: the largest of which a row may yet be among the best, if that is not too dear."""
        plans = self._plans
        # What has less idf than this could not come among the rows of the first choice, which are enough.
        needed = plans.thresholds[first] / _LIKELY_GAIN
        within = range(first + 1, len(plans))
        useful = (place for place in within if plans.rows[place] <= self._budget and plans.thresholds[place] >= needed)
        return max((place for place in useful if plans.is_cheap(place)), default=first)

    def _most(self, expected: float) -> int:
        """Return how many rows to score where so many are expected; of far too many, only some."""
        most = _TOO_MANY * self._budget if expected <= _TOO_MANY * self._budget else self._budget / 2
        return max(int(most), 2 * self._limit)

    def _merged(self, found: Sequence[Row], others: Sequence[Row]) -> list[Row]:
        best = heapq.nsmallest(self._limit, ((-score, key) for key, score in dict([*found, *others]).items()))
        return [(key, -score) for score, key in best]

    def _frequency(self, term: str, count: int) -> float:
        if count <= _MOST_RANKED:
            return float(count)
        estimate = self._windows.estimate(quote(term))
        if estimate > _MOST_COUNTED:
            return estimate
        return float(_count(self._connection, self._table, quote(term), 2 * _MOST_COUNTED))

    def _fitting(self, place: int, least: int = 0) -> int:
        """Return the choice, or a smaller one if terms that belong together meet more often than chance has it."""
        plans = self._plans
        while place > least and self._estimate(place) > _TOO_MANY * self._budget:
            aim = min(self._budget, plans.rows[place]) / 2
            place = max((smaller for smaller in range(least, place) if plans.rows[smaller] <= aim), default=least)
        return place

    def _estimate(self, place: int) -> float:
        return self._windows.estimate(self._plans.expression(place))

    def _score(self, candidates: str, most: int) -> tuple[list[Row], bool]:
        """Return the best of the first `most` rows of an expression, and whether it has more."""
        telling = self._telling
        weights = [inverse_frequency(item.rows, self._rows) for item in telling]
        # The left side finds rows; the right side holds wherever the left does, and adds what else is to be scored.
        expression = f"({candidates}) AND ({' OR '.join(quote(item.term) for item in telling)})"
        query = f"SELECT rowid, {SCORE}({self._table}, ?) FROM {self._table} WHERE {self._table} MATCH ? LIMIT ?"
        packed = pack_weights(weights, self._mean_length, self._limit)
        rows = fetch(self._connection, query, (packed, expression, most))
        best = heapq.nsmallest(self._limit, ((-row[1], row[0]) for row in rows if row[1] is not None))
        return [(key, -score) for score, key in best], len(rows) >= most


class _Windows:
    """Parts of the collection, spread evenly, from which the size of a result is estimated."""

    def __init__(self, connection: apsw.Connection, table: str, first: int, last: int) -> None:
        self._connection = connection
        self._table = table
        part = (last - first + 1) / _WINDOWS
        self._size = max(1, int(part / _WINDOW_PART))
        self._starts = [first + int(part * (place + 0.5)) for place in range(_WINDOWS)]
        self._scale = (last - first + 1) / (self._size * _WINDOWS)

    def estimate(self, expression: str) -> float:
        """Return about how many rows an expression finds, at least 1."""
        query = f"SELECT count(*) FROM {self._table} WHERE {self._table} MATCH ? AND rowid BETWEEN ? AND ?"
        counts = (
            fetch_value(self._connection, query, (expression, start, start + self._size - 1)) for start in self._starts
        )
        return max(1.0, self._scale * sum(counts))


def _ends(connection: apsw.Connection, table: str) -> tuple[int, int]:
    """Return the first and the last key of a table, which must not be empty."""
    first, last = (int(fetch_value(connection, f"SELECT {end}(id) FROM {table}_docsize")) for end in ("min", "max"))
    return first, last


def _rank(connection: apsw.Connection, table: str, expression: str, limit: int) -> list[Row]:
    # Sorted here and not by FTS5 ("ORDER BY rank"), which keeps for every row where in it the terms stand.
    query = f"SELECT rowid, -rank AS score FROM {table} WHERE {table} MATCH ? ORDER BY +score DESC, rowid LIMIT ?"
    return fetch(connection, query, (expression, limit))


def _count(connection: apsw.Connection, table: str, expression: str, limit: int) -> int:
    query = f"SELECT count(*) FROM (SELECT 1 FROM {table} WHERE {table} MATCH ? LIMIT ?)"
    return int(fetch_value(connection, query, (expression, limit)))


def _sizes(connection: apsw.Connection, table: str, expression: str) -> tuple[float, float]:
    found = fetch_value(
        connection, f"SELECT {SIZES}({table}) FROM {table} WHERE {table} MATCH ? LIMIT 1", (expression,)
    )
    rows, length = str(found).split()
    return float(rows), float(length)
