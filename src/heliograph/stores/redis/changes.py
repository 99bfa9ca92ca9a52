"""Which things changed in which commit, so that what a process holds in memory can be brought up to date.

A sorted set per kind holds each id once, by the data version of its last change; and "" by the version up to which
changes are not known, after all of it was changed at once. Changes of the last ten thousand commits are kept.
"""

from __future__ import annotations

from collections.abc import Sequence

from heliograph.stores.changeset import Collection
from heliograph.stores.redis.keys import Keys
from heliograph.stores.redis.session import Command

__all__ = ["CHANGED_IDS", "forget_changes", "note_changes"]

# Who is further behind reads all anew.
_KEPT_VERSIONS = 10_000
# Ids in one command, so that none keeps Redis busy for long.
_MOST_IDS = 500
# Defines a function that answers ids that changed since a data version; false where all is to be read anew. It is so
# too where Redis was put back to an earlier state since, which shows in the token of the commit that was seen last.
CHANGED_IDS = """
local function changed_ids(prefix, key, version, known, token, most)
  if known < 0 or known > version then return false end
  local seen = redis.call('LINDEX', prefix .. 'commits', version - known)
  local forgotten = tonumber(redis.call('ZSCORE', key, '') or '-1')
  if seen and seen ~= token or forgotten > known then return false end
  if redis.call('ZCOUNT', key, '(' .. known, '+inf') > most then return false end
  return redis.call('ZRANGEBYSCORE', key, '(' .. known, '+inf')
end
"""


def note_changes(key: str, ids: Sequence[str], version: int) -> list[Command]:
    """Return what notes that these ids changed in a commit."""
    parts = [ids[start : start + _MOST_IDS] for start in range(0, len(ids), _MOST_IDS)]
    commands: list[Command] = [("ZADD", key, *(item for id_ in part for item in (version, id_))) for part in parts]
    oldest = version - _KEPT_VERSIONS
    return [*commands, ("ZREMRANGEBYSCORE", key, "-inf", oldest), ("ZADD", key, "NX", oldest, "")]


def forget_changes(keys: Keys, version: int) -> list[Command]:
    """Return what has every process read all anew: what changed up to this data version is not known."""
    changed = [*map(keys.changed_vectors, Collection), keys.changed_documents]
    return [command for key in changed for command in (("DEL", key), ("ZADD", key, version, ""))]
