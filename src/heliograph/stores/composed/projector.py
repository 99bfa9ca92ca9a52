"""Brings one projection up to date with the store that holds the truth: the write order and its repair.

The truth is committed first, with the ids of what changed in its outbox. Then, under a lock that one process holds at a
time, the projector reads entries after the projection's cursor, looks up what is there now, hands it on, and moves the
cursor. Whatever fails in between is done again from the cursor. A projection that is new, lost its data, or fell behind
what the outbox still knows is made anew, page by page.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from heliograph.models import Chunk, Document, Entity
from heliograph.stores.base import Follower, FollowerDifference, Store
from heliograph.stores.changeset import Collection
from heliograph.stores.composed.comparison import compare_ids
from heliograph.stores.inspection import ScanKind
from heliograph.stores.outbox import Outbox, OutboxEntry, OutboxKind
from heliograph.stores.projection import CacheProjection, GraphProjection, Projection, ProjectionChange

__all__ = ["Projector"]

_PAGE = 500
_MAX_TRIES = 5
_COLLECTIONS = {
    OutboxKind.CHUNKS: Collection.CHUNKS,
    OutboxKind.ENTITIES: Collection.ENTITIES,
    OutboxKind.RELATIONS: Collection.RELATIONS,
}
_SCANS = {
    OutboxKind.DOCUMENTS: ScanKind.DOCUMENTS,
    OutboxKind.CHUNKS: ScanKind.CHUNKS,
    OutboxKind.ENTITIES: ScanKind.ENTITIES,
    OutboxKind.RELATIONS: ScanKind.RELATIONS,
}


@dataclass(frozen=True, slots=True)
class _Origins:
    owners: Mapping[str, Document] = field(default_factory=dict[str, Document])
    owner_ids: Mapping[str, str] = field(default_factory=dict[str, str])
    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])


class Projector(Follower):
    """Keeps one projection in step.

    Args:
        home: Holds the truth.
        outbox: Of that store.
        projection: What follows.
    """

    def __init__(self, home: Store, outbox: Outbox, projection: Projection) -> None:
        self.name = projection.name
        self.role = _role(projection)
        self.projection = projection
        self._home = home
        self._outbox = outbox
        self._turn = asyncio.Lock()

    async def measure_lag(self) -> int:
        """See `Follower`."""
        readers = await self._outbox.get_readers()
        return await self._home.get_data_version() - readers.get(self.projection.name, 0)

    async def catch_up(self) -> bool:
        """Bring the projection up to date; return whether it is, or False if another process is at it.

        Raises:
            StoreUnavailable: Either store is out of reach; what was taken in stays.
        """
        name = self.projection.name
        await self._outbox.register(name)
        # Tasks of this process wait for one another, so that a commit is not left behind because one was at it already.
        async with self._turn, self._outbox.lock(name) as is_held:
            if not is_held:
                return False
            cursor = await self._settled_cursor()
            while entries := await self._outbox.read(cursor, _PAGE):
                cursor = entries[-1].version
                await self._take_in(entries, cursor)
            # Versions that changed nothing here have no entries.
            if (version := await self._last_quiet_version(cursor)) > cursor:
                await self._move(version)
        return True

    async def rebuild(self) -> None:
        """See `Follower`."""
        await self._outbox.register(self.projection.name)
        await self._outbox.reset(self.projection.name)
        await self.catch_up()

    async def find_differences(self) -> list[FollowerDifference]:
        """See `Follower`; looked at again if a commit came in between."""
        found: list[FollowerDifference] = []
        for _ in range(_MAX_TRIES):
            await self.catch_up()
            version = await self._home.get_data_version()
            found = await compare_ids(self._home.inspection, self.projection)
            if not found or await self._home.get_data_version() == version:
                break
        return found

    async def _settled_cursor(self) -> int:
        """Return where to go on from; a projection that knows less than the outbox remembers starts anew."""
        cursor = await self.projection.get_cursor()
        acknowledged = (await self._outbox.get_readers()).get(self.projection.name, 0)
        # What never acknowledged anything may hold the data of another store that had its name.
        if acknowledged < 0 or cursor < acknowledged or cursor > await self._home.get_data_version():
            cursor = await self._make_anew()
            await self._move(cursor)
        return cursor

    async def _take_in(self, entries: Sequence[OutboxEntry], version: int) -> None:
        if any(entry.kind is OutboxKind.RESET for entry in entries):
            version = max(version, await self._make_anew())
        else:
            async for change in self._changes(entries):
                await self.projection.apply(change)
        await self._move(version)

    async def _move(self, version: int) -> None:
        await self.projection.set_cursor(version)
        await self._outbox.acknowledge(self.projection.name, version)

    async def _last_quiet_version(self, cursor: int) -> int:
        version = await self._home.get_data_version()
        # A commit between the two reads has entries, which are then read from the cursor.
        return cursor if await self._outbox.read(cursor, 1) else version

    async def _make_anew(self) -> int:
        version = await self._home.get_data_version()
        await self.projection.clear()
        for kind in sorted(self.projection.kinds & set(_SCANS)):
            after = ""
            while ids := await self._home.inspection.scan(_SCANS[kind], after, _PAGE):
                await self.projection.apply(await self._look_up({kind: ids}))
                after = ids[-1]
        return version

    async def _changes(self, entries: Sequence[OutboxEntry]) -> AsyncGenerator[ProjectionChange]:
        for start in range(0, len(entries), _PAGE):
            ids: dict[OutboxKind, list[str]] = {}
            for entry in entries[start : start + _PAGE]:
                ids.setdefault(entry.kind, []).append(entry.id)
            kept = {OutboxKind.KEPT_REPLIES: [e.id for e in entries if e.kind is OutboxKind.KEPT_REPLIES]}
            yield await self._look_up(ids | kept)

    async def _look_up(self, ids: Mapping[OutboxKind, Sequence[str]]) -> ProjectionChange:
        """Return what is there now under these ids, and which of them are gone."""
        wanted = {kind: list(named) for kind, named in ids.items() if kind in self.projection.kinds}
        documents = await self._home.records.get_documents(wanted.get(OutboxKind.DOCUMENTS, []))
        chunks = await self._home.records.get_chunks(wanted.get(OutboxKind.CHUNKS, []))
        entities = await self._home.graph.get_entities(wanted.get(OutboxKind.ENTITIES, []))
        relations = await self._home.graph.get_relations(wanted.get(OutboxKind.RELATIONS, []))
        origins = await self._find_origins(chunks, entities) if self.projection.needs_origins else _Origins()
        there = {item.id for item in (*documents, *chunks, *entities, *relations)}
        return ProjectionChange(
            documents=tuple(documents),
            chunks=tuple(chunks),
            entities=tuple(entities),
            relations=tuple(relations),
            vectors=await self._vectors(wanted) if self.projection.needs_vectors else {},
            owners=origins.owners,
            owner_ids=origins.owner_ids,
            names=origins.names,
            chunk_ids=await self._chunk_ids(documents) if self.projection.needs_origins else {},
            removed={kind: [id_ for id_ in named if id_ not in there] for kind, named in wanted.items()},
            kept_replies=tuple(ids.get(OutboxKind.KEPT_REPLIES, ())),
        )

    async def _vectors(
        self, wanted: Mapping[OutboxKind, Sequence[str]]
    ) -> dict[Collection, Mapping[str, NDArray[np.float32]]]:
        return {
            _COLLECTIONS[kind]: await self._home.vectors.get_vectors(_COLLECTIONS[kind], named)
            for kind, named in wanted.items()
            if kind in _COLLECTIONS
        }

    async def _chunk_ids(self, documents: Sequence[Document]) -> dict[str, tuple[str, ...]]:
        read = self._home.records.get_document_chunks
        return {item.id: tuple(chunk.id for chunk in await read(item.id)) for item in documents}

    async def _find_origins(self, chunks: Sequence[Chunk], entities: Sequence[Entity]) -> _Origins:
        owner_ids = {chunk.id: chunk.document_id for chunk in chunks}
        missing = sorted({id_ for entity in entities for id_ in entity.chunk_ids} - set(owner_ids))
        for start in range(0, len(missing), _PAGE):
            others = await self._home.records.get_chunks(missing[start : start + _PAGE])
            owner_ids |= {chunk.id: chunk.document_id for chunk in others}
        documents = await self._home.records.get_documents(sorted({chunk.document_id for chunk in chunks}))
        read = await self._home.records.get_extractions([chunk.id for chunk in chunks])
        names = {item.chunk_id: tuple(dict.fromkeys(mention.name for mention in item.entities)) for item in read}
        return _Origins({item.id: item for item in documents}, owner_ids, names)


def _role(projection: Projection) -> str:
    if isinstance(projection, GraphProjection):
        return "graph"
    return "cache" if isinstance(projection, CacheProjection) else "vectors"
