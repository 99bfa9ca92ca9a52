"""Walking the graph on PostgreSQL, a level a round trip: neighbourhoods and shortest paths, within limits."""

from __future__ import annotations

from heliograph.stores.paths import PathSearch
from heliograph.stores.postgres.codec import to_json
from heliograph.stores.postgres.session import Session

_NEIGHBOURS = """
SELECT source_id, target_id, weight FROM json_array_elements_text(%s) AS wanted (id)
JOIN heliograph_relation AS relation ON relation.workspace = %s AND relation.source_id = wanted.id
UNION ALL
SELECT target_id, source_id, weight FROM json_array_elements_text(%s) AS wanted (id)
JOIN heliograph_relation AS relation ON relation.workspace = %s AND relation.target_id = wanted.id
LIMIT %s"""
# One more than there is room for shows that some were left out.
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


async def walk(session: Session, entity_id: str, depth: int, max_entities: int) -> tuple[list[str], bool]:
    """Return the ids within `depth` relations of an entity, and whether some were left out.

    The order is that of `Subgraph`: each level is taken by degree (descending), then name.
    """
    if max_entities < 1 or not await _exist(session, entity_id):
        return [], False
    found = [entity_id]
    frontier = [entity_id]
    for _ in range(depth):
        room = max_entities - len(found)
        values = (to_json(found), to_json(frontier), *[session.workspace] * 4, room + 1)
        frontier = [id_ for (id_,) in await session.fetch(_NEXT_LEVEL, values)]
        found += frontier[:room]
        if len(frontier) > room:
            return found, True
        if not frontier:
            break
    return found, False


async def find_paths(
    session: Session, source_id: str, target_id: str, max_length: int, limit: int, most_visited: int
) -> list[list[str]]:
    """Return the ids along up to `limit` shortest paths, in the order of `GraphStore.find_shortest_paths`."""
    if not await _exist(session, source_id, target_id):
        return []
    search = PathSearch(source_id, target_id, max_length, limit, most_visited)
    while frontier := search.frontier:
        wanted, workspace = to_json(frontier), session.workspace
        values = (wanted, workspace, wanted, workspace, most_visited + 1)
        search.expand([(near, far, weight) for near, far, weight in await session.fetch(_NEIGHBOURS, values)])
    return search.paths()


async def _exist(session: Session, *ids: str) -> bool:
    rows = await session.fetch(_EXISTING, (session.workspace, to_json(ids)))
    return {id_ for (id_,) in rows} == set(ids)
