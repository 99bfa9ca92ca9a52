"""Names of entities: a sorted set of their keys for beginnings, a set of ids per piece of a name for the rest.

Candidates are found by these, and their names looked at, so that order and distance of the pieces need not be kept.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from heliograph.stores.changeset import Changeset
from heliograph.stores.name_pieces import keys_of, pieces_within, terms_of
from heliograph.stores.names import NameIndex, rank_names
from heliograph.stores.redis.keys import Keys
from heliograph.stores.redis.session import Command, Session
from heliograph.text.names import entity_key

__all__ = ["NameChange", "RedisNameIndex", "change_commands", "name_commands"]

_MOST_READ = 2_000
_MOST_LOOKED_AT = 50_000
# ARGV: ids at the most, members looked at at the most. Ids that are in all KEYS, from the smallest set.
_CONTAINS = """
local smallest, size = KEYS[1], redis.call('SCARD', KEYS[1])
for i = 2, #KEYS do
  local other = redis.call('SCARD', KEYS[i])
  if other < size then smallest, size = KEYS[i], other end
end
local found, cursor, seen = {}, '0', 0
repeat
  local page = redis.call('SSCAN', smallest, cursor, 'COUNT', 500)
  cursor = page[1]
  for _, id in ipairs(page[2]) do
    local is_in = true
    for i = 1, #KEYS do
      if KEYS[i] ~= smallest and redis.call('SISMEMBER', KEYS[i], id) == 0 then is_in = false; break end
    end
    if is_in then found[#found + 1] = id end
  end
  seen = seen + #page[2]
until cursor == '0' or #found >= tonumber(ARGV[1]) or seen >= tonumber(ARGV[2])
return found
"""
# ARGV: where ids of entities stand, without piece, then id, pieces lost and pieces won of each entity.
_PIECES = """
for i = 2, #ARGV, 3 do
  for piece in ARGV[i + 1]:gmatch('%S+') do redis.call('SREM', ARGV[1] .. piece, ARGV[i]) end
  for piece in ARGV[i + 2]:gmatch('%S+') do redis.call('SADD', ARGV[1] .. piece, ARGV[i]) end
end
"""


@dataclass(frozen=True, slots=True)
class NameChange:
    """The keys of an entity's names before a commit and after it."""

    id: str
    before: set[str]
    after: set[str]


class RedisNameIndex(NameIndex):
    """Names in sets.

    Args:
        session: Reads the keys.
    """

    def __init__(self, session: Session) -> None:
        self._session = session

    async def find_names(self, text: str, limit: int) -> list[str]:
        """See `NameIndex`; 2,000 names that begin with the text are ranked, and as many that contain it."""
        key = entity_key(text)
        if not key or limit < 1:
            return []
        keys, start = self._session.keys, key.encode("utf-8", "surrogatepass")
        pieces = [keys.piece(piece) for piece in pieces_within(key)]
        begins: Command = ("ZRANGEBYLEX", keys.names, b"[" + start, b"(" + start + b"\xff", "LIMIT", 0, _MOST_READ)
        contains: Command = ("EVAL", _CONTAINS, len(pieces), *pieces, _MOST_READ, _MOST_LOOKED_AT)
        places, *rest = await self._session.read([begins, contains] if pieces else [begins])
        ids = dict.fromkeys([*(place.rpartition("\0")[2] for place in places), *(rest[0] if rest else ())])
        return await self._ranked(list(ids), text, limit)

    async def _ranked(self, ids: list[str], text: str, limit: int) -> list[str]:
        if not ids:
            return []
        keys = self._session.keys
        hashes = [("HMGET", keys.entity(id_), "name", "aliases") for id_ in ids]
        *rows, degrees = await self._session.read([*hashes, ("HMGET", keys.degrees, *ids)])
        found = (
            (id_, name, json.loads(aliases), int(degree or 0))
            for id_, (name, aliases), degree in zip(ids, rows, degrees, strict=True)
            if name is not None
        )
        return rank_names(found, text, limit)


async def name_commands(session: Session, changeset: Changeset, version: int) -> list[Command]:  # noqa: ARG001
    """Return what applies to names what a changeset does to entities; most entities keep their names."""
    ids = list(dict.fromkeys([*changeset.removed_entities, *(item.id for item in changeset.entities)]))
    rows = await session.read([("HMGET", session.keys.entity(id_), "name", "aliases") for id_ in ids])
    before = {
        id_: keys_of((name, *json.loads(aliases))) if name is not None else set[str]()
        for id_, (name, aliases) in zip(ids, rows, strict=True)
    }
    after = {item.id: keys_of((item.name, *item.aliases)) for item in changeset.entities}
    changes = [NameChange(id_, before[id_], after.get(id_, set())) for id_ in ids]
    return list(change_commands(session.keys, [change for change in changes if change.before != change.after]))


def change_commands(keys: Keys, changes: Sequence[NameChange]) -> Iterator[Command]:
    """Yield what puts entities under other names than before."""
    gone = [f"{key}\0{item.id}" for item in changes for key in item.before - item.after]
    new = [f"{key}\0{item.id}" for item in changes for key in item.after - item.before]
    if gone:
        yield "ZREM", keys.names, *gone
    if new:
        yield "ZADD", keys.names, *(part for place in new for part in (0, place))
    pieces = [(item.id, set(terms_of(item.before).split()), set(terms_of(item.after).split())) for item in changes]
    rows = [(id_, " ".join(old - now), " ".join(now - old)) for id_, old, now in pieces if old != now]
    if rows:
        yield "EVAL", _PIECES, 0, keys.piece(""), *chain.from_iterable(rows)
