"""The reply cache on PostgreSQL. Replies are kept as bytes: a model may write what PostgreSQL's text cannot hold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from heliograph.models import Usage
from heliograph.stores.base import CachedReply, ReplyCache
from heliograph.stores.changeset import Changeset
from heliograph.stores.postgres.database import Database, Statement
from heliograph.stores.postgres.rows import to_json
from heliograph.stores.rows import in_utc

_ANSWERS = "query"
_ENCODING = "utf-8", "surrogatepass"
_COLUMNS = "key, text, model, input_tokens, output_tokens, created_at, subject_id"
_GET = f"SELECT {_COLUMNS} FROM heliograph_reply WHERE workspace = %s AND key = %s"
_LIST = f"SELECT {_COLUMNS} FROM heliograph_reply WHERE workspace = %s AND key > %s ORDER BY key LIMIT %s"
_PUT = """
INSERT INTO heliograph_reply (workspace, key, cache_type, text, model, input_tokens, output_tokens, subject_id,
  created_at)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)
ON CONFLICT (workspace, key) DO UPDATE SET text = excluded.text, model = excluded.model,
  input_tokens = excluded.input_tokens, output_tokens = excluded.output_tokens, subject_id = excluded.subject_id,
  created_at = excluded.created_at"""
_DROP_ANSWERS = "DELETE FROM heliograph_reply WHERE workspace = %s AND cache_type = %s"
_DROP_ABOUT = """DELETE FROM heliograph_reply
  WHERE workspace = %s AND subject_id <> '' AND subject_id = ANY (ARRAY(SELECT json_array_elements_text(%s)))
    AND key <> ALL (ARRAY(SELECT json_array_elements_text(%s)))"""


class PostgresReplyCache(ReplyCache):
    """Replies in one table, by key."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get_reply(self, key: str) -> CachedReply | None:
        rows = await self._database.fetch(_GET, (self._database.workspace, key))
        return _read(rows[0]) if rows else None

    async def put_reply(self, reply: CachedReply) -> None:
        values = (
            *(self._database.workspace, reply.key, _cache_type(reply.key), reply.text.encode(*_ENCODING), reply.model),
            *(reply.usage.input_tokens, reply.usage.output_tokens, reply.subject_id, reply.created_at),
        )
        await self._database.execute(Statement(_PUT, values))

    async def delete_replies(self, cache_type: str | None = None) -> int:
        query = """WITH gone AS (DELETE FROM heliograph_reply
                     WHERE workspace = %s AND (%s::text IS NULL OR cache_type = %s) RETURNING 1)
                   SELECT count(*) FROM gone"""
        values = (self._database.workspace, cache_type, cache_type)
        ((count,),) = (await self._database.execute(Statement(query, values)))[0]
        return int(count)

    async def list_replies(self, after: str, limit: int) -> list[CachedReply]:
        return [_read(row) for row in await self._database.fetch(_LIST, (self._database.workspace, after, limit))]


def _read(row: Sequence[Any]) -> CachedReply:
    key, text, model, read, written, created_at, subject_id = row
    return CachedReply(key, text.decode(*_ENCODING), model, Usage(read, written), in_utc(created_at), subject_id)


def reply_statements(workspace: str, changeset: Changeset) -> Iterator[Statement]:
    """Yield what drops cached answers, each of an earlier data version, and replies about what a changeset removes."""
    yield drop_answers(workspace)
    if changeset.removed_subjects:
        values = (workspace, to_json(changeset.removed_subjects), to_json(changeset.kept_replies))
        yield Statement(_DROP_ABOUT, values)


def drop_answers(workspace: str) -> Statement:
    """Return what drops every cached answer."""
    return Statement(_DROP_ANSWERS, (workspace, _ANSWERS))


def _cache_type(key: str) -> str:
    """Return the middle part of `{mode}:{cache_type}:{args_hash}`."""
    parts = key.split(":", 2)
    return parts[1] if len(parts) == 3 else ""
