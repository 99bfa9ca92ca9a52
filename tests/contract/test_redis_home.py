"""Redis as the store that holds the truth, under the public contract suite, against a real server."""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator

import pytest

pytest.importorskip("redis", reason="needs: pip install 'heliograph[redis]'")

from heliograph.embedding.base import EmbeddingInfo
from heliograph.settings import StoreSettings
from heliograph.stores.base import Store
from heliograph.stores.registry import open_store
from heliograph.testing.examples import DIMENSION
from heliograph.testing.store_contract import StoreContract
from tests.servers.redis import RedisServer


class TestRedisHome(StoreContract):
    @pytest.fixture
    async def store(self, redis_server: RedisServer) -> AsyncGenerator[Store]:
        name = f"contract-{secrets.token_hex(4)}"
        settings = StoreSettings(url=redis_server.url, workspace=name, durability="normal", pool_size=2)
        store = await open_store(settings, EmbeddingInfo("example", DIMENSION, 512))
        yield store
        await store.close()


class TestRedisHomeWithFollowers(StoreContract):
    """The graph and replies in another database of the same server, which follows by the outbox."""

    @pytest.fixture
    async def store(self, redis_server: RedisServer) -> AsyncGenerator[Store]:
        beside = f"{redis_server.url.removesuffix('/0')}/1"
        settings = StoreSettings(
            url=redis_server.url,
            workspace=f"contract-{secrets.token_hex(4)}",
            durability="normal",
            graph_url=beside,
            cache_url=beside,
        )
        store = await open_store(settings, EmbeddingInfo("example", DIMENSION, 512))
        yield store
        await store.close()
