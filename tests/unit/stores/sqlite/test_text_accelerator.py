"""The full-text index follows the store through files, processes, upkeep and earlier versions, and ranks as FTS5."""

from __future__ import annotations

import asyncio
import random
import threading
from pathlib import Path

import apsw
import numpy as np
import pytest

from heliograph.embedding.base import EmbeddingInfo
from heliograph.errors import StoreUnavailable
from heliograph.stores.bm25 import PostingIndex, read_segments
from heliograph.stores.changeset import Changeset, Collection, TextEntry, VectorBatch
from heliograph.stores.sqlite import schema
from heliograph.stores.sqlite.database import KnownIds
from heliograph.stores.sqlite.search import TextAccelerator
from heliograph.stores.sqlite.store import SqliteStore
from heliograph.stores.view import Keys
from heliograph.testing.examples import DIMENSION, example_changeset, unit_vector
from heliograph.text.analysis import terms

from .conftest import OpenStore

WORDS_MIGRATION = 11


async def find(store: SqliteStore, words: str, collection: Collection = Collection.CHUNKS) -> list[str]:
    return [hit.id for hit in await store.text.search(collection, terms(words), 9)]


async def fill(store: SqliteStore, name: str = "a.md", text: str = "valves and pumps") -> str:
    changeset = example_changeset(name, [f"Maker of {name}"], text=text)
    await store.apply(changeset)
    (chunk,) = changeset.chunks
    return chunk.id


async def test_scores_are_those_of_fts5(open_store: OpenStore, tmp_path: Path) -> None:
    store, random_ = await open_store(), random.Random(1)
    vocabulary = [f"word{number}" for number in range(60)]
    for number in range(80):
        await fill(store, f"{number}.md", " ".join(random_.choices(vocabulary, range(60, 0, -1), k=20)))
    connection = apsw.Connection(str(tmp_path / "default" / "heliograph.db"))
    query = "SELECT id, -rank FROM chunks_terms JOIN identity ON key = chunks_terms.rowid WHERE chunks_terms MATCH ?"
    for _ in range(10):
        wanted = [term for word in random_.sample(vocabulary, 5) for term in terms(word)]
        exact = dict(connection.execute(query, (" OR ".join(wanted),)).fetchall())
        hits = await store.text.search(Collection.CHUNKS, wanted, 200)
        assert {hit.id: hit.score for hit in hits} == pytest.approx(exact, rel=1e-12)
    connection.close()


async def test_file_is_written_on_close_and_read_by_the_next(
    open_store: OpenStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await open_store()
    first = await fill(store)
    assert await find(store, "valves") == [first]
    await store.close()
    assert (tmp_path / "default" / "chunks.postings").is_file()
    monkeypatch.setattr(TextAccelerator, "_make", lambda _: pytest.fail("the file was not read"))
    again = await open_store()
    second = await fill(again, "b.md", "more valves")
    assert set(await find(again, "valves")) == {first, second}
    assert not (tmp_path / "default" / "entities.postings").exists()


@pytest.mark.parametrize("damage", ["missing", "truncated", "garbage", "folder", "foreign", "postings"])
async def test_file_that_is_of_no_use_is_made_again(open_store: OpenStore, tmp_path: Path, damage: str) -> None:
    store = await open_store()
    first = await fill(store)
    assert await find(store, "valves") == [first]
    await store.close()
    file = tmp_path / "default" / "chunks.postings"
    whole = file.read_bytes()
    file.unlink()
    if damage == "folder":
        file.mkdir()
    elif damage == "foreign":
        other = await open_store(workspace="other")
        await fill(other, text="different taps")
        await find(other, "taps")
        await other.close()
        (tmp_path / "other" / "chunks.postings").rename(file)
    elif damage == "postings":
        file.write_bytes(whole)
        (segment,), _ = read_segments(file)
        slots = segment.slots.tobytes()
        file.write_bytes(whole.replace(slots, b"\xff" * len(slots)))
    elif damage != "missing":
        file.write_bytes(whole[:-10] if damage == "truncated" else b"garbage" * 100)
    store = await open_store()
    assert await find(store, "valves") == [first]
    assert await find(store, "taps") == []
    if damage == "folder":
        file.rmdir()
    await store.close()
    assert len(file.read_bytes()) == len(whole)


async def test_other_processes_see_each_others_words(open_store: OpenStore) -> None:
    one, two = await open_store(), await open_store()
    first = await fill(one)
    assert await find(two, "valves") == [first]
    second = await fill(two, "b.md", "valves too")
    assert set(await find(one, "valves")) == {first, second}
    await one.apply(Changeset(removed_chunks=(first,)))
    assert await find(two, "valves") == [second]
    changed = TextEntry(second, tuple(terms("only taps")))
    await one.apply(Changeset(texts={Collection.CHUNKS: (changed,)}))
    assert (await find(two, "valves"), await find(two, "taps")) == ([], [second])


async def test_processes_that_save_in_turn_spoil_nothing(open_store: OpenStore) -> None:
    first = await fill(await open_store())
    one, two = await open_store(), await open_store()
    found = {first}
    for store, name in ((one, "one.md"), (two, "two.md")):
        found.add(await fill(store, name, "valves again"))
        await find(store, "valves")
    await one.close()
    await two.close()
    assert set(await find(await open_store(), "valves")) == found


@pytest.mark.parametrize("saved", [False, True])
async def test_save_that_is_cut_short_is_made_up_for(open_store: OpenStore, saved: bool) -> None:
    store = await open_store()
    first = await fill(store)
    await find(store, "valves")
    await store.close()
    store = await open_store()
    second = await fill(store, "b.md", "new valves")
    await find(store, "valves")
    index = store._texts[Collection.CHUNKS]
    continues = await store._database.write(index.claim)
    if saved:
        await store._database.read(lambda connection: index.sync(connection, continues=continues))
    await store._database.close()  # as if killed before `record`
    again = await open_store()
    third = await fill(again, "c.md", "newer valves")
    assert set(await find(again, "valves")) == {first, second, third}
    assert await again.inspection.find_faults() == []


async def test_process_that_never_searched_saves_when_far_behind(
    open_store: OpenStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "default" / "entities.postings"
    store = await open_store()
    await store.apply(example_changeset("few.md", [f"Rare {number}" for number in range(100)]))
    await store.close()
    assert not file.exists()
    store = await open_store()
    await store.apply(example_changeset("many.md", [f"Name {number}" for number in range(2_100)]))
    await store.close()
    assert file.is_file()
    with monkeypatch.context() as patched:
        patched.setattr(TextAccelerator, "_make", lambda _: pytest.fail("the file was not read"))
        store = await open_store()
        assert len(await find(store, "rare", Collection.ENTITIES)) == 9
    # What it takes further, on a file that is there and that it never read, is of use to the next, too.
    await store.apply(example_changeset("more.md", [f"Spare {number}" for number in range(2_200)]))
    await store.close()
    monkeypatch.setattr(TextAccelerator, "_make", lambda _: pytest.fail("the file was not read"))
    assert len(await find(await open_store(), "spare", Collection.ENTITIES)) == 9


async def test_hits_of_a_later_moment_are_left_out(open_store: OpenStore) -> None:
    store, other = await open_store(), await open_store()
    first = await fill(store)
    index, began, go_on = store._texts[Collection.CHUNKS], threading.Event(), threading.Event()

    def search_late(connection: apsw.Connection) -> dict[int, str]:
        connection.execute("SELECT value FROM meta").fetchall()
        began.set()
        assert go_on.wait(30)
        keys = [key for key, _ in index.search(connection, terms("valves"), 9)]
        assert len(keys) == 2
        return index.find_ids(connection, KnownIds(), keys)

    late = asyncio.ensure_future(store._database.read(search_late))
    await asyncio.to_thread(began.wait)
    second = await fill(other, "b.md", "later valves")
    assert set(await find(store, "valves")) == {first, second}
    go_on.set()
    assert list((await late).values()) == [first]


async def test_lost_id_is_damage_and_said_so(open_store: OpenStore, tmp_path: Path) -> None:
    store = await open_store()
    await fill(store)
    connection = apsw.Connection(str(tmp_path / "default" / "heliograph.db"))
    connection.execute("DELETE FROM identity")
    connection.close()
    with pytest.raises(StoreUnavailable, match="table of ids is damaged"):
        await find(store, "valves")


async def test_cleared_store_finds_what_comes_after_alone(open_store: OpenStore) -> None:
    store, other = await open_store(), await open_store()
    first = await fill(store)
    assert await find(other, "valves") == [first]
    await store.clear()
    assert (await find(other, "valves"), await find(store, "valves")) == ([], [])
    second = await fill(store, "b.md", "pumps")
    assert (await find(other, "pumps"), await find(other, "valves")) == ([second], [])


async def test_words_outlast_another_embedding(open_store: OpenStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store = await open_store()
    first = await fill(store)
    assert await find(store, "valves") == [first]
    await store.close()
    store = await open_store()
    second = await fill(store, "b.md", "valves too")
    await store.reembedding.begin(EmbeddingInfo("next", DIMENSION, 512))
    for collection in Collection:
        if ids := await store.reembedding.find_pending(collection, "", 99):
            vectors = np.stack([unit_vector(f"next {id_}") for id_ in ids])
            await store.reembedding.put(collection, VectorBatch(tuple(ids), vectors))
    await store.reembedding.finish()
    # A process killed now leaves a file that lacks what the log must still know.
    monkeypatch.setattr(TextAccelerator, "_make", lambda _: pytest.fail("the file was not read"))
    again = await open_store(EmbeddingInfo("next", DIMENSION, 512))
    assert set(await find(again, "valves")) == {first, second}


def assert_words(folder: Path, expected: dict[int, str]) -> None:
    connection = apsw.Connection(str(folder / "default" / "heliograph.db"))
    rows = {key: " ".join(sorted(terms.split())) for key, terms in connection.execute("SELECT * FROM chunks_words")}
    connection.close()
    assert rows == expected


async def test_store_of_an_earlier_version_gets_its_words(
    open_store: OpenStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "default").mkdir()
    connection = apsw.Connection(str(tmp_path / "default" / "heliograph.db"))
    with monkeypatch.context() as patch:
        patch.setattr(schema, "LATEST_VERSION", WORDS_MIGRATION - 1)
        schema.migrate(connection, "old.db")
    rows = [(1, "b a b"), (2, "gone"), (3, "old words"), (4, ""), (5, "深度 学习 straße")]
    connection.executemany("INSERT INTO identity VALUES (?, 'chunk-' || ?)", ((key, key) for key, _ in rows))
    connection.executemany("INSERT INTO chunks_terms (rowid, terms) VALUES (?, ?)", rows)
    connection.execute("UPDATE meta SET value = 9 WHERE name = 'data_version'")
    connection.execute("DELETE FROM chunks_terms WHERE rowid = 2")
    connection.execute("INSERT OR REPLACE INTO chunks_terms (rowid, terms) VALUES (3, 'new words')")
    connection.close()
    store = await open_store()
    assert_words(tmp_path, {1: "a b b", 3: "new words", 4: "", 5: "straße 学习 深度"})
    assert [hit.id for hit in await store.text.search(Collection.CHUNKS, ["b", "gone", "old"], 9)] == ["chunk-1"]
    assert [hit.id for hit in await store.text.search(Collection.CHUNKS, ["学习"], 9)] == ["chunk-5"]
    await store.close()
    # Nothing was logged, but there was no file: it is saved.
    assert (tmp_path / "default" / "chunks.postings").is_file()


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM chunks_words",
        "INSERT INTO chunks_words VALUES (4711, 'never written')",
        "DELETE FROM chunks_terms WHERE rowid = (SELECT min(key) FROM chunk)",
    ],
)
async def test_tables_that_differ_are_reported_and_put_right(
    open_store: OpenStore, tmp_path: Path, statement: str
) -> None:
    store = await open_store()
    chunks = {await fill(store), await fill(store, "b.md", "valves too")}
    assert set(await find(store, "valves")) == chunks
    connection = apsw.Connection(str(tmp_path / "default" / "heliograph.db"))
    connection.execute(statement)
    connection.close()
    faults = await store.inspection.find_faults()
    assert any("only one of the two tables of full text" in fault for fault in faults)
    await store.inspection.repair()
    assert await store.inspection.find_faults() == []
    left = set(await find(store, "valves"))
    assert left < chunks if "chunks_terms" in statement else left == chunks


async def test_index_that_lacks_rows_is_reported_and_made_again(open_store: OpenStore) -> None:
    store = await open_store()
    first = await fill(store)
    assert await find(store, "valves") == [first]
    index = store._texts[Collection.CHUNKS]._index
    assert index is not None
    index.add([(4711, terms("valves")), (4712, ["pumps"])])
    (fault,) = await store.inspection.find_faults()
    assert fault == "the full-text index of chunks lacks 0 rows and has 2 too many"
    await store.inspection.repair()
    assert await store.inspection.find_faults() == []
    assert await find(store, "valves") == [first]


async def test_repair_reaches_a_process_that_has_the_faulty_index_in_memory(
    open_store: OpenStore, tmp_path: Path
) -> None:
    store = await open_store()
    ids = {await fill(store, f"{number}.md") for number in range(6)}
    connection = apsw.Connection(str(tmp_path / "default" / "heliograph.db"))
    connection.execute("DELETE FROM chunks_words WHERE key IN (SELECT key FROM chunks_words LIMIT 2)")
    connection.close()
    await store.close()
    store, other = await open_store(), await open_store()
    assert len(await find(other, "valves")) == 4
    await store.inspection.repair()
    assert set(await find(store, "valves")) == ids
    assert set(await find(other, "valves")) == ids
    await store.close()
    await other.close()
    again = await open_store()
    assert set(await find(again, "valves")) == ids
    assert await again.inspection.find_faults() == []


async def test_damage_that_is_met_while_rows_are_removed_has_the_index_built_again(
    open_store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await open_store()
    ids = [await fill(store, f"{number}.md") for number in range(8)]
    assert set(await find(store, "valves")) == set(ids)
    met, remove = list[str](), PostingIndex.remove

    def meet(index: PostingIndex, keys: Keys) -> None:
        if not met:
            met.append("a row that is not there")
            raise IndexError(met[0])
        remove(index, keys)

    monkeypatch.setattr(PostingIndex, "remove", meet)
    await store.apply(Changeset(removed_chunks=tuple(ids[:4])))
    assert set(await find(store, "valves")) == set(ids[4:])
    assert met
    assert await store.inspection.find_faults() == []
