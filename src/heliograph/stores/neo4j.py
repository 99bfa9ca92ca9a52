"""The graph on Neo4j, beside the store that holds the truth."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, LiteralString, cast
from urllib.parse import unquote, urlsplit

from neo4j import (
    READ_ACCESS,
    WRITE_ACCESS,
    AsyncDriver,
    AsyncGraphDatabase,
    AsyncManagedTransaction,
    AsyncSession,
    NotificationMinimumSeverity,
)
from neo4j.exceptions import (
    AuthError,
    ConfigurationError,
    ConnectionPoolError,
    DatabaseError,
    DriverError,
    Neo4jError,
    ServiceUnavailable,
    SessionExpired,
    TransientError,
)

from heliograph.errors import SettingsError, StoreAccessDenied, StoreError, StoreUnavailable
from heliograph.stores.cypher import CypherDatabase, CypherGraphProjection, Dialect, Statement

# Neo4j's address: `neo4j://[user[:password]@]host[:port][/database]`, or `bolt://`; `+s` after the scheme is TLS.
#
# `neo4j` discovers the other servers of a cluster, `bolt` connects to this one only. The query after `?` goes to the
# server, which uses it for routing.

_PORT = 7687


@dataclass(frozen=True, slots=True, repr=False)
class Neo4jAddress:
    """The address and user of a Neo4j; `url` and `where` hold no secrets, no `database` is the server's default."""

    url: str
    where: str
    user: str
    password: str
    database: str

    @classmethod
    def parse(cls, url: str, setting: str = "store.graph_url") -> Neo4jAddress:
        """Parse an address, or raise a `SettingsError` that names the setting and never the password."""
        parts = urlsplit(url)
        try:
            port = parts.port or _PORT
        except ValueError:
            port = 0
        database = unquote(parts.path.strip("/"))
        if not parts.hostname or not port or "/" in database:
            raise SettingsError(f"{setting} is no address of Neo4j; write neo4j://user:password@host:7687/database")
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        query = f"?{parts.query}" if parts.query else ""
        return cls(
            *(f"{parts.scheme}://{host}:{port}{query}", f"{host}:{port}{'/' + database if database else ''}"),
            *(unquote(parts.username or ""), unquote(parts.password or ""), database),
        )

    def __repr__(self) -> str:
        return f"Neo4jAddress({self.where})"


# The meaning of exceptions of Neo4j's driver.

_SECURITY = "Neo.ClientError.Security."
_OUT_OF_REACH = (ServiceUnavailable, SessionExpired, ConnectionPoolError, OSError)
# Errors that pass by themselves, or that an operator fixes, such as a full disk.
_PASSING = (TransientError, DatabaseError)


@contextmanager
def translate_errors(where: str, setting: str = "store.graph_url") -> Generator[None]:
    """Translate the driver's exceptions into `StoreError`s that name the place; a bad address is a `SettingsError`."""
    try:
        yield
    except ConfigurationError as error:
        raise SettingsError(f"{setting} does not suit Neo4j at {where!r}: {error}") from error
    except _OUT_OF_REACH as error:
        reason = str(error) or "no answer in time"
        raise StoreUnavailable(f"Neo4j at {where!r} is out of reach: {reason}; check {setting}") from error
    except _PASSING as error:
        raise StoreUnavailable(f"Neo4j at {where!r} cannot serve now: {error.message} ({error.code})") from error
    except Neo4jError as error:
        if isinstance(error, AuthError) or str(error.code).startswith(_SECURITY):
            raise StoreAccessDenied(
                f"Neo4j at {where!r} refuses: {error.message}; check the user and password in {setting}"
            ) from error
        raise StoreError(f"Neo4j at {where!r} refuses: {error.message} ({error.code})") from error
    except DriverError as error:
        raise StoreError(f"Neo4j at {where!r} failed: {error}") from error


# One pool of connections to Neo4j, and transactions that are retried where that helps.
#
# Every later read of this process sees its writes, from whichever server of a cluster.

_CONNECT_SECONDS = 5.0
_RETRY_SECONDS = 3.0
_PAUSE_SECONDS = 0.3
# The driver itself waits for ever for a server that accepts a request and does not reply.
_READ_SECONDS = 20.0
_WRITE_SECONDS = 90.0
_MIN_VERSION = (5, 26)
_COMPONENTS = """
CALL dbms.components() YIELD name, versions, edition WHERE name = 'Neo4j Kernel' RETURN versions[0], edition
"""


class Neo4jDatabase(CypherDatabase):
    """A database of a Neo4j server or cluster, of 5.26 or later; a `SettingsError` if the driver cannot use it."""

    product = "Neo4j"
    dialect = Dialect(
        # Neo4j stores this count with each node.
        degree="COUNT { (e)--() }",
        constraints=(
            "CREATE CONSTRAINT heliograph_entity IF NOT EXISTS FOR (n:Entity) REQUIRE (n.workspace, n.id) IS UNIQUE",
            """CREATE CONSTRAINT heliograph_relation IF NOT EXISTS FOR (n:RelationEnds)
               REQUIRE (n.workspace, n.id) IS UNIQUE""",
            """CREATE CONSTRAINT heliograph_cursor IF NOT EXISTS FOR (c:HeliographCursor)
               REQUIRE c.workspace IS UNIQUE""",
            "CREATE INDEX heliograph_degree IF NOT EXISTS FOR (e:Entity) ON (e.workspace, e.degree)",
            "CALL db.awaitIndexes(60)",
        ),
        # The format of the community edition holds 65,536 types.
        most_types=10_000,
        has_dynamic_names=True,
    )

    def __init__(self, address: Neo4jAddress) -> None:
        self.where = address.where
        self._database = address.database or None
        with translate_errors(address.where):
            self._driver: AsyncDriver = AsyncGraphDatabase.driver(
                address.url,
                auth=(address.user, address.password) if address.user else None,
                connection_timeout=_CONNECT_SECONDS,
                max_transaction_retry_time=_RETRY_SECONDS,
                notifications_min_severity=NotificationMinimumSeverity.OFF,
                telemetry_disabled=True,
            )
        self._bookmarks = AsyncGraphDatabase.bookmark_manager()

    async def read(self, statement: Statement, *, is_patient: bool = True) -> list[list[Any]]:
        with translate_errors(self.where):
            async with asyncio.timeout(_READ_SECONDS):
                if is_patient:
                    return await self._insist(statement, READ_ACCESS)
                return await self._run_alone(statement, WRITE_ACCESS)

    async def write(self, statements: Sequence[Statement]) -> list[list[Any]]:
        """A single statement must be safe to run again."""
        with translate_errors(self.where):
            async with asyncio.timeout(_WRITE_SECONDS):
                if len(statements) == 1:
                    return await self._insist(statements[0], WRITE_ACCESS)
                async with self._session(WRITE_ACCESS) as session:
                    return await session.execute_write(_run, statements)

    async def prepare(self) -> Mapping[str, str]:
        """Make constraints and indexes, return version and edition; raises `StoreError` if it is too old."""
        ((version, edition),) = await self.read(Statement(_COMPONENTS), is_patient=False)
        if tuple(int(part) for part in version.split(".")[:2]) < _MIN_VERSION:
            raise StoreError(f"Neo4j at {self.where!r} is {version}, but labels as values need 5.26; upgrade it")
        for text in self.dialect.constraints:
            await self.write([Statement(text)])
        return {"version": str(version), "edition": str(edition)}

    async def close(self) -> None:
        await self._driver.close()

    async def _insist(self, statement: Statement, access: str) -> list[list[Any]]:
        """Run a statement, retrying for some seconds where that helps, as the driver does with whole transactions."""
        deadline = time.monotonic() + _RETRY_SECONDS
        while True:
            try:
                return await self._run_alone(statement, access)
            except (DriverError, Neo4jError) as error:
                if not error.is_retryable() or time.monotonic() > deadline:
                    raise
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _run_alone(self, statement: Statement, access: str) -> list[list[Any]]:
        """Run a statement in one round trip; as an explicit transaction it would take three."""
        async with self._session(access) as session:
            result = await session.run(_text(statement), dict(statement.parameters))
            return [record.values() async for record in result]

    def _session(self, access: str) -> AsyncSession:
        return self._driver.session(
            database=self._database, bookmark_manager=self._bookmarks, default_access_mode=access
        )


async def _run(transaction: AsyncManagedTransaction, statements: Sequence[Statement]) -> list[list[Any]]:
    rows: list[list[Any]] = []
    for statement in statements:
        result = await transaction.run(_text(statement), dict(statement.parameters))
        rows = [record.values() async for record in result]
    return rows


def _text(statement: Statement) -> LiteralString:
    # The text holds no values, only generated names.
    return cast("LiteralString", statement.text)


class Neo4jGraphProjection(CypherGraphProjection):
    """The graph of one workspace in a database shared by workspaces."""

    @staticmethod
    def connect(url: str, workspace: str) -> CypherDatabase:  # noqa: ARG004 (all workspaces share a database)
        return Neo4jDatabase(Neo4jAddress.parse(url))
