"""The store in memory under the public contract suite."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from heliograph.stores.base import Store
from heliograph.testing.store_contract import StoreContract
from tests.memory_store import MemoryStore


class TestMemoryStore(StoreContract):
    @pytest.fixture
    async def store(self) -> AsyncGenerator[Store]:
        store = MemoryStore()
        yield store
        await store.close()
