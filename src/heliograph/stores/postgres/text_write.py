"""Writing full text to PostgreSQL, within a commit, and counting what BM25 needs.

In how many rows a term occurs is kept per term, so that a question need not count; the counts change by what rows
leave and enter.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from heliograph.stores.changeset import Changeset, Collection, TextEntry
from heliograph.stores.postgres.codec import to_json
from heliograph.stores.postgres.session import Statement

__all__ = ["TERMS_TABLES", "mark", "text_statements"]

TERMS_TABLES = {Collection.CHUNKS: "heliograph_chunks_terms", Collection.ENTITIES: "heliograph_entities_terms"}
_COUNTED = """terms AS (
  SELECT term, count(*) AS rows FROM {rows} CROSS JOIN unnest(tsvector_to_array(lexemes)) AS term GROUP BY term
), sums AS (SELECT count(*) AS rows, coalesce(sum(length), 0) AS terms FROM {rows})"""
_REMOVE = """
WITH gone AS (
  DELETE FROM {table} WHERE workspace = %s AND id = ANY (ARRAY(SELECT json_array_elements_text(%s)))
  RETURNING lexemes, length
), {counted}, fewer AS (
  UPDATE heliograph_term AS known SET rows = known.rows - terms.rows FROM terms
  WHERE known.workspace = %s AND known.collection = %s AND known.term = terms.term
)
UPDATE heliograph_text_size AS known SET rows = known.rows - sums.rows, terms = known.terms - sums.terms FROM sums
WHERE known.workspace = %s AND known.collection = %s"""
_PUT = """
WITH put AS (
  INSERT INTO {table} (workspace, id, lexemes, terms, length)
  SELECT %s, id, array_to_tsvector(string_to_array(btrim(terms), '  ')), terms, length
  FROM json_to_recordset(%s) AS new (id text, terms text, length integer) RETURNING lexemes, length
), {counted}, more AS (
  INSERT INTO heliograph_term AS known (workspace, collection, term, rows) SELECT %s, %s, term, rows FROM terms
  ON CONFLICT (workspace, collection, term) DO UPDATE SET rows = known.rows + excluded.rows
)
INSERT INTO heliograph_text_size AS known (workspace, collection, rows, terms) SELECT %s, %s, rows, terms FROM sums
ON CONFLICT (workspace, collection) DO UPDATE SET rows = known.rows + excluded.rows,
  terms = known.terms + excluded.terms"""


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
            query = _REMOVE.format(table=table, counted=_COUNTED.format(rows="gone"))
            yield Statement(query, (workspace, to_json(gone), *of, *of))
        if entries:
            query = _PUT.format(table=table, counted=_COUNTED.format(rows="put"))
            yield Statement(query, (workspace, to_json(map(_row, entries.values())), *of, *of))


def _row(entry: TextEntry) -> dict[str, Any]:
    return {"id": entry.id, "terms": mark(entry.terms), "length": len(entry.terms)}
