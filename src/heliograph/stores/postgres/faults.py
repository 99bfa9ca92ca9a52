"""What may be wrong with the tables on PostgreSQL beyond what a check of any store finds, and putting it right.

Degrees are compared with relations, counts for BM25 with the terms stored, texts with what they belong to; an index of
vectors whose building was interrupted is named. The rest of its files the server looks after itself (`amcheck`).
"""

from __future__ import annotations

from collections.abc import Iterator

from heliograph.stores.postgres.database import Database
from heliograph.stores.postgres.session import Statement
from heliograph.stores.postgres.text_write import TERMS_TABLES

__all__ = ["find_faults", "repair_statements"]

# Each takes the workspace as its only parameter, as often as it says.
_COUNTED_DEGREES = """(
  SELECT id, count(*) AS degree FROM (
    SELECT source_id AS id FROM heliograph_relation WHERE workspace = %s
    UNION ALL SELECT target_id FROM heliograph_relation WHERE workspace = %s) AS ends GROUP BY id) AS counted"""
_COUNTED_TERMS = """(
  SELECT term, count(*) AS rows FROM {table}, unnest(tsvector_to_array(lexemes)) AS term
  WHERE workspace = %s GROUP BY term) AS counted"""
_FAULTS = {
    "the degrees of {} entities differ from their relations": f"""
      SELECT count(*) FROM heliograph_degree AS degree LEFT JOIN {_COUNTED_DEGREES} USING (id)
      WHERE degree.workspace = %s AND degree.degree <> coalesce(counted.degree, 0)""",
    "{} entities have no degree": """
      SELECT count(*) FROM heliograph_entity AS entity WHERE workspace = %s AND NOT EXISTS (
        SELECT 1 FROM heliograph_degree AS other WHERE other.workspace = entity.workspace AND other.id = entity.id)""",
    "{} degrees belong to no entity": """
      SELECT count(*) FROM heliograph_degree AS degree WHERE workspace = %s AND NOT EXISTS (
        SELECT 1 FROM heliograph_entity AS other WHERE other.workspace = degree.workspace AND other.id = degree.id)""",
    "{} texts belong to no document": """
      SELECT count(*) FROM heliograph_document_text AS text WHERE workspace = %s AND NOT EXISTS (
        SELECT 1 FROM heliograph_document AS other WHERE other.workspace = text.workspace AND other.id = text.id)""",
}
_WRONG_TERMS = """
SELECT count(*) FROM (
  SELECT term, rows FROM heliograph_term WHERE workspace = %s AND collection = '{collection}') AS kept
FULL JOIN {counted} USING (term) WHERE coalesce(kept.rows, 0) <> coalesce(counted.rows, 0)"""
_WRONG_SIZE = """
SELECT count(*) FROM (
  SELECT count(*) AS rows, coalesce(sum(length), 0) AS terms FROM {table} WHERE workspace = %s) AS counted
LEFT JOIN heliograph_text_size AS size ON size.workspace = %s AND size.collection = '{collection}'
WHERE coalesce(size.rows, 0) <> counted.rows OR coalesce(size.terms, 0) <> counted.terms"""
_INVALID = """SELECT indexrelid::regclass::text FROM pg_index WHERE NOT indisvalid AND indrelid IN (
  'lightrag_chunks'::regclass, 'lightrag_entities'::regclass, 'lightrag_relationships'::regclass)"""


async def find_faults(database: Database) -> list[str]:
    """Return what is wrong, one sentence each."""
    checks = list(_checks())
    statements = (Statement(query, (database.workspace,) * query.count("%s")) for _, query in checks)
    *counts, invalid = await database.fetch_all(*statements, Statement(_INVALID))
    faults = [said.format(count) for (said, _), ((count,),) in zip(checks, counts, strict=True) if count]
    return [*faults, *(f"the index {name} is not whole; it is built again with a later commit" for (name,) in invalid)]


def repair_statements(workspace: str) -> Iterator[Statement]:
    """Yield what puts right what follows from the rest."""
    for query in _repairs():
        yield Statement(query, (workspace,) * query.count("%s"))


def _checks() -> Iterator[tuple[str, str]]:
    yield from _FAULTS.items()
    for collection, table in TERMS_TABLES.items():
        name = collection.value
        query = _WRONG_TERMS.format(collection=name, counted=_COUNTED_TERMS.format(table=table))
        yield f"the counts of {{}} terms of {name} are wrong", query
        yield f"{{}} size of the full text of {name} is wrong", _WRONG_SIZE.format(collection=name, table=table)


def _repairs() -> Iterator[str]:
    # No commit comes between: each begins by this lock.
    yield "SELECT 1 FROM heliograph_workspace WHERE name = %s FOR UPDATE"
    yield "DELETE FROM heliograph_degree WHERE workspace = %s"
    yield f"""INSERT INTO heliograph_degree (workspace, id, degree)
      SELECT entity.workspace, entity.id, coalesce(counted.degree, 0) FROM heliograph_entity AS entity
      LEFT JOIN {_COUNTED_DEGREES} USING (id) WHERE entity.workspace = %s"""
    yield """DELETE FROM heliograph_document_text AS text WHERE workspace = %s AND NOT EXISTS (
      SELECT 1 FROM heliograph_document AS other WHERE other.workspace = text.workspace AND other.id = text.id)"""
    yield "DELETE FROM heliograph_term WHERE workspace = %s"
    yield "DELETE FROM heliograph_text_size WHERE workspace = %s"
    for collection, table in TERMS_TABLES.items():
        yield f"""INSERT INTO heliograph_term (workspace, collection, term, rows)
          SELECT %s, '{collection.value}', term, rows FROM {_COUNTED_TERMS.format(table=table)}"""
        yield f"""INSERT INTO heliograph_text_size (workspace, collection, rows, terms)
          SELECT %s, '{collection.value}', count(*), coalesce(sum(length), 0) FROM {table} WHERE workspace = %s"""
