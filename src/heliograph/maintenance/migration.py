"""Move a whole workspace from one store to another; no model is called, and everything is compared.

`migrate_workspace` opens both stores, copies each section page by page, verifies checksums, moves kept replies of
chat models, and fills the target's projections. A page is one commit; a run that breaks off goes on by passing over
what the target has alike. A target that holds something else is left alone. A `MigrationReport` comes out.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from typing import Any

from heliograph.embedding.base import EmbeddingInfo
from heliograph.errors import ConflictError, InvalidRequestError, NotFoundError, StoreError, StoreUnavailable
from heliograph.maintenance.migration_sections import (
    ChunkSection,
    CurationSection,
    DocumentSection,
    EntityEvidenceSection,
    EntitySection,
    RelationEvidenceSection,
    RelationSection,
    RuleSection,
    Section,
    Tally,
    digest_item,
    scan_pages,
)
from heliograph.settings import StoreSettings, hide_password
from heliograph.stores.base import CachedReply, ReplyCache, ScanKind, Store
from heliograph.stores.changeset import Collection
from heliograph.stores.composed import TwofoldReplyCache
from heliograph.stores.projection import CacheProjection
from heliograph.stores.registry import find_workspaces, open_projection, open_store

__all__ = [
    "REPLIES",
    "MigratedKind",
    "MigrationProgress",
    "MigrationReport",
    "WorkspaceCopy",
    "copy_replies",
    "migrate_workspace",
    "verify_replies",
]


# What a migration says of itself.

# Told what is being copied or compared, and how much of it has been.
MigrationProgress = Callable[[str, int], None]


@dataclass(frozen=True, slots=True)
class MigratedKind:
    """One kind of things that both stores now have alike.

    Attributes:
        kind: Of what.
        count: How many there are.
        checksum: Over all of them, 16 hexadecimal digits; the same in both stores.
    """

    kind: str
    count: int
    checksum: str


@dataclass(frozen=True, slots=True)
class MigrationReport:
    """What was moved.

    Attributes:
        kinds: Everything that was compared.
        copied: Things written by this run; fewer than there are where an earlier run had been broken off.
        remade_texts: Chunks and entities whose full text was stale in the source and is right in the target.
        data_version: Of the target.
        lags: Commits that each projection of the target is behind, by its name.
    """

    kinds: tuple[MigratedKind, ...]
    copied: int
    remade_texts: int
    data_version: int
    lags: Mapping[str, int] = field(default_factory=dict[str, int])


# Moving the kept replies of chat models, but answers, which hold for one state of one workspace only.

REPLIES = "replies"
_PAGE = 200
_ANSWERS = "query"


async def copy_replies(source: ReplyCache, target: ReplyCache) -> tuple[Tally, int]:
    """Keep in the target what the source keeps; return what that is, and how much of it was not there.

    Raises:
        StoreError: Either cannot be used; what was copied stays.
    """
    whole, copied = Tally(), 0
    async for page in _pages(source):
        there = dict(zip(page, await asyncio.gather(*(target.get_reply(item.key) for item in page)), strict=True))
        missing = [item for item in page if there[item] is None or digest_item(item) != _digest(there[item])]
        await asyncio.gather(*map(target.put_reply, missing))
        copied += len(missing)
        whole = sum((Tally(1, digest_item(item)) for item in page), whole)
    return whole, copied


async def verify_replies(source: ReplyCache, target: ReplyCache) -> None:
    """Compare what both keep; the target may keep more.

    Raises:
        StoreError: One is missing, or differs.
    """
    async for page in _pages(source):
        there = await asyncio.gather(*(target.get_reply(item.key) for item in page))
        for item, found in zip(page, there, strict=True):
            if digest_item(item) != _digest(found):
                raise StoreError(f"the reply {item.key!r:.200} did not arrive as it was; run the migration again")


async def _pages(source: ReplyCache) -> AsyncIterator[list[CachedReply]]:
    after = ""
    while page := await source.list_replies(after, _PAGE):
        after = page[-1].key
        yield [item for item in page if item.cache_type != _ANSWERS]


def _digest(reply: CachedReply | None) -> int | None:
    return None if reply is None else digest_item(reply)


# Copying a workspace page by page, so that a run that is broken off goes on, and comparing what has arrived.
#
# A page is one commit. Nothing notes how far a run has come: what the target has alike is passed over, what differs
# is written again, what the source has not (any more) is taken out. A target is another's, and left alone, if it has
# a document, a curation or a rule that the source has not, or a document that was first seen at another moment.

# In this order: nothing is written before what it belongs to.
_SECTIONS: tuple[Section[Any], ...] = (
    *(DocumentSection(), ChunkSection(), CurationSection(), RuleSection()),
    *(EntityEvidenceSection(), RelationEvidenceSection(), EntitySection(), RelationSection()),
)


class WorkspaceCopy:
    """One workspace, and the store that it is copied into.

    Args:
        source: Only read.
        replies: Where replies of the source's models are kept.
        target: Empty, or holding part of the source.
        progress: Told what is done.
    """

    def __init__(self, source: Store, replies: ReplyCache, target: Store, progress: MigrationProgress) -> None:
        self._source = source
        self._replies = replies
        self._target = target
        self._progress = progress
        self._copied = 0

    async def run(self) -> MigrationReport:
        """Copy everything and compare it.

        Raises:
            ConflictError: The target holds something else, or somebody wrote to the source meanwhile.
            StoreError: A store failed, or something did not arrive as it was; a later run goes on.
        """
        async with AsyncExitStack() as stack:
            for store in (self._source, self._target):
                await stack.enter_async_context(store.ingest_lock())
            version = await self._source.get_data_version()
            await self._refuse_another()
            sums = await self._copy_all()
            if await self._sweep():
                sums = await self._copy_all()
            replies, copied = await copy_replies(self._replies, self._target.replies)
            self._copied += copied
            if await self._source.get_data_version() != version:
                raise ConflictError("somebody wrote to the source meanwhile; run the migration again, it goes on")
            await self._verify(sums)
            await verify_replies(self._replies, self._target.replies)
            kinds = {**sums, REPLIES: replies}
            return MigrationReport(
                tuple(MigratedKind(kind, item.count, f"{item.checksum:016x}") for kind, item in kinds.items()),
                self._copied,
                await self._count_remade_texts(),
                await self._target.get_data_version(),
            )

    async def _refuse_another(self) -> None:
        """Look at all that people gave the target; nothing is written before."""
        async for ids in scan_pages(self._target, ScanKind.DOCUMENTS):
            moments = {item.id: item.created_at for item in await self._source.records.get_documents(ids)}
            for document in await self._target.records.get_documents(ids):
                if moments.get(document.id) != document.created_at:
                    raise ConflictError(
                        f"the target holds {document.source!r}, which is not from the source; move into an empty "
                        "workspace"
                    )
        for section in _SECTIONS:
            if not section.is_removable:
                await self._refuse_strays(section)

    async def _refuse_strays(self, section: Section[Any]) -> None:
        async for ids in section.pages(self._target):
            known = await section.read(self._source, ids)
            if strays := [id_ for id_ in ids if id_ not in known]:
                raise ConflictError(
                    f"the target holds {section.name} that are not from the source, such as {strays[0]!r}; "
                    "move into an empty workspace"
                )

    async def _sweep(self) -> bool:
        """Take out what an earlier run copied and the source has lost since; return whether there was any."""
        is_swept = False
        for section in (item for item in reversed(_SECTIONS) if item.is_removable):
            async for ids in section.pages(self._target):
                known = await section.read(self._source, ids)
                if strays := [id_ for id_ in ids if id_ not in known]:
                    await self._target.apply(await section.find_removal(self._target, strays))
                    is_swept = True
        return is_swept

    async def _copy_all(self) -> dict[str, Tally]:
        """Copy what the target has not alike; return what the source holds."""
        sums: dict[str, Tally] = {}
        for section in _SECTIONS:
            await self._copy(section, sums)
        return sums

    async def _copy(self, section: Section[Any], sums: dict[str, Tally]) -> None:
        done = 0
        async for ids in section.pages(self._source):
            for group in await section.groups(self._source, ids):
                items = await section.read(self._source, group)
                there = await section.read(self._target, group)
                missing = {
                    id_: item
                    for id_, item in items.items()
                    if id_ not in there or section.tally(item) != section.tally(there[id_])
                }
                if missing:
                    await section.write(self._source, self._target, missing)
                self._copied += len(missing)
                done += len(items)
                _add(sums, section, list(items.values()))
                self._progress(section.name, done)

    async def _verify(self, sums: dict[str, Tally]) -> None:
        arrived: dict[str, Tally] = {}
        for section in _SECTIONS:
            done = 0
            async for ids in section.pages(self._target):
                for group in await section.groups(self._target, ids):
                    items = await section.read(self._target, group)
                    _add(arrived, section, list(items.values()))
                    done += len(items)
                    self._progress(f"comparing {section.name}", done)
        for kind in sums.keys() | arrived.keys():
            here, there = sums.get(kind, Tally()), arrived.get(kind, Tally())
            if here != there:
                raise StoreError(
                    f"the {kind} did not arrive as they were ({here.count:,} here, {there.count:,} there); run "
                    "'heliograph check' on the source, then the migration again"
                )
        if faults := await self._target.inspection.find_faults():
            raise StoreError(f"the target is not sound: {faults[0]}; run 'heliograph check --repair' on it")

    async def _count_remade_texts(self) -> int:
        count = 0
        for collection in (Collection.CHUNKS, Collection.ENTITIES):
            before = await self._source.inspection.digest_texts(collection)
            after = await self._target.inspection.digest_texts(collection)
            count += sum(before.get(id_) != digest for id_, digest in after.items())
        return count


def _add(sums: dict[str, Tally], section: Section[Any], items: Sequence[Any]) -> None:
    for item in items:
        for kind, tally in section.tally(item).items():
            sums[kind] = sums.get(kind, Tally()) + tally


# Moving a workspace from one store to another: opens both, copies, compares, and has projections follow.
#
# Stores that hold the truth are read and written through their contracts, so any pair will do. What stands beside the
# target (other engines) is made from it afterwards. Replies kept in a cache beside the source go into the target
# itself, where they are found as well: a cache that both share belongs to the target from then on, and begins empty.


async def migrate_workspace(
    source: StoreSettings, target: StoreSettings, progress: MigrationProgress | None = None
) -> MigrationReport:
    """Copy a workspace into another store, everything with the ids and moments it has; no model is called.

    A run that was broken off is run again and goes on. The source stays as it is; nobody may write to it meanwhile.

    Args:
        source: The workspace.
        target: Where it is copied to: nothing, an empty workspace, or what an earlier run has copied of it.
        progress: Told what is copied or compared, and how much of it is.

    Raises:
        ConflictError: The target holds something else, or somebody wrote to the source meanwhile.
        InvalidRequestError: Both are one.
        NotFoundError: There is no such workspace.
        SchemaMismatch: The target is filled with another embedding.
        StoreError: A store failed, or what arrived is not what was sent; a later run goes on.
    """
    if _place(source) == _place(target):
        raise InvalidRequestError(
            f"the workspace {source.workspace!r} is to be moved to where it is; name another place"
        )
    if source.workspace not in await find_workspaces(source):
        place = hide_password(source.url)
        raise NotFoundError(
            f"there is no workspace {source.workspace!r} at {place!r}; check the source and its options"
        )
    async with AsyncExitStack() as stack:
        here = await open_store(_alone(source), None)
        stack.push_async_callback(here.close)
        embedding = _embedding_of(here)
        there = await open_store(_alone(target), embedding)
        stack.push_async_callback(there.close)
        replies = await _open_replies(source, here, embedding, stack)
        report = await WorkspaceCopy(here, replies, there, progress or _say_nothing).run()
    return replace(report, lags=await _fill_projections(target, embedding))


def _embedding_of(store: Store) -> EmbeddingInfo:
    """Return what fills a store, as far as stores must know it; nothing is embedded."""
    if store.embedding is None:
        raise InvalidRequestError(f"the store {store.describe()!r} does not say which embedding fills it; export it")
    return EmbeddingInfo(*store.embedding, max_input_tokens=1)


def _place(settings: StoreSettings) -> tuple[object, ...]:
    folder = settings.data_dir.resolve() if settings.url.startswith("sqlite:") else None
    return settings.url, folder, settings.workspace


def _alone(settings: StoreSettings) -> StoreSettings:
    return settings.model_copy(update={"graph_url": "", "vectors_url": "", "text_url": "", "cache_url": ""})


async def _open_replies(
    settings: StoreSettings, home: Store, embedding: EmbeddingInfo, stack: AsyncExitStack
) -> ReplyCache:
    """Return where the replies of a workspace are kept: at home, unless a cache beside it has followed it."""
    if not settings.cache_url or home.outbox is None:
        return home.replies
    cache = await open_projection("cache", settings, embedding)
    stack.push_async_callback(cache.close)
    has_followed = cache.name in await home.outbox.get_readers()
    if has_followed and isinstance(cache, CacheProjection):
        return TwofoldReplyCache(cache, home.replies)
    return home.replies


async def _fill_projections(settings: StoreSettings, embedding: EmbeddingInfo) -> dict[str, int]:
    """Bring what stands beside a store up to date, as far as it is in reach; return how far behind each one is."""
    store = await open_store(settings, embedding)
    try:
        for follower in store.followers:
            # What is away joins when the workspace is opened with it there.
            with contextlib.suppress(StoreUnavailable):
                await follower.finish()
        return dict(await store.get_lags())
    finally:
        await store.close()


def _say_nothing(_kind: str, _count: int) -> None:
    return
