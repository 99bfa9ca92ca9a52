"""Keeping a workspace on PostgreSQL: listing, emptying, giving back room, and changing its embedding."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from heliograph.embedding.base import EmbeddingInfo
from heliograph.errors import ConflictError
from heliograph.settings import StoreSettings
from heliograph.stores.base import Reembedding
from heliograph.stores.changeset import Collection, VectorBatch
from heliograph.stores.postgres.database import Database, Session, Statement, parse_address, translate_errors
from heliograph.stores.postgres.driver import psycopg
from heliograph.stores.postgres.outbox import reset_statements
from heliograph.stores.postgres.replies import drop_answers
from heliograph.stores.postgres.rows import Vectors, to_json
from heliograph.stores.postgres.schema import TABLES
from heliograph.stores.postgres.vectors import INDEXES, VECTOR_TABLES, VectorIndexer, index_patterns

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


# The second set of vectors on PostgreSQL: one table, from which the first set is overwritten when it is whole.

_LOCKED = """SELECT next_embedding_name, next_embedding_dimension, data_version FROM heliograph_workspace
  WHERE name = %s FOR UPDATE"""
_BEGIN = "UPDATE heliograph_workspace SET next_embedding_name = %s, next_embedding_dimension = %s WHERE name = %s"
_DROP = "DELETE FROM heliograph_next_vector WHERE workspace = %s"
_PENDING = """SELECT id FROM {table} AS known
  WHERE workspace = %s AND id > %s AND embedding IS NOT NULL AND NOT EXISTS (
    SELECT 1 FROM heliograph_next_vector AS next
    WHERE next.workspace = known.workspace AND next.collection = %s AND next.id = known.id)
  ORDER BY id LIMIT %s"""
_PUT = """
INSERT INTO heliograph_next_vector (workspace, collection, id, embedding, content)
SELECT %s, %s, new.id, new.embedding, new.content
FROM ROWS FROM (json_array_elements_text(%s), unnest(%s::vector[]), json_array_elements_text(%s))
  AS new (id, embedding, content)
JOIN {table} AS known ON known.workspace = %s AND known.id = new.id AND known.embedding IS NOT NULL
ON CONFLICT (workspace, collection, id) DO UPDATE SET embedding = excluded.embedding, content = excluded.content"""
_REPLACE = """UPDATE {table} AS known SET embedding = next.embedding{content} FROM heliograph_next_vector AS next
  WHERE known.workspace = %s AND next.workspace = %s AND next.collection = %s AND next.id = known.id
    AND known.embedding IS NOT NULL"""
# What a chunk says is its text; of the others the content is what was embedded.
_CONTENT = ", content = coalesce(next.content, known.content)"
_FINISH = """UPDATE heliograph_workspace SET embedding_name = next_embedding_name,
  embedding_dimension = next_embedding_dimension, next_embedding_name = NULL, next_embedding_dimension = NULL,
  data_version = data_version + 1 WHERE name = %s"""


class PostgresReembedding(Reembedding):
    """Fills the next table and moves its vectors."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._begun: tuple[str, int] | None = None

    async def begin(self, embedding: EmbeddingInfo) -> None:
        wanted = (embedding.name, embedding.dimension)
        workspace = self._database.workspace

        async def work(session: Session) -> None:
            stored, _ = await _lock(session)
            if stored == wanted:
                await session.commit()
                return
            await session.commit(Statement(_DROP, (workspace,)), Statement(_BEGIN, (*wanted, workspace)))

        await self._database.write(work)
        self._begun = wanted

    async def find_pending(self, collection: Collection, after: str, limit: int) -> list[str]:
        query = _PENDING.format(table=VECTOR_TABLES[collection])
        values = (self._database.workspace, after, collection.value, limit)
        return [id_ for (id_,) in await self._database.fetch(query, values)]

    async def put(self, collection: Collection, batch: VectorBatch) -> None:
        workspace = self._database.workspace
        vectors = to_json(batch.ids), Vectors(batch.vectors, self._database.vector_type), to_json(batch.texts)
        query = _PUT.format(table=VECTOR_TABLES[collection])

        async def work(session: Session) -> None:
            self._check((await _lock(session))[0])
            await session.commit(Statement(query, (workspace, collection.value, *vectors, workspace)))

        await self._database.write(work)

    async def finish(self) -> int:
        """See `Reembedding`; indexes of the new vectors are built before it returns."""

        async def work(session: Session) -> int:
            begun, version = await _lock(session)
            self._check(begun)
            statements: list[Statement] = []
            workspace = self._database.workspace
            for collection, table in VECTOR_TABLES.items():
                query = f"SELECT count(*) FROM ({_PENDING.format(table=table)}) AS pending"
                ((missing,),) = await session.fetch(query, (workspace, "", collection.value, None))
                if missing:
                    raise ConflictError(
                        f"{missing} vectors of {collection.value} are not embedded yet; run reembed again"
                    )
                query = _REPLACE.format(table=table, content="" if collection is Collection.CHUNKS else _CONTENT)
                statements.append(Statement(query, (workspace, workspace, collection.value)))
            done = Statement(_DROP, (workspace,)), Statement(_FINISH, (workspace,)), drop_answers(workspace)
            await session.commit(*statements, *done, *reset_statements(workspace))
            return version + 1

        version = await self._database.write(work)
        if self._begun is not None:
            await VectorIndexer(self._database, self._begun[1]).renew()
        self._begun = None
        return version

    async def abandon(self) -> None:
        workspace = self._database.workspace
        await self._database.execute(Statement(_BEGIN, (None, None, workspace)), Statement(_DROP, (workspace,)))

    def _check(self, stored: tuple[str, int] | None) -> None:
        if stored is None or stored != self._begun:
            raise ConflictError(
                f"the workspace is not being embedded anew with {self._begun!r} but with {stored!r}; begin again"
            )


async def _lock(session: Session) -> tuple[tuple[str, int] | None, int]:
    """Begin a transaction that no commit comes between; return the next embedding, if any, and the data version."""
    _, rows = await session.run(Statement("BEGIN"), Statement(_LOCKED, (session.workspace,)))
    ((name, dimension, version),) = rows
    return None if name is None else (name, dimension), version
