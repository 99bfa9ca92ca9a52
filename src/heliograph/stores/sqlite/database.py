"""One SQLite file: who may touch it, from which thread, and what its errors mean.

Reads run in a small pool of threads, each with its own connection; writes run one at a time in one thread, each in an
immediate transaction. WAL mode lets readers of any process go on while one process writes; a second writer waits for
`write_timeout_seconds`. A file that cannot be written, or lies in a folder that cannot, is opened for reading only.
Every apsw exception is translated here and nowhere else.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import apsw

from heliograph.errors import StoreError, StoreUnavailable
from heliograph.ids import is_storable
from heliograph.stores.sqlite.schema import check_schema, migrate
from heliograph.stores.sqlite.sql import Row, fetch
from heliograph.stores.wal import transaction, use_wal

__all__ = ["Database", "check_path", "translate_errors"]

T = TypeVar("T")

# Few readers with a fair cache each: every one fills its own. Mapping the file into memory instead saves a mixed query
# 15% of its CPU time and was left: what is touched then counts as the process's memory (140 MB after one question to
# 50,000 entities, the whole file after a scan), and an error of the disk ends the process.
_READERS = 3
_READER_CACHE_KIB = 24 * 1024
_WRITER_CACHE_KIB = 64 * 1024
# Small pages: a commit touches many index pages and changes a few bytes in each. Measured against 4096: 28% fewer
# bytes written at the same CPU time; 1024 writes less still, but reads vectors 60% slower.
_PAGE_BYTES = 2048
# Pages in the log before they are copied into the file: pages written again and again are copied once.
_CHECKPOINT_PAGES = 16_000
_LOG_LIMIT_BYTES = 64 * 1024 * 1024

_MEANINGS: tuple[tuple[type[Exception], str], ...] = (
    (apsw.FullError, "the disk is full; free some space and try again, nothing was changed"),
    (apsw.ReadOnlyError, "the file or its folder cannot be written; check permissions, or choose another data_dir"),
    (apsw.CantOpenError, "it cannot be opened; check that the folder exists and may be written"),
    (apsw.PermissionsError, "access was refused; check permissions, or choose another data_dir"),
    (apsw.AuthError, "access was refused; check permissions, or choose another data_dir"),
    (apsw.NotADBError, "it is not a Heliograph store, or its first page is damaged; restore it from a backup"),
    (apsw.CorruptError, "it is damaged; restore it from a backup"),
    (apsw.BusyError, "another process has been writing for too long; try again, or raise store.write_timeout_seconds"),
    (apsw.LockedError, "another process has it locked; try again, or raise store.write_timeout_seconds"),
    (apsw.IOError, "reading or writing failed; check the disk"),
    (apsw.NoLFSError, "the file system does not take files of this size; choose another data_dir"),
    (apsw.NoMemError, "there is not enough memory"),
    (apsw.TooBigError, "a value is larger than SQLite can hold (1 GB); split the document"),
    (apsw.InterruptError, "the operation was interrupted; try again"),
    (apsw.ProtocolError, "the lock protocol of the file system failed; keep the store on a local disk"),
    (apsw.ConnectionClosedError, "it is closed; open it again"),
)


@contextmanager
def translate_errors(path: Path) -> Generator[None]:
    """Turn what apsw raises about the file at `path` into `StoreError`s."""
    try:
        yield
    except apsw.Error as error:
        for kind, meaning in _MEANINGS:
            if isinstance(error, kind):
                raise StoreUnavailable(f"the store {str(path)!r} failed: {meaning} ({error})") from error
        raise StoreError(f"the store {str(path)!r} failed unexpectedly, please report this: {error!r}") from error


def check_path(path: Path) -> None:
    """Hold a path against what SQLite takes.

    Raises:
        StoreUnavailable: It is no text in UTF-8, or holds NUL.
    """
    if not is_storable(str(path)):
        raise StoreUnavailable(f"the store cannot use the path {str(path)!r}, which is not UTF-8; choose another name")


class Database:
    """The connections to one file."""

    def __init__(self, path: Path, write_timeout_seconds: float, durability: str) -> None:
        """Open the file, creating and migrating it as needed; blocks.

        Where the file is there and cannot be written, it is only read, as it is now: what another process, which can
        write it, commits from then on is not seen until it is opened again.

        Raises:
            StoreUnavailable: It cannot be opened, or made current where it can only be read.
            SchemaMismatch: It belongs to another program or a newer version.
        """
        self.path = path
        self._is_read_only = _is_read_only(path)
        self._timeout_milliseconds = int(write_timeout_seconds * 1000)
        self._synchronous = "FULL" if durability == "full" else "NORMAL"
        self._closed = False
        self._lock = threading.Lock()
        self._local = threading.local()
        self._connections: list[apsw.Connection] = []
        with translate_errors(path):
            self._writer_connection = self._connect(_WRITER_CACHE_KIB)
            try:
                self._prepare()
            except BaseException:
                self._writer_connection.close()
                raise
        self._identity = _file_identity(path)
        self._readers = ThreadPoolExecutor(_READERS, "heliograph-read")
        self._writer = ThreadPoolExecutor(1, "heliograph-write")

    @property
    def is_closed(self) -> bool:
        """Whether `close` has been called."""
        return self._closed

    @property
    def is_read_only(self) -> bool:
        """Whether nothing can be written, and `write` and `run_alone` always fail."""
        return self._is_read_only

    def _prepare(self) -> None:
        connection = self._writer_connection
        if self._is_read_only:
            migrate(connection, str(self.path))
            return
        connection.pragma("page_size", _PAGE_BYTES)
        use_wal(connection)
        migrate(connection, str(self.path))
        connection.pragma("wal_autocheckpoint", _CHECKPOINT_PAGES)
        connection.pragma("journal_size_limit", _LOG_LIMIT_BYTES)

    def _connect(self, cache_kib: int) -> apsw.Connection:
        connection = self.open_connection()
        with self._lock:
            self._connections.append(connection)
        connection.set_busy_timeout(self._timeout_milliseconds)
        connection.pragma("synchronous", self._synchronous)
        connection.pragma("cache_size", -cache_kib)
        connection.pragma("temp_store", "memory")
        return connection

    def open_connection(self) -> apsw.Connection:
        """Return one more connection, which the caller closes; blocks, and raises what apsw does."""
        if not self._is_read_only:
            return apsw.Connection(str(self.path), statementcachesize=200)
        log = self.path.with_name(f"{self.path.name}-wal")
        # Without a log nobody is writing, and SQLite must be told so, or it wants to make files of its own beside it.
        mode = "mode=ro" if log.exists() and log.stat().st_size else "immutable=1"
        address = f"file:{quote(str(self.path))}?{mode}"
        return apsw.Connection(address, apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI, statementcachesize=200)

    def _reader_connection(self) -> apsw.Connection:
        connection = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._connect(_READER_CACHE_KIB)
            connection.pragma("query_only", True)
            self._local.connection = connection
        return connection

    async def read(self, work: Callable[[apsw.Connection], T]) -> T:
        """Run `work` on a reading connection; all it reads is of one moment."""
        return await self._submit(self._readers, lambda: self._in_transaction(work, "BEGIN", self._reader_connection))

    async def fetch(self, query: str, values: Any = ()) -> list[Row]:
        """Run one statement on a reading connection and return its rows; a statement sees one moment by itself."""

        def run() -> list[Row]:
            with translate_errors(self.path):
                return fetch(self._reader_connection(), query, values)

        return await self._submit(self._readers, run)

    async def write(self, work: Callable[[apsw.Connection], T]) -> T:
        """Run `work` as one transaction that is durable when this returns, or leaves no trace."""
        self._refuse_if_read_only()

        def write(connection: apsw.Connection) -> T:
            check_schema(connection, str(self.path))
            return work(connection)

        def run() -> T:
            result = self._in_transaction(write, "BEGIN IMMEDIATE", lambda: self._writer_connection)
            self._check_is_there()
            return result

        return await self._submit(self._writer, run)

    def _check_is_there(self) -> None:
        """Refuse to acknowledge what was written into a file that another process has removed meanwhile."""
        if _file_identity(self.path) != self._identity:
            raise StoreUnavailable(f"the store {str(self.path)!r} was removed while it was open; open it again")

    async def run_alone(self, work: Callable[[apsw.Connection], T]) -> T:
        """Run `work` on the writer's connection, outside a transaction."""
        self._refuse_if_read_only()

        def run() -> T:
            with translate_errors(self.path):
                return work(self._writer_connection)

        return await self._submit(self._writer, run)

    async def read_afresh(self, work: Callable[[apsw.Connection], T]) -> T:
        """Run `work` on a connection of its own, for what takes long or must not rely on anything remembered."""

        def run() -> T:
            with translate_errors(self.path):
                connection = self.open_connection()
                connection.set_busy_timeout(self._timeout_milliseconds)
                try:
                    return work(connection)
                finally:
                    connection.close()

        if self._closed:
            raise StoreUnavailable(f"the store {str(self.path)!r} is closed; open it again")
        return await asyncio.to_thread(run)

    def _refuse_if_read_only(self) -> None:
        if self._is_read_only:
            raise StoreUnavailable(
                f"the store {str(self.path)!r} was opened for reading only, since it or its folder cannot be written; "
                "check permissions, or copy the folder to where it can be"
            )

    async def _submit(self, executor: ThreadPoolExecutor, work: Callable[[], T]) -> T:
        if self._closed:
            raise StoreUnavailable(f"the store {str(self.path)!r} is closed; open it again")
        return await asyncio.get_running_loop().run_in_executor(executor, work)

    def _in_transaction(
        self, work: Callable[[apsw.Connection], T], begin: str, connect: Callable[[], apsw.Connection]
    ) -> T:
        with translate_errors(self.path):
            connection = connect()
            with transaction(connection, begin):
                return work(connection)

    async def close(self) -> None:
        """Wait for what is under way, fold the log into the file and close."""
        if self._closed:
            return
        self._closed = True
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        self._readers.shutdown()
        self._writer.shutdown()
        with translate_errors(self.path):
            for connection in self._connections:
                connection.close()


def _file_identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _is_read_only(path: Path) -> bool:
    return path.exists() and not (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK))
