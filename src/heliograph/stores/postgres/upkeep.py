"""Emptying a workspace on PostgreSQL and giving back the room of what was deleted."""

from __future__ import annotations

from heliograph.stores.postgres.database import Database
from heliograph.stores.postgres.errors import translate_errors
from heliograph.stores.postgres.outbox import reset_statements
from heliograph.stores.postgres.schema import TABLES
from heliograph.stores.postgres.session import Session, Statement

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
