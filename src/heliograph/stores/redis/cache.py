"""Replies of models in Redis beside the store that holds the truth, under a prefix of their own ending in `cache:`."""

from __future__ import annotations

from heliograph.stores.replies import CachedReply
from heliograph.stores.outbox import OutboxKind
from heliograph.stores.projection import CacheProjection, ProjectionChange
from heliograph.stores.redis.connection import RedisConnection
from heliograph.stores.redis.projection import RedisProjection
from heliograph.stores.redis.replies import RedisReplyCache, drop_about, drop_answers
from heliograph.stores.redis.session import Session


class RedisCacheProjection(RedisProjection, CacheProjection):
    """Replies of one workspace."""

    role = "cache"
    suffix = ":cache"

    def __init__(self, connection: RedisConnection) -> None:
        super().__init__(connection)
        self._session = Session(connection)
        self._replies = RedisReplyCache(self._session)

    async def get_reply(self, key: str) -> CachedReply | None:
        return await self._replies.get_reply(key)

    async def put_reply(self, reply: CachedReply) -> None:
        await self._replies.put_reply(reply)

    async def delete_replies(self, cache_type: str | None = None) -> int:
        return await self._replies.delete_replies(cache_type)

    async def list_replies(self, after: str, limit: int) -> list[CachedReply]:
        return await self._replies.list_replies(after, limit)

    async def apply(self, change: ProjectionChange) -> None:
        if subjects := change.removed.get(OutboxKind.SUBJECTS, ()):
            dropped = drop_about(self._session.keys, subjects, tuple(change.kept_replies))
            await self._session.write([dropped, self.mark_change()])

    async def set_cursor(self, version: int) -> None:
        await self._session.write([drop_answers(self._session.keys)])
        await super().set_cursor(version)

    async def scan(self, kind: OutboxKind, after: str, limit: int) -> list[str]:  # noqa: ARG002 (it keeps replies only)
        """See `Projection`; keys of replies have no place among the ids of other things."""
        return []
