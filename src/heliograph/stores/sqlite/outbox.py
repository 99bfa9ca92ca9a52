"""The outbox of the embedded store: one row per thing that changed, under the version of its last change."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from hashlib import sha256
from pathlib import Path

import apsw

from heliograph.stores.changeset import Changeset, Outbox, OutboxEntry, OutboxKind, changed_ids
from heliograph.stores.sqlite.database import Database, data_version, fetch_value, try_file_lock


class SqliteOutbox(Outbox):
    """Entries in the workspace's own file; locks are files beside it."""

    def __init__(self, database: Database, folder: Path) -> None:
        self._database = database
        self._folder = folder

    async def register(self, reader: str) -> None:
        if reader not in await self.get_readers():
            await self._database.write(lambda connection: _register(connection, reader))

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


def _register(connection: apsw.Connection, reader: str) -> None:
    connection.execute("INSERT OR IGNORE INTO outbox_reader VALUES (?, -1)", (reader,))
    note_reset(connection, data_version(connection))


def _forget(connection: apsw.Connection) -> None:
    query = "DELETE FROM outbox WHERE version <= coalesce((SELECT min(version) FROM outbox_reader), 9e18)"
    connection.execute(query)
