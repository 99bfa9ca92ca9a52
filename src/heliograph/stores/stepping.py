"""Walking a graph that is read over a network: neighbourhoods and shortest paths, one round trip a level.

What a back end has to offer is what touches some entities, and how well these are connected.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise

from heliograph.models import Entity, GraphPath, Relation, Subgraph
from heliograph.stores.base import GraphStore
from heliograph.stores.paths import PathSearch

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
