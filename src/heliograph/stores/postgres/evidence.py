"""Reading evidence from PostgreSQL: counts, and the first mentions in canonical order as one JSON list a row."""

from __future__ import annotations

import json
from collections.abc import Sequence

from heliograph.models import EntityEvidence, RelationEvidence
from heliograph.stores.postgres.codec import to_json
from heliograph.stores.postgres.rows import (
    ENTITY_MENTION,
    RELATION_MENTION,
    WANTED,
    to_entity_mention,
    to_relation_mention,
)
from heliograph.stores.postgres.session import Row, Statement

_LEADING = """(SELECT json_agg(said) FROM (SELECT {mention} AS said FROM heliograph_{kind}_mention AS mention
                WHERE mention.workspace = evidence.workspace AND mention.{kind}_id = evidence.id
                ORDER BY mention.rank, mention.chunk_id, mention.ordinal LIMIT %s) AS first)"""
_ENTITIES = f"""SELECT evidence.id, names, types, mention_count, version,
  {_LEADING.format(mention=ENTITY_MENTION, kind="entity")}
  FROM {WANTED} JOIN heliograph_entity_evidence AS evidence
    ON evidence.workspace = %s AND evidence.id = wanted.id ORDER BY wanted.place"""
_RELATIONS = f"""SELECT evidence.id, source_id, target_id, keywords, weight_millionths, mention_count, version,
  {_LEADING.format(mention=RELATION_MENTION, kind="relation")}
  FROM {WANTED} JOIN heliograph_relation_evidence AS evidence
    ON evidence.workspace = %s AND evidence.id = wanted.id ORDER BY wanted.place"""


def evidence_statements(
    workspace: str, entity_ids: Sequence[str], relation_ids: Sequence[str], leading: int
) -> tuple[Statement, Statement]:
    """Return the statements that read the evidence of entities and of relations."""
    return (
        Statement(_ENTITIES, (leading, to_json(entity_ids), workspace)),
        Statement(_RELATIONS, (leading, to_json(relation_ids), workspace)),
    )


def to_evidence(
    entities: Sequence[Row], relations: Sequence[Row]
) -> tuple[list[EntityEvidence], list[RelationEvidence]]:
    """Return evidence from the rows of the two statements."""
    return [_entity(*row) for row in entities], [_relation(*row) for row in relations]


def _entity(
    id_: str, names: str, types: str, count: int, version: int, said: Sequence[Sequence[object]] | None
) -> EntityEvidence:
    mentions = tuple(map(to_entity_mention, said or ()))
    return EntityEvidence(id_, json.loads(names), json.loads(types), count, mentions, version)


def _relation(
    id_: str,
    source_id: str,
    target_id: str,
    keywords: str,
    weight: int,
    count: int,
    version: int,
    said: Sequence[Sequence[object]] | None,
) -> RelationEvidence:
    mentions = tuple(map(to_relation_mention, said or ()))
    return RelationEvidence(id_, source_id, target_id, json.loads(keywords), weight, count, mentions, version)
