r"""Writing the graph: what a change does to entities, relations, neighbours and degrees, as commands.

What depends on values stored before is a script within the transaction, so nothing has to be read first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from heliograph.models import Entity, Relation
from heliograph.stores.redis.hashes import entity_hash, relation_hash, relation_type
from heliograph.stores.redis.keys import Keys
from heliograph.stores.redis.session import Command

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


def relation_commands(keys: Keys, removed: Sequence[str], relations: Sequence[Relation]) -> Iterator[Command]:
    """Yield what takes relations away and puts others; `rank_command` has to follow."""
    yield from _script(_UNLINK, keys, removed, (item.id for item in relations))
    for relation in relations:
        yield hash_command(keys.relation(relation.id), relation_hash(relation))
    yield from link_commands(keys, relations)


def link_commands(keys: Keys, relations: Iterable[Relation]) -> Iterator[Command]:
    """Yield what makes the ends of relations neighbours; `rank_command` has to follow."""
    links = ((item.source_id, item.target_id, repr(item.weight), relation_type(item)) for item in relations)
    if values := list(chain.from_iterable(links)):
        yield "EVAL", _LINK, 0, keys.prefix, *values


def entity_commands(
    keys: Keys,
    removed: Sequence[str],
    entities: Sequence[Entity],
    owner_ids: Mapping[str, str],
    vectors: Mapping[str, NDArray[np.float32]],
) -> Iterator[Command]:
    """Yield what takes entities away and puts others; `rank_command` has to follow.

    Args:
        keys: Names of keys.
        removed: Ids.
        entities: Those to put.
        owner_ids: Id of its document per chunk id that they name.
        vectors: `(dimension,)` float32 per id, of those that are to show theirs.
    """
    yield from _script(_UNRANK, keys, removed, (item.id for item in entities))
    for entity in entities:
        yield hash_command(keys.entity(entity.id), entity_hash(entity, owner_ids, vectors.get(entity.id)))
    if entities:
        yield "SADD", keys.touched, *(item.id for item in entities)


def rank_command(keys: Keys) -> Command:
    """Return what puts in order all that the commands before have touched."""
    return "EVAL", _RANK, 0, keys.prefix


def hash_command(key: str, fields: Mapping[str, str]) -> Command:
    """Return what sets fields of a hash."""
    return "HSET", key, *chain.from_iterable(fields.items())


def _script(script: str, keys: Keys, *ids: Iterable[str]) -> Iterator[Command]:
    if wanted := list(chain(*ids)):
        yield "EVAL", script, 0, keys.prefix, *wanted
