"""Walking the embedded graph by integer keys: neighbourhoods and shortest paths, level by level, within limits."""

from __future__ import annotations

from collections.abc import Collection

import apsw

from heliograph.stores.paths import PathSearch
from heliograph.stores.sqlite.identity import find_ids, find_keys
from heliograph.stores.sqlite.sql import array, fetch, fetch_one

_NEIGHBOURS = """
SELECT wanted.value, target_key, weight FROM carray(?1) AS wanted CROSS JOIN relation ON source_key = wanted.value
UNION ALL
SELECT wanted.value, source_key, weight FROM carray(?1) AS wanted CROSS JOIN relation ON target_key = wanted.value
LIMIT ?2
"""
_ALL = -1


def walk(connection: apsw.Connection, entity_id: str, depth: int, max_entities: int) -> tuple[list[int], bool]:
    """Return the keys within `depth` relations of an entity, and whether some were left out.

    The order is that of `Subgraph`: each level is taken by degree (descending), then name.
    """
    start = find_keys(connection, (entity_id,)).get(entity_id)
    if start is None or max_entities < 1 or not _exist(connection, start):
        return [], False
    found = {start: None}
    frontier = [start]
    for _ in range(depth):
        level = {key for _, key, _ in fetch(connection, _NEIGHBOURS, (array(frontier), _ALL))} - found.keys()
        if not level:
            break
        room = max_entities - len(found)
        frontier = _most_connected(connection, level, room)
        found.update(dict.fromkeys(frontier))
        if len(level) > room:
            return list(found), True
    return list(found), False


def _exist(connection: apsw.Connection, key: int) -> bool:
    return fetch_one(connection, "SELECT 1 FROM entity WHERE key = ?", (key,)) is not None


def _most_connected(connection: apsw.Connection, keys: Collection[int], limit: int) -> list[int]:
    query = """SELECT entity_degree.key FROM carray(?) AS wanted
               CROSS JOIN entity_degree ON entity_degree.key = wanted.value CROSS JOIN entity USING (key)
               ORDER BY degree DESC, name, entity_degree.key LIMIT ?"""
    return [key for (key,) in fetch(connection, query, (array(keys), limit))]


def find_paths(
    connection: apsw.Connection, source_id: str, target_id: str, max_length: int, limit: int, most_visited: int
) -> list[list[int]]:
    """Return the keys along up to `limit` shortest paths, in the order of `GraphStore.find_shortest_paths`."""
    keys = find_keys(connection, (source_id, target_id))
    if len(keys) < len({source_id, target_id}) or not all(_exist(connection, key) for key in keys.values()):
        return []
    search = PathSearch(keys[source_id], keys[target_id], max_length, limit, most_visited)
    while frontier := search.frontier:
        # One more than may be met shows that there are too many.
        search.expand(fetch(connection, _NEIGHBOURS, (array(frontier), most_visited + 1)))
    return search.paths(lambda found: find_ids(connection, found))
