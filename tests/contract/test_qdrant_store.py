"""Qdrant beside the embedded store under the public contract suite.

Runs in the client's local mode; with `HELIOGRAPH_TEST_QDRANT_URL` (such as `qdrant://127.0.0.1:6333`) on a server, too.
"""

from __future__ import annotations

import os
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

pytest.importorskip("qdrant_client", reason="needs: pip install 'heliograph[qdrant]'")
_URL = os.environ.get("HELIOGRAPH_TEST_QDRANT_URL", "")
_PLACES = [
    "qdrant::memory:",
    pytest.param(
        _URL,
        marks=pytest.mark.skipif(
            not _URL, reason="needs a Qdrant server: set HELIOGRAPH_TEST_QDRANT_URL=qdrant://host:6333"
        ),
    ),
]


@pytest.mark.parametrize("place", _PLACES)
class TestQdrantStore(StoreContract):
    @pytest.fixture
    async def store(self, tmp_path: Path, place: str) -> AsyncGenerator[Store]:
        prefix = "" if place.endswith(":memory:") else f"?prefix={uuid4().hex[:8]}-"
        settings = StoreSettings(data_dir=tmp_path, durability="normal", vectors_url=place + prefix)
        store = await open_store(settings, EmbeddingInfo("example", DIMENSION, 512))
        yield store
        await store.close()
