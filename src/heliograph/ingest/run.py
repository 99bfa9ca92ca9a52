"""One run of a pipeline: many documents, a few at a time, until done, cancelled or stopped by an outage.

Each document is worked on by one task; results keep the order of the work. After an outage no further document is
begun, those under way come to their own end, and the outage is raised. Cancelling ends those under way at once. What
is not finished stays as it is stored, pending or failed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence

from heliograph.errors import CancelledIngestError, HeliographError
from heliograph.ingest.models import DocumentResult
from heliograph.ingest.processing import OUTAGES, DocumentProcessor, Work
from heliograph.ingest.progress import ProgressReporter

__all__ = ["Run"]


class Run:
    """Processes documents once."""

    def __init__(
        self, processor: DocumentProcessor, reporter: ProgressReporter, max_tasks: int, gate: asyncio.Event
    ) -> None:
        """Keep the parts.

        Args:
            processor: Does the work.
            reporter: Is told how far it has come.
            max_tasks: Documents under way at once.
            gate: While it is not set, no further document is begun.
        """
        self._processor = processor
        self._reporter = reporter
        self._max_tasks = max_tasks
        self._gate = gate
        self._tasks: list[asyncio.Task[None]] = []
        self._results: dict[int, DocumentResult] = {}
        self._outage: HeliographError | None = None
        self._is_cancelled = False
        self._originals_left = 0
        self._originals_done = asyncio.Event()

    def cancel(self) -> None:
        """Begin no further document and end those under way; `process` raises `CancelledIngestError`."""
        self._is_cancelled = True
        for task in self._tasks:
            task.cancel()

    def check_cancelled(self, unfinished: int) -> None:
        """Raise if the run was cancelled.

        Raises:
            CancelledIngestError: It was.
        """
        if self._is_cancelled:
            raise CancelledIngestError(
                f"the run was cancelled: {len(self._results)} documents are done, {unfinished} are left for "
                "later; run resume (or retry) to go on"
            )

    async def process(self, works: Sequence[Work], on_finished: Callable[[str], None]) -> list[DocumentResult]:
        """Process documents; return their results in the same order.

        Args:
            works: What to do; called once per run.
            on_finished: Called with a document's id as soon as nothing more will be done about it.

        Raises:
            CancelledIngestError: `cancel` was called before all were done.
            ModelError: A model cannot be used at all.
            StoreError: The store cannot be used.
        """
        self.check_cancelled(len(works))
        self._reporter.expect(len(works), sum(work.document.length for work in works))
        # A twin waits until what may hold its chunks is done.
        queue = iter(sorted(enumerate(works), key=lambda item: bool(item[1].document.twin_of)))
        self._originals_left = sum(not work.document.twin_of for work in works)
        self._release_twins()
        count = min(self._max_tasks, len(works))
        self._tasks = [asyncio.ensure_future(self._work(queue, on_finished)) for _ in range(count)]
        try:
            if self._tasks:
                await asyncio.wait(self._tasks, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            await self._end_tasks()
            self._reporter.finish()
        self._raise_what_stopped(len(works) - len(self._results))
        return [self._results[index] for index in range(len(works))]

    async def _work(self, queue: Iterator[tuple[int, Work]], on_finished: Callable[[str], None]) -> None:
        for index, work in queue:
            await self._gate.wait()
            if work.document.twin_of:
                await self._originals_done.wait()
            if self._is_cancelled or self._outage:
                return
            try:
                progress = self._reporter.begin(work.document.length)
                self._results[index] = await self._processor.process(work, progress)
            except OUTAGES as error:
                self._outage = self._outage or error
            finally:
                on_finished(work.document.id)
                self._originals_left -= not work.document.twin_of
                self._release_twins()

    def _release_twins(self) -> None:
        if self._originals_left <= 0 or self._outage:
            self._originals_done.set()

    async def _end_tasks(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _raise_what_stopped(self, unfinished: int) -> None:
        for task in self._tasks:
            if not task.cancelled() and (defect := task.exception()):
                raise defect
        if unfinished:
            self.check_cancelled(unfinished)
        if self._outage:
            self._outage.add_note(
                f"{unfinished} documents are left for later; run resume (or retry) when this is mended"
            )
            raise self._outage
