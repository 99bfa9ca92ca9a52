"""Brings one projection up to date with the store that holds the truth, and keeps it so: looks up, writes, compares."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray

from heliograph.errors import StoreAccessDenied, StoreError, StoreUnavailable
from heliograph.models import Chunk, Document, Entity
from heliograph.stores.base import Follower, FollowerDifference, Inspection, ScanKind, Store
from heliograph.stores.bm25 import chunk_terms, entity_terms
from heliograph.stores.changeset import Collection, Outbox, OutboxEntry, OutboxKind, TextEntry
from heliograph.stores.projection import (
    CacheProjection,
    GraphProjection,
    Projection,
    ProjectionChange,
    TextProjection,
    VectorProjection,
)

# Looks up, in the store with the truth, what is there now of what the outbox names, for one projection.
#
# A change is made of what several reads find, one after the other. A commit in between is noted in the outbox and
# thus looked up again, so that what a projection ends with is of one moment.

_PAGE = 500
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


class Lookup:
    """Makes changes for a projection.

    Args:
        home: Holds the truth.
        projection: For which; says what it needs.
    """

    def __init__(self, home: Store, projection: Projection) -> None:
        self._home = home
        self._projection = projection

    async def everything(self) -> AsyncGenerator[ProjectionChange]:
        """Yield all that there is, page by page."""
        for kind in sorted(self._projection.kinds & set(_SCANS)):
            after = ""
            while ids := await self._home.inspection.scan(_SCANS[kind], after, _PAGE):
                yield await self.look_up({kind: ids})
                after = ids[-1]

    async def changes(self, entries: Sequence[OutboxEntry]) -> AsyncGenerator[ProjectionChange]:
        """Yield what entries name, page by page."""
        for start in range(0, len(entries), _PAGE):
            ids: dict[OutboxKind, list[str]] = {}
            for entry in entries[start : start + _PAGE]:
                ids.setdefault(entry.kind, []).append(entry.id)
            kept = {OutboxKind.KEPT_REPLIES: [e.id for e in entries if e.kind is OutboxKind.KEPT_REPLIES]}
            yield await self.look_up(ids | kept)

    async def look_up(self, ids: Mapping[OutboxKind, Sequence[str]]) -> ProjectionChange:
        """Return what is there now under these ids, and which of them are gone."""
        wanted = {kind: list(named) for kind, named in ids.items() if kind in self._projection.kinds}
        documents = await self._home.records.get_documents(wanted.get(OutboxKind.DOCUMENTS, []))
        chunks = await self._home.records.get_chunks(wanted.get(OutboxKind.CHUNKS, []))
        entities = await self._home.graph.get_entities(wanted.get(OutboxKind.ENTITIES, []))
        relations = await self._home.graph.get_relations(wanted.get(OutboxKind.RELATIONS, []))
        origins = await self._find_origins(chunks, entities) if self._projection.needs_origins else _Origins()
        there = {item.id for item in (*documents, *chunks, *entities, *relations)}
        return ProjectionChange(
            documents=tuple(documents),
            chunks=tuple(chunks),
            entities=tuple(entities),
            relations=tuple(relations),
            vectors=await self._vectors(wanted) if self._projection.needs_vectors else {},
            texts=await self._texts(chunks, entities) if self._projection.needs_texts else {},
            owners=origins.owners,
            owner_ids=origins.owner_ids,
            names=origins.names,
            chunk_ids=await self._chunk_ids(documents) if self._projection.needs_origins else {},
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

    async def _texts(
        self, chunks: Sequence[Chunk], entities: Sequence[Entity]
    ) -> dict[Collection, tuple[TextEntry, ...]]:
        documents = await self._home.records.get_documents(sorted({chunk.document_id for chunk in chunks}))
        titles = {item.id: item.title for item in documents}
        # A page is a tenth of a second of work and more; other tasks go on meanwhile.
        of_chunks = await asyncio.to_thread(
            lambda: tuple(chunk_terms(titles.get(chunk.document_id, ""), chunk) for chunk in chunks)
        )
        return {Collection.CHUNKS: of_chunks, Collection.ENTITIES: tuple(map(entity_terms, entities))}

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


# Comparing what a projection keeps with what it should keep: ids in windows side by side, contents by pages.
#
# Memory holds a window of ids and a page of contents, however large the workspace is.

# Engines that keep no order list all they have for every window, so windows are large.
_WINDOW = 10_000
_EXAMPLES = 5
_COMPARED: Mapping[OutboxKind, ScanKind] = {
    OutboxKind.DOCUMENTS: ScanKind.DOCUMENTS,
    OutboxKind.CHUNKS: ScanKind.CHUNKS,
    OutboxKind.ENTITIES: ScanKind.ENTITIES,
    OutboxKind.RELATIONS: ScanKind.RELATIONS,
}
# Vectors are kept of what has any; documents only stand beside those of their chunks.
_VECTOR_SCANS: Mapping[OutboxKind, ScanKind] = {
    OutboxKind.CHUNKS: ScanKind.CHUNK_VECTORS,
    OutboxKind.ENTITIES: ScanKind.ENTITY_VECTORS,
    OutboxKind.RELATIONS: ScanKind.RELATION_VECTORS,
}

_Scan = Callable[[str, int], Awaitable[Sequence[str]]]


async def compare(inspection: Inspection, lookup: Lookup, projection: Projection) -> list[FollowerDifference]:
    """Return, per kind that differs, how, and what the engine finds wrong with itself.

    Args:
        inspection: Of the store with the truth.
        lookup: Says what the projection should keep.
        projection: What follows; up to date.

    Raises:
        StoreError: One of them cannot be read.
    """
    scans = _VECTOR_SCANS if isinstance(projection, VectorProjection) else _COMPARED
    found: list[FollowerDifference] = []
    for kind in sorted(projection.kinds & scans.keys()):
        missing, stray, changed, examples = 0, 0, 0, list[str]()
        async for here, there in _windows(partial(inspection.scan, scans[kind]), partial(projection.scan, kind)):
            held, kept = set(here), set(there)
            differing: set[str] = set()
            common = sorted(held & kept)
            for start in range(0, len(common), _PAGE):
                expected = await lookup.look_up({kind: common[start : start + _PAGE]})
                differing |= await projection.compare(expected)
            # What stands twice under one id is there once too often.
            missing, stray = missing + len(held - kept), stray + len(there) - len(held & kept)
            changed += len(differing)
            examples += sorted((held ^ kept) | differing)[: _EXAMPLES - len(examples)]
        if missing or stray or changed:
            what = scans[kind].value.replace("_", " ")
            found.append(FollowerDifference(projection.name, what, missing, stray, changed, tuple(examples)))
    faults = await projection.find_faults()
    return [*found, *(FollowerDifference(projection.name, "", fault=fault) for fault in faults)]


async def _windows(left: _Scan, right: _Scan) -> AsyncGenerator[tuple[list[str], list[str]]]:
    """Yield what both list in one range of ids after the other."""
    after = ""
    while True:
        pages = [await scan(after, _WINDOW) for scan in (left, right)]
        if not any(pages):
            return
        # A full page may go on beyond its last id: the range ends with the first such page.
        ends = [page[-1] for page in pages if len(page) == _WINDOW]
        after = min(ends, default=max(page[-1] for page in pages if page))
        here, there = ([id_ for id_ in page if id_ <= after] for page in pages)
        yield here, there


_LOGGER = logging.getLogger(__name__)
_MAX_TRIES = 5
_RETRY_SECONDS = 5.0
_REACH_SECONDS = 10.0
_POLL_SECONDS = 0.2


class Projector(Follower):
    """Keeps one projection in step, by itself once it is started.

    One task does it, at a pace that neither floods an engine nor holds up commits. It runs when a commit asks for it,
    and every few seconds anyway, since other processes commit, too, and engines come back. After a failure it rests
    that long, whoever asks: that bounds how often an engine that is away is tried. A commit waits for the run that
    takes it in, as long as the engine keeps up.

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
        self._lookup = Lookup(home, projection)
        self._turn = asyncio.Lock()
        self._is_prepared = False
        self._failure = "it was not reached yet"
        self._unfinished = ""
        self._is_wanted = asyncio.Event()
        self._waiting: list[asyncio.Future[None]] = []
        self._task: asyncio.Task[None] | None = None
        self._is_late = False
        self._is_reported = False

    @property
    def trouble(self) -> str:
        return self._failure or self._unfinished

    @property
    def is_away(self) -> bool:
        """Whether it failed when it was last used, so that it follows no more until it is tried again."""
        return bool(self._failure)

    def _fail(self, error: Exception) -> None:
        self._failure = str(error) or type(error).__name__
        # What is back may have lost what was made there, such as collections and indexes.
        self._is_prepared = False

    async def measure_lag(self) -> int:
        readers = await self._outbox.get_readers()
        return await self._home.get_data_version() - max(0, readers.get(self.name, 0))

    async def prepare(self) -> None:
        """Reach the engine, unless it was reached and has not failed since.

        Raises:
            StoreUnavailable: It is out of reach, or too slow.
            StoreError: It cannot serve.
        """
        if self._is_prepared:
            return
        try:
            async with asyncio.timeout(_REACH_SECONDS):
                await self.projection.prepare()
        except TimeoutError:
            error = StoreUnavailable(f"{self.name!r} does not answer within {_REACH_SECONDS:g} seconds; see to it")
            self._fail(error)
            raise error from None
        except Exception as error:
            self._fail(error)
            raise
        self._is_prepared = True

    async def catch_up(self) -> bool:
        """Bring the projection up to date; return whether it is, or False if another process is at it.

        Raises:
            StoreUnavailable: Either store is out of reach; what was taken in stays.
        """
        try:
            # Tasks of this process take turns, so that a commit is not left behind because one was at it already.
            async with self._turn:
                await self.prepare()
                is_done = await self._take_turn()
                if not is_done:
                    self._unfinished = "" if await self._is_whole() else "another process is making it anew"
        except Exception as error:
            self._fail(error)
            raise
        self._failure = ""
        return is_done

    async def finish(self) -> None:
        """Bring the projection up to date, and wait where another process is at it.

        Raises:
            StoreUnavailable: Either store is out of reach.
        """
        while not await self.catch_up():  # noqa: ASYNC110 (nothing tells when another process is done)
            await asyncio.sleep(_POLL_SECONDS)

    async def rebuild(self) -> None:
        await self._outbox.register(self.name)
        await self._outbox.reset(self.name)
        await self.finish()

    async def find_differences(self) -> list[FollowerDifference]:
        """See `Follower`; looked at again if a commit came in between."""
        found: list[FollowerDifference] = []
        for _ in range(_MAX_TRIES):
            await self.finish()
            version = await self._home.get_data_version()
            found = await compare(self._home.inspection, self._lookup, self.projection)
            if not found or await self._home.get_data_version() == version:
                break
        return found

    # One task has it take in what was committed.

    @property
    def is_behind(self) -> bool:
        """Whether it is away, or slower than commits come, so that its lag may grow."""
        return self.is_away or self._is_late

    async def start(self, wait_seconds: float) -> None:
        """Reach the engine and begin; one that is out of reach is tried again from then on.

        Args:
            wait_seconds: How long to wait until it is up to date, if it is in reach.

        Raises:
            StoreAccessDenied: The engine refuses who asks.
            StoreError: It cannot serve.
        """
        try:
            await self.prepare()
        except StoreAccessDenied:
            raise
        except StoreUnavailable:
            self._report()
            self._task = asyncio.create_task(self._go_on(_RETRY_SECONDS))
        else:
            self._task = asyncio.create_task(self._go_on(0.0))
            await self.wait(wait_seconds)

    async def follow(self, wait_seconds: float) -> None:
        """Have it take in what was committed; waits for that, unless it is behind or being made anew anyway."""
        if self.is_away:
            return
        if self._is_late or self.trouble:
            self._is_wanted.set()
        else:
            await self.wait(wait_seconds)

    async def wait(self, seconds: float) -> None:
        """Wait until it has taken in what was committed until now, or has failed, but no longer than this."""
        done = asyncio.get_running_loop().create_future()
        self._waiting.append(done)
        self._is_wanted.set()
        self._is_late = not (await asyncio.wait((done,), timeout=seconds))[0]

    def note_failure(self, error: Exception) -> None:
        """Look at once whether the engine is away, as a question found that it is."""
        self._fail(error)
        self._report()
        self._is_wanted.set()

    async def stop(self) -> None:
        """End the task; what it has not taken in is taken in by whoever comes next."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    async def _go_on(self, rest_seconds: float) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(rest_seconds):
                    await self._is_wanted.wait()
            rest_seconds = _RETRY_SECONDS
            self._is_wanted.clear()
            waiting, self._waiting = self._waiting, []
            await self._run()
            self._release(waiting)
            self._is_late = False
            if self.is_away:
                # Whoever came meanwhile waits in vain, and is no reason to try at once.
                self._release(self._waiting)
                self._is_wanted.clear()

    async def _run(self) -> None:
        try:
            await self.catch_up()
        except StoreError as error:
            _LOGGER.debug("%r was tried: %s", self.name, error)
        except Exception:
            # Nobody awaits this task: without it the engine would be left behind in silence.
            _LOGGER.exception("%r cannot follow, which is a defect", self.name)
        self._report()

    def _release(self, waiting: list[asyncio.Future[None]]) -> None:
        for one in waiting:
            if not one.done():
                one.set_result(None)

    def _report(self) -> None:
        """Log when it goes away, and when it is back."""
        if self.is_away and not self._is_reported:
            _LOGGER.warning("%r cannot follow and falls behind: %s", self.name, self.trouble)
        elif self._is_reported and not self.is_away:
            _LOGGER.info("%r is up to date again", self.name)
        self._is_reported = self.is_away

    async def _take_turn(self) -> bool:
        await self._outbox.register(self.name)
        async with self._outbox.lock(self.name) as is_held:
            if not is_held:
                return False
            cursor = await self._settled_cursor()
            while entries := await self._outbox.read(cursor, _PAGE):
                cursor = entries[-1].version
                await self._take_in(entries, cursor)
            # Versions that changed nothing here have no entries.
            if (version := await self._last_quiet_version(cursor)) > cursor:
                await self._move(version)
        self._unfinished = ""
        return True

    async def _is_whole(self) -> bool:
        """Return whether nobody is making it anew, nor has to."""
        acknowledged = (await self._outbox.get_readers()).get(self.name, -1)
        return 0 <= acknowledged <= await self.projection.get_cursor()

    async def _settled_cursor(self) -> int:
        """Return where to go on from; a projection that knows less than the outbox remembers starts anew."""
        cursor = await self.projection.get_cursor()
        acknowledged = (await self._outbox.get_readers()).get(self.name, 0)
        if cursor > 0 and not await self._home.get_data_version():
            _LOGGER.warning(
                "%r stands at commit %d of this workspace, and the store with the truth is empty: if its database or "
                "tables were removed, put them back or restore a backup; what follows from them is now made anew",
                *(self.name, cursor),
            )
        # What never acknowledged anything may hold the data of another store that had its name.
        if acknowledged < 0 or cursor < acknowledged or cursor > await self._home.get_data_version():
            cursor = await self._make_anew()
            await self._move(cursor)
        return cursor

    async def _take_in(self, entries: Sequence[OutboxEntry], version: int) -> None:
        if any(entry.kind is OutboxKind.RESET for entry in entries):
            version = max(version, await self._make_anew())
        else:
            async for change in self._lookup.changes(entries):
                await self.projection.apply(change)
        await self._move(version)

    async def _move(self, version: int) -> None:
        await self.projection.set_cursor(version)
        await self._outbox.acknowledge(self.name, version)

    async def _last_quiet_version(self, cursor: int) -> int:
        version = await self._home.get_data_version()
        # A commit between the two reads has entries, which are then read from the cursor.
        return cursor if await self._outbox.read(cursor, 1) else version

    async def _make_anew(self) -> int:
        self._unfinished = "it is being made anew"
        version = await self._home.get_data_version()
        await self.projection.clear()
        async for change in self._lookup.everything():
            await self.projection.apply(change)
        return version


def _role(projection: Projection) -> str:
    match projection:
        case GraphProjection():
            return "graph"
        case TextProjection():
            return "text"
        case CacheProjection():
            return "cache"
        case _:
            return "vectors"
