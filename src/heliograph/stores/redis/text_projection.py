"""Full text in Redis beside the store that holds the truth, under a prefix of its own ending in `text:`.

Postings, rows and ranking are those of a workspace that is at home in Redis.
"""

from __future__ import annotations

from heliograph.stores.changeset import Collection
from heliograph.stores.outbox import OutboxKind
from heliograph.stores.projection import ProjectionChange, TextProjection
from heliograph.stores.redis.connection import RedisConnection
from heliograph.stores.redis.projection import RedisProjection
from heliograph.stores.redis.search_faults import find_text_faults
from heliograph.stores.redis.session import Session
from heliograph.stores.redis.text import RedisTextStore
from heliograph.stores.redis.text_rows import read_rows_of
from heliograph.stores.redis.text_write import SEARCHED, encode, put_rows

__all__ = ["RedisTextProjection"]

_COLLECTIONS = {OutboxKind.CHUNKS: Collection.CHUNKS, OutboxKind.ENTITIES: Collection.ENTITIES}


class RedisTextProjection(RedisProjection, RedisTextStore, TextProjection):
    """The terms of one workspace's chunks and entities."""

    role = "text"
    suffix = ":text"

    def __init__(self, connection: RedisConnection) -> None:
        RedisProjection.__init__(self, connection)
        RedisTextStore.__init__(self, Session(connection))

    async def apply(self, change: ProjectionChange) -> None:
        """See `Projection`; all of it in one transaction."""
        commands = [
            put_rows(
                self._session.keys,
                collection,
                change.removed.get(kind, ()),
                {entry.id: encode(" ".join(entry.terms)) for entry in change.texts.get(collection, ())},
            )
            for kind, collection in _COLLECTIONS.items()
        ]
        await self._session.write([*commands, self.mark_change()])

    async def compare(self, expected: ProjectionChange) -> set[str]:
        """See `Projection`."""
        differing: set[str] = set()
        for collection, entries in expected.texts.items():
            if entries:
                kept = dict(await read_rows_of(self._session, collection, [entry.id for entry in entries]))
                wanted = {entry.id: encode(" ".join(entry.terms)) for entry in entries}
                differing.update(id_ for id_, terms in wanted.items() if kept.get(id_) != terms)
        return differing

    async def find_faults(self) -> list[str]:
        """See `Projection`."""
        return [fault for collection in SEARCHED for fault in await find_text_faults(self._session, collection)]

    async def scan(self, kind: OutboxKind, after: str, limit: int) -> list[str]:
        """See `Projection`."""
        if kind not in _COLLECTIONS:
            return []
        numbers = self._session.keys.of("terms", _COLLECTIONS[kind].value, "numbers")
        ids = [str(id_) for id_ in await self._session.read_one("HKEYS", numbers)]
        return sorted(id_ for id_ in ids if id_ > after)[:limit]
