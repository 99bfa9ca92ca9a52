"""Qdrant beside the embedded store under the public contract suite: the client's local mode, and over HTTP.

Over HTTP it is the stand-in of `tests.servers.qdrant`, or the server that `HELIOGRAPH_TEST_QDRANT_URL` names.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from uuid import uuid4

import pytest

from heliograph.embedding.base import EmbeddingInfo
from heliograph.settings import StoreSettings
from heliograph.stores.base import Store
from heliograph.stores.registry import open_store
from heliograph.testing.examples import DIMENSION
from heliograph.testing.store_contract import StoreContract
from tests.servers.qdrant import QdrantPlace

pytest.importorskip("qdrant_client", reason="needs: pip install 'heliograph[qdrant]'")


async def _opened(folder: Path, url: str) -> AsyncGenerator[Store]:
    settings = StoreSettings(data_dir=folder, durability="normal", vectors_url=url, workspace=f"w{uuid4().hex}")
    store = await open_store(settings, EmbeddingInfo("example", DIMENSION, 512))
    yield store
    await store.close()


class TestQdrantStore(StoreContract):
    @pytest.fixture
    async def store(self, tmp_path: Path) -> AsyncGenerator[Store]:
        async for store in _opened(tmp_path, "qdrant::memory:"):
            yield store


class TestQdrantStoreOverHttp(StoreContract):
    @pytest.fixture
    async def store(self, tmp_path: Path, qdrant: QdrantPlace) -> AsyncGenerator[Store]:
        async for store in _opened(tmp_path, qdrant.url(DIMENSION)):
            yield store
