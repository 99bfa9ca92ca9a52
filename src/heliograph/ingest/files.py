"""Taking in files and URLs: read a little ahead of the pipeline, in threads, under one batch.

A source that cannot be read is reported as failed and stops no other. Memory holds two groups of documents at a time,
however many there are: one that is taken in, and one that is read meanwhile. Fields of metadata that are known and that
neither the source nor the caller states any more are kept.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import replace
from pathlib import Path, PurePath
from typing import Any

from heliograph.documents.base import LoadedDocument
from heliograph.ids import track_id as new_track_id
from heliograph.ingest.intake import identify_files
from heliograph.ingest.models import (
    DocumentResult,
    IngestReport,
    NewDocument,
    Progress,
    ProgressCallback,
    expected_seconds,
)
from heliograph.ingest.pipeline import IngestPipeline
from heliograph.ingest.processing import OUTAGES, as_failure
from heliograph.models import Usage
from heliograph.observing import stage
from heliograph.stores.base import RecordsStore

_GROUP_CHARACTERS = 32_000_000
_GROUP_FILES = 1_000
# Slow formats come in smaller groups, so that the pipeline has something to do.
_GROUP_SECONDS = 3.0

# Gives what a path or URL says; raises IngestError or MissingDependencyError.
ReadSource = Callable[[str], LoadedDocument]
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
    """Read files or URLs and take them in.

    Args:
        pipeline: Takes in what was read.
        records: Where known metadata is.
        sources: Paths or URLs; the sources of the documents, as given.
        read: Reads one of them; called in a thread.
        progress: Told how far the whole is, not only the group under way.
        metadata: Kept with every document, over what the sources themselves say.
        track_id: Name of the batch; None makes one.

    Returns:
        One result per source, in order; raises as `IngestPipeline.insert`.
    """

    async def insert(documents: list[NewDocument], batch: str, watch: ProgressCallback | None) -> IngestReport:
        return await pipeline.insert(documents, track_id=batch, progress=watch)

    batch = track_id or new_track_id("index")
    groups = _read_groups(list(map(str, sources)), read, metadata or {}, pipeline.sources_at_once)
    whole = await asyncio.to_thread(_Whole, list(map(str, sources)), progress) if progress else None
    return await _take_in(insert, records, groups, whole, batch)


async def enqueue_files(
    pipeline: IngestPipeline,
    records: RecordsStore,
    sources: Sequence[str],
    read: ReadSource,
    metadata: Mapping[str, Any] | None = None,
    *,
    track_id: str | None = None,
) -> IngestReport:
    """Read files or URLs and store them as pending; arguments and results are those of `insert_files`.

    Raises:
        StoreError: As `IngestPipeline.enqueue`.
    """

    async def enqueue(documents: list[NewDocument], batch: str, _: ProgressCallback | None) -> IngestReport:
        return await pipeline.enqueue(documents, track_id=batch)

    groups = _read_groups(sources, read, metadata or {}, pipeline.sources_at_once)
    return await _take_in(enqueue, records, groups, None, track_id or new_track_id("index"))


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
            results += map(_with_omitted, report.results, documents)
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


def _with_omitted(result: DocumentResult, document: NewDocument) -> DocumentResult:
    """Return a result that says how much of a page was left out, as its loader stated."""
    omitted = (document.metadata or {}).get("omitted_characters")
    return replace(result, omitted_characters=omitted) if isinstance(omitted, int) else result


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
        elapsed = time.monotonic() - self._started
        expected = whole.characters_total + self._characters_ahead(whole.characters_total)
        self._progress(
            replace(
                whole,
                documents_done=len(self._sources) if is_finished else whole.documents_done,
                elapsed_seconds=elapsed,
                eta_seconds=expected_seconds(elapsed, whole.characters_done, expected),
                is_finished=is_finished,
            )
        )

    def _characters_ahead(self, to_read: int) -> float:
        """Return how many characters of what is not opened yet will have to be read, if that goes on as it went."""
        size, length = self._known.get("", (0, 0))
        average, pace = size / max(1, self._opened), length / size if size else 1.0
        ahead = 0.0
        for source, bytes_there in zip(self._sources[self._opened :], self._sizes[self._opened :], strict=True):
            own_size, own_length = self._known.get(_kind(source), (0, 0))
            ahead += (bytes_there or average) * (own_length / own_size if own_size else pace)
        return ahead * to_read / length if length else ahead

    def _sum(self, group: Progress) -> Progress:
        before = self._before
        return replace(
            group,
            documents_done=before.documents_done + group.documents_done,
            documents_total=len(self._sources),
            chunks_done=before.chunks_done + group.chunks_done,
            chunks_total=before.chunks_total + group.chunks_total,
            entities=before.entities + group.entities,
            relations=before.relations + group.relations,
            failures=before.failures + group.failures,
            usage=before.usage + group.usage,
            characters_done=before.characters_done + group.characters_done,
            characters_total=before.characters_total + group.characters_total,
        )


def _kind(source: str) -> str:
    return PurePath(source).suffix.lower() or "."


def _size(source: str) -> int:
    try:
        return Path(source).stat().st_size
    except (OSError, ValueError):
        return 0
