"""Redis: what others can read in it, whose it is, and how it goes on after a crash."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest

pytest.importorskip("redis", reason="needs: pip install 'heliograph[redis]'")

from heliograph.embedding.base import EmbeddingInfo
from heliograph.errors import SettingsError, StoreUnavailable
from heliograph.settings import StoreSettings
from heliograph.stores.base import Store
from heliograph.stores.changeset import Changeset, OutboxKind
from heliograph.stores.composed import ComposedStore
from heliograph.stores.redis import CURSOR, RedisCacheProjection, RedisConnection, RedisGraphProjection
from heliograph.stores.registry import open_projection, open_store
from heliograph.testing.examples import DIMENSION, example_changeset
from tests.servers.redis import RedisServer

_EMBEDDING = EmbeddingInfo("example", DIMENSION, 512)


@dataclass(frozen=True)
class World:
    """A composed store and its Redis, seen directly."""

    store: Store
    redis: RedisConnection
    settings: StoreSettings


@pytest.fixture
async def world(tmp_path: Path, redis_server: RedisServer) -> AsyncGenerator[World]:
    name = f"w{uuid4().hex}"
    settings = StoreSettings(data_dir=tmp_path, workspace=name, durability="normal", graph_url=redis_server.url)
    store = await open_store(settings, _EMBEDDING)
    redis = RedisConnection(redis_server.url, name, "store.graph_url")
    yield World(store, redis, settings)
    await redis.close()
    await store.close()


async def test_keys_are_those_that_other_programs_read(world: World) -> None:
    changeset = example_changeset("a.md", ["ESP32", "MQTT"], [("ESP32", "MQTT", 0.8)])
    await world.store.apply(changeset)
    client, key = world.redis.client, world.redis.key
    document, (first, second) = changeset.documents[0], changeset.entities
    stored = await client.hgetall(key("doc", document.id))
    assert stored["source"] == "a.md"
    assert stored["content_hash"] == document.content_hash
    assert json.loads(stored["chunk_ids"]) == [changeset.chunks[0].id]
    entity = await client.hgetall(key("entity", first.id))
    assert entity["name"] == first.name
    assert json.loads(entity["doc_ids"]) == [document.id]
    assert await client.smembers(key("neighbors", first.id)) == {second.id}
    relation = await client.hgetall(key("relation", changeset.relations[0].id))
    assert {relation["source"], relation["target"]} == {first.id, second.id}
    assert float(relation["weight"]) == 0.8
    by_type = key("relations", relation["source"], relation["relation"])
    assert await client.smembers(by_type) == {relation["target"]}


async def test_nothing_is_left_of_what_was_removed(world: World) -> None:
    changeset = example_changeset("a.md", ["ESP32", "MQTT"], [("ESP32", "MQTT", 0.8)])
    await world.store.apply(changeset)
    await world.store.apply(
        Changeset(
            removed_documents=(changeset.documents[0].id,),
            removed_chunks=(changeset.chunks[0].id,),
            removed_entities=tuple(item.id for item in changeset.entities),
            removed_relations=tuple(item.id for item in changeset.relations),
        )
    )
    left = [key async for key in world.redis.client.scan_iter("*" + world.settings.workspace + "*")]
    assert sorted(left) == [world.redis.key("applied"), world.redis.key(*CURSOR)]


async def test_killed_server_goes_on_where_it_was(world: World, redis_server: RedisServer) -> None:
    await world.store.apply(example_changeset("a.md", ["ESP32"]))
    redis_server.kill()
    try:
        await world.store.apply(example_changeset("b.md", ["MQTT"]))
        with pytest.raises(StoreUnavailable, match=r"out of reach.*store\.graph_url"):
            await world.store.graph.list_entities(0, 9)
    finally:
        redis_server.start()
    await world.store.apply(example_changeset("c.md", ["TLS"]))
    # It may still be reading its log when it takes connections again; the store goes on trying.
    while any((await world.store.get_lags()).values()):  # noqa: ASYNC110 (nothing tells when)
        await asyncio.sleep(0.1)
    assert {entity.name for entity in await world.store.graph.list_entities(0, 9)} == {"ESP32", "MQTT", "TLS"}


async def test_clearing_one_workspace_leaves_the_others(world: World, redis_server: RedisServer) -> None:
    await world.store.apply(example_changeset("a.md", ["ESP32"]))
    other = RedisGraphProjection(RedisConnection(redis_server.url, "w", "store.graph_url"))
    cache = RedisCacheProjection(RedisConnection(redis_server.url, "*", "store.cache_url"))
    for projection in (other, cache):
        await projection.clear()
        await projection.close()
    assert await world.store.graph.list_entities(0, 9)


async def test_scan_is_in_order_of_ids(world: World) -> None:
    changeset = example_changeset("a.md", ["ESP32", "MQTT", "TLS"])
    await world.store.apply(changeset)
    assert isinstance(world.store, ComposedStore)
    (graph,) = world.store.projections
    ids = sorted(item.id for item in changeset.entities)
    assert await graph.scan(OutboxKind.ENTITIES, "", 2) == ids[:2]
    assert await graph.scan(OutboxKind.ENTITIES, ids[1], 9) == ids[2:]
    assert await graph.scan(OutboxKind.DOCUMENTS, "", 9) == [changeset.documents[0].id]


async def test_forgetful_settings_are_warned_of(redis_server: RedisServer, caplog: pytest.LogCaptureFixture) -> None:
    connection = RedisConnection(redis_server.url, "w", "store.cache_url")
    await connection.client.config_set("maxmemory-policy", "allkeys-lru")
    try:
        with caplog.at_level(logging.WARNING):
            found = await connection.check_durability()
    finally:
        await connection.client.config_set("maxmemory-policy", "noeviction")
        await connection.close()
    assert found["maxmemory-policy"] == "allkeys-lru"
    assert "may drop keys when full" in caplog.text


async def test_full_redis_is_unavailable(world: World) -> None:
    client = world.redis.client
    await client.config_set("maxmemory", "1")
    try:
        with pytest.raises(StoreUnavailable, match="maxmemory"), world.redis.errors():
            await client.set(world.redis.key("x"), "y")
    finally:
        await client.config_set("maxmemory", "0")


@pytest.mark.parametrize("url", ["redis://h:port/0", "postgres://h"])
def test_bad_address_names_the_setting(url: str) -> None:
    with pytest.raises(SettingsError, match=r"store\.cache_url"):
        RedisConnection(url, "w", "store.cache_url")


async def test_password_is_not_in_messages(tmp_path: Path) -> None:
    settings = StoreSettings(data_dir=tmp_path, graph_url="redis://:hunter2@127.0.0.1:9/0")
    with pytest.raises(StoreUnavailable) as caught:
        await open_projection("graph", settings, _EMBEDDING)
    assert "hunter2" not in str(caught.value)
    assert "127.0.0.1:9" in str(caught.value)


async def test_redis_as_home_is_refused_with_the_roles_it_serves(redis_server: RedisServer, tmp_path: Path) -> None:
    settings = StoreSettings(data_dir=tmp_path, url=redis_server.url)
    with pytest.raises(SettingsError, match=r"no store serves 'redis'.*store\.cache_url, store\.graph_url"):
        await open_store(settings, _EMBEDDING)
