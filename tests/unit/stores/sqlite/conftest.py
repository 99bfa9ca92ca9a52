from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from heliograph.embedding.base import EmbeddingInfo
from heliograph.settings import StoreSettings
from heliograph.stores.sqlite.store import SqliteStore
from heliograph.testing.examples import DIMENSION

OpenStore = Callable[..., Awaitable[SqliteStore]]
INFO = EmbeddingInfo("example", DIMENSION, 512)


@pytest.fixture
async def open_store(tmp_path: Path):
    """Opens the same workspace as often as asked, each time as another process would."""
    opened: list[SqliteStore] = []

    async def open_(embedding: EmbeddingInfo = INFO, **settings: object) -> SqliteStore:
        values = {"data_dir": tmp_path, "durability": "normal", "write_timeout_seconds": 0.2, **settings}
        store = await SqliteStore.open(StoreSettings.model_validate(values), embedding)
        opened.append(store)
        return store

    yield open_
    for store in opened:
        await store.close()
