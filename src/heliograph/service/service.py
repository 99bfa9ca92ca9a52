"""One process of the service, with its interfaces: HTTP, MCP or both. Opens and closes its parts in order.

`States` reads the state of the open workspaces, cheaply enough to be called every few seconds: counts are read again
only after a commit, and take at most a twentieth of the time. Waiting documents are read each time, by indexes.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Self

from prometheus_client.multiprocess import mark_process_dead

from heliograph.documents.sources import SourceReader
from heliograph.engine import AsyncHeliograph, Given
from heliograph.errors import HeliographError
from heliograph.models import WAITING_STATUSES, Stats
from heliograph.monitoring.monitoring import Monitoring, WorkspaceState
from heliograph.observing import observe
from heliograph.service.access import Access
from heliograph.service.admission import Admission
from heliograph.service.jobs.jobs import Jobs
from heliograph.service.jobs.models import LANES, JobState, Lane, PipelineState
from heliograph.service.workspaces import Workspaces
from heliograph.settings import Settings
from heliograph.stores.base import DocumentQuery

_LOG = logging.getLogger(__name__)
_SHARE_OF_TIME = 0.05
_REFRESH_SECONDS = 1.0


class States:
    """Reads the state of workspaces; used from the event loop's thread only."""

    def __init__(self, workspaces: Workspaces, jobs: Jobs) -> None:
        self._workspaces = workspaces
        self._jobs = jobs
        # Counts, when they may be read again (monotonic seconds), and their engine.
        self._counted: dict[str, tuple[Stats, float, AsyncHeliograph]] = {}

    async def read(self, may_see: Callable[[str], bool]) -> list[WorkspaceState]:
        """Return the state of every open workspace that may be seen.

        A workspace whose store is out of reach is left out, and logged.
        """
        names = [name for name in self._workspaces.open_names if may_see(name)]
        for name in self._counted.keys() - set(self._workspaces.open_names):
            del self._counted[name]
        found: list[WorkspaceState] = []
        for name in names:
            try:
                async with self._workspaces.use(name) as kb:
                    found.append(await self._read(name, kb))
            except HeliographError as error:
                _LOG.warning("a workspace is left out of what is shown: %s", error)
        return found

    async def freshness_seconds(self, may_see: Callable[[str], bool]) -> float | None:
        """Return how long the oldest document has waited in any open workspace; None if one could not be read."""
        longest = 0.0
        try:
            for name in filter(may_see, self._workspaces.open_names):
                async with self._workspaces.use(name) as kb:
                    since = await _waiting_since(kb, await self._jobs.state(name, 0))
                longest = max(longest, 0.0 if since is None else time.time() - since)
        except HeliographError as error:
            _LOG.warning("how long documents wait cannot be read: %s", error)
            return None
        return longest

    async def followers(self, name: str) -> list[tuple[str, int, str]] | None:
        """Return the external stores that follow a workspace; None if it is not open, or cannot be read.

        For each its name, how many commits it lags, and why it cannot be reached, if so.
        """
        if name not in self._workspaces.open_names:
            return None
        try:
            async with self._workspaces.use(name) as kb:
                lags, troubles = await kb.lags(), await kb.troubles()
        except HeliographError as error:
            _LOG.warning("how external stores follow a workspace cannot be read: %s", error)
            return None
        return [(follower, lag, troubles.get(follower, "")) for follower, lag in lags.items()]

    async def _read(self, name: str, kb: AsyncHeliograph) -> WorkspaceState:
        pipeline = await self._jobs.state(name, 0)
        store = kb.store
        # Unfinished jobs per kind and state.
        running = Counter(job.kind for job in pipeline.jobs if job.state is JobState.RUNNING)
        counts: dict[tuple[str, str], int] = {}
        for kind, total in pipeline.counts.items():
            counts[kind.value, JobState.RUNNING.value] = running[kind]
            counts[kind.value, JobState.WAITING.value] = max(0, total - running[kind])
        return WorkspaceState(
            name,
            await self._count(name, kb),
            waiting_since=await _waiting_since(kb, pipeline),
            jobs=counts,
            lags=await store.get_lags(),
        )

    async def _count(self, name: str, kb: AsyncHeliograph) -> Stats:
        known, started = self._counted.get(name), time.monotonic()
        if known is not None and known[2] is kb:
            stats, due, _ = known
            if started < due or stats.data_version == await kb.store.get_data_version():
                return stats
            started = time.monotonic()
        stats = await kb.stats()
        now = time.monotonic()
        self._counted[name] = (stats, now + (now - started) / _SHARE_OF_TIME, kb)
        return stats


async def _waiting_since(kb: AsyncHeliograph, pipeline: PipelineState) -> float | None:
    """Return when the oldest waiting item was accepted: a document, or a file or address that is not read yet."""
    page = await kb.documents(DocumentQuery(WAITING_STATUSES, sort="updated_at", limit=1))
    moments = [document.updated_at for document in page.documents]
    moments += [job.created_at for job in pipeline.jobs if LANES[job.kind] is Lane.READING and job.is_unfinished]
    return min(moments).timestamp() if moments else None


class Service:
    """The service that routes and tools call.

    Args:
        settings: Settings of the service and of every workspace.
        given: Models to use instead of those in the settings.
        shared: The folder for metrics of all workers; None for a process that serves alone.
    """

    def __init__(self, settings: Settings, given: Given | None = None, shared: Path | None = None) -> None:
        self.settings = settings
        self._shared = shared
        self.access = Access(settings)
        self.workspaces = Workspaces(settings, given)
        self.jobs = Jobs(settings, self.workspaces)
        self.admission = Admission(settings.server.max_concurrent_queries, settings.server.max_waiting_queries)
        self.monitoring = Monitoring(settings.monitoring, shared)
        # Pictures of pages do not wait for documents that are read.
        self.page_reader = SourceReader(settings.documents, settings.ingest.max_document_characters)
        self.states = States(self.workspaces, self.jobs)
        self._stack = AsyncExitStack()

    async def open(self) -> Self:
        """Open everything, or nothing; raises as `open_parts` of the engine does."""
        async with AsyncExitStack() as stack:
            stack.push_async_callback(asyncio.to_thread, self.monitoring.close)
            stack.callback(observe, None)
            # From here on new work, such as jobs, is observed as well.
            observe(self.monitoring)
            if self._shared is not None:
                await self._share(self._shared, stack)
            await self.access.open()
            stack.push_async_callback(self.access.close)
            await self.workspaces.open()
            stack.push_async_callback(self.workspaces.close)
            await self.jobs.open()
            stack.push_async_callback(self.jobs.close)
            stack.callback(self.page_reader.close)
            self._stack = stack.pop_all()
        return self

    async def close(self) -> None:
        """Finish running work and close everything; closing twice does nothing."""
        await self._stack.aclose()

    def refresh_gauges(self) -> None:
        """Update the gauges, which are measured only when metrics are read."""
        self.monitoring.queries_running.set(self.admission.running)
        self.monitoring.queries_waiting.set(self.admission.waiting)
        self.monitoring.open_workspaces.set(self.workspaces.open_count)
        self.monitoring.refresh()

    async def _share(self, shared: Path, stack: AsyncExitStack) -> None:
        """Join several workers, whose gauges the others see with a delay of at most a second."""
        stack.callback(mark_process_dead, os.getpid(), shared)
        # The last refresh includes the work of closing.
        stack.callback(self.refresh_gauges)

        async def keep_refreshing() -> None:
            while True:
                try:
                    self.refresh_gauges()
                except Exception:  # noqa: BLE001 (a task that ended would leave the gauges as they are for good)
                    _LOG.exception("the gauges could not be read anew")
                await asyncio.sleep(_REFRESH_SECONDS)

        refreshing = asyncio.create_task(keep_refreshing())
        stack.callback(refreshing.cancel)

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(self, *exception: object) -> None:
        await self.close()
