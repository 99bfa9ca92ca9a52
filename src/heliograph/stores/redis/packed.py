"""Many small values in one answer: scripts that make one JSON text of what hashes and sets hold.

The driver takes as long over every part of an answer as Redis takes over all of it, so one text is read much faster.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from heliograph.stores.redis.session import Session

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


async def read_hashes(session: Session, kind: str, ids: Sequence[str], fields: Sequence[str]) -> list[list[str] | None]:
    """Return the fields of a hash per id, None where there is no first one; of entities the degree comes last.

    Args:
        session: Reads.
        kind: `entity` or `relation`.
        ids: Of hashes.
        fields: Of each.
    """
    rows = await ask_packed(session, _HASHES, ids, f"{kind}:", len(fields), *fields)
    return [row or None for row in rows]


async def ask_packed(session: Session, script: str, ids: Sequence[str], *arguments: str | int) -> list[Any]:
    """Return what a script answers in JSON texts, one after the other, some ids at a time in one round trip.

    Args:
        session: Reads.
        script: Takes the prefix, the arguments, then ids, and answers a list that is not empty.
        ids: At the end of the arguments; without any nothing is asked.
        arguments: Further ones.
    """
    windows = [ids[start : start + _MOST_IDS] for start in range(0, len(ids), _MOST_IDS)]
    prefix = session.keys.prefix
    texts = await session.read([("EVAL", script, 0, prefix, *arguments, *window) for window in windows])
    return [row for text in texts for row in json.loads(text)]
