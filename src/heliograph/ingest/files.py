"""Ingests files and URLs, reading ahead of the pipeline, and synchronises documents with a folder.

A source that cannot be read is reported as failed and stops no other. Memory holds two groups of documents at a time,
however many there are: one being ingested, and one being read meanwhile. Stored metadata fields that neither the source
nor the caller states any more are kept.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import aclosing
from contextvars import copy_context
from dataclasses import dataclass, replace
from importlib.resources import files
from importlib.resources.abc import Traversable
from itertools import zip_longest
from pathlib import Path, PurePath
from typing import Any, Literal

from heliograph.documents.base import LoadedDocument
from heliograph.documents.markdown import clean_text
from heliograph.documents.sources import FileFilter, find_files
from heliograph.errors import IngestError, InvalidRequestError, MissingDependencyError, import_optional
from heliograph.ids import track_id as new_track_id
from heliograph.ingest.intake import OUTAGES, as_failure, identify_files
from heliograph.ingest.models import (
    DeleteReport,
    DocumentResult,
    IngestReport,
    NewDocument,
    Progress,
    ProgressCallback,
)
from heliograph.ingest.pipeline import IngestPipeline, expected_seconds
from heliograph.models import Usage
from heliograph.observing import stage
from heliograph.settings import DocumentSettings
from heliograph.stores.base import DocumentQuery, RecordsStore

_GROUP_CHARACTERS = 32_000_000
_GROUP_FILES = 1_000
# A group ends after so long, so that slow formats do not leave the pipeline idle.
_GROUP_SECONDS = 3.0

# Loads a path or URL; raises IngestError or MissingDependencyError.
ReadSource = Callable[[str], LoadedDocument]
# Fields of `Progress` that are summed over groups.
_COUNTS = (
    *("documents_done", "chunks_done", "chunks_total", "entities", "relations", "failures", "usage"),
    *("characters_done", "characters_total"),
)
_Take = Callable[[list[NewDocument], str, ProgressCallback | None], Awaitable[IngestReport]]


async def insert_files(
    pipeline: IngestPipeline,
    records: RecordsStore,
    sources: Sequence[str | Path],
    read: ReadSource,
    progress: ProgressCallback | None = None,
    metadata: Mapping[str, Any] | None = None,
    *,
    track_id: str | None = None,
) -> IngestReport:
    """Read files or URLs, by `read` in a thread, and ingest them as documents with these sources.

    `progress` gets the progress of the whole run, not only of the current group. `metadata` overrides the sources' own
    metadata. Without a `track_id` one is generated.

    Returns:
        One result per source, in order; raises as `IngestPipeline.insert`.
    """
    batch = track_id or new_track_id("index")
    groups = _read_groups(list(map(str, sources)), read, metadata or {}, pipeline.sources_at_once)
    whole = await asyncio.to_thread(_Whole, list(map(str, sources)), progress) if progress else None
    return await _take_in(
        lambda documents, batch, watch: pipeline.insert(documents, track_id=batch, progress=watch),
        *(records, groups, whole, batch),
    )


async def enqueue_files(
    pipeline: IngestPipeline,
    records: RecordsStore,
    sources: Sequence[str],
    read: ReadSource,
    metadata: Mapping[str, Any] | None = None,
    *,
    track_id: str | None = None,
) -> IngestReport:
    """Read files or URLs and store them as pending; as `insert_files`, and raises as `IngestPipeline.enqueue`."""
    groups = _read_groups(sources, read, metadata or {}, pipeline.sources_at_once)
    return await _take_in(
        lambda documents, batch, _: pipeline.enqueue(documents, track_id=batch),
        *(records, groups, None, track_id or new_track_id("index")),
    )


async def _take_in(
    take: _Take,
    records: RecordsStore,
    groups: Iterator[list[NewDocument]],
    whole: _Whole | None,
    batch: str,
) -> IngestReport:
    results: list[DocumentResult] = []
    ahead = _read_ahead(groups)
    try:
        while (group := await ahead) is not None:
            ahead = _read_ahead(groups)
            ids = await identify_files(records, [document.source for document in group])
            known = {document.id: document.metadata for document in await records.get_documents(ids)}
            documents = [
                replace(document, id=id_, metadata={**known.get(id_, {}), **(document.metadata or {})} or None)
                for id_, document in zip(ids, group, strict=True)
            ]
            if whole is not None:
                whole.begin(group)
            report = await take(documents, batch, whole.report if whole is not None else None)
            for result, document in zip(report.results, documents, strict=True):
                # The number of characters that the page's loader dropped.
                omitted = (document.metadata or {}).get("omitted_characters")
                results.append(replace(result, omitted_characters=omitted) if isinstance(omitted, int) else result)
    finally:
        # A thread cannot be cancelled: its result is discarded when it is done.
        if not ahead.done():
            ahead.cancel()
    return IngestReport(batch, tuple(results))


def _read_ahead(groups: Iterator[list[NewDocument]]) -> asyncio.Task[list[NewDocument] | None]:
    return asyncio.create_task(asyncio.to_thread(next, groups, None))


def _read_groups(
    sources: Sequence[str], read: ReadSource, metadata: Mapping[str, Any], at_once: int
) -> Iterator[list[NewDocument]]:
    group: list[NewDocument] = []
    characters, started = 0, time.monotonic()
    for item in _read_ahead_of(sources, lambda source: _read(source, read, metadata), at_once):
        group.append(item)
        characters += len(item.text)
        is_long = time.monotonic() - started > _GROUP_SECONDS
        if is_long or characters >= _GROUP_CHARACTERS or len(group) >= _GROUP_FILES:
            yield group
            group, characters, started = [], 0, time.monotonic()
    if group:
        yield group


def _read_ahead_of(sources: Sequence[str], read: Callable[[str], NewDocument], at_once: int) -> Iterator[NewDocument]:
    """Yield the loaded sources in order, reading up to `at_once` concurrently."""
    if at_once == 1:
        yield from map(read, sources)
        return
    reading: deque[Future[NewDocument]] = deque()
    threads = ThreadPoolExecutor(at_once, "heliograph-load")
    try:
        for source in sources:
            reading.append(threads.submit(copy_context().run, read, source))
            if len(reading) == at_once:
                yield reading.popleft().result()
        while reading:
            yield reading.popleft().result()
    finally:
        threads.shutdown(wait=False, cancel_futures=True)


def _read(source: str, read: ReadSource, metadata: Mapping[str, Any]) -> NewDocument:
    try:
        with stage("ingest.load"):
            loaded = read(source)
    except OUTAGES:
        raise
    except Exception as error:  # noqa: BLE001 (a defect fails the source that meets it, not those behind it)
        return NewDocument("", source, error=as_failure(repr(source), error))
    return NewDocument(
        loaded.text,
        loaded.source,
        loaded.title,
        metadata={**loaded.metadata, **metadata} or None,
        page_starts=loaded.page_starts,
    )


class _Whole:
    """The progress of a run over all sources, which are ingested group by group.

    Of sources beyond the current group only the size in bytes is known. Their characters are estimated from the files
    opened so far, by kind of file, and likewise the share that needs reading.
    """

    def __init__(self, sources: Sequence[str], progress: ProgressCallback) -> None:
        self._progress = progress
        self._started = time.monotonic()
        self._sources = sources
        self._sizes = [_size(source) for source in sources]
        self._opened = 0
        self._before = Progress("", 0, 0, 0, 0, 0, 0, 0, Usage(), 0.0, None, is_finished=False)
        self._last: Progress | None = None
        # Bytes and characters of the opened files, per kind and (under "") in total.
        self._known: dict[str, tuple[int, int]] = {}

    def begin(self, documents: Sequence[NewDocument]) -> None:
        """Count a group that was loaded and whose ingest starts now."""
        before = self._sum(self._last) if self._last is not None else self._before
        self._before, self._last = replace(before, documents_done=self._opened), None
        for place, document in enumerate(documents, start=self._opened):
            for kind in (_kind(self._sources[place]), ""):
                size, length = self._known.get(kind, (0, 0))
                self._known[kind] = size + self._sizes[place], length + len(document.text)
        self._opened += len(documents)

    def report(self, group: Progress) -> None:
        """Report the progress of a group as part of the whole run."""
        self._last = group
        whole = self._sum(group)
        is_finished = group.is_finished and self._opened == len(self._sources)
        is_whole = group.documents_done == group.documents_total
        elapsed = time.monotonic() - self._started
        # Estimate the characters of unopened files from the opened ones.
        size, length = self._known.get("", (0, 0))
        average, pace = size / max(1, self._opened), length / size if size else 1.0
        ahead = 0.0
        for source, bytes_there in zip(self._sources[self._opened :], self._sizes[self._opened :], strict=True):
            own_size, own_length = self._known.get(_kind(source), (0, 0))
            ahead += (bytes_there or average) * (own_length / own_size if own_size else pace)
        expected = whole.characters_total + (ahead * whole.characters_total / length if length else ahead)
        self._progress(
            replace(
                whole,
                # Unchanged documents are never reported; a run that an outage ended has some left to do.
                documents_done=len(self._sources) if is_finished and is_whole else whole.documents_done,
                elapsed_seconds=elapsed,
                eta_seconds=expected_seconds(elapsed, whole.characters_done, expected),
                is_finished=is_finished,
            )
        )

    def _sum(self, group: Progress) -> Progress:
        sums = {name: getattr(self._before, name) + getattr(group, name) for name in _COUNTS}
        return replace(group, documents_total=len(self._sources), **sums)


def _kind(source: str) -> str:
    return PurePath(source).suffix.lower() or "."


def _size(source: str) -> int:
    try:
        return Path(source).stat().st_size
    except (OSError, ValueError):
        return 0


# Synchronising a folder with its stored documents.
#
# The folder is compared with the stored documents below it, then every settled change is applied: new and changed files
# are inserted, documents of missing files deleted. A signal (package `watchfiles`, or polling) only says that something
# changed; comparing two snapshots finds the change. So nothing depends on how a system reports a move or an editor
# saves a file. A moved file is inserted under its new path before the old one is deleted.

# Errors of `watchfiles` for an existing or new file name that does not decode (alone or in a group), and at the
# system's limit of watched folders.
_NO_REPORTS = (ExceptionGroup, RuntimeError, UnicodeError, OSError)

_log = logging.getLogger(__name__)


def snapshot(folder: str | os.PathLike[str], files: FileFilter) -> dict[str, tuple[int, int, int]]:
    """Return the files in a folder, each with its modification time, size and inode; blocks.

    Raises:
        IngestError: The folder does not exist.
    """
    states: dict[str, tuple[int, int, int]] = {}
    for path in find_files([folder], files):
        try:
            status = path.stat()
        except OSError:
            # Deleted since it was listed.
            continue
        states[str(path)] = (status.st_mtime_ns, status.st_size, status.st_ino)
    return states


async def signals(
    folder: Path, watch_by: Literal["auto", "system", "polling"], poll_seconds: float
) -> AsyncGenerator[None]:
    """Yield whenever something in a folder may have changed, from the first `anext` on.

    `system` uses notifications of the operating system, `polling` yields at intervals; `auto` uses notifications if
    `watchfiles` is installed and as long as they work.

    Raises:
        MissingDependencyError: `watch_by` is `system`, and `watchfiles` is not installed.
        IngestError: `watch_by` is `system`, and the system cannot watch this folder; `auto` then falls back to polling.
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
            # For a change that it could not report.
            yield
    while True:
        await asyncio.sleep(poll_seconds)
        yield


# A folder that never settles is read after so many snapshots.
_MOST_LOOKS = 30


@dataclass(frozen=True, slots=True)
class FolderChange:
    """The results of one synchronisation: for new and changed files, and for removed ones; None without any."""

    ingest: IngestReport | None = None
    deletion: DeleteReport | None = None
    removed_sources: tuple[str, ...] = ()


async def watch_folder(
    folder: Path,
    files: FileFilter,
    records: RecordsStore,
    settings: DocumentSettings,
    insert: Callable[[Sequence[str]], Awaitable[IngestReport]],
    delete: Callable[[Sequence[str]], Awaitable[DeleteReport]],
    *,
    once: bool = False,
) -> AsyncGenerator[FolderChange]:
    """Synchronise the store with a folder, and keep it synchronised until closed, or once.

    A source is the folder's path as given, followed by the path below it. A stored document is kept while its file
    exists, even if the file does not match the filter.

    Yields:
        A report after each change; the first one always, even if nothing changed.

    Raises:
        InvalidRequestError: The folder is no folder, or is ".", which cannot be the prefix of its documents' sources.
        HeliographError: As inserting and deleting raise.
    """
    if not await asyncio.to_thread(folder.is_dir):
        raise InvalidRequestError(f"{str(folder)!r} is not a folder; give one that exists")
    if str(folder) == ".":
        raise InvalidRequestError("'.' is no name for the sources of documents; give the folder's name or full path")
    prefix = clean_text(str(folder).rstrip("/") + "/")

    async def take_over(changed: Sequence[str], gone: Sequence[str]) -> FolderChange:
        ingest = await insert(changed) if changed else None
        deletion = await delete(await identify_files(records, gone)) if gone else None
        return FolderChange(ingest, deletion, tuple(gone))

    async with aclosing(signals(folder, settings.watch_by, settings.watch_poll_seconds)) as changes:
        # Started before the first snapshot, so that no change between the two is missed.
        signal = None if once else asyncio.ensure_future(anext(changes))
        try:
            known = await asyncio.to_thread(snapshot, folder, files)
            # The source of a file name that does not decode is cleaned, and so differs from the path.
            there = {clean_text(path) for path in known}
            stored = records.all_documents(DocumentQuery(source_prefix=prefix, sort="source"))
            gone = await asyncio.to_thread(_missing, [item.source async for item in stored if item.source not in there])
            yield await take_over(list(known), gone)
            while signal is not None:
                await signal
                signal = asyncio.ensure_future(anext(changes))
                if await asyncio.to_thread(_missing, [folder]):
                    _log.warning("the folder %r is not there; its documents are kept until it is back", str(folder))
                    continue
                now = await _settled(folder, files, settings.watch_settle_seconds)
                changed = [path for path, state in now.items() if known.get(path) != state]
                gone = await asyncio.to_thread(_missing, [path for path in known if path not in now])
                known = now
                if changed or gone:
                    yield await take_over(changed, gone)
        finally:
            if signal is not None:
                signal.cancel()
                await asyncio.wait([signal])
                if not signal.cancelled():
                    # Retrieved, so that asyncio does not log it as never retrieved.
                    signal.exception()


def _missing(paths: Iterable[str | Path]) -> list[str]:
    return [str(path) for path in paths if not Path(path).exists()]


async def _settled(folder: Path, files: FileFilter, settle_seconds: float) -> dict[str, tuple[int, int, int]]:
    """Return a snapshot of the folder once two in a row are equal."""
    now = await asyncio.to_thread(snapshot, folder, files)
    for _ in range(_MOST_LOOKS):
        before = now
        await asyncio.sleep(settle_seconds)
        now = await asyncio.to_thread(snapshot, folder, files)
        if now == before:
            break
    return now


def find_samples() -> list[NewDocument]:
    """Return the sample documents; their sources are paths below the folder of samples.

    Folders take turns, so that a question before the end of the ingest finds documents of each, in both languages.
    """
    folders = [item for item in _by_name(files("heliograph") / "samples") if item.is_dir()]
    pages = [[(f"{folder.name}/{page.name}", page) for page in _by_name(folder)] for folder in folders]
    turns = (item for turn in zip_longest(*pages) for item in turn if item is not None)
    return [NewDocument(page.read_text("utf-8"), source) for source, page in turns]


def _by_name(folder: Traversable) -> list[Traversable]:
    return sorted(folder.iterdir(), key=lambda item: item.name)
