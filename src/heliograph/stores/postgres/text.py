"""Full text on PostgreSQL: written within a commit, read as arrays, ranked by exact BM25 in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from heliograph.stores.base import Hit, TextStore
from heliograph.stores.bm25 import Question, Scores, inverse_frequency, score_rows, score_terms
from heliograph.stores.changeset import Changeset, Collection, TextEntry
from heliograph.stores.postgres.database import Database, Row, Statement
from heliograph.stores.postgres.rows import to_json

# Writing full text to PostgreSQL, within a commit, and counting what BM25 needs.
#
# Where and how often a term occurs is kept per term, so that a question reads that and looks at no row: each row of
# `heliograph_posting` holds some hundred records, as numbers of rows rise. What leaves and enters is all that
# changes.

TERMS_TABLES = {Collection.CHUNKS: "heliograph_chunks_terms", Collection.ENTITIES: "heliograph_entities_terms"}
LEXEMES = "array_to_tsvector(string_to_array(btrim(terms), '  '))"
# Records that one row of `heliograph_posting` holds before another is begun; they stay within its page.
SEGMENT = 200
# A term's record in a row of terms: the row's number, how often it holds the term, and how many terms it has.
RECORDS = """SELECT number, term, (number << 32) | (least(count(*), 4095) << 20) | least(length, 1048575) AS record
  FROM {rows} CROSS JOIN unnest(string_to_array(btrim(terms), '  ')) AS term GROUP BY number, length, term"""
_SUMS = "sums AS (SELECT count(*) AS rows, coalesce(sum(length), 0) AS terms FROM {rows})"
_PLACE = """SELECT known.first, cardinality(known.records) AS held FROM heliograph_posting AS known
    WHERE known.workspace = %s AND known.collection = %s AND known.term = {term} {among}
    ORDER BY known.first DESC LIMIT 1"""
# Numbers only grow, so a record stands in the last segment that begins with its number or before.
_REMOVE = f"""
WITH gone AS (
  DELETE FROM {{table}} WHERE workspace = %s AND id = ANY (ARRAY(SELECT json_array_elements_text(%s)))
  RETURNING number, terms, length
), {_SUMS.format(rows="gone")}, lost AS (
  SELECT term, place.first, array_agg(record) AS records FROM ({RECORDS.format(rows="gone")}) AS said
  CROSS JOIN LATERAL ({_PLACE.format(term="said.term", among="AND known.first <= said.number")}) AS place
  GROUP BY term, place.first
), fewer AS (
  UPDATE heliograph_posting AS known
  SET records = ARRAY(SELECT record FROM unnest(known.records) AS record WHERE record <> ALL (lost.records)) FROM lost
  WHERE known.workspace = %s AND known.collection = %s AND known.term = lost.term AND known.first = lost.first
)
UPDATE heliograph_text_size AS known SET rows = known.rows - sums.rows, terms = known.terms - sums.terms FROM sums
WHERE known.workspace = %s AND known.collection = %s"""
_PUT = f"""
WITH put AS (
  INSERT INTO {{table}} (workspace, id, lexemes, terms, length)
  SELECT %s, id, {LEXEMES}, terms, length
  FROM json_to_recordset(%s) AS new (id text, terms text, length integer) RETURNING number, terms, length
), {_SUMS.format(rows="put")}, said AS (
  SELECT term, min(number) AS first, array_agg(record ORDER BY number) AS records
  FROM ({RECORDS.format(rows="put")}) AS said GROUP BY term
), more AS (
  INSERT INTO heliograph_posting AS known (workspace, collection, term, first, records)
  SELECT %s, %s, term, coalesce(place.first, said.first), records FROM said
  LEFT JOIN LATERAL ({_PLACE.format(term="said.term", among="")}) AS place ON place.held < {SEGMENT}
  ON CONFLICT (workspace, collection, term, first) DO UPDATE SET records = known.records || excluded.records
)
INSERT INTO heliograph_text_size AS known (workspace, collection, rows, terms) SELECT %s, %s, rows, terms FROM sums
ON CONFLICT (workspace, collection) DO UPDATE SET rows = known.rows + excluded.rows,
  terms = known.terms + excluded.terms"""
_OTHER = """
SELECT new.id FROM json_to_recordset(%s) AS new (id text, terms text, length integer)
LEFT JOIN {table} AS kept ON kept.workspace = %s AND kept.id = new.id
WHERE (kept.terms, kept.length) IS DISTINCT FROM (new.terms, new.length)"""


def mark(terms: Sequence[str]) -> str:
    """Return terms as they are stored, in order, each between spaces of its own."""
    return "".join(f" {term} " for term in terms)


def text_statements(workspace: str, changeset: Changeset) -> Iterator[Statement]:
    """Yield what applies the full-text part of a changeset."""
    removed = {Collection.CHUNKS: changeset.removed_chunks, Collection.ENTITIES: changeset.removed_entities}
    for collection, table in TERMS_TABLES.items():
        # The last of several entries for one id counts.
        entries = {entry.id: entry for entry in changeset.texts.get(collection, ())}
        of = workspace, collection.value
        if gone := {*removed[collection], *entries}:
            yield Statement(_REMOVE.format(table=table), (workspace, to_json(gone), *of, *of, *of))
        if entries:
            rows = to_json(map(_row, entries.values()))
            yield Statement(_PUT.format(table=table), (workspace, rows, *of, *of, *of))


def text_comparisons(workspace: str, texts: Mapping[Collection, Sequence[TextEntry]]) -> Iterator[Statement]:
    """Yield what finds the ids whose terms are not kept as these are."""
    for collection, table in TERMS_TABLES.items():
        if entries := texts.get(collection, ()):
            yield Statement(_OTHER.format(table=table), (to_json(map(_row, entries)), workspace))


def _row(entry: TextEntry) -> dict[str, Any]:
    return {"id": entry.id, "terms": mark(entry.terms), "length": len(entry.terms)}


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
