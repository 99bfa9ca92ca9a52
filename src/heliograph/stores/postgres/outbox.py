"""The outbox on PostgreSQL: one row per thing that changed, under the version of its last change."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from heliograph.stores.changeset import Changeset, Outbox, OutboxEntry, OutboxKind, changed_ids
from heliograph.stores.postgres.database import Database, Statement, try_advisory_lock
from heliograph.stores.postgres.rows import to_json

_READERS = "SELECT name, version FROM heliograph_outbox_reader WHERE workspace = %s ORDER BY name"
_REGISTER = "INSERT INTO heliograph_outbox_reader (workspace, name, version) VALUES (%s, %s, -1) ON CONFLICT DO NOTHING"
_UNREGISTER = "DELETE FROM heliograph_outbox_reader WHERE workspace = %s AND name = %s"
_MOVE = "UPDATE heliograph_outbox_reader SET version = %s WHERE workspace = %s AND name = %s"
_LOCK = "SELECT 1 FROM heliograph_workspace WHERE name = %s FOR UPDATE"
_READ = """SELECT version, kind, id FROM heliograph_outbox WHERE workspace = %s AND version > %s AND version <= (
    SELECT max(version) FROM (SELECT version FROM heliograph_outbox WHERE workspace = %s AND version > %s
      ORDER BY version LIMIT %s) AS page)
  ORDER BY version, kind, id"""
_FORGET = """DELETE FROM heliograph_outbox WHERE workspace = %s AND version <= coalesce(
  (SELECT min(version) FROM heliograph_outbox_reader WHERE workspace = %s), 9223372036854775807)"""
_NOTE = """
INSERT INTO heliograph_outbox (workspace, version, kind, id)
SELECT DISTINCT %s, %s::bigint, kind, id FROM json_each(%s) AS changed (kind, ids)
CROSS JOIN LATERAL json_array_elements_text(changed.ids) AS named (id)
ON CONFLICT (workspace, kind, id) DO UPDATE SET version = excluded.version"""
_DROP = "DELETE FROM heliograph_outbox WHERE workspace = %s"
_RESET = """
INSERT INTO heliograph_outbox (workspace, kind, id, version)
SELECT space.name, %s, '', space.data_version FROM heliograph_workspace AS space
WHERE space.name = %s
  AND EXISTS (SELECT 1 FROM heliograph_outbox_reader AS reader WHERE reader.workspace = space.name)"""


class PostgresOutbox(Outbox):
    """Entries in a table; the right to take them in is an advisory lock."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def register(self, reader: str) -> None:
        if reader in await self.get_readers():
            return
        workspace = self._database.workspace
        # The lock of commits: one that is under way has not seen the reader and is not noted.
        added = Statement(_LOCK, (workspace,)), Statement(_REGISTER, (workspace, reader))
        await self._database.execute(*added, *reset_statements(workspace))

    async def unregister(self, reader: str) -> None:
        workspace = self._database.workspace
        await self._database.execute(
            Statement(_UNREGISTER, (workspace, reader)), Statement(_FORGET, (workspace, workspace))
        )

    async def get_readers(self) -> Mapping[str, int]:
        return dict(await self._database.fetch(_READERS, (self._database.workspace,)))

    async def read(self, after: int, limit: int) -> list[OutboxEntry]:
        workspace = self._database.workspace
        rows = await self._database.fetch(_READ, (workspace, after, workspace, after, limit))
        return [OutboxEntry(version, OutboxKind(kind), id_) for version, kind, id_ in rows]

    async def acknowledge(self, reader: str, version: int) -> None:
        if (await self.get_readers()).get(reader) != version:
            workspace = self._database.workspace
            await self._database.execute(
                Statement(_MOVE, (version, workspace, reader)), Statement(_FORGET, (workspace, workspace))
            )

    async def reset(self, reader: str) -> None:
        workspace = self._database.workspace
        begin = Statement(_LOCK, (workspace,)), Statement(_MOVE, (-1, workspace, reader))
        await self._database.execute(*begin, *reset_statements(workspace))

    def lock(self, reader: str) -> AbstractAsyncContextManager[bool]:
        return self._lock(reader)

    @asynccontextmanager
    async def _lock(self, reader: str) -> AsyncGenerator[bool]:
        async with try_advisory_lock(self._database, f"outbox {reader}") as is_held:
            yield is_held


def outbox_statements(workspace: str, changeset: Changeset, version: int) -> Iterator[Statement]:
    """Yield what notes the changes of a changeset that is committed as `version`; for workspaces with readers."""
    changed = {kind.value: list(ids) for kind, ids in changed_ids(changeset).items()}
    yield Statement(_NOTE, (workspace, version, to_json(changed)))


def reset_statements(workspace: str) -> Iterator[Statement]:
    """Yield what has all readers, if there are any, make everything anew; what was noted before says nothing more."""
    yield Statement(_DROP, (workspace,))
    yield Statement(_RESET, (OutboxKind.RESET.value, workspace))
