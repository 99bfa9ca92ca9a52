"""Entities and relations on PostgreSQL: two wide tables, a narrow one of degrees, indexes by either end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from heliograph.models import Entity, GraphPath, Relation, Subgraph
from heliograph.stores.base import GraphStore, IncidentRelation
from heliograph.stores.postgres.codec import to_json
from heliograph.stores.postgres.database import Database
from heliograph.stores.postgres.rows import ENTITY, RELATION, WANTED, to_entity, to_relation
from heliograph.stores.postgres.session import Session, Statement
from heliograph.stores.postgres.traversal import find_paths, walk
from heliograph.stores.stepping import join_paths

_DEGREE = "JOIN heliograph_degree AS degree ON degree.workspace = entity.workspace AND degree.id = entity.id"
_ENTITIES = f"""SELECT {ENTITY} FROM {WANTED}
  JOIN heliograph_entity AS entity ON entity.workspace = %s AND entity.id = wanted.id {_DEGREE} ORDER BY wanted.place"""
_RELATIONS = f"""SELECT {RELATION} FROM {WANTED}
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

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get_entities(self, ids: Sequence[str]) -> list[Entity]:
        rows = await self._database.fetch(_ENTITIES, (to_json(ids), self._database.workspace)) if ids else []
        return [to_entity(row) for row in rows]

    async def get_relations(self, ids: Sequence[str]) -> list[Relation]:
        rows = await self._database.fetch(_RELATIONS, (to_json(ids), self._database.workspace)) if ids else []
        return [to_relation(row) for row in rows]

    async def rank_incident_relations(self, entity_ids: Sequence[str]) -> list[IncidentRelation]:
        if not entity_ids:
            return []
        workspace = self._database.workspace
        rows = await self._database.fetch(_RANKED, (to_json(entity_ids), *[workspace] * 4))
        return [IncidentRelation(*row) for row in rows]

    async def list_entities(self, offset: int, limit: int) -> list[Entity]:
        if limit < 1:
            return []
        values = (self._database.workspace, limit, offset)
        rows = await self._database.fetch(_LISTED.format(narrow=_WELL_CONNECTED), values)
        if len(rows) < limit:
            rows = await self._database.fetch(_LISTED.format(narrow=""), values)
        return [to_entity(row) for row in rows]

    async def find_relations_among(self, entity_ids: Sequence[str]) -> list[Relation]:
        statement = _among(self._database.workspace, entity_ids)
        rows = await self._database.fetch(statement.query, statement.values) if entity_ids else []
        return [to_relation(row) for row in rows]

    async def get_neighbourhood(self, entity_id: str, depth: int, max_entities: int) -> Subgraph:

        async def read(session: Session) -> Subgraph:
            await session.begin_snapshot()
            ids, is_truncated = await walk(session, entity_id, depth, max_entities)
            entities, relations = await _read_graph(session, ids)
            return Subgraph(tuple(entities), tuple(relations), is_truncated)

        return await self._database.read(read)

    async def find_shortest_paths(
        self, source_id: str, target_id: str, max_length: int, limit: int, most_visited: int = 200_000
    ) -> list[GraphPath]:

        async def read(session: Session) -> list[GraphPath]:
            await session.begin_snapshot()
            paths = await find_paths(session, source_id, target_id, max_length, limit, most_visited)
            found, relations = await _read_graph(session, dict.fromkeys(id_ for path in paths for id_ in path))
            entities = {entity.id: entity for entity in found}
            return join_paths(paths, entities, relations)

        return await self._database.read(read)


def _among(workspace: str, ids: Iterable[str]) -> Statement:
    return Statement(_AMONG, (to_json(ids), workspace))


async def _read_graph(session: Session, ids: Iterable[str]) -> tuple[list[Entity], list[Relation]]:
    """Return these entities, in order, and the relations among them."""
    wanted = list(ids)
    if not wanted:
        return [], []
    entities, relations = await session.run(
        Statement(_ENTITIES, (to_json(wanted), session.workspace)), _among(session.workspace, wanted)
    )
    return [to_entity(row) for row in entities], [to_relation(row) for row in relations]
