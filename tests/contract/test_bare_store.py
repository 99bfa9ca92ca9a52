"""A store that brings what the contract asks for and nothing else: all the rest follows from that."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence

import pytest

from heliograph.models import Entity, Relation
from heliograph.stores.base import (
    CurationStore,
    EveryName,
    GraphStore,
    IncidentRelation,
    Inspection,
    NoReembedding,
    NoReplyCache,
    RecordsStore,
    Store,
    TextStore,
    VectorStore,
)
from heliograph.stores.projection import CacheProjection, GraphProjection, TextProjection, VectorProjection
from heliograph.testing.memory_projection import MemoryGraphProjection
from heliograph.testing.memory_store import MemoryStore
from heliograph.testing.projection_contract import GraphProjectionContract
from heliograph.testing.store_contract import StoreContract

MOST_OF_A_STORE = 25
MOST_OF_A_PROJECTION = 8


class BareGraph(GraphStore):
    """The four methods that a graph cannot do without."""

    def __init__(self, graph: GraphStore) -> None:
        self._graph = graph

    async def get_entities(self, ids: Sequence[str]) -> list[Entity]:
        return await self._graph.get_entities(ids)

    async def get_relations(self, ids: Sequence[str]) -> list[Relation]:
        return await self._graph.get_relations(ids)

    async def rank_incident_relations(self, entity_ids: Sequence[str]) -> list[IncidentRelation]:
        return await self._graph.rank_incident_relations(entity_ids)

    async def list_entities(self, offset: int, limit: int) -> list[Entity]:
        return await self._graph.list_entities(offset, limit)


class TestBareStore(StoreContract):
    @pytest.fixture
    async def store(self) -> AsyncGenerator[Store]:
        store = MemoryStore()
        store.graph = BareGraph(store.graph)  # pyright: ignore[reportAttributeAccessIssue]
        store.names = EveryName(store.graph)
        store.replies = NoReplyCache()  # pyright: ignore[reportAttributeAccessIssue]
        store.reembedding = NoReembedding()  # pyright: ignore[reportAttributeAccessIssue]
        yield store
        await store.close()


class BareGraphProjection(MemoryGraphProjection):
    """A graph beside a store that keeps no order of its entities and walks by single steps."""

    list_entities = GraphProjection.list_entities
    find_relations_among = GraphStore.find_relations_among
    get_neighbourhood = GraphStore.get_neighbourhood
    find_shortest_paths = GraphStore.find_shortest_paths


class TestBareGraphProjection(GraphProjectionContract):
    @pytest.fixture
    async def projection(self) -> GraphProjection:
        return BareGraphProjection()


def test_home_store_needs_few_methods() -> None:
    roles = (RecordsStore, CurationStore, GraphStore, VectorStore, TextStore, Inspection, Store)
    needed = [f"{role.__name__}.{name}" for role in roles for name in sorted(role.__abstractmethods__)]
    assert len(needed) <= MOST_OF_A_STORE, needed


@pytest.mark.parametrize("role", [GraphProjection, VectorProjection, TextProjection, CacheProjection])
def test_projection_needs_few_methods(role: type) -> None:
    assert len(role.__abstractmethods__) <= MOST_OF_A_PROJECTION
