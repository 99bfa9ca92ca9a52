"""Checking, rebuilding, forgetting, removing and moving a workspace while an engine beside its store is away."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from heliograph.embedding.base import EmbeddingInfo
from heliograph.errors import StoreUnavailable
from heliograph.maintenance.check import Maintenance, find_leftovers, forget_follower, rebuild_role
from heliograph.maintenance.migration import migrate_workspace
from heliograph.settings import IngestSettings, StoreSettings
from heliograph.stores import registry
from heliograph.stores.changeset import OutboxKind
from heliograph.stores.composed import ComposedStore
from heliograph.stores.registry import drop_workspace, find_workspaces, open_store
from heliograph.testing.fakes import FakeEmbeddingModel

from ..contract.congruence import DIMENSION, World, make_operations
from .engines import Graph, until

INFO = EmbeddingInfo("fake", DIMENSION, 512)


@pytest.fixture
def settings(tmp_path: Path, graph: Graph, monkeypatch: pytest.MonkeyPatch) -> StoreSettings:
    async def find(*_: object) -> Graph:
        return graph

    monkeypatch.setattr(registry, "_find_projection", lambda *_: find)
    return StoreSettings(data_dir=tmp_path, durability="normal", graph_url="memory:")


async def _filled(settings: StoreSettings) -> ComposedStore:
    store = await open_store(settings, INFO)
    for operation in make_operations(12, seed=4):
        await World(store.truth).do(operation)
    assert isinstance(store, ComposedStore)
    return store


async def test_check_tells_and_rebuilding_is_made_up_for(settings: StoreSettings, graph: Graph) -> None:
    store = await _filled(settings)
    graph.is_down = True
    upkeep = Maintenance(store.truth, FakeEmbeddingModel(DIMENSION), None, IngestSettings())
    (problem,) = (await upkeep.check(repair=True)).problems
    assert (problem.id, problem.is_repairable) == (graph.name, False)
    assert "switched off" in problem.message
    cleared = graph.cleared
    with pytest.raises(StoreUnavailable, match="switched off"):
        await rebuild_role(store, "graph")
    graph.is_down = False
    await until(store)
    assert graph.cleared == cleared + 1
    assert (await upkeep.check()).is_clean
    await store.close()


async def test_rebuilding_waits_for_who_is_at_it(settings: StoreSettings, graph: Graph) -> None:
    store = await _filled(settings)
    assert store.outbox is not None
    async with store.outbox.lock(graph.name):
        rebuilding = asyncio.create_task(rebuild_role(store, "graph"))
        await asyncio.sleep(0.3)
        assert not rebuilding.done()
    assert (await rebuilding).is_clean
    await store.close()


async def test_engine_that_is_away_can_be_forgotten(settings: StoreSettings, graph: Graph) -> None:
    await (await _filled(settings)).close()
    graph.is_down = True
    await forget_follower(settings, graph.name)
    home = await open_store(settings.model_copy(update={"graph_url": ""}), INFO)
    assert await find_leftovers(home) == {}
    await home.close()


async def test_workspace_is_not_removed_behind_the_back_of_an_engine(settings: StoreSettings, graph: Graph) -> None:
    await (await _filled(settings)).close()
    graph.is_down = True
    with pytest.raises(StoreUnavailable):
        await drop_workspace(settings)
    assert await find_workspaces(settings) == ["default"]
    graph.is_down = False
    await drop_workspace(settings)
    assert await find_workspaces(settings) == []
    assert await graph.scan(OutboxKind.ENTITIES, "", 9) == []


async def test_moving_leaves_an_engine_that_is_away_for_later(
    settings: StoreSettings, graph: Graph, tmp_path: Path
) -> None:
    await (await _filled(settings)).close()
    graph.is_down = True
    target = settings.model_copy(update={"data_dir": tmp_path / "target"})
    report = await migrate_workspace(settings, target)
    assert report.lags[graph.name] > 0
    graph.is_down = False
    moved = await open_store(target, INFO)
    await until(moved)
    assert await moved.followers[0].find_differences() == []
    await moved.close()
