"""The graph that a filter leaves: folds from `reading`, walks over what the `Scope` holds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import nsmallest

from heliograph.models import Entity, GraphPath, Relation, Subgraph
from heliograph.stores.base import GraphStore, IncidentRelation
from heliograph.stores.paths import PathSearch
from heliograph.stores.scoped.reading import ScopedReader, ScopedReading
from heliograph.stores.scoped.scope import Scope
from heliograph.stores.stepping import join_paths


class ScopedGraphStore(GraphStore):
    """Entities and relations as the matching documents tell of them."""

    def __init__(self, reader: ScopedReader) -> None:
        self._reader = reader

    async def get_entities(self, ids: Sequence[str]) -> list[Entity]:

        async def read(reading: ScopedReading) -> list[Entity]:
            found = await reading.fold_entities(ids)
            return [found[id_] for id_ in ids if id_ in found]

        return await self._reader.read(read)

    async def get_relations(self, ids: Sequence[str]) -> list[Relation]:

        async def read(reading: ScopedReading) -> list[Relation]:
            found = await reading.fold_relations(ids)
            return [found[id_] for id_ in ids if id_ in found]

        return await self._reader.read(read)

    async def rank_incident_relations(self, entity_ids: Sequence[str]) -> list[IncidentRelation]:

        async def read(reading: ScopedReading) -> list[IncidentRelation]:
            scope = reading.scope
            ranked = [_ranked(scope, id_) for id_ in scope.touching(entity_ids)]
            return sorted(ranked, key=lambda item: (-item.degree, -item.weight, item.id))

        return await self._reader.read(read)

    async def list_entities(self, offset: int, limit: int) -> list[Entity]:

        async def read(reading: ScopedReading) -> list[Entity]:
            entities = reading.scope.entities
            first = _best_connected(reading.scope, entities, max(offset, 0) + max(limit, 0))
            return (await _in_order(reading, first))[max(offset, 0) :][: max(limit, 0)]

        return await self._reader.read(read)

    async def find_relations_among(self, entity_ids: Sequence[str]) -> list[Relation]:
        return await self._reader.read(lambda reading: _among(reading, entity_ids))

    async def get_neighbourhood(self, entity_id: str, depth: int, max_entities: int) -> Subgraph:

        async def read(reading: ScopedReading) -> Subgraph:
            if entity_id not in reading.scope.entities or max_entities < 1:
                return Subgraph((), (), is_truncated=False)
            return await _walk(reading, entity_id, depth, max_entities)

        return await self._reader.read(read)

    async def find_shortest_paths(
        self, source_id: str, target_id: str, max_length: int, limit: int, most_visited: int = 200_000
    ) -> list[GraphPath]:

        async def read(reading: ScopedReading) -> list[GraphPath]:
            scope = reading.scope
            if source_id not in scope.entities or target_id not in scope.entities:
                return []
            search = PathSearch(source_id, target_id, max_length, limit, most_visited)
            while frontier := search.frontier:
                search.expand(_neighbours(scope, frontier))
            paths = search.paths()
            entities = await reading.fold_entities(id_ for path in paths for id_ in path)
            relations = await _among(reading, entities)
            return join_paths(paths, entities, relations)

        return await self._reader.read(read)


def _ranked(scope: Scope, relation_id: str) -> IncidentRelation:
    tie = scope.relations[relation_id]
    degree = len(scope.entities[tie.source_id]) + len(scope.entities[tie.target_id])
    return IncidentRelation(relation_id, degree, tie.weight)


def _neighbours(scope: Scope, frontier: Sequence[str]) -> list[tuple[str, str, float]]:
    steps: list[tuple[str, str, float]] = []
    for id_ in frontier:
        ties = map(scope.relations.__getitem__, scope.entities[id_])
        steps += ((id_, tie.target_id if tie.source_id == id_ else tie.source_id, tie.weight) for tie in ties)
    return steps


async def _walk(reading: ScopedReading, start: str, depth: int, max_entities: int) -> Subgraph:
    scope = reading.scope
    found = await reading.fold_entities([start])
    frontier: list[str] = [start]
    is_truncated = False
    for _ in range(depth):
        level = {other for _, other, _ in _neighbours(scope, frontier)} - found.keys()
        room = max_entities - len(found)
        nearest = (await _in_order(reading, _best_connected(scope, level, room)))[:room]
        found.update((entity.id, entity) for entity in nearest)
        frontier = [entity.id for entity in nearest]
        is_truncated = len(level) > room
        if is_truncated or not frontier:
            break
    return Subgraph(tuple(found.values()), tuple(await _among(reading, found)), is_truncated)


def _best_connected(scope: Scope, ids: Iterable[str], limit: int) -> list[str]:
    """Return those with most relations: at least `limit`, and all that have as many as the last of these."""
    falling = [(-len(scope.entities[id_]), id_) for id_ in ids]
    first = nsmallest(limit, falling)
    return [id_ for degree, id_ in falling if first and degree <= first[-1][0]]


async def _in_order(reading: ScopedReading, ids: Iterable[str]) -> list[Entity]:
    """Return entities by degree (descending), then name."""
    found = await reading.fold_entities(ids)
    return sorted(found.values(), key=lambda entity: (-entity.degree, entity.name, entity.id))


async def _among(reading: ScopedReading, ids: Iterable[str]) -> list[Relation]:
    """Return the relations whose two ends are both among these, heaviest first, then by id."""
    wanted = set(ids)
    ties = reading.scope.relations
    inside = (id_ for id_ in reading.scope.touching(wanted) if {ties[id_].source_id, ties[id_].target_id} <= wanted)
    found = await reading.fold_relations(inside)
    return sorted(found.values(), key=lambda relation: (-relation.weight, relation.id))
