"""Replies of models in Redis: one hash a reply, and sets by which they are dropped together.

Keys, below the workspace's prefix, which ends in `cache:`:

    reply:<key>           hash
    replies               sorted set of keys, all with score 0, so by key
    types                 set of types
    type:<type>           set of keys
    subject:<id>          set of keys of replies about it
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from heliograph.models import Usage
from heliograph.stores.base import CachedReply
from heliograph.stores.outbox import OutboxKind
from heliograph.stores.projection import CacheProjection, ProjectionChange
from heliograph.stores.redis.projection import RedisProjection

__all__ = ["RedisCacheProjection"]

_ANSWERS = "query"
_FIELDS = ("text", "model", "input_tokens", "output_tokens", "subject_id", "created_at")


class RedisCacheProjection(RedisProjection, CacheProjection):
    """Replies of one workspace."""

    role = "cache"
    suffix = ":cache"

    async def get_reply(self, key: str) -> CachedReply | None:
        """See `ReplyCache`."""
        with self._connection.errors():
            fields = await self._client.hmget(self._key("reply", key), _FIELDS)
        if fields[0] is None:
            return None
        text, model, read, written, subject_id, created_at = map(str, fields)
        return CachedReply(
            *(key, text, model, Usage(int(read), int(written))),
            *(datetime.fromtimestamp(float(created_at), UTC), subject_id),
        )

    async def put_reply(self, reply: CachedReply) -> None:
        """See `ReplyCache`; durable as far as Redis is set up to be."""
        usage, type_ = reply.usage, _type(reply.key)
        values = (
            *(reply.text, reply.model, usage.input_tokens, usage.output_tokens),
            *(reply.subject_id, repr(reply.created_at.timestamp())),
        )
        pipe = self._client.pipeline(transaction=True)
        pipe.hset(self._key("reply", reply.key), mapping=dict(zip(_FIELDS, values, strict=True)))
        pipe.zadd(self._key("replies"), {reply.key: 0})
        pipe.sadd(self._key("types"), type_)
        pipe.sadd(self._key("type", type_), reply.key)
        if reply.subject_id:
            pipe.sadd(self._key("subject", reply.subject_id), reply.key)
        with self._connection.errors():
            await pipe.execute()

    async def delete_replies(self, cache_type: str | None = None) -> int:
        """See `ReplyCache`."""
        with self._connection.errors():
            types = [cache_type] if cache_type is not None else await self._client.smembers(self._key("types"))
            doomed = [key for type_ in types for key in await self._client.smembers(self._key("type", str(type_)))]
        return await self._drop(map(str, doomed))

    async def list_replies(self, after: str, limit: int) -> list[CachedReply]:
        """See `ReplyCache`."""
        lowest = f"({after}" if after else "-"
        with self._connection.errors():
            keys = await self._client.zrangebylex(self._key("replies"), lowest, "+", 0, limit)
        found = [await self.get_reply(str(key)) for key in keys]
        return [reply for reply in found if reply is not None]

    async def apply(self, change: ProjectionChange) -> None:
        """See `Projection`."""
        kept = set(change.kept_replies)
        with self._connection.errors():
            for subject in change.removed.get(OutboxKind.SUBJECTS, ()):
                about = {str(key) for key in await self._client.smembers(self._key("subject", subject))}
                await self._drop(about - kept)

    async def set_cursor(self, version: int) -> None:
        """See `Projection`."""
        await self.delete_replies(_ANSWERS)
        await super().set_cursor(version)

    async def scan(self, kind: OutboxKind, after: str, limit: int) -> list[str]:  # noqa: ARG002 (it keeps replies only)
        """See `Projection`; keys of replies have no place among the ids of other things."""
        return []

    async def _drop(self, keys: Iterable[str]) -> int:
        dropped = 0
        for key in keys:
            subject = await self._client.hget(self._key("reply", key), "subject_id")
            pipe = self._client.pipeline(transaction=True)
            pipe.delete(self._key("reply", key))
            pipe.zrem(self._key("replies"), key)
            pipe.srem(self._key("type", _type(key)), key)
            if subject:
                pipe.srem(self._key("subject", str(subject)), key)
            with self._connection.errors():
                dropped += (await pipe.execute())[0]
        return dropped


def _type(key: str) -> str:
    parts = key.split(":", 2)
    return parts[1] if len(parts) == 3 else ""
