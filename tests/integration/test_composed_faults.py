"""Redis and Qdrant beside the embedded store while Redis is killed: nothing acknowledged is lost, both catch up."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from pathlib import Path

import pytest

pytest.importorskip("redis", reason="needs: pip install 'heliograph[redis]'")
pytest.importorskip("qdrant_client", reason="needs: pip install 'heliograph[qdrant]'")

from heliograph.errors import StoreUnavailable
from heliograph.maintenance.check import Maintenance
from heliograph.maintenance.migration import migrate_workspace
from heliograph.models import Usage, utc_now
from heliograph.settings import IngestSettings, StoreSettings
from heliograph.stores import composed
from heliograph.stores.base import CachedReply, Store
from heliograph.stores.registry import drop_workspace, find_workspaces, open_projection, open_store

from ..contract.congruence import World, answer, make_operations, make_questions
from ..servers.redis import RedisServer, running_redis
from ..unit.maintenance.migration.conftest import INFO


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(composed, "_RETRY_SECONDS", 0.2)


@pytest.fixture
def own_redis() -> Generator[RedisServer]:
    """A server that may be killed."""
    with running_redis() as server:
        yield server


@pytest.fixture
def settings(tmp_path: Path, own_redis: RedisServer) -> StoreSettings:
    return StoreSettings(
        data_dir=tmp_path / "home",
        durability="normal",
        graph_url=own_redis.url,
        cache_url=own_redis.url,
        vectors_url=f"qdrant://{tmp_path / 'qdrant'}",
    )


async def _check(store: Store, world: World) -> None:
    report = await Maintenance(store.truth, world.embedding, None, IngestSettings()).check()
    assert report.is_clean, report.problems
    assert report.documents > 0


async def _ask(world: World, stopped: asyncio.Event) -> tuple[int, int]:
    """Ask until told to stop; return how many questions were answered and how many refused as unavailable."""
    answered = refused = 0
    questions = make_questions(50, seed=8)
    while not stopped.is_set():
        try:
            await answer(world, questions[(answered + refused) % len(questions)])
            answered += 1
        except StoreUnavailable:
            refused += 1
        await asyncio.sleep(0.01)
    return answered, refused


@pytest.mark.slow
async def test_redis_killed_during_an_ingest_loses_nothing(settings: StoreSettings, own_redis: RedisServer) -> None:
    store = await open_store(settings, INFO)
    world, asker, alone = World(store.truth), World(store), World(await open_store(_alone(settings), INFO))
    stopped = asyncio.Event()
    asking = asyncio.create_task(_ask(asker, stopped))
    for number, operation in enumerate(make_operations(60, seed=21)):
        if number in (15, 40):
            own_redis.kill()
        if number in (25, 50):
            await asyncio.to_thread(own_redis.start)
        assert await world.do(operation) == await alone.do(operation), operation
    stopped.set()
    answered, refused = await asking
    assert answered > 0
    assert refused > 0
    async with asyncio.timeout(30):
        while any((await store.get_lags()).values()):  # noqa: ASYNC110 (lags are read, nothing tells of them)
            await asyncio.sleep(0.1)
    await _check(store, world)
    for question in make_questions(20, seed=9):
        assert await answer(asker, question) == await answer(alone, question), question
    await alone.store.close()
    await store.close()


def _alone(settings: StoreSettings) -> StoreSettings:
    data_dir = settings.data_dir.parent / "alone"
    return settings.model_copy(update={"data_dir": data_dir, "graph_url": "", "cache_url": "", "vectors_url": ""})


@pytest.mark.slow
async def test_migration_takes_the_replies_of_a_shared_cache_along(settings: StoreSettings, tmp_path: Path) -> None:
    store = await open_store(settings, INFO)
    world = World(store.truth)
    for operation in make_operations(12, seed=22):
        await world.do(operation)
    reply = CachedReply("local:keywords:1", "paid for", "model", Usage(1, 1), utc_now())
    await store.replies.put_reply(reply)
    await store.close()
    # The same workspace in the same engines, behind another store with the truth.
    target = settings.model_copy(update={"data_dir": tmp_path / "target"})
    report = await migrate_workspace(settings, target)
    assert {item.kind: item.count for item in report.kinds}["replies"] == 1
    assert set(report.lags.values()) == {0}
    moved = await open_store(target, INFO)
    assert await moved.replies.get_reply(reply.key) == reply
    assert await moved.replies.list_replies("", 9) == [reply]
    await _check(moved, World(moved))
    await moved.close()


@pytest.mark.slow
async def test_removed_workspace_leaves_nothing_in_other_engines(settings: StoreSettings) -> None:
    store = await open_store(settings, INFO)
    for operation in make_operations(5, seed=23):
        await World(store.truth).do(operation)
    await store.close()
    await drop_workspace(settings)
    assert await find_workspaces(settings) == []
    for role in ("graph", "vectors", "cache"):
        projection = await open_projection(role, settings, INFO)
        assert await projection.get_cursor() == -1
        for kind in projection.kinds:
            assert await projection.scan(kind, "", 10) == []
        await projection.close()
