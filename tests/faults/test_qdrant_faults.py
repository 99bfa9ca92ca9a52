"""Qdrant beside the embedded store, behind a proxy that cuts, stalls and refuses; killed, emptied, and with a key.

The server is the stand-in of `tests.servers.qdrant`, whose wire is ours: what is tested is our side of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("qdrant_client", reason="needs: pip install 'heliograph[qdrant]'")

from heliograph.errors import SchemaMismatch, StoreAccessDenied, StoreUnavailable
from heliograph.settings import StoreSettings
from heliograph.stores import composed
from heliograph.stores import qdrant as setup
from heliograph.stores.changeset import Collection, OutboxKind
from heliograph.stores.composed import ComposedStore
from heliograph.stores.registry import open_projection, open_store
from heliograph.testing.examples import unit_vector
from heliograph.testing.projection_contract import example_change

from ..servers.proxy import FaultyProxy, faulty_proxy
from ..servers.qdrant import QdrantServer, running_qdrant
from .engines import EMBEDDING, example, until


@pytest.fixture(autouse=True)
def _time_to_be_reached(_short_waits: None, monkeypatch: pytest.MonkeyPatch) -> None:
    # Collections and their indexes are made then.
    monkeypatch.setattr(composed, "_REACH_SECONDS", 30.0)


@pytest.fixture
def server() -> Generator[QdrantServer]:
    """A server that may be killed."""
    with running_qdrant() as running:
        yield running


@pytest.fixture
async def proxy(server: QdrantServer) -> AsyncGenerator[FaultyProxy]:
    async with faulty_proxy(lambda: asyncio.open_connection("127.0.0.1", server.port)) as running:
        yield running


@pytest.fixture
def settings(tmp_path: Path, server: QdrantServer, proxy: FaultyProxy) -> StoreSettings:
    url = server.url.replace(f":{server.port}", f":{proxy.port}")
    return StoreSettings(data_dir=tmp_path, durability="normal", vectors_url=url)


async def _open(settings: StoreSettings) -> ComposedStore:
    store = await open_store(settings, EMBEDDING)
    assert isinstance(store, ComposedStore)
    return store


async def _expect_equal(store: ComposedStore, sources: list[str]) -> None:
    assert await store.followers[0].find_differences() == []
    for source in sources:
        for collection in Collection:
            vector = unit_vector(source)
            found = await store.vectors.search(collection, vector, 999, -1.0)
            wanted = await store.truth.vectors.search(collection, vector, 999, -1.0)
            assert {hit.id for hit in found} == {hit.id for hit in wanted}
            assert [hit.score for hit in found] == pytest.approx([hit.score for hit in wanted], abs=0.01)


async def test_opens_while_nobody_listens_and_joins(settings: StoreSettings, proxy: FaultyProxy) -> None:
    await proxy.refuse()
    store = await _open(settings)
    await store.apply(example("a.md"))
    with pytest.raises(StoreUnavailable, match=r"out of reach: Connect.*store\.vectors_url"):
        await store.vectors.search(Collection.CHUNKS, unit_vector("a.md"), 9, -1.0)
    await proxy.accept()
    await until(store)
    await _expect_equal(store, ["a.md"])
    await store.close()


async def test_opens_while_connections_stall(
    settings: StoreSettings, proxy: FaultyProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(composed, "_REACH_SECONDS", 0.3)
    proxy.is_stalled = True
    store = await _open(settings)
    assert set(store.get_troubles()) == {item.name for item in store.followers}
    async with asyncio.timeout(10):
        for number in range(10):
            await store.apply(example(f"{number}.md"))
    monkeypatch.setattr(composed, "_REACH_SECONDS", 30.0)
    proxy.heal()
    await until(store)
    await _expect_equal(store, ["3.md"])
    await store.close()


async def test_stalled_question_ends_in_time(
    settings: StoreSettings, proxy: FaultyProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(setup, "_TIMEOUT_SECONDS", 5)
    store = await _open(settings)
    await store.apply(example("a.md"))
    proxy.is_stalled = True
    with pytest.raises(StoreUnavailable, match=r"out of reach: ReadTimeout"):
        await store.vectors.search(Collection.CHUNKS, unit_vector("a.md"), 9, -1.0)
    proxy.heal()
    await until(store)
    await _expect_equal(store, ["a.md"])
    await store.close()


async def test_slow_answers_are_waited_for(settings: StoreSettings, proxy: FaultyProxy) -> None:
    store = await _open(settings)
    await store.apply(example("a.md"))
    await until(store)
    proxy.delay_seconds = 0.1
    hits = await store.vectors.search(Collection.ENTITIES, unit_vector("a.md"), 9, -1.0)
    assert len(hits) == 2
    await store.close()


async def test_cut_connections_cost_nothing_acknowledged(settings: StoreSettings, proxy: FaultyProxy) -> None:
    store = await _open(settings)
    for number in range(30):
        if number % 4 == 2:
            proxy.cut()
        await store.apply(example(f"{number}.md"))
    await until(store)
    await _expect_equal(store, ["0.md", "29.md"])
    await store.close()


async def test_killed_server_keeps_what_it_acknowledged(settings: StoreSettings, server: QdrantServer) -> None:
    store = await _open(settings)
    for number in range(20):
        if number == 7:
            server.kill()
        if number == 14:
            await asyncio.to_thread(server.start)
        await store.apply(example(f"{number}.md"))
    await until(store)
    await _expect_equal(store, ["0.md", "7.md", "19.md"])
    await store.close()


async def test_acknowledged_points_outlive_a_crash(tmp_path: Path, server: QdrantServer) -> None:
    vectors = await open_projection("vectors", StoreSettings(data_dir=tmp_path, vectors_url=server.url), EMBEDDING)
    change = example_change("a.md", ["Ann"])
    await vectors.apply(change)
    await vectors.set_cursor(7)
    server.kill()
    await asyncio.to_thread(server.start)
    assert await vectors.get_cursor() == 7
    assert await vectors.scan(OutboxKind.CHUNKS, "", 9) == [change.chunks[0].id]
    assert await vectors.scan(OutboxKind.ENTITIES, "", 9) == [change.entities[0].id]
    await vectors.close()


async def test_server_that_lost_everything_is_filled_anew(
    settings: StoreSettings, server: QdrantServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The question finds out, nobody else.
    monkeypatch.setattr(composed, "_RETRY_SECONDS", 60.0)
    store = await _open(settings)
    await store.apply(example("a.md"))
    await until(store)
    server.kill()
    server.forget()
    await asyncio.to_thread(server.start)
    with pytest.raises(StoreUnavailable, match="it is made again"):
        await store.vectors.search(Collection.CHUNKS, unit_vector("a.md"), 9, -1.0)
    await until(store)
    await _expect_equal(store, ["a.md"])
    await store.close()


async def test_collection_that_somebody_removed_is_filled_anew(settings: StoreSettings, server: QdrantServer) -> None:
    store = await _open(settings)
    await store.apply(example("a.md"))
    await until(store)
    await store.close()
    server.kill()
    server.forget("knowledge_chunks")
    await asyncio.to_thread(server.start)
    store = await _open(settings)
    await until(store)
    await _expect_equal(store, ["a.md"])
    await store.close()


async def test_processes_may_make_the_collections_at_once(settings: StoreSettings, tmp_path: Path) -> None:
    folders = [tmp_path / str(number) for number in range(3)]
    each = [settings.model_copy(update={"data_dir": folder, "workspace": folder.name}) for folder in folders]
    stores = await asyncio.gather(*(_open(one) for one in each))
    for store in stores:
        await store.apply(example("a.md"))
        await until(store)
        await _expect_equal(store, ["a.md"])
        await store.close()


async def test_wrong_key_fails_at_once_and_is_not_shown(settings: StoreSettings, server: QdrantServer) -> None:
    wrong = settings.model_copy(update={"vectors_url": settings.vectors_url.replace(server.api_key, "hunter2")})
    with pytest.raises(StoreAccessDenied, match=r"answered 401 .*API key in store\.vectors_url") as caught:
        await _open(wrong)
    assert "hunter2" not in str(caught.value)


async def test_key_that_is_changed_later_is_told(settings: StoreSettings, server: QdrantServer) -> None:
    store = await _open(settings)
    server.kill()
    server.set_key("another")
    await asyncio.to_thread(server.start)
    await store.apply(example("a.md"))
    async with asyncio.timeout(30):
        while "check the API key" not in str(store.get_troubles()):  # noqa: ASYNC110 (nothing tells)
            await asyncio.sleep(0.01)
    server.kill()
    server.set_key(server.api_key)
    await asyncio.to_thread(server.start)
    await until(store)
    await _expect_equal(store, ["a.md"])
    await store.close()


async def test_vectors_of_another_length_are_refused(settings: StoreSettings) -> None:
    await (await _open(settings)).close()
    other = settings.model_copy(update={"data_dir": settings.data_dir / "other"})
    with pytest.raises(SchemaMismatch, match="the embedding makes 3"):
        await open_store(other, replace(EMBEDDING, dimension=3))


async def test_what_is_no_qdrant_is_told(tmp_path: Path) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\ncontent-type: text/html\r\n\r\n<html>")
        await writer.drain()
        writer.close()

    listener = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    with pytest.raises(StoreUnavailable, match=r"is no Qdrant: .*store\.vectors_url"):
        await open_projection(
            "vectors", StoreSettings(data_dir=tmp_path, vectors_url=f"qdrant://127.0.0.1:{port}"), EMBEDDING
        )
    listener.close()
