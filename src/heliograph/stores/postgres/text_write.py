"""Writing full text to PostgreSQL, within a commit, and counting what BM25 needs.

Where and how often a term occurs is kept per term, so that a question reads that and looks at no row: each row of
`heliograph_posting` holds some hundred records, as numbers of rows rise. What leaves and enters is all that changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from heliograph.stores.changeset import Changeset, Collection, TextEntry
from heliograph.stores.postgres.codec import to_json
from heliograph.stores.postgres.session import Statement

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
