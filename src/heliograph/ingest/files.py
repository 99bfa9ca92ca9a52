"""Taking in files: reading them a few megabytes ahead of the pipeline, under one batch.

A file that cannot be read is reported as failed and stops no other. Memory holds one group of files at a time,
however many there are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from heliograph.documents.plain import load_text_file
from heliograph.errors import IngestError
from heliograph.ids import track_id as new_track_id
from heliograph.ingest.models import DocumentResult, IngestReport, NewDocument, Outcome
from heliograph.ingest.pipeline import IngestPipeline
from heliograph.ingest.progress import Progress, ProgressCallback
from heliograph.models import Usage

__all__ = ["insert_files"]

_GROUP_CHARACTERS = 32_000_000
_GROUP_FILES = 1_000


async def insert_files(
    pipeline: IngestPipeline,
    paths: Sequence[Path],
    max_characters: int,
    progress: ProgressCallback | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> IngestReport:
    """Read files and take them in.

    Args:
        pipeline: Takes in what was read.
        paths: The files; their sources are these paths as given.
        max_characters: A longer file is refused.
        progress: Told how far the whole is, not only the group under way.
        metadata: Kept with every document, over what the files themselves say.

    Returns:
        One result per path, in order; raises as `IngestPipeline.insert`.
    """
    batch = new_track_id("index")
    results: list[DocumentResult] = []
    usage = Usage()
    reader = _read_groups(paths, max_characters, metadata or {})
    while (group := await asyncio.to_thread(next, reader, None)) is not None:
        read = [item for item in group if isinstance(item, NewDocument)]
        watch = _whole(progress, len(results), len(paths), usage) if progress else None
        report = await pipeline.insert(read, track_id=batch, progress=watch)
        taken_in = iter(report.results)
        results += [item if isinstance(item, DocumentResult) else next(taken_in) for item in group]
        usage += report.usage
    return IngestReport(batch, tuple(results))


def _read_groups(
    paths: Sequence[Path], max_characters: int, metadata: Mapping[str, Any]
) -> Iterator[list[NewDocument | DocumentResult]]:
    group: list[NewDocument | DocumentResult] = []
    characters = 0
    for path in paths:
        item = _read(path, max_characters, metadata)
        group.append(item)
        characters += len(item.text) if isinstance(item, NewDocument) else 0
        if characters >= _GROUP_CHARACTERS or len(group) >= _GROUP_FILES:
            yield group
            group, characters = [], 0
    if group:
        yield group


def _read(path: Path, max_characters: int, metadata: Mapping[str, Any]) -> NewDocument | DocumentResult:
    try:
        loaded = load_text_file(path, max_characters)
    except IngestError as error:
        return DocumentResult("", str(path), Outcome.FAILED, error)
    return NewDocument(loaded.text, loaded.source, loaded.title, metadata={**loaded.metadata, **metadata} or None)


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
