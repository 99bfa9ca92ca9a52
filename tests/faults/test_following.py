"""What follows a store while it is slow, stalled, broken, or made anew by somebody else."""

from __future__ import annotations

import asyncio
import logging

import pytest

from heliograph.errors import StoreUnavailable
from heliograph.stores import composed
from heliograph.stores.base import Store
from heliograph.stores.changeset import OutboxKind
from heliograph.stores.composed import ComposedStore, ProjectionFollower

from .engines import Graph, example, until


async def test_stalled_engine_holds_up_one_commit_only(home: Store, graph: Graph) -> None:
    store = await ComposedStore(home, [graph], 100).open()
    graph.passes.clear()
    async with asyncio.timeout(5):
        for number in range(30):
            await store.apply(example(f"{number}.md"))
    assert (await store.get_lags())[graph.name] == 30
    graph.passes.set()
    await until(store)
    await store.close()


async def test_slow_engine_slows_commits_down_at_the_bound(home: Store, graph: Graph) -> None:
    store = await ComposedStore(home, [graph], 2).open()
    graph.passes.clear()
    for name in ("a.md", "b.md"):
        await store.apply(example(name))
    with pytest.raises(StoreUnavailable, match="slower than commits come"):
        await store.apply(example("c.md"))
    asyncio.get_running_loop().call_later(0.05, graph.passes.set)
    await store.apply(example("c.md"))
    await until(store)
    await store.close()


async def test_half_a_graph_is_not_shown(home: Store, graph: Graph) -> None:
    for name in ("a.md", "b.md"):
        await home.apply(example(name))
    assert home.outbox is not None
    follower = ProjectionFollower(home, home.outbox, graph)
    assert await follower.catch_up()
    store = await ComposedStore(home, [graph], 100).open()
    rebuilding = asyncio.create_task(store.followers[0].rebuild())
    graph.passes.clear()
    while graph.entities:  # noqa: ASYNC110 (nothing tells)
        await asyncio.sleep(0.01)
    with pytest.raises(StoreUnavailable, match="is being made anew"):
        await store.graph.list_entities(0, 9)
    assert not await follower.catch_up()
    assert follower.trouble == "another process is making it anew"
    graph.passes.set()
    await rebuilding
    assert len(await store.graph.list_entities(0, 9)) == 4
    await follower.finish()
    assert not follower.trouble
    await store.close()


async def test_question_that_finds_an_engine_away_closes_the_gate(home: Store, graph: Graph) -> None:
    store = await ComposedStore(home, [graph], 100).open()
    asked = 0

    async def fail(offset: int, limit: int) -> list[object]:
        nonlocal asked
        asked += 1
        graph.is_down = True
        raise StoreUnavailable(f"cut off at {offset} of {limit}; ask again")

    graph.list_entities = fail  # pyright: ignore[reportAttributeAccessIssue]
    for reason in ("cut off", "cannot be asked now", "cannot be asked now"):
        with pytest.raises(StoreUnavailable, match=reason):
            await store.graph.list_entities(0, 9)
    assert asked == 1
    del graph.list_entities  # pyright: ignore[reportAttributeAccessIssue]
    graph.is_down = False
    await until(store)
    assert await store.graph.list_entities(0, 9) == []
    await store.close()


async def test_what_an_engine_lost_with_its_files_is_made_again(home: Store, graph: Graph) -> None:
    store = await ComposedStore(home, [graph], 100).open()
    await store.apply(example("a.md"))
    graph.is_down = True
    await store.apply(example("b.md"))
    before = graph.attempts
    graph.is_down = False
    await until(store)
    assert graph.attempts > before
    await store.close()


async def test_defect_is_logged_and_tried_again(
    home: Store, graph: Graph, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await ComposedStore(home, [graph], 100).open()

    async def break_down() -> int:
        raise ZeroDivisionError("seven by nothing")

    monkeypatch.setattr(graph, "get_cursor", break_down)
    caplog.set_level(logging.ERROR, "heliograph")
    await store.apply(example("a.md"))
    assert "seven by nothing" in store.get_troubles()[graph.name]
    assert "which is a defect" in caplog.text
    monkeypatch.undo()
    await until(store)
    await store.close()


async def test_engine_that_swallows_a_cancellation_is_left_all_the_same(
    home: Store, graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(composed, "_CANCEL_AGAIN_SECONDS", 0.01)
    store = await ComposedStore(home, [graph], 100).open()
    is_reached = asyncio.Event()

    async def stall() -> int:
        is_reached.set()
        try:
            return await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            raise StoreUnavailable("its time was up") from None

    monkeypatch.setattr(graph, "get_cursor", stall)
    applied = asyncio.create_task(store.apply(example("a.md")))
    await is_reached.wait()
    await store.close()
    await asyncio.gather(applied, return_exceptions=True)


async def test_commits_at_once_are_taken_in_together(home: Store, graph: Graph) -> None:
    store = await ComposedStore(home, [graph], 100).open()
    await asyncio.gather(*(store.apply(example(f"{number}.md")) for number in range(12)))
    assert await store.get_lags() == {graph.name: 0}
    assert len(await graph.scan(OutboxKind.ENTITIES, "", 100)) == 24
    await store.close()


async def test_closing_does_not_wait_for_an_engine(home: Store, graph: Graph) -> None:
    store = await ComposedStore(home, [graph], 100).open()
    graph.passes.clear()
    await store.apply(example("a.md"))
    async with asyncio.timeout(5):
        await store.close()
