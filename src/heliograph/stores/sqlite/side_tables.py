"""Tables of the embedded store beside truth, graph and indexes: replies, the outbox, the second set of vectors."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from collections.abc import Collection as Some
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

import apsw
import numpy as np

from heliograph.embedding.base import EmbeddingInfo
from heliograph.errors import ConflictError, SchemaMismatch
from heliograph.models import Usage
from heliograph.stores.base import CachedReply, Reembedding, ReplyCache
from heliograph.stores.changeset import Changeset, Collection, Outbox, OutboxEntry, OutboxKind, VectorBatch, changed_ids
from heliograph.stores.sqlite.database import (
    Database,
    Row,
    array,
    data_version,
    fetch,
    fetch_one,
    fetch_value,
    find_keys,
    try_file_lock,
)

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


# Replies of models.

_ANSWERS = "query"
_COLUMNS = "key, text, model, input_tokens, output_tokens, subject_id, created_at"


class SqliteReplyCache(ReplyCache):
    """Replies in one table, by key."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get_reply(self, key: str) -> CachedReply | None:
        query = f"SELECT {_COLUMNS} FROM reply WHERE key = ?"
        row = await self._database.read(lambda connection: fetch_one(connection, query, (key,)))
        return None if row is None else _read(row)

    async def put_reply(self, reply: CachedReply) -> None:
        row = (
            *(reply.key, reply.cache_type, reply.text, reply.model),
            *(reply.usage.input_tokens, reply.usage.output_tokens, reply.subject_id, reply.created_at.timestamp()),
        )
        query = "INSERT OR REPLACE INTO reply VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
        await self._database.write(lambda connection: connection.execute(query, row))

    async def delete_replies(self, cache_type: str | None = None) -> int:

        def delete(connection: apsw.Connection) -> int:
            if cache_type is None:
                connection.execute("DELETE FROM reply")
            else:
                connection.execute("DELETE FROM reply WHERE cache_type = ?", (cache_type,))
            return connection.changes()

        return await self._database.write(delete)

    async def list_replies(self, after: str, limit: int) -> list[CachedReply]:
        query = f"SELECT {_COLUMNS} FROM reply WHERE key > ? ORDER BY key LIMIT ?"
        return await self._database.fetch_as(_read, query, (after, limit))


def _read(row: Row) -> CachedReply:
    key, text, model, read, written, subject_id, created_at = row
    return CachedReply(key, text, model, Usage(read, written), datetime.fromtimestamp(created_at, UTC), subject_id)


def drop_answers(connection: apsw.Connection) -> None:
    """Drop every cached answer: each was computed from an earlier data version."""
    connection.execute("DELETE FROM reply WHERE cache_type = ?", (_ANSWERS,))


def drop_replies_about(connection: apsw.Connection, subject_ids: Some[str], kept: Some[str]) -> None:
    """Drop the replies that were asked about these but those under the keys `kept`, so that no word is left."""
    if subject_ids:
        query = """DELETE FROM reply WHERE subject_id IN (SELECT value FROM carray(?))
                   AND key NOT IN (SELECT value FROM carray(?))"""
        connection.execute(query, (array(subject_ids), array(kept or ("",))))


# The outbox: one row per thing that changed, under the version of its last change.


class SqliteOutbox(Outbox):
    """Entries in the workspace's own file; locks are files beside it."""

    def __init__(self, database: Database, folder: Path) -> None:
        self._database = database
        self._folder = folder

    async def register(self, reader: str) -> None:
        if reader not in await self.get_readers():

            def register(connection: apsw.Connection) -> None:
                connection.execute("INSERT OR IGNORE INTO outbox_reader VALUES (?, -1)", (reader,))
                note_reset(connection, data_version(connection))

            await self._database.write(register)

    async def unregister(self, reader: str) -> None:

        def remove(connection: apsw.Connection) -> None:
            connection.execute("DELETE FROM outbox_reader WHERE name = ?", (reader,))
            _forget(connection)

        await self._database.write(remove)

    async def get_readers(self) -> Mapping[str, int]:
        return dict(await self._database.fetch("SELECT name, version FROM outbox_reader ORDER BY name"))

    async def read(self, after: int, limit: int) -> list[OutboxEntry]:
        query = """SELECT version, kind, id FROM outbox WHERE version > ?1 AND version <= (
                     SELECT max(version) FROM (SELECT version FROM outbox WHERE version > ?1 ORDER BY version LIMIT ?2))
                   ORDER BY version, kind, id"""
        rows = await self._database.fetch(query, (after, limit))
        return [OutboxEntry(version, OutboxKind(kind), id_) for version, kind, id_ in rows]

    async def acknowledge(self, reader: str, version: int) -> None:
        if (await self.get_readers()).get(reader) == version:
            return

        def move(connection: apsw.Connection) -> None:
            connection.execute("UPDATE outbox_reader SET version = ? WHERE name = ?", (version, reader))
            _forget(connection)

        await self._database.write(move)

    async def reset(self, reader: str) -> None:

        def begin_anew(connection: apsw.Connection) -> None:
            connection.execute("UPDATE outbox_reader SET version = -1 WHERE name = ?", (reader,))
            note_reset(connection, data_version(connection))

        await self._database.write(begin_anew)

    def lock(self, reader: str) -> AbstractAsyncContextManager[bool]:
        return self._lock(self._folder / f"outbox-{sha256(reader.encode()).hexdigest()[:16]}.lock")

    @asynccontextmanager
    async def _lock(self, path: Path) -> AsyncGenerator[bool]:
        with try_file_lock(path) as is_held:
            yield is_held


def write_outbox(connection: apsw.Connection, changeset: Changeset, version: int) -> None:
    """Note what a changeset changes, if anybody reads it."""
    if fetch_value(connection, "SELECT EXISTS (SELECT 1 FROM outbox_reader)"):
        rows = ((kind.value, id_, version) for kind, ids in changed_ids(changeset).items() for id_ in ids)
        connection.executemany("INSERT OR REPLACE INTO outbox (kind, id, version) VALUES (?, ?, ?)", rows)


def note_reset(connection: apsw.Connection, version: int) -> None:
    """Have all readers make everything anew, if there are any; entries from before say nothing any more."""
    if fetch_value(connection, "SELECT EXISTS (SELECT 1 FROM outbox_reader)"):
        connection.execute("DELETE FROM outbox")
        connection.execute(
            "INSERT INTO outbox (kind, id, version) VALUES (?, '', ?)", (OutboxKind.RESET.value, version)
        )


def _forget(connection: apsw.Connection) -> None:
    query = "DELETE FROM outbox WHERE version <= coalesce((SELECT min(version) FROM outbox_reader), 9e18)"
    connection.execute(query)
