"""What stands beside a store follows it through failures, losses and restarts."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from heliograph.embedding.base import EmbeddingInfo
from heliograph.errors import SettingsError, StoreUnavailable
from heliograph.models import Entity
from heliograph.settings import StoreSettings
from heliograph.stores.base import Store
from heliograph.stores.changeset import Changeset, Collection, Outbox, OutboxKind
from heliograph.stores.composed import ComposedStore, ProjectionFollower
from heliograph.stores.registry import open_store
from heliograph.testing.examples import DIMENSION, example_changeset, unit_vector
from tests.memory_projection import MemoryGraphProjection, MemoryVectorProjection
from tests.memory_store import MemoryStore

_EMBEDDING = EmbeddingInfo("example", DIMENSION, 512)


@pytest.fixture
async def home(tmp_path: Path) -> AsyncGenerator[Store]:
    store = await open_store(StoreSettings(data_dir=tmp_path, durability="normal"), _EMBEDDING)
    yield store
    await store.close()


def example(source: str) -> Changeset:
    """Return a document with two entities of its own and a relation between them."""
    names = [f"Alpha {source}", f"Beta {source}"]
    return example_changeset(source, names, [(names[0], names[1], 1.5)])


def outbox_of(store: Store) -> Outbox:
    assert store.outbox is not None
    return store.outbox


async def entity_ids(graph: MemoryGraphProjection) -> list[str]:
    return await graph.scan(OutboxKind.ENTITIES, "", 100)


async def expect_equal(home: Store, graph: MemoryGraphProjection) -> None:
    assert await graph.list_entities(0, 100) == await home.graph.list_entities(0, 100)
    relations = await graph.scan(OutboxKind.RELATIONS, "", 100)
    assert await graph.get_relations(relations) == await home.graph.get_relations(relations)
    assert len(relations) == (await home.get_stats()).relations


async def test_nothing_is_noted_without_readers(home: Store) -> None:
    await home.apply(example("a.md"))
    assert await outbox_of(home).read(-1, 100) == []


async def test_projection_takes_over_what_was_there_before(home: Store) -> None:
    await home.apply(example("a.md"))
    graph = MemoryGraphProjection()
    await ProjectionFollower(home, outbox_of(home), graph).catch_up()
    await expect_equal(home, graph)
    assert await entity_ids(graph)


async def test_entries_are_forgotten_once_all_have_read_them(home: Store) -> None:
    quick, slow = MemoryGraphProjection("quick"), MemoryGraphProjection("slow")
    for graph in (quick, slow):
        await ProjectionFollower(home, outbox_of(home), graph).catch_up()
    await home.apply(example("a.md"))
    await ProjectionFollower(home, outbox_of(home), quick).catch_up()
    assert await outbox_of(home).read(0, 100)
    await ProjectionFollower(home, outbox_of(home), slow).catch_up()
    assert await outbox_of(home).read(0, 100) == []
    assert quick.applied == slow.applied


async def test_unregistered_reader_holds_nothing_back(home: Store) -> None:
    await ProjectionFollower(home, outbox_of(home), MemoryGraphProjection("gone")).catch_up()
    await home.apply(example("a.md"))
    await outbox_of(home).unregister("gone")
    assert await outbox_of(home).read(-1, 100) == []
    assert await outbox_of(home).get_readers() == {}


async def test_engine_out_of_reach_stalls_only_itself(home: Store) -> None:
    graph, vectors = MemoryGraphProjection(), MemoryVectorProjection()
    store = await ComposedStore(home, [graph, vectors], 100).open()
    graph.is_down = True
    await store.apply(example("a.md"))
    assert await store.get_lags() == {graph.name: 1, vectors.name: 0}
    assert await vectors.scan(OutboxKind.CHUNKS, "", 9)
    assert await entity_ids(graph) == []
    graph.is_down = False
    await store.apply(example("b.md"))
    await store.followers[0].finish()
    await expect_equal(home, graph)
    assert await store.get_lags() == {graph.name: 0, vectors.name: 0}
    await store.close()


async def test_commits_are_refused_once_a_projection_is_too_far_behind(home: Store) -> None:
    graph = MemoryGraphProjection()
    store = await ComposedStore(home, [graph], 2).open()
    graph.is_down = True
    for name in ("a.md", "b.md"):
        await store.apply(example(name))
    with pytest.raises(StoreUnavailable, match="2 commits behind"):
        await store.apply(example("c.md"))
    graph.is_down = False
    await store.followers[0].finish()
    await store.apply(example("c.md"))
    await expect_equal(home, graph)
    await store.close()


async def test_lost_projection_is_made_anew(home: Store) -> None:
    graph = MemoryGraphProjection()
    await ProjectionFollower(home, outbox_of(home), graph).catch_up()
    await home.apply(example("a.md"))
    await ProjectionFollower(home, outbox_of(home), graph).catch_up()
    empty = MemoryGraphProjection()
    await ProjectionFollower(home, outbox_of(home), empty).catch_up()
    await expect_equal(home, empty)


async def test_projection_of_another_store_is_emptied_first(home: Store, tmp_path: Path) -> None:
    other = await open_store(StoreSettings(data_dir=tmp_path / "other", durability="normal"), _EMBEDDING)
    graph = MemoryGraphProjection()
    await ProjectionFollower(other, outbox_of(other), graph).catch_up()
    for name in ("a.md", "b.md", "c.md"):
        await other.apply(example(name))
    await ProjectionFollower(other, outbox_of(other), graph).catch_up()
    await other.close()
    for name in ("x.md", "y.md", "z.md"):
        await home.apply(example("X" + name))
    assert await graph.get_cursor() == await home.get_data_version()
    await ProjectionFollower(home, outbox_of(home), graph).catch_up()
    await expect_equal(home, graph)


async def test_interrupted_change_is_taken_in_again(home: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = MemoryGraphProjection()
    follower = ProjectionFollower(home, outbox_of(home), graph)
    await follower.catch_up()
    await home.apply(example("a.md"))

    async def fail(version: int) -> None:
        raise StoreUnavailable(f"cut off before version {version} was noted")

    monkeypatch.setattr(graph, "set_cursor", fail)
    with pytest.raises(StoreUnavailable, match="cut off"):
        await follower.catch_up()
    monkeypatch.undo()
    await follower.catch_up()
    await expect_equal(home, graph)
    assert graph.cleared == 1


async def test_clearing_reaches_the_projections(home: Store) -> None:
    graph, vectors = MemoryGraphProjection(), MemoryVectorProjection()
    store = await ComposedStore(home, [graph, vectors], 100).open()
    await store.apply(example("a.md"))
    await store.clear()
    assert await entity_ids(graph) == []
    assert await store.vectors.search(Collection.CHUNKS, unit_vector("a"), 5, -1) == []
    await store.apply(example("b.md"))
    await expect_equal(home, graph)
    await store.close()


async def test_one_process_at_a_time_takes_in(home: Store) -> None:
    graph = MemoryGraphProjection()
    follower = ProjectionFollower(home, outbox_of(home), graph)
    await follower.catch_up()
    await home.apply(example("a.md"))
    async with outbox_of(home).lock(graph.name) as is_held:
        assert is_held
        assert not await follower.catch_up()
        assert await entity_ids(graph) == []
    assert await follower.catch_up()
    await expect_equal(home, graph)


async def test_version_is_never_read_in_part(home: Store) -> None:
    await outbox_of(home).register("reader")
    await home.apply(example("a.md"))
    await home.apply(example("b.md"))
    entries = await outbox_of(home).read(0, 1)
    assert {entry.version for entry in entries} == {1}
    assert {entry.kind for entry in entries} >= {OutboxKind.DOCUMENTS, OutboxKind.CHUNKS}


async def test_quiet_commits_move_the_cursor(home: Store) -> None:
    graph = MemoryGraphProjection()
    store = await ComposedStore(home, [graph], 100).open()
    await store.apply(Changeset())
    assert await graph.get_cursor() == await store.get_data_version() == 1
    await store.close()


async def test_store_without_outbox_stands_alone() -> None:
    with pytest.raises(SettingsError, match="keeps no outbox"):
        ComposedStore(MemoryStore(), [MemoryGraphProjection()], 1)


async def test_unknown_engine_is_named(tmp_path: Path) -> None:
    settings = StoreSettings(data_dir=tmp_path, graph_url="nosuch://host")
    with pytest.raises(SettingsError, match=r"'nosuch' \(store.graph_url\)"):
        await open_store(settings, _EMBEDDING)


async def test_differing_ids_are_found_and_made_right(home: Store) -> None:
    graph, vectors = MemoryGraphProjection(), MemoryVectorProjection()
    store = await ComposedStore(home, [graph, vectors], 100).open()
    await store.apply(example("a.md"))
    assert [await follower.find_differences() for follower in store.followers] == [[], []]
    (lost, *_) = await entity_ids(graph)
    graph.remove([lost], [])
    graph.upsert([Entity("ent-stray", "Stray", "unknown", "")], [], 0)
    (found,) = await store.followers[0].find_differences()
    assert found == f"of its entities there are 1 missing, 1 too many: {', '.join(sorted((lost, 'ent-stray')))}"
    assert await store.followers[1].find_differences() == []
    await store.followers[0].rebuild()
    assert await store.followers[0].find_differences() == []
    assert [follower.role for follower in store.followers] == ["graph", "vectors"]
    await expect_equal(home, graph)
