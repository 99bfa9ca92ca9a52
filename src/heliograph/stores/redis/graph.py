"""The graph of one workspace in Redis beside the store that holds the truth; `keys` says what stands where.

A change is one transaction; what depends on values stored before is a script within it.
"""

from __future__ import annotations

from collections.abc import Iterator

from heliograph.stores.outbox import OutboxKind
from heliograph.stores.projection import GraphProjection, ProjectionChange
from heliograph.stores.redis.connection import RedisConnection
from heliograph.stores.redis.graph_write import entity_commands, hash_command, rank_command, relation_commands
from heliograph.stores.redis.hashes import document_hash
from heliograph.stores.redis.projection import RedisProjection
from heliograph.stores.redis.session import Command, Session
from heliograph.stores.redis.traversal import RedisGraphStore, member_id

__all__ = ["RedisGraphProjection"]

_SCANNED = {OutboxKind.DOCUMENTS: "documents", OutboxKind.RELATIONS: "relations"}


class RedisGraphProjection(RedisProjection, GraphProjection, RedisGraphStore):
    """The graph, and what documents say of themselves, as keys that other programs can read."""

    kinds = frozenset({OutboxKind.DOCUMENTS, OutboxKind.ENTITIES, OutboxKind.RELATIONS})
    needs_origins = True
    role = "graph"

    def __init__(self, connection: RedisConnection) -> None:
        RedisProjection.__init__(self, connection)
        RedisGraphStore.__init__(self, Session(connection))

    async def apply(self, change: ProjectionChange) -> None:
        """See `Projection`; all of it in one transaction."""
        await self._graph.write([*self._commands(change), self.mark_change()])

    def _commands(self, change: ProjectionChange) -> Iterator[Command]:
        keys = self._graph.keys
        gone = {kind: list(change.removed.get(kind, ())) for kind in self.kinds}
        for id_ in gone[OutboxKind.DOCUMENTS]:
            yield "DEL", keys.document(id_)
        for document in change.documents:
            fields = document_hash(document, change.chunk_ids.get(document.id, ()))
            yield hash_command(keys.document(document.id), fields)
        yield from relation_commands(keys, gone[OutboxKind.RELATIONS], change.relations)
        yield from entity_commands(keys, gone[OutboxKind.ENTITIES], change.entities, change.owner_ids)
        yield rank_command(keys)
        for kind, put in ((OutboxKind.DOCUMENTS, change.documents), (OutboxKind.RELATIONS, change.relations)):
            if gone[kind]:
                yield "SREM", keys.of(_SCANNED[kind]), *gone[kind]
            if put:
                yield "SADD", keys.of(_SCANNED[kind]), *(item.id for item in put)

    async def scan(self, kind: OutboxKind, after: str, limit: int) -> list[str]:
        """See `Projection`."""
        keys = self._graph.keys
        if kind is OutboxKind.ENTITIES:
            ids = [member_id(member) for member in await self._graph.read_one("ZRANGE", keys.entities, 0, -1)]
        else:
            ids = [str(id_) for id_ in await self._graph.read_one("SMEMBERS", keys.of(_SCANNED[kind]))]
        return sorted(id_ for id_ in ids if id_ > after)[:limit]
