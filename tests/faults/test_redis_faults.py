"""Redis beside the embedded store, behind a proxy that cuts, stalls and refuses; and one that forgets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator
from pathlib import Path

import pytest

pytest.importorskip("redis", reason="needs: pip install 'heliograph[redis]'")

from redis.asyncio import Redis

from heliograph.errors import StoreAccessDenied, StoreUnavailable
from heliograph.models import Usage, utc_now
from heliograph.settings import StoreSettings
from heliograph.stores.base import CachedReply
from heliograph.stores.composed import ComposedStore
from heliograph.stores.projection import Projection, ProjectionChange
from heliograph.stores.registry import open_projection, open_store
from heliograph.testing.projection_contract import example_change

from ..servers.proxy import FaultyProxy, faulty_proxy
from ..servers.redis import RedisServer, running_redis
from .engines import EMBEDDING, example, until


@pytest.fixture
def server() -> Generator[RedisServer]:
    """A server that may be killed."""
    with running_redis() as running:
        yield running


@pytest.fixture
async def proxy(server: RedisServer) -> AsyncGenerator[FaultyProxy]:
    async with faulty_proxy(lambda: asyncio.open_connection("127.0.0.1", server.port)) as running:
        yield running


@pytest.fixture
def settings(tmp_path: Path, proxy: FaultyProxy) -> StoreSettings:
    url = f"redis://127.0.0.1:{proxy.port}/0"
    return StoreSettings(data_dir=tmp_path, durability="normal", graph_url=url, cache_url=url)


async def _open(settings: StoreSettings) -> ComposedStore:
    store = await open_store(settings, EMBEDDING)
    assert isinstance(store, ComposedStore)
    return store


async def _expect_equal(store: ComposedStore) -> None:
    for follower in store.followers:
        assert await follower.find_differences() == []
    assert await store.graph.list_entities(0, 999) == await store.truth.graph.list_entities(0, 999)


async def test_opens_while_nobody_listens_and_joins(settings: StoreSettings, proxy: FaultyProxy) -> None:
    await proxy.refuse()
    store = await _open(settings)
    await store.apply(example("a.md"))
    with pytest.raises(StoreUnavailable, match=r"out of reach: .*store\.graph_url"):
        await store.graph.list_entities(0, 9)
    reply = CachedReply("local:keywords:1", "paid for", "model", Usage(1, 1), utc_now())
    await store.replies.put_reply(reply)
    assert await store.replies.get_reply(reply.key) == reply
    await proxy.accept()
    await until(store)
    await _expect_equal(store)
    await store.close()


async def test_opens_while_connections_stall(settings: StoreSettings, proxy: FaultyProxy) -> None:
    proxy.is_stalled = True
    store = await _open(settings)
    assert set(store.get_troubles()) == {item.name for item in store.followers}
    async with asyncio.timeout(10):
        for number in range(10):
            await store.apply(example(f"{number}.md"))
    proxy.heal()
    await until(store)
    await _expect_equal(store)
    await store.close()


async def test_cut_connections_cost_nothing_acknowledged(settings: StoreSettings, proxy: FaultyProxy) -> None:
    store = await _open(settings)
    for number in range(30):
        if number % 4 == 2:
            proxy.cut()
        await store.apply(example(f"{number}.md"))
    await until(store)
    await _expect_equal(store)
    await store.close()


async def test_full_memory_stops_the_engine_only(settings: StoreSettings, server: RedisServer) -> None:
    store = await _open(settings)
    async with _client(server) as client:
        await client.config_set("maxmemory", "1")
        await store.apply(example("a.md"))
        graph = next(name for name in store.get_troubles() if name.startswith("graph"))
        assert "maxmemory" in store.get_troubles()[graph]
        await client.config_set("maxmemory", "0")
    await until(store)
    await _expect_equal(store)
    await store.close()


async def test_wrong_password_fails_at_once(settings: StoreSettings, server: RedisServer) -> None:
    async with _client(server) as client:
        await client.config_set("requirepass", "secret")
    with pytest.raises(StoreAccessDenied, match=r"refuses: .*store\.(graph|cache)_url"):
        await _open(settings)


async def test_cursor_does_not_pass_over_what_a_crash_lost(tmp_path: Path, server: RedisServer) -> None:
    settings = StoreSettings(data_dir=tmp_path, graph_url=server.url)
    async with _client(server) as client:
        await client.config_set("appendonly", "no")
    projection = await open_projection("graph", settings, EMBEDDING)
    await _lose(projection, example_change("a.md", ["Ann"]), server)
    with pytest.raises(StoreUnavailable, match="has lost what it was given last"):
        await projection.set_cursor(7)
    assert await projection.get_cursor() == -1
    await projection.set_cursor(7)
    assert await projection.get_cursor() == 7
    await projection.close()


async def _lose(projection: Projection, change: ProjectionChange, server: RedisServer) -> None:
    assert await projection.get_cursor() == -1
    await projection.apply(change)
    server.kill()
    await asyncio.to_thread(server.start)


def _client(server: RedisServer) -> Redis:
    return Redis.from_url(server.url)
