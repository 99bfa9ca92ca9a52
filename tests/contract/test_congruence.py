"""Every back end is the embedded store over again: the same operations and questions give the same."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest

from heliograph.embedding.base import EmbeddingInfo
from heliograph.settings import StoreSettings
from heliograph.stores.registry import open_store
from tests.servers.falkordb import FalkorServer
from tests.servers.neo4j import Neo4jServer
from tests.servers.postgres import PostgresServer
from tests.servers.qdrant import QdrantPlace
from tests.servers.redis import RedisServer

from .congruence import DIMENSION, World, answer, make_operations, make_questions, see

INFO = EmbeddingInfo("fake", DIMENSION, 512)


async def expect_congruence(folder: Path, settings: StoreSettings, count: int) -> None:
    """Do as many operations, and ask a sixth as many questions, here and on the embedded store."""
    embedded = World(await open_store(StoreSettings(data_dir=folder, durability="normal"), INFO))
    other = World(await open_store(settings, INFO))
    operations, questions = make_operations(count, seed=7), make_questions(count // 6, seed=7)
    for number, operation in enumerate(operations):
        assert await other.do(operation) == await embedded.do(operation), operation
        if number % 6 == 5:
            question = questions[number // 6]
            given, wanted = await answer(other, question), await answer(embedded, question)
            assert {key: value for key, value in given.items() if value != wanted[key]} == {}, (question, wanted)
    assert await see(other) == await see(embedded)
    await other.store.close()
    await embedded.store.close()


@pytest.mark.slow
async def test_postgres_is_congruent_with_sqlite(tmp_path: Path, postgres_database: str) -> None:
    settings = StoreSettings(url=postgres_database, workspace="congruence", durability="normal")
    await expect_congruence(tmp_path, settings, 300)


@pytest.mark.slow
async def test_roles_in_postgres_are_congruent_with_sqlite(tmp_path: Path, postgres_server: PostgresServer) -> None:
    url = postgres_server.make_database()
    urls = {f"{role}_url": url for role in ("graph", "vectors", "text")}
    settings = StoreSettings.model_validate({"data_dir": tmp_path / "other", "durability": "normal"} | urls)
    await expect_congruence(tmp_path, settings, 300)


@pytest.mark.slow
async def test_redis_is_congruent_with_sqlite(tmp_path: Path, redis_server: RedisServer) -> None:
    pytest.importorskip("redis", reason="needs: pip install 'heliograph[redis]'")
    url = redis_server.url
    settings = StoreSettings(
        data_dir=tmp_path / "other", workspace="congruence", durability="normal", graph_url=url, cache_url=url
    )
    await expect_congruence(tmp_path, settings, 300)


@pytest.mark.slow
async def test_falkordb_is_congruent_with_sqlite(tmp_path: Path, falkordb_server: FalkorServer) -> None:
    pytest.importorskip("falkordb", reason="needs: pip install 'heliograph[falkordb]'")
    settings = StoreSettings(data_dir=tmp_path / "other", durability="normal", graph_url=falkordb_server.url)
    await expect_congruence(tmp_path, settings, 300)


@pytest.mark.slow
async def test_neo4j_is_congruent_with_sqlite(tmp_path: Path, neo4j_server: Neo4jServer) -> None:
    pytest.importorskip("neo4j", reason="needs: pip install 'heliograph[neo4j]'")
    settings = StoreSettings(data_dir=tmp_path / "other", durability="normal", graph_url=neo4j_server.url)
    await expect_congruence(tmp_path, settings, 60)


@pytest.mark.slow
async def test_qdrant_is_congruent_with_sqlite(tmp_path: Path, qdrant: QdrantPlace) -> None:
    settings = StoreSettings(
        data_dir=tmp_path / "other",
        durability="normal",
        vectors_url=qdrant.url(DIMENSION),
        workspace=f"congruence-{uuid4().hex[:8]}",
    )
    await expect_congruence(tmp_path, settings, 150)
