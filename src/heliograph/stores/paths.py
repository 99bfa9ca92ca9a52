"""Walking a graph level by level: shortest paths from both ends at once, and neighbourhoods, one round trip a level."""

from __future__ import annotations

from abc import abstractmethod
from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Generic, TypeVar

from heliograph.models import Entity, GraphPath, Relation, Subgraph
from heliograph.stores.base import GraphStore

K = TypeVar("K", bound=Hashable)


class PathSearch(Generic[K]):
    """One search, over entities known by ids or by a back end's own keys.

    Args:
        source: One end.
        target: The other; may be the same.
        max_length: Relations of a path at the most.
        limit: Paths at the most.
        most_visited: Relations of one step, and entities met before one, beyond which there is no path.
    """

    def __init__(self, source: K, target: K, max_length: int, limit: int, most_visited: int) -> None:
        self._sides = _Side[K](source), _Side[K](target)
        self._left = max_length
        self._limit = limit
        self._most_visited = most_visited
        self._has_failed = max_length < 0 or limit < 1

    @property
    def frontier(self) -> Sequence[K]:
        """Entities whose relations are wanted next; empty when the search has ended."""
        if self._has_failed or self._meeting:
            return ()
        side = min(self._sides, key=lambda candidate: len(candidate.frontier))
        visited = sum(len(one.seen) for one in self._sides)
        if not self._left or not side.frontier or visited > self._most_visited:
            return ()
        return tuple(side.frontier)

    def expand(self, relations: Sequence[tuple[K, K, float]]) -> None:
        """Go one step further.

        Args:
            relations: All that touch the frontier: the entity of it, the other one, weight. One that touches it with
                both ends comes twice.
        """
        if len(relations) > self._most_visited:
            self._has_failed = True
            return
        min(self._sides, key=lambda candidate: len(candidate.frontier)).expand(relations)
        self._left -= 1

    def paths(self, name: Callable[[Collection[K]], Mapping[K, str]] | None = None) -> list[list[K]]:
        """Return what lies along each path, by the sum of weights (descending), then by ids; empty if there is none.

        Args:
            name: Gives the ids of entities; None if what they are known by are ids.
        """
        if self._has_failed or not self._meeting:
            return []
        left, right = self._sides
        ids: Mapping[K, Any] = name(left.seen | right.seen) if name else {key: key for key in left.seen | right.seen}
        ways, back = left.best(ids, self._limit), right.best(ids, self._limit)
        whole = [
            (cost + rest, (*path, *reversed(tail[:-1])))
            for met in self._meeting
            for cost, path in ways[met]
            for rest, tail in back[met]
        ]
        return [list(path) for _, path in _best(whole, ids, self._limit)]

    @property
    def _meeting(self) -> set[K]:
        return self._sides[0].frontier & self._sides[1].frontier


class _Side(Generic[K]):
    """One end: the levels reached so far, and how each entity was reached from the level before."""

    def __init__(self, start: K) -> None:
        self.start = start
        self.seen = {start}
        self.frontier = {start}
        self._levels: list[dict[K, list[tuple[K, float]]]] = []

    def expand(self, relations: Iterable[tuple[K, K, float]]) -> None:
        """Reach one level further, along the relations of the frontier."""
        steps: dict[K, list[tuple[K, float]]] = defaultdict(list)
        for origin, other, weight in relations:
            if other not in self.seen:
                steps[other].append((origin, weight))
        self._levels.append(steps)
        self.frontier = set(steps)
        self.seen |= self.frontier

    def best(self, ids: Mapping[K, Any], limit: int) -> Mapping[K, list[tuple[float, tuple[K, ...]]]]:
        """Return, per entity of the last level, its best ways from the start: minus the sum of weights, steps."""
        ways: dict[K, list[tuple[float, tuple[K, ...]]]] = {self.start: [(0.0, (self.start,))]}
        for steps in self._levels:
            ways = {key: _best(_extended(key, origins, ways), ids, limit) for key, origins in steps.items()}
        return ways


def _extended(
    key: K, origins: Sequence[tuple[K, float]], ways: Mapping[K, list[tuple[float, tuple[K, ...]]]]
) -> list[tuple[float, tuple[K, ...]]]:
    return [(cost - weight, (*path, key)) for origin, weight in origins for cost, path in ways.get(origin, ())]


def _best(
    ways: list[tuple[float, tuple[K, ...]]], ids: Mapping[K, Any], limit: int
) -> list[tuple[float, tuple[K, ...]]]:
    return sorted(ways, key=lambda way: (way[0], [ids[step] for step in way[1]]))[:limit]


# Walking a graph that is read over a network: neighbourhoods and shortest paths, one round trip a level.
#
# What a back end has to offer is what touches some entities, and how well these are connected.

# How often a search is made that finds the graph changed under it.
_ATTEMPTS = 3


class SteppingGraphStore(GraphStore):
    """Walks level by level, in the order that `GraphStore` asks for."""

    @abstractmethod
    async def find_steps(self, entity_ids: Collection[str], limit: int | None) -> list[tuple[str, str, float]]:
        """Return all relations that touch these: the entity of them, the other one, weight; both ways if both are.

        Args:
            entity_ids: Where to step from.
            limit: Relations from which on the rest need not be read; None reads all.
        """

    @abstractmethod
    async def order_entities(self, entity_ids: Collection[str], limit: int) -> list[str]:
        """Return the first of these that are there, by degree (descending), then name, then id."""

    async def find_next_level(self, frontier: Sequence[str], behind: Collection[str], limit: int) -> list[str]:
        """Return the first entities that are one step from the frontier and not behind, as `order_entities` does."""
        level = {far for _, far, _ in await self.find_steps(frontier, None)} - set(behind)
        return await self.order_entities(level, limit) if level else []

    async def get_neighbourhood(self, entity_id: str, depth: int, max_entities: int) -> Subgraph:
        found, is_truncated = await self._walk(entity_id, depth, max_entities)
        entities = await self.get_entities(found)
        relations = await self.find_relations_among([entity.id for entity in entities]) if entities else []
        return Subgraph(tuple(entities), tuple(relations), is_truncated)

    async def find_shortest_paths(
        self, source_id: str, target_id: str, max_length: int, limit: int, most_visited: int = 200_000
    ) -> list[GraphPath]:
        ends = list(dict.fromkeys((source_id, target_id)))
        if len(await self.get_entities(ends)) < len(ends):
            return []
        # Steps, entities and relations are read one after the other, and others may write between.
        whole: list[GraphPath] = []
        for _ in range(_ATTEMPTS):
            search = PathSearch(source_id, target_id, max_length, limit, most_visited)
            while frontier := search.frontier:
                search.expand(await self.find_steps(frontier, most_visited + 1))
            paths = search.paths()
            on_path = list(dict.fromkeys(id_ for path in paths for id_ in path))
            entities = {entity.id: entity for entity in await self.get_entities(on_path)}
            relations = await self.find_relations_among(on_path) if on_path else []
            whole = join_paths(paths, entities, relations)
            if len(whole) == len(paths):
                break
        return whole

    async def _walk(self, entity_id: str, depth: int, max_entities: int) -> tuple[list[str], bool]:
        if max_entities < 1 or not await self.get_entities([entity_id]):
            return [], False
        found = {entity_id: None}
        frontier = [entity_id]
        for _ in range(depth):
            room = max_entities - len(found)
            frontier = await self.find_next_level(frontier, found, room + 1)
            if not frontier:
                break
            found.update(dict.fromkeys(frontier[:room]))
            if len(frontier) > room:
                return list(found), True
        return list(found), False


def join_paths(
    paths: Iterable[Sequence[str]], entities: Mapping[str, Entity], relations: Iterable[Relation]
) -> list[GraphPath]:
    """Return the paths that are still whole: a back end may read while others commit.

    Args:
        paths: Entity ids that follow one another.
        entities: What is known of these, by id.
        relations: What is known between them.
    """
    between = {frozenset((relation.source_id, relation.target_id)): relation for relation in relations}
    joined = []
    for path in paths:
        steps = [between.get(frozenset(step)) for step in pairwise(path)]
        if all(id_ in entities for id_ in path) and None not in steps:
            joined.append(GraphPath(tuple(entities[id_] for id_ in path), tuple(filter(None, steps))))
    return joined
