"""Keeps a folder and what is stored of it in step.

The folder is compared with the stored documents below it, then every settled change is taken over: new and changed
files are inserted, documents of missing files deleted. A signal (package `watchfiles`, or polling) only says that
something changed; two snapshots say what. A moved file is inserted under its new path before the old one is deleted.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from heliograph.documents.files import FileFilter, find_files
from heliograph.documents.markdown import clean_text
from heliograph.errors import IngestError, InvalidRequestError, MissingDependencyError, import_optional
from heliograph.ingest.intake import identify_files
from heliograph.ingest.models import DeleteReport, IngestReport
from heliograph.settings import DocumentSettings
from heliograph.stores.base import DocumentQuery, RecordsStore

# What changes in a folder: signals from the system, or a look now and then, and comparisons of what is there.
#
# A signal only says that something changed; what did is found by comparing two snapshots. So nothing depends on how a
# system reports a move or an editor saves a file, and without the package `watchfiles` polling gives the same result.

# What `watchfiles` raises of a name that is no text, there or new (alone or in a group), and where the system's limit
# of watched folders is reached.
_NO_REPORTS = (ExceptionGroup, RuntimeError, UnicodeError, OSError)

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The files of a folder.

    Attributes:
        files: Path to what tells one state of a file from another.
    """

    files: Mapping[str, tuple[int, int, int]]

    def changed_since(self, before: Snapshot) -> list[str]:
        """Return the files that are new or different."""
        return [path for path, state in self.files.items() if before.files.get(path) != state]

    def gone_since(self, before: Snapshot) -> list[str]:
        """Return the files that are no longer there."""
        return [path for path in before.files if path not in self.files]


def snapshot(folder: str | os.PathLike[str], files: FileFilter) -> Snapshot:
    """Return what a folder holds now; blocks.

    Raises:
        IngestError: The folder does not exist.
    """
    states: dict[str, tuple[int, int, int]] = {}
    for path in find_files([folder], files):
        try:
            status = path.stat()
        except OSError:
            # Gone since it was listed.
            continue
        states[str(path)] = (status.st_mtime_ns, status.st_size, status.st_ino)
    return Snapshot(states)


async def signals(
    folder: Path, watch_by: Literal["auto", "system", "polling"], poll_seconds: float
) -> AsyncGenerator[None]:
    """Yield whenever something in a folder may have changed, from the first `anext` on.

    Args:
        folder: The folder.
        watch_by: `system` uses what the system reports, `polling` yields at intervals; `auto` takes the first if
            `watchfiles` is installed and as long as it can report.
        poll_seconds: The interval.

    Raises:
        MissingDependencyError: `system` is asked for and `watchfiles` is not installed.
        IngestError: `system` is asked for and cannot report of this folder; `auto` then goes on by polling.
    """
    if watch_by != "polling":
        try:
            watchfiles = import_optional("watchfiles", "watch")
            async for _ in watchfiles.awatch(folder, debounce=400, step=50, ignore_permission_denied=True):
                yield
        except MissingDependencyError:
            if watch_by == "system":
                raise
        except _NO_REPORTS as error:
            reason = error.exceptions[0] if isinstance(error, ExceptionGroup) else error
            if watch_by == "system":
                raise IngestError(
                    f"the system cannot report what changes in {str(folder)!r} ({reason}); rename what is named there, "
                    "or set documents.watch_by to 'auto' or 'polling'"
                ) from error
            _log.warning("what changes in %r is looked for every %g s: %s", str(folder), poll_seconds, reason)
            # What it could not report.
            yield
    while True:
        await asyncio.sleep(poll_seconds)
        yield


_PAGE = 10_000
# A folder that never settles is read all the same after so many looks.
_MOST_LOOKS = 30


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
