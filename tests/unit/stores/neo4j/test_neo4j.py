"""Neo4j: where it is, and what the driver's exceptions mean."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest

pytest.importorskip("neo4j", reason="needs: pip install 'heliograph[neo4j]'")

from neo4j.exceptions import DatabaseError, DriverError, TransientError

from heliograph.embedding.base import EmbeddingInfo
from heliograph.errors import SettingsError, StoreAccessDenied, StoreError, StoreUnavailable
from heliograph.settings import StoreSettings
from heliograph.stores.cypher import Statement
from heliograph.stores.neo4j import Neo4jAddress, Neo4jDatabase, translate_errors
from heliograph.stores.registry import open_projection, open_store
from heliograph.testing.examples import DIMENSION
from tests.servers.neo4j import Neo4jServer

_EMBEDDING = EmbeddingInfo("example", DIMENSION, 512)


async def open_at(folder: Path, url: str) -> None:
    store = await open_store(StoreSettings(data_dir=folder, workspace=f"w{uuid4().hex}", graph_url=url), _EMBEDDING)
    await store.close()


def test_address_keeps_the_password_to_itself() -> None:
    address = Neo4jAddress.parse("neo4j+s://ann:p%40ss@db.example/graph?policy=eu")
    assert address.url == "neo4j+s://db.example:7687?policy=eu"
    assert (address.user, address.password, address.database) == ("ann", "p@ss", "graph")
    assert address.where == "db.example:7687/graph"
    assert "p@ss" not in repr(address)


@pytest.mark.parametrize("url", ["neo4j://", "neo4j://u:hunter2@h:port", "bolt://h/a/b"])
def test_bad_address_names_the_setting(url: str) -> None:
    with pytest.raises(SettingsError, match=r"store\.graph_url") as caught:
        Neo4jAddress.parse(url)
    assert "hunter2" not in str(caught.value)


async def test_wrong_password_says_what_to_check(tmp_path: Path, neo4j_server: Neo4jServer) -> None:
    url = f"neo4j://neo4j:hunter2@127.0.0.1:{neo4j_server.port}"
    with pytest.raises(StoreAccessDenied, match=r"refuses: .*check the user and password in store\.graph") as caught:
        await open_at(tmp_path, url)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("scheme", ["neo4j", "bolt"])
async def test_nobody_there_is_unavailable(tmp_path: Path, scheme: str) -> None:
    settings = StoreSettings(data_dir=tmp_path, graph_url=f"{scheme}://ann:hunter2@127.0.0.1:9")
    with pytest.raises(StoreUnavailable, match=r"127\.0\.0\.1:9.* is out of reach") as caught:
        await open_projection("graph", settings, _EMBEDDING)
    assert "hunter2" not in str(caught.value)


async def test_unknown_database_is_named(tmp_path: Path, neo4j_server: Neo4jServer) -> None:
    with pytest.raises(StoreError, match="nosuch"):
        await open_at(tmp_path, f"{neo4j_server.url}/nosuch")


async def test_wrong_statement_is_no_outage(neo4j_server: Neo4jServer) -> None:
    database = Neo4jDatabase(Neo4jAddress.parse(neo4j_server.url))
    with pytest.raises(StoreError, match="SyntaxError") as caught:
        await database.read(Statement("MATCH"))
    assert not isinstance(caught.value, StoreUnavailable)
    await database.close()


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (TransientError("memory is full"), StoreUnavailable),
        (DatabaseError("disk is full"), StoreUnavailable),
        (ConnectionResetError("cut off"), StoreUnavailable),
        (DriverError("odd"), StoreError),
    ],
)
def test_what_passes_is_unavailable(error: Exception, kind: type[StoreError]) -> None:
    with pytest.raises(StoreError) as caught, translate_errors("h:1"):
        raise error
    assert type(caught.value) is kind
    assert "h:1" in str(caught.value)


async def test_failed_transaction_leaves_nothing(neo4j_server: Neo4jServer) -> None:
    database = Neo4jDatabase(Neo4jAddress.parse(neo4j_server.url))
    name = f"T{uuid4().hex}"
    with pytest.raises(StoreError):
        await database.write([Statement(f"CREATE (:{name})"), Statement("RETURN 1 / 0")])
    assert await database.read(Statement(f"MATCH (n:{name}) RETURN n")) == []
    await database.close()
