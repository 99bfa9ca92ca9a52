"""Writing folded entities and relations to PostgreSQL, and keeping degrees right, within a commit."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

from heliograph.models import Entity, Relation
from heliograph.stores.changeset import Changeset
from heliograph.stores.postgres.codec import join_lines, to_json
from heliograph.stores.postgres.session import Statement

# `degree` grows by what each end gains or loses; an entity that has no row has no degree.
_CHANGE = """changed AS (
  SELECT end_id, count(*) AS relations FROM (
    SELECT source_id AS end_id FROM {rows} UNION ALL SELECT target_id FROM {rows}) AS ends GROUP BY end_id
)
UPDATE heliograph_degree AS degree SET degree = degree.degree {sign} changed.relations::integer FROM changed
WHERE degree.workspace = %s AND degree.id = changed.end_id"""
_REMOVE_RELATIONS = f"""
WITH gone AS (
  DELETE FROM heliograph_relation WHERE workspace = %s AND id = ANY (ARRAY(SELECT json_array_elements_text(%s)))
  RETURNING source_id, target_id
), {_CHANGE.format(rows="gone", sign="-")}"""
_REMOVE_ENTITIES = """
WITH gone AS (
  DELETE FROM heliograph_entity WHERE workspace = %s AND id = ANY (ARRAY(SELECT json_array_elements_text(%s)))
)
DELETE FROM heliograph_degree WHERE workspace = %s AND id = ANY (ARRAY(SELECT json_array_elements_text(%s)))"""
_NEW_RELATIONS = """json_to_recordset(%s) AS new (created_at bigint, id text, source_id text, target_id text,
    source text, target text, keywords text, description text, weight double precision, chunk_ids text,
    token_count integer)"""
_ENTITIES = """
WITH new AS (
  SELECT * FROM json_to_recordset(%s) AS new (created_at bigint, id text, name text, type text, description text,
    aliases text, chunk_ids text, token_count integer)
), degrees AS (
  INSERT INTO heliograph_degree (workspace, id, degree) SELECT %s, id, 0 FROM new ON CONFLICT DO NOTHING
)
INSERT INTO heliograph_entity (workspace, created_at, id, name, type, description, aliases, chunk_ids, token_count)
SELECT %s, * FROM new
ON CONFLICT (workspace, id) DO UPDATE SET name = excluded.name, type = excluded.type,
  description = excluded.description, aliases = excluded.aliases, chunk_ids = excluded.chunk_ids,
  token_count = excluded.token_count{dated}"""
# A row that no transaction has locked or replaced is new.
_RELATIONS = f"""
WITH put AS (
  INSERT INTO heliograph_relation (workspace, created_at, id, source_id, target_id, source, target, keywords,
    description, weight, chunk_ids, token_count)
  SELECT %s, * FROM {_NEW_RELATIONS}
  ON CONFLICT (workspace, id) DO UPDATE SET source_id = excluded.source_id, target_id = excluded.target_id,
    source = excluded.source, target = excluded.target, keywords = excluded.keywords,
    description = excluded.description, weight = excluded.weight, chunk_ids = excluded.chunk_ids,
    token_count = excluded.token_count{{dated}}
  RETURNING source_id, target_id, xmax = 0 AS is_new
), added AS (SELECT source_id, target_id FROM put WHERE is_new), {_CHANGE.format(rows="added", sign="+")}"""


# What something beside the store with the truth says of when things first appeared is what that store says.
_DATED = ", created_at = excluded.created_at"
# There, relations may come before their ends, and go after them: a degree stands as long as either does.
_ENDS = """
INSERT INTO heliograph_degree (workspace, id, degree)
SELECT DISTINCT %s, id, 0 FROM json_array_elements_text(%s) AS ends (id) ON CONFLICT DO NOTHING"""
_REMOVE_FOLLOWED_ENTITIES = """
WITH gone AS MATERIALIZED (SELECT id FROM json_array_elements_text(%s) AS given (id)),
bare AS (
  DELETE FROM heliograph_degree AS degree WHERE workspace = %s AND id IN (SELECT id FROM gone) AND degree = 0
)
DELETE FROM heliograph_entity WHERE workspace = %s AND id IN (SELECT id FROM gone)"""

# What is not as a change would leave it; degrees stand in a row of their own.
_OTHER_ENTITIES = """
SELECT new.id FROM json_to_recordset(%s) AS new (created_at bigint, id text, name text, type text, description text,
    aliases text, chunk_ids text, token_count integer, degree integer)
LEFT JOIN heliograph_entity AS kept ON kept.workspace = %s AND kept.id = new.id
LEFT JOIN heliograph_degree AS degree ON degree.workspace = %s AND degree.id = new.id
WHERE (kept.created_at, kept.name, kept.type, kept.description, kept.aliases, kept.chunk_ids, kept.token_count,
    degree.degree) IS DISTINCT FROM (new.created_at, new.name, new.type, new.description, new.aliases, new.chunk_ids,
    new.token_count, new.degree)"""
_OTHER_RELATIONS = f"""
SELECT new.id FROM {_NEW_RELATIONS}
LEFT JOIN heliograph_relation AS kept ON kept.workspace = %s AND kept.id = new.id
WHERE (kept.created_at, kept.source_id, kept.target_id, kept.source, kept.target, kept.keywords, kept.description,
    kept.weight, kept.chunk_ids, kept.token_count) IS DISTINCT FROM (new.created_at, new.source_id, new.target_id,
    new.source, new.target, new.keywords, new.description, new.weight, new.chunk_ids, new.token_count)"""


def graph_statements(workspace: str, changeset: Changeset) -> Iterator[Statement]:
    """Yield what applies the graph part of a changeset, removals first."""
    now = int(time.time())
    if changeset.removed_relations:
        ids = to_json(changeset.removed_relations)
        yield Statement(_REMOVE_RELATIONS, (workspace, ids, workspace))
    if changeset.removed_entities:
        ids = to_json(changeset.removed_entities)
        yield Statement(_REMOVE_ENTITIES, (workspace, ids, workspace, ids))
    if changeset.entities:
        rows = to_json(_entity(item, changeset.moments.get(item.id, now)) for item in changeset.entities)
        yield Statement(_ENTITIES.format(dated=""), (rows, workspace, workspace))
    if changeset.relations:
        rows = to_json(_relation(item, changeset.moments.get(item.id, now)) for item in changeset.relations)
        yield Statement(_RELATIONS.format(dated=""), (workspace, rows, workspace))


def followed_graph_statements(
    workspace: str,
    removed: tuple[Sequence[str], Sequence[str]],
    entities: Sequence[Entity],
    relations: Sequence[Relation],
) -> Iterator[Statement]:
    """Yield what a graph beside the store with the truth takes in.

    Args:
        workspace: Whose graph.
        removed: Ids of entities and of relations that are gone.
        entities: Those that are there now.
        relations: Likewise.
    """
    gone_entities, gone_relations = removed
    if gone_relations:
        yield Statement(_REMOVE_RELATIONS, (workspace, to_json(gone_relations), workspace))
    if gone_entities:
        yield Statement(_REMOVE_FOLLOWED_ENTITIES, (to_json(gone_entities), workspace, workspace))
    if entities:
        rows = to_json(_entity(item, item.created_at) for item in entities)
        yield Statement(_ENTITIES.format(dated=_DATED), (rows, workspace, workspace))
    if relations:
        yield Statement(
            _ENDS, (workspace, to_json(id_ for item in relations for id_ in (item.source_id, item.target_id)))
        )
        rows = to_json(_relation(item, item.created_at) for item in relations)
        yield Statement(_RELATIONS.format(dated=_DATED), (workspace, rows, workspace))


def graph_comparisons(workspace: str, entities: Sequence[Entity], relations: Sequence[Relation]) -> Iterator[Statement]:
    """Yield what finds the ids of entities and relations that are not kept as these are."""
    if entities:
        rows = to_json({**_entity(item, item.created_at), "degree": item.degree} for item in entities)
        yield Statement(_OTHER_ENTITIES, (rows, workspace, workspace))
    if relations:
        yield Statement(_OTHER_RELATIONS, (to_json(_relation(item, item.created_at) for item in relations), workspace))


def _entity(item: Entity, created_at: int) -> dict[str, Any]:
    return {
        "created_at": created_at,
        "id": item.id,
        "name": item.name,
        "type": item.type,
        "description": item.description,
        "aliases": join_lines(item.aliases),
        "chunk_ids": join_lines(item.chunk_ids),
        "token_count": item.token_count,
    }


def _relation(item: Relation, created_at: int) -> dict[str, Any]:
    return {
        "created_at": created_at,
        "id": item.id,
        "source_id": item.source_id,
        "target_id": item.target_id,
        "source": item.source,
        "target": item.target,
        "keywords": join_lines(item.keywords),
        "description": item.description,
        "weight": item.weight,
        "chunk_ids": join_lines(item.chunk_ids),
        "token_count": item.token_count,
    }
