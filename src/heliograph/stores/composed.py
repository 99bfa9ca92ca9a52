"""Several stores as one: the home store holds the truth, external stores serve some of the roles.

Each external store follows the home store in the background (`ProjectionFollower`): the current state of every item in
the outbox is read from the store with the truth, and written. Questions reach an external store only while it is in
step (`CircuitBreaker`).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from copy import copy
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from heliograph.calls.tasks import run_together
from heliograph.errors import SettingsError, StoreAccessDenied, StoreError, StoreUnavailable
from heliograph.filters import Filter
from heliograph.models import Chunk, Document, Entity, Stats
from heliograph.stores.base import (
    CachedReply,
    Fold,
    Follower,
    GraphStore,
    Inspection,
    ReplyCache,
    ScanKind,
    Store,
    StoreView,
    TextStore,
    VectorStore,
)
from heliograph.stores.changeset import (
    COLLECTIONS,
    Changeset,
    Collection,
    Outbox,
    OutboxEntry,
    OutboxKind,
    TextEntry,
    chunk_terms,
    entity_terms,
)
from heliograph.stores.projection import (
    CacheProjection,
    GraphProjection,
    Projection,
    ProjectionChange,
    TextProjection,
    VectorProjection,
)

_LOGGER = logging.getLogger(__name__)

# Reads, from the store with the truth, the current state of items named by the outbox, for one projection.
#
# A change is built from several reads, one after the other. A commit in between is recorded in the outbox and thus
# looked up again, so that a projection ends in the state of one moment.

_PAGE = 500
_SCANS = {
    OutboxKind.DOCUMENTS: ScanKind.DOCUMENTS,
    OutboxKind.CHUNKS: ScanKind.CHUNKS,
    OutboxKind.ENTITIES: ScanKind.ENTITIES,
    OutboxKind.RELATIONS: ScanKind.RELATIONS,
}


class Lookup:
    """Builds the changes that a projection needs from the store that holds the truth."""

    def __init__(self, home: Store, projection: Projection) -> None:
        self._home = home
        self._projection = projection

    async def everything(self) -> AsyncGenerator[ProjectionChange]:
        """Yield the whole workspace as changes, page by page."""
        for kind in sorted(self._projection.kinds & set(_SCANS)):
            async for ids in self._home.inspection.pages(_SCANS[kind], _PAGE):
                yield await self.look_up({kind: ids})

    async def changes(self, entries: Sequence[OutboxEntry]) -> AsyncGenerator[ProjectionChange]:
        """Yield the changes for outbox entries, page by page."""
        for start in range(0, len(entries), _PAGE):
            ids: dict[OutboxKind, list[str]] = {}
            for entry in entries[start : start + _PAGE]:
                ids.setdefault(entry.kind, []).append(entry.id)
            kept = {OutboxKind.KEPT_REPLIES: [e.id for e in entries if e.kind is OutboxKind.KEPT_REPLIES]}
            yield await self.look_up(ids | kept)

    async def look_up(self, ids: Mapping[OutboxKind, Sequence[str]]) -> ProjectionChange:
        """Return the records now stored under these ids, and the ids that were removed."""
        wanted = {kind: list(named) for kind, named in ids.items() if kind in self._projection.kinds}
        documents = await self._home.records.get_documents(wanted.get(OutboxKind.DOCUMENTS, []))
        chunks = await self._home.records.get_chunks(wanted.get(OutboxKind.CHUNKS, []))
        entities = await self._home.graph.get_entities(wanted.get(OutboxKind.ENTITIES, []))
        relations = await self._home.graph.get_relations(wanted.get(OutboxKind.RELATIONS, []))
        vectors: dict[Collection, Mapping[str, NDArray[np.float32]]] = {}
        for kind, named in wanted.items() if self._projection.needs_vectors else ():
            if collection := COLLECTIONS.get(kind):
                vectors[collection] = await self._home.vectors.get_vectors(collection, named)
        there = {item.id for item in (*documents, *chunks, *entities, *relations)}
        return ProjectionChange(
            documents=tuple(documents),
            chunks=tuple(chunks),
            entities=tuple(entities),
            relations=tuple(relations),
            vectors=vectors,
            texts=await self._texts(chunks, entities) if self._projection.needs_texts else {},
            **(await self._origins(documents, chunks, entities) if self._projection.needs_origins else {}),
            removed={kind: [id_ for id_ in named if id_ not in there] for kind, named in wanted.items()},
            kept_replies=tuple(ids.get(OutboxKind.KEPT_REPLIES, ())),
        )

    async def _texts(
        self, chunks: Sequence[Chunk], entities: Sequence[Entity]
    ) -> dict[Collection, tuple[TextEntry, ...]]:
        titles = {id_: owner.title for id_, owner in (await self._home.records.get_owners(chunks)).items()}
        # A page is a tenth of a second of work or more; run it in a thread so that other tasks go on.
        of_chunks = await asyncio.to_thread(
            lambda: tuple(chunk_terms(titles.get(chunk.document_id, ""), chunk) for chunk in chunks)
        )
        return {Collection.CHUNKS: of_chunks, Collection.ENTITIES: tuple(map(entity_terms, entities))}

    async def _origins(
        self, documents: Sequence[Document], chunks: Sequence[Chunk], entities: Sequence[Entity]
    ) -> dict[str, Any]:
        read_chunks = self._home.records.get_document_chunks
        chunk_ids = {item.id: tuple(chunk.id for chunk in await read_chunks(item.id)) for item in documents}
        owner_ids = {chunk.id: chunk.document_id for chunk in chunks}
        missing = sorted({id_ for entity in entities for id_ in entity.chunk_ids} - set(owner_ids))
        for start in range(0, len(missing), _PAGE):
            others = await self._home.records.get_chunks(missing[start : start + _PAGE])
            owner_ids |= {chunk.id: chunk.document_id for chunk in others}
        read = await self._home.records.get_extractions([chunk.id for chunk in chunks])
        names = {item.chunk_id: tuple(dict.fromkeys(mention.name for mention in item.entities)) for item in read}
        owners = await self._home.records.get_owners(chunks)
        return {"owners": owners, "owner_ids": owner_ids, "names": names, "chunk_ids": chunk_ids}


# Comparing what a projection holds with what it should hold: ids by windows, contents by pages.
#
# Memory holds one window of ids and one page of contents, however large the workspace is.

# External stores without an order list all their ids for every window, so windows are large.
_WINDOW = 10_000
_EXAMPLES = 5
# Items that have vectors, per kind; documents have none and only accompany their chunks.
_VECTOR_SCANS: Mapping[OutboxKind, ScanKind] = {
    OutboxKind.CHUNKS: ScanKind.CHUNK_VECTORS,
    OutboxKind.ENTITIES: ScanKind.ENTITY_VECTORS,
    OutboxKind.RELATIONS: ScanKind.RELATION_VECTORS,
}

# Lists up to so many ids, ascending, that are greater than a given one.
Scan = Callable[[str, int], Awaitable[Sequence[str]]]


async def compare(inspection: Inspection, lookup: Lookup, projection: Projection) -> list[str]:
    """Return, per kind that differs, how, and faults that the external store finds; it must be up to date.

    Raises:
        StoreError: One of them cannot be read.
    """
    scans = _VECTOR_SCANS if isinstance(projection, VectorProjection) else _SCANS
    found: list[str] = []
    for kind in sorted(projection.kinds & scans.keys()):
        missing, stray, changed, examples = 0, 0, 0, list[str]()
        lists = partial(inspection.scan, scans[kind]), partial(projection.scan, kind)
        async for here, there in id_windows(lists, _WINDOW):
            held, kept = set(here), set(there)
            differing: set[str] = set()
            common = sorted(held & kept)
            for start in range(0, len(common), _PAGE):
                expected = await lookup.look_up({kind: common[start : start + _PAGE]})
                differing |= await projection.compare(expected)
            # A duplicate under one id counts as a stray.
            missing, stray = missing + len(held - kept), stray + len(there) - len(held & kept)
            changed += len(differing)
            examples += sorted((held ^ kept) | differing)[: _EXAMPLES - len(examples)]
        counts = {
            "missing": missing,
            "too many": stray,
            "with other contents than in the store with the truth": changed,
        }
        if said := ", ".join(f"{count:,} {what}" for what, count in counts.items() if count):
            kinds = scans[kind].value.replace("_", " ")
            found.append(f"of its {kinds} there are {said}: {', '.join(examples)}")
    return [*found, *await projection.find_faults()]


async def id_windows(scans: Sequence[Scan], size: int) -> AsyncGenerator[list[list[str]]]:
    """Walk several lists of ids side by side, in windows of at most `size` ids of each, ascending.

    A window holds all ids of the lists in one range; ranges follow one another without gap or overlap. Ids that are in
    one list and not in another are thus found without holding either list.
    """
    after = ""
    while True:
        pages = [await scan(after, size) for scan in scans]
        if not any(pages):
            return
        # A full page may continue beyond its last id: the range ends with the first such page.
        ends = [page[-1] for page in pages if len(page) == size]
        after = min(ends, default=max(page[-1] for page in pages if page))
        yield [[id_ for id_ in page if id_ <= after] for page in pages]


_MAX_TRIES = 5
_RETRY_SECONDS = 5.0
_CANCEL_AGAIN_SECONDS = 1.0
_REACH_SECONDS = 10.0
_POLL_SECONDS = 0.2


class ProjectionFollower(Follower):
    """Keeps one projection in step, in the background once it is started.

    One task does it, at a pace that neither floods an external store nor holds up commits. It runs when a commit wakes
    it, and every few seconds anyway, since other processes commit, too, and external stores come back. After a failure
    it pauses for that long, even if it is woken: that bounds how often an external store that is away is tried. A
    commit waits for the run that applies it, as long as the external store keeps up.
    """

    def __init__(self, home: Store, outbox: Outbox, projection: Projection) -> None:
        self.name = projection.name
        self.role = projection.role
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
        """Whether it failed when it was last used, so that it stops following until it is tried again."""
        return bool(self._failure)

    def _fail(self, error: Exception) -> None:
        self._failure = str(error) or type(error).__name__
        # A store that is back may have lost what was created there, such as collections and indexes.
        self._is_prepared = False

    async def measure_lag(self) -> int:
        readers = await self._outbox.get_readers()
        return await self._home.get_data_version() - max(0, readers.get(self.name, 0))

    async def prepare(self) -> None:
        """Reach the external store, unless it was reached and has not failed since.

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
        """Bring the projection up to date; return whether it is, or False if another process is doing so.

        Raises:
            StoreUnavailable: Either store is out of reach; changes applied so far stay.
        """
        try:
            # Tasks of this process take turns, so that no commit is left behind because another task was already
            # running.
            async with self._turn:
                await self.prepare()
                is_done = await self._take_turn()
                if not is_done:
                    acknowledged = (await self._outbox.get_readers()).get(self.name, -1)
                    is_whole = 0 <= acknowledged <= await self.projection.get_cursor()
                    self._unfinished = "" if is_whole else "another process is making it anew"
        except Exception as error:
            self._fail(error)
            raise
        self._failure = ""
        return is_done

    async def finish(self) -> None:
        """Bring the projection up to date, waiting while another process is doing so."""
        while not await self.catch_up():  # noqa: ASYNC110 (nothing tells when another process is done)
            await asyncio.sleep(_POLL_SECONDS)

    async def rebuild(self) -> None:
        await self._outbox.register(self.name)
        await self._outbox.reset(self.name)
        await self.finish()

    async def find_differences(self) -> list[str]:
        """The comparison is repeated if a commit came in between."""
        found: list[str] = []
        for _ in range(_MAX_TRIES):
            await self.finish()
            version = await self._home.get_data_version()
            found = await compare(self._home.inspection, self._lookup, self.projection)
            if not found or await self._home.get_data_version() == version:
                break
        return found

    # The task that makes the projection apply commits.

    @property
    def is_behind(self) -> bool:
        """Whether it is away, or slower than commits arrive, so that its lag may grow."""
        return self.is_away or self._is_late

    async def start(self, wait_seconds: float) -> None:
        """Reach the external store and start following; if it is in reach, wait up to `wait_seconds` until up to date.

        One that is out of reach is tried again in the background.

        Raises:
            StoreAccessDenied: The external store refuses the credentials.
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
        """Wake the task to apply the latest commits, and wait for that unless it is behind or being rebuilt."""
        if self.is_away:
            return
        if self._is_late or self.trouble:
            self._is_wanted.set()
        else:
            await self.wait(wait_seconds)

    async def wait(self, seconds: float) -> None:
        """Wait, at most this long, until it has applied all present commits or has failed."""
        done = asyncio.get_running_loop().create_future()
        self._waiting.append(done)
        self._is_wanted.set()
        self._is_late = not (await asyncio.wait((done,), timeout=seconds))[0]

    def note_failure(self, error: Exception) -> None:
        """Check at once whether the external store is away, because a question failed on it."""
        self._fail(error)
        self._report()
        self._is_wanted.set()

    async def stop(self) -> None:
        """End the task; the next process that opens the workspace continues."""
        if self._task is not None:
            # An external store's client may swallow a cancellation that arrives just as its own timeout expires.
            while not self._task.done():
                self._task.cancel()
                await asyncio.wait((self._task,), timeout=_CANCEL_AGAIN_SECONDS)
            self._task = None

    async def _go_on(self, rest_seconds: float) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(rest_seconds):
                    await self._is_wanted.wait()
            rest_seconds = _RETRY_SECONDS
            self._is_wanted.clear()
            waiting, self._waiting = self._waiting, []
            try:
                await self.catch_up()
            except StoreError as error:
                _LOGGER.debug("%r was tried: %s", self.name, error)
            except Exception:
                # No caller awaits this task: without the log the external store would silently fall behind.
                _LOGGER.exception("%r cannot follow, which is a defect", self.name)
            self._report()
            self._release(waiting)
            self._is_late = False
            if self.is_away:
                # Callers that arrived meanwhile would wait in vain, and are no reason to try at once.
                self._release(self._waiting)
                self._is_wanted.clear()

    def _release(self, waiting: list[asyncio.Future[None]]) -> None:
        for one in waiting:
            if not one.done():
                one.set_result(None)

    def _report(self) -> None:
        """Log when the external store goes away, and when it is back."""
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
            cursor = await self.projection.get_cursor()
            acknowledged = (await self._outbox.get_readers()).get(self.name, 0)
            if cursor > 0 and not await self._home.get_data_version():
                _LOGGER.warning(
                    "%r stands at commit %d of this workspace, and the store with the truth is empty: if its database "
                    "or tables were removed, put them back or restore a backup; what follows from them is now made "
                    "anew",
                    *(self.name, cursor),
                )
            # A reader that never acknowledged anything may hold the data of another store that had its name.
            if acknowledged < 0 or cursor < acknowledged or cursor > await self._home.get_data_version():
                cursor = await self._make_anew()
                await self._move(cursor)
            while entries := await self._outbox.read(cursor, _PAGE):
                cursor = reached = entries[-1].version
                if any(entry.kind is OutboxKind.RESET for entry in entries):
                    reached = max(cursor, await self._make_anew())
                else:
                    async for change in self._lookup.changes(entries):
                        await self.projection.apply(change)
                await self._move(reached)
            # Versions that changed nothing here have no entries; a commit between the two reads has.
            version = await self._home.get_data_version()
            if version > cursor and not await self._outbox.read(cursor, 1):
                await self._move(version)
        self._unfinished = ""
        return True

    async def _move(self, version: int) -> None:
        await self.projection.set_cursor(version)
        await self._outbox.acknowledge(self.name, version)

    async def _make_anew(self) -> int:
        self._unfinished = "it is being made anew"
        version = await self._home.get_data_version()
        await self.projection.clear()
        async for change in self._lookup.everything():
            await self.projection.apply(change)
        return version


# A circuit breaker stands between questions and an external store: one that is away or unfinished gets no questions.
#
# Such a question fails at once with `StoreUnavailable` and says why, where it would otherwise wait for an external
# store that does not answer, or read half a graph. A call that finds the external store away opens the circuit; it
# closes when the external store has been reached again and is up to date.


class CircuitBreaker:
    """A role of an external store: its methods can be called while the store is in step.

    Methods named in `exempt` are served by the objects given there, without a breaker.
    """

    def __init__(self, follower: ProjectionFollower, role: object, **exempt: Callable[..., Awaitable[Any]]) -> None:
        self._follower = follower
        self._role = role
        self.__dict__.update(exempt)

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        method = getattr(self._role, name)

        async def ask(*args: Any, **kwargs: Any) -> Any:
            self._check()
            try:
                found = await method(*args, **kwargs)
            except StoreUnavailable as error:
                self._follower.note_failure(error)
                raise
            # If a rebuild began meanwhile, the result may have been read from half of it.
            self._check()
            return found

        return ask

    def _check(self) -> None:
        follower = self._follower
        if trouble := follower.trouble:
            raise StoreUnavailable(f"{follower.name!r} cannot be asked now: {trouble}")


# Replies of models in an external store, and at home while that is out of reach, so that no paid reply is lost.
#
# Replies that the external store lacks are looked up at home, where there may also be replies from before it was set
# up.


class TwofoldReplyCache(ReplyCache):
    """A cache in an external store, with the home store's own cache while that is out of reach."""

    def __init__(self, cache: ReplyCache, home: ReplyCache) -> None:
        self._cache = cache
        self._home = home

    async def get_reply(self, key: str) -> CachedReply | None:
        try:
            found = await self._cache.get_reply(key)
        except StoreUnavailable as error:
            _LOGGER.debug("a reply is looked for at home: %s", error)
            found = None
        return found or await self._home.get_reply(key)

    async def put_reply(self, reply: CachedReply) -> None:
        try:
            await self._cache.put_reply(reply)
        except StoreUnavailable as error:
            _LOGGER.debug("a reply is kept at home: %s", error)
            await self._home.put_reply(reply)

    async def delete_replies(self, cache_type: str | None = None) -> int:
        """Fails where the external store is out of reach, since its replies would come back."""
        return await self._cache.delete_replies(cache_type) + await self._home.delete_replies(cache_type)

    async def list_replies(self, after: str, limit: int) -> list[CachedReply]:
        found = {item.key: item for item in await self._home.list_replies(after, limit)}
        found |= {item.key: item for item in await self._cache.list_replies(after, limit)}
        return [found[key] for key in islice(sorted(found), limit)]


# How long opening waits for external stores with many changes to apply, and a commit for slow ones.
_OPEN_SECONDS = 30.0
_COMMIT_SECONDS = 5.0
# How long a commit waits for an external store that is slow and has reached `max_lag`.
_LAG_SECONDS = 30.0


class ComposedStore(Store):
    """A home store, which must have an outbox, with at most one projection per role beside it; closes all of them.

    Further commits are refused when a projection is `max_lag` commits behind.
    """

    def __init__(self, home: Store, projections: Sequence[Projection], max_lag: int) -> None:
        if home.outbox is None:
            raise SettingsError(f"the store {home.describe()!r} keeps no outbox, so nothing can stand beside it")
        self._home = home
        self._followers = [ProjectionFollower(home, home.outbox, projection) for projection in projections]
        self._max_lag = max_lag
        self.records = home.records
        self.graph, self.vectors, self.text, self.replies = home.graph, home.vectors, home.text, home.replies
        for follower, projection in zip(self._followers, projections, strict=True):
            self._serve(follower, projection)
        self.curations = home.curations
        self.names = home.names
        self.inspection = home.inspection
        self.reembedding = home.reembedding
        self.outbox = home.outbox
        self.followers = self._followers
        self.embedding = home.embedding

    @property
    def projections(self) -> list[Projection]:
        """The external stores beside the home store, without their circuit breakers."""
        return [follower.projection for follower in self._followers]

    @property
    def truth(self) -> Store:
        """The home store; commits through it are followed by the external stores, too."""
        seen = copy(self)
        seen.graph, seen.vectors, seen.text = self._home.graph, self._home.vectors, self._home.text
        return seen

    async def open(self) -> ComposedStore:
        """Bring the projections that are in reach up to date, and keep trying the others in the background.

        Raises:
            StoreAccessDenied: An external store refuses the credentials.
            StoreError: An external store is in reach but cannot serve; nothing is left running.
        """
        try:
            await run_together(*(follower.start(_OPEN_SECONDS) for follower in self._followers))
        except BaseException:
            await self._stop()
            raise
        return self

    async def apply(self, changeset: Changeset) -> int:
        """Commit at home, and wait a while for the others; `StoreUnavailable` also if one is too far behind."""
        for follower in self._followers:
            # One that is slow, not away, is given time: no other mechanism slows down writers.
            if await self._is_too_far(follower) and not follower.is_away:
                await follower.wait(_LAG_SECONDS)
            if await self._is_too_far(follower):
                reason = follower.trouble or "it is slower than commits come"
                raise StoreUnavailable(
                    f"{follower.name!r} is {self._max_lag} commits behind or more ({reason}); bring it back, or raise "
                    "store.max_lag"
                )
        version = await self._home.apply(changeset)
        await self._follow()
        return version

    def view(self, filter_: Filter, fold: Fold) -> StoreView:
        """Views read the home store."""
        return self._home.view(filter_, fold)

    def ingest_lock(self) -> AbstractAsyncContextManager[None]:
        return self._home.ingest_lock()

    async def get_data_version(self) -> int:
        return await self._home.get_data_version()

    async def get_stats(self) -> Stats:
        return await self._home.get_stats()

    async def clear(self) -> int:
        version = await self._home.clear()
        await self._follow()
        return version

    async def vacuum(self) -> None:
        """Vacuums the home store only; the external stores reclaim space by themselves."""
        await self._home.vacuum()

    async def backup(self, path: Path) -> None:
        """Backs up the home store, which holds the truth; the external stores are rebuilt from it."""
        await self._home.backup(path)

    async def close(self) -> None:
        await self._stop()
        for projection in self.projections:
            await projection.close()
        await self._home.close()

    def describe(self) -> Mapping[str, str]:
        described = dict(self._home.describe())
        for projection in self.projections:
            described |= {f"{projection.name}: {key}": value for key, value in projection.describe().items()}
        return described

    def _serve(self, follower: ProjectionFollower, projection: Projection) -> None:
        guarded = CircuitBreaker(follower, projection)
        match projection:
            case GraphProjection():
                self.graph = cast("GraphStore", guarded)
            case VectorProjection():
                # Vectors by id are as exact at home, and cost less than as text over HTTP.
                home = self._home.vectors
                guarded = CircuitBreaker(follower, projection, get_vectors=home.get_vectors, rank=home.rank)
                self.vectors = cast("VectorStore", guarded)
            case TextProjection():
                self.text = cast("TextStore", guarded)
            case CacheProjection():
                self.replies = TwofoldReplyCache(cast("ReplyCache", guarded), self._home.replies)
            case _:
                raise SettingsError(f"{projection.name!r} serves neither graph nor vectors nor text nor replies")

    async def _is_too_far(self, follower: ProjectionFollower) -> bool:
        return follower.is_behind and await follower.measure_lag() >= self._max_lag

    async def _follow(self) -> None:
        await asyncio.gather(*(follower.follow(_COMMIT_SECONDS) for follower in self._followers))

    async def _stop(self) -> None:
        for follower in self._followers:
            await follower.stop()
