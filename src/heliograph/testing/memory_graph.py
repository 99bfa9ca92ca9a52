"""The graph of `MemoryStore`: entities, relations, degrees, and walks over them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from heliograph.models import Entity, GraphPath, Relation, Subgraph
from heliograph.stores.base import GraphStore, IncidentRelation
from heliograph.stores.names import NameIndex, rank_names

__all__ = ["MemoryGraphStore", "MemoryNameIndex"]


class MemoryGraphStore(GraphStore):
    """Entities and relations in dictionaries.

    Attributes:
        entities: By id.
        relations: By id.
    """

    def __init__(self) -> None:
        self.entities: dict[str, Entity] = {}
        self.relations: dict[str, Relation] = {}
        # Per entity id: relation id -> id of the other end.
        self._incident: defaultdict[str, dict[str, str]] = defaultdict(dict)

    def remove(self, entity_ids: Iterable[str], relation_ids: Iterable[str]) -> None:
        """Drop these; what is absent is no matter."""
        for id_ in relation_ids:
            relation = self.relations.pop(id_, None)
            if relation is not None:
                self._incident[relation.source_id].pop(id_, None)
                self._incident[relation.target_id].pop(id_, None)
        for id_ in entity_ids:
            self.entities.pop(id_, None)

    def upsert(
        self,
        entities: Iterable[Entity],
        relations: Iterable[Relation],
        moment: int,
        moments: Mapping[str, int] | None = None,
    ) -> None:
        """Put these in; new ones appeared at `moment` (Unix seconds), or at one of their own in `moments`."""
        own = moments or {}
        for entity in entities:
            known = self.entities.get(entity.id)
            self.entities[entity.id] = replace(
                entity, created_at=known.created_at if known else own.get(entity.id, moment)
            )
        for relation in relations:
            known_relation = self.relations.get(relation.id)
            created_at = known_relation.created_at if known_relation else own.get(relation.id, moment)
            self.relations[relation.id] = replace(relation, created_at=created_at)
            self._incident[relation.source_id][relation.id] = relation.target_id
            self._incident[relation.target_id][relation.id] = relation.source_id

    def date(self, moments: Mapping[str, int]) -> None:
        """Set when things first appeared, in Unix seconds by id."""
        for id_, entity in self.entities.items():
            self.entities[id_] = replace(entity, created_at=moments[id_])
        for id_, relation in self.relations.items():
            self.relations[id_] = replace(relation, created_at=moments[id_])

    async def get_entities(self, ids: Sequence[str]) -> list[Entity]:
        return [self._entity(id_) for id_ in ids if id_ in self.entities]

    async def get_relations(self, ids: Sequence[str]) -> list[Relation]:
        return [self.relations[id_] for id_ in ids if id_ in self.relations]

    async def rank_incident_relations(self, entity_ids: Sequence[str]) -> list[IncidentRelation]:
        ids = dict.fromkeys(relation for entity in entity_ids for relation in self._incident.get(entity, {}))
        ranked = [self._ranked(self.relations[id_]) for id_ in ids]
        return sorted(ranked, key=lambda item: (-item.degree, -item.weight, item.id))

    async def list_entities(self, offset: int, limit: int) -> list[Entity]:
        return self._by_degree(self.entities)[offset : offset + limit]

    async def find_relations_among(self, entity_ids: Sequence[str]) -> list[Relation]:
        wanted = set(entity_ids)
        found = [item for item in self.relations.values() if {item.source_id, item.target_id} <= wanted]
        return sorted(found, key=lambda relation: (-relation.weight, relation.id))

    async def get_neighbourhood(self, entity_id: str, depth: int, max_entities: int) -> Subgraph:
        if entity_id not in self.entities or max_entities < 1:
            return Subgraph((), (), is_truncated=False)
        found = {entity_id: self._entity(entity_id)}
        frontier, is_truncated = [entity_id], False
        for _ in range(depth):
            nearby = {other for id_ in frontier for other in self._neighbours(id_)} - found.keys()
            level = self._by_degree(nearby)
            room = max_entities - len(found)
            is_truncated = is_truncated or len(level) > room
            frontier = [entity.id for entity in level[:room]]
            found.update((entity.id, entity) for entity in level[:room])
        inside = dict.fromkeys(relation for id_ in found for relation in self._incident.get(id_, {}))
        relations = [self.relations[id_] for id_ in inside]
        kept = tuple(item for item in relations if item.source_id in found and item.target_id in found)
        return Subgraph(tuple(found.values()), kept, is_truncated)

    async def find_shortest_paths(
        self,
        source_id: str,
        target_id: str,
        max_length: int,
        limit: int,
        most_visited: int = 200_000,  # noqa: ARG002
    ) -> list[GraphPath]:
        if source_id not in self.entities or target_id not in self.entities or max_length < 0:
            return []
        distances = self._distances(source_id, max_length)
        if target_id not in distances:
            return []
        paths = [self._path(steps) for steps in self._steps_back(target_id, distances)]
        paths.sort(key=lambda path: (-_weight(path), [entity.id for entity in path.entities]))
        return paths[:limit]

    def _entity(self, id_: str) -> Entity:
        return replace(self.entities[id_], degree=len(self._incident.get(id_, {})))

    def _by_degree(self, ids: Iterable[str]) -> list[Entity]:
        return sorted(map(self._entity, ids), key=lambda entity: (-entity.degree, entity.name, entity.id))

    def _ranked(self, relation: Relation) -> IncidentRelation:
        ends = self._incident[relation.source_id], self._incident[relation.target_id]
        return IncidentRelation(relation.id, len(ends[0]) + len(ends[1]), relation.weight)

    def _neighbours(self, id_: str) -> list[str]:
        return [other for other in self._incident.get(id_, {}).values() if other in self.entities]

    def _distances(self, start: str, most: int) -> dict[str, int]:
        distances, frontier = {start: 0}, [start]
        for distance in range(1, most + 1):
            level = {other for id_ in frontier for other in self._neighbours(id_)} - distances.keys()
            distances.update(dict.fromkeys(level, distance))
            frontier = list(level)
        return distances

    def _steps_back(self, id_: str, distances: dict[str, int]) -> Iterator[list[tuple[str, str]]]:
        """Yield every shortest way from the start to `id_` as (relation id or empty, entity id), start first."""
        if distances[id_] == 0:
            yield [("", id_)]
        for relation, other in self._incident.get(id_, {}).items():
            if distances.get(other, -1) == distances[id_] - 1:
                for steps in self._steps_back(other, distances):
                    yield [*steps, (relation, id_)]

    def _path(self, steps: Sequence[tuple[str, str]]) -> GraphPath:
        entities = tuple(self._entity(id_) for _, id_ in steps)
        return GraphPath(entities, tuple(self.relations[relation] for relation, _ in steps[1:]))


class MemoryNameIndex(NameIndex):
    """Looks at every name.

    Args:
        graph: Whose entities are looked for.
    """

    def __init__(self, graph: MemoryGraphStore) -> None:
        self._graph = graph

    async def find_names(self, text: str, limit: int) -> list[str]:
        entities = await self._graph.get_entities(list(self._graph.entities))
        return rank_names(((item.id, item.name, item.aliases, item.degree) for item in entities), text, limit)


def _weight(path: GraphPath) -> float:
    return sum(relation.weight for relation in path.relations)
