"""What each kind of job does, with the engine of its workspace.

Every kind may be begun again after it was broken off at any point: what is done stays done, and nothing is done twice
that would change the result.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from heliograph.engine import AsyncHeliograph
from heliograph.ingest.intake import find_by_source, identify_files
from heliograph.ingest.models import IngestReport, Outcome, Progress
from heliograph.models import Document, DocumentStatus
from heliograph.service.jobs.input_folder import InputFolder
from heliograph.service.jobs.models import Job, JobKind, JobProgress
from heliograph.service.jobs.store import JobStore
from heliograph.stores.base import DocumentQuery

_PAGE = 500
# So many documents are deleted between two reports.
_DELETED_AT_ONCE = 20
_MOST_PROBLEMS = 20
_MOST_PROBLEM_LENGTH = 500


@dataclass(frozen=True, slots=True)
class Bench:
    """What a job works with.

    Attributes:
        kb: The engine of the workspace.
        folder: Its input folder.
        store: Its jobs.
        report: Told how far the job is.
    """

    kb: AsyncHeliograph
    folder: InputFolder
    store: JobStore
    report: Callable[[JobProgress], None]


async def work_on(job: Job, bench: Bench) -> JobProgress:
    """Do a job, and return what came of it.

    Raises:
        CancelledIngestError: The engine was told to stop.
        ModelError: A model is out of reach; documents wait.
        StoreError: The store failed, or another process is ingesting.
    """
    return await _WORK[job.kind](job, bench)


async def _read_uploads(job: Job, bench: Bench) -> JobProgress:
    found = {source: await asyncio.to_thread(bench.folder.find, source) for source in job.request.sources}
    files = {source: path or bench.folder.path / source for source, path in found.items()}
    return await _read(job, bench, files)


async def _read_url(job: Job, bench: Bench) -> JobProgress:
    (url,) = job.request.sources
    metadata = job.request.metadata
    return _told(await bench.kb.enqueue_files({url: url}, metadata=metadata, track_id=job.request.track_id))


async def _scan(job: Job, bench: Bench) -> JobProgress:
    files = await asyncio.to_thread(bench.folder.files)
    known = await asyncio.to_thread(bench.store.read_files)
    same = [name for name, (_, stamp) in files.items() if known.get(name) == stamp]
    kept = await _well_stored(bench.kb, same)
    changed = {name: path for name, (path, _) in files.items() if name not in kept}
    bench.report(JobProgress(0, len(changed)))
    progress = await _read(job, bench, changed)
    counts = {**progress.counts, "files": len(files), "unread": len(kept)}
    return JobProgress(progress.done, progress.total, counts, progress.problems)


async def _process(_: Job, bench: Bench) -> JobProgress:
    return _told(await bench.kb.resume(progress=_watching(bench)))


async def _retry(job: Job, bench: Bench) -> JobProgress:
    only = job.request.document_ids
    unread = [item.source for item in await _failed(bench.kb) if not item.length and (not only or item.id in only)]
    found = {source: await asyncio.to_thread(bench.folder.find, source) for source in unread}
    if files := {source: path for source, path in found.items() if path is not None}:
        await _read(job, bench, files)
    return _told(await bench.kb.retry(only, progress=_watching(bench)))


async def _delete(job: Job, bench: Bench) -> JobProgress:
    ids = job.request.document_ids
    counts: Counter[str] = Counter()
    for start in range(0, len(ids), _DELETED_AT_ONCE):
        some = ids[start : start + _DELETED_AT_ONCE]
        sources = [item.source for item in await bench.kb.store.records.get_documents(some)]
        report = await bench.kb.delete(some)
        counts.update(deleted=len(report.deleted), missing=len(report.missing))
        if job.request.deletes_files:
            # A file goes with the last document that names it.
            kept = await find_by_source(bench.kb.store.records, sources)
            gone = [source for source in sources if source not in kept]
            counts["files"] += await asyncio.to_thread(_remove_files, bench, gone)
        bench.report(JobProgress(start + len(some), len(ids), dict(counts)))
    return JobProgress(len(ids), len(ids), dict(counts))


async def _clear(_: Job, bench: Bench) -> JobProgress:
    count = (await bench.kb.documents(DocumentQuery(limit=0))).total
    await bench.kb.clear()
    files = await asyncio.to_thread(bench.folder.clear)
    await asyncio.to_thread(bench.store.forget_read)
    return JobProgress(count, count, {"deleted": count, "files": files})


_WORK: dict[JobKind, Callable[[Job, Bench], Awaitable[JobProgress]]] = {
    JobKind.FILES: _read_uploads,
    JobKind.URL: _read_url,
    JobKind.SCAN: _scan,
    JobKind.PROCESS: _process,
    JobKind.RETRY: _retry,
    JobKind.DELETE: _delete,
    JobKind.CLEAR: _clear,
}


async def _read(job: Job, bench: Bench, files: dict[str, Path]) -> JobProgress:
    """Read files and store them as pending, a few at a time, noting what they looked like before."""
    names = list(files)
    counts: Counter[str] = Counter()
    problems: list[str] = []
    for start in range(0, len(names), _PAGE):
        some = {name: files[name] for name in names[start : start + _PAGE]}
        stamps = {name: bench.folder.stamp(path) for name, path in some.items()}
        metadata, track_id = job.request.metadata, job.request.track_id
        progress = _told(await bench.kb.enqueue_files(some, metadata=metadata, track_id=track_id))
        known = {name: stamp for name, stamp in stamps.items() if stamp is not None}
        await asyncio.to_thread(bench.store.note_read, known)
        counts.update(progress.counts)
        problems += progress.problems
        bench.report(JobProgress(start + len(some), len(names), dict(counts), tuple(problems[:_MOST_PROBLEMS])))
    return JobProgress(len(names), len(names), dict(counts), tuple(problems[:_MOST_PROBLEMS]))


async def _well_stored(kb: AsyncHeliograph, sources: Sequence[str]) -> set[str]:
    """Return the sources whose documents are stored and did not fail."""
    found: set[str] = set()
    for start in range(0, len(sources), _PAGE):
        some = sources[start : start + _PAGE]
        by_id = dict(zip(await identify_files(kb.store.records, some), some, strict=True))
        documents = await kb.store.records.get_documents(list(by_id))
        found |= {by_id[item.id] for item in documents if item.status is not DocumentStatus.FAILED}
    return found


async def _failed(kb: AsyncHeliograph) -> list[Document]:
    found: list[Document] = []
    while True:
        query = DocumentQuery((DocumentStatus.FAILED,), sort="id", offset=len(found), limit=_PAGE)
        page = await kb.documents(query)
        found += page.documents
        if len(page.documents) < _PAGE:
            return found


def _remove_files(bench: Bench, sources: Sequence[str]) -> int:
    removed = [source for source in sources if bench.folder.remove(source)]
    bench.store.forget_read(removed)
    return len(removed)


def _watching(bench: Bench) -> Callable[[Progress], None]:
    def watch(progress: Progress) -> None:
        counts = {"failed": progress.failures} if progress.failures else {}
        bench.report(JobProgress(progress.documents_done, progress.documents_total, counts))

    return watch


def _told(report: IngestReport) -> JobProgress:
    counts = Counter(result.outcome.value for result in report.results)
    told = (
        f"{result.source or result.id}: {result.error or result.detail}"[:_MOST_PROBLEM_LENGTH]
        for result in report.results
        if result.outcome in (Outcome.FAILED, Outcome.PARTIAL)
    )
    problems = tuple(problem for _, problem in zip(range(_MOST_PROBLEMS), told, strict=False))
    return JobProgress(len(report.results), len(report.results), dict(counts), problems)
