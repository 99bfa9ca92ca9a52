"""Projections in memory, and the switch that takes them out of reach: for tests of what stands beside a store."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from heliograph.errors import StoreUnavailable
from heliograph.stores.base import CachedReply, Hit
from heliograph.stores.changeset import Collection, OutboxKind
from heliograph.stores.projection import (
    CacheProjection,
    GraphProjection,
    Projection,
    ProjectionChange,
    TextProjection,
    VectorProjection,
)
from heliograph.testing.memory_store import MemoryGraphStore, MemoryTextStore

__all__ = ["MemoryCacheProjection", "MemoryGraphProjection", "MemoryTextProjection", "MemoryVectorProjection"]

_ANSWERS = "query"
_COLLECTIONS = {
    OutboxKind.CHUNKS: Collection.CHUNKS,
    OutboxKind.ENTITIES: Collection.ENTITIES,
    OutboxKind.RELATIONS: Collection.RELATIONS,
}
_SEARCHED = {OutboxKind.CHUNKS: Collection.CHUNKS, OutboxKind.ENTITIES: Collection.ENTITIES}


class _MemoryProjection(Projection):
    """Keeps the cursor.

    Attributes:
        is_down: Set to have every change fail as an engine out of reach does.
        applied: How many changes were taken in.
        cleared: How often it was made anew.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_down = False
        self.applied = 0
        self.cleared = 0
        self._cursor = -1

    async def get_cursor(self) -> int:
        self._check()
        return self._cursor

    async def set_cursor(self, version: int) -> None:
        self._check()
        self._cursor = version

    async def apply(self, change: ProjectionChange) -> None:
        self._check()
        self.applied += 1
        self._take_in(change)

    async def clear(self) -> None:
        self._check()
        self.cleared += 1
        self._cursor = -1
        self._empty()

    async def scan(self, kind: OutboxKind, after: str, limit: int) -> list[str]:
        return sorted(id_ for id_ in self._ids(kind) if id_ > after)[:limit]

    def _check(self) -> None:
        if self.is_down:
            raise StoreUnavailable(f"{self.name!r} is switched off; set is_down to False")

    def _take_in(self, change: ProjectionChange) -> None:
        raise NotImplementedError

    def _empty(self) -> None:
        raise NotImplementedError

    def _ids(self, kind: OutboxKind) -> Sequence[str]:
        raise NotImplementedError


class MemoryGraphProjection(_MemoryProjection, MemoryGraphStore, GraphProjection):
    """Entities and relations in dictionaries."""

    def __init__(self, name: str = "graph:memory") -> None:
        _MemoryProjection.__init__(self, name)
        MemoryGraphStore.__init__(self)

    def _take_in(self, change: ProjectionChange) -> None:
        removed = change.removed
        self.remove(removed.get(OutboxKind.ENTITIES, ()), removed.get(OutboxKind.RELATIONS, ()))
        self.upsert(change.entities, change.relations, 0)
        # When things first appeared is what the truth says.
        moments = {item.id: item.created_at for item in (*self.entities.values(), *self.relations.values())}
        moments |= {item.id: item.created_at for item in (*change.entities, *change.relations)}
        self.date(moments)

    def _empty(self) -> None:
        self.remove(list(self.entities), list(self.relations))

    def _ids(self, kind: OutboxKind) -> Sequence[str]:
        return list(self.entities if kind is OutboxKind.ENTITIES else self.relations)


class MemoryVectorProjection(_MemoryProjection, VectorProjection):
    """Vectors in dictionaries."""

    def __init__(self, name: str = "vectors:memory") -> None:
        super().__init__(name)
        self._vectors: dict[Collection, dict[str, NDArray[np.float32]]] = {item: {} for item in Collection}

    async def search(
        self, collection: Collection, vector: NDArray[np.float32], limit: int, min_score: float
    ) -> list[Hit]:
        hits = [Hit(id_, float(known @ vector)) for id_, known in self._vectors[collection].items()]
        return sorted((hit for hit in hits if hit.score >= min_score), key=lambda hit: (-hit.score, hit.id))[:limit]

    async def get_vectors(self, collection: Collection, ids: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        return {id_: self._vectors[collection][id_] for id_ in ids if id_ in self._vectors[collection]}

    def _take_in(self, change: ProjectionChange) -> None:
        for kind, collection in _COLLECTIONS.items():
            for id_ in change.removed.get(kind, ()):
                self._vectors[collection].pop(id_, None)
            self._vectors[collection] |= change.vectors.get(collection, {})

    def _empty(self) -> None:
        for vectors in self._vectors.values():
            vectors.clear()

    def _ids(self, kind: OutboxKind) -> Sequence[str]:
        return list(self._vectors[_COLLECTIONS[kind]])


class MemoryTextProjection(_MemoryProjection, MemoryTextStore, TextProjection):
    """Terms in dictionaries."""

    def __init__(self, name: str = "text:memory") -> None:
        _MemoryProjection.__init__(self, name)
        MemoryTextStore.__init__(self)

    async def compare(self, expected: ProjectionChange) -> set[str]:
        return {
            entry.id
            for collection, entries in expected.texts.items()
            for entry in entries
            if self.terms(collection).get(entry.id) != list(entry.terms)
        }

    def _take_in(self, change: ProjectionChange) -> None:
        for kind, collection in _SEARCHED.items():
            self.remove(collection, change.removed.get(kind, ()))
            self.upsert(collection, change.texts.get(collection, ()))

    def _empty(self) -> None:
        for collection in _SEARCHED.values():
            self.remove(collection, list(self.terms(collection)))

    def _ids(self, kind: OutboxKind) -> Sequence[str]:
        return list(self.terms(_SEARCHED[kind]))


class MemoryCacheProjection(_MemoryProjection, CacheProjection):
    """Replies in a dictionary."""

    def __init__(self, name: str = "cache:memory") -> None:
        super().__init__(name)
        self._replies: dict[str, CachedReply] = {}

    async def get_reply(self, key: str) -> CachedReply | None:
        return self._replies.get(key)

    async def put_reply(self, reply: CachedReply) -> None:
        self._replies[reply.key] = reply

    async def delete_replies(self, cache_type: str | None = None) -> int:
        doomed = [key for key in self._replies if cache_type in (None, key.split(":", 2)[1])]
        for key in doomed:
            del self._replies[key]
        return len(doomed)

    async def set_cursor(self, version: int) -> None:
        await super().set_cursor(version)
        await self.delete_replies(_ANSWERS)

    def _take_in(self, change: ProjectionChange) -> None:
        subjects = set(change.removed.get(OutboxKind.SUBJECTS, ())) - {""}
        kept = set(change.kept_replies)
        doomed = [key for key, reply in self._replies.items() if reply.subject_id in subjects and key not in kept]
        for key in doomed:
            del self._replies[key]

    def _empty(self) -> None:
        self._replies.clear()

    def _ids(self, kind: OutboxKind) -> Sequence[str]:  # noqa: ARG002 (replies have keys of another kind)
        return list(self._replies)
