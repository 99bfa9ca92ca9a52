"""Replies of models in Redis: one hash a reply, and sets by which they are dropped together."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from heliograph.models import Usage
from heliograph.stores.base import CachedReply
from heliograph.stores.changeset import OutboxKind
from heliograph.stores.projection import CacheProjection, ProjectionChange
from heliograph.stores.redis.connection import RedisProjection

_ANSWERS = "query"
_FIELDS = ("text", "model", "input_tokens", "output_tokens", "subject_id", "created_at")
_PAGE = 1_000
# ARGV: prefix.
_DROP = """
local p = ARGV[1]
local function kind(key) return p .. 'type:' .. (string.match(key, '^[^:]*:([^:]*):') or '') end
local function unlist(key)
  local subject = redis.call('HGET', p .. 'reply:' .. key, 'subject_id')
  if subject and subject ~= '' then redis.call('SREM', p .. 'subject:' .. subject, key) end
end
local function drop(key)
  unlist(key)
  redis.call('ZREM', p .. 'replies', key)
  redis.call('SREM', kind(key), key)
  return redis.call('DEL', p .. 'reply:' .. key)
end
"""
# Further ARGV: key, type, fields and values; the last but one is the subject.
_PUT = f"""{_DROP}
local key, fields = ARGV[2], {{}}
unlist(key)
for i = 4, #ARGV do fields[#fields + 1] = ARGV[i] end
redis.call('HSET', p .. 'reply:' .. key, unpack(fields))
redis.call('ZADD', p .. 'replies', 0, key)
redis.call('SADD', p .. 'types', ARGV[3])
redis.call('SADD', kind(key), key)
local subject = redis.call('HGET', p .. 'reply:' .. key, 'subject_id')
if subject ~= '' then redis.call('SADD', p .. 'subject:' .. subject, key) end
"""
# Further ARGV: type, replies at the most.
_DROP_TYPE = f"""{_DROP}
local dropped = 0
for _, key in ipairs(redis.call('SPOP', p .. 'type:' .. ARGV[2], ARGV[3])) do dropped = dropped + drop(key) end
return dropped
"""
# Further ARGV: how many keys stay, these, subjects.
_DROP_ABOUT = f"""{_DROP}
local kept, count = {{}}, tonumber(ARGV[2])
for i = 3, 2 + count do kept[ARGV[i]] = true end
for i = 3 + count, #ARGV do
  for _, key in ipairs(redis.call('SMEMBERS', p .. 'subject:' .. ARGV[i])) do
    if not kept[key] then drop(key) end
  end
end
"""
# More replies than any commit could find of one type.
_ALL = 2_000_000_000


class RedisCacheProjection(RedisProjection, CacheProjection):
    """Replies of one workspace by key, under a prefix of their own that ends in `cache:`."""

    suffix = ":cache"

    async def get_reply(self, key: str) -> CachedReply | None:
        return (await self._read([key]))[0]

    async def put_reply(self, reply: CachedReply) -> None:
        """Durable as far as Redis is set up to be."""
        usage = reply.usage
        values = (
            *(reply.text.encode("utf-8", "surrogatepass"), reply.model, usage.input_tokens, usage.output_tokens),
            *(reply.subject_id, repr(reply.created_at.timestamp())),
        )
        fields = (item for pair in zip(_FIELDS, values, strict=True) for item in pair)
        named = self._connection.prefix, reply.key, reply.cache_type
        await self._connection.write([("EVAL", _PUT, 0, *named, *fields)])

    async def delete_replies(self, cache_type: str | None = None) -> int:
        if cache_type is None:
            types: list[str] = await self._connection.read_one("SMEMBERS", self._connection.key("types"))
        else:
            types = [cache_type]
        dropped = 0
        for type_ in types:
            while count := await self._connection.read_one(
                "EVAL", _DROP_TYPE, 0, self._connection.prefix, type_, _PAGE
            ):
                dropped += count
        return dropped

    async def list_replies(self, after: str, limit: int) -> list[CachedReply]:
        if limit < 1:
            return []
        lowest = f"({after}" if after else "-"
        listed = self._connection.key("replies")
        keys = await self._connection.read_one("ZRANGEBYLEX", listed, lowest, "+", "LIMIT", 0, limit)
        return [reply for reply in await self._read(keys) if reply is not None]

    async def apply(self, change: ProjectionChange) -> None:
        if subjects := change.removed.get(OutboxKind.SUBJECTS, ()):
            kept = len(change.kept_replies), *change.kept_replies
            dropped = "EVAL", _DROP_ABOUT, 0, self._connection.prefix, *kept, *subjects
            await self._connection.write([dropped, self.mark_change()])

    async def set_cursor(self, version: int) -> None:
        await self._connection.write([("EVAL", _DROP_TYPE, 0, self._connection.prefix, _ANSWERS, _ALL)])
        await super().set_cursor(version)

    async def scan(self, kind: OutboxKind, after: str, limit: int) -> list[str]:  # noqa: ARG002 (it keeps replies only)
        """Keys of replies have no place among the ids of other things."""
        return []

    async def _read(self, keys: Sequence[str]) -> list[CachedReply | None]:
        rows = await self._connection.read_bytes(
            [("HMGET", self._connection.key("reply", key), *_FIELDS) for key in keys]
        )
        return [None if row[0] is None else _reply(key, row) for key, row in zip(keys, rows, strict=True)]


def _reply(key: str, row: Sequence[bytes]) -> CachedReply:
    text, model, read, written, subject_id, created_at = (item.decode("utf-8", "surrogatepass") for item in row)
    moment = datetime.fromtimestamp(float(created_at), UTC)
    return CachedReply(key, text, model, Usage(int(read), int(written)), moment, subject_id)
