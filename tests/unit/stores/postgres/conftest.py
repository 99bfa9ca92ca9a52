from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable

import pytest

from heliograph.embedding.base import EmbeddingInfo
from heliograph.settings import StoreSettings
from heliograph.stores.postgres.store import PostgresStore
from heliograph.testing.examples import DIMENSION

OpenStore = Callable[..., Awaitable[PostgresStore]]
INFO = EmbeddingInfo("example", DIMENSION, 512)


@pytest.fixture
async def open_store(postgres_database: str) -> AsyncGenerator[OpenStore]:
    """Opens the same new workspace as often as asked, each time as another process would."""
    opened: list[PostgresStore] = []
    name = f"unit-{secrets.token_hex(4)}"

    async def open_(embedding: EmbeddingInfo | None = INFO, **settings: object) -> PostgresStore:
        values = {"url": postgres_database, "workspace": name, "durability": "normal", "write_timeout_seconds": 0.3}
        store = await PostgresStore.open(StoreSettings.model_validate(values | settings), embedding)
        opened.append(store)
        return store

    yield open_
    for store in opened:
        await store.close()
