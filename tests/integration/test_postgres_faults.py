"""PostgreSQL under several processes and under `kill -9`: nothing acknowledged is lost, nothing is there by half."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from heliograph.embedding.base import EmbeddingInfo
from heliograph.errors import StoreUnavailable
from heliograph.ids import name_to_entity_id as entity
from heliograph.models import DocumentStatus
from heliograph.settings import StoreSettings
from heliograph.stores.base import DocumentQuery, Store
from heliograph.stores.changeset import Collection
from heliograph.stores.postgres import database
from heliograph.stores.registry import open_store
from heliograph.testing.examples import DIMENSION, example_changeset, unit_vector

from ..servers.postgres import PostgresServer, running_postgres

WRITER = Path(__file__).parent / "postgres_writer.py"
INFO = EmbeddingInfo("example", DIMENSION, 512)


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "_POOL_SECONDS", 5.0)


@pytest.fixture(scope="module")
def own_server() -> Generator[PostgresServer]:
    """A server that may be killed; each test leaves it running."""
    with running_postgres() as server:
        if server.pid is None:
            pytest.skip("needs a server of the tests' own: unset HELIOGRAPH_TEST_POSTGRES_URL")
        yield server


async def _writer(url: str, name: str, count: int) -> list[str]:
    """Run a writing process to its end; return what was acknowledged to it."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, str(WRITER), url, "shared", name, str(count)), stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    assert process.returncode == 0
    return output.decode().split()


@pytest.mark.slow
async def test_processes_that_open_and_write_at_once_lose_nothing(postgres_server: PostgresServer) -> None:
    # A new database: all of them want to make its tables.
    url = postgres_server.make_database()
    acknowledged = await asyncio.gather(*(_writer(url, name, 12) for name in ("one", "two", "three")))
    store = await open_store(StoreSettings(url=url, workspace="shared"), INFO)
    ids = [id_ for part in acknowledged for id_ in part]
    assert len(await store.records.get_documents(ids)) == 36
    (evidence, _) = await store.records.get_evidence([entity("Hub")], [], 100)
    assert (evidence[0].mention_count, len(evidence[0].leading)) == (36, 36)
    assert [item.degree for item in await store.graph.get_entities([entity("Hub")])] == [36]
    assert await store.get_data_version() == 36
    assert await store.inspection.find_faults() == []
    await store.close()


async def _commit_until_it_fails(store: Store, acknowledged: list[str], goal: int, reached: asyncio.Event) -> None:
    for number in range(10_000):
        changeset = example_changeset(f"{number}.md", ["Hub", f"E{number}"], [("Hub", f"E{number}", 1.0)])
        await store.apply(changeset)
        acknowledged.append(changeset.documents[0].id)
        if len(acknowledged) == goal:
            reached.set()


@pytest.mark.slow
async def test_killed_server_loses_nothing_that_was_acknowledged(own_server: PostgresServer) -> None:
    store = await open_store(StoreSettings(url=own_server.make_database()), INFO)
    acknowledged: list[str] = []
    for kill in range(2):
        reached = asyncio.Event()
        goal = len(acknowledged) + 12
        writing = asyncio.create_task(_commit_until_it_fails(store, acknowledged, goal, reached))
        reading = asyncio.create_task(_search_until_it_fails(store))
        await reached.wait()
        # Somewhere in the commits that follow.
        await asyncio.sleep(0.007 * kill)
        own_server.kill()
        for task in (writing, reading):
            with pytest.raises(StoreUnavailable):
                await task
        own_server.start()
        # The first call after the restart succeeds: broken connections are noticed and made anew.
        assert len(await store.records.get_documents(acknowledged)) == len(acknowledged)
        await _check_whole(store)
    await store.close()


async def _search_until_it_fails(store: Store) -> None:
    for _ in range(100_000):
        await store.vectors.search(Collection.ENTITIES, unit_vector("x"), 5, -1.0)
        await store.text.search(Collection.CHUNKS, ["hub"], 5)


async def _check_whole(store: Store) -> None:
    """Every document is in every projection, whether its commit was acknowledged or not."""
    page = await store.records.find_documents(DocumentQuery(limit=100_000))
    assert {item.status for item in page.documents} == {DocumentStatus.PROCESSED}
    stats = await store.get_stats()
    assert (stats.chunks, stats.entities, stats.relations) == (page.total, page.total + 1, page.total)
    for collection, count in ((Collection.CHUNKS, page.total), (Collection.ENTITIES, page.total + 1)):
        assert len(await store.vectors.search(collection, unit_vector("x"), 100_000, -1.0)) == count
    assert len(await store.text.search(Collection.CHUNKS, ["hub"], 100_000)) == page.total
    assert await store.inspection.find_faults() == []


async def test_server_that_is_down_is_unavailable(own_server: PostgresServer) -> None:
    url = own_server.make_database()
    store = await open_store(StoreSettings(url=url), INFO)
    own_server.kill()
    with pytest.raises(StoreUnavailable):
        await store.get_stats()
    with pytest.raises(StoreUnavailable, match="out of reach"):
        await open_store(StoreSettings(url=url), INFO)
    await store.close()
    own_server.start()


async def test_dead_server_fails_calls_without_waiting_and_is_told_once(
    own_server: PostgresServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    # Whoever waited for the pool would wait for ever.
    monkeypatch.setattr(database, "_POOL_SECONDS", 1e6)
    store = await open_store(StoreSettings(url=own_server.make_database(), pool_size=2), INFO)
    own_server.kill()
    for count in (20, 1, 1, 1):
        failures = await asyncio.gather(*(store.get_stats() for _ in range(count)), return_exceptions=True)
        assert {type(item) for item in failures} == {StoreUnavailable}
    assert [record.name for record in caplog.records].count("psycopg.pool") == 0
    assert len([record for record in caplog.records if "is out of reach" in record.getMessage()]) == 1
    own_server.start()
    assert (await store.get_stats()).chunks == 0
    assert "is back" in caplog.text
    await store.close()


async def test_taken_connections_are_waited_for(own_server: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "_PATIENCE_SECONDS", 0.01)
    store = await open_store(StoreSettings(url=own_server.make_database(), pool_size=2), INFO)
    assert len(await asyncio.gather(*(store.get_stats() for _ in range(20)))) == 20
    held = store._database.held_session  # pyright: ignore[reportAttributeAccessIssue]
    async with held(), held():
        waiting = asyncio.create_task(store.get_stats())
        while not store._database._probed_until:  # noqa: ASYNC110  # pyright: ignore[reportAttributeAccessIssue]
            await asyncio.sleep(0.01)
        assert not waiting.done()
    assert (await waiting).chunks == 0
    await store.close()
