"""A store that brings what the contract asks for and nothing else: all the rest follows from that."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager

import pytest

from heliograph.filters import Filter
from heliograph.models import Entity, Relation, Stats
from heliograph.stores.base import (
    CurationStore,
    EveryName,
    Fold,
    GraphStore,
    IncidentRelation,
    Inspection,
    RecordsStore,
    Store,
    StoreView,
    TextStore,
    VectorStore,
)
from heliograph.stores.changeset import Changeset
from heliograph.stores.projection import CacheProjection, GraphProjection, TextProjection, VectorProjection
from heliograph.testing.projection_contract import GraphProjectionContract
from heliograph.testing.store_contract import StoreContract
from tests.memory_projection import MemoryGraphProjection
from tests.memory_store import MemoryStore

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


class BareStore(Store):
    """The methods that a store cannot do without; it keeps no replies, and cannot change its embedding in place."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self.records, self.vectors, self.text = store.records, store.vectors, store.text
        self.curations, self.inspection = store.curations, store.inspection
        self.graph = BareGraph(store.graph)
        self.names = EveryName(self.graph)

    async def apply(self, changeset: Changeset) -> int:
        return await self._store.apply(changeset)

    def view(self, filter_: Filter, fold: Fold) -> StoreView:
        return self._store.view(filter_, fold)

    def ingest_lock(self) -> AbstractAsyncContextManager[None]:
        return self._store.ingest_lock()

    async def get_stats(self) -> Stats:
        return await self._store.get_stats()

    async def clear(self) -> int:
        return await self._store.clear()

    async def close(self) -> None:
        await self._store.close()


class TestBareStore(StoreContract):
    @pytest.fixture
    async def store(self) -> AsyncGenerator[Store]:
        store = BareStore(MemoryStore())
        yield store
        await store.close()


class BareGraphProjection(MemoryGraphProjection):
    """A graph beside a store that keeps no order of its entities and walks by single steps."""

    list_entities = GraphProjection.list_entities  # pyright: ignore[reportAssignmentType]
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
