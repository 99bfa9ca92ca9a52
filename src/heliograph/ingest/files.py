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
from pathlib import Path
from typing import Any

from heliograph.documents.base import LoadedDocument
from heliograph.documents.cleaning import clean_text
from heliograph.errors import IngestError, MissingDependencyError
from heliograph.ids import document_id
from heliograph.ids import track_id as new_track_id
from heliograph.ingest.models import DocumentResult, IngestReport, NewDocument
from heliograph.ingest.pipeline import IngestPipeline
from heliograph.ingest.progress import Progress, ProgressCallback
from heliograph.models import Usage
from heliograph.observing import stage
from heliograph.stores.base import RecordsStore

__all__ = ["ReadSource", "enqueue_files", "insert_files"]

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
    return await _take_in(insert, records, len(sources), groups, progress, batch)


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
    return await _take_in(enqueue, records, len(sources), groups, None, track_id or new_track_id("index"))


async def _take_in(
    take: _Take,
    records: RecordsStore,
    count: int,
    groups: Iterator[list[NewDocument]],
    progress: ProgressCallback | None,
    batch: str,
) -> IngestReport:
    results: list[DocumentResult] = []
    usage = Usage()
    ahead = _read_ahead(groups)
    try:
        while (group := await ahead) is not None:
            ahead = _read_ahead(groups)
            documents = await _with_known_metadata(records, group)
            watch = _whole(progress, len(results), count, usage) if progress else None
            report = await take(documents, batch, watch)
            results += map(_with_omitted, report.results, documents)
            usage += report.usage
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
    except (IngestError, MissingDependencyError) as error:
        return NewDocument("", source, error=error)
    return NewDocument(
        loaded.text,
        loaded.source,
        loaded.title,
        metadata={**loaded.metadata, **metadata} or None,
        page_starts=loaded.page_starts,
    )


async def _with_known_metadata(records: RecordsStore, documents: Sequence[NewDocument]) -> list[NewDocument]:
    """Return documents with the metadata that they are stored with, below what is stated now."""
    ids = [document_id(clean_text(document.source)) for document in documents]
    known = {document.id: document.metadata for document in await records.get_documents(ids)}
    return [
        replace(document, metadata={**known[id_], **(document.metadata or {})}) if known.get(id_) else document
        for id_, document in zip(ids, documents, strict=True)
    ]


def _with_omitted(result: DocumentResult, document: NewDocument) -> DocumentResult:
    """Return a result that says how much of a page was left out, as its loader stated."""
    omitted = (document.metadata or {}).get("omitted_characters")
    return replace(result, omitted_characters=omitted) if isinstance(omitted, int) else result


def _whole(progress: ProgressCallback, done: int, total: int, usage: Usage) -> ProgressCallback:
    """Return a callback that reports a group as the part of the whole that it is."""

    def report(group: Progress) -> None:
        share = group.documents_done / total if total else 1.0
        remaining = group.eta_seconds
        if remaining is not None and group.documents_total < total - done:
            # What lies beyond this group is only known by its number of files.
            remaining = group.elapsed_seconds * (1 - share) / share if share else None
        finished = group.is_finished and done + group.documents_total >= total
        progress(
            replace(
                group,
                documents_done=done + group.documents_done,
                documents_total=total,
                usage=usage + group.usage,
                eta_seconds=remaining,
                is_finished=finished,
            )
        )

    return report
