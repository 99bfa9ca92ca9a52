"""Files that several connections begin at once."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import apsw
import pytest

from heliograph.stores import sql

_CONNECTIONS = 8
_FILES = 20


def _begin(path: Path, barrier: threading.Barrier) -> None:
    connection = apsw.Connection(str(path))
    try:
        connection.set_busy_timeout(5_000)
        barrier.wait()
        sql.use_wal(connection)
        connection.execute("CREATE TABLE IF NOT EXISTS words (word TEXT)")
        connection.execute("INSERT INTO words VALUES ('a')")
    finally:
        connection.close()


def test_all_that_begin_a_file_at_once_can_write(tmp_path: Path) -> None:
    # Without trying again, about one in a hundred is refused.
    barrier = threading.Barrier(_CONNECTIONS, timeout=60)
    with ThreadPoolExecutor(_CONNECTIONS) as threads:
        for number in range(_FILES):
            path = tmp_path / f"{number}.db"
            list(threads.map(lambda _, path=path: _begin(path, barrier), range(_CONNECTIONS)))
            connection = apsw.Connection(str(path))
            assert connection.pragma("journal_mode") == "wal"
            assert connection.execute("SELECT count(*) FROM words").get == _CONNECTIONS
            connection.close()


def test_file_that_stays_locked_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql, "_WAL_TRIES", 2)
    monkeypatch.setattr(sql, "_WAL_REST_SECONDS", 0.0)
    owner = apsw.Connection(str(tmp_path / "a.db"))
    owner.execute("BEGIN EXCLUSIVE")
    other = apsw.Connection(str(tmp_path / "a.db"))
    with pytest.raises(apsw.BusyError):
        sql.use_wal(other)
    owner.execute("ROLLBACK")
    sql.use_wal(other)
    assert owner.pragma("journal_mode") == "wal"
    owner.close()
    other.close()
