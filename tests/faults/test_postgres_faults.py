"""Roles in PostgreSQL beside the embedded store: behind a proxy that cuts, stalls and refuses, on a killed server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import psycopg
import pytest

from heliograph.errors import StoreUnavailable
from heliograph.settings import StoreSettings
from heliograph.stores.changeset import Collection
from heliograph.stores.composed import ComposedStore
from heliograph.stores.postgres import database as database_module
from heliograph.stores.registry import open_store
from heliograph.testing.examples import unit_vector

from ..servers.postgres import PostgresServer, running_postgres
from ..servers.proxy import FaultyProxy, faulty_proxy
from .engines import EMBEDDING, example, until

ROLES = ("graph", "vectors", "text")


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database_module, "_POOL_SECONDS", 0.5)


@pytest.fixture(scope="module")
def server() -> Generator[PostgresServer]:
    """A server that may be killed."""
    with running_postgres() as running:
        if running.pid is None:
            pytest.skip("needs a server of the tests' own: unset HELIOGRAPH_TEST_POSTGRES_URL")
        yield running


@pytest.fixture
def database(server: PostgresServer) -> str:
    return server.make_database()


@pytest.fixture
async def proxy(database: str) -> AsyncGenerator[FaultyProxy]:
    (folder,) = parse_qs(urlsplit(database).query)["host"]
    async with faulty_proxy(lambda: asyncio.open_unix_connection(f"{folder}/.s.PGSQL.5432")) as running:
        yield running


@pytest.fixture
def settings(tmp_path: Path, database: str, proxy: FaultyProxy) -> StoreSettings:
    name = urlsplit(database).path
    return _settings(tmp_path, f"postgresql://postgres@127.0.0.1:{proxy.port}{name}?sslmode=disable&gssencmode=disable")


def _settings(folder: Path, url: str) -> StoreSettings:
    urls = {f"{role}_url": url for role in ROLES}
    return StoreSettings.model_validate({"data_dir": folder, "durability": "normal", "pool_size": 2} | urls)


async def _open(settings: StoreSettings) -> ComposedStore:
    store = await open_store(settings, EMBEDDING)
    assert isinstance(store, ComposedStore)
    return store


async def _expect_equal(store: ComposedStore) -> None:
    for follower in store.followers:
        assert await follower.find_differences() == []
    assert await store.graph.list_entities(0, 999) == await store.truth.graph.list_entities(0, 999)
    terms = ["alpha", "beta", "md"]
    for collection in (Collection.CHUNKS, Collection.ENTITIES):
        here, there = [await text.search(collection, terms, 999) for text in (store.truth.text, store.text)]
        assert {hit.id: round(hit.score, 4) for hit in here} == {hit.id: round(hit.score, 4) for hit in there}
        assert here
    for collection in Collection:
        asked = collection, unit_vector("x"), 999, -1.0
        here, there = await store.truth.vectors.search(*asked), await store.vectors.search(*asked)
        assert {hit.id: round(hit.score, 4) for hit in here} == {hit.id: round(hit.score, 4) for hit in there}


async def test_opens_while_nobody_listens_and_joins(settings: StoreSettings, proxy: FaultyProxy) -> None:
    await proxy.refuse()
    store = await _open(settings)
    await store.apply(example("a.md"))
    with pytest.raises(StoreUnavailable, match=r"cannot be asked now: .*out of reach"):
        await store.vectors.search(Collection.CHUNKS, unit_vector("x"), 9, -1.0)
    assert set(store.get_troubles()) == {item.name for item in store.followers}
    await proxy.accept()
    await until(store)
    await _expect_equal(store)
    await store.close()


async def test_opens_while_connections_stall(settings: StoreSettings, proxy: FaultyProxy) -> None:
    proxy.is_stalled = True
    store = await _open(settings)
    assert set(store.get_troubles()) == {item.name for item in store.followers}
    async with asyncio.timeout(10):
        for number in range(10):
            await store.apply(example(f"{number}.md"))
    proxy.heal()
    await until(store)
    await _expect_equal(store)
    await store.close()


async def test_cut_connections_cost_nothing_acknowledged(settings: StoreSettings, proxy: FaultyProxy) -> None:
    store = await _open(settings)
    for number in range(20):
        if number % 4 == 2:
            proxy.cut()
        await store.apply(example(f"{number}.md"))
    await until(store)
    await _expect_equal(store)
    await store.close()


async def test_killed_server_is_caught_up_with(tmp_path: Path, database: str, server: PostgresServer) -> None:
    store = await _open(_settings(tmp_path, database))
    await store.apply(example("a.md"))
    server.kill()
    await store.apply(example("b.md"))
    async with asyncio.timeout(30):
        while len(store.get_troubles()) < len(ROLES):  # noqa: ASYNC110 (nothing tells)
            await asyncio.sleep(0.01)
    await asyncio.to_thread(server.start)
    await until(store)
    await _expect_equal(store)
    await store.close()


async def test_emptied_database_is_filled_again(tmp_path: Path, database: str) -> None:
    store = await _open(_settings(tmp_path, database))
    for number in range(3):
        await store.apply(example(f"{number}.md"))
    with psycopg.connect(database) as connection:
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute("CREATE SCHEMA public")
    await store.apply(example("b.md"))
    await until(store)
    await _expect_equal(store)
    await store.close()
