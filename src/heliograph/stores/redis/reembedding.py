"""The second set of vectors in Redis: one hash per collection, which takes the place of the first in one commit."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from heliograph.embedding.base import EmbeddingInfo
from heliograph.errors import ConflictError
from heliograph.stores.changeset import Collection, VectorBatch
from heliograph.stores.redis.changes import forget_changes
from heliograph.stores.redis.committer import Committer, Head
from heliograph.stores.redis.outbox import reset_command
from heliograph.stores.redis.replies import drop_answers
from heliograph.stores.redis.session import Command, CommitSession, Session
from heliograph.stores.redis.vector_index import VECTOR_SCANS
from heliograph.stores.reembedding import Reembedding

__all__ = ["RedisReembedding"]

_NEXT = ("next_embedding_name", "next_embedding_dimension")
_PRESENT = ("embedding_name", "embedding_dimension")
# Ids in one command, so that none keeps Redis busy for long.
_MOST_IDS = 500
_MOST_LOOKED_AT = 10_000
# ARGV: prefix, name and dimension wanted (empty to drop what was begun), collections.
_BEGIN = """
local p = ARGV[1]
local begun = redis.call('HMGET', p .. 'home', 'next_embedding_name', 'next_embedding_dimension')
if ARGV[2] ~= '' and begun[1] == ARGV[2] and begun[2] == ARGV[3] then return end
for i = 4, #ARGV do redis.call('UNLINK', p .. 'next:' .. ARGV[i]) end
if ARGV[2] ~= '' then
  redis.call('HSET', p .. 'home', 'next_embedding_name', ARGV[2], 'next_embedding_dimension', ARGV[3])
else
  redis.call('HDEL', p .. 'home', 'next_embedding_name', 'next_embedding_dimension')
end
"""
# KEYS: all ids, next vectors; ARGV: id to begin after, ids wanted, ids to look at. Answers the last id looked at, empty
# at the end, and those found.
_PENDING = """
local after, wanted, left, found = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), {}
while left > 0 do
  local ids = redis.call('ZRANGEBYLEX', KEYS[1], after == '' and '-' or '(' .. after, '+', 'LIMIT', 0, 500)
  if #ids == 0 then return {'', found} end
  for _, id in ipairs(ids) do
    after = id
    if redis.call('HEXISTS', KEYS[2], id) == 0 then
      found[#found + 1] = id
      if #found >= wanted then return {after, found} end
    end
  end
  left = left - #ids
end
return {after, found}
"""
# KEYS: home, all ids, next vectors; ARGV: name and dimension begun, then id and vector. Answers name and dimension
# that are begun; with others than these nothing is kept.
_PUT = """
local begun = redis.call('HMGET', KEYS[1], 'next_embedding_name', 'next_embedding_dimension')
if begun[1] == ARGV[1] and begun[2] == ARGV[2] then
  for i = 3, #ARGV, 2 do
    if redis.call('ZSCORE', KEYS[2], ARGV[i]) then redis.call('HSET', KEYS[3], ARGV[i], ARGV[i + 1]) end
  end
end
return {begun[1] or '', begun[2] or '0'}
"""


class RedisReembedding(Reembedding):
    """Fills the next hashes and renames them.

    Args:
        session: Reads and writes the keys.
        committer: Makes the commit of the switch.
    """

    def __init__(self, session: Session, committer: Committer) -> None:
        self._session = session
        self._committer = committer
        self._begun: tuple[str, int] | None = None

    async def begin(self, embedding: EmbeddingInfo) -> None:
        """See `Reembedding`."""
        await self._session.write([self._begin(embedding.name, embedding.dimension)])
        self._begun = (embedding.name, embedding.dimension)

    async def find_pending(self, collection: Collection, after: str, limit: int) -> list[str]:
        """See `Reembedding`."""
        keys, pending = self._keys(collection), list[str]()
        while len(pending) < limit:
            arguments = (after, limit - len(pending), _MOST_LOOKED_AT)
            after, found = await self._session.read_one("EVAL", _PENDING, len(keys), *keys, *arguments)
            pending += found
            if not after:
                break
        return pending

    async def put(self, collection: Collection, batch: VectorBatch) -> None:
        """See `Reembedding`."""
        self._check(self._begun)
        keys = self._session.keys.home, *self._keys(collection)
        rows = np.ascontiguousarray(batch.vectors, np.float32)
        for start in range(0, len(batch.ids), _MOST_IDS):
            part = slice(start, start + _MOST_IDS)
            pairs = zip(batch.ids[part], rows[part], strict=True)
            vectors = (item for id_, row in pairs for item in (id_, row.tobytes()))
            command = ("EVAL", _PUT, len(keys), *keys, *(self._begun or ()), *vectors)
            ((name, dimension),) = await self._session.write([command])
            self._check((name, int(dimension)) if name else None)

    async def finish(self) -> int:
        """See `Reembedding`."""
        self._check(self._begun)
        version = await self._committer.run(self._switch)
        self._begun = None
        return version

    async def abandon(self) -> None:
        """See `Reembedding`."""
        await self._session.write([self._begin("", 0)])

    async def _switch(self, session: CommitSession, head: Head) -> Sequence[Command]:
        """Return what puts the second set in the first one's place, which nobody changes meanwhile."""
        counted = [("ZCARD", self._keys(item)[0]) for item in Collection]
        present = [("HLEN", self._keys(item)[1]) for item in Collection]
        (name, dimension), *counts = await session.read([("HMGET", session.keys.home, *_NEXT), *counted, *present])
        self._check(None if name is None else (name, int(dimension)))
        commands: list[Command] = []
        for collection, wanted, there in zip(Collection, counts, counts[len(counted) :], strict=False):
            if missing := wanted - there:
                raise ConflictError(f"{missing} vectors of {collection.value} are not embedded yet; run reembed again")
            vectors, following = session.keys.vectors(collection), session.keys.next_vectors(collection)
            commands.append(("RENAME", following, vectors) if there else ("UNLINK", vectors))
        home = session.keys.home
        commands.append(("HSET", home, _PRESENT[0], str(name), _PRESENT[1], int(dimension)))
        commands.append(("HDEL", home, *_NEXT))
        commands += [*forget_changes(session.keys, head.version + 1), drop_answers(session.keys)]
        return [*commands, reset_command(session.keys)]

    def _begin(self, name: str, dimension: int) -> Command:
        collections = (item.value for item in Collection)
        return ("EVAL", _BEGIN, 0, self._session.keys.prefix, name, dimension, *collections)

    def _keys(self, collection: Collection) -> tuple[str, str]:
        keys = self._session.keys
        return keys.ids(VECTOR_SCANS[collection]), keys.next_vectors(collection)

    def _check(self, stored: tuple[str, int] | None) -> None:
        if stored is None or stored != self._begun:
            raise ConflictError(
                f"the workspace is not being embedded anew with {self._begun!r} but with {stored!r}; begin again"
            )
