"""The connections to one database: who gets one, what happens when it breaks, and how transactions run.

Connections come from a pool. One that broke while idle (a restart of the server, say) is noticed when it is used: the
pool then throws away all such, and the call is made again, unless it had sent something to be committed.

The pool does not tell a server that is gone from one that is slow to be reached: whoever waits for a connection looks
for himself (`_probe`). While the server is known to be gone every call looks first, and fails with what was found.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from heliograph.errors import StoreUnavailable
from heliograph.stores.postgres.address import Address
from heliograph.stores.postgres.codec import adapters
from heliograph.stores.postgres.driver import AsyncConnection, AsyncConnectionPool, PoolTimeout, psycopg
from heliograph.stores.postgres.errors import is_lost_connection, translate_errors
from heliograph.stores.postgres.session import Connection, Row, Session, Statement

T = TypeVar("T")

# The longest wait for a connection that is made, or for one of the pool's to become free.
_CONNECT_SECONDS = 10
_POOL_SECONDS = 10.0
# So long a call waits for the pool before it looks whether the server is there; if it is, that stands for a while.
_PATIENCE_SECONDS = 0.5
_PROBED_SECONDS = 2.0
# A server that refuses at once may be asked by every call; one that lets callers wait is left alone as long or longer.
_REST_SECONDS = 5.0
_REST_PER_SECOND = 2.0
# The pool waits longer from try to try; then it gives up until somebody asks for a connection, and tries at once.
_RECONNECT_SECONDS = 3.0
# More than two, as a server that goes down cuts its connections one after the other.
_TRIES = 4
# Just-in-time compilation costs more than these statements, which look a few hundred rows up: by index, as reading at
# random is cheap where there is memory or a solid disk. The rest is about pgvector's HNSW: how many candidates a search
# keeps in view, and that it goes on where a condition leaves too few of them.
_SESSION = """SELECT set_config('timezone', 'UTC', false), set_config('jit', 'off', false),
                     set_config('random_page_cost', '1.1', false),
                     set_config('hnsw.ef_search', '800', false),
                     set_config('hnsw.iterative_scan', 'relaxed_order', false),
                     set_config('hnsw.max_scan_tuples', '40000', false)"""


_LOGGER = logging.getLogger(__name__)
# It warns of every attempt to connect; what is wrong is told here, once.
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
    """Open a connection of one's own.

    Raises:
        psycopg.Error: The server cannot be reached, or refuses.
    """
    connection: Connection = await AsyncConnection.connect(address.conninfo, **_options())
    await _configure(connection)
    return connection


async def _configure(connection: Connection) -> None:
    await connection.execute(_SESSION)


class Database:
    """The pool, for one workspace.

    Attributes:
        address: Where it is.
        workspace: The workspace.
        vector_type: The type id of pgvector's `vector` in this database.
        round_trips: Answers of the server waited for, ever; to be measured.
    """

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
        """Begin to make connections; does not wait for the first."""
        await self._pool.open()

    async def close(self) -> None:
        """Wait for what is under way and close the connections; closing twice does nothing."""
        self._is_closed = True
        await self._pool.close()

    @property
    def is_closed(self) -> bool:
        """Whether `close` has been called."""
        return self._is_closed

    async def fetch(self, query: str, values: Sequence[Any] = (), *, is_planned_anew: bool = False) -> list[Row]:
        """Run one reading statement; it sees one moment by itself."""
        return await self._call(lambda session: session.fetch(query, values, is_planned_anew=is_planned_anew))

    async def fetch_all(self, *statements: Statement) -> list[list[Row]]:
        """Run reading statements that see one moment, in one round trip."""

        async def work(session: Session) -> list[list[Row]]:
            begin = Statement("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            return (await session.run(begin, *statements, Statement("COMMIT")))[1:-1]

        return await self._call(work)

    async def read(self, work: Callable[[Session], Awaitable[T]]) -> T:
        """Run `work`, which calls `Session.begin_snapshot` first: all that it reads is of one moment."""
        return await self._call(work)

    async def write(self, work: Callable[[Session], Awaitable[T]]) -> T:
        """Run `work`, which begins a transaction and ends it by `Session.commit`, or leaves no trace."""
        return await self._call(work)

    async def execute(self, *statements: Statement) -> list[list[Row]]:
        """Run statements as one transaction that is durable when this returns, or leaves no trace."""

        async def work(session: Session) -> list[list[Row]]:
            session.has_written = True
            return (await session.run(Statement("BEGIN"), *statements, Statement("COMMIT")))[1:-1]

        return await self._call(work)

    @asynccontextmanager
    async def own_connection(self) -> AsyncGenerator[Connection]:
        """A connection outside the pool, for what holds one for long; closed at the end."""
        self._check_open()
        with translate_errors(self.address.label):
            connection = await connect(self.address)
        try:
            yield connection
        finally:
            await connection.close()

    @asynccontextmanager
    async def held_session(self) -> AsyncGenerator[Session]:
        """A connection of the pool for as long as the caller works on something else; rolled back at the end."""
        self._check_open()
        with translate_errors(self.address.label):
            async with self._connection() as connection:
                session = Session(connection, self.workspace)
                try:
                    yield session
                finally:
                    self.round_trips += session.round_trips
                    await session.leave_transaction()

    async def _call(self, work: Callable[[Session], Awaitable[T]]) -> T:
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
            PoolTimeout: All connections are taken, for long.
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
                yield connection
        finally:
            await self._pool.putconn(connection)

    async def _probe(self) -> None:
        """Look whether the server is there, unless that was just done; log when it goes and when it is back.

        Raises:
            psycopg.Error: It is not.
        """
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
                    _LOGGER.warning("PostgreSQL at %r is out of reach: %s", self.address.label, _first_line(error))
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


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]


class _LostBeforeWritingError(Exception):
    """The connection broke before anything was sent that may have been committed."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error
