"""One SQLite file: locks between processes, connections and threads, errors; and ids, interned as integer keys."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import json
import logging
import os
import re
import shutil
import threading
import time
import zlib
from collections.abc import AsyncGenerator, Callable, Collection, Coroutine, Generator, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import apsw
import numpy as np
from numpy.typing import NDArray

from heliograph.calls.tasks import run_at_once
from heliograph.errors import HeliographError, SchemaMismatch, StoreDamaged, StoreError, StoreUnavailable
from heliograph.ids import is_storable
from heliograph.settings import StoreSettings
from heliograph.stores.changeset import OutboxKind
from heliograph.stores.sql import transaction, use_wal
from heliograph.stores.sqlite.page_checks import RESERVED_BYTES, VFS, has_checksums, is_broken_page, protect, register
from heliograph.stores.sqlite.schema import LATEST_VERSION, has_tables, migrate

# Advisory file locks between processes; the operating system releases them when their holder dies.

_POLL_SECONDS = 0.05
_HOLDER_LENGTH = 40


@contextmanager
def try_file_lock(path: Path) -> Generator[bool]:
    """Hold the lock if it is free now; yields whether it was acquired."""
    descriptor = _open(path)
    try:
        yield _try_lock(descriptor)
    finally:
        os.close(descriptor)


@asynccontextmanager
async def file_lock(path: Path, timeout_seconds: float) -> AsyncGenerator[None]:
    """Hold the lock, waiting for it without blocking the event loop.

    Raises:
        StoreUnavailable: Another process still holds it after `timeout_seconds`; names the holder.
    """
    descriptor = _open(path)
    try:
        deadline = time.monotonic() + timeout_seconds
        while not _try_lock(descriptor):
            if time.monotonic() >= deadline:
                holder = os.pread(descriptor, _HOLDER_LENGTH, 0).decode("utf-8", "replace").strip() or "another process"
                raise StoreUnavailable(
                    f"{holder} has been writing to {str(path.parent)!r} for more than {timeout_seconds:g} s; "
                    "wait for it to finish, or raise store.write_timeout_seconds"
                )
            await asyncio.sleep(_POLL_SECONDS)
        # Padded, so that no part of an earlier holder's longer text remains: truncating costs more than all the rest.
        os.pwrite(descriptor, f"process {os.getpid()}".ljust(_HOLDER_LENGTH).encode(), 0)
        yield
    finally:
        os.close(descriptor)


def _open(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise StoreUnavailable(
            f"the lock file {str(path)!r} cannot be opened ({error.strerror}); check that the folder may be written"
        ) from error


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EACCES):
            return False
        raise StoreUnavailable(f"the file system refuses locks ({error.strerror}); use a local disk") from error
    return True


# Running statements: rows as typed tuples, many ids or keys as one argument.

Row = tuple[Any, ...]


def array(values: Collection[int] | Collection[str] | NDArray[np.int64]) -> Any:
    """Return values as one SQL argument, to be read by `carray(?)`; there must be at least one."""
    if isinstance(values, np.ndarray):
        return apsw.carray(values)
    if isinstance(next(iter(values)), str):
        # A C string ends at NUL, which no stored text holds.
        return apsw.carray(tuple(str(value).replace("\0", "\ufffd") for value in values))
    return apsw.carray(np.fromiter(map(int, values), np.int64, len(values)))


def fetch(connection: apsw.Connection, query: str, values: Any = ()) -> list[Row]:
    """Return all rows."""
    return connection.execute(query, values).fetchall()


def fetch_one(connection: apsw.Connection, query: str, values: Any = ()) -> Row | None:
    """Return the first row, or None."""
    return connection.execute(query, values).fetchone()


def fetch_value(connection: apsw.Connection, query: str, values: Any = ()) -> Any:
    """Return the first column of the first row, or None."""
    row = fetch_one(connection, query, values)
    return row[0] if row else None


def insert(table: str, columns: Sequence[str], verb: str = "INSERT") -> str:
    """Return the statement that inserts a row of these columns into a table."""
    names = ", ".join(f'"{name}"' for name in columns)
    return f"{verb} INTO {table} ({names}) VALUES ({', '.join('?' * len(columns))})"


def upsert(table: str, columns: Sequence[str], kept: Collection[str] = ()) -> str:
    """Return the statement that upserts a row of a table by its `key`; an existing row keeps the columns `kept`."""
    changed = ", ".join(f'"{name}" = excluded."{name}"' for name in columns if name not in ("key", *kept))
    return f"{insert(table, columns)} ON CONFLICT (key) DO UPDATE SET {changed}"


def data_version(connection: apsw.Connection) -> int:
    """Return the number that every commit raises."""
    return int(fetch_value(connection, "SELECT value FROM meta WHERE name = 'data_version'"))


def singles(values: Iterable[int]) -> Iterable[tuple[int]]:
    """Return each value as the only argument of a statement."""
    return ((value,) for value in values)


T = TypeVar("T")


class ThreadLock:
    """A thread lock for coroutines that run in a thread and never suspend."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    async def __aenter__(self) -> None:
        self._lock.acquire()

    async def __aexit__(self, *_: object) -> None:
        self._lock.release()


_LOGGER = logging.getLogger(__name__)

# The file of a workspace, in its folder.
FILE_NAME = "heliograph.db"
_MARK_NAME = "heliograph.mark"
# The entry of `meta` that counts commits found missing, until a repair.
LOST_COMMITS = "lost_commits"
_CHECKED = "page_checksums"
_MARK = re.compile(rb"data version (\d+) \(([0-9a-f]{8})\)")
# Files that exist only beside a database.
_COMPANIONS = (_MARK_NAME, "ingest.lock", "heliograph.db-wal", "heliograph.db-shm", "*.turbovec", "*.postings")
_REMEDY = (
    "run 'heliograph check --repair', which keeps what is whole and names what is lost, or restore a backup "
    "('heliograph restore')"
)

# Few readers with a fair cache each: every one fills its own. Memory-mapping the file instead saves a mixed query
# 15% of its CPU time and was rejected: touched pages then count as the process's memory (140 MB after one question to
# 50,000 entities, the whole file after a scan), and a disk error ends the process.
_READERS = 3
_READER_CACHE_KIB = 24 * 1024
# At the end of every commit SQLite walks through all pages that the writer caches, as long as the file is smaller than
# 1 GiB: with 64 MiB that is 4% of a document's CPU time, for hardly one more cache hit.
_WRITER_CACHE_KIB = 16 * 1024
# Statements that stay prepared. Every row of `executemany` counts as a use and evicts the oldest one, so with fewer
# than a document has rows (330), each commit would prepare most of its statements again: 6% of its CPU time.
_STATEMENTS = 512
# Small pages: a commit touches many index pages and changes a few bytes in each. Measured against 4096: 28% fewer
# bytes written at the same CPU time; 1024 writes less still, but reads vectors 60% slower.
_PAGE_BYTES = 2048
# Pages in the log before a checkpoint: pages written again and again are then copied once.
_CHECKPOINT_PAGES = 16_000
_LOG_LIMIT_BYTES = 64 * 1024 * 1024
# Size of the file that SQLite creates beside the log when it opens a database.
_SHARED_MEMORY_BYTES = 32 * 1024
# Padded, so that no part of a longer earlier number remains.
_MARK_BYTES = 60

_DAMAGE: tuple[tuple[type[Exception], str], ...] = (
    (apsw.NotADBError, "it is not a Heliograph store, or its first page is damaged; restore it from a backup"),
    (apsw.CorruptError, f"it is damaged; {_REMEDY}"),
)
_MEANINGS: tuple[tuple[type[Exception], str], ...] = (
    (apsw.FullError, "the disk is full; free some space and try again, nothing was changed"),
    (apsw.ReadOnlyError, "the file or its folder cannot be written; check permissions, or choose another data_dir"),
    (apsw.CantOpenError, "it cannot be opened; check that the folder exists and may be written"),
    (apsw.PermissionsError, "access was refused; check permissions, or choose another data_dir"),
    (apsw.AuthError, "access was refused; check permissions, or choose another data_dir"),
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
    """Translate apsw's errors about the file at `path` into `StoreError`s, and undecodable text into `StoreDamaged`."""
    try:
        yield
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise StoreDamaged(f"the store {str(path)!r} holds text that is none ({error}); {_REMEDY}") from error
    except apsw.Error as error:
        if is_broken_page(error):
            raise StoreDamaged(
                f"the store {str(path)!r} failed: a page is not what was written, so a disk has lost it, or another "
                f"program has written into it; {_REMEDY} ({error})"
            ) from error
        for kind, meaning in _DAMAGE:
            if isinstance(error, kind):
                raise StoreDamaged(f"the store {str(path)!r} failed: {meaning} ({error})") from error
        is_full = isinstance(error, apsw.IOError) and _has_no_room(path)
        for kind, meaning in _MEANINGS:
            if isinstance(error, kind) or (is_full and kind is apsw.FullError):
                raise StoreUnavailable(f"the store {str(path)!r} failed: {meaning} ({error})") from error
        raise StoreError(f"the store {str(path)!r} failed unexpectedly, please report this: {error!r}") from error


def _has_no_room(path: Path) -> bool:
    """Whether the disk is full: SQLite reports an I/O error if its shared memory, a file beside, does not fit."""
    try:
        return shutil.disk_usage(path.parent).free < _SHARED_MEMORY_BYTES
    except OSError:
        return False


@contextmanager
def _stored_as_written(path: Path) -> Generator[None]:
    """Translate errors of converting stored values into `StoreDamaged`."""
    try:
        yield
    except HeliographError:
        raise
    except (ValueError, TypeError, OverflowError) as error:
        raise StoreDamaged(
            f"the store {str(path)!r} holds a value that cannot be what was written ({error!r}); {_REMEDY}"
        ) from error


def check_path(path: Path) -> None:
    """Raise `StoreUnavailable` for a path that SQLite refuses: not valid UTF-8, or with NUL."""
    if not is_storable(str(path)):
        raise StoreUnavailable(f"the store cannot use the path {str(path)!r}, which is not UTF-8; choose another name")


class Database:
    """The connections to one file; where it can only be read, `write` and `run_alone` always fail."""

    def __init__(self, path: Path, write_timeout_seconds: float, durability: str) -> None:
        """Open the file, creating and migrating it as needed; blocks.

        A file that cannot be written is only read, as it is now: later commits of another process, which can write it,
        are not seen until it is opened again.

        Raises:
            StoreUnavailable: It cannot be opened, or it can only be read and needs a migration.
            StoreDamaged: It is not what was written, or missing while its companion files are there.
            SchemaMismatch: It belongs to another program or a newer version.
        """
        register()
        self.path = path
        self._mark = path.with_name(_MARK_NAME)
        self._marked = -1
        # Create no new database where one was removed whose companion files are still there.
        if not path.exists() and (left := find_companions(path)):
            raise StoreDamaged(
                f"the store {str(path)!r} is gone, though what belongs to it is there "
                f"({', '.join(found.name for found in left)}); put the file back, restore a backup ('heliograph "
                "restore'), or remove the folder to begin anew"
            )
        self.is_read_only = path.exists() and not (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK))
        self._timeout_milliseconds = int(write_timeout_seconds * 1000)
        self._synchronous = "FULL" if durability == "full" else "NORMAL"
        self.is_closed = False
        self._lock = threading.Lock()
        self._local = threading.local()
        self._connections: list[apsw.Connection] = []
        self._start()

    def _start(self) -> None:
        with translate_errors(self.path), _stored_as_written(self.path):
            self._writer_connection = self._connect(_WRITER_CACHE_KIB)
            try:
                self._prepare()
            except BaseException:
                self._writer_connection.close()
                raise
        self._identity = file_identity(self.path)
        self._readers = ThreadPoolExecutor(_READERS, "heliograph-read")
        self._writer = ThreadPoolExecutor(1, "heliograph-write")

    def _prepare(self) -> None:
        connection = self._writer_connection
        # The data version that was committed last; 0 if that is not known.
        marked = 0
        with suppress(OSError):
            found = _MARK.match(self._mark.read_bytes())
            if found is not None and zlib.crc32(b"data version " + found[1]) == int(found[2], 16):
                marked = int(found[1])
        if marked and not int(connection.pragma("application_id")) and not has_tables(connection):
            raise StoreDamaged(
                f"the store {str(self.path)!r} is empty, and {marked} commits were made to it: it or its log, "
                f"'{self.path.name}-wal', was removed or put back; restore a backup, or remove the folder to begin anew"
            )
        if self.is_read_only:
            migrate(connection, str(self.path))
            self._check_checksums()
            return
        if not int(connection.pragma("page_count")):
            connection.pragma("page_size", _PAGE_BYTES)
            connection.reserve_bytes(reserve=RESERVED_BYTES)
        use_wal(connection)
        migrate(connection, str(self.path))
        if not has_checksums(self.path) and not self._says_checked():
            protect(connection, self.path)
            connection.set_busy_timeout(self._timeout_milliseconds)
            use_wal(connection)
        self._check_checksums()
        connection.pragma("wal_autocheckpoint", _CHECKPOINT_PAGES)
        connection.pragma("journal_size_limit", _LOG_LIMIT_BYTES)
        if (lost := marked - data_version(connection)) > 0:
            _LOGGER.warning(
                "the last %d commits to %r are gone: its log was removed or damaged, or an earlier copy was put back; "
                "index again what they brought, and run 'heliograph check --repair'",
                *(lost, str(self.path)),
            )
            with transaction(connection):
                connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (LOST_COMMITS, lost))
                # The accelerator files may hold data of the lost commits.
                connection.execute("UPDATE accelerator SET version = 0")
            self._note_version(connection)

    def _says_checked(self) -> bool:
        query = "SELECT value FROM meta WHERE name = ?"
        return bool(fetch_value(self._writer_connection, query, (_CHECKED,)))

    def _check_checksums(self) -> None:
        """See that pages are verified against their checksums, if they have any, by the connection of the writer."""
        if has_checksums(self.path):
            if not self.is_read_only and not self._says_checked():
                self._writer_connection.execute("INSERT OR REPLACE INTO meta VALUES (?, 1)", (_CHECKED,))
            if not int(self._writer_connection.pragma("checksum_verification")):
                # The connection was opened before the first page, which announces checksums, was in the file.
                self._connections.remove(self._writer_connection)
                self._writer_connection.close()
                self._writer_connection = self._connect(_WRITER_CACHE_KIB)
        elif self._says_checked():
            raise StoreDamaged(f"the store {str(self.path)!r} failed: its first page is damaged; restore a backup")

    def _note_version(self, connection: apsw.Connection) -> None:
        """Write the data version to a file beside the database, where it outlives the log."""
        version = data_version(connection)
        if version == self._marked:
            return
        written = b"data version %d" % version
        try:
            descriptor = os.open(self._mark, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                os.pwrite(descriptor, (b"%s (%08x)" % (written, zlib.crc32(written))).ljust(_MARK_BYTES), 0)
            finally:
                os.close(descriptor)
        except OSError as error:
            _LOGGER.warning("%r cannot be written: %s", str(self._mark), error.strerror)
        else:
            self._marked = version

    def _connect(self, cache_kib: int) -> apsw.Connection:
        connection = self.open_connection()
        try:
            connection.set_busy_timeout(self._timeout_milliseconds)
            connection.pragma("synchronous", self._synchronous)
            connection.pragma("cache_size", -cache_kib)
            connection.pragma("temp_store", "memory")
            # Otherwise a statement with `LIMIT ?` is re-prepared whenever it is run, because of the number's value,
            # which takes three quarters of the time of a short one.
            connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        except BaseException:
            # Left open, it would block a repair by this process.
            connection.close()
            raise
        with self._lock:
            self._connections.append(connection)
        return connection

    def open_connection(self) -> apsw.Connection:
        """Return one more connection, which the caller closes; blocks, and raises apsw's errors."""
        if not self.is_read_only:
            return apsw.Connection(str(self.path), vfs=VFS, statementcachesize=_STATEMENTS)
        return open_to_read(self.path)

    def _reader_connection(self) -> apsw.Connection:
        connection = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._connect(_READER_CACHE_KIB)
            connection.pragma("query_only", True)
            self._local.connection = connection
        return connection

    async def read(self, work: Callable[[apsw.Connection], T], *, by_writer: bool = False) -> T:
        """Run `work` on a reading connection, or on the writer's after the current write; it reads one snapshot."""
        held = self._held()
        if held is not None:
            return work(held)
        connect = (lambda: self._writer_connection) if by_writer else self._reader_connection

        def run() -> T:
            with _stored_as_written(self.path):
                return self._in_transaction(work, "BEGIN", connect)

        return await self._submit(self._writer if by_writer else self._readers, run)

    async def fetch(self, query: str, values: Any = ()) -> list[Row]:
        """Run one statement on a reading connection and return its rows; a statement sees one moment by itself."""
        held = self._held()
        if held is not None:
            return fetch(held, query, values)

        def run() -> list[Row]:
            with translate_errors(self.path):
                return fetch(self._reader_connection(), query, values)

        return await self._submit(self._readers, run)

    async def fetch_as(self, make: Callable[[Row], T], query: str, values: Any = ()) -> list[T]:
        """Run one statement on a reading connection and return each row, converted by `make`."""
        held = self._held()
        if held is not None:
            return [make(row) for row in fetch(held, query, values)]

        def run() -> list[T]:
            with translate_errors(self.path), _stored_as_written(self.path):
                return [make(row) for row in fetch(self._reader_connection(), query, values)]

        return await self._submit(self._readers, run)

    async def read_at_once(
        self, work: Callable[[apsw.Connection], Coroutine[Any, Any, T]], *, by_writer: bool = False
    ) -> T:
        """Run a coroutine in a thread; all its reads see one moment, and it must await nothing else."""
        held = self._held()
        if held is not None:
            return await work(held)

        def run(connection: apsw.Connection) -> T:
            self._local.held = connection
            try:
                return run_at_once(work(connection))
            finally:
                self._local.held = None

        return await self.read(run, by_writer=by_writer)

    def _held(self) -> apsw.Connection | None:
        """Return the connection of this thread's transaction, if it runs a coroutine of `read_at_once`."""
        return getattr(self._local, "held", None)

    async def write(self, work: Callable[[apsw.Connection], T]) -> T:
        """Run `work` as one transaction that is durable when this returns, or rolled back."""
        self._refuse_if_read_only()

        def write(connection: apsw.Connection) -> T:
            check_schema(connection, str(self.path))
            return work(connection)

        def run() -> T:
            result = self._in_transaction(write, "BEGIN IMMEDIATE", lambda: self._writer_connection)
            if file_identity(self.path) != self._identity:
                # Acknowledge no write to a file that another process has removed meanwhile.
                raise StoreUnavailable(f"the store {str(self.path)!r} was removed while it was open; open it again")
            with translate_errors(self.path):
                self._note_version(self._writer_connection)
            return result

        return await self._submit(self._writer, run)

    async def run_alone(self, work: Callable[[apsw.Connection], T]) -> T:
        """Run `work` on the writer's connection, outside a transaction."""
        self._refuse_if_read_only()

        def run() -> T:
            with translate_errors(self.path):
                return work(self._writer_connection)

        return await self._submit(self._writer, run)

    async def read_afresh(self, work: Callable[[apsw.Connection], T]) -> T:
        """Run `work` on a new connection, for long work or work that must not rely on cached pages."""

        def run() -> T:
            with translate_errors(self.path), _stored_as_written(self.path):
                connection = self.open_connection()
                connection.set_busy_timeout(self._timeout_milliseconds)
                try:
                    return work(connection)
                finally:
                    connection.close()

        if self.is_closed:
            raise StoreUnavailable(f"the store {str(self.path)!r} is closed; open it again")
        return await asyncio.to_thread(run)

    async def replace(self, work: Callable[[Path], T]) -> T:
        """Run `work`, which may replace this file by another; meanwhile it is closed for all callers."""
        self._refuse_if_read_only()
        self.is_closed = True

        def run() -> T:
            self._close()
            self._connections, self._local = [], threading.local()
            try:
                with translate_errors(self.path):
                    return work(self.path)
            finally:
                self._start()
                self.is_closed = False

        return await asyncio.to_thread(run)

    def _refuse_if_read_only(self) -> None:
        if self.is_read_only:
            raise StoreUnavailable(
                f"the store {str(self.path)!r} was opened for reading only, since it or its folder cannot be written; "
                "check permissions, or copy the folder to where it can be"
            )

    async def _submit(self, executor: ThreadPoolExecutor, work: Callable[[], T]) -> T:
        if self.is_closed:
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
        """Wait for running calls, checkpoint the log into the file and close."""
        if self.is_closed:
            return
        self.is_closed = True
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        self._readers.shutdown()
        self._writer.shutdown()
        with translate_errors(self.path):
            for connection in self._connections:
                connection.close()


def file_identity(path: Path) -> tuple[int, int] | None:
    """Return the identity of the file at a path: another one if it was removed and created again, None if missing."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def workspace_identity(settings: StoreSettings) -> tuple[int, int] | None:
    """Return the identity of the workspace's file: another one if it was created again, None if missing."""
    return file_identity(settings.data_dir / settings.workspace / FILE_NAME)


def find_companions(path: Path) -> list[Path]:
    """Return the files beside a database that exist only with it."""
    return [found for pattern in _COMPANIONS for found in sorted(path.parent.glob(pattern))]


def open_to_read(path: Path, vfs: str | None = VFS) -> apsw.Connection:
    """Return a connection that only reads a file and creates none beside it; blocks, and raises apsw's errors."""
    log = path.with_name(f"{path.name}-wal")
    # Without a log there is no writer, and SQLite must be told so, or it would create files of its own beside it.
    mode = "mode=ro" if log.exists() and log.stat().st_size else "immutable=1"
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    return apsw.Connection(f"file:{quote(str(path))}?{mode}", flags, vfs=vfs, statementcachesize=200)


# A cache of ids and keys that were looked up last, valid until the next commit.
#
# A question's reads look up the same ids again and again, and each lookup costs a third of the pages that a question
# touches. Callers name the data version that they read; entries of another version are dropped, since a key may be
# reused.

# Number of ids; some 8 MB.
_MOST_KEPT = 32_768


_SOURCES_BY_CHUNK = """SELECT chunk.key, document.source FROM carray(?) AS wanted
                       CROSS JOIN chunk ON chunk.key = wanted.value
                       CROSS JOIN document ON document.key = chunk.document_key"""


class IdMemory:
    """A cache of the ids of one data version; thread-safe."""

    def __init__(self) -> None:
        # One attribute, so that a thread never sees a version with the ids of another.
        self._latest: tuple[int, KnownIds] = (-1, KnownIds())

    def at(self, connection: apsw.Connection) -> KnownIds:
        """Return the known ids of the data version that a connection reads; it must be in a transaction."""
        version = data_version(connection)
        known_version, known = self._latest
        if version != known_version:
            # Readers of the previous version keep using their own object.
            known = KnownIds()
            self._latest = version, known
        return known


class KnownIds:
    """A cache of ids and their keys, and of chunks' sources; when it is full, it is emptied."""

    def __init__(self) -> None:
        self._keys: dict[str, int] = {}
        self._ids: dict[int, str] = {}
        self._sources: dict[int, str] = {}

    def find_keys(self, connection: apsw.Connection, ids: Collection[str]) -> dict[str, int]:
        """Return the keys of the ids that are stored, in no order."""
        keys = self._keys
        found = {id_: keys[id_] for id_ in ids if id_ in keys}
        if len(found) < len(ids):
            read = find_keys(connection, [id_ for id_ in ids if id_ not in found])
            self.note({key: id_ for id_, key in read.items()})
            found |= read
        return found

    def find_ids(self, connection: apsw.Connection, keys: Collection[int]) -> dict[int, str]:
        """Return the ids of keys that tables refer to, in no order; raises `StoreDamaged` if a key has none."""
        ids = self._ids
        found = {key: ids[key] for key in keys if key in ids}
        if len(found) < len(keys):
            read = find_ids(connection, [key for key in keys if key not in found])
            self.note(read)
            found |= read
        return found

    def find_sources(self, connection: apsw.Connection, chunks: Collection[int]) -> dict[int, str]:
        """Return the sources of the documents of stored chunks, by the chunks' keys."""
        sources = self._sources
        found = {key: sources[key] for key in chunks if key in sources}
        if len(found) < len(chunks):
            missing = [key for key in chunks if key not in found]
            read: dict[int, str] = dict(fetch(connection, _SOURCES_BY_CHUNK, (array(missing),)))
            if len(sources) + len(read) > _MOST_KEPT:
                self._sources = {}
            self._sources.update(read)
            found |= read
        return found

    def note(self, ids: Mapping[int, str]) -> None:
        """Cache ids by key."""
        if len(self._ids) + len(ids) > _MOST_KEPT:
            # Replaced, not cleared: another thread may be reading the old ones.
            self._keys, self._ids = {}, {}
        self._ids.update(ids)
        self._keys.update(zip(ids.values(), ids, strict=True))


def find_keys(connection: apsw.Connection, ids: Collection[str]) -> dict[str, int]:
    """Return the keys of the ids that are stored."""
    if not ids:
        return {}
    query = (
        "SELECT identity.id, identity.key FROM carray(?) AS wanted CROSS JOIN identity ON identity.id = wanted.value"
    )
    return dict(fetch(connection, query, (array(ids),)))


def find_ids(connection: apsw.Connection, keys: Collection[int]) -> dict[int, str]:
    """Return the ids of keys that tables refer to; raises `StoreDamaged` if one has none."""
    found = find_known_ids(connection, keys)
    if missing := set(keys) - found.keys():
        raise StoreDamaged(
            f"the store refers to key {min(missing)}, which has no id: its table of ids is damaged; run 'heliograph "
            "check --repair', and if that does not help, restore a backup or take the documents into a new workspace"
        )
    return found


def find_known_ids(connection: apsw.Connection, keys: Collection[int]) -> dict[int, str]:
    """Return the ids of those keys that have one."""
    if not keys:
        return {}
    query = (
        "SELECT identity.key, identity.id FROM carray(?) AS wanted CROSS JOIN identity ON identity.key = wanted.value"
    )
    return dict(fetch(connection, query, (array(keys),)))


def first_by_id(connection: apsw.Connection, keys: Collection[int], count: int) -> list[int]:
    """Return the first `count` of the keys by id; keys without an id are left out."""
    if not keys or count < 1:
        return []
    query = """SELECT key FROM carray(?) AS wanted CROSS JOIN identity ON identity.key = wanted.value
               ORDER BY id LIMIT ?"""
    return [key for (key,) in fetch(connection, query, (array(keys), count))]


def give_keys(connection: apsw.Connection, ids: Collection[str]) -> dict[str, int]:
    """Assign the next free keys to ids without one, and return these."""
    start = (fetch_value(connection, "SELECT max(key) FROM identity") or 0) + 1 if ids else 0
    keys = {id_: start + offset for offset, id_ in enumerate(ids)}
    connection.executemany("INSERT INTO identity (id, key) VALUES (?, ?)", iter(keys.items()))
    return keys


def forget_keys(connection: apsw.Connection, keys: Iterable[int]) -> None:
    """Drop ids that no table refers to any more."""
    connection.executemany("DELETE FROM identity WHERE key = ?", singles(keys))


# The embedding that fills the store: reading it, and comparing it with the one that a process opened it for.

PRESENT = ("embedding_name", "embedding_dimension")


def stored_embedding(connection: apsw.Connection) -> tuple[str, int] | None:
    """Return name and dimension of the embedding that filled the store; None if it is new."""
    return read_embedding(connection, PRESENT)


def read_embedding(connection: apsw.Connection, names: tuple[str, str]) -> tuple[str, int] | None:
    """Return the embedding's name and dimension stored under these two names; None if they are missing."""
    name, dimension = (fetch_value(connection, "SELECT value FROM meta WHERE name = ?", (item,)) for item in names)
    return None if name is None or dimension is None else (str(name), int(dimension))


def note_reset(connection: apsw.Connection) -> None:
    """Make all readers rebuild, if there are any; earlier entries are dropped."""
    if fetch_value(connection, "SELECT EXISTS (SELECT 1 FROM outbox_reader)"):
        connection.execute("DELETE FROM outbox")
        connection.execute(
            "INSERT INTO outbox (kind, id, version) VALUES (?, '', ?)",
            (OutboxKind.RESET.value, data_version(connection)),
        )


def check_schema(connection: apsw.Connection, path: str) -> None:
    """Raise `SchemaMismatch` for a database that a newer version has migrated since it was opened."""
    version = int(connection.pragma("user_version"))
    if version != LATEST_VERSION:
        raise SchemaMismatch(
            f"the store {path!r} was brought to schema {version} while it was open here, where {LATEST_VERSION} is "
            "known; stop this process and start the new version"
        )
