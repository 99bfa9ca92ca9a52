"""Statements on one connection: rows as tuples, several statements in one round trip."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from heliograph.stores.postgres.driver import AsyncConnection, TransactionStatus, psycopg

Row = tuple[Any, ...]
Connection = AsyncConnection[Row]


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement and its parameters.

    Attributes:
        query: SQL with `%s` per parameter; `%` itself is doubled.
        values: The parameters.
        is_planned_anew: Whether the best plan depends on the parameters, so that none may be kept.
    """

    query: str
    values: Sequence[Any] = ()
    is_planned_anew: bool = False


class Session:
    """One connection, for as long as a call has it.

    Attributes:
        workspace: The workspace that statements are about.
        round_trips: How often an answer of the server was waited for.
        has_written: Whether statements were sent that may have been committed.
    """

    def __init__(self, connection: Connection, workspace: str) -> None:
        self._connection = connection
        self.workspace = workspace
        self.round_trips = 0
        self.has_written = False

    async def fetch(self, query: str, values: Sequence[Any] = (), *, is_planned_anew: bool = False) -> list[Row]:
        """Run one statement that gives rows."""
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
        """Run statements in one round trip; return the rows of each, none of those that give none."""
        self.round_trips += 1
        async with self._connection.pipeline():
            cursors = [self._connection.cursor(binary=True) for _ in statements]
            for cursor, statement in zip(cursors, statements, strict=True):
                prepare = False if statement.is_planned_anew else None
                await cursor.execute(statement.query.encode(), statement.values, prepare=prepare)
        return [await cursor.fetchall() if cursor.description else [] for cursor in cursors]

    async def begin_snapshot(self, *statements: Statement) -> list[list[Row]]:
        """Begin to read as of one moment; return the rows of the first statements."""
        return (await self.run(Statement("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"), *statements))[1:]

    async def commit(self, *statements: Statement) -> None:
        """Run the last statements of a transaction and make it durable, in one round trip."""
        self.has_written = True
        await self.run(*statements, Statement("COMMIT"))

    async def leave_transaction(self) -> None:
        """Roll back what is open, if anything; a broken connection is left to the pool, and hides no other error."""
        if self._connection.info.transaction_status in (TransactionStatus.INTRANS, TransactionStatus.INERROR):
            with suppress(psycopg.OperationalError, psycopg.InterfaceError):
                await self._connection.rollback()
