"""Which embedding fills the embedded store, and the second set of vectors that takes the place of the first."""

from __future__ import annotations

import apsw
import numpy as np

from heliograph.embedding.base import EmbeddingInfo
from heliograph.errors import ConflictError, SchemaMismatch
from heliograph.stores.base import Reembedding
from heliograph.stores.changeset import Collection, VectorBatch
from heliograph.stores.sqlite.database import Database, data_version, fetch, fetch_value
from heliograph.stores.sqlite.identity import find_keys
from heliograph.stores.sqlite.outbox import note_reset
from heliograph.stores.sqlite.replies import drop_answers

# Which embedding fills the store: read from it, and compared with what a process opened it for.

PRESENT = ("embedding_name", "embedding_dimension")


def stored_embedding(connection: apsw.Connection) -> tuple[str, int] | None:
    """Return name and dimension of the embedding that filled the store; None if it is new."""
    return read_embedding(connection, PRESENT)


def read_embedding(connection: apsw.Connection, names: tuple[str, str]) -> tuple[str, int] | None:
    """Return a name and a dimension that are kept under these two names; None if they are not."""
    stored = dict(fetch(connection, "SELECT name, value FROM meta WHERE name IN (?, ?)", names))
    return (str(stored[names[0]]), int(stored[names[1]])) if len(stored) == len(names) else None


def check_embedding(connection: apsw.Connection, expected: tuple[str, int]) -> None:
    """Compare the store's embedding with the one it was opened for.

    Raises:
        SchemaMismatch: Another process has embedded the store anew since.
    """
    stored = stored_embedding(connection)
    if stored != expected:
        raise SchemaMismatch(
            f"the store was embedded anew with {stored!r} since it was opened with {expected!r}; "
            "configure that embedding and open the store again"
        )


_NEXT = ("next_embedding_name", "next_embedding_dimension")


class SqliteReembedding(Reembedding):
    """Fills the next tables and renames them."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._begun: tuple[str, int] | None = None

    async def begin(self, embedding: EmbeddingInfo) -> None:
        wanted = (embedding.name, embedding.dimension)
        await self._database.write(lambda connection: _begin(connection, wanted))
        self._begun = wanted

    async def find_pending(self, collection: Collection, after: str, limit: int) -> list[str]:
        table = f"{collection.value}_vector"
        query = f"""SELECT id FROM identity WHERE id > ? AND EXISTS (SELECT 1 FROM {table} WHERE key = identity.key)
                    AND NOT EXISTS (SELECT 1 FROM next_{table} WHERE key = identity.key) ORDER BY id LIMIT ?"""
        return [id_ for (id_,) in await self._database.fetch(query, (after, limit))]

    async def put(self, collection: Collection, batch: VectorBatch) -> None:
        await self._database.write(lambda connection: self._put(connection, f"{collection.value}_vector", batch))

    def _put(self, connection: apsw.Connection, table: str, batch: VectorBatch) -> None:
        self._check(connection)
        keys = find_keys(connection, batch.ids)
        matrix = np.ascontiguousarray(batch.vectors, np.float32)
        rows = ((keys[id_], row.tobytes()) for id_, row in zip(batch.ids, matrix, strict=True) if id_ in keys)
        query = f"INSERT OR REPLACE INTO next_{table} SELECT ?1, ?2 WHERE EXISTS (SELECT 1 FROM {table} WHERE key = ?1)"
        connection.executemany(query, rows)

    async def finish(self) -> int:
        return await self._database.write(self._finish)

    def _finish(self, connection: apsw.Connection) -> int:
        self._check(connection)
        for collection in Collection:
            table = f"{collection.value}_vector"
            query = f"SELECT count(*) FROM {table} WHERE key NOT IN (SELECT key FROM next_{table})"
            if missing := fetch_value(connection, query):
                raise ConflictError(f"{missing} vectors of {collection.value} are not embedded yet; run reembed again")
            connection.execute(f"DROP TABLE {table}; ALTER TABLE next_{table} RENAME TO {table}")
            connection.execute(f"CREATE TABLE next_{table} (key INTEGER PRIMARY KEY, vector BLOB NOT NULL)")
        for name, next_name in zip(PRESENT, _NEXT, strict=True):
            connection.execute(
                f"UPDATE meta SET value = (SELECT value FROM meta WHERE name = '{next_name}') WHERE name = '{name}'"
            )
        connection.execute("DELETE FROM meta WHERE name LIKE 'next_embedding_%'")
        for table in ("vector_change", "accelerator"):
            connection.executemany(f"DELETE FROM {table} WHERE collection = ?", ((item.value,) for item in Collection))
        connection.execute("UPDATE meta SET value = value + 1 WHERE name = 'data_version'")
        drop_answers(connection)
        self._begun = None
        version = data_version(connection)
        note_reset(connection, version)
        return version

    async def abandon(self) -> None:
        await self._database.write(_abandon)

    def _check(self, connection: apsw.Connection) -> None:
        begun = read_embedding(connection, _NEXT)
        if begun is None or begun != self._begun:
            raise ConflictError(
                f"the workspace is not being embedded anew with {self._begun!r} but with {begun!r}; begin again"
            )


def _begin(connection: apsw.Connection, wanted: tuple[str, int]) -> None:
    if read_embedding(connection, _NEXT) == wanted:
        return
    _abandon(connection)
    connection.executemany("INSERT INTO meta VALUES (?, ?)", zip(_NEXT, wanted, strict=True))


def _abandon(connection: apsw.Connection) -> None:
    connection.execute("DELETE FROM meta WHERE name LIKE 'next_embedding_%'")
    for collection in Collection:
        connection.execute(f"DELETE FROM next_{collection.value}_vector")
