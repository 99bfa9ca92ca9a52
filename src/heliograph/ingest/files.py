"""Takes in files and URLs, read a little ahead of the pipeline, and keeps a folder and its documents in step.

A source that cannot be read is reported as failed and stops no other. Memory holds two groups of documents at a time,
however many there are: one that is taken in, and one that is read meanwhile. Fields of metadata that are known and that
neither the source nor the caller states any more are kept.
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
# Slow formats come in smaller groups, so that the pipeline has something to do.
_GROUP_SECONDS = 3.0

# Gives what a path or URL says; raises IngestError or MissingDependencyError.
ReadSource = Callable[[str], LoadedDocument]
# Fields of `Progress` in which groups add up.
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
    """Read files or URLs, by `read` in a thread, and take them in; documents have these as sources.

    Progress is told how far the whole is, not only the group under way. Metadata goes over what the sources themselves
    say. Without a `track_id` one is made.

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
                # How much of a page was left out, as its loader stated.
                omitted = (document.metadata or {}).get("omitted_characters")
                results.append(replace(result, omitted_characters=omitted) if isinstance(omitted, int) else result)
    finally:
        # A thread cannot be cancelled: what it reads is let go when it is done.
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
    """Yield what sources say, in order, while so many are read at once."""
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
    """A run over all sources, of which one group after the other is taken in.

    What lies beyond the group under way is known by its size in bytes only; how many characters that makes, and how
    many of them have to be read, is told by what was opened so far, by kind of file.
    """

    def __init__(self, sources: Sequence[str], progress: ProgressCallback) -> None:
        self._progress = progress
        self._started = time.monotonic()
        self._sources = sources
        self._sizes = [_size(source) for source in sources]
        self._opened = 0
        self._before = Progress("", 0, 0, 0, 0, 0, 0, 0, Usage(), 0.0, None, is_finished=False)
        self._last: Progress | None = None
        # Bytes and characters of what was opened, per kind of file and in all.
        self._known: dict[str, tuple[int, int]] = {}

    def begin(self, documents: Sequence[NewDocument]) -> None:
        """Count a group that was opened and is taken in from now on."""
        before = self._sum(self._last) if self._last is not None else self._before
        self._before, self._last = replace(before, documents_done=self._opened), None
        for place, document in enumerate(documents, start=self._opened):
            for kind in (_kind(self._sources[place]), ""):
                size, length = self._known.get(kind, (0, 0))
                self._known[kind] = size + self._sizes[place], length + len(document.text)
        self._opened += len(documents)

    def report(self, group: Progress) -> None:
        """Report a group as the part of the whole that it is."""
        self._last = group
        whole = self._sum(group)
        is_finished = group.is_finished and self._opened == len(self._sources)
        is_whole = group.documents_done == group.documents_total
        elapsed = time.monotonic() - self._started
        # Of what still has to be read in unopened files the opened ones tell.
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
                # Those that were unchanged are never reported; a run that an outage ended has some left to do.
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


# Keeps a folder and what is stored of it in step.
#
# The folder is compared with the stored documents below it, then every settled change is taken over: new and changed
# files are inserted, documents of missing files deleted. A signal (package `watchfiles`, or polling) only says that
# something changed; two snapshots say what. So nothing depends on how a system reports a move or an editor saves a
# file. A moved file is inserted under its new path before the old one is deleted.

# What `watchfiles` raises of a name that is no text, there or new (alone or in a group), and where the system's limit
# of watched folders is reached.
_NO_REPORTS = (ExceptionGroup, RuntimeError, UnicodeError, OSError)

_log = logging.getLogger(__name__)


def snapshot(folder: str | os.PathLike[str], files: FileFilter) -> dict[str, tuple[int, int, int]]:
    """Return the files that a folder holds now, each with what tells one state of it from another; blocks.

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
    return states


async def signals(
    folder: Path, watch_by: Literal["auto", "system", "polling"], poll_seconds: float
) -> AsyncGenerator[None]:
    """Yield whenever something in a folder may have changed, from the first `anext` on.

    `system` uses what the system reports, `polling` yields at intervals; `auto` takes the first if `watchfiles` is
    installed and as long as it can report.

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


# A folder that never settles is read all the same after so many looks.
_MOST_LOOKS = 30


@dataclass(frozen=True, slots=True)
class FolderChange:
    """The results of one look at a folder: of new and changed files, and of removed ones; None where none."""

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

    Sources are the folder's path as given and the path below it. A stored document whose file exists is kept though the
    file is not among those taken.

    Yields:
        What was done, after each change; the first one always, even if nothing had to be done.

    Raises:
        InvalidRequestError: The folder is no folder, or has no name that the sources of its documents could begin with.
        HeliographError: As taking in and deleting raise.
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
        # Asked for before the first look, so that no change falls between the two.
        signal = None if once else asyncio.ensure_future(anext(changes))
        try:
            known = await asyncio.to_thread(snapshot, folder, files)
            # Names that are no text are stored in a form that no file has.
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
                    # Retrieved, so that it is not reported as lost; it only told of another change.
                    signal.exception()


def _missing(paths: Iterable[str | Path]) -> list[str]:
    return [str(path) for path in paths if not Path(path).exists()]


async def _settled(folder: Path, files: FileFilter, settle_seconds: float) -> dict[str, tuple[int, int, int]]:
    """Return what the folder holds once two looks in a row find the same."""
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

    Folders take turns, so that whoever asks before all are read finds something of each, in both languages.
    """
    folders = [item for item in _by_name(files("heliograph") / "samples") if item.is_dir()]
    pages = [[(f"{folder.name}/{page.name}", page) for page in _by_name(folder)] for folder in folders]
    turns = (item for turn in zip_longest(*pages) for item in turn if item is not None)
    return [NewDocument(page.read_text("utf-8"), source) for source, page in turns]


def _by_name(folder: Traversable) -> list[Traversable]:
    return sorted(folder.iterdir(), key=lambda item: item.name)
