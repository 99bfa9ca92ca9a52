"""Full text on PostgreSQL: postings are read as arrays, ranked by exact BM25 in this process, and the best rows named.

Terms are taken as they are, no dictionary of the server sees them. A search is two round trips. Of terms that together
occur very often the rarest are ranked by; the others count for the best of what holds those. Phrases are found by a
`tsvector` of the same terms.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from heliograph.stores.base import Hit, TextStore
from heliograph.stores.bm25 import inverse_frequency
from heliograph.stores.changeset import Collection
from heliograph.stores.postgres.codec import to_json
from heliograph.stores.postgres.database import Database
from heliograph.stores.postgres.session import Row
from heliograph.stores.postgres.text_write import TERMS_TABLES, mark
from heliograph.stores.text_scoring import Question, Scores, score_rows, score_terms

_MAX_TERMS = 256
# Records that one question reads; all there are, where that gave too few hits.
_MOST_RECORDS = (500_000, 2_000_000_000)
# Records that are ranked at once, in about a millisecond; more are, in a thread.
_MOST_INSTANT = 5_000
# Rows that are scored by their terms where the records of some terms were not read.
_LEAST_RESCORED, _RESCORED_PER_HIT = 256, 4
# Equals at the end of the hits are ordered by id as long as there are no more than this.
_MOST_EQUALS = 4_000
# Of searches in the course of which rows were written anew.
_TRIES = 3
# Rows read for a phrase that very many hold, where fewer are wanted.
_MOST_PHRASE_ROWS = 1_000
_HEADER_BYTES = 20
_ELEMENT = np.dtype([("bytes", ">i4"), ("record", ">i8")])
# Segments without records are left where rows went.
_FIND = """
WITH held AS (
  SELECT term, sum(cardinality(records)) AS rows FROM heliograph_posting
  WHERE workspace = %s AND collection = %s AND term = ANY (ARRAY(SELECT json_array_elements_text(%s))) GROUP BY term
), chosen AS (
  SELECT term, rows::bigint AS rows, sum(rows) OVER rarest <= %s OR row_number() OVER rarest = 1 AS is_read
  FROM held WHERE rows > 0 WINDOW rarest AS (ORDER BY rows, term)
)
SELECT size.rows, size.terms, chosen.term, chosen.rows, array_send(posting.records)
FROM heliograph_text_size AS size LEFT JOIN chosen ON true
LEFT JOIN heliograph_posting AS posting ON chosen.is_read AND posting.workspace = size.workspace
  AND posting.collection = size.collection AND posting.term = chosen.term AND posting.records <> '{}'
WHERE size.workspace = %s AND size.collection = %s"""
_NAMES = """SELECT number, id, {terms} FROM {table}
  WHERE workspace = %s AND number = ANY (ARRAY(SELECT json_array_elements_text(%s)::bigint))"""
_PHRASES = """
SELECT phrase.place, held.id FROM ROWS FROM (json_to_recordset(%s) AS (query text, needle text))
  WITH ORDINALITY AS phrase (query, needle, place)
CROSS JOIN LATERAL (
  SELECT id FROM (
    SELECT id FROM {table}
    WHERE workspace = %s AND lexemes @@ phrase.query::tsquery AND strpos(terms, phrase.needle) > 0 LIMIT %s
  ) AS met ORDER BY id LIMIT %s
) AS held ORDER BY phrase.place, held.id"""


class PostgresTextStore(TextStore):
    """Two tables of terms."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def search(self, collection: Collection, terms: Sequence[str], limit: int) -> list[Hit]:
        """See `TextStore`; a question is cut at 256 distinct terms."""
        return await search_terms(self._database.fetch, self._database.workspace, collection, terms, limit)

    async def find_phrases(
        self, collection: Collection, phrases: Sequence[Sequence[str]], limit: int
    ) -> list[list[str]]:
        """See `TextStore`; the first by id are returned, of the first thousand where very many hold a phrase.

        Terms of a phrase after the 256th are not looked for.
        """
        return await find_phrases(self._database.fetch, self._database.workspace, collection, phrases, limit)


class Fetch(Protocol):
    """Runs one statement; `Database.fetch` or `Session.fetch`."""

    def __call__(
        self, query: str, values: Sequence[Any] = (), *, is_planned_anew: bool = False
    ) -> Awaitable[list[Row]]:
        """Return its rows."""
        ...


async def search_terms(
    fetch: Fetch, workspace: str, collection: Collection, terms: Sequence[str], limit: int
) -> list[Hit]:
    """Return the best rows that hold any of the terms, as `TextStore.search` does."""
    wanted = list(dict.fromkeys(terms))[:_MAX_TERMS]
    if not wanted or limit < 1 or collection not in TERMS_TABLES:
        return []
    hits, is_whole = list[Hit](), False
    for most in _MOST_RECORDS:
        for _ in range(_TRIES):
            hits, is_whole, has_moved = await _rank(fetch, workspace, collection, wanted, limit, most)
            if not has_moved:
                break
        if len(hits) >= limit or is_whole:
            break
    return hits


async def _rank(
    fetch: Fetch, workspace: str, collection: Collection, terms: Sequence[str], limit: int, most: int
) -> tuple[list[Hit], bool, bool]:
    """Return hits from so many records, whether all records were read, and whether a row went meanwhile."""
    of = workspace, collection.value
    rows = await fetch(_FIND, (*of, to_json(terms), most, *of), is_planned_anew=True)
    frequencies: dict[str, int] = {term: count for _, _, term, count, _ in rows if term is not None}
    if not frequencies:
        return [], True, False
    total, length = rows[0][:2]
    segments: dict[str, list[bytes]] = {term: [] for term in frequencies}
    for *_, term, _, records in rows:
        if records is not None:
            segments[term].append(records)
    question = Question(
        tuple(term.encode() for term in frequencies),
        tuple(inverse_frequency(count, total) for count in frequencies.values()),
        max(length / total, 1e-9),
    )

    def score() -> Scores:
        return score_rows(question, [_records(parts) for parts in segments.values()])

    read = sum(frequencies[term] for term, parts in segments.items() if parts)
    is_whole = read == sum(frequencies.values())
    scores = score() if read <= _MOST_INSTANT else await asyncio.to_thread(score)
    count = limit if is_whole else max(limit * _RESCORED_PER_HIT, _LEAST_RESCORED)
    best = scores.best(count)
    numbers = best.numbers[: count + _MOST_EQUALS].tolist()
    query = _NAMES.format(table=TERMS_TABLES[collection], terms="NULL" if is_whole else "terms")
    named = {number: (id_, held) for number, id_, held in await fetch(query, (workspace, to_json(numbers)))}
    hits = [
        Hit(named[number][0], score if is_whole else score_terms(question, named[number][1].encode().split()))
        for number, score in zip(numbers, best.scores.tolist(), strict=False)
        if number in named
    ]
    return sorted(hits, key=lambda hit: (-hit.score, hit.id))[:limit], is_whole, len(named) < len(numbers)


def _records(segments: Sequence[bytes]) -> NDArray[np.int64]:
    """Return `(n, 3)` of number, count and length from arrays as the server sends them."""
    data = b"".join(segment[_HEADER_BYTES:] for segment in segments)
    records = np.frombuffer(data, _ELEMENT)["record"].astype(np.int64)
    return np.stack((records >> 32, records >> 20 & 0xFFF, records & 0xFFFFF), axis=1)


async def find_phrases(
    fetch: Fetch, workspace: str, collection: Collection, phrases: Sequence[Sequence[str]], limit: int
) -> list[list[str]]:
    """Return, per phrase, the first rows that hold it, as `TextStore.find_phrases` does; all phrases in one trip."""
    found: list[list[str]] = [[] for _ in phrases]
    places = [place for place, phrase in enumerate(phrases) if phrase]
    if not places or limit < 1 or collection not in TERMS_TABLES:
        return found
    cut = ([*phrases[place]][:_MAX_TERMS] for place in places)
    rows = to_json({"query": " & ".join(map(_quote, phrase)), "needle": mark(phrase)} for phrase in cut)
    query = _PHRASES.format(table=TERMS_TABLES[collection])
    values = rows, workspace, max(limit, _MOST_PHRASE_ROWS), limit
    for place, id_ in await fetch(query, values, is_planned_anew=True):
        found[places[place - 1]].append(id_)
    return found


def _quote(term: str) -> str:
    escaped = term.replace("\\", "\\\\").replace("'", "''")
    return f"'{escaped}'"
