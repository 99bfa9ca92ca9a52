"""How the roles of a view read: together with what the filter leaves at that moment, again if a commit came between."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from heliograph.filters import Filter
from heliograph.models import EntityMention, RelationMention
from heliograph.stores.base import Fold
from heliograph.stores.redis.catalogue import Catalogue
from heliograph.stores.redis.codec import load_entity_mention, load_relation_mention
from heliograph.stores.redis.scope import RedisScope, make_scope
from heliograph.stores.redis.session import Session
from heliograph.stores.scoped.reading import EntitySaid, RelationSaid, ScopedReading
from heliograph.stores.scoped.scope import ScopeMemory

__all__ = ["RedisReader", "RedisReading"]

T = TypeVar("T")
M = TypeVar("M", EntityMention, RelationMention)

# While others commit again and again, the last of these readings is as good as any: each call sees its own moment, but
# for what was committed in its course.
_TRIES = 3
_MOST_MENTIONS = 500
# ARGV: prefix, kind, then chunk and ordinal of each mention.
_MENTIONS = """
local p, found = ARGV[1] .. 'said:' .. ARGV[2] .. ':', {}
for i = 3, #ARGV, 2 do found[#found + 1] = redis.call('LINDEX', p .. ARGV[i], ARGV[i + 1]) or '' end
return found
"""


@dataclass(frozen=True, slots=True)
class RedisReading(ScopedReading):
    """What a filter leaves of one moment, and reading as of that moment."""

    scope: RedisScope
    session: Session

    async def read_entity_mentions(self, ids: Sequence[str]) -> Mapping[str, EntitySaid]:
        """See `ScopedReading`."""
        return await self._read("entities", ids, load_entity_mention)

    async def read_relation_mentions(self, ids: Sequence[str]) -> Mapping[str, RelationSaid]:
        """See `ScopedReading`."""
        return await self._read("relations", ids, load_relation_mention)

    async def _read(
        self, kind: str, ids: Sequence[str], load: Callable[[str, str], M]
    ) -> dict[str, tuple[int, list[M]]]:
        places = [(id_, chunk, ordinal) for id_ in dict.fromkeys(ids) for chunk, ordinal in self.scope.places(id_)]
        found: dict[str, tuple[int, list[M]]] = {}
        for start in range(0, len(places), _MOST_MENTIONS):
            part = places[start : start + _MOST_MENTIONS]
            arguments: list[Any] = [item for _, chunk, ordinal in part for item in (chunk, ordinal)]
            texts = await self.session.read_one("EVAL", _MENTIONS, 0, self.session.keys.prefix, kind, *arguments)
            for (id_, chunk, _), text in zip(part, texts, strict=True):
                if text:
                    moment = self.scope.moments[self.scope.chunks[chunk]]
                    first, said = found.get(id_, (moment, list[M]()))
                    said.append(load(chunk, text))
                    found[id_] = min(first, moment), said
        for _, said in found.values():
            # Those of one chunk are in their order already.
            said.sort(key=lambda mention: (mention.rank, mention.chunk_id))
        return found


@dataclass(frozen=True, slots=True)
class RedisReader:
    """Reads under one filter."""

    session: Session
    catalogue: Catalogue
    scopes: ScopeMemory[RedisScope]
    filter: Filter
    fold: Fold

    async def read(self, work: Callable[[RedisReading], Awaitable[T]]) -> T:
        """Run `work` on what the filter leaves now."""
        for _ in range(_TRIES - 1):
            version, result = await self._read(work)
            if version == await self.catalogue.get_version():
                return result
        return (await self._read(work))[1]

    async def _read(self, work: Callable[[RedisReading], Awaitable[T]]) -> tuple[int, T]:
        documents = await self.catalogue.catch_up()
        make = lambda: make_scope(self.session, documents, self.filter)  # noqa: E731 (said where it is used)
        scope = await self.scopes.get(self.filter, self.fold, documents.version, make)
        return documents.version, await work(RedisReading(scope, self.fold, self.session))
