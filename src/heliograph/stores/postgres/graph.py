"""The graph on PostgreSQL: two wide tables, a narrow one of degrees, names, neighbourhoods and paths."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from heliograph.models import Entity, Relation
from heliograph.stores.base import GraphStore, IncidentRelation
from heliograph.stores.changeset import Changeset, OutboxKind
from heliograph.stores.graph import LAST_CHARACTER, MOST_CANDIDATES, KeyedNameIndex, keys_of, pieces_within, terms_of
from heliograph.stores.postgres.database import (
    ENTITY,
    RELATION,
    WANTED,
    Database,
    Row,
    Session,
    Statement,
    comparison,
    deletion,
    to_json,
    upsert,
)
from heliograph.stores.projection import ProjectionChange
from heliograph.stores.sql import ENTITIES, RELATIONS

# Writing folded entities and relations to PostgreSQL, and keeping degrees right, within a commit.

# `degree` changes by the relations each end gains or loses; an entity that has no row has no degree.
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
# A projection takes the moments of first appearance from the store with the truth; a home store keeps its own.
_PUT_ENTITIES, _PUT_FOLLOWED_ENTITIES = (
    f"""WITH put AS ({upsert("heliograph_entity", ENTITIES.without("degree"), kept=kept)} RETURNING id)
INSERT INTO heliograph_degree (workspace, id, degree) SELECT %s, id, 0 FROM put ON CONFLICT DO NOTHING"""
    for kept in (["created_at"], [])
)
# A row that no transaction has locked or replaced is new.
_PUT_RELATIONS, _PUT_FOLLOWED_RELATIONS = (
    f"""WITH put AS (
  {upsert("heliograph_relation", RELATIONS.types, kept=kept)} RETURNING source_id, target_id, xmax = 0 AS is_new
), added AS (SELECT source_id, target_id FROM put WHERE is_new), {_CHANGE.format(rows="added", sign="+")}"""
    for kept in (["created_at"], [])
)
# In a projection, relations may come before their ends, and go after them: a degree row stays as long as either does.
_ENDS = """
INSERT INTO heliograph_degree (workspace, id, degree)
SELECT DISTINCT %s, id, 0 FROM json_array_elements_text(%s) AS ends (id) ON CONFLICT DO NOTHING"""
_REMOVE_FOLLOWED_ENTITIES = """
WITH gone AS MATERIALIZED (SELECT id FROM json_array_elements_text(%s) AS given (id)),
bare AS (
  DELETE FROM heliograph_degree AS degree WHERE workspace = %s AND id IN (SELECT id FROM gone) AND degree = 0
)
DELETE FROM heliograph_entity WHERE workspace = %s AND id IN (SELECT id FROM gone)"""

# Finds rows that differ from the state a change would leave; degrees are stored in their own table.
_WITH_DEGREES = """(SELECT entity.*, degree.degree FROM heliograph_entity AS entity
  LEFT JOIN heliograph_degree AS degree ON degree.workspace = entity.workspace AND degree.id = entity.id)"""
_OTHER_ENTITIES = comparison(_WITH_DEGREES, ENTITIES.types)
_OTHER_RELATIONS = comparison("heliograph_relation", RELATIONS.types)


def graph_statements(workspace: str, changeset: Changeset) -> Iterator[Statement]:
    """Yield the statements that apply the graph part of a changeset, removals first."""
    if changeset.removed_relations:
        ids = to_json(changeset.removed_relations)
        yield Statement(_REMOVE_RELATIONS, (workspace, ids, workspace))
    if changeset.removed_entities:
        ids = to_json(changeset.removed_entities)
        yield Statement(_REMOVE_ENTITIES, (workspace, ids, workspace, ids))
    now = int(time.time())
    rows = (
        (_PUT_ENTITIES, [(item.id, ENTITIES.row(item)) for item in changeset.entities]),
        (_PUT_RELATIONS, [(item.id, RELATIONS.row(item)) for item in changeset.relations]),
    )
    for query, items in rows:
        if items:
            dated = to_json(row | {"created_at": changeset.moments.get(id_, now)} for id_, row in items)
            yield Statement(query, (workspace, dated, workspace))


def followed_graph_statements(workspace: str, change: ProjectionChange) -> Iterator[Statement]:
    """Yield the statements that apply a change to a graph projection."""
    if gone := change.removed.get(OutboxKind.RELATIONS):
        yield Statement(_REMOVE_RELATIONS, (workspace, to_json(gone), workspace))
    if gone := change.removed.get(OutboxKind.ENTITIES):
        yield Statement(_REMOVE_FOLLOWED_ENTITIES, (to_json(gone), workspace, workspace))
    if change.entities:
        yield Statement(_PUT_FOLLOWED_ENTITIES, (workspace, to_json(map(ENTITIES.row, change.entities)), workspace))
    if change.relations:
        ends = to_json(id_ for item in change.relations for id_ in (item.source_id, item.target_id))
        yield Statement(_ENDS, (workspace, ends))
        yield Statement(_PUT_FOLLOWED_RELATIONS, (workspace, to_json(map(RELATIONS.row, change.relations)), workspace))


def graph_comparisons(workspace: str, expected: ProjectionChange) -> Iterator[Statement]:
    """Yield the statements that find the ids of entities and relations that are stored differently."""
    if expected.entities:
        yield Statement(_OTHER_ENTITIES, (to_json(map(ENTITIES.row, expected.entities)), workspace))
    if expected.relations:
        yield Statement(_OTHER_RELATIONS, (to_json(map(RELATIONS.row, expected.relations)), workspace))


# Names of entities on PostgreSQL: a B-tree of their keys for prefixes, a `tsvector` of pieces for substrings.
#
# These find candidates, whose names are then compared, so that order and distance of the pieces need not be stored.

T = TypeVar("T")
_FIND = f"""
WITH begins AS (
  SELECT id FROM heliograph_entity_name WHERE workspace = %s AND name >= %s AND name < %s
  ORDER BY name LIMIT {MOST_CANDIDATES}
), contains AS (
  SELECT id FROM heliograph_entity_name WHERE workspace = %s AND pieces @@ %s::tsquery LIMIT {MOST_CANDIDATES}
)
SELECT entity.id, entity.name, entity.aliases, degree.degree
FROM (SELECT id FROM begins UNION SELECT id FROM contains) AS found
JOIN heliograph_entity AS entity ON entity.workspace = %s AND entity.id = found.id
JOIN heliograph_degree AS degree ON degree.workspace = %s AND degree.id = found.id"""
# Most entities keep their names when other fields change.
_PUT = """
WITH new AS MATERIALIZED (SELECT * FROM json_to_recordset(%s) AS new (id text, name text, pieces text)), gone AS (
  DELETE FROM heliograph_entity_name AS known USING (SELECT DISTINCT id FROM new) AS changed
  WHERE known.workspace = %s AND known.id = changed.id
    AND NOT EXISTS (SELECT 1 FROM new WHERE new.id = known.id AND new.name = known.name)
)
INSERT INTO heliograph_entity_name (workspace, id, name, pieces)
SELECT %s, id, name, array_to_tsvector(string_to_array(pieces, ' ')) FROM new WHERE name <> ''
ON CONFLICT DO NOTHING"""


class PostgresNameIndex(KeyedNameIndex):
    """The name index in one table."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def find_candidates(self, key: str, limit: int) -> list[Row]:  # noqa: ARG002
        pieces = " & ".join(f"'{piece}'" for piece in pieces_within(key)) or None
        workspace = self._database.workspace
        values = workspace, key, key + LAST_CHARACTER, workspace, pieces, workspace, workspace
        return await self._database.fetch(_FIND, values, is_planned_anew=True)


def name_statements(workspace: str, changeset: Changeset) -> Iterator[Statement]:
    """Yield the statements that apply a changeset's entities to the name index."""
    yield from deletion(workspace, "heliograph_entity_name", changeset.removed_entities)
    if changeset.entities:
        named = ((item.id, keys_of((item.name, *item.aliases)) or {""}) for item in changeset.entities)
        rows = [{"id": id_, "name": key, "pieces": terms_of([key])} for id_, keys in named for key in keys]
        yield Statement(_PUT, (to_json(rows), workspace, workspace))


# Walking the graph on PostgreSQL, one round trip per level: neighbourhoods and shortest paths, within limits.

_NEIGHBOURS = """
SELECT source_id, target_id, weight FROM json_array_elements_text(%s) AS wanted (id)
JOIN heliograph_relation AS relation ON relation.workspace = %s AND relation.source_id = wanted.id
UNION ALL
SELECT target_id, source_id, weight FROM json_array_elements_text(%s) AS wanted (id)
JOIN heliograph_relation AS relation ON relation.workspace = %s AND relation.target_id = wanted.id
LIMIT %s"""
# One more than the limit shows that some were left out.
_NEXT_LEVEL = """
WITH known AS MATERIALIZED (SELECT id FROM json_array_elements_text(%s) AS given (id)),
frontier AS MATERIALIZED (SELECT id FROM json_array_elements_text(%s) AS given (id)),
level AS (
  SELECT target_id AS id FROM frontier
  JOIN heliograph_relation AS relation ON relation.workspace = %s AND relation.source_id = frontier.id
  UNION
  SELECT source_id FROM frontier
  JOIN heliograph_relation AS relation ON relation.workspace = %s AND relation.target_id = frontier.id
)
SELECT level.id FROM level
JOIN heliograph_entity AS entity ON entity.workspace = %s AND entity.id = level.id
JOIN heliograph_degree AS degree ON degree.workspace = %s AND degree.id = level.id
WHERE level.id NOT IN (SELECT id FROM known)
ORDER BY degree.degree DESC, entity.name, entity.id LIMIT %s"""
_EXISTING = """SELECT id FROM heliograph_entity
  WHERE workspace = %s AND id = ANY (ARRAY(SELECT json_array_elements_text(%s)))"""


_DEGREE = "JOIN heliograph_degree AS degree ON degree.workspace = entity.workspace AND degree.id = entity.id"
_ENTITIES_BY_ID = f"""SELECT {ENTITY} FROM {WANTED}
  JOIN heliograph_entity AS entity ON entity.workspace = %s AND entity.id = wanted.id {_DEGREE} ORDER BY wanted.place"""
_NAMES_BY_ID = """SELECT id, name FROM heliograph_entity
  WHERE workspace = %s AND id = ANY (ARRAY(SELECT json_array_elements_text(%s)))"""
_RELATIONS_BY_ID = f"""SELECT {RELATION} FROM {WANTED}
  JOIN heliograph_relation AS relation ON relation.workspace = %s AND relation.id = wanted.id ORDER BY wanted.place"""
_RANKED = """
WITH start AS MATERIALIZED (SELECT DISTINCT id FROM json_array_elements_text(%s) AS given (id)),
incident AS (
  SELECT relation.id, source_id, target_id, weight FROM start
  JOIN heliograph_relation AS relation ON relation.workspace = %s AND relation.source_id = start.id
  UNION
  SELECT relation.id, source_id, target_id, weight FROM start
  JOIN heliograph_relation AS relation ON relation.workspace = %s AND relation.target_id = start.id
)
SELECT incident.id, source.degree + target.degree AS degree, weight FROM incident
JOIN heliograph_degree AS source ON source.workspace = %s AND source.id = source_id
JOIN heliograph_degree AS target ON target.workspace = %s AND target.id = target_id
ORDER BY degree DESC, weight DESC, incident.id"""
_AMONG = f"""
WITH wanted AS MATERIALIZED (SELECT DISTINCT id FROM json_array_elements_text(%s) AS given (id))
SELECT {RELATION} FROM wanted
JOIN heliograph_relation AS relation ON relation.workspace = %s AND relation.source_id = wanted.id
WHERE relation.target_id IN (SELECT id FROM wanted) ORDER BY relation.weight DESC, relation.id"""
# As in the index `heliograph_degree_of_well_connected`, in which most lists end.
_LISTED = f"""SELECT {ENTITY} FROM heliograph_degree AS degree
  JOIN heliograph_entity AS entity ON entity.workspace = degree.workspace AND entity.id = degree.id
  WHERE degree.workspace = %s {{narrow}}
  ORDER BY degree.degree DESC, entity.name, entity.id LIMIT %s OFFSET %s"""
_WELL_CONNECTED = "AND degree.degree >= 16"


class PostgresGraphStore(GraphStore):
    """The graph in tables."""

    def __init__(self, database: Database | Session) -> None:
        self._database = database

    async def get_entities(self, ids: Sequence[str]) -> list[Entity]:
        rows = await self._database.fetch(_ENTITIES_BY_ID, (to_json(ids), self._database.workspace)) if ids else []
        return [ENTITIES.record(row) for row in rows]

    async def get_entity_names(self, ids: Sequence[str]) -> Mapping[str, str]:
        return dict(await self._database.fetch(_NAMES_BY_ID, (self._database.workspace, to_json(ids)))) if ids else {}

    async def get_relations(self, ids: Sequence[str]) -> list[Relation]:
        rows = await self._database.fetch(_RELATIONS_BY_ID, (to_json(ids), self._database.workspace)) if ids else []
        return [RELATIONS.record(row) for row in rows]

    async def rank_incident_relations(self, entity_ids: Sequence[str]) -> list[IncidentRelation]:
        if not entity_ids:
            return []
        workspace = self._database.workspace
        rows = await self._database.fetch(_RANKED, (to_json(entity_ids), *[workspace] * 4))
        return [*map(IncidentRelation._make, rows)]

    async def list_entities(self, offset: int, limit: int) -> list[Entity]:
        return await self._list("", (), offset, limit)

    async def list_entities_of_type(self, type_: str, offset: int, limit: int) -> list[Entity]:
        return await self._list(" AND entity.type = %s", (type_,), offset, limit)

    async def _list(self, condition: str, values: tuple[str, ...], offset: int, limit: int) -> list[Entity]:
        if limit < 1:
            return []
        bound = (self._database.workspace, *values, limit, offset)
        rows = await self._database.fetch(_LISTED.format(narrow=_WELL_CONNECTED + condition), bound)
        if len(rows) < limit:
            rows = await self._database.fetch(_LISTED.format(narrow=condition), bound)
        return [ENTITIES.record(row) for row in rows]

    async def find_relations_among(self, entity_ids: Sequence[str]) -> list[Relation]:
        rows = await self._database.fetch(_AMONG, (to_json(entity_ids), self._database.workspace)) if entity_ids else []
        return [RELATIONS.record(row) for row in rows]

    async def at_one_moment(self, work: Callable[[GraphStore], Coroutine[Any, Any, T]]) -> T:

        async def read(session: Session) -> T:
            await session.begin_snapshot()
            return await work(PostgresGraphStore(session))

        return await self._database.run(read) if isinstance(self._database, Database) else await work(self)

    async def find_nodes(self, entity_ids: Sequence[str]) -> Mapping[str, str]:
        rows = await self._database.fetch(_EXISTING, (self._database.workspace, to_json(entity_ids)))
        return {id_: id_ for (id_,) in rows}

    async def find_steps(self, nodes: Collection[str], limit: int | None) -> list[tuple[str, str, float]]:
        wanted, workspace = to_json(nodes), self._database.workspace
        rows = await self._database.fetch(_NEIGHBOURS, (wanted, workspace, wanted, workspace, limit))
        return [(near, far, weight) for near, far, weight in rows]

    async def find_next_level(self, frontier: Sequence[str], behind: Collection[str], limit: int) -> list[str]:
        """The server orders and cuts a level, so that little is sent for a hub."""
        values = to_json(list(behind)), to_json(frontier), *[self._database.workspace] * 4, limit
        return [id_ for (id_,) in await self._database.fetch(_NEXT_LEVEL, values)]
