"""Walking a graph over a network while others write to it between the round trips."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pytest

from heliograph.ids import name_to_entity_id, relation_id
from heliograph.models import Entity, Relation
from heliograph.stores.base import IncidentRelation
from heliograph.stores.graph import GraphStore

NAMES = {name_to_entity_id(name): name for name in "ABCD"}
A, B, C, D = NAMES


class ChangingGraph(GraphStore):
    """A graph in memory that loses edges once a given number of reads has been made.

    Args:
        edges: Entity ids.
    """

    def __init__(self, *edges: tuple[str, str]) -> None:
        self.edges = set(edges)
        self.reads = 0
        self.losses: dict[int, set[tuple[str, str]]] = {}

    def _read(self) -> set[str]:
        self.edges -= self.losses.get(self.reads, set())
        self.reads += 1
        return {end for edge in self.edges for end in edge}

    async def get_entities(self, ids: Sequence[str]) -> list[Entity]:
        there = self._read()
        return [Entity(id_, NAMES[id_], "thing", "") for id_ in ids if id_ in there]

    async def get_relations(self, ids: Sequence[str]) -> list[Relation]:
        return [item for item in await self.find_relations_among(list(NAMES)) if item.id in ids]

    async def rank_incident_relations(self, entity_ids: Sequence[str]) -> list[IncidentRelation]:
        raise NotImplementedError(entity_ids)

    async def list_entities(self, offset: int, limit: int) -> list[Entity]:
        return (await self.get_entities(list(NAMES)))[offset : offset + limit]

    async def find_relations_among(self, entity_ids: Sequence[str]) -> list[Relation]:
        self._read()
        among = sorted(edge for edge in self.edges if set(edge) <= set(entity_ids))
        return [Relation(relation_id(a, b), NAMES[a], NAMES[b], a, b, (), "", 1.0) for a, b in among]

    async def find_steps(self, entity_ids: Collection[str], limit: int | None) -> list[tuple[str, str, float]]:
        self._read()
        both = [(near, far) for edge in self.edges for near, far in (edge, edge[::-1])]
        return [(near, far, 1.0) for near, far in both if near in entity_ids][:limit]

    async def order_nodes(self, nodes: Collection[str], limit: int) -> list[str]:
        return sorted(self._read() & set(nodes))[:limit]


async def _ways(graph: ChangingGraph) -> list[str]:
    paths = await graph.find_shortest_paths(A, D, 4, 5)
    assert all(len(path.relations) == len(path.entities) - 1 for path in paths)
    return sorted("".join(entity.name for entity in path.entities) for path in paths)


@pytest.mark.parametrize("read", range(12))
async def test_path_that_is_cut_while_it_is_read_gives_way_to_another(read: int) -> None:
    graph = ChangingGraph((A, B), (B, D), (A, C), (C, D))
    assert await _ways(graph) == ["ABD", "ACD"]
    graph.reads, graph.losses = 0, {read: {(A, B), (B, D)}}
    assert set(await _ways(graph)) in ({"ACD"}, {"ABD", "ACD"})


@pytest.mark.parametrize("read", range(12))
async def test_detour_is_found_where_the_only_short_path_is_cut(read: int) -> None:
    graph = ChangingGraph((A, D), (A, B), (B, D))
    graph.losses = {read: {(A, D)}}
    assert await _ways(graph) in (["AD"], ["ABD"])


async def test_path_of_a_graph_that_never_rests_is_left_out() -> None:
    graph = ChangingGraph((A, B), (B, D), (A, C), (C, D))
    everything = set(graph.edges)

    class Restless(ChangingGraph):
        async def find_relations_among(self, entity_ids: Sequence[str]) -> list[Relation]:
            self.edges = everything - {(A, B)}
            found = await super().find_relations_among(entity_ids)
            self.edges = everything
            return found

    assert await _ways(Restless(*everything)) == ["ACD"]


@pytest.mark.parametrize("read", range(6))
async def test_neighbourhood_holds_only_relations_between_its_entities(read: int) -> None:
    graph = ChangingGraph((A, B), (B, D), (A, C), (C, D))
    graph.losses = {read: {(B, D), (C, D)}}
    found = await graph.get_neighbourhood(A, 2, 10)
    ids = {entity.id for entity in found.entities}
    assert {A, B, C} <= ids
    assert all({relation.source_id, relation.target_id} <= ids for relation in found.relations)
