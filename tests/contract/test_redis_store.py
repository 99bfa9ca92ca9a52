"""Redis beside the embedded store, for the graph and for replies, under the public contract suite."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from uuid import uuid4

import pytest

pytest.importorskip("redis", reason="needs: pip install 'heliograph[redis]'")

from heliograph.embedding.base import EmbeddingInfo
from heliograph.settings import StoreSettings
from heliograph.stores.base import Store
from heliograph.stores.registry import open_store
from heliograph.testing.examples import DIMENSION
from heliograph.testing.store_contract import StoreContract
from tests.servers.redis import RedisServer


class TestRedisStore(StoreContract):
    @pytest.fixture
    async def store(self, tmp_path: Path, redis_server: RedisServer) -> AsyncGenerator[Store]:
        settings = StoreSettings(
            data_dir=tmp_path,
            workspace=f"w{uuid4().hex}",
            durability="normal",
            graph_url=redis_server.url,
            cache_url=redis_server.url,
        )
        store = await open_store(settings, EmbeddingInfo("example", DIMENSION, 512))
        yield store
        await store.close()
