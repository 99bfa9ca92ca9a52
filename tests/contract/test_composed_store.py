"""A composed store under the public contract suite: the embedded one at home, projections in memory."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from heliograph.embedding.base import EmbeddingInfo
from heliograph.settings import StoreSettings
from heliograph.stores.base import Store
from heliograph.stores.composed import ComposedStore
from heliograph.stores.registry import open_store
from heliograph.testing.examples import DIMENSION
from heliograph.testing.store_contract import StoreContract
from tests.memory_projection import (
    MemoryCacheProjection,
    MemoryGraphProjection,
    MemoryTextProjection,
    MemoryVectorProjection,
)


class TestComposedStore(StoreContract):
    @pytest.fixture
    async def store(self, tmp_path: Path) -> AsyncGenerator[Store]:
        settings = StoreSettings(data_dir=tmp_path, durability="normal")
        home = await open_store(settings, EmbeddingInfo("example", DIMENSION, 512))
        projections = [
            *(MemoryGraphProjection(), MemoryVectorProjection(), MemoryTextProjection(), MemoryCacheProjection())
        ]
        store = await ComposedStore(home, projections, 100).open()
        yield store
        await store.close()
