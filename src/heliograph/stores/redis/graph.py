"""The graph of one workspace in Redis beside the store that holds the truth; `keys` says what stands where.

A change is one transaction; what depends on values stored before is a script within it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from heliograph.stores.changeset import Collection
from heliograph.stores.outbox import OutboxKind
from heliograph.stores.projection import GraphProjection, ProjectionChange
from heliograph.stores.redis.connection import RedisConnection
from heliograph.stores.redis.graph_write import entity_commands, hash_command, rank_command, relation_commands
from heliograph.stores.redis.hashes import document_hash, entity_hash, relation_hash
from heliograph.stores.redis.projection import RedisProjection
from heliograph.stores.redis.session import Command, Session
from heliograph.stores.redis.traversal import RedisGraphStore, member_id

# ARGV: prefix, keys. How many of them belong to nothing that is there, or name targets that are no neighbours.
_STRAYS = """
local p, strays = ARGV[1], 0
local entities = {neighbors = true, entity_neighbors = true, weights = true, relations = true}
local listed = {doc = 'documents', relation = 'relations'}
for i = 2, #ARGV do
  local kind, id = string.match(string.sub(ARGV[i], #p + 1), '^([^:]+):([^:]+)')
  local is_there = true
  if kind and entities[kind] then
    is_there = redis.call('EXISTS', p .. 'entity:' .. id) == 1
      and (kind ~= 'relations' or #redis.call('SDIFF', ARGV[i], p .. 'neighbors:' .. id) == 0)
  elseif kind and listed[kind] then
    is_there = redis.call('SISMEMBER', p .. listed[kind], id) == 1
  elseif kind == 'entity' then
    local name = redis.call('HGET', ARGV[i], 'name')
    is_there = name and redis.call('ZSCORE', p .. 'entities', name .. '\\0' .. id)
  end
  if not is_there then strays = strays + 1 end
end
return strays
"""
# ARGV: prefix, relation ids. Those of them that are not between neighbours as they say.
_WRONG_RELATIONS = """
local p, wrong = ARGV[1], {}
for i = 2, #ARGV do
  local r = redis.call('HMGET', p .. 'relation:' .. ARGV[i], 'source', 'target', 'weight', 'relation')
  if not r[1] or redis.call('HGET', p .. 'weights:' .. r[1], r[2]) ~= r[3]
      or redis.call('HGET', p .. 'weights:' .. r[2], r[1]) ~= r[3]
      or redis.call('SISMEMBER', p .. 'neighbors:' .. r[1], r[2]) == 0
      or redis.call('SISMEMBER', p .. 'neighbors:' .. r[2], r[1]) == 0
      or redis.call('SISMEMBER', p .. 'entity_neighbors:' .. r[1], r[2]) == 0
      or redis.call('SISMEMBER', p .. 'entity_neighbors:' .. r[2], r[1]) == 0
      or redis.call('SISMEMBER', p .. 'relations:' .. r[1] .. ':' .. r[4], r[2]) == 0 then
    wrong[#wrong + 1] = ARGV[i]
  end
end
return wrong
"""
# ARGV: prefix, entity ids. Those of them that do not stand in the order of entities by their degree, or whose degree is
# not the number of their neighbours.
_WRONG_ENTITIES = """
local p, wrong = ARGV[1], {}
for i = 2, #ARGV do
  local id = ARGV[i]
  local name = redis.call('HGET', p .. 'entity:' .. id, 'name')
  local degree = redis.call('SCARD', p .. 'neighbors:' .. id)
  local place = name and redis.call('ZSCORE', p .. 'entities', name .. '\\0' .. id)
  if not place or tonumber(place) ~= -degree or redis.call('HLEN', p .. 'weights:' .. id) ~= degree
      or redis.call('SCARD', p .. 'entity_neighbors:' .. id) ~= degree
      or tonumber(redis.call('HGET', p .. 'degrees', id) or '0') ~= degree then wrong[#wrong + 1] = id end
end
return wrong
"""
_SCANNED = {OutboxKind.DOCUMENTS: "documents", OutboxKind.RELATIONS: "relations"}


class RedisGraphProjection(RedisProjection, GraphProjection, RedisGraphStore):
    """The graph, and what documents say of themselves, as keys that other programs can read."""

    kinds = frozenset({OutboxKind.DOCUMENTS, OutboxKind.ENTITIES, OutboxKind.RELATIONS})
    needs_origins = True
    needs_vectors = True
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
        vectors = change.vectors.get(Collection.ENTITIES, {})
        yield from entity_commands(keys, gone[OutboxKind.ENTITIES], change.entities, change.owner_ids, vectors)
        yield rank_command(keys)
        for kind, put in ((OutboxKind.DOCUMENTS, change.documents), (OutboxKind.RELATIONS, change.relations)):
            if gone[kind]:
                yield "SREM", keys.of(_SCANNED[kind]), *gone[kind]
            if put:
                yield "SADD", keys.of(_SCANNED[kind]), *(item.id for item in put)

    async def compare(self, expected: ProjectionChange) -> set[str]:
        """See `Projection`; further fields of hashes are their owners' business."""
        keys, vectors = self._graph.keys, expected.vectors.get(Collection.ENTITIES, {})
        wanted: dict[str, tuple[str, Mapping[str, str]]] = {}
        for document in expected.documents:
            fields = document_hash(document, expected.chunk_ids.get(document.id, ()))
            wanted[document.id] = keys.document(document.id), fields
        for entity in expected.entities:
            fields = entity_hash(entity, expected.owner_ids, vectors.get(entity.id))
            wanted[entity.id] = keys.entity(entity.id), fields
        for relation in expected.relations:
            wanted[relation.id] = keys.relation(relation.id), relation_hash(relation)
        kept = await self._graph.read([("HGETALL", key) for key, _ in wanted.values()])
        rows = zip(wanted.items(), kept, strict=True)
        differing = {id_ for (id_, (_, fields)), held in rows if not fields.items() <= held.items()}
        if ids := [item.id for item in expected.relations]:
            differing.update(await self._graph.read_one("EVAL", _WRONG_RELATIONS, 0, keys.prefix, *ids))
        if degrees := {item.id: str(item.degree) for item in expected.entities}:
            differing.update(await self._graph.read_one("EVAL", _WRONG_ENTITIES, 0, keys.prefix, *degrees))
            counted = await self._graph.read_one("HMGET", keys.degrees, *degrees)
            differing.update(id_ for id_, count in zip(degrees, counted, strict=True) if (count or "0") != degrees[id_])
        return differing

    async def find_faults(self) -> list[str]:
        """See `Projection`; looks at every key, since a set of what was never there is found by its name alone."""
        strays = 0
        async for page in self._connection.pages():
            strays += await self._graph.read_one("EVAL", _STRAYS, 0, self._graph.keys.prefix, *page)
        return [f"{strays:,} keys belong to no document, entity or relation that is there"] if strays else []

    async def scan(self, kind: OutboxKind, after: str, limit: int) -> list[str]:
        keys = self._graph.keys
        if kind is OutboxKind.ENTITIES:
            ids = [member_id(member) for member in await self._graph.read_one("ZRANGE", keys.entities, 0, -1)]
        else:
            ids = [str(id_) for id_ in await self._graph.read_one("SMEMBERS", keys.of(_SCANNED[kind]))]
        return sorted(id_ for id_ in ids if id_ > after)[:limit]
