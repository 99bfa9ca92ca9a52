"""Reading the graph of one workspace: entities, relations, and the ways between them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from heliograph.ids import relation_id
from heliograph.models import Entity, Relation
from heliograph.stores.base import IncidentRelation
from heliograph.stores.redis.hashes import ENTITY_FIELDS, RELATION_FIELDS, to_entity, to_relation
from heliograph.stores.redis.session import Session
from heliograph.stores.stepping import SteppingGraphStore

__all__ = ["RedisGraphStore", "member_id"]

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


class RedisGraphStore(SteppingGraphStore):
    """The graph as keys that other programs can read.

    Args:
        session: Reads the keys.
    """

    def __init__(self, session: Session) -> None:
        self._graph = session

    async def get_entities(self, ids: Sequence[str]) -> list[Entity]:
        """See `GraphStore`."""
        if not ids:
            return []
        keys = self._graph.keys
        hashes = [("HMGET", keys.entity(id_), *ENTITY_FIELDS) for id_ in ids]
        *rows, degrees = await self._graph.read([*hashes, ("HMGET", keys.degrees, *ids)])
        return [
            to_entity(id_, fields, int(degree or 0))
            for id_, fields, degree in zip(ids, rows, degrees, strict=True)
            if fields[0] is not None
        ]

    async def get_relations(self, ids: Sequence[str]) -> list[Relation]:
        """See `GraphStore`."""
        rows = await self._graph.read([("HMGET", self._graph.keys.relation(id_), *RELATION_FIELDS) for id_ in ids])
        return [to_relation(id_, fields) for id_, fields in zip(ids, rows, strict=True) if fields[0] is not None]

    async def rank_incident_relations(self, entity_ids: Sequence[str]) -> list[IncidentRelation]:
        """See `GraphStore`."""
        steps = await self.find_steps(list(dict.fromkeys(entity_ids)), None)
        pairs = {(min(near, far), max(near, far)): weight for near, far, weight in steps}
        degrees = await self._degrees({id_ for pair in pairs for id_ in pair})
        ranked = [
            IncidentRelation(relation_id(near, far), degrees[near] + degrees[far], weight)
            for (near, far), weight in pairs.items()
        ]
        return sorted(ranked, key=lambda item: (-item.degree, -item.weight, item.id))

    async def list_entities(self, offset: int, limit: int) -> list[Entity]:
        """See `GraphStore`."""
        if limit < 1:
            return []
        members = await self._graph.read_one("ZRANGE", self._graph.keys.entities, offset, offset + limit - 1)
        return await self.get_entities([member_id(member) for member in members])

    async def find_relations_among(self, entity_ids: Sequence[str]) -> list[Relation]:
        """See `GraphStore`."""
        wanted = list(dict.fromkeys(entity_ids))
        if not wanted:
            return []
        ends: list[str] = await self._graph.read_one("EVAL", _AMONG, 0, self._graph.keys.prefix, *wanted)
        ids = [relation_id(near, far) for near, far in zip(ends[::2], ends[1::2], strict=True)]
        return sorted(await self.get_relations(ids), key=lambda relation: (-relation.weight, relation.id))

    async def find_steps(self, entity_ids: Collection[str], limit: int | None) -> list[tuple[str, str, float]]:
        """See `SteppingGraphStore`."""
        ordered = sorted(entity_ids)
        rows = await self._graph.read([("HGETALL", self._graph.keys.weights(id_)) for id_ in ordered])
        steps = [
            (near, far, float(weight))
            for near, weights in zip(ordered, rows, strict=True)
            for far, weight in sorted(weights.items())
        ]
        return steps[:limit]

    async def order_entities(self, entity_ids: Collection[str], limit: int) -> list[str]:
        """See `SteppingGraphStore`."""
        ids = list(entity_ids)
        if not ids:
            return []
        keys = self._graph.keys
        names = [("HGET", keys.entity(id_), "name") for id_ in ids]
        *rows, degrees = await self._graph.read([*names, ("HMGET", keys.degrees, *ids)])
        found = sorted(
            (-int(degree or 0), name, id_) for id_, name, degree in zip(ids, rows, degrees, strict=True) if name
        )
        return [id_ for *_, id_ in found[:limit]]

    async def _degrees(self, ids: Collection[str]) -> dict[str, int]:
        wanted = list(ids)
        found = await self._graph.read_one("HMGET", self._graph.keys.degrees, *wanted) if wanted else []
        return {id_: int(degree or 0) for id_, degree in zip(wanted, found, strict=True)}


def member_id(member: Any) -> str:
    """Return the id at the end of a member of a sorted set."""
    return str(member).rpartition("\0")[2]
