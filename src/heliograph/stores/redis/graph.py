"""The graph of one workspace in Redis beside the store with the truth: hashes, sets, and ways between entities."""

from __future__ import annotations

import json
from collections.abc import Collection as Some
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heliograph.ids import relation_id
from heliograph.models import Document, Entity, Relation
from heliograph.stores.changeset import Collection, OutboxKind
from heliograph.stores.graph import IncidentRelation
from heliograph.stores.projection import GraphProjection, ProjectionChange, first_keyword
from heliograph.stores.redis.connection import Command, RedisConnection, RedisProjection
from heliograph.stores.rows import document_values

# Entities, relations and documents as hashes of Redis: their fields, and back.
#
# The first fields are those that other programs read; lists are JSON.

# A cosine of two such vectors is off by less than a millionth; more would only take room.
_DECIMALS = 6
ENTITY_FIELDS = ("name", "type", "description", "aliases", "chunk_ids", "token_count", "created_at")
RELATION_FIELDS = (
    *("source", "target", "source_name", "target_name", "keywords"),
    *("description", "weight", "chunk_ids", "token_count", "created_at"),
)


def entity_hash(
    entity: Entity, owner_ids: Mapping[str, str], vector: NDArray[np.float32] | None = None
) -> dict[str, str]:
    """Return the fields of an entity.

    Args:
        entity: The entity.
        owner_ids: Id of its document per chunk id.
        vector: `(dimension,)` float32; None leaves out the field.
    """
    owners = filter(None, (owner_ids.get(id_) for id_ in entity.chunk_ids))
    return {
        "name": entity.name,
        "type": entity.type,
        "description": entity.description,
        "doc_ids": _dump(dict.fromkeys(owners)),
        "aliases": _dump(entity.aliases),
        "chunk_ids": _dump(entity.chunk_ids),
        "token_count": str(entity.token_count),
        "created_at": str(entity.created_at),
        **({} if vector is None else {"embedding": json.dumps(vector.astype(float).round(_DECIMALS).tolist())}),
    }


def relation_hash(relation: Relation) -> dict[str, str]:
    """Return the fields of a relation; `source` and `target` are ids of entities."""
    return {
        "source": relation.source_id,
        "relation": first_keyword(relation),
        "target": relation.target_id,
        "weight": repr(relation.weight),
        "source_name": relation.source,
        "target_name": relation.target,
        "keywords": _dump(relation.keywords),
        "description": relation.description,
        "chunk_ids": _dump(relation.chunk_ids),
        "token_count": str(relation.token_count),
        "created_at": str(relation.created_at),
    }


def document_hash(document: Document, chunk_ids: Sequence[str]) -> dict[str, str]:
    """Return the fields of a document with these chunks, by position."""
    values = document_values(document, datetime.isoformat)
    return {name: str(value) for name, value in values.items() if name != "id"} | {"chunk_ids": _dump(chunk_ids)}


def to_entity(id_: str, fields: Sequence[str], degree: int) -> Entity:
    """Return the entity of the values of `ENTITY_FIELDS`."""
    name, type_, description, aliases, chunk_ids, token_count, created_at = fields
    return Entity(
        *(id_, name, type_, description, _load(aliases), _load(chunk_ids), int(token_count), degree, int(created_at))
    )


def to_relation(id_: str, fields: Sequence[str]) -> Relation:
    """Return the relation of the values of `RELATION_FIELDS`."""
    source, target, source_name, target_name, keywords, description, weight, chunk_ids, tokens, created_at = fields
    return Relation(
        *(id_, source_name, target_name, source, target, _load(keywords), description, float(weight)),
        *(_load(chunk_ids), int(tokens), int(created_at)),
    )


def _dump(values: Iterable[str]) -> str:
    return json.dumps(list(values), ensure_ascii=False)


def _load(text: str) -> tuple[str, ...]:
    return tuple(json.loads(text))


# Many small values in one answer: scripts that make one JSON text of what hashes and sets hold.
#
# The driver takes as long over every part of an answer as Redis takes over all of it, so one text is read much
# faster.

# Ids in one command, so that none keeps Redis busy for long.
_MOST_IDS = 500
# ARGV: prefix, what keys of hashes begin with after it, how many fields, these, ids. The fields of each hash, false
# where there is none.
_HASHES = """
local p, kind, count = ARGV[1], ARGV[2], tonumber(ARGV[3])
local fields, rows = {}, {}
for i = 4, 3 + count do fields[#fields + 1] = ARGV[i] end
for i = 4 + count, #ARGV do
  local row = redis.call('HMGET', p .. kind .. ARGV[i], unpack(fields))
  if kind == 'entity:' then row[#row + 1] = redis.call('HGET', p .. 'degrees', ARGV[i]) or '0' end
  rows[#rows + 1] = row[1] and row
end
return cjson.encode(rows)
"""


async def read_hashes(
    connection: RedisConnection, kind: str, ids: Sequence[str], fields: Sequence[str]
) -> list[list[str] | None]:
    """Return the fields of a hash per id, None where there is no first one; of entities the degree comes last.

    Args:
        connection: Reads.
        kind: `entity` or `relation`.
        ids: Of hashes.
        fields: Of each.
    """
    rows = await ask_packed(connection, _HASHES, ids, f"{kind}:", len(fields), *fields)
    return [row or None for row in rows]


async def ask_packed(connection: RedisConnection, script: str, ids: Sequence[str], *arguments: str | int) -> list[Any]:
    """Return what a script answers in JSON texts, one after the other, some ids at a time in one round trip.

    Args:
        connection: Reads.
        script: Takes the prefix, the arguments, then ids, and answers a list that is not empty.
        ids: At the end of the arguments; without any nothing is asked.
        arguments: Further ones.
    """
    windows = [ids[start : start + _MOST_IDS] for start in range(0, len(ids), _MOST_IDS)]
    prefix = connection.prefix
    texts = await connection.read([("EVAL", script, 0, prefix, *arguments, *window) for window in windows])
    return [row for text in texts for row in json.loads(text)]


# Writing the graph: what a change does to entities, relations, neighbours and degrees, as commands.
#
# What depends on values stored before is a script within the transaction, so nothing has to be read first.

# ARGV: prefix, relation ids. What their last versions said of neighbours and types is taken back.
_UNLINK = """
local p = ARGV[1]
for i = 2, #ARGV do
  local id = ARGV[i]
  local old = redis.call('HMGET', p .. 'relation:' .. id, 'source', 'target', 'relation')
  if old[1] then
    redis.call('SREM', p .. 'relations:' .. old[1] .. ':' .. old[3], old[2])
    for _, name in ipairs({'neighbors:', 'entity_neighbors:'}) do
      redis.call('SREM', p .. name .. old[1], old[2])
      redis.call('SREM', p .. name .. old[2], old[1])
    end
    redis.call('HDEL', p .. 'weights:' .. old[1], old[2])
    redis.call('HDEL', p .. 'weights:' .. old[2], old[1])
    redis.call('SADD', p .. 'touched', old[1], old[2])
    redis.call('DEL', p .. 'relation:' .. id)
  end
end
"""
# ARGV: prefix, then source, target, weight and type of each relation, whose ends become neighbours.
_LINK = """
local p = ARGV[1]
for i = 2, #ARGV, 4 do
  local source, target, weight = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  for _, name in ipairs({'neighbors:', 'entity_neighbors:'}) do
    redis.call('SADD', p .. name .. source, target)
    redis.call('SADD', p .. name .. target, source)
  end
  redis.call('HSET', p .. 'weights:' .. source, target, weight)
  redis.call('HSET', p .. 'weights:' .. target, source, weight)
  redis.call('SADD', p .. 'relations:' .. source .. ':' .. ARGV[i + 3], target)
  redis.call('SADD', p .. 'touched', source, target)
end
"""
# ARGV: prefix, entity ids. Takes entities out of the order by degree, where they stand under their old names.
_UNRANK = """
local p = ARGV[1]
for i = 2, #ARGV do
  local id = ARGV[i]
  local name = redis.call('HGET', p .. 'entity:' .. id, 'name')
  if name then redis.call('ZREM', p .. 'entities', name .. '\\0' .. id) end
  redis.call('DEL', p .. 'entity:' .. id)
end
"""
# ARGV: prefix. Every entity that was touched takes its place by degree.
_RANK = """
local p = ARGV[1]
for _, id in ipairs(redis.call('SMEMBERS', p .. 'touched')) do
  local degree = redis.call('SCARD', p .. 'neighbors:' .. id)
  if degree > 0 then redis.call('HSET', p .. 'degrees', id, degree) else redis.call('HDEL', p .. 'degrees', id) end
  local name = redis.call('HGET', p .. 'entity:' .. id, 'name')
  if name then redis.call('ZADD', p .. 'entities', -degree, name .. '\\0' .. id) end
end
redis.call('DEL', p .. 'touched')
"""


def _hash_command(key: str, fields: Mapping[str, str]) -> Command:
    return "HSET", key, *chain.from_iterable(fields.items())


def _script(script: str, prefix: str, *values: Iterable[str]) -> Iterator[Command]:
    if given := list(chain(*values)):
        yield "EVAL", script, 0, prefix, *given


# Reading the graph of one workspace: entities, relations, and the ways between them.

# ARGV: prefix, entity ids. Pairs of those that are neighbours, each once; hubs are asked for the others,
# not they for theirs.
_AMONG = """
local p, wanted, found = ARGV[1], {}, {}
for i = 2, #ARGV do wanted[ARGV[i]] = true end
for i = 2, #ARGV do
  local near = ARGV[i]
  local key = p .. 'neighbors:' .. near
  if redis.call('SCARD', key) > 4 * #ARGV then
    for far in pairs(wanted) do
      if near < far and redis.call('SISMEMBER', key, far) == 1 then
        found[#found + 1] = near
        found[#found + 1] = far
      end
    end
  else
    for _, far in ipairs(redis.call('SMEMBERS', key)) do
      if near < far and wanted[far] then
        found[#found + 1] = near
        found[#found + 1] = far
      end
    end
  end
end
return found
"""
# ARGV: prefix, what is wanted, entity ids. Of each its degree, then per neighbour id and weight, and if they are wanted
# the neighbour's degree.
_STEPS = """
local p, found = ARGV[1], {}
local function degree(id) return redis.call('HGET', p .. 'degrees', id) or '0' end
for i = 3, #ARGV do
  local row, weights = {degree(ARGV[i])}, redis.call('HGETALL', p .. 'weights:' .. ARGV[i])
  for at = 1, #weights, 2 do
    row[#row + 1] = weights[at]
    row[#row + 1] = weights[at + 1]
    if ARGV[2] == 'degrees' then row[#row + 1] = degree(weights[at]) end
  end
  found[#found + 1] = row
end
return cjson.encode(found)
"""
_WITH_DEGREES = "degrees"


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


class RedisGraphProjection(RedisProjection, GraphProjection):
    """The graph, and what documents say of themselves, as keys that other programs can read."""

    kinds = frozenset({OutboxKind.DOCUMENTS, OutboxKind.ENTITIES, OutboxKind.RELATIONS})
    needs_origins = True
    needs_vectors = True

    async def get_entities(self, ids: Sequence[str]) -> list[Entity]:
        rows = await read_hashes(self._connection, "entity", ids, ENTITY_FIELDS)
        return [to_entity(id_, row[:-1], int(row[-1])) for id_, row in zip(ids, rows, strict=True) if row]

    async def get_relations(self, ids: Sequence[str]) -> list[Relation]:
        rows = await read_hashes(self._connection, "relation", ids, RELATION_FIELDS)
        return [to_relation(id_, row) for id_, row in zip(ids, rows, strict=True) if row]

    async def rank_incident_relations(self, entity_ids: Sequence[str]) -> list[IncidentRelation]:
        ids = list(dict.fromkeys(entity_ids))
        rows = await ask_packed(self._connection, _STEPS, ids, _WITH_DEGREES)
        steps = {
            (min(near, far), max(near, far)): (int(degree) + int(far_degree), float(weight))
            for near, (degree, *row) in zip(ids, rows, strict=True)
            for far, weight, far_degree in zip(row[::3], row[1::3], row[2::3], strict=True)
        }
        ranked = [IncidentRelation(relation_id(*ends), *step) for ends, step in steps.items()]
        return sorted(ranked, key=lambda item: (-item.degree, -item.weight, item.id))

    async def list_entities(self, offset: int, limit: int) -> list[Entity]:
        if limit < 1:
            return []
        members = await self._connection.read_one(
            "ZRANGE", self._connection.key("entities"), offset, offset + limit - 1
        )
        return await self.get_entities([member_id(member) for member in members])

    async def find_relations_among(self, entity_ids: Sequence[str]) -> list[Relation]:
        wanted = list(dict.fromkeys(entity_ids))
        if not wanted:
            return []
        ends: list[str] = await self._connection.read_one("EVAL", _AMONG, 0, self._connection.prefix, *wanted)
        ids = [relation_id(near, far) for near, far in zip(ends[::2], ends[1::2], strict=True)]
        return sorted(await self.get_relations(ids), key=lambda relation: (-relation.weight, relation.id))

    async def find_steps(self, nodes: Some[str], limit: int | None) -> list[tuple[str, str, float]]:
        ordered = sorted(nodes)
        rows = await ask_packed(self._connection, _STEPS, ordered, "")
        steps = [
            (near, far, float(weight))
            for near, (_, *row) in zip(ordered, rows, strict=True)
            for far, weight in sorted(zip(row[::2], row[1::2], strict=True))
        ]
        return steps[:limit]

    async def order_nodes(self, nodes: Some[str], limit: int) -> list[str]:
        ids = list(nodes)
        rows = await read_hashes(self._connection, "entity", ids, ["name"])
        found = sorted((-int(row[1]), row[0], id_) for id_, row in zip(ids, rows, strict=True) if row)
        return [id_ for *_, id_ in found[:limit]]

    async def apply(self, change: ProjectionChange) -> None:
        """All of it in one transaction."""
        await self._connection.write([*self._commands(change), self.mark_change()])

    def _commands(self, change: ProjectionChange) -> Iterator[Command]:
        prefix = self._connection.prefix
        gone = {kind: list(change.removed.get(kind, ())) for kind in self.kinds}
        for id_ in gone[OutboxKind.DOCUMENTS]:
            yield "DEL", f"{prefix}doc:{id_}"
        for document in change.documents:
            fields = document_hash(document, change.chunk_ids.get(document.id, ()))
            yield _hash_command(f"{prefix}doc:{document.id}", fields)
        yield from _script(_UNLINK, prefix, gone[OutboxKind.RELATIONS], (item.id for item in change.relations))
        for relation in change.relations:
            yield _hash_command(f"{prefix}relation:{relation.id}", relation_hash(relation))
        yield from _script(
            *(_LINK, prefix),
            *((item.source_id, item.target_id, repr(item.weight), first_keyword(item)) for item in change.relations),
        )
        vectors = change.vectors.get(Collection.ENTITIES, {})
        yield from _script(_UNRANK, prefix, gone[OutboxKind.ENTITIES], (item.id for item in change.entities))
        for entity in change.entities:
            fields = entity_hash(entity, change.owner_ids, vectors.get(entity.id))
            yield _hash_command(f"{prefix}entity:{entity.id}", fields)
        if change.entities:
            yield "SADD", f"{prefix}touched", *(item.id for item in change.entities)
        yield "EVAL", _RANK, 0, prefix
        for kind, put in ((OutboxKind.DOCUMENTS, change.documents), (OutboxKind.RELATIONS, change.relations)):
            if gone[kind]:
                yield "SREM", f"{prefix}{_SCANNED[kind]}", *gone[kind]
            if put:
                yield "SADD", f"{prefix}{_SCANNED[kind]}", *(item.id for item in put)

    async def compare(self, expected: ProjectionChange) -> set[str]:
        """Further fields of hashes are their owners' business."""
        prefix, vectors = self._connection.prefix, expected.vectors.get(Collection.ENTITIES, {})
        wanted: dict[str, tuple[str, Mapping[str, str]]] = {}
        for document in expected.documents:
            fields = document_hash(document, expected.chunk_ids.get(document.id, ()))
            wanted[document.id] = f"{prefix}doc:{document.id}", fields
        for entity in expected.entities:
            fields = entity_hash(entity, expected.owner_ids, vectors.get(entity.id))
            wanted[entity.id] = f"{prefix}entity:{entity.id}", fields
        for relation in expected.relations:
            wanted[relation.id] = f"{prefix}relation:{relation.id}", relation_hash(relation)
        kept = await self._connection.read([("HGETALL", key) for key, _ in wanted.values()])
        rows = zip(wanted.items(), kept, strict=True)
        differing = {id_ for (id_, (_, fields)), held in rows if not fields.items() <= held.items()}
        if ids := [item.id for item in expected.relations]:
            differing.update(await self._connection.read_one("EVAL", _WRONG_RELATIONS, 0, prefix, *ids))
        if degrees := {item.id: str(item.degree) for item in expected.entities}:
            differing.update(await self._connection.read_one("EVAL", _WRONG_ENTITIES, 0, prefix, *degrees))
            counted = await self._connection.read_one("HMGET", f"{prefix}degrees", *degrees)
            differing.update(id_ for id_, count in zip(degrees, counted, strict=True) if (count or "0") != degrees[id_])
        return differing

    async def find_faults(self) -> list[str]:
        """Reads every key: a stray set shows by its name alone."""
        strays = 0
        async for page in self._connection.pages():
            strays += await self._connection.read_one("EVAL", _STRAYS, 0, self._connection.prefix, *page)
        return [f"{strays:,} keys belong to no document, entity or relation that is there"] if strays else []

    async def scan(self, kind: OutboxKind, after: str, limit: int) -> list[str]:
        key = self._connection.key
        if kind is OutboxKind.ENTITIES:
            ids = [member_id(member) for member in await self._connection.read_one("ZRANGE", key("entities"), 0, -1)]
        else:
            ids = [str(id_) for id_ in await self._connection.read_one("SMEMBERS", key(_SCANNED[kind]))]
        return sorted(id_ for id_ in ids if id_ > after)[:limit]


def member_id(member: Any) -> str:
    """Return the id at the end of a member of a sorted set."""
    return str(member).rpartition("\0")[2]
