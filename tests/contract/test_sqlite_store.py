"""The embedded store under the public contract suite."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from heliograph.embedding.base import EmbeddingInfo
from heliograph.settings import StoreSettings
from heliograph.stores.base import Store
from heliograph.stores.registry import open_store
from heliograph.testing.examples import DIMENSION
from heliograph.testing.store_contract import StoreContract


class TestSqliteStore(StoreContract):
    @pytest.fixture
    async def store(self, tmp_path: Path) -> AsyncGenerator[Store]:
        settings = StoreSettings(data_dir=tmp_path, durability="normal")
        store = await open_store(settings, EmbeddingInfo("example", DIMENSION, 512))
        yield store
        await store.close()


class TestIndexedSqliteStore(TestSqliteStore):
    """As if all collections were so large that their vectors are not all compared."""

    @pytest.fixture(autouse=True)
    def _few_are_many(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("heliograph.stores.sqlite.search._MOST_COMPARED", 0)
