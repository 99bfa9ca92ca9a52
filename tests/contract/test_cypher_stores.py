"""Neo4j and FalkorDB beside the embedded store, for the graph, under the public contract suite."""

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
from tests.servers.falkordb import FalkorServer
from tests.servers.neo4j import Neo4jServer


async def open_with_graph(folder: Path, graph_url: str) -> Store:
    settings = StoreSettings(data_dir=folder, workspace=f"w{uuid4().hex}", durability="normal", graph_url=graph_url)
    return await open_store(settings, EmbeddingInfo("example", DIMENSION, 512))


class TestNeo4jStore(StoreContract):
    @pytest.fixture
    async def store(self, tmp_path: Path, neo4j_server: Neo4jServer) -> AsyncGenerator[Store]:
        pytest.importorskip("neo4j", reason="needs: pip install 'heliograph[neo4j]'")
        store = await open_with_graph(tmp_path, neo4j_server.url)
        yield store
        await store.close()


class TestFalkorStore(StoreContract):
    @pytest.fixture
    async def store(self, tmp_path: Path, falkordb_server: FalkorServer) -> AsyncGenerator[Store]:
        pytest.importorskip("falkordb", reason="needs: pip install 'heliograph[falkordb]'")
        store = await open_with_graph(tmp_path, falkordb_server.url)
        yield store
        await store.close()
