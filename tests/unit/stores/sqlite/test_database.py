from __future__ import annotations

import asyncio
import inspect
import shutil
from pathlib import Path

import apsw
import pytest

from heliograph.embedding.base import EmbeddingInfo
from heliograph.errors import SchemaMismatch, StoreError, StoreUnavailable
from heliograph.stores.base import DocumentQuery
from heliograph.stores.sqlite.database import translate_errors
from heliograph.stores.sqlite.schema import LATEST_VERSION
from heliograph.testing.examples import example_changeset

from .conftest import OpenStore

FILE = Path("default/heliograph.db")


def _meant_for_users() -> list[type[Exception]]:
    """Every exception of apsw but those that only a mistake in our own statements can raise."""
    ours = {"SQLError", "MismatchError", "ConstraintError", "RangeError", "MisuseError", "FormatError", "EmptyError"}
    ours |= {
        "InternalError",
        "InvalidContextError",
        "AbortError",
        "NotFoundError",
        "SchemaChangeError",
        "BindingsError",
    }
    ours |= {"ForkingViolationError", "ThreadingViolationError", "ExecutionCompleteError", "ExtensionLoadingError"}
    ours |= {"VFSFileClosedError", "VFSNotImplementedError", "CursorClosedError", "IncompleteExecutionError"}
    ours |= {"NoFTS5Error", "InvalidExpressionError", "Error", "BindingsError", "ConnectionNotClosedError"}
    ours |= {"ExecTraceAbort"}
    members = inspect.getmembers(apsw, lambda item: isinstance(item, type) and issubclass(item, apsw.Error))
    return [item for name, item in members if name not in ours]


@pytest.mark.parametrize("error", _meant_for_users())
def test_every_failure_of_the_driver_has_a_meaning(error: type[Exception]) -> None:
    with pytest.raises(StoreUnavailable, match="kb"), translate_errors(Path("kb.db")):
        raise error("detail")


def test_an_unknown_failure_is_a_store_error() -> None:
    with pytest.raises(StoreError, match="report"), translate_errors(Path("kb.db")):
        raise apsw.SQLError("no such table")


async def test_newer_schema_is_refused(open_store: OpenStore, tmp_path: Path) -> None:
    await (await open_store()).close()
    connection = apsw.Connection(str(tmp_path / FILE))
    connection.pragma("user_version", LATEST_VERSION + 1)
    connection.close()
    with pytest.raises(SchemaMismatch, match="upgrade Heliograph"):
        await open_store()


async def test_store_that_a_newer_version_took_over_meanwhile_is_not_written(
    open_store: OpenStore, tmp_path: Path
) -> None:
    store = await open_store()
    connection = apsw.Connection(str(tmp_path / FILE))
    connection.pragma("user_version", LATEST_VERSION + 1)
    with pytest.raises(SchemaMismatch, match="start the new version"):
        await store.apply(example_changeset("a.md", ["Anna"]))
    connection.pragma("user_version", LATEST_VERSION)
    connection.close()
    assert await store.apply(example_changeset("a.md", ["Anna"])) == 1


async def test_database_of_another_program_is_refused(open_store: OpenStore, tmp_path: Path) -> None:
    (tmp_path / "default").mkdir()
    connection = apsw.Connection(str(tmp_path / FILE))
    connection.execute("CREATE TABLE theirs (x)")
    connection.close()
    with pytest.raises(SchemaMismatch, match="another program"):
        await open_store()


@pytest.mark.parametrize("embedding", [EmbeddingInfo("other", 12, 512), EmbeddingInfo("example", 16, 512)])
async def test_another_embedding_is_refused(open_store: OpenStore, embedding: EmbeddingInfo) -> None:
    await (await open_store()).close()
    with pytest.raises(SchemaMismatch, match="set the embedding back"):
        await open_store(embedding)


async def test_file_that_is_no_database_is_refused(open_store: OpenStore, tmp_path: Path) -> None:
    (tmp_path / "default").mkdir()
    (tmp_path / FILE).write_bytes(b"not a database " * 500)
    with pytest.raises(StoreUnavailable, match="not a Heliograph store"):
        await open_store()


async def test_damaged_file_is_named(open_store: OpenStore, tmp_path: Path) -> None:
    store = await open_store()
    for number in range(30):
        await store.apply(example_changeset(f"{number}.md", [f"E{number}", "X"], text="words " * 400))
    await store.close()
    data = bytearray((tmp_path / FILE).read_bytes())
    data[4096:] = b"\xff" * (len(data) - 4096)
    (tmp_path / FILE).write_bytes(data)
    with pytest.raises(StoreUnavailable, match="damaged"):
        await (await open_store()).apply(example_changeset("new.md", ["X"]))


async def test_folder_that_cannot_be_made_is_named(open_store: OpenStore, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreUnavailable, match="choose another data_dir"):
        await open_store(data_dir=tmp_path / "file")


@pytest.mark.parametrize(("free", "said"), [(0, "the disk is full; free some space"), (10**9, "check the disk")])
def test_io_error_on_a_full_disk_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, said: str) -> None:
    usage = shutil.disk_usage(tmp_path)._replace(free=free)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with pytest.raises(StoreUnavailable, match=said), translate_errors(tmp_path / FILE):
        raise apsw.IOError("disk I/O error")


async def test_full_disk_changes_nothing(open_store: OpenStore) -> None:
    store = await open_store()
    version = await store.apply(example_changeset("a.md"))
    pages = await store._database.write(lambda connection: connection.pragma("page_count"))
    await store._database.write(lambda connection: connection.pragma("max_page_count", pages + 2))
    with pytest.raises(StoreUnavailable, match="disk is full"):
        await store.apply(example_changeset("b.md", text="words " * 50_000))
    assert await store.get_data_version() == version
    await store._database.write(lambda connection: connection.pragma("max_page_count", 1_000_000))
    await store.apply(example_changeset("b.md"))


async def test_second_writer_waits_then_is_refused(open_store: OpenStore, tmp_path: Path) -> None:
    store = await open_store()
    other = apsw.Connection(str(tmp_path / FILE))
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailable, match="write_timeout_seconds"):
        await store.apply(example_changeset("a.md"))
    assert await store.get_data_version() == 0
    other.execute("ROLLBACK")
    assert await store.apply(example_changeset("a.md")) == 1


async def test_readers_go_on_while_one_writes(open_store: OpenStore, tmp_path: Path) -> None:
    store, reader = await open_store(), await open_store()
    await store.apply(example_changeset("a.md", ["X"]))
    other = apsw.Connection(str(tmp_path / FILE))
    other.execute("BEGIN IMMEDIATE")
    other.execute("DELETE FROM entity")
    assert [item.name for item in await reader.graph.list_entities(0, 5)] == ["X"]
    other.execute("ROLLBACK")


async def test_ingest_lock_is_held_by_one(open_store: OpenStore) -> None:
    one, two = await open_store(), await open_store()
    async with one.ingest_lock():
        with pytest.raises(StoreUnavailable, match=r"process \d+ has been writing"):
            async with two.ingest_lock():
                pass
    async with two.ingest_lock():
        pass


async def test_many_tasks_may_read_and_write_at_once(open_store: OpenStore) -> None:
    store = await open_store()

    async def work(number: int) -> None:
        await store.apply(example_changeset(f"{number}.md", [f"E{number}", "Shared"], [(f"E{number}", "Shared", 1.0)]))
        await store.graph.rank_incident_relations(
            [store_entity.id for store_entity in await store.graph.list_entities(0, 5)]
        )

    await asyncio.gather(*(work(number) for number in range(40)))
    stats = await store.get_stats()
    assert (stats.chunks, stats.entities, stats.relations, stats.data_version) == (40, 41, 40, 40)
    assert (await store.graph.list_entities(0, 1))[0].degree == 40


async def test_workspaces_and_backups_are_their_users_alone(open_store: OpenStore, tmp_path: Path) -> None:
    store = await open_store()
    assert (tmp_path / FILE.parent).stat().st_mode & 0o777 == 0o700
    await store.backup(tmp_path / "copy.db")
    assert (tmp_path / "copy.db").stat().st_mode & 0o777 == 0o600


async def test_what_is_read_at_one_moment_does_not_see_a_commit_in_between(open_store: OpenStore) -> None:
    store = await open_store()
    await store.apply(example_changeset("a.md", ["Anna"]))
    loop = asyncio.get_running_loop()

    async def count() -> int:
        return (await store.records.find_documents(DocumentQuery())).total

    async def read() -> tuple[int, int]:
        before = await count()
        asyncio.run_coroutine_threadsafe(store.apply(example_changeset("b.md", ["Bea"])), loop).result()
        return before, await count()

    assert await store.at_one_moment(read) == (1, 1)
    assert await store.at_one_moment(count) == await count() == 2


async def test_a_reading_thread_is_free_again_after_work_that_failed(open_store: OpenStore) -> None:
    store = await open_store()

    async def suspend() -> None:
        await asyncio.sleep(0)

    for _ in range(4):
        with pytest.raises(RuntimeError, match="outside its thread"):
            await store.at_one_moment(suspend)
    assert (await store.records.find_documents(DocumentQuery())).total == 0
