"""Neo4j and FalkorDB that stall, and a FalkorDB that forgets: beside the embedded store, and alone."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from pathlib import Path
from types import ModuleType
from uuid import uuid4

import pytest

pytest.importorskip("falkordb", reason="needs: pip install 'heliograph[falkordb]'")
pytest.importorskip("neo4j", reason="needs: pip install 'heliograph[neo4j]'")

from heliograph.errors import StoreUnavailable
from heliograph.settings import StoreSettings
from heliograph.stores import composed, falkordb, neo4j
from heliograph.stores.base import Store
from heliograph.stores.registry import open_projection, open_store
from heliograph.testing.projection_contract import example_change

from ..servers.falkordb import FalkorServer, running_falkordb
from ..servers.neo4j import Neo4jServer
from ..servers.proxy import FaultyProxy, faulty_proxy
from .engines import EMBEDDING, example, until


@pytest.fixture(autouse=True)
def _time_to_be_reached(_short_waits: None, monkeypatch: pytest.MonkeyPatch) -> None:
    # Other than the five seconds after which the driver of Neo4j itself begins anew.
    monkeypatch.setattr(composed, "_REACH_SECONDS", 4.0)


@pytest.fixture
def own_falkordb() -> Generator[FalkorServer]:
    """A server that may be killed."""
    with running_falkordb() as server:
        yield server


async def _expect_outage_is_survived(
    server: Neo4jServer | FalkorServer, folder: Path, scheme: str, module: ModuleType
) -> None:
    async with faulty_proxy(lambda: asyncio.open_connection("127.0.0.1", server.port)) as proxy:
        url = server.url.replace(f":{server.port}", f":{proxy.port}").replace(server.url.partition(":")[0], scheme, 1)
        settings = StoreSettings(data_dir=folder, durability="normal", graph_url=url, workspace=f"w{uuid4().hex}")
        proxy.is_stalled = True
        store = await open_store(settings, EMBEDDING)
        try:
            await _live_through(store, proxy, module)
        finally:
            await store.close()


async def _live_through(store: Store, proxy: FaultyProxy, module: ModuleType) -> None:
    await store.apply(example("a.md"))
    with pytest.raises(StoreUnavailable, match="cannot be asked now"):
        await store.graph.list_entities(0, 9)
    proxy.heal()
    await until(store)
    proxy.is_stalled = True
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_READ_SECONDS", 0.5)
        with pytest.raises(StoreUnavailable, match="no answer in time"):
            await store.graph.list_entities(0, 9)
    proxy.heal()
    await until(store)
    proxy.cut()
    await store.apply(example("b.md"))
    await until(store)
    assert await store.followers[0].find_differences() == []
    assert await store.graph.list_entities(0, 9) == await store.truth.graph.list_entities(0, 9)


async def test_stalled_falkordb_hangs_nobody(tmp_path: Path, falkordb_server: FalkorServer) -> None:
    await _expect_outage_is_survived(falkordb_server, tmp_path, "falkordb", falkordb)


# The driver leaves its socket to the collector if it is cancelled in the moment in which it connects.
@pytest.mark.filterwarnings(r"ignore:Exception ignored in. <socket\.socket:pytest.PytestUnraisableExceptionWarning")
async def test_stalled_neo4j_hangs_nobody(tmp_path: Path, neo4j_server: Neo4jServer) -> None:
    # `neo4j:` would learn where the server itself is.
    await _expect_outage_is_survived(neo4j_server, tmp_path, "bolt", neo4j)


async def test_cursor_does_not_pass_over_what_a_crash_lost(tmp_path: Path, own_falkordb: FalkorServer) -> None:
    settings = StoreSettings(data_dir=tmp_path, graph_url=own_falkordb.url)
    graph = await open_projection("graph", settings, EMBEDDING)
    assert await graph.get_cursor() == -1
    await graph.apply(example_change("a.md", ["Ann"]))
    own_falkordb.kill()
    own_falkordb.forget()
    await asyncio.to_thread(own_falkordb.start)
    with pytest.raises(StoreUnavailable, match="has lost what it was given last"):
        await graph.set_cursor(7)
    assert await graph.get_cursor() == -1
    await graph.set_cursor(7)
    assert await graph.get_cursor() == 7
    await graph.close()
