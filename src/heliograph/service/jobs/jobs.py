"""The work of all workspaces of one process: accepting it durably, having it run, looking at it, cancelling it.

At start every workspace is looked through for jobs that were accepted and documents that wait; closing breaks off what
runs and leaves it to the next start. Several processes may serve one data folder: one of them runs the jobs of a
workspace at a time, and another takes over when it dies.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path

from heliograph.engine import AsyncHeliograph, with_store
from heliograph.errors import ConflictError, HeliographError, OverloadedError
from heliograph.ids import track_id as new_track_id
from heliograph.ingest.models import IngestReport, NewDocument, Outcome
from heliograph.models import WAITING_STATUSES
from heliograph.observing import origin
from heliograph.service.jobs.input_folder import InputFolder
from heliograph.service.jobs.job_store import JobStore
from heliograph.service.jobs.models import LANES, Job, JobKind, JobRequest, Lane, PipelineState
from heliograph.service.jobs.runner import WorkspaceRunner
from heliograph.service.workspaces import Workspaces
from heliograph.settings import Settings
from heliograph.stores.base import DocumentQuery
from heliograph.stores.registry import is_kept_in_folder

_LOG = logging.getLogger(__name__)
_MOST_OPEN = 128
_POLL_SECONDS = 0.1
_RETRY_AFTER_SECONDS = 10.0


class Jobs:
    """Background work of all workspaces; used from the event loop's thread only.

    Args:
        settings: Where data lies, and how much may wait.
        workspaces: Lends engines.
    """

    def __init__(self, settings: Settings, workspaces: Workspaces) -> None:
        self._settings = settings
        self._workspaces = workspaces
        # Elsewhere nobody else makes the folder for jobs, nor removes what is in it.
        self._is_kept_in_folder = is_kept_in_folder(settings.store)
        self._stores: dict[str, JobStore] = {}
        self._runners: dict[str, WorkspaceRunner] = {}
        self._looking: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Begin to look, in the background, for what earlier processes left to do."""
        self._workspaces.call_before_removal(self.drop)
        self._looking = asyncio.create_task(self._resume_all())

    async def close(self) -> None:
        """Take no more work, break off what runs, and leave it to the next start; closing twice does nothing."""
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.wait([self._looking])
        await asyncio.gather(*(runner.close() for runner in self._runners.values()))
        self._runners.clear()
        for store in self._stores.values():
            store.close()
        self._stores.clear()

    def input_folder(self, workspace: str) -> InputFolder:
        """Return the input folder of a workspace, which may not be there yet.

        Raises:
            SettingsError: It is no name of a workspace.
        """
        configured = self._settings.server.input_dir
        place = self._place(workspace)
        return InputFolder(configured / place.name if configured else place / "inputs")

    async def submit(self, workspace: str, request: JobRequest) -> Job:
        """Accept a job of a workspace that exists; it is on disk when this returns.

        What waits to do the same for the whole workspace (process, retry, scan, clear) is returned in its place.

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
        await self.check_room(workspace, kb)
        report = await kb.enqueue(documents, track_id=track_id)
        if report.count(Outcome.PENDING):
            await self.submit(workspace, JobRequest(JobKind.PROCESS, track_id, author))
        return report

    async def check_room(self, workspace: str, kb: AsyncHeliograph) -> None:
        """Check that documents may be taken in now.

        Raises:
            ConflictError: All documents are being deleted.
            OverloadedError: Too many documents wait already.
        """
        if JobKind.CLEAR in await self.count_unfinished(workspace):
            raise ConflictError("all documents are being deleted; try again when that is done")
        waiting = (await kb.documents(DocumentQuery(WAITING_STATUSES, limit=0))).total
        if waiting >= self._settings.server.max_waiting_jobs:
            raise OverloadedError(
                f"{waiting:,} documents wait already; try again later, or raise server.max_waiting_jobs",
                _RETRY_AFTER_SECONDS,
            )

    async def get(self, workspace: str, job_id: str) -> Job:
        """Return a job.

        Raises:
            NotFoundError: The workspace has none of this id.
        """
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

    async def count_unfinished(self, workspace: str) -> dict[JobKind, int]:
        """Return how many jobs wait or run, per kind that has any; empty if nothing is under way."""
        store = await self._known_store(workspace)
        return await asyncio.to_thread(store.count_unfinished) if store else {}

    async def state(self, workspace: str, most_messages: int = 1_000) -> PipelineState:
        """Return what is under way in a workspace and what happened last."""
        store = await self._known_store(workspace)
        return await asyncio.to_thread(store.state, most_messages) if store else PipelineState((), {}, ())

    async def cancel(self, workspace: str, job_id: str, author: str) -> Job:
        """Ask for a job to be cancelled; nothing happens to one that is finished.

        Documents that a cancelled `process` or `retry` has not finished are kept as failed.

        Raises:
            NotFoundError: The workspace has no such job.
        """
        store = self._store(workspace)
        job = await asyncio.to_thread(store.cancel, job_id, author)
        self._runner(workspace, store).wake()
        return job

    async def cancel_all(self, workspace: str, author: str) -> int:
        """Cancel all jobs but deletions, see `cancel`; return how many."""
        store = await self._known_store(workspace)
        if store is None:
            return 0
        kinds = [kind for kind, lane in LANES.items() if lane in (Lane.READING, Lane.PROCESSING)]
        count = await asyncio.to_thread(store.cancel_all, kinds, author)
        self._runner(workspace, store).wake()
        return count

    async def wait(self, workspace: str, job_id: str, timeout_seconds: float) -> Job:
        """Return a job once it is finished, or as it is after so long."""
        deadline = time.monotonic() + timeout_seconds
        # Whatever process runs it.
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
        if not self._is_kept_in_folder:
            await asyncio.to_thread(JobStore(self._place(workspace)).remove)

    def _place(self, workspace: str) -> Path:
        # Refuses what is no name, such as one that would lead out of the folder.
        store = with_store(self._settings, None, workspace).store
        return store.data_dir / store.workspace

    async def _known_store(self, workspace: str) -> JobStore | None:
        """Return the jobs of a workspace; None if it never had any."""
        if workspace not in self._stores and not await asyncio.to_thread(JobStore(self._place(workspace)).exists):
            return None
        return self._store(workspace)

    def _store(self, workspace: str) -> JobStore:
        if (known := self._stores.get(workspace)) is not None:
            return known
        place = self._place(workspace)
        if not self._is_kept_in_folder:
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._stores[workspace] = kept = JobStore(place)
        idle = [name for name in self._stores if name != workspace and self._is_idle(name)]
        for name in idle[: max(0, len(self._stores) - _MOST_OPEN)]:
            self._stores.pop(name).close()
            self._runners.pop(name, None)
        return kept

    def _is_idle(self, workspace: str) -> bool:
        runner = self._runners.get(workspace)
        return runner is None or runner.is_idle

    def _runner(self, workspace: str, store: JobStore) -> WorkspaceRunner:
        runner = self._runners.get(workspace)
        if runner is None:
            lend = partial(self._lend, workspace)
            runner = WorkspaceRunner(store, self.input_folder(workspace), self._place(workspace), lend)
            self._runners[workspace] = runner
        return runner

    def _lend(self, workspace: str) -> AbstractAsyncContextManager[AsyncHeliograph]:
        return self._workspaces.use(workspace)

    async def _resume_all(self) -> None:
        try:
            names = await self._workspaces.names()
        except HeliographError as error:
            _LOG.warning("the workspaces cannot be looked through for work that was left: %s", error)
            return
        for workspace in names:
            try:
                await self._resume(workspace)
            except HeliographError as error:
                _LOG.warning("the workspace %r cannot be looked through for documents that wait: %s", workspace, error)
            except Exception:  # noqa: BLE001 (nobody awaits this; a defect in one must not leave the others as they are)
                _LOG.exception("the workspace %r cannot be looked through for documents that wait", workspace)

    async def _resume(self, workspace: str) -> None:
        """Have done what was left: jobs, and documents that wait though no job says so."""
        if await self.count_unfinished(workspace):
            self._runner(workspace, self._store(workspace)).wake()
            return
        async with self._workspaces.use(workspace) as kb:
            if (await kb.documents(DocumentQuery(WAITING_STATUSES, limit=0))).total:
                await self.submit(workspace, JobRequest(JobKind.PROCESS, new_track_id("resume")))
