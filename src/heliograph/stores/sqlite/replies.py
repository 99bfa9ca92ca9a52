"""The reply cache in the embedded store."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime

import apsw

from heliograph.models import Usage
from heliograph.stores.base import CachedReply, ReplyCache
from heliograph.stores.sqlite.database import Database, Row, array, fetch_one

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


def drop_replies_about(connection: apsw.Connection, subject_ids: Collection[str], kept: Collection[str]) -> None:
    """Drop the replies that were asked about these but those under the keys `kept`, so that no word is left."""
    if subject_ids:
        query = """DELETE FROM reply WHERE subject_id IN (SELECT value FROM carray(?))
                   AND key NOT IN (SELECT value FROM carray(?))"""
        connection.execute(query, (array(subject_ids), array(kept or ("",))))
