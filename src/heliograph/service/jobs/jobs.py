"""The jobs of all workspaces of one process: what each kind does, running, accepting, listing and cancelling them.

Every kind may be restarted after it was interrupted at any point: finished work is kept, and no work is repeated that
would change the result.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import heliograph.errors as errors
from heliograph.engine import AsyncHeliograph, with_store
from heliograph.ids import track_id as new_track_id
from heliograph.ingest.intake import OUTAGES, find_by_source
from heliograph.ingest.models import IngestReport, NewDocument, Outcome, Progress
from heliograph.models import WAITING_STATUSES, DocumentStatus, utc_now
from heliograph.observing import origin, working_for
from heliograph.service.jobs.input_folder import InputFolder
from heliograph.service.jobs.models import (
    LANES,
    DocumentVersion,
    Job,
    JobKind,
    JobProgress,
    JobRequest,
    JobState,
    Lane,
    PipelineState,
    begun,
    ended,
    progressed,
    waits,
)
from heliograph.service.jobs.store import JobStore, Ownership
from heliograph.service.workspaces import Workspaces
from heliograph.settings import Settings
from heliograph.stores.base import DocumentQuery
from heliograph.stores.registry import workspace_upkeep

_PAGE = 500
# Documents deleted between two progress reports.
_DELETED_AT_ONCE = 20
_MOST_PROBLEMS = 20
# Number of a document's latest texts that are listed.
_MOST_VERSIONS = 100
_MOST_PROBLEM_LENGTH = 500


@dataclass(frozen=True, slots=True)
class Bench:
    """The resources of a running job."""

    kb: AsyncHeliograph
    folder: InputFolder
    store: JobStore
    report: Callable[[JobProgress], None]


async def work_on(job: Job, bench: Bench) -> JobProgress:
    """Run a job, and return its outcome.

    Raises:
        CancelledIngestError: The engine was stopped.
        ModelError: A model is out of reach; documents wait.
        StoreError: The store failed, or another process is ingesting.
    """
    request = job.request
    match job.kind:
        case JobKind.FILES:
            found = {source: await asyncio.to_thread(bench.folder.find, source) for source in request.sources}
            files = {source: path or bench.folder.path / source for source, path in found.items()}
            return await _read(job, bench, files)
        case JobKind.URL:
            urls = {url: url for url in request.sources}
            report = await bench.kb.enqueue_files(urls, metadata=request.metadata, track_id=request.track_id)
            await _note_versions(bench.kb, bench.store, report, request)
            return _told(report)
        case JobKind.SCAN:
            return await _scan(job, bench)
        case JobKind.PROCESS:
            return _told(await bench.kb.resume(progress=_watching(bench)))
        case JobKind.RETRY:
            return await _retry(job, bench)
        case JobKind.DELETE:
            return await _delete(job, bench)
        case JobKind.CLEAR:
            count = (await bench.kb.documents(DocumentQuery(limit=0))).total
            await bench.kb.clear()
            removed = await asyncio.to_thread(bench.folder.clear)
            await asyncio.to_thread(bench.store.forget_read)
            await asyncio.to_thread(bench.store.forget_versions)
            return JobProgress(count, count, {"deleted": count, "files": removed})


async def _scan(job: Job, bench: Bench) -> JobProgress:
    files = await asyncio.to_thread(bench.folder.files)
    known = await asyncio.to_thread(bench.store.read_files)
    same = [name for name, (_, stamp) in files.items() if known.get(name) == stamp]
    # Unchanged files whose documents are stored and did not fail are skipped.
    kept: set[str] = set()
    for start in range(0, len(same), _PAGE):
        some = same[start : start + _PAGE]
        by_id = dict(zip(await bench.kb.identify_files(some), some, strict=True))
        documents = await bench.kb.documents_by_id(list(by_id))
        kept |= {by_id[item.id] for item in documents if item.status is not DocumentStatus.FAILED}
    changed = {name: path for name, (path, _) in files.items() if name not in kept}
    bench.report(JobProgress(0, len(changed)))
    progress = await _read(job, bench, changed)
    counts = {**progress.counts, "files": len(files), "unread": len(kept)}
    return JobProgress(progress.done, progress.total, counts, progress.problems)


async def _retry(job: Job, bench: Bench) -> JobProgress:
    only = job.request.document_ids
    failed = bench.kb.store.records.all_documents(DocumentQuery((DocumentStatus.FAILED,), sort="id"))
    unread = [item.source async for item in failed if not item.length and (not only or item.id in only)]
    found = {source: await asyncio.to_thread(bench.folder.find, source) for source in unread}
    if files := {source: path for source, path in found.items() if path is not None}:
        await _read(job, bench, files)
    return _told(await bench.kb.retry(only, progress=_watching(bench)))


async def _delete(job: Job, bench: Bench) -> JobProgress:
    ids = job.request.document_ids
    counts: Counter[str] = Counter()
    for start in range(0, len(ids), _DELETED_AT_ONCE):
        some = ids[start : start + _DELETED_AT_ONCE]
        found = await bench.kb.documents_by_id(some)
        sources = [item.source for item in found]
        # Documents that an interrupted run of this job deleted may have been inserted again, even with the same text.
        new = {item.id for item in found if job.started_at is not None and item.created_at > job.created_at}
        report = await bench.kb.delete(
            [id_ for id_ in some if id_ not in new], content_hashes=job.request.content_hashes
        )
        replaced = new | set(report.replaced)
        counts.update(deleted=len(report.deleted), missing=len(report.missing))
        if replaced:
            counts["replaced"] += len(replaced)
        await asyncio.to_thread(bench.store.forget_versions, [id_ for id_ in some if id_ not in replaced])
        if job.request.deletes_files:
            # A file is deleted with the last document that names it, unless it was uploaded again and is not read yet.
            unread = await asyncio.to_thread(bench.store.unread_files)
            kept = await find_by_source(bench.kb.store.records, sources)
            gone = [source for source in sources if source not in kept and source not in unread]
            counts["files"] += await asyncio.to_thread(_remove_files, bench, gone)
        bench.report(JobProgress(start + len(some), len(ids), dict(counts)))
    return JobProgress(len(ids), len(ids), dict(counts))


def _remove_files(bench: Bench, sources: Sequence[str]) -> int:
    """Remove files in one call: if some stayed although their documents are deleted, they would be read again."""
    removed = [source for source in sources if bench.folder.remove(source)]
    bench.store.forget_read(removed)
    return len(removed)


async def _read(job: Job, bench: Bench, files: dict[str, Path]) -> JobProgress:
    """Read files and store them as pending, a few at a time, recording their state before they were read."""
    names = list(files)
    counts: Counter[str] = Counter()
    problems: list[str] = []
    for start in range(0, len(names), _PAGE):
        some = {name: files[name] for name in names[start : start + _PAGE]}
        stamps = {name: bench.folder.stamp(path) for name, path in some.items()}
        metadata, track_id = job.request.metadata, job.request.track_id
        report = await bench.kb.enqueue_files(some, metadata=metadata, track_id=track_id)
        await _note_versions(bench.kb, bench.store, report, job.request)
        progress = _told(report)
        known = {name: stamp for name, stamp in stamps.items() if stamp is not None}
        await asyncio.to_thread(bench.store.note_read, known)
        counts.update(progress.counts)
        problems += progress.problems
        bench.report(JobProgress(start + len(some), len(names), dict(counts), tuple(problems[:_MOST_PROBLEMS])))
    return JobProgress(len(names), len(names), dict(counts), tuple(problems[:_MOST_PROBLEMS]))


async def _note_versions(kb: AsyncHeliograph, store: JobStore, report: IngestReport, request: JobRequest) -> None:
    """Record the author and text of new or changed documents."""
    ids = [result.id for result in report.results if result.outcome is Outcome.PENDING and not result.is_known]
    versions = [
        DocumentVersion(item.id, request.author, request.track_id, item.length, item.content_hash, utc_now())
        for item in await kb.documents_by_id(ids)
    ]
    await asyncio.to_thread(store.note_versions, versions)


def _watching(bench: Bench) -> Callable[[Progress], None]:
    def watch(progress: Progress) -> None:
        counts = {"chunks": progress.chunks_done, "chunks_begun": progress.chunks_total}
        counts |= {"entities": progress.entities, "relations": progress.relations}
        if progress.failures:
            counts["failed"] = progress.failures
        if progress.eta_seconds is not None:
            counts["seconds_left"] = round(progress.eta_seconds)
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


# Runs the jobs of one workspace while this process owns them.
#
# A runner exists in every process that has accepted a job of the workspace or found one at start. One of them holds
# the lock and works; the others check now and then whether it died. When no jobs are left, the lock is released.
#
# A job is postponed where a model or store is out of reach, to be retried with growing delays, and when the service
# closes, to be restarted at the next start; no work is lost by that. A job that people cancel ends at once.

_LOG = logging.getLogger(__name__)
_LOCK = "jobs.lock"
_IDLE_SECONDS = 0.5
_LONGEST_DELAY_SECONDS = 60.0

# Lends the engine of the workspace.
Lend = Callable[[], AbstractAsyncContextManager[AsyncHeliograph]]


class WorkspaceRunner:
    """Runs one workspace's jobs; used from the event loop's thread only."""

    def __init__(self, workspace: str, store: JobStore, folder: InputFolder, lend: Lend) -> None:
        self._workspace = workspace
        self._store = store
        self._folder = folder
        self._owner = Ownership(store.path.with_name(_LOCK))
        self._lend = lend
        self._task: asyncio.Task[None] | None = None
        self._news = asyncio.Event()
        self._running: dict[str, asyncio.Task[None]] = {}
        self._progress: dict[str, JobProgress] = {}
        self._stopped: set[str] = set()
        # Consecutive failures to write the outcome, per job.
        self._failures: Counter[str] = Counter()
        self._closing = asyncio.Event()

    @property
    def is_idle(self) -> bool:
        """Whether there is no job to run or to wait for."""
        return self._task is None

    def wake(self) -> None:
        """Look for jobs now."""
        self._news.set()
        if self._task is None and not self._closing.is_set():
            self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Interrupt running jobs, which continue at the next start, and stop; closing twice does nothing."""
        self._closing.set()
        self._news.set()
        if self._task is not None:
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        failures = 0
        try:
            while not self._closing.is_set():
                self._news.clear()
                try:
                    await self._work_while_owner()
                    failures = 0
                except errors.NotFoundError:
                    # The workspace was removed, and its jobs with it.
                    return
                except errors.HeliographError as error:
                    failures += 1
                    delay = _delay_seconds(failures)
                    _LOG.warning("jobs of %r cannot be run: %s; trying again in %g s", self._workspace, error, delay)
                    await self._rest(delay)
                    continue
                if not self._news.is_set():
                    return
        except Exception:  # noqa: BLE001 (the edge of the process: nobody awaits this)
            _LOG.exception("running jobs of %r failed unexpectedly; they stay as they are", self._workspace)
        finally:
            self._owner.give_up()
            self._task = None

    async def _work_while_owner(self) -> None:
        while not await asyncio.to_thread(self._owner.take):
            if self._closing.is_set() or not await self._upcoming():
                return
            await self._wait(_IDLE_SECONDS)
        try:
            await asyncio.to_thread(self._store.take_over)
            if await self._upcoming():
                async with self._lend() as kb:
                    await self._work(kb)
        finally:
            self._owner.give_up()

    async def _upcoming(self) -> list[Job]:
        return await asyncio.to_thread(self._store.upcoming)

    async def _work(self, kb: AsyncHeliograph) -> None:
        """Start jobs that may start, until none is left."""
        try:
            while not self._closing.is_set():
                self._news.clear()
                jobs = [job for job in await self._upcoming() if not await self._cancelled(kb, job)]
                for job in _startable(jobs, set(self._running)):
                    self._running[job.id] = asyncio.create_task(self._execute(kb, job))
                if not jobs and not self._running:
                    return
                # Other processes may add jobs or cancel some at any time.
                later = [job.due_at.timestamp() - time.time() for job in jobs if job.state is JobState.WAITING]
                wait_seconds = max(0.01, min([_IDLE_SECONDS, *(delay for delay in later if delay > 0)]))
                await self._wait(wait_seconds)
                for id_, progress in list(self._progress.items()):
                    known = await asyncio.to_thread(self._store.get, id_)
                    # The job may have ended meanwhile, with counts of its own.
                    if known.progress != progress and id_ in self._progress:
                        await asyncio.to_thread(self._store.report, id_, progress)
                        if progress.done != known.progress.done:
                            await self._tell(progressed(known, progress))
        finally:
            for id_ in list(self._running):
                self._stop(id_)
            if self._running:
                await asyncio.wait(list(self._running.values()))

    async def _wait(self, seconds: float) -> None:
        """Wait for news, at most this long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._news.wait()

    async def _rest(self, seconds: float) -> None:
        """Wait this long, unless the service closes."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._closing.wait()

    async def _cancelled(self, kb: AsyncHeliograph, job: Job) -> bool:
        """Stop a job whose cancellation was requested; return whether it has ended."""
        if not job.cancelled_by:
            return False
        if job.id in self._running:
            self._stop(job.id)
            return False
        await self._end_cancelled(kb, job)
        return True

    def _stop(self, id_: str) -> None:
        """Cancel a job's task, once: it needs time to clean up."""
        if id_ not in self._stopped:
            self._stopped.add(id_)
            self._running[id_].cancel()

    async def _execute(self, kb: AsyncHeliograph, job: Job) -> None:
        try:
            with working_for(job.request.origin, "job", kind=job.kind.value):
                await self._attempt(kb, job)
            del self._failures[job.id]
        except errors.HeliographError as error:
            # The job's outcome could not be written; it counts as running, and is started again.
            self._failures[job.id] += 1
            delay = _delay_seconds(self._failures[job.id])
            _LOG.warning("the job %s (%s) will be run again in %g s: %s", job.id, job.kind, delay, error)
            if job.id not in self._stopped:
                # It keeps its place during the delay, so that no job overtakes it or starts it twice.
                await self._rest(delay)
        finally:
            self._running.pop(job.id, None)
            self._progress.pop(job.id, None)
            self._stopped.discard(job.id)
            self._news.set()

    async def _attempt(self, kb: AsyncHeliograph, job: Job) -> None:
        try:
            await asyncio.to_thread(self._store.begin, job.id)
            await self._tell(begun(job))
            bench = Bench(kb, self._folder, self._store, partial(self._progress.__setitem__, job.id))
            progress = await work_on(job, bench)
            await asyncio.to_thread(self._store.report, job.id, progress)
            if progress.counts.get(Outcome.PENDING.value) or job.kind is JobKind.RETRY:
                # Documents that were read are queued for processing before the job that read them is done.
                request = JobRequest(
                    JobKind.PROCESS, new_track_id("process"), job.request.author, origin=job.request.origin
                )
                await asyncio.to_thread(self._store.add, request)
            await self._end(job, JobState.DONE)
            await self._tell(ended(job, progress))
        except (asyncio.CancelledError, errors.CancelledIngestError):
            now = await asyncio.to_thread(self._store.get, job.id)
            if now.cancelled_by:
                await self._end_cancelled(kb, now)
            else:
                await asyncio.to_thread(self._store.postpone, job.id)
        except OUTAGES as error:
            has_moved = self._progress.get(job.id, job.progress).done > 0
            attempts = 1 if has_moved else job.attempts + 1
            delay = _delay_seconds(attempts)
            if isinstance(error, errors.RateLimited) and error.retry_after_seconds:
                delay = min(max(delay, error.retry_after_seconds), _LONGEST_DELAY_SECONDS)
            await asyncio.to_thread(self._store.postpone, job.id, str(error), attempts, delay)
            await self._tell(waits(job, error, delay))
        except errors.HeliographError as error:
            await self._end(job, JobState.FAILED, str(error))
        except Exception as error:  # noqa: BLE001 (the edge of the process: the job must not vanish)
            _LOG.exception("the job %s (%s) failed unexpectedly", job.id, job.kind)
            await self._end(job, JobState.FAILED, f"failed unexpectedly ({type(error).__name__}); the log has more")

    async def _end_cancelled(self, kb: AsyncHeliograph, job: Job) -> None:
        reason = f"cancelled by {job.cancelled_by!r}"
        if job.lane is Lane.PROCESSING:
            # Otherwise the next upload, or the next start, would process the documents of the cancelled job.
            await kb.abandon(f"{reason}; reprocess failed documents to go on")
        await self._end(job, JobState.CANCELLED, reason)
        await self._tell(f"{job.kind.value}: {reason}")

    async def _end(self, job: Job, state: JobState, error: str = "") -> None:
        """Record that a job has ended: every job passes through here exactly once."""
        await asyncio.to_thread(self._store.end, job.id, state, error)
        if state is JobState.FAILED:
            await self._tell(f"{job.kind.value} failed: {error}")

    async def _tell(self, text: str) -> None:
        await asyncio.to_thread(self._store.tell, text)


def _delay_seconds(attempts: int) -> float:
    """Return the delay after so many consecutive failures."""
    return min(2.0 ** min(attempts - 1, 10), _LONGEST_DELAY_SECONDS)


def _startable(jobs: list[Job], running: set[str]) -> list[Job]:
    """Return the jobs to start: the first due job of every free lane, or one that must run alone."""
    now = time.time()
    taken = {job.lane for job in jobs if job.id in running}
    chosen: list[Job] = []
    for job in jobs:
        if job.id in running or Lane.ALONE in taken:
            continue
        if job.lane is Lane.ALONE:
            # Later jobs do not overtake it.
            return [job] if not taken and not chosen else chosen
        if job.lane not in taken and job.due_at.timestamp() <= now:
            taken.add(job.lane)
            chosen.append(job)
    return chosen


_MOST_OPEN = 128
_POLL_SECONDS = 0.1
_RETRY_AFTER_SECONDS = 10.0


class Jobs:
    """Background work of all workspaces; used from the event loop's thread only.

    A job is either cancelled, which ends it, or postponed, which makes it wait again. For documents, the engine has
    `resume` (process waiting ones), `retry` (failed ones) and `abandon` (mark waiting ones as failed); its `pause` and
    `unpause` halt the whole engine, and no job uses them.
    """

    def __init__(self, settings: Settings, workspaces: Workspaces) -> None:
        self._settings = settings
        self._workspaces = workspaces
        # An embedded back end creates and removes a workspace's folder; for other stores it is created only for the
        # jobs.
        self._is_embedded = settings.store.is_embedded
        self._stores: dict[str, JobStore] = {}
        self._runners: dict[str, WorkspaceRunner] = {}
        self._looking: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Start to look, in the background, for unfinished jobs of earlier processes."""
        self._workspaces.call_before_removal(self.drop)
        self._looking = asyncio.create_task(self._look_through_all())

    async def close(self) -> None:
        """Accept no more work, interrupt running jobs, which continue at the next start; closing twice does nothing."""
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.wait([self._looking])
        await asyncio.gather(*(runner.close() for runner in self._runners.values()))
        self._runners.clear()
        for store in self._stores.values():
            store.close()
        self._stores.clear()

    def input_folder(self, workspace: str) -> InputFolder:
        """Return the input folder of a workspace, which may not exist; raises `SettingsError` for an invalid name."""
        configured = self._settings.server.input_dir
        place = self._place(workspace)
        return InputFolder(configured / place.name if configured else place / "inputs")

    async def submit(self, workspace: str, request: JobRequest) -> Job:
        """Accept a job of an existing workspace; it is on disk when this returns.

        If a job of the same kind for the whole workspace (process, retry, scan, clear) already waits, it is returned
        instead.

        Raises:
            ConflictError: All documents are being deleted.
            OverloadedError: Too many jobs wait.
            StoreUnavailable: It cannot be written.
        """
        store = self._store(workspace)
        request = replace(request, origin=origin())
        job = await asyncio.to_thread(store.add, request, self._settings.server.max_waiting_jobs)
        self._runner(workspace, store).wake()
        return job

    async def enqueue(
        self, workspace: str, kb: AsyncHeliograph, documents: Sequence[NewDocument], track_id: str, author: str
    ) -> IngestReport:
        """Store documents durably as pending and have them processed.

        Raises:
            ConflictError: All documents are being deleted.
            OverloadedError: Too many documents wait.
            StoreError: They cannot be stored.
        """
        await self.check_backlog(workspace, kb)
        report = await kb.enqueue(documents, track_id=track_id)
        if report.count(Outcome.PENDING):
            request = JobRequest(JobKind.PROCESS, track_id, author)
            await _note_versions(kb, self._store(workspace), report, request)
            await self.submit(workspace, request)
        return report

    async def versions(self, workspace: str, document_id: str) -> list[DocumentVersion]:
        """Return the texts that a document had, latest first."""
        store = await self._known_store(workspace)
        return await asyncio.to_thread(store.versions, document_id, _MOST_VERSIONS) if store else []

    async def check_backlog(self, workspace: str, kb: AsyncHeliograph) -> None:
        """Check that the workspace accepts documents now.

        Raises:
            ConflictError: All documents are being deleted.
            OverloadedError: Too many documents wait already.
        """
        if JobKind.CLEAR in await self.count_unfinished(workspace):
            raise errors.ConflictError("all documents are being deleted; try again when that is done")
        waiting = (await kb.documents(DocumentQuery(WAITING_STATUSES, limit=0))).total
        if waiting >= self._settings.server.max_waiting_jobs:
            raise errors.OverloadedError(
                f"{waiting:,} documents wait already; try again later, or raise server.max_waiting_jobs",
                _RETRY_AFTER_SECONDS,
            )

    async def get(self, workspace: str, job_id: str) -> Job:
        """Return a job; raises `NotFoundError` if the workspace has none of this id."""
        store = self._store(workspace)
        return await asyncio.to_thread(store.get, job_id)

    async def page(self, workspace: str, offset: int, limit: int) -> tuple[list[Job], int]:
        """Return jobs, latest first, and how many there are."""
        store = await self._known_store(workspace)
        return await asyncio.to_thread(store.page, offset, limit) if store else ([], 0)

    async def of_track(self, workspace: str, track_id: str) -> list[Job]:
        """Return the jobs of a batch in order."""
        store = await self._known_store(workspace)
        return await asyncio.to_thread(store.of_track, track_id) if store else []

    async def documents_of_track(self, workspace: str, track_id: str, limit: int) -> list[str]:
        """Return the ids of a batch's documents, whether or not later versions replaced them."""
        store = await self._known_store(workspace)
        return await asyncio.to_thread(store.documents_of_track, track_id, limit) if store else []

    async def count_unfinished(self, workspace: str) -> dict[JobKind, int]:
        """Return how many jobs wait or run, per kind with any; empty if there are none."""
        store = await self._known_store(workspace)
        return await asyncio.to_thread(store.count_unfinished) if store else {}

    async def state(self, workspace: str, most_messages: int = 1_000) -> PipelineState:
        """Return the unfinished jobs of a workspace and its latest messages."""
        store = await self._known_store(workspace)
        return await asyncio.to_thread(store.state, most_messages) if store else PipelineState((), {}, ())

    async def cancel(self, workspace: str, job_id: str, author: str) -> Job:
        """Request the cancellation of a job; a finished one is left alone.

        Documents that a cancelled `process` or `retry` has not finished are kept as failed.

        Raises:
            NotFoundError: The workspace has no such job.
        """
        store = self._store(workspace)
        job = await asyncio.to_thread(store.cancel, job_id, author)
        self._runner(workspace, store).wake()
        return job

    async def cancel_all(self, workspace: str, author: str) -> int:
        """Cancel all jobs except deletions, see `cancel`; return how many."""
        store = await self._known_store(workspace)
        if store is None:
            return 0
        kinds = [kind for kind, lane in LANES.items() if lane in (Lane.READING, Lane.PROCESSING)]
        count = await asyncio.to_thread(store.cancel_all, kinds, author)
        self._runner(workspace, store).wake()
        return count

    async def wait(self, workspace: str, job_id: str, timeout_seconds: float) -> Job:
        """Return a job once it is finished, or its state when the time is up."""
        deadline = time.monotonic() + timeout_seconds
        # Polls, since another process may be running it.
        while (job := await self.get(workspace, job_id)).is_unfinished and time.monotonic() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(_POLL_SECONDS)
        return job

    async def drop(self, workspace: str) -> None:
        """Stop the jobs of a workspace that is about to be removed, and remove the files of its input folder."""
        if (runner := self._runners.pop(workspace, None)) is not None:
            await runner.close()
        if (store := self._stores.pop(workspace, None)) is not None:
            store.close()
        await asyncio.to_thread(self.input_folder(workspace).clear)
        if not self._is_embedded:
            await asyncio.to_thread(JobStore(self._place(workspace)).remove)

    def _place(self, workspace: str) -> Path:
        # Rejects invalid names, such as one that would lead out of the folder.
        store = with_store(self._settings, None, workspace).store
        return store.data_dir / store.workspace

    async def _known_store(self, workspace: str) -> JobStore | None:
        """Return the job store of a workspace; None if it never had any jobs."""
        if workspace not in self._stores and not await asyncio.to_thread(JobStore(self._place(workspace)).exists):
            return None
        return self._store(workspace)

    def _store(self, workspace: str) -> JobStore:
        if (known := self._stores.get(workspace)) is not None:
            return known
        place = self._place(workspace)
        if not self._is_embedded:
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._stores[workspace] = kept = JobStore(place)
        busy = {name for name, runner in self._runners.items() if not runner.is_idle}
        idle = [name for name in self._stores if name not in busy | {workspace}]
        for name in idle[: max(0, len(self._stores) - _MOST_OPEN)]:
            self._stores.pop(name).close()
            self._runners.pop(name, None)
        return kept

    def _runner(self, workspace: str, store: JobStore) -> WorkspaceRunner:
        runner = self._runners.get(workspace)
        if runner is None:
            lend = partial(self._workspaces.use, workspace)
            runner = WorkspaceRunner(workspace, store, self.input_folder(workspace), lend)
            self._runners[workspace] = runner
        return runner

    async def _look_through_all(self) -> None:
        try:
            names = await self._workspaces.names()
        except errors.HeliographError as error:
            _LOG.warning("the workspaces cannot be looked through for work that was left: %s", error)
            return
        for workspace in names:
            try:
                await self._look_through(workspace)
            except errors.HeliographError as error:
                _LOG.warning("the workspace %r cannot be looked through for documents that wait: %s", workspace, error)
            except Exception:  # noqa: BLE001 (nobody awaits this; a defect in one must not leave the others as they are)
                _LOG.exception("the workspace %r cannot be looked through for documents that wait", workspace)

    async def _look_through(self, workspace: str) -> None:
        """Restart unfinished jobs; if there are none but documents wait, submit a job that processes them."""
        if await self.count_unfinished(workspace):
            self._runner(workspace, self._store(workspace)).wake()
            return
        # There may be thousands of workspaces, few with anything to do, so check before opening one.
        store = with_store(self._settings, None, workspace).store
        if not await asyncio.to_thread(workspace_upkeep(store).may_have_waiting, store):
            return
        async with self._workspaces.use(workspace) as kb:
            if (await kb.documents(DocumentQuery(WAITING_STATUSES, limit=0))).total:
                await self.submit(workspace, JobRequest(JobKind.PROCESS, new_track_id("resume")))
