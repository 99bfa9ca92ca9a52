"""Whole-workspace reads on PostgreSQL, and what only this back end can know to be wrong: degrees, counts, indexes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from heliograph.models import Batch, DocumentStatus, EntityMention, RelationMention, Usage
from heliograph.stores.changeset import Collection
from heliograph.stores.inspection import SHOWN_ERRORS, Inspection, ScanKind, digest_terms
from heliograph.stores.postgres.codec import to_json
from heliograph.stores.postgres.database import Database
from heliograph.stores.postgres.faults import find_faults, repair_statements
from heliograph.stores.postgres.rows import (
    ENTITY_MENTION,
    RELATION_MENTION,
    WANTED,
    in_utc,
    to_entity_mention,
    to_relation_mention,
)
from heliograph.stores.postgres.session import Statement
from heliograph.stores.postgres.text_write import TERMS_TABLES

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
_BATCHES = """
WITH batch AS (
  SELECT track_id, sum(chunk_count)::bigint AS chunks, sum(input_tokens)::bigint AS read,
    sum(output_tokens)::bigint AS written, min(created_at) AS created_at, max(updated_at) AS updated_at
  FROM heliograph_document WHERE workspace = %s AND track_id <> '' GROUP BY track_id
  ORDER BY updated_at DESC, track_id LIMIT %s OFFSET %s
)
SELECT batch.*,
  (SELECT json_object_agg(status, count) FROM (SELECT status, count(*) FROM heliograph_document AS document
    WHERE workspace = %s AND document.track_id = batch.track_id GROUP BY status) AS statuses),
  (SELECT json_agg(json_build_array(source, error)) FROM (SELECT source, error FROM heliograph_document AS document
    WHERE workspace = %s AND document.track_id = batch.track_id AND error <> '' ORDER BY source LIMIT %s) AS failed)
FROM batch ORDER BY updated_at DESC, track_id"""
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

    async def list_batches(self, offset: int, limit: int) -> list[Batch]:
        workspace = self._database.workspace
        rows = await self._database.fetch(_BATCHES, (workspace, limit, offset, workspace, workspace, SHOWN_ERRORS))
        return [
            Batch(
                track_id,
                {DocumentStatus(status): count for status, count in statuses.items()},
                chunks,
                Usage(read, written),
                in_utc(created_at),
                in_utc(updated_at),
                tuple((source, error) for source, error in failed or ()),
            )
            for track_id, chunks, read, written, created_at, updated_at, statuses, failed in rows
        ]

    async def find_faults(self) -> list[str]:
        return await find_faults(self._database)

    async def repair(self) -> None:
        await self._database.execute(*repair_statements(self._database.workspace))
