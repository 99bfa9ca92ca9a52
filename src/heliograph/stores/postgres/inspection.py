"""Whole-workspace reads on PostgreSQL, what only this back end can know to be wrong, and putting it right."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from heliograph.models import EntityMention, RelationMention
from heliograph.stores.base import Inspection, ScanKind, digest_terms
from heliograph.stores.changeset import Collection
from heliograph.stores.postgres.database import Database, Statement
from heliograph.stores.postgres.rows import (
    ENTITY_MENTION,
    RELATION_MENTION,
    WANTED,
    to_entity_mention,
    to_json,
    to_relation_mention,
)
from heliograph.stores.postgres.search import LEXEMES, RECORDS, SEGMENT, TERMS_TABLES

# What may be wrong with the tables on PostgreSQL beyond what a check of any store finds, and putting it right.
#
# Degrees are compared with relations, postings and counts for BM25 with the terms stored, texts with what they belong
# to; an index of vectors whose building was interrupted is named. Its files the server looks after itself
# (`amcheck`).

# Each takes the workspace as its only parameter, as often as it says.
_COUNTED_DEGREES = """(
  SELECT id, count(*) AS degree FROM (
    SELECT source_id AS id FROM heliograph_relation WHERE workspace = %s
    UNION ALL SELECT target_id FROM heliograph_relation WHERE workspace = %s) AS ends GROUP BY id) AS counted"""
DEGREE_FAULTS = {
    "the degrees of {} entities differ from their relations": f"""
      SELECT count(*) FROM heliograph_degree AS degree LEFT JOIN {_COUNTED_DEGREES} USING (id)
      WHERE degree.workspace = %s AND degree.degree <> coalesce(counted.degree, 0)""",
    "{} entities have no degree": """
      SELECT count(*) FROM heliograph_entity AS entity WHERE workspace = %s AND NOT EXISTS (
        SELECT 1 FROM heliograph_degree AS other WHERE other.workspace = entity.workspace AND other.id = entity.id)""",
    "{} degrees belong to no entity": """
      SELECT count(*) FROM heliograph_degree AS degree WHERE workspace = %s AND NOT EXISTS (
        SELECT 1 FROM heliograph_entity AS other WHERE other.workspace = degree.workspace AND other.id = degree.id)""",
}
_FAULTS = {
    "{} texts belong to no document": """
      SELECT count(*) FROM heliograph_document_text AS text WHERE workspace = %s AND NOT EXISTS (
        SELECT 1 FROM heliograph_document AS other WHERE other.workspace = text.workspace AND other.id = text.id)""",
}
_WRONG_TERMS = """
SELECT count(DISTINCT term) FROM (
  SELECT term FROM (
    SELECT term, record, 1 AS sign FROM heliograph_posting, unnest(records) AS record
    WHERE workspace = %s AND collection = '{collection}'
    UNION ALL SELECT term, record, -1 FROM ({records}) AS counted) AS signed
  GROUP BY term, record HAVING sum(sign) <> 0) AS wrong"""
_WRONG_LEXEMES = """
SELECT count(*) FROM {table} WHERE workspace = %s AND lexemes IS DISTINCT FROM {lexemes}"""
_WRONG_SIZE = """
SELECT count(*) FROM (
  SELECT count(*) AS rows, coalesce(sum(length), 0) AS terms FROM {table} WHERE workspace = %s) AS counted
LEFT JOIN heliograph_text_size AS size ON size.workspace = %s AND size.collection = '{collection}'
WHERE coalesce(size.rows, 0) <> counted.rows OR coalesce(size.terms, 0) <> counted.terms"""


def _records(table: str) -> str:
    return RECORDS.format(rows=f"(SELECT * FROM {table} WHERE workspace = %s) AS stored")


TEXT_FAULTS = {
    said.format(collection.value): query.format(
        collection=collection.value, table=table, records=_records(table), lexemes=LEXEMES
    )
    for collection, table in TERMS_TABLES.items()
    for said, query in (
        ("{{}} terms of {} occur otherwise than their postings say", _WRONG_TERMS),
        ("{{}} rows of the full text of {} have other terms in their index", _WRONG_LEXEMES),
        ("{{}} size of the full text of {} is wrong", _WRONG_SIZE),
    )
}
_INVALID = """SELECT indexrelid::regclass::text FROM pg_index WHERE NOT indisvalid AND indrelid IN (
  'lightrag_chunks'::regclass, 'lightrag_entities'::regclass, 'lightrag_relationships'::regclass)"""


async def find_faults(database: Database, checks: Mapping[str, str] | None = None) -> list[str]:
    """Return what is wrong, one sentence each.

    Args:
        database: Where to look.
        checks: Queries that count, by how what they find is said; None makes all, and looks at indexes.
    """
    made = {**DEGREE_FAULTS, **_FAULTS, **TEXT_FAULTS} if checks is None else checks
    statements = [Statement(query, (database.workspace,) * query.count("%s")) for query in made.values()]
    *counts, invalid = await database.fetch_all(*statements, Statement(_INVALID))
    faults = [said.format(count) for said, ((count,),) in zip(made, counts, strict=True) if count]
    if checks is None:
        faults += [f"the index {name} is not whole; it is built again with a later commit" for (name,) in invalid]
    return faults


def repair_statements(workspace: str) -> Iterator[Statement]:
    """Yield what puts right what follows from the rest."""
    for query in _repairs():
        yield Statement(query, (workspace,) * query.count("%s"))


def _repairs() -> Iterator[str]:
    # No commit comes between: each begins by this lock.
    yield "SELECT 1 FROM heliograph_workspace WHERE name = %s FOR UPDATE"
    yield "DELETE FROM heliograph_degree WHERE workspace = %s"
    yield f"""INSERT INTO heliograph_degree (workspace, id, degree)
      SELECT entity.workspace, entity.id, coalesce(counted.degree, 0) FROM heliograph_entity AS entity
      LEFT JOIN {_COUNTED_DEGREES} USING (id) WHERE entity.workspace = %s"""
    yield """DELETE FROM heliograph_document_text AS text WHERE workspace = %s AND NOT EXISTS (
      SELECT 1 FROM heliograph_document AS other WHERE other.workspace = text.workspace AND other.id = text.id)"""
    yield "DELETE FROM heliograph_posting WHERE workspace = %s"
    yield "DELETE FROM heliograph_text_size WHERE workspace = %s"
    for collection, table in TERMS_TABLES.items():
        yield f"""UPDATE {table} SET lexemes = {LEXEMES} WHERE workspace = %s AND lexemes IS DISTINCT FROM {LEXEMES}"""
        yield f"""INSERT INTO heliograph_posting (workspace, collection, term, first, records)
          SELECT %s, '{collection.value}', term, min(number), array_agg(record ORDER BY number) FROM (
            SELECT *, (row_number() OVER (PARTITION BY term ORDER BY number) - 1) / {SEGMENT} AS segment
            FROM ({_records(table)}) AS counted) AS placed GROUP BY term, segment"""
        yield f"""INSERT INTO heliograph_text_size (workspace, collection, rows, terms)
          SELECT %s, '{collection.value}', count(*), coalesce(sum(length), 0) FROM {table} WHERE workspace = %s"""


_SCANS: Mapping[ScanKind, str] = {
    ScanKind.DOCUMENTS: "id FROM heliograph_document",
    ScanKind.CHUNKS: "id FROM lightrag_chunks",
    ScanKind.EXTRACTIONS: "chunk_id FROM heliograph_extraction",
    ScanKind.MENTIONED_ENTITIES: "entity_id FROM heliograph_entity_mention",
    # A mention whose two ends count for one entity says nothing of a relation and is kept under the entity.
    ScanKind.MENTIONED_RELATIONS: "relation_id FROM heliograph_relation_mention",
    ScanKind.ENTITY_EVIDENCE: "id FROM heliograph_entity_evidence",
    ScanKind.RELATION_EVIDENCE: "id FROM heliograph_relation_evidence",
    ScanKind.ENTITIES: "id FROM heliograph_entity",
    ScanKind.RELATIONS: "id FROM heliograph_relation",
    ScanKind.CHUNK_VECTORS: "id FROM lightrag_chunks",
    ScanKind.ENTITY_VECTORS: "id FROM lightrag_entities",
    ScanKind.RELATION_VECTORS: "id FROM lightrag_relationships",
    ScanKind.NAME_RULES: "id FROM heliograph_name_rules",
}
_NARROW = {
    ScanKind.MENTIONED_RELATIONS: "AND relation_id LIKE 'rel-%%'",
    ScanKind.CHUNK_VECTORS: "AND embedding IS NOT NULL",
}
_MENTIONS = """SELECT wanted.id, (SELECT json_agg(said) FROM (
    SELECT {mention} AS said FROM heliograph_{kind}_mention AS mention
    WHERE mention.workspace = %s AND mention.{kind}_id = wanted.id
    ORDER BY mention.rank, mention.chunk_id, mention.ordinal LIMIT %s OFFSET %s) AS page)
  FROM {wanted} ORDER BY wanted.place"""
_ENTITY_MENTIONS = _MENTIONS.format(mention=ENTITY_MENTION, kind="entity", wanted=WANTED)
_RELATION_MENTIONS = _MENTIONS.format(mention=RELATION_MENTION, kind="relation", wanted=WANTED)
_PAGE = 1_000


class PostgresInspection(Inspection):
    """Reads over whole tables, in pages."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def scan(self, kind: ScanKind, after: str, limit: int) -> list[str]:
        column = _SCANS[kind].partition(" ")[0]
        query = f"""SELECT DISTINCT {_SCANS[kind]} WHERE workspace = %s AND {column} > %s {_NARROW.get(kind, "")}
                    ORDER BY {column} LIMIT %s"""
        return [id_ for (id_,) in await self._database.fetch(query, (self._database.workspace, after, limit))]

    async def get_mentions(
        self, entity_ids: Sequence[str], relation_ids: Sequence[str], offset: int, limit: int
    ) -> tuple[dict[str, list[EntityMention]], dict[str, list[RelationMention]]]:
        of = self._database.workspace, limit, offset
        entities, relations = await self._database.fetch_all(
            Statement(_ENTITY_MENTIONS, (*of, to_json(entity_ids))),
            Statement(_RELATION_MENTIONS, (*of, to_json(relation_ids))),
        )
        return (
            {id_: list(map(to_entity_mention, said)) for id_, said in entities if said},
            {id_: list(map(to_relation_mention, said)) for id_, said in relations if said},
        )

    async def digest_texts(self, collection: Collection) -> dict[str, int]:
        digests: dict[str, int] = {}
        query = f"""SELECT id, terms FROM {TERMS_TABLES[collection]} WHERE workspace = %s AND id > %s
                    ORDER BY id LIMIT {_PAGE}"""
        after = ""
        while rows := await self._database.fetch(query, (self._database.workspace, after)):
            digests.update((id_, digest_terms(terms.split())) for id_, terms in rows)
            after = rows[-1][0]
        return {id_: digest for id_, digest in digests.items() if digest}

    async def find_faults(self) -> list[str]:
        return await find_faults(self._database)

    async def repair(self) -> None:
        await self._database.execute(*repair_statements(self._database.workspace))
