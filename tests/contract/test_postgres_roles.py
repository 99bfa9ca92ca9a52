"""Roles in PostgreSQL beside another store under the public contract suite, against a real server."""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from heliograph.embedding.base import EmbeddingInfo
from heliograph.settings import StoreSettings
from heliograph.stores.base import Store
from heliograph.stores.registry import open_store
from heliograph.testing.examples import DIMENSION
from heliograph.testing.store_contract import StoreContract
from tests.servers.postgres import PostgresServer

ROLES = ("graph", "vectors", "text")


@pytest.fixture(scope="session")
def other_database(postgres_server: PostgresServer) -> str:
    return postgres_server.make_database()


@pytest.mark.parametrize("home", ["sqlite", "postgresql"])
class TestPostgresRoles(StoreContract):
    @pytest.fixture
    async def store(
        self, tmp_path: Path, home: str, postgres_database: str, other_database: str
    ) -> AsyncGenerator[Store]:
        values = {f"{role}_url": other_database for role in ROLES} | {
            "url": postgres_database if home == "postgresql" else "sqlite:",
            "data_dir": tmp_path,
            "workspace": f"roles-{secrets.token_hex(4)}",
            "durability": "normal",
            "pool_size": 2,
        }
        store = await open_store(StoreSettings.model_validate(values), EmbeddingInfo("example", DIMENSION, 512))
        yield store
        await store.close()
