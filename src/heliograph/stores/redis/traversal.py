"""Reading the graph of one workspace: entities, relations, and the ways between them."""

from __future__ import annotations

import collections.abc
from collections.abc import Sequence
from typing import Any

from heliograph.ids import relation_id
from heliograph.models import Entity, Relation
from heliograph.stores.base import IncidentRelation
from heliograph.stores.redis.hashes import ENTITY_FIELDS, RELATION_FIELDS, to_entity, to_relation
from heliograph.stores.redis.packed import ask_packed, read_hashes
from heliograph.stores.redis.session import Session
from heliograph.stores.stepping import SteppingGraphStore

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


class RedisGraphStore(SteppingGraphStore):
    """The graph as keys that other programs can read.

    Args:
        session: Reads the keys.
    """

    def __init__(self, session: Session) -> None:
        self._graph = session

    async def get_entities(self, ids: Sequence[str]) -> list[Entity]:
        rows = await read_hashes(self._graph, "entity", ids, ENTITY_FIELDS)
        return [to_entity(id_, row[:-1], int(row[-1])) for id_, row in zip(ids, rows, strict=True) if row]

    async def get_relations(self, ids: Sequence[str]) -> list[Relation]:
        rows = await read_hashes(self._graph, "relation", ids, RELATION_FIELDS)
        return [to_relation(id_, row) for id_, row in zip(ids, rows, strict=True) if row]

    async def rank_incident_relations(self, entity_ids: Sequence[str]) -> list[IncidentRelation]:
        ids = list(dict.fromkeys(entity_ids))
        rows = await ask_packed(self._graph, _STEPS, ids, _WITH_DEGREES)
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
        members = await self._graph.read_one("ZRANGE", self._graph.keys.entities, offset, offset + limit - 1)
        return await self.get_entities([member_id(member) for member in members])

    async def find_relations_among(self, entity_ids: Sequence[str]) -> list[Relation]:
        wanted = list(dict.fromkeys(entity_ids))
        if not wanted:
            return []
        ends: list[str] = await self._graph.read_one("EVAL", _AMONG, 0, self._graph.keys.prefix, *wanted)
        ids = [relation_id(near, far) for near, far in zip(ends[::2], ends[1::2], strict=True)]
        return sorted(await self.get_relations(ids), key=lambda relation: (-relation.weight, relation.id))

    async def find_steps(self, entity_ids: collections.abc.Collection[str], limit: int | None) -> list[tuple[str, str, float]]:
        ordered = sorted(entity_ids)
        rows = await ask_packed(self._graph, _STEPS, ordered, "")
        steps = [
            (near, far, float(weight))
            for near, (_, *row) in zip(ordered, rows, strict=True)
            for far, weight in sorted(zip(row[::2], row[1::2], strict=True))
        ]
        return steps[:limit]

    async def order_entities(self, entity_ids: collections.abc.Collection[str], limit: int) -> list[str]:
        ids = list(entity_ids)
        rows = await read_hashes(self._graph, "entity", ids, ["name"])
        found = sorted((-int(row[1]), row[0], id_) for id_, row in zip(ids, rows, strict=True) if row)
        return [id_ for *_, id_ in found[:limit]]


def member_id(member: Any) -> str:
    """Return the id at the end of a member of a sorted set."""
    return str(member).rpartition("\0")[2]
