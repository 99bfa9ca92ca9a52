"""Walking the embedded graph by integer keys: neighbourhoods and shortest paths, level by level, within limits."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import apsw

from heliograph.stores.sqlite.identity import find_ids, find_keys
from heliograph.stores.sqlite.sql import array, fetch, fetch_one

__all__ = ["best_paths", "find_paths", "walk"]

_NEIGHBOURS = """
SELECT wanted.value, target_key, weight FROM carray(?1) AS wanted CROSS JOIN relation ON source_key = wanted.value
UNION ALL
SELECT wanted.value, source_key, weight FROM carray(?1) AS wanted CROSS JOIN relation ON target_key = wanted.value
LIMIT ?2
"""
_ALL = -1

_Steps = dict[int, list[tuple[int, float]]]
_Partial = tuple[float, tuple[int, ...]]


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
    """Return the keys along up to `limit` shortest paths, in the order of `GraphStore.find_shortest_paths`.

    Searches from both ends at once, always from the smaller frontier; an entity keeps only its `limit` best partial
    paths, which is exact because weights add up.
    """
    keys = find_keys(connection, (source_id, target_id))
    if len(keys) < len({source_id, target_id}) or limit < 1:
        return []
    source, target = keys[source_id], keys[target_id]
    if source == target:
        return [[source]] if _exist(connection, source) else []

    def neighbours(frontier: Collection[int]) -> Iterable[tuple[int, int, float]]:
        # One more than may be met shows that there are too many.
        return fetch(connection, _NEIGHBOURS, (array(frontier), most_visited + 1))

    return best_paths(
        source, target, max_length, limit, neighbours, lambda found: find_ids(connection, found), most_visited
    )


def best_paths(
    source: int,
    target: int,
    max_length: int,
    limit: int,
    neighbours: Callable[[Collection[int]], Iterable[tuple[int, int, float]]],
    name: Callable[[Collection[int]], Mapping[int, str]],
    most_visited: int,
) -> list[list[int]]:
    """Return the keys along up to `limit` shortest paths between two different entities.

    Args:
        source: Key of one end.
        target: Key of the other.
        max_length: Relations at the most.
        limit: Paths at the most.
        neighbours: Gives the relations that touch any of some entities: this one, the other, weight.
        name: Gives the ids of entities, by which ties are broken.
        most_visited: Relations of one step, and entities met before one, beyond which there is no path.
    """
    sides = _Side(source), _Side(target)
    length = 0
    while not (sides[0].frontier & sides[1].frontier):
        side = min(sides, key=lambda candidate: len(candidate.frontier))
        if length == max_length or not side.frontier or len(sides[0].seen) + len(sides[1].seen) > most_visited:
            return []
        relations = list(neighbours(side.frontier))
        if len(relations) > most_visited:
            return []
        side.expand(relations)
        length += 1
    return _join_halves(name(sides[0].seen | sides[1].seen), sides[0], sides[1], limit)


class _Side:
    """One end of a search: the levels reached so far and how each entity was reached from the level before."""

    def __init__(self, start: int) -> None:
        self.seen = {start}
        self.frontier = {start}
        self.levels: list[_Steps] = [{start: []}]

    def expand(self, relations: Iterable[tuple[int, int, float]]) -> None:
        """Reach one level further, along the relations of the frontier."""
        steps: _Steps = defaultdict(list)
        for origin, key, weight in relations:
            if key not in self.seen:
                steps[key].append((origin, weight))
        self.levels.append(steps)
        self.frontier = set(steps)
        self.seen |= self.frontier

    def best(self, ids: Mapping[int, str], limit: int) -> dict[int, list[_Partial]]:
        """Return, per entity of the last level, its best ways from the start: (-weight sum, keys)."""
        start = next(iter(self.levels[0]))
        ways: dict[int, list[_Partial]] = {start: [(0.0, (start,))]}
        for steps in self.levels[1:]:
            ways = {key: _extend(key, origins, ways, ids, limit) for key, origins in steps.items()}
        return ways


def _extend(
    key: int, origins: Sequence[tuple[int, float]], ways: dict[int, list[_Partial]], ids: Mapping[int, str], limit: int
) -> list[_Partial]:
    found = [(cost - weight, (*path, key)) for origin, weight in origins for cost, path in ways.get(origin, ())]
    return sorted(found, key=lambda way: (way[0], [ids[step] for step in way[1]]))[:limit]


def _join_halves(ids: Mapping[int, str], left: _Side, right: _Side, limit: int) -> list[list[int]]:
    ways, back = left.best(ids, limit), right.best(ids, limit)
    whole: list[_Partial] = [
        (cost + rest, (*path, *reversed(tail[:-1])))
        for key in left.frontier & right.frontier
        for cost, path in ways[key]
        for rest, tail in back[key]
    ]
    whole.sort(key=lambda way: (way[0], [ids[step] for step in way[1]]))
    return [list(path) for _, path in whole[:limit]]
