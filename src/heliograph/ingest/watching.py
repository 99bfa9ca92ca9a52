"""Keeping a folder and what is stored of it in step.

First the folder is compared with the stored documents whose sources lie below it; then every change that has settled
is taken over: new and changed files are inserted, and documents whose files are gone are deleted. A file that moved is
inserted under its new path before the old one is deleted, so nothing is missing in between.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path

from heliograph.documents.cleaning import clean_text
from heliograph.documents.files import FileFilter
from heliograph.documents.watching import Snapshot, signals, snapshot
from heliograph.errors import InvalidRequestError
from heliograph.ingest.identity import identify_files
from heliograph.ingest.models import DeleteReport, IngestReport
from heliograph.settings import DocumentSettings
from heliograph.stores.base import DocumentQuery, RecordsStore

__all__ = ["FolderActions", "FolderChange", "watch_folder"]

_PAGE = 10_000
# A folder that never settles is read all the same after so many looks.
_MOST_LOOKS = 30

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FolderChange:
    """What one look at a folder led to.

    Attributes:
        ingest: What became of new and changed files; None if there were none.
        deletion: What went with files that are gone; None if there were none.
        removed_sources: The paths of these files.
    """

    ingest: IngestReport | None = None
    deletion: DeleteReport | None = None
    removed_sources: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FolderActions:
    """What is done about changes.

    Attributes:
        insert: Takes files in.
        delete: Deletes documents by id.
    """

    insert: Callable[[Sequence[str]], Awaitable[IngestReport]]
    delete: Callable[[Sequence[str]], Awaitable[DeleteReport]]


async def watch_folder(
    folder: Path,
    files: FileFilter,
    records: RecordsStore,
    actions: FolderActions,
    settings: DocumentSettings,
    *,
    once: bool = False,
) -> AsyncGenerator[FolderChange]:
    """Bring what is stored into step with a folder, and keep it so until closed.

    Yields:
        What was done, after each change; the first one always, even if nothing had to be done.

    Args:
        folder: The folder; sources are its path as given and the path below it.
        files: Which files are taken. A stored document whose file exists is kept though it is not among them.
        records: Where the stored documents are.
        actions: How files are taken in and documents deleted.
        settings: How changes are noticed.
        once: Stop after the first comparison.

    Raises:
        InvalidRequestError: The folder is no folder, or has no name by which its documents could be told.
        HeliographError: As the actions raise.
    """
    prefix = _prefix(folder)
    async with aclosing(signals(folder, settings.watch_by, settings.watch_poll_seconds)) as changes:
        # Asked for before the first look, so that no change falls between the two.
        signal = None if once else asyncio.ensure_future(anext(changes))
        try:
            known = await asyncio.to_thread(snapshot, folder, files)
            # Names that are no text are stored in a form that no file has.
            there = {clean_text(path) for path in known.files}
            stored = [source async for source in _stored_sources(records, prefix) if source not in there]
            gone = await asyncio.to_thread(_missing, stored)
            yield await _take_over(list(known.files), gone, records, actions)
            while signal is not None:
                await signal
                signal = asyncio.ensure_future(anext(changes))
                if await asyncio.to_thread(_missing, [folder]):
                    _log.warning("the folder %r is not there; its documents are kept until it is back", str(folder))
                    continue
                now = await _settled(folder, files, settings.watch_settle_seconds)
                changed = now.changed_since(known)
                gone = await asyncio.to_thread(_missing, now.gone_since(known))
                known = now
                if changed or gone:
                    yield await _take_over(changed, gone, records, actions)
        finally:
            if signal is not None:
                await _cancel(signal)


def _prefix(folder: Path) -> str:
    if not folder.is_dir():
        raise InvalidRequestError(f"{str(folder)!r} is not a folder; give one that exists")
    if str(folder) == ".":
        raise InvalidRequestError(
            "'.' is no name by which documents could be told; give the folder's name or full path"
        )
    return clean_text(str(folder).rstrip("/") + "/")


def _missing(paths: Iterable[str | Path]) -> list[str]:
    return [str(path) for path in paths if not Path(path).exists()]


async def _stored_sources(records: RecordsStore, prefix: str) -> AsyncIterator[str]:
    offset = 0
    while True:
        query = DocumentQuery(source_prefix=prefix, sort="source", offset=offset, limit=_PAGE)
        page = await records.find_documents(query)
        for document in page.documents:
            yield document.source
        offset += len(page.documents)
        if len(page.documents) < _PAGE:
            return


async def _take_over(
    changed: Sequence[str], gone: Sequence[str], records: RecordsStore, actions: FolderActions
) -> FolderChange:
    ingest = await actions.insert(changed) if changed else None
    deletion = await actions.delete(await identify_files(records, gone)) if gone else None
    return FolderChange(ingest, deletion, tuple(gone))


async def _settled(folder: Path, files: FileFilter, settle_seconds: float) -> Snapshot:
    """Return what the folder holds once two looks in a row find the same."""
    now = await asyncio.to_thread(snapshot, folder, files)
    for _ in range(_MOST_LOOKS):
        before = now
        await asyncio.sleep(settle_seconds)
        now = await asyncio.to_thread(snapshot, folder, files)
        if now == before:
            break
    return now


async def _cancel(signal: asyncio.Future[None]) -> None:
    signal.cancel()
    await asyncio.wait([signal])
    if not signal.cancelled():
        # Retrieved, so that it is not reported as lost; it only told of another change.
        signal.exception()
