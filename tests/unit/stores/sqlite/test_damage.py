"""What is damaged, gone or put back is said, never answered from; what is whole is saved."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import apsw
import pytest

from heliograph import AsyncHeliograph
from heliograph.errors import StoreDamaged
from heliograph.server.responses import status_of
from heliograph.settings import StoreSettings
from heliograph.stores.registry import salvage_store
from heliograph.stores.sqlite import database, page_checks
from heliograph.stores.sqlite.page_checks import damaged_pages, has_checksums
from heliograph.stores.sqlite.schema import LATEST_VERSION
from heliograph.stores.sqlite.upkeep import restore_workspace
from heliograph.testing.examples import example_changeset
from heliograph.testing.fakes import FakeEmbeddingModel

from .conftest import OpenStore

FOLDER = Path("default")
FILE = FOLDER / "heliograph.db"
# Twice what SQLite holds in memory of a file if nobody says how much.
LARGE = "CREATE TABLE large AS SELECT randomblob(4000000) AS item"
TEXTS = ("Mosquitto speaks MQTT over TLS.", "The ESP32 speaks MQTT to Mosquitto.", "Shanghai is a city in China.")


def opened(path: Path) -> AsyncHeliograph:
    return AsyncHeliograph(path, embedding=FakeEmbeddingModel())


async def fill(path: Path) -> None:
    async with opened(path) as engine:
        await engine.insert(TEXTS, sources=["a.md", "b.md", "c.md"])


def run_sql(path: Path, *statements: str) -> None:
    connection = apsw.Connection(str(path / FILE))
    for statement in statements:
        connection.execute(statement)
    connection.close()


async def test_page_that_is_not_what_was_written_is_a_typed_error_and_named(tmp_path: Path) -> None:
    await fill(tmp_path)
    file = tmp_path / FILE
    contents = bytearray(file.read_bytes())
    place = contents.index(b"Mosquitto speaks")
    contents[place] ^= 1
    file.write_bytes(contents)
    page = place // 2048 + 1
    assert damaged_pages(file) == [page]
    async with opened(tmp_path) as engine:
        (document,) = [item for item in (await engine.documents()).documents if item.source == "a.md"]
        with pytest.raises(StoreDamaged, match="check --repair"):
            await engine.export(tmp_path / "export.jsonl")
        report = await engine.check()
        assert f"the pages {page} of heliograph.db are not what was written" in [
            item.message for item in report.problems
        ]
        await engine.check(repair=True)
        await engine.insert(TEXTS, sources=["a.md", "b.md", "c.md"])
        assert (await engine.check()).is_clean
        assert await engine.store.records.get_document_text(document.id) == TEXTS[0]
    # The damaged file is kept.
    assert (tmp_path / FOLDER / "damaged-1.db").stat().st_size == len(contents)


async def test_first_page_that_is_damaged_says_so_when_it_is_opened(tmp_path: Path) -> None:
    await fill(tmp_path)
    file = tmp_path / FILE
    contents = bytearray(file.read_bytes())
    # How many bytes of a page are reserved, which says that there are checksums.
    contents[20] ^= 8
    file.write_bytes(contents)
    with pytest.raises(StoreDamaged):
        await opened(tmp_path).open()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE document_text SET text = CAST(x'ff41' AS TEXT)",
        "UPDATE chunk_text SET text = CAST(x'80' AS TEXT)",
        "UPDATE document SET metadata = '{'",
        "UPDATE document SET status = 'nonsense'",
        "UPDATE document SET created_at = 'long ago'",
        "UPDATE chunk SET headings = '7'",
        "UPDATE extraction SET reply_keys = '['",
        "UPDATE relation_mention SET keywords = 'x'",
        "UPDATE entity_evidence SET names = ''",
        "UPDATE chunks_vector SET vector = x'00'",
        "DELETE FROM identity",
        "DELETE FROM meta WHERE name = 'data_version'",
    ],
)
async def test_values_that_cannot_be_what_was_written_are_reported(tmp_path: Path, statement: str) -> None:
    await fill(tmp_path)
    run_sql(tmp_path, statement)
    try:
        async with opened(tmp_path) as engine:
            assert not (await engine.check()).is_clean
            await engine.check(repair=True)
            await engine.query_data("What speaks MQTT?")
    except StoreDamaged:
        # Nothing else may be raised, and this is refused as a whole only where it cannot be opened, or has no ids left.
        assert "data_version" in statement or "identity" in statement


async def test_database_that_is_gone_beside_its_companions_is_no_new_workspace(tmp_path: Path) -> None:
    await fill(tmp_path)
    (tmp_path / FILE).unlink()
    with pytest.raises(StoreDamaged, match=r"is gone, though what belongs to it is there .*heliograph\.mark"):
        await opened(tmp_path).open()
    assert not (tmp_path / FILE).exists()


async def test_log_that_is_gone_is_named_until_a_repair(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    await fill(first)
    async with opened(first) as engine:
        await engine.insert(["Brussels is in Belgium."], sources=["d.md"])
        shutil.copytree(first, second, ignore=shutil.ignore_patterns("*-wal", "*-shm"))
    async with opened(second) as engine:
        assert "commits to" in caplog.text
        assert len((await engine.documents()).documents) == 3
        assert "commits are gone" in (await engine.check()).problems[0].message
        assert not (await engine.check(repair=True)).is_clean
        assert (await engine.check()).is_clean


async def test_log_that_held_all_there_was_is_missed(open_store: OpenStore, tmp_path: Path) -> None:
    store = await open_store()
    await store.apply(example_changeset("a.md", ["Anna"]))
    copy = tmp_path / "copy"
    shutil.copytree(tmp_path / FOLDER, copy / FOLDER, ignore=shutil.ignore_patterns("*-wal", "*-shm"))
    with pytest.raises(StoreDamaged, match="was removed or put back"):
        await open_store(data_dir=copy)


async def test_backup_takes_the_place_of_a_database_that_is_gone(tmp_path: Path) -> None:
    await fill(tmp_path)
    async with opened(tmp_path) as engine:
        await engine.backup(tmp_path / "backup.db")
        await engine.insert(["Brussels is in Belgium."], sources=["d.md"])
    (tmp_path / FILE).unlink()
    restore_workspace(StoreSettings(data_dir=tmp_path), tmp_path / "backup.db")
    async with opened(tmp_path) as engine:
        assert len((await engine.documents()).documents) == 3
        assert (await engine.check()).problems == ()


async def fill_without_checksums(path: Path) -> None:
    """Make a store as it was before pages and files had checksums."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(database, "RESERVED_BYTES", 0)
        patch.setattr(database, "protect", lambda *_: None)
        await fill(path)
        async with opened(path) as engine:
            await engine.query_data("What speaks MQTT?")
    later = ("ALTER TABLE accelerator DROP COLUMN checksum", "ALTER TABLE chunk DROP COLUMN columns")
    run_sql(path, *later, f"PRAGMA user_version = {LATEST_VERSION - len(later)}")
    (path / FOLDER / "heliograph.mark").unlink()
    assert not has_checksums(path / FILE)


async def test_store_of_before_gets_checksums_when_it_is_opened(tmp_path: Path) -> None:
    await fill_without_checksums(tmp_path)
    async with opened(tmp_path) as engine:
        assert has_checksums(tmp_path / FILE)
        assert len((await engine.query_data("What speaks MQTT?"))["data"]["chunks"]) == 3
        assert (await engine.check()).problems == ()
    assert damaged_pages(tmp_path / FILE) == []


async def test_store_of_before_that_is_larger_than_the_cache_gets_all_checksums(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill_without_checksums(tmp_path)
    run_sql(tmp_path, LARGE)
    monkeypatch.setattr(database, "_WRITER_CACHE_KIB", 64)
    async with opened(tmp_path) as engine:
        assert has_checksums(tmp_path / FILE)
        assert (await engine.check()).problems == ()
    assert damaged_pages(tmp_path / FILE) == []


async def test_store_of_before_too_large_to_be_held_in_memory_stays_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill_without_checksums(tmp_path)
    monkeypatch.setattr(page_checks, "_MOST_PROTECTED_BYTES", 1000)
    run_sql(tmp_path, LARGE)
    async with opened(tmp_path) as engine:
        await engine.backup(tmp_path / "backup.db")
        assert not has_checksums(tmp_path / FILE)
        assert (await engine.check()).problems == ()
    assert has_checksums(tmp_path / "backup.db")
    assert damaged_pages(tmp_path / "backup.db") == []


async def test_backup_that_is_larger_than_the_cache_can_be_read(tmp_path: Path) -> None:
    await fill(tmp_path / "first")
    run_sql(tmp_path / "first", LARGE)
    async with opened(tmp_path / "first") as engine:
        await engine.backup(tmp_path / "backup.db")
        await engine.vacuum()
    assert damaged_pages(tmp_path / "backup.db") == []
    assert damaged_pages(tmp_path / "first" / FILE) == []
    restore_workspace(StoreSettings(data_dir=tmp_path / "second"), tmp_path / "backup.db")
    async with opened(tmp_path / "second") as engine:
        assert len((await engine.query_data("What speaks MQTT?"))["data"]["chunks"]) == 3
        assert (await engine.check()).problems == ()


def test_looking_at_pages_leaves_the_locks_of_this_process(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    connection = apsw.Connection(str(path))
    connection.execute("CREATE TABLE a (b); BEGIN EXCLUSIVE")
    has_checksums(path)
    damaged_pages(path)
    other = "import apsw, sys; apsw.Connection(sys.argv[1]).execute('BEGIN EXCLUSIVE')"
    done = subprocess.run([sys.executable, "-c", other, str(path)], capture_output=True, text=True, check=False)
    assert "BusyError" in done.stderr
    connection.close()


async def test_store_of_before_that_another_process_has_open_is_used_as_it_is(tmp_path: Path) -> None:
    await fill_without_checksums(tmp_path)
    other = apsw.Connection(str(tmp_path / FILE))
    other.execute("SELECT count(*) FROM document").fetchall()
    async with opened(tmp_path) as engine:
        assert not has_checksums(tmp_path / FILE)
        assert len((await engine.documents()).documents) == 3
        other.close()
        await engine.vacuum()
        assert not has_checksums(tmp_path / FILE)
        assert (await engine.check()).problems == ()
    async with opened(tmp_path):
        assert has_checksums(tmp_path / FILE)


def test_damage_is_told_over_http_as_a_problem_of_ours() -> None:
    assert status_of(StoreDamaged("x")) == (503, "The store is damaged")


async def test_store_that_was_cut_short_is_repaired(tmp_path: Path) -> None:
    await fill(tmp_path)
    os.truncate(tmp_path / FILE, (tmp_path / FILE).stat().st_size - 4096)
    with pytest.raises(StoreDamaged, match="check --repair") as refused:
        await opened(tmp_path).open()
    # While the refusal is looked at, all that was opened in vain is closed.
    assert await salvage_store(StoreSettings(data_dir=tmp_path)) == []
    assert refused.tb is not None
    async with opened(tmp_path) as engine:
        await engine.check(repair=True)
        assert (await engine.check()).problems == ()
        assert {item.source for item in (await engine.documents()).documents} == {"a.md", "b.md", "c.md"}


@pytest.mark.parametrize("length", [0, 2048])
async def test_store_of_which_too_little_is_left_is_not_repaired(tmp_path: Path, length: int) -> None:
    await fill(tmp_path)
    os.truncate(tmp_path / FILE, length)
    with pytest.raises(StoreDamaged):
        await opened(tmp_path).open()
    with pytest.raises(StoreDamaged, match=r"too little.*move the file away and restore a backup"):
        await salvage_store(StoreSettings(data_dir=tmp_path))
