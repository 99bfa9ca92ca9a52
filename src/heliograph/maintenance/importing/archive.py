"""Importing an archive: its documents, then its curations and the kept replies of chat models, as they are.

Documents go in several at a time and in any order, since the graph does not depend on it; those that share another's
text come last. Curations are added in their order where none of the same id is here, replies where what they are
about is here, so that no deletion misses them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TypeVar

from heliograph.errors import InvalidRequestError
from heliograph.ingest.curation import Curator
from heliograph.maintenance.archive import ArchiveEntry, read_archive
from heliograph.maintenance.export.contents import WholeDocument
from heliograph.maintenance.importing.documents import DocumentImport
from heliograph.maintenance.importing.replies import add_replies
from heliograph.maintenance.importing.report import ImportKind, ImportProgress, ImportReport, NoteKind, NoteList
from heliograph.maintenance.importing.whole import WholeDocumentIntake
from heliograph.models import Curation
from heliograph.stores.base import CachedReply, Store

__all__ = ["import_archive"]

_PAGE = 500

T = TypeVar("T")


async def import_archive(
    store: Store, intake: WholeDocumentIntake, curator: Curator, path: Path, progress: ImportProgress
) -> ImportReport:
    """Import an archive; see `import_path`."""
    notes = NoteList()
    documents = DocumentImport(intake, notes, progress)
    twins: list[WholeDocument] = []
    curations: list[Curation] = []
    first: CachedReply | None = None
    entries = _entries(path)
    try:
        async for entry in entries:
            if isinstance(entry, CachedReply):
                first = entry
                break
            if isinstance(entry, Curation):
                curations.append(entry)
            elif entry.document.twin_of:
                twins.append(entry)
            else:
                await documents.add(entry)
    finally:
        # What stands before a broken line is taken in.
        await documents.finish()
    for twin in twins:
        await documents.add(twin)
    await documents.finish()
    added = await _add_curations(store, curator, curations, notes, progress)
    replies = await add_replies(store, _replies(first, entries), notes, progress)
    return replace(documents.report(ImportKind.ARCHIVE, path, curations=added), replies=replies)


async def _replies(first: CachedReply | None, entries: AsyncIterator[ArchiveEntry]) -> AsyncIterator[CachedReply]:
    """Yield the replies with which an archive ends."""
    if first is not None:
        yield first
    async for entry in entries:
        if not isinstance(entry, CachedReply):
            raise InvalidRequestError("the archive goes on after its replies, which end it; export it anew")
        yield entry


async def _add_curations(
    store: Store, curator: Curator, curations: list[Curation], notes: NoteList, progress: ImportProgress
) -> int:
    added = 0
    for page in _pages(iter(curations), _PAGE):
        known = {item.id for item in await store.curations.get_curations([item.id for item in page])}
        notes.add(NoteKind.KNOWN, "curations that are here already", count=len(known))
        new = [item for item in page if item.id not in known]
        await curator.replay(new)
        added += len(new)
        progress("curations", added)
    return added


async def _entries(path: Path) -> AsyncIterator[ArchiveEntry]:
    """Read an archive outside the event loop, an entry at a time."""
    entries = read_archive(path)
    while (entry := await asyncio.to_thread(next, entries, None)) is not None:
        yield entry


def _pages(items: Iterator[T], size: int) -> Iterator[list[T]]:
    while page := list(islice(items, size)):
        yield page
