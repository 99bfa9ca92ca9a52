"""Projections in memory, and the switch that takes them out of reach: for tests of what stands beside a store."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from heliograph.errors import StoreUnavailable
from heliograph.stores.changeset import COLLECTIONS, Collection, OutboxKind
from heliograph.stores.projection import (
    CacheProjection,
    GraphProjection,
    Projection,
    ProjectionChange,
    TextProjection,
    VectorProjection,
)
from tests.memory_store import MemoryGraphStore, MemoryReplyCache, MemoryTextStore, MemoryVectorStore

__all__ = ["MemoryCacheProjection", "MemoryGraphProjection", "MemoryTextProjection", "MemoryVectorProjection"]

_ANSWERS = "query"
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
        # When things first appeared is what the truth says, so what is known already is put anew.
        gone = [*change.removed.get(OutboxKind.ENTITIES, ()), *(item.id for item in change.entities)]
        loose = [*change.removed.get(OutboxKind.RELATIONS, ()), *(item.id for item in change.relations)]
        self.remove(gone, loose)
        moments = {item.id: item.created_at for item in (*change.entities, *change.relations)}
        self.upsert(change.entities, change.relations, 0, moments)

    def _empty(self) -> None:
        self.remove(list(self.entities), list(self.relations))

    def _ids(self, kind: OutboxKind) -> Sequence[str]:
        return list(self.entities if kind is OutboxKind.ENTITIES else self.relations)


class MemoryVectorProjection(_MemoryProjection, MemoryVectorStore, VectorProjection):
    """Vectors in dictionaries."""

    def __init__(self, name: str = "vectors:memory") -> None:
        _MemoryProjection.__init__(self, name)
        MemoryVectorStore.__init__(self)

    def _take_in(self, change: ProjectionChange) -> None:
        for kind, collection in COLLECTIONS.items():
            self.remove(collection, change.removed.get(kind, ()))
            if vectors := change.vectors.get(collection):
                self.upsert(collection, list(vectors), np.stack(list(vectors.values())))

    def _empty(self) -> None:
        for collection in Collection:
            self.remove(collection, list(self.held[collection]))

    def _ids(self, kind: OutboxKind) -> Sequence[str]:
        return list(self.held[COLLECTIONS[kind]])


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


class MemoryCacheProjection(_MemoryProjection, MemoryReplyCache, CacheProjection):
    """Replies in a dictionary."""

    def __init__(self, name: str = "cache:memory") -> None:
        _MemoryProjection.__init__(self, name)
        MemoryReplyCache.__init__(self)

    async def set_cursor(self, version: int) -> None:
        await super().set_cursor(version)
        await self.delete_replies(_ANSWERS)

    def _take_in(self, change: ProjectionChange) -> None:
        self.remove_about(change.removed.get(OutboxKind.SUBJECTS, ()), change.kept_replies)

    def _empty(self) -> None:
        self.replies.clear()

    def _ids(self, kind: OutboxKind) -> Sequence[str]:
        return list(self.replies)
