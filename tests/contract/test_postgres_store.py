"""The store on PostgreSQL under the public contract suite, against a real server."""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator

import pytest

from heliograph.embedding.base import EmbeddingInfo
from heliograph.settings import StoreSettings
from heliograph.stores.base import Store
from heliograph.stores.registry import open_store
from heliograph.testing.examples import DIMENSION
from heliograph.testing.store_contract import StoreContract


class TestPostgresStore(StoreContract):
    @pytest.fixture
    async def store(self, postgres_database: str) -> AsyncGenerator[Store]:
        name = f"contract-{secrets.token_hex(4)}"
        settings = StoreSettings(url=postgres_database, workspace=name, durability="normal", pool_size=2)
        store = await open_store(settings, EmbeddingInfo("example", DIMENSION, 512))
        yield store
        await store.close()
