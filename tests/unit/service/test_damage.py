"""The service's own small files when they are damaged, or their disk is full: typed errors that say what to do."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from heliograph.errors import HeliographError, StoreUnavailable
from heliograph.service.access import Ledger, signing_key
from heliograph.service.jobs.models import JobKind, JobProgress, JobRequest, JobState
from heliograph.service.jobs.store import JobStore
from heliograph.stores.sql import transaction

READS: tuple[Callable[[JobStore, str], object], ...] = (
    lambda store, id_: store.get(id_),
    lambda store, _: store.page(0, 10),
    lambda store, _: store.of_track("t1"),
    lambda store, _: store.count_unfinished(),
    lambda store, _: store.upcoming(),
    lambda store, _: store.state(10),
    lambda store, _: store.read_files(),
)
WRITES: tuple[Callable[[JobStore, str], object], ...] = (
    lambda store, _: store.add(JobRequest(JobKind.URL, "t2", sources=("http://example.org",))),
    lambda store, id_: store.begin(id_),
    lambda store, id_: store.report(id_, JobProgress(1, 2)),
    lambda store, id_: store.postpone(id_, "later"),
    lambda store, id_: store.cancel(id_, "me"),
    lambda store, id_: store.end(id_, JobState.FAILED, "why"),
    lambda store, _: store.tell("so it is"),
    lambda store, _: store.note_read({"a.md": (1, 2)}),
    lambda store, _: store.take_over(),
)
ADVICE = ("start again", "check the disk", "it may be long finished", "there is no workspace")
FUNCTION_SCOPED = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=150)


@pytest.fixture
def jobs(tmp_path: Path) -> tuple[Path, str]:
    folder = tmp_path / "whole"
    folder.mkdir()
    store = JobStore(folder)
    job = store.add(JobRequest(JobKind.FILES, "t1", "me", ("a.md",), metadata={"team": "red"}))
    store.report(job.id, JobProgress(1, 2, {"pending": 1}, ("b.md: empty",)))
    store.tell("Reading uploads: a.md")
    store.note_read({"a.md": (1, 2)})
    store.close()
    return folder, job.id


def copied(folder: Path) -> Path:
    target = folder.with_name("damaged")
    shutil.rmtree(target, ignore_errors=True)
    return shutil.copytree(folder, target)


def flip(path: Path, at: float, bits: int) -> None:
    data = bytearray(path.read_bytes())
    data[min(int(at * len(data)), len(data) - 1)] ^= bits
    path.write_bytes(data)


def check_typed(work: Callable[[], object]) -> None:
    try:
        work()
    except HeliographError as error:
        told = str(error)
    else:
        return
    assert any(advice in told for advice in ADVICE)


@FUNCTION_SCOPED
@given(at=st.floats(0, 1), bits=st.integers(1, 255))
def test_list_of_jobs_with_a_flipped_byte_gives_typed_errors(jobs: tuple[Path, str], at: float, bits: int) -> None:
    folder, id_ = copied(jobs[0]), jobs[1]
    flip(folder / "jobs.db", at, bits)
    store = JobStore(folder)
    for work in (*READS, *WRITES, *READS):
        check_typed(lambda work=work: work(store, id_))
    store.close()


@FUNCTION_SCOPED
@given(
    table=st.sampled_from([("job", 16), ("message", 2), ("read_file", 2)]),
    column=st.integers(0, 15),
    value=st.sampled_from(["", "[]", "[1]", '{"a": "b"}', "x", -1, 1e300, float("inf"), b"\xff\xfe", 2**62]),
)
def test_list_of_jobs_with_any_value_gives_typed_errors(
    jobs: tuple[Path, str], table: tuple[str, int], column: int, value: Any
) -> None:
    folder, id_ = copied(jobs[0]), jobs[1]
    connection = apsw.Connection(str(folder / "jobs.db"))
    names = [name for _, name, *_ in connection.execute(f"PRAGMA table_info({table[0]})")]
    name = names[1 + column % table[1]]
    # Text that is no UTF-8 is text all the same.
    placed = "CAST(? AS TEXT)" if isinstance(value, bytes) else "?"
    connection.execute(f"UPDATE {table[0]} SET {name} = {placed}", (value,))
    connection.close()
    store = JobStore(folder)
    for work in (*READS, *WRITES):
        check_typed(lambda work=work: work(store, id_))
    store.close()


def test_damaged_list_of_jobs_says_what_to_do(jobs: tuple[Path, str]) -> None:
    (jobs[0] / "jobs.db").write_bytes(b"no database" * 1_000)
    with pytest.raises(StoreUnavailable, match=r"list of jobs .*jobs\.db' is damaged .*move the file away"):
        JobStore(jobs[0]).page(0, 10)


@FUNCTION_SCOPED
@given(at=st.floats(0, 1), bits=st.integers(1, 255))
def test_file_of_sessions_with_a_flipped_byte_gives_typed_errors(tmp_path: Path, at: float, bits: int) -> None:
    path = tmp_path / "ledger.db"
    for old in tmp_path.glob("ledger.db*"):
        old.unlink()

    async def use() -> None:
        ledger = Ledger(path)
        works = (lambda: ledger.attempt({"a": 3}, 60.0), lambda: ledger.end_session("s", 2e9))
        for work in (*works, lambda: ledger.forget(["a"]), lambda: asyncio.to_thread(ledger.is_ended, "s")):
            await asyncio.to_thread(check_typed, lambda work=work: asyncio.run(work()))
        ledger.close()

    asyncio.run(use())
    flip(path, at, bits)
    check_typed(lambda: asyncio.run(use()))


def test_damaged_secret_says_what_to_do(tmp_path: Path) -> None:
    signing_key("", tmp_path)
    (tmp_path / "token_secret").write_bytes(b"short")
    with pytest.raises(StoreUnavailable, match=r"token_secret' is damaged; delete it"):
        signing_key("", tmp_path)


def test_full_disk_is_told_as_such(jobs: tuple[Path, str]) -> None:
    store = JobStore(jobs[0])
    store.tell("one")
    connection = store._connection
    assert connection is not None
    connection.pragma("max_page_count", connection.pragma("page_count"))
    with pytest.raises(StoreUnavailable, match=r"full.*check the disk"):
        store.note_read({f"{'long' * 100}{number}": (1, 2) for number in range(1_000)})
    store.tell("there is room again")
    store.close()


def test_transaction_raises_what_failed_and_not_what_could_not_be_rolled_back(tmp_path: Path) -> None:
    connection = apsw.Connection(str(tmp_path / "a.db"))
    connection.execute("CREATE TABLE thing (name)")

    def fail(statement: str) -> None:
        with transaction(connection):
            connection.execute(statement)
            raise KeyError("the first error")

    for statement in ("ROLLBACK", "INSERT INTO thing VALUES (1)"):
        with pytest.raises(KeyError, match="the first error"):
            fail(statement)
    assert connection.execute("SELECT count(*) FROM thing").get == 0
    connection.close()
