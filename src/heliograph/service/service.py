"""One process of the service, whatever faces it has: HTTP, MCP or both. Opens and closes its parts in order."""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack
from typing import Self

from heliograph.documents.isolation import DocumentReader, limits_of
from heliograph.engine import Given
from heliograph.monitoring.metrics import SharedMetrics
from heliograph.monitoring.monitoring import Monitoring
from heliograph.observing import observe
from heliograph.service.access import Access
from heliograph.service.admission import Admission
from heliograph.service.jobs.jobs import Jobs
from heliograph.service.states import States
from heliograph.service.workspaces import Workspaces
from heliograph.settings import Settings

_REFRESH_SECONDS = 1.0

_log = logging.getLogger(__name__)


class Service:
    """What routes and tools call.

    Args:
        settings: Of the service and of every workspace.
        given: Models to use in place of those of the settings.
        shared: Where all workers count; None for a process that serves alone.

    Attributes:
        settings: As given.
        access: Knows who asks.
        workspaces: Lends engines.
        jobs: Works in the background.
        admission: Lets questions through, so many at once.
        monitoring: Counts and traces what is done.
        states: Looks at open workspaces.
        page_reader: Draws pages of PDF files.
    """

    def __init__(self, settings: Settings, given: Given | None = None, shared: SharedMetrics | None = None) -> None:
        self.settings = settings
        self._shared = shared
        self.access = Access(settings)
        self.workspaces = Workspaces(settings, given)
        self.jobs = Jobs(settings, self.workspaces)
        self.admission = Admission(settings.server.max_concurrent_queries, settings.server.max_waiting_queries)
        self.monitoring = Monitoring(settings.monitoring, shared)
        # Pictures of pages do not wait for documents that are read.
        self.page_reader = DocumentReader(limits_of(settings.documents, settings.ingest.max_document_characters))
        self.states = States(self.workspaces, self.jobs)
        self._stack = AsyncExitStack()

    async def open(self) -> Self:
        """Open everything, or nothing.

        Raises:
            SettingsError: The settings do not go together.
            StoreError: A store cannot be opened.
            ModelError: A model cannot be made ready.
        """
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._stop_observing)
            # What is begun from here on, such as jobs, is observed as well.
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
        """Finish what is under way and close everything; closing twice does nothing."""
        await self._stack.aclose()

    def refresh_gauges(self) -> None:
        """Set what is only known by looking, for who reads metrics now."""
        metrics = self.monitoring.metrics
        metrics.queries_running.set(self.admission.running)
        metrics.queries_waiting.set(self.admission.waiting)
        metrics.open_workspaces.set(self.workspaces.open_count)
        metrics.refresh()

    async def _share(self, shared: SharedMetrics, stack: AsyncExitStack) -> None:
        """Be one of several workers, whose gauges the others find at most a second old."""
        shared.join()
        stack.callback(shared.leave)
        # The last look counts what closing took.
        stack.callback(self.refresh_gauges)
        refreshing = asyncio.create_task(self._keep_refreshing())
        stack.callback(refreshing.cancel)

    async def _keep_refreshing(self) -> None:
        while True:
            try:
                self.refresh_gauges()
            except Exception:  # noqa: BLE001 (a task that ended would leave the gauges as they are for good)
                _log.exception("the gauges could not be read anew")
            await asyncio.sleep(_REFRESH_SECONDS)

    async def _stop_observing(self) -> None:
        observe(None)
        await asyncio.to_thread(self.monitoring.close)

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(self, *exception: object) -> None:
        await self.close()
