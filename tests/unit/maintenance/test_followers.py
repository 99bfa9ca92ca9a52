"""Other engines beside a store are compared, made anew, emptied with their workspace, and forgotten."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from heliograph.embedding.base import EmbeddingInfo
from heliograph.errors import InvalidRequestError, NotFoundError
from heliograph.maintenance.check import Maintenance, find_leftovers, forget_follower, rebuild_role
from heliograph.models import Entity
from heliograph.settings import IngestSettings, StoreSettings
from heliograph.stores import registry
from heliograph.stores.composed import ComposedStore
from heliograph.stores.projection import Projection
from heliograph.stores.registry import drop_workspace, find_workspaces, open_store
from heliograph.testing.fakes import FakeEmbeddingModel
from tests.memory_projection import MemoryGraphProjection, MemoryVectorProjection

from ...contract.congruence import DIMENSION, World, make_operations

INFO = EmbeddingInfo("fake", DIMENSION, 512)


@pytest.fixture
def settings(tmp_path: Path) -> StoreSettings:
    return StoreSettings(data_dir=tmp_path, durability="normal")


@pytest.fixture
def graph() -> MemoryGraphProjection:
    return MemoryGraphProjection()


@pytest.fixture
def vectors() -> MemoryVectorProjection:
    return MemoryVectorProjection()


@pytest.fixture
async def store(
    settings: StoreSettings, graph: MemoryGraphProjection, vectors: MemoryVectorProjection
) -> AsyncGenerator[ComposedStore]:
    store = await ComposedStore(await open_store(settings, INFO), [graph, vectors], 100).open()
    world = World(store)
    for operation in make_operations(15, seed=4):
        await world.do(operation)
    yield store
    await store.close()


def maintenance(store: ComposedStore) -> Maintenance:
    return Maintenance(store, FakeEmbeddingModel(DIMENSION), None, IngestSettings())


async def test_check_looks_at_other_engines_and_repairs_them(
    store: ComposedStore, graph: MemoryGraphProjection
) -> None:
    assert (await maintenance(store).check()).is_clean
    graph.upsert([Entity("ent-stray", "Stray", "unknown", "")], [], 0)
    report = await maintenance(store).check()
    assert [(problem.subject, problem.id) for problem in report.problems] == [("store", graph.name)]
    assert "ent-stray" in report.problems[0].message
    assert (await maintenance(store).check(repair=True)).is_clean
    assert (await maintenance(store).check()).is_clean


async def test_engine_out_of_reach_is_a_problem_that_check_tells(
    store: ComposedStore, vectors: MemoryVectorProjection
) -> None:
    vectors.is_down = True
    report = await maintenance(store).check(repair=True)
    assert not report.is_clean
    assert [(problem.id, problem.is_repairable) for problem in report.problems] == [(vectors.name, False)]
    vectors.is_down = False
    assert (await maintenance(store).check()).is_clean


async def test_one_role_is_made_anew(
    store: ComposedStore, graph: MemoryGraphProjection, vectors: MemoryVectorProjection
) -> None:
    before = graph.cleared, vectors.cleared
    assert (await rebuild_role(store, "graph")).is_clean
    assert (graph.cleared, vectors.cleared) == (before[0] + 1, before[1])
    with pytest.raises(InvalidRequestError, match="cache"):
        await rebuild_role(store, "cache")


async def test_engine_that_no_setting_names_is_told_and_forgotten(
    store: ComposedStore, settings: StoreSettings, graph: MemoryGraphProjection, vectors: MemoryVectorProjection
) -> None:
    assert await find_leftovers(store) == {}
    await store.close()
    home = await open_store(settings, INFO)
    for operation in make_operations(20, seed=5):
        await World(home).do(operation)
    leftovers = await find_leftovers(home)
    assert set(leftovers) == {graph.name, vectors.name}
    assert min(leftovers.values()) > 0
    for name in leftovers:
        await forget_follower(settings, name)
    assert await find_leftovers(home) == {}
    assert home.outbox is not None
    assert await home.outbox.read(0, 10) == []
    with pytest.raises(NotFoundError, match="no engine"):
        await forget_follower(settings, graph.name)
    await home.close()


async def test_removed_workspace_is_emptied_elsewhere_too(
    store: ComposedStore, settings: StoreSettings, graph: MemoryGraphProjection, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.close()
    assert graph.entities

    async def find(_settings: StoreSettings, _url: str, embedding: EmbeddingInfo) -> Projection:
        assert (embedding.name, embedding.dimension) == (INFO.name, INFO.dimension)
        return graph

    monkeypatch.setattr(registry, "_find_projection", lambda *_: find)
    await drop_workspace(settings.model_copy(update={"graph_url": "memory:"}))
    assert not graph.entities
    assert await graph.get_cursor() == -1
    assert await find_workspaces(settings) == []
