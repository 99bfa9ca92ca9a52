r"""The graph of one workspace in Redis: hashes of entities and relations, sets of neighbours, entities by degree.

Keys, below the workspace's prefix:

    doc:<id>, entity:<id>, relation:<id>    hashes
    neighbors:<entity id>                   set of entity ids
    relations:<source id>:<type>            set of target ids; the type is the first keyword
    entities                                sorted set, well connected first, then by name: "<name>\0<id>"
    documents, relations                    sets of ids, for scans

A change is one transaction; what depends on values stored before is a script within it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, cast

from redis.asyncio.client import Pipeline

from heliograph.ids import relation_id
from heliograph.models import Entity, Relation
from heliograph.stores.base import IncidentRelation
from heliograph.stores.outbox import OutboxKind
from heliograph.stores.projection import GraphProjection, ProjectionChange
from heliograph.stores.redis.projection import RedisProjection
from heliograph.stores.redis.records import (
    ENTITY_FIELDS,
    RELATION_FIELDS,
    document_hash,
    entity_hash,
    relation_hash,
    relation_type,
    to_entity,
    to_relation,
)
from heliograph.stores.stepping import SteppingGraphStore

__all__ = ["RedisGraphProjection"]

# ARGV: prefix, relation id. What its last version said of neighbours and types is taken back.
_UNLINK = """
local p, id = ARGV[1], ARGV[2]
local old = redis.call('HMGET', p .. 'relation:' .. id, 'source', 'target', 'relation')
if old[1] then
  redis.call('SREM', p .. 'relations:' .. old[1] .. ':' .. old[3], old[2])
  redis.call('SREM', p .. 'neighbors:' .. old[1], old[2])
  redis.call('SREM', p .. 'neighbors:' .. old[2], old[1])
  redis.call('SADD', p .. 'touched', old[1], old[2])
end
redis.call('DEL', p .. 'relation:' .. id)
redis.call('SREM', p .. 'relations', id)
"""
# ARGV: prefix, entity id. Takes the entity out of the order by degree, where it stands under its old name.
_UNRANK = """
local p, id = ARGV[1], ARGV[2]
local name = redis.call('HGET', p .. 'entity:' .. id, 'name')
if name then redis.call('ZREM', p .. 'entities', name .. '\\0' .. id) end
"""
# ARGV: prefix. Every entity that was touched takes its place by degree.
_RANK = """
local p = ARGV[1]
for _, id in ipairs(redis.call('SMEMBERS', p .. 'touched')) do
  local name = redis.call('HGET', p .. 'entity:' .. id, 'name')
  if name then
    redis.call('ZADD', p .. 'entities', -redis.call('SCARD', p .. 'neighbors:' .. id), name .. '\\0' .. id)
  end
end
redis.call('DEL', p .. 'touched')
"""


class RedisGraphProjection(RedisProjection, GraphProjection, SteppingGraphStore):
    """The graph, and what documents say of themselves, as keys that other programs can read."""

    kinds = frozenset({OutboxKind.DOCUMENTS, OutboxKind.ENTITIES, OutboxKind.RELATIONS})
    needs_origins = True
    role = "graph"

    async def get_entities(self, ids: Sequence[str]) -> list[Entity]:
        """See `GraphStore`."""
        pipe = self._client.pipeline(transaction=False)
        for id_ in ids:
            pipe.hmget(self._key("entity", id_), ENTITY_FIELDS)
            pipe.scard(self._key("neighbors", id_))
        rows = await self._run(pipe) if ids else []
        pairs = zip(ids, rows[::2], rows[1::2], strict=True)
        return [to_entity(id_, fields, degree) for id_, fields, degree in pairs if fields[0] is not None]

    async def get_relations(self, ids: Sequence[str]) -> list[Relation]:
        """See `GraphStore`."""
        pipe = self._client.pipeline(transaction=False)
        for id_ in ids:
            pipe.hmget(self._key("relation", id_), RELATION_FIELDS)
        rows = await self._run(pipe) if ids else []
        return [to_relation(id_, fields) for id_, fields in zip(ids, rows, strict=True) if fields[0] is not None]

    async def rank_incident_relations(self, entity_ids: Sequence[str]) -> list[IncidentRelation]:
        """See `GraphStore`."""
        steps = await self.find_steps(list(dict.fromkeys(entity_ids)), None)
        ends = {relation_id(near, far): (near, far, weight) for near, far, weight in steps}
        degrees = await self._degrees({id_ for near, far, _ in ends.values() for id_ in (near, far)})
        ranked = [
            IncidentRelation(id_, degrees[near] + degrees[far], weight) for id_, (near, far, weight) in ends.items()
        ]
        return sorted(ranked, key=lambda item: (-item.degree, -item.weight, item.id))

    async def list_entities(self, offset: int, limit: int) -> list[Entity]:
        """See `GraphStore`."""
        if limit < 1:
            return []
        with self._connection.errors():
            members = await self._client.zrange(self._key("entities"), offset, offset + limit - 1)
        return await self.get_entities(_member_ids(members))

    async def find_relations_among(self, entity_ids: Sequence[str]) -> list[Relation]:
        """See `GraphStore`."""
        wanted = set(entity_ids)
        neighbours = await self._neighbours(wanted)
        ids = {relation_id(near, far) for near, others in neighbours.items() for far in others if far in wanted}
        found = await self.get_relations(sorted(ids))
        return sorted(found, key=lambda relation: (-relation.weight, relation.id))

    async def find_steps(self, entity_ids: Collection[str], limit: int | None) -> list[tuple[str, str, float]]:
        """See `SteppingGraphStore`."""
        neighbours = await self._neighbours(entity_ids)
        steps = [(near, far) for near, others in neighbours.items() for far in others][:limit]
        pipe = self._client.pipeline(transaction=False)
        for near, far in steps:
            pipe.hget(self._key("relation", relation_id(near, far)), "weight")
        weights = await self._run(pipe) if steps else []
        return [(near, far, float(weight)) for (near, far), weight in zip(steps, weights, strict=True) if weight]

    async def order_entities(self, entity_ids: Collection[str], limit: int) -> list[str]:
        """See `SteppingGraphStore`."""
        pipe = self._client.pipeline(transaction=False)
        ids = list(entity_ids)
        for id_ in ids:
            pipe.hget(self._key("entity", id_), "name")
            pipe.scard(self._key("neighbors", id_))
        rows = await self._run(pipe) if ids else []
        found = sorted(
            (-degree, name, id_) for id_, name, degree in zip(ids, rows[::2], rows[1::2], strict=True) if name
        )
        return [id_ for *_, id_ in found[:limit]]

    async def apply(self, change: ProjectionChange) -> None:
        """See `Projection`; all of it in one transaction."""
        pipe = self._client.pipeline(transaction=True)
        self._put_documents(pipe, change)
        self._put_relations(pipe, change)
        self._put_entities(pipe, change)
        pipe.eval(_RANK, 0, self._connection.prefix)
        await self._run(pipe)

    def _put_documents(self, pipe: Pipeline, change: ProjectionChange) -> None:
        for id_ in change.removed.get(OutboxKind.DOCUMENTS, ()):
            pipe.delete(self._key("doc", id_))
            pipe.srem(self._key("documents"), id_)
        for document in change.documents:
            fields = document_hash(document, change.chunk_ids.get(document.id, ()))
            _put_hash(pipe, self._key("doc", document.id), fields)
            pipe.sadd(self._key("documents"), document.id)

    def _put_relations(self, pipe: Pipeline, change: ProjectionChange) -> None:
        for id_ in (*change.removed.get(OutboxKind.RELATIONS, ()), *(item.id for item in change.relations)):
            pipe.eval(_UNLINK, 0, self._connection.prefix, id_)
        for relation in change.relations:
            source, target = relation.source_id, relation.target_id
            _put_hash(pipe, self._key("relation", relation.id), relation_hash(relation))
            pipe.sadd(self._key("neighbors", source), target)
            pipe.sadd(self._key("neighbors", target), source)
            pipe.sadd(self._key("relations", source, relation_type(relation)), target)
            pipe.sadd(self._key("relations"), relation.id)
            pipe.sadd(self._key("touched"), source, target)

    def _put_entities(self, pipe: Pipeline, change: ProjectionChange) -> None:
        for id_ in (*change.removed.get(OutboxKind.ENTITIES, ()), *(item.id for item in change.entities)):
            pipe.eval(_UNRANK, 0, self._connection.prefix, id_)
            pipe.delete(self._key("entity", id_))
        for entity in change.entities:
            _put_hash(pipe, self._key("entity", entity.id), entity_hash(entity, change.owner_ids))
            pipe.sadd(self._key("touched"), entity.id)

    async def scan(self, kind: OutboxKind, after: str, limit: int) -> list[str]:
        """See `Projection`."""
        with self._connection.errors():
            if kind is OutboxKind.ENTITIES:
                ids = _member_ids(await self._client.zrange(self._key("entities"), 0, -1))
            else:
                name = "documents" if kind is OutboxKind.DOCUMENTS else "relations"
                ids = [str(id_) for id_ in await self._client.smembers(self._key(name))]
        return sorted(id_ for id_ in ids if id_ > after)[:limit]

    async def _neighbours(self, ids: Collection[str]) -> dict[str, list[str]]:
        pipe = self._client.pipeline(transaction=False)
        ordered = sorted(ids)
        for id_ in ordered:
            pipe.smembers(self._key("neighbors", id_))
        rows = await self._run(pipe) if ordered else []
        return {id_: sorted(others) for id_, others in zip(ordered, rows, strict=True)}

    async def _degrees(self, ids: Collection[str]) -> dict[str, int]:
        pipe = self._client.pipeline(transaction=False)
        ordered = list(ids)
        for id_ in ordered:
            pipe.scard(self._key("neighbors", id_))
        return dict(zip(ordered, await self._run(pipe) if ordered else [], strict=True))

    async def _run(self, pipe: Pipeline) -> list[Any]:
        with self._connection.errors():
            return await pipe.execute()


def _put_hash(pipe: Pipeline, key: str, fields: Mapping[str, str]) -> None:
    # The driver's type of fields is invariant, and takes no mapping of strings.
    pipe.hset(key, mapping=cast("dict[Any, Any]", fields))


def _member_ids(members: Sequence[object]) -> list[str]:
    """Return the ids at the end of members of the order by degree."""
    return [str(member).rpartition("\0")[2] for member in members]
