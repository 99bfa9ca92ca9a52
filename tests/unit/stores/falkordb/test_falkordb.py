"""FalkorDB: where it is, and what the driver's exceptions mean."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from uuid import uuid4

import pytest

pytest.importorskip("falkordb", reason="needs: pip install 'heliograph[falkordb]'")

from heliograph.embedding.base import EmbeddingInfo
from heliograph.errors import SettingsError, StoreError, StoreUnavailable
from heliograph.settings import StoreSettings
from heliograph.stores.cypher import Statement
from heliograph.stores.falkordb import FalkorDatabase
from heliograph.stores.registry import open_projection
from heliograph.testing.examples import DIMENSION
from tests.servers.falkordb import FalkorServer

_EMBEDDING = EmbeddingInfo("example", DIMENSION, 512)


@pytest.fixture
async def database(falkordb_server: FalkorServer) -> AsyncGenerator[FalkorDatabase]:
    database = FalkorDatabase(falkordb_server.url, f"w{uuid4().hex}")
    yield database
    await database.close()


@pytest.mark.parametrize("port", ["", "9"])
async def test_password_is_not_in_messages(tmp_path: Path, falkordb_server: FalkorServer, port: str) -> None:
    url = f"falkordb://:hunter2@127.0.0.1:{port or falkordb_server.port}"
    with pytest.raises(StoreUnavailable, match=r"FalkorDB at .*check store\.graph_url") as caught:
        await open_projection("graph", StoreSettings(data_dir=tmp_path, graph_url=url), _EMBEDDING)
    assert "hunter2" not in str(caught.value)


def test_bad_address_names_the_setting() -> None:
    with pytest.raises(SettingsError, match=r"store\.graph_url is no address of FalkorDB.*falkordb://"):
        FalkorDatabase("falkordb://h:port", "w")


async def test_wrong_statement_is_no_outage(database: FalkorDatabase) -> None:
    for statements in ([Statement("MATCH")], [Statement("RETURN 1"), Statement("MATCH")]):
        with pytest.raises(StoreError, match="FalkorDB at") as caught:
            await database.write(statements)
        assert not isinstance(caught.value, StoreUnavailable)


async def test_full_memory_is_unavailable(database: FalkorDatabase) -> None:
    client = database._connection.client
    await client.config_set("maxmemory", "1")
    try:
        with pytest.raises(StoreUnavailable, match="maxmemory"):
            await database.write([Statement("CREATE (:A)"), Statement("CREATE (:B)")])
    finally:
        await client.config_set("maxmemory", "0")


async def test_nul_does_not_cut_a_text_short(database: FalkorDatabase) -> None:
    await database.write([Statement("CREATE (:A {x: $x})", {"x": "a\0b"}), Statement("CREATE (:B)")])
    assert await database.read(Statement("MATCH (n:A) RETURN n.x")) == [["a\N{REPLACEMENT CHARACTER}b"]]


async def test_preparing_twice_is_fine(database: FalkorDatabase) -> None:
    assert (await database.prepare())["appendonly"] == "yes"
    await database.prepare()
