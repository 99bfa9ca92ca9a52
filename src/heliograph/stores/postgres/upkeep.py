"""Keeping workspaces on PostgreSQL: listing, removing, emptying, giving back room."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from heliograph.settings import StoreSettings
from heliograph.stores.postgres.database import Database, Session, Statement, parse_address, translate_errors
from heliograph.stores.postgres.rows import psycopg
from heliograph.stores.postgres.schema import TABLES
from heliograph.stores.postgres.search import INDEXES, index_patterns
from heliograph.stores.postgres.side_tables import reset_statements

# The workspaces in a database.

# For how long an identity may be taken to hold: asking for it takes a connection.
IDENTITY_SECONDS = 2.0
_CONNECT_SECONDS = 10
_OF_WORKSPACES = (*TABLES, "heliograph_outbox_reader")


def find_workspaces(settings: StoreSettings) -> list[str]:
    """Return the names of the workspaces in the database, sorted; none if nothing was ever stored in it. Blocks.

    Raises:
        StoreUnavailable: The server cannot be reached.
    """
    with _connect(settings) as connection:
        if connection is None:
            return []
        return [name for (name,) in connection.execute("SELECT name FROM heliograph_workspace ORDER BY name")]


def workspace_identity(settings: StoreSettings) -> int | None:
    """Return a number of the workspace: another one if it was removed and made again, None if it is not there. Blocks.

    Raises:
        StoreUnavailable: The server cannot be reached.
    """
    with _connect(settings) as connection:
        if connection is None:
            return None
        query = "SELECT made FROM heliograph_workspace WHERE name = %s"
        row = connection.execute(query, (settings.workspace,)).fetchone()
        return row[0] if row else None


def drop_workspace(settings: StoreSettings) -> None:
    """Remove the workspace that the settings name with everything in it; nothing may have it open. Blocks.

    Raises:
        StoreUnavailable: The server cannot be reached.
    """
    with _connect(settings) as connection:
        if connection is None:
            return
        # Commits begin by the lock of this row. Where there is none, the rest may stand beside another store.
        row = "DELETE FROM heliograph_workspace WHERE name = %s"
        if not connection.execute(row, (settings.workspace,)).rowcount:
            return
        for table in _OF_WORKSPACES:
            connection.execute(f"DELETE FROM {table} WHERE workspace = %s".encode(), (settings.workspace,))
        for (name,) in connection.execute(INDEXES, (index_patterns(settings.workspace),)).fetchall():
            connection.execute(f"DROP INDEX IF EXISTS {name}".encode())


@contextmanager
def _connect(settings: StoreSettings) -> Generator[psycopg.Connection | None]:
    """Give a connection to the database, or None if nothing was ever stored in it."""
    address = parse_address(settings.url)
    with (
        translate_errors(address.label),
        psycopg.connect(address.conninfo, connect_timeout=_CONNECT_SECONDS) as connection,
    ):
        row = connection.execute("SELECT to_regclass('heliograph_workspace') IS NOT NULL").fetchone()
        yield connection if row and row[0] else None


_RAISE = "UPDATE heliograph_workspace SET data_version = data_version + 1 WHERE name = %s RETURNING data_version"


async def clear(database: Database) -> int:
    """Delete all of a workspace but what says how it was made; return the new data version."""

    async def work(session: Session) -> int:
        _, ((version,),) = await session.run(Statement("BEGIN"), Statement(_RAISE, (session.workspace,)))
        deletions = (Statement(f"DELETE FROM {table} WHERE workspace = %s", (session.workspace,)) for table in TABLES)
        await session.commit(*deletions, *reset_statements(session.workspace))
        return int(version)

    return await database.write(work)


async def vacuum(database: Database, timeout_seconds: float) -> None:
    """Write all tables anew without what was deleted, of whatever workspace.

    One table after the other is locked while it is written; whoever reads or writes it waits.

    Raises:
        StoreUnavailable: Somebody kept using a table for longer than `timeout_seconds`.
    """
    await database.execute(
        Statement("DELETE FROM heliograph_posting WHERE records = '{}' AND workspace = %s", (database.workspace,))
    )
    async with database.own_connection() as connection:
        with translate_errors(database.address.label):
            milliseconds = str(int(timeout_seconds * 1000))
            await connection.execute("SELECT set_config('lock_timeout', %s, false)", (milliseconds,))
            for table in TABLES:
                await connection.execute(f"VACUUM (FULL, ANALYZE) {table}".encode())
