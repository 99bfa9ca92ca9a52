"""The file that holds the jobs of one workspace: its tables, its connection, and what its errors mean.

It lies in the folder of the workspace, so that it goes with it. Every process of the service has it open; a connection
to a file that was removed meanwhile is given up.
"""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import apsw

from heliograph.errors import HeliographError, NotFoundError, SchemaMismatch, StoreUnavailable
from heliograph.stores.wal import DAMAGE, transaction, use_wal

_NAME = "jobs.db"
_TIMEOUT_MILLISECONDS = 10_000
_VERSION = 1
_CREATE = """
CREATE TABLE job (
  sequence INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, kind TEXT NOT NULL, track_id TEXT NOT NULL,
  request TEXT NOT NULL, state TEXT NOT NULL, done INTEGER NOT NULL DEFAULT 0, total INTEGER NOT NULL DEFAULT 0,
  counts TEXT NOT NULL DEFAULT '{}', problems TEXT NOT NULL DEFAULT '[]', error TEXT NOT NULL DEFAULT '',
  attempts INTEGER NOT NULL DEFAULT 0, due_at REAL NOT NULL, cancelled_by TEXT NOT NULL DEFAULT '',
  created_at REAL NOT NULL, started_at REAL, finished_at REAL
);
CREATE INDEX job_by_state ON job (state, sequence);
CREATE INDEX job_by_track ON job (track_id);
CREATE TABLE message (sequence INTEGER PRIMARY KEY AUTOINCREMENT, moment REAL NOT NULL, text TEXT NOT NULL);
-- Files of the input folder as they were when they were last read.
CREATE TABLE read_file (name TEXT PRIMARY KEY, modified_ns INTEGER NOT NULL, size INTEGER NOT NULL) WITHOUT ROWID;
"""


class JobFile:
    """One connection to the file, used by one thread at a time; every method blocks."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / _NAME
        self._lock = threading.Lock()
        self._connection: apsw.Connection | None = None
        self._identity = (0, 0)

    def exists(self) -> bool:
        """Whether any job was ever accepted here."""
        return self.path.is_file()

    @contextmanager
    def transaction(self, *, durable: bool = True) -> Generator[apsw.Connection]:
        """Read and write as one; with `durable`, it is on disk when the block ends.

        Raises:
            NotFoundError: The workspace was removed.
            StoreUnavailable: The file cannot be read or written.
        """
        with self._lock, self._translated(), self._connected() as connection:
            connection.pragma("synchronous", "FULL" if durable else "NORMAL")
            with transaction(connection):
                yield connection

    @contextmanager
    def reading(self) -> Generator[apsw.Connection]:
        """Read, all of one moment.

        Raises:
            NotFoundError: The workspace was removed.
            StoreUnavailable: The file cannot be read.
        """
        with self._lock, self._translated(), self._connected() as connection, transaction(connection, "BEGIN"):
            yield connection

    def close(self) -> None:
        """Close the connection; the next use opens another."""
        with self._lock:
            self._disconnect()

    def remove(self) -> None:
        """Remove the file; who has it open gives it up."""
        with self._lock:
            self._disconnect()
            for path in self.path.parent.glob(f"{_NAME}*"):
                path.unlink(missing_ok=True)

    @contextmanager
    def _translated(self) -> Generator[None]:
        try:
            yield
        except HeliographError:
            raise
        except (apsw.Error, OSError, *DAMAGE) as error:
            self._disconnect()
            if not self.path.parent.is_dir():
                raise NotFoundError(f"there is no workspace {self.path.parent.name!r}; it was removed") from error
            if isinstance(error, DAMAGE):
                raise StoreUnavailable(
                    f"the list of jobs {str(self.path)!r} is damaged ({type(error).__name__}: {error}); stop the "
                    "service, move the file away and start again: documents and uploads are kept elsewhere, those that "
                    "wait are processed, and a scan reads the uploads that were not read yet"
                ) from error
            raise StoreUnavailable(
                f"the list of jobs {str(self.path)!r} failed ({error}); check the disk and permissions of its folder"
            ) from error

    @contextmanager
    def _connected(self) -> Generator[apsw.Connection]:
        if self._connection is not None and self._find_identity() != self._identity:
            self._disconnect()
        if self._connection is None:
            self._connection = self._connect()
            self._identity = self._find_identity()
        yield self._connection

    def _find_identity(self) -> tuple[int, int]:
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return (0, 0)
        return found.st_dev, found.st_ino

    def _connect(self) -> apsw.Connection:
        connection = apsw.Connection(str(self.path))
        try:
            connection.set_busy_timeout(_TIMEOUT_MILLISECONDS)
            # What was dropped is not to stay readable in the file.
            connection.pragma("secure_delete", 1)
            use_wal(connection)
            _prepare(connection, str(self.path))
        except BaseException:
            connection.close()
            raise
        return connection

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _prepare(connection: apsw.Connection, name: str) -> None:
    if connection.pragma("user_version") == _VERSION:
        return
    with transaction(connection):
        version = connection.pragma("user_version")
        if version == 0:
            connection.execute(_CREATE)
            connection.pragma("user_version", _VERSION)
    if version not in (0, _VERSION):
        raise SchemaMismatch(f"the list of jobs {name!r} was made by a newer version; update Heliograph")
