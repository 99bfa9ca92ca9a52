"""Every projection of ours under the public suites of its role."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from uuid import uuid4

import pytest

from heliograph.embedding.base import EmbeddingInfo
from heliograph.settings import StoreSettings
from heliograph.stores.projection import Projection
from heliograph.stores.registry import open_projection
from heliograph.testing.examples import DIMENSION
from heliograph.testing.projection_contract import (
    CacheProjectionContract,
    GraphProjectionContract,
    TextProjectionContract,
    VectorProjectionContract,
)
from tests.memory_projection import (
    MemoryCacheProjection,
    MemoryGraphProjection,
    MemoryTextProjection,
    MemoryVectorProjection,
)
from tests.servers.falkordb import FalkorServer
from tests.servers.neo4j import Neo4jServer
from tests.servers.qdrant import QdrantPlace
from tests.servers.redis import RedisServer

INFO = EmbeddingInfo("example", DIMENSION, 512)


async def _opened(role: str, url: str) -> AsyncGenerator[Projection]:
    settings = StoreSettings.model_validate({"workspace": f"w{uuid4().hex}", f"{role}_url": url})
    projection = await open_projection(role, settings, INFO)
    yield projection
    await projection.close()


class TestMemoryGraph(GraphProjectionContract):
    @pytest.fixture
    def projection(self) -> Projection:
        return MemoryGraphProjection()


class TestMemoryVectors(VectorProjectionContract):
    @pytest.fixture
    def projection(self) -> Projection:
        return MemoryVectorProjection()


class TestMemoryText(TextProjectionContract):
    @pytest.fixture
    def projection(self) -> Projection:
        return MemoryTextProjection()


class TestMemoryCache(CacheProjectionContract):
    @pytest.fixture
    def projection(self) -> Projection:
        return MemoryCacheProjection()


class TestRedisGraph(GraphProjectionContract):
    @pytest.fixture
    async def projection(self, redis_server: RedisServer) -> AsyncGenerator[Projection]:
        pytest.importorskip("redis", reason="needs: pip install 'heliograph[redis]'")
        async for projection in _opened("graph", redis_server.url):
            yield projection


class TestRedisCache(CacheProjectionContract):
    @pytest.fixture
    async def projection(self, redis_server: RedisServer) -> AsyncGenerator[Projection]:
        pytest.importorskip("redis", reason="needs: pip install 'heliograph[redis]'")
        async for projection in _opened("cache", redis_server.url):
            yield projection


class TestNeo4jGraph(GraphProjectionContract):
    @pytest.fixture
    async def projection(self, neo4j_server: Neo4jServer) -> AsyncGenerator[Projection]:
        async for projection in _opened("graph", neo4j_server.url):
            yield projection


class TestFalkorGraph(GraphProjectionContract):
    @pytest.fixture
    async def projection(self, falkordb_server: FalkorServer) -> AsyncGenerator[Projection]:
        async for projection in _opened("graph", falkordb_server.url):
            yield projection


class TestPostgresGraph(GraphProjectionContract):
    @pytest.fixture
    async def projection(self, postgres_database: str) -> AsyncGenerator[Projection]:
        async for projection in _opened("graph", postgres_database):
            yield projection


class TestPostgresVectors(VectorProjectionContract):
    @pytest.fixture
    async def projection(self, postgres_database: str) -> AsyncGenerator[Projection]:
        async for projection in _opened("vectors", postgres_database):
            yield projection


class TestPostgresText(TextProjectionContract):
    @pytest.fixture
    async def projection(self, postgres_database: str) -> AsyncGenerator[Projection]:
        async for projection in _opened("text", postgres_database):
            yield projection


class TestQdrantVectors(VectorProjectionContract):
    @pytest.fixture
    async def projection(self) -> AsyncGenerator[Projection]:
        pytest.importorskip("qdrant_client", reason="needs: pip install 'heliograph[qdrant]'")
        async for projection in _opened("vectors", "qdrant::memory:"):
            yield projection


class TestQdrantVectorsOverHttp(VectorProjectionContract):
    @pytest.fixture
    async def projection(self, qdrant: QdrantPlace) -> AsyncGenerator[Projection]:
        async for projection in _opened("vectors", qdrant.url(DIMENSION)):
            yield projection
