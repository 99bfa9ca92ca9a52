"""The connections to a PostgreSQL database: addresses, errors, statements, transactions, locks, and values as rows.

The driver, psycopg 3 with its pool, comes with the extra `postgres`.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import struct
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any, TypeVar

import numpy as np
import psycopg
from numpy.typing import NDArray
from psycopg import AsyncConnection
from psycopg.adapt import AdaptersMap, Dumper
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import Format, TransactionStatus
from psycopg_pool import AsyncConnectionPool, PoolClosed, PoolTimeout

from heliograph.errors import SchemaMismatch, SettingsError, StoreAccessDenied, StoreError, StoreUnavailable
from heliograph.models import RelationMention
from heliograph.stores.sql import CHUNKS, DOCUMENTS, ENTITIES, ENTITY_MENTIONS, RELATION_MENTIONS, RELATIONS

# Values sent to and received from the server: rows as JSON, vectors in pgvector's binary form.
#
# One parameter carries all rows of a statement, so that a commit takes as many statements for a thousand rows as for
# one, and building it costs a fraction of what building arrays does. PostgreSQL's text holds no NUL and no lone
# surrogates; both become U+FFFD.

# Created once: `json.dumps` with non-default arguments creates an encoder for every call.
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_NUL = re.compile(r"(?<!\\)((?:\\\\)*)\\u0000")
_JSON_OID = 114
_HEAD_BYTES = 4


@dataclass(frozen=True, slots=True)
class Json:
    """A parameter of type json."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Vector:
    """A parameter of type vector: `(dimension,)` float32."""

    values: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Vectors:
    """A parameter of type vector[]: `(n, dimension)` float32, and the type id of vector in this database."""

    values: NDArray[np.float32]
    type_id: int


class _TextDumper(Dumper):
    """Dumps plain text parameters; the server infers their type."""

    def dump(self, obj: str) -> bytes:
        return _clean(obj.replace("\x00", "\ufffd"))


class _JsonDumper(Dumper):
    oid = _JSON_OID

    def dump(self, obj: Json) -> bytes:
        return obj.data


class _VectorDumper(Dumper):
    format = Format.BINARY

    def dump(self, obj: Vector) -> bytes:
        return struct.pack(">hh", len(obj.values), 0) + obj.values.astype(">f4").tobytes()


class _VectorsDumper(Dumper):
    format = Format.BINARY

    def dump(self, obj: Vectors) -> bytes:
        count, dimension = obj.values.shape
        if count == 0:
            return struct.pack(">iiI", 0, 0, obj.type_id)
        row = np.dtype([("bytes", ">i4"), ("dimension", ">i2"), ("unused", ">i2"), ("values", ">f4", (dimension,))])
        rows = np.zeros(count, row)
        rows["bytes"] = _HEAD_BYTES + 4 * dimension
        rows["dimension"] = dimension
        rows["values"] = obj.values
        return struct.pack(">iiIii", 1, 0, obj.type_id, count, 1) + rows.tobytes()


def adapters() -> AdaptersMap:
    """Return psycopg's adapters with those for `Json`, `Vector` and `Vectors`."""
    known = AdaptersMap(psycopg.adapters)
    for kind, dumper in ((str, _TextDumper), (Json, _JsonDumper), (Vector, _VectorDumper), (Vectors, _VectorsDumper)):
        known.register_dumper(kind, dumper)
    return known


def to_json(value: Iterable[Any] | Mapping[str, Any]) -> Json:
    """Return rows, ids or an object as one parameter."""
    text = _ENCODER.encode(dict(value) if isinstance(value, Mapping) else list(value))
    if "\\u0000" in text:
        text = _NUL.sub(r"\1\\ufffd", text)
    return Json(_clean(text))


def _clean(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


def read_vectors(values: Sequence[bytes]) -> NDArray[np.float32]:
    """Return `(n, dimension)` from results of `vector_send`; there must be at least one."""
    matrix = np.frombuffer(b"".join(values), ">f4").reshape(len(values), -1)
    return matrix[:, 1:].astype(np.float32)


# Ids given as one `Json`, with their place in it.
WANTED = "json_array_elements_text(%s) WITH ORDINALITY AS wanted (id, place)"
# Filters read `metadata`; `metadata_text` preserves numbers and the order of keys as they were given.
DOCUMENT = DOCUMENTS.select("document", metadata="document.metadata_text")
DOCUMENT_TYPES = DOCUMENTS.types | {"metadata": "jsonb", "metadata_text": "text"}
# LightRAG's names of these columns, which are not reserved words of SQL.
_RENAMED = {
    "document_id": "full_doc_id",
    "position": "chunk_order_index",
    "token_count": "tokens",
    "text": "content",
    "start": "start_offset",
    "end": "end_offset",
}
# The columns of a chunk, without its workspace and its vector.
CHUNK_TYPES = {_RENAMED.get(name, name): kind for name, kind in CHUNKS.types.items()}
CHUNK = ", ".join(f"chunk.{name}" for name in CHUNK_TYPES)
ENTITY = ENTITIES.select("entity", degree="degree.degree")
RELATION = RELATIONS.select("relation")
_IF_DECIDED = "CASE WHEN mention.name_id IS NULL THEN '' ELSE mention.entity_id END"
ENTITY_MENTION = f"json_build_array({ENTITY_MENTIONS.select('mention', entity_id=_IF_DECIDED)})"
RELATION_MENTION = f"json_build_array({RELATION_MENTIONS.select('mention', keywords='mention.keywords::text')})"


def to_relation_mention(*row: Any) -> RelationMention:
    """Return a mention from `RELATION_MENTION`."""
    mention = RELATION_MENTIONS.record(row)
    # JSON turns 1.0 into 1.
    return mention if isinstance(mention.weight, float) else replace(mention, weight=float(mention.weight))


# The address of a server, as the driver takes it and as messages show it.

# A dead machine or network is noticed within half a minute, not after the system's quarter of an hour.
_KEEPALIVES = {"keepalives_idle": 15, "keepalives_interval": 5, "keepalives_count": 3, "tcp_user_timeout": 30_000}


@dataclass(frozen=True, slots=True)
class Address:
    """The address of a server: for the driver, possibly with a password and so in no repr, and for messages.

    The label is `postgresql://user@host:port/database`.
    """

    conninfo: str = field(repr=False)
    label: str


def parse_address(url: str, setting: str = "store.url") -> Address:
    """Parse the address of a server: `postgresql://user:password@host:port/database?option=value`, or `postgres://`.

    Missing parts come from libpq's own environment variables and files.

    Raises:
        SettingsError: The address is invalid. It is not quoted, since it may hold a password.
    """
    try:
        parts = conninfo_to_dict(url)
        conninfo = make_conninfo("", **(_KEEPALIVES | parts))
    except psycopg.Error:
        raise SettingsError(
            f"{setting} is no address of PostgreSQL; write postgresql://user:password@host:port/database, with "
            "characters such as @ / : # % in the password as %40 %2F %3A %23 %25"
        ) from None
    user = f"{parts['user']}@" if parts.get("user") else ""
    port = f":{parts['port']}" if parts.get("port") else ""
    host = str(parts.get("host") or "")
    return Address(conninfo, f"postgresql://{user}{host}{port}/{parts.get('dbname') or ''}")


# The meaning of psycopg's exceptions, translated only here.
#
# A message names the server by its label, which holds no password. The server's own text is added; the driver's text
# about the address is not, since it may quote the address.

_ERRORS = psycopg.errors

# The first match counts, so special cases stand before general ones.
_UNAVAILABLE: tuple[tuple[type[Exception], str], ...] = (
    (PoolClosed, "it is closed; open it again"),
    (PoolTimeout, "no connection was to be had in time; check that the server runs and takes more connections"),
    (_ERRORS.InvalidCatalogName, "there is no such database; make it (createdb), or check the URL in the settings"),
    (_ERRORS.LockNotAvailable, "another process has been writing for too long; raise store.write_timeout_seconds"),
    (_ERRORS.DeadlockDetected, "two processes waited for each other; try again, nothing was changed"),
    (_ERRORS.SerializationFailure, "other processes changed the same rows; try again, nothing was changed"),
    (_ERRORS.QueryCanceled, "the server ended the statement; try again, or raise its statement_timeout"),
    (_ERRORS.DiskFull, "the server's disk is full; free some space and try again, nothing was changed"),
    (_ERRORS.InsufficientResources, "the server lacks memory, disk or connections; see its log"),
    (_ERRORS.ReadOnlySqlTransaction, "the server takes no writes; connect to the primary"),
    (_ERRORS.InsufficientPrivilege, "the user lacks a right; grant it (docs/stores.md says which)"),
    (_ERRORS.DataCorrupted, "its files are damaged; restore them from a backup"),
    (_ERRORS.IndexCorrupted, "an index is damaged; run 'heliograph check --repair', or REINDEX"),
    (_ERRORS.OperatorIntervention, "the server is shutting down or starting up; try again"),
    (psycopg.OperationalError, "it is out of reach; check that the server runs and that the URL leads to it"),
    (psycopg.InterfaceError, "the connection is closed; open the store again"),
)
_DENIED = (_ERRORS.InvalidPassword, _ERRORS.InvalidAuthorizationSpecification)
# While connecting, the driver knows no error codes, only the server's message, if that is in English.
_REFUSALS = re.compile(r'authentication failed|role ".*" does not exist|no pg_hba\.conf entry|no password supplied')
_MISMATCH: tuple[tuple[type[Exception], str], ...] = (
    (_ERRORS.UndefinedTable, "a table is missing; it belongs to another program, or was changed by hand"),
    (_ERRORS.UndefinedColumn, "a column is missing; it belongs to another program, or was changed by hand"),
    (_ERRORS.UndefinedObject, "the extension 'vector' (pgvector) is missing; install it and CREATE EXTENSION vector"),
    (_ERRORS.UndefinedFile, "the extension 'vector' (pgvector) is not installed on the server; install it"),
)


@contextmanager
def translate_errors(label: str) -> Generator[None]:
    """Translate psycopg's exceptions about the server called `label` into `StoreError`s."""
    try:
        yield
    except (psycopg.Error, PoolClosed, PoolTimeout) as error:
        said = " ".join(str(error).split())
        is_uncoded = isinstance(error, psycopg.OperationalError) and error.sqlstate is None
        if isinstance(error, _DENIED) or (is_uncoded and _REFUSALS.search(str(error))):
            raise StoreAccessDenied(
                f"the store {label!r} refuses the user or the password; check the URL in the settings ({said:.500})"
            ) from error
        for kind, meaning in _UNAVAILABLE:
            if isinstance(error, kind):
                raise StoreUnavailable(f"the store {label!r} failed: {meaning} ({said:.500})") from error
        for kind, meaning in _MISMATCH:
            if isinstance(error, kind):
                raise SchemaMismatch(f"the store {label!r} cannot be used: {meaning} ({said:.500})") from error
        raise StoreError(f"the store {label!r} failed unexpectedly, please report this: {said:.500}") from error


def is_lost_connection(error: Exception) -> bool:
    """Whether the connection itself is lost, as after a restart of the server; a retry on another one may succeed."""
    if isinstance(error, PoolTimeout | _ERRORS.QueryCanceled | _ERRORS.InsufficientResources):
        return False
    return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)


# Statements on one connection: rows as tuples, several statements in one round trip.

Row = tuple[Any, ...]
Connection = AsyncConnection[Row]


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement, `%s` for each of its parameters and `%` itself doubled.

    Where the best plan depends on the parameters, the server must not cache a plan (`is_planned_anew`).
    """

    query: str
    values: Sequence[Any] = ()
    is_planned_anew: bool = False


def record_set(columns: Mapping[str, str]) -> str:
    """Return a table `new` of rows that are given as JSON; `columns` are their types by name."""
    return f"json_to_recordset(%s) AS new ({', '.join(f'{name} {kind}' for name, kind in columns.items())})"


def comparison(table: str, columns: Mapping[str, str]) -> str:
    """Return the statement that finds the ids of rows that a table lacks or stores differently.

    Its parameters are the rows as JSON and the workspace; `columns` are types by name.
    """
    kept, new = (", ".join(f"{which}.{name}" for name in columns) for which in ("kept", "new"))
    return f"""SELECT new.id FROM {record_set(columns)}
      LEFT JOIN {table} AS kept ON kept.workspace = %s AND kept.id = new.id WHERE ({kept}) IS DISTINCT FROM ({new})"""


def upsert(
    table: str, columns: Mapping[str, str], key: str = "id", *, is_versioned: bool = False, kept: Sequence[str] = ()
) -> str:
    """Return the statement that upserts rows into a table; its parameters are workspace, version, rows as JSON.

    The version is a parameter only if rows are versioned. A row replaces the one with the same `key`, except for the
    columns `kept`; an empty key only inserts. `columns` are types by name.
    """
    first, values = ("workspace, version", "%s, %s::bigint") if is_versioned else ("workspace", "%s")
    query = f"""INSERT INTO {table} ({first}, {", ".join(columns)})
      SELECT {values}, * FROM {record_set(columns)}"""
    if not key:
        return query
    changed = [name for name in columns if name != key and name not in kept] + ["version"] * is_versioned
    return f"""{query} ON CONFLICT (workspace, {key}) DO UPDATE
      SET {", ".join(f"{name} = excluded.{name}" for name in changed)}"""


def deletion(workspace: str, table: str, ids: Iterable[str], column: str = "id") -> Iterator[Statement]:
    """Yield the statement that deletes the rows with these ids from a table, if there are any ids."""
    if wanted := list(ids):
        query = f"""DELETE FROM {table}
          WHERE workspace = %s AND {column} = ANY (ARRAY(SELECT json_array_elements_text(%s)))"""
        yield Statement(query, (workspace, to_json(wanted)))


class Session:
    """A connection, for the duration of one call.

    `round_trips` counts the waits for the server; `has_written` says that something may have been committed.
    """

    def __init__(self, connection: Connection, workspace: str) -> None:
        self._connection = connection
        self.workspace = workspace
        self.round_trips = 0
        self.has_written = False

    async def fetch(self, query: str, values: Sequence[Any] = (), *, is_planned_anew: bool = False) -> list[Row]:
        """Run one statement and return its rows."""
        self.round_trips += 1
        cursor = self._connection.cursor(binary=True)
        await cursor.execute(query.encode(), values, prepare=False if is_planned_anew else None)
        return await cursor.fetchall()

    async def fetch_value(self, query: str, values: Sequence[Any] = ()) -> Any:
        """Return the first column of the first row, or None."""
        rows = await self.fetch(query, values)
        return rows[0][0] if rows else None

    async def execute_script(self, script: str) -> None:
        """Run any number of statements without parameters."""
        self.round_trips += 1
        await self._connection.execute(script.encode())

    async def run(self, *statements: Statement) -> list[list[Row]]:
        """Run statements in one round trip; return the rows of each, empty for those that return none."""
        self.round_trips += 1
        async with self._connection.pipeline():
            cursors = [self._connection.cursor(binary=True) for _ in statements]
            for cursor, statement in zip(cursors, statements, strict=True):
                prepare = False if statement.is_planned_anew else None
                await cursor.execute(statement.query.encode(), statement.values, prepare=prepare)
        return [await cursor.fetchall() if cursor.description else [] for cursor in cursors]

    async def fetch_all(self, *statements: Statement) -> list[list[Row]]:
        """Run reading statements within the open snapshot, in one round trip."""
        return await self.run(*statements)

    async def begin_snapshot(self, *statements: Statement) -> list[list[Row]]:
        """Begin a snapshot; return the rows of the first statements."""
        return (await self.run(Statement("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"), *statements))[1:]

    async def commit(self, *statements: Statement) -> None:
        """Run the last statements of a transaction and make it durable, in one round trip."""
        self.has_written = True
        await self.run(*statements, Statement("COMMIT"))

    async def leave_transaction(self) -> None:
        """Roll back an open transaction; leaves a broken connection to the pool, and hides no other error."""
        if self._connection.info.transaction_status in (TransactionStatus.INTRANS, TransactionStatus.INERROR):
            with suppress(psycopg.OperationalError, psycopg.InterfaceError):
                await self._connection.rollback()


# The lock that one ingest at a time holds on a workspace: an advisory lock of a connection of its own.
#
# The server releases it when the connection ends: when its holder closes it, dies, or is out of reach for a minute. A
# connection of the pool would not do: it may be reused by another call, or closed for being idle, while the lock is
# held.

_POLL_SECONDS = 0.05
_KEEPALIVE = """SELECT set_config('tcp_keepalives_idle', '20', false),
  set_config('tcp_keepalives_interval', '10', false), set_config('tcp_keepalives_count', '4', false)"""
_HOLDER = """SELECT coalesce(nullif(activity.application_name, ''), 'a client')
    || coalesce(' on ' || host(activity.client_addr), '')
  FROM pg_locks JOIN pg_stat_activity AS activity USING (pid)
  WHERE locktype = 'advisory' AND granted AND objsubid = 1 AND classid::bigint = (%s::bigint >> 32) & 4294967295
    AND objid::bigint = %s::bigint & 4294967295
    AND pg_locks.database = (SELECT oid FROM pg_database WHERE datname = current_database())"""


@asynccontextmanager
async def advisory_lock(database: Database, purpose: str, timeout_seconds: float) -> AsyncGenerator[None]:
    """Hold the lock of this purpose on the workspace, waiting for it.

    Raises:
        StoreUnavailable: Another holder still has it after `timeout_seconds`, or the server is out of reach.
    """
    key = lock_key(f"heliograph {purpose} {database.workspace}")
    async with database.own_connection() as connection:
        deadline = time.monotonic() + timeout_seconds
        with translate_errors(database.address.label):
            await connection.execute(_KEEPALIVE)
            while not await try_lock(connection, key):
                if time.monotonic() >= deadline:
                    rows = await (await connection.execute(_HOLDER, (key, key))).fetchall()
                    holder = rows[0][0] if rows else "another process"
                    raise StoreUnavailable(
                        f"{holder} has been writing to the workspace {database.workspace!r} in "
                        f"{database.address.label!r} for more than {timeout_seconds:g} s; wait for it to finish, or "
                        "raise store.write_timeout_seconds"
                    )
                await asyncio.sleep(_POLL_SECONDS)
        yield


@asynccontextmanager
async def try_advisory_lock(database: Database, purpose: str) -> AsyncGenerator[bool]:
    """Hold the lock if it is free now; yields whether it was acquired.

    The lock belongs to a transaction of one of the pool's connections, and ends with it in any case.
    """
    async with database.held_session() as session:
        key = lock_key(f"heliograph {purpose} {database.workspace}")
        take = Statement("SELECT pg_try_advisory_xact_lock(%s::bigint)", (key,))
        _, ((is_held,),) = await session.run(Statement("BEGIN"), take)
        yield bool(is_held)


def lock_key(name: str) -> int:
    """Return the key of the advisory lock of this name."""
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "big", signed=True)


async def try_lock(connection: Connection, key: int) -> bool:
    """Take the advisory lock of this key for the connection's lifetime, if it is free; return whether it was."""
    rows = await (await connection.execute("SELECT pg_try_advisory_lock(%s::bigint)", (key,))).fetchall()
    return bool(rows[0][0])


T = TypeVar("T")

# The longest wait for a new connection, or for one of the pool's to become free.
_CONNECT_SECONDS = 10
_POOL_SECONDS = 10.0
# How long a call waits for the pool before it probes the server; a successful probe stands for a while.
_PATIENCE_SECONDS = 0.5
_PROBED_SECONDS = 2.0
# A server that refuses at once may be tried by every call; one that makes callers wait is left alone at least as long.
_REST_SECONDS = 5.0
_REST_PER_SECOND = 2.0
# The pool backs off between attempts and gives up after this time, until a call needs a connection and tries at once.
_RECONNECT_SECONDS = 3.0
# More than two, as a server that shuts down cuts its connections one after the other.
_TRIES = 4
# pgvector's HNSW: links per vector, and candidates examined to find them. Of 20,000 random
# vectors of length 384, the hardest there are, a search then finds 98.8% of the nearest 20; with pgvector's 16 and 64
# it finds 93%, and 60% with an `ef_search` of 200. Building takes as long.
HNSW_OPTIONS = {"m": 24, "ef_construction": 128}
# Just-in-time compilation costs more than these statements, which look up a few hundred rows: by index, as random
# reads are cheap in memory or on a solid-state disk. An HNSW search keeps this many candidates, and continues where a
# condition leaves too few of them.
_SESSION = """SELECT set_config('timezone', 'UTC', false), set_config('jit', 'off', false),
                     set_config('random_page_cost', '1.1', false),
                     set_config('hnsw.ef_search', '800', false),
                     set_config('hnsw.iterative_scan', 'relaxed_order', false),
                     set_config('hnsw.max_scan_tuples', '40000', false)"""


_LOGGER = logging.getLogger(__name__)
# The pool warns of every attempt to connect; here each change is logged once.
logging.getLogger("psycopg.pool").setLevel(logging.ERROR)


def _options() -> dict[str, Any]:
    return {
        "autocommit": True,
        "context": adapters(),
        "connect_timeout": _CONNECT_SECONDS,
        "application_name": f"heliograph {os.getpid()}",
        "client_encoding": "utf8",
    }


async def connect(address: Address) -> Connection:
    """Open a connection outside the pool; raises `psycopg.Error`."""
    connection: Connection = await AsyncConnection.connect(address.conninfo, **_options())
    try:
        await _configure(connection)
    except BaseException:
        await connection.close()
        raise
    return connection


async def _configure(connection: Connection) -> None:
    await connection.execute(_SESSION)


class Database:
    """The pool, for one workspace; `vector_type` is the type id of pgvector's `vector` in this database."""

    def __init__(self, address: Address, workspace: str, vector_type: int, pool_size: int) -> None:
        self.address = address
        self.workspace = workspace
        self.vector_type = vector_type
        self.round_trips = 0
        self._pool: AsyncConnectionPool[Connection] = AsyncConnectionPool(
            address.conninfo,
            kwargs=_options(),
            min_size=1,
            max_size=pool_size,
            timeout=_POOL_SECONDS,
            reconnect_timeout=_RECONNECT_SECONDS,
            configure=_configure,
            open=False,
        )
        self._is_closed = False
        self._probing = asyncio.Lock()
        self._probed_until = 0.0
        self._loss: Exception | None = None
        self._lost_until = 0.0

    async def open(self) -> None:
        """Start connecting; does not wait for the first connection."""
        await self._pool.open()

    async def close(self) -> None:
        """Wait for running calls and close the connections; closing twice does nothing."""
        self._is_closed = True
        await self._pool.close()

    async def fetch(self, query: str, values: Sequence[Any] = (), *, is_planned_anew: bool = False) -> list[Row]:
        """Run one reading statement, which sees one moment by itself."""
        return await self.run(lambda session: session.fetch(query, values, is_planned_anew=is_planned_anew))

    async def fetch_all(self, *statements: Statement) -> list[list[Row]]:
        """Run reading statements that see one moment, in one round trip."""

        async def work(session: Session) -> list[list[Row]]:
            begin = Statement("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            return (await session.run(begin, *statements, Statement("COMMIT")))[1:-1]

        return await self.run(work)

    async def execute(self, *statements: Statement) -> list[list[Row]]:
        """Run statements as one transaction that is durable when this returns, or leaves no trace."""

        async def work(session: Session) -> list[list[Row]]:
            session.has_written = True
            return (await session.run(Statement("BEGIN"), *statements, Statement("COMMIT")))[1:-1]

        return await self.run(work)

    @asynccontextmanager
    async def own_connection(self) -> AsyncGenerator[Connection]:
        """A connection outside the pool, for long use; closed at the end."""
        self._check_open()
        with translate_errors(self.address.label):
            connection = await connect(self.address)
        try:
            yield connection
        finally:
            await connection.close()

    @asynccontextmanager
    async def held_session(self) -> AsyncGenerator[Session]:
        """A connection of the pool, held while the caller does other work; rolled back at the end."""
        self._check_open()
        with translate_errors(self.address.label):
            async with self._connection() as connection:
                session = Session(connection, self.workspace)
                try:
                    yield session
                finally:
                    self.round_trips += session.round_trips
                    await session.leave_transaction()

    async def run(self, work: Callable[[Session], Awaitable[T]]) -> T:
        """Run `work` on a connection; retry on another if that is lost before anything was written.

        Work that only reads calls `Session.begin_snapshot` first, so that all reads see one moment. Work that writes
        begins a transaction and ends it by `Session.commit`, or is rolled back.
        """
        self._check_open()
        with translate_errors(self.address.label):
            for _ in range(_TRIES - 1):
                try:
                    return await self._try(work)
                except _LostBeforeWritingError:
                    await self._pool.check()
            try:
                return await self._try(work)
            except _LostBeforeWritingError as lost:
                raise lost.error from None

    async def _try(self, work: Callable[[Session], Awaitable[T]]) -> T:
        async with self._connection() as connection:
            session = Session(connection, self.workspace)
            try:
                return await work(session)
            except (psycopg.OperationalError, psycopg.InterfaceError) as error:
                if is_lost_connection(error) and connection.broken and not session.has_written:
                    raise _LostBeforeWritingError(error) from error
                raise
            finally:
                self.round_trips += session.round_trips
                await session.leave_transaction()

    @asynccontextmanager
    async def _connection(self) -> AsyncGenerator[Connection]:
        """A connection of the pool.

        Raises:
            psycopg.Error: The server is out of reach.
            PoolTimeout: All connections have been taken for long.
        """
        if self._loss is not None:
            await self._probe()
        try:
            connection = await self._pool.getconn(_PATIENCE_SECONDS)
        except PoolTimeout:
            await self._probe()
            connection = await self._pool.getconn()
        try:
            async with connection:
                try:
                    yield connection
                except asyncio.CancelledError:
                    # A sent statement may still be running, and the connection's next user would meet it.
                    await connection.close()
                    raise
        finally:
            await self._pool.putconn(connection)

    async def _probe(self) -> None:
        """Check that the server is there, unless just done; raise `psycopg.Error` if it is not. Logs changes."""
        async with self._probing:
            begun = time.monotonic()
            if self._loss is not None and begun < self._lost_until:
                raise self._loss
            if self._loss is None and begun < self._probed_until:
                return
            try:
                await (await AsyncConnection.connect(self.address.conninfo, **_options())).close()
            except psycopg.Error as error:
                if self._loss is None:
                    reason = str(error).strip().partition("\n")[0]
                    _LOGGER.warning("PostgreSQL at %r is out of reach: %s", self.address.label, reason)
                now = time.monotonic()
                self._loss = error
                self._lost_until = now + min(_REST_SECONDS, _REST_PER_SECOND * (now - begun))
                raise
            if self._loss is not None:
                _LOGGER.warning("PostgreSQL at %r is back", self.address.label)
            self._loss, self._probed_until = None, time.monotonic() + _PROBED_SECONDS

    def _check_open(self) -> None:
        if self._is_closed:
            raise StoreUnavailable(f"the store {self.address.label!r} is closed; open it again")


class _LostBeforeWritingError(Exception):
    """The connection broke before anything was sent that may have been committed."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error
