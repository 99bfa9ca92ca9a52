"""Copying a workspace page by page, so that a run that is broken off goes on, and comparing what has arrived.

A page is one commit. Nothing notes how far a run has come: what the target has alike is passed over, what differs is
written again, what the source has not (any more) is taken out. A target is another's, and left alone, if it has a
document, a curation or a rule that the source has not, or a document that was first seen at another moment.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Any

from heliograph.errors import ConflictError, StoreError
from heliograph.maintenance.migration.digests import Tally
from heliograph.maintenance.migration.graph import (
    EntityEvidenceSection,
    EntitySection,
    RelationEvidenceSection,
    RelationSection,
)
from heliograph.maintenance.migration.records import ChunkSection, CurationSection, DocumentSection, RuleSection
from heliograph.maintenance.migration.replies import REPLIES, copy_replies, verify_replies
from heliograph.maintenance.migration.report import MigratedKind, MigrationProgress, MigrationReport
from heliograph.maintenance.migration.section import Section, scan_pages
from heliograph.stores.base import Store
from heliograph.stores.changeset import Collection
from heliograph.stores.inspection import ScanKind
from heliograph.stores.replies import ReplyCache

__all__ = ["WorkspaceCopy"]

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
