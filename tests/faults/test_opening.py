"""A workspace opens while an engine beside its store is away, and the engine joins when it comes."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from heliograph.errors import SchemaMismatch, SettingsError, StoreAccessDenied, StoreError, StoreUnavailable
from heliograph.settings import StoreSettings
from heliograph.stores import composed, registry
from heliograph.stores.base import Store
from heliograph.stores.changeset import OutboxKind
from heliograph.stores.composed import ComposedStore
from heliograph.stores.registry import open_store
from tests.memory_projection import MemoryVectorProjection

from .engines import EMBEDDING, Graph, example, until


async def test_engine_away_at_opening_joins_when_it_comes(home: Store, graph: Graph) -> None:
    await home.apply(example("before.md"))
    graph.is_down = True
    store = await ComposedStore(home, [graph, MemoryVectorProjection()], 100).open()
    await store.apply(example("a.md"))
    assert await store.get_lags() == {"graph:memory": 2, "vectors:memory": 0}
    assert "switched off" in store.get_troubles()["graph:memory"]
    with pytest.raises(StoreUnavailable, match=r"'graph:memory' cannot be asked now: .*switched off"):
        await store.graph.list_entities(0, 9)
    assert len(await store.truth.graph.list_entities(0, 9)) == 4
    graph.is_down = False
    await until(store)
    assert await store.graph.list_entities(0, 9) == await home.graph.list_entities(0, 9)
    await store.close()


async def test_nothing_is_noted_for_an_engine_that_never_came(home: Store, graph: Graph) -> None:
    graph.is_down = True
    store = await ComposedStore(home, [graph], 100).open()
    await store.apply(example("a.md"))
    await asyncio.sleep(0.2)
    assert home.outbox is not None
    assert await home.outbox.get_readers() == {}
    await store.close()


async def test_commits_are_refused_at_the_bound_from_the_opening_on(home: Store, graph: Graph) -> None:
    graph.is_down = True
    store = await ComposedStore(home, [graph], 2).open()
    for name in ("a.md", "b.md"):
        await store.apply(example(name))
    with pytest.raises(StoreUnavailable, match=r"2 commits behind or more \(.*switched off"):
        await store.apply(example("c.md"))
    graph.is_down = False
    await until(store)
    await store.apply(example("c.md"))
    await store.close()


@pytest.mark.parametrize(
    "error",
    [
        StoreAccessDenied("the password is wrong; check it"),
        SchemaMismatch("the length is wrong; choose another place"),
        SettingsError("the address is wrong; write another"),
        StoreError("the engine is too old; upgrade it"),
    ],
)
async def test_wrong_settings_fail_at_once(home: Store, graph: Graph, error: Exception) -> None:
    graph.refusal = error
    with pytest.raises(type(error), match=str(error)):
        await ComposedStore(home, [graph], 100).open()
    assert graph.attempts == 1


async def test_refusal_by_one_engine_ends_the_opening_of_the_others(home: Store, graph: Graph) -> None:
    other, reached = Graph("graph:other"), []
    other.passes.clear()

    async def reach() -> None:
        await other.passes.wait()
        reached.append(other.name)

    other.prepare = reach
    graph.refusal = StoreAccessDenied("the password is wrong; check it")
    with pytest.raises(StoreAccessDenied):
        await ComposedStore(home, [other, graph], 100).open()
    # Whoever opened the stores closes them now, and nobody may connect after that.
    other.passes.set()
    for _ in range(5):
        await asyncio.sleep(0)
    assert reached == []


async def test_wrong_password_found_later_is_told_and_not_raised(home: Store, graph: Graph) -> None:
    graph.is_down = True
    store = await ComposedStore(home, [graph], 100).open()
    graph.refusal = StoreAccessDenied("the password is wrong; check it")
    await asyncio.sleep(0.2)
    assert "password" in store.get_troubles()[graph.name]
    await store.apply(example("a.md"))
    graph.refusal, graph.is_down = None, False
    await until(store)
    await store.close()


async def test_engine_that_does_not_answer_holds_up_neither_opening_nor_commits(home: Store, graph: Graph) -> None:
    graph.passes.clear()
    store = await ComposedStore(home, [graph], 100).open()
    assert "does not answer" in store.get_troubles()[graph.name]
    async with asyncio.timeout(5):
        for number in range(20):
            await store.apply(example(f"{number}.md"))
    graph.passes.set()
    await until(store)
    assert len(await graph.scan(OutboxKind.ENTITIES, "", 100)) == 40
    await store.close()


async def test_attempts_do_not_grow_with_those_who_ask(
    home: Store, graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(composed, "_RETRY_SECONDS", 60.0)
    graph.is_down = True
    store = await ComposedStore(home, [graph], 100).open()
    for number in range(10):
        await store.apply(example(f"{number}.md"))
        with pytest.raises(StoreUnavailable):
            await store.graph.list_entities(0, 9)
    assert graph.attempts == 1
    await store.close()


async def test_role_that_nobody_knows_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SettingsError, match=r"'nosuch' \(store.vectors_url\)"):
        await open_store(StoreSettings(data_dir=tmp_path, vectors_url="nosuch://host"), EMBEDDING)


async def test_engine_that_is_reached_when_opened_has_to_be_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def connect(*_: object) -> Graph:
        raise StoreUnavailable("nobody is there; start it")

    monkeypatch.setattr(registry, "_find_projection", lambda *_: connect)
    with pytest.raises(StoreUnavailable, match="nobody is there"):
        await open_store(StoreSettings(data_dir=tmp_path, graph_url="own:"), EMBEDDING)


async def test_going_and_coming_back_are_logged_once(
    home: Store, graph: Graph, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "heliograph")
    graph.is_down = True
    store = await ComposedStore(home, [graph], 100).open()
    await asyncio.sleep(0.3)
    graph.is_down = False
    await until(store)
    await asyncio.sleep(0.1)
    said = [record.getMessage() for record in caplog.records if graph.name in record.getMessage()]
    assert [line.partition(" ")[2].split(":")[0] for line in said] == [
        "cannot follow and falls behind",
        "is up to date again",
    ]
    await store.close()
