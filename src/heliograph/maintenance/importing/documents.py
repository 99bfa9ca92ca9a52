"""Taking many whole documents in, several at a time, and counting what became of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

from heliograph.errors import ConflictError, InvalidRequestError
from heliograph.ingest.tasks import gather_or_cancel
from heliograph.maintenance.export.contents import WholeDocument
from heliograph.maintenance.importing.report import (
    ImportKind,
    ImportProgress,
    ImportReport,
    NoteKind,
    NoteList,
    SourceGraph,
)
from heliograph.maintenance.importing.whole import Taken, WholeDocumentIntake
from heliograph.models import DocumentStatus

__all__ = ["DocumentImport"]

_AT_ONCE = 8
_REMARKS = {
    DocumentStatus.PENDING: "documents that wait to be read; run resume",
    DocumentStatus.PARTIAL: "documents that were not read to the end; run retry",
}


class DocumentImport:
    """One import's documents; memory holds those under way.

    Args:
        intake: Takes each in.
        notes: Gets what could not be taken in, and why.
        progress: Told how many are done.
    """

    def __init__(self, intake: WholeDocumentIntake, notes: NoteList, progress: ImportProgress) -> None:
        self._intake = intake
        self._notes = notes
        self._progress = progress
        self._counts: Counter[Taken | None] = Counter()
        self._chunks = 0
        self._waiting: list[WholeDocument] = []

    async def add(self, whole: WholeDocument) -> None:
        """Take a document in, at the latest when `finish` is called.

        Raises:
            ModelError: It cannot be embedded; what is finished stays.
            StoreError: The store cannot be used; what is finished stays.
        """
        self._waiting.append(whole)
        if len(self._waiting) >= _AT_ONCE:
            await self.finish()

    async def finish(self) -> None:
        """Take in what was added and is not yet; raises as `add`."""
        waiting, self._waiting = self._waiting, []
        await gather_or_cancel(self._take(whole) for whole in waiting)

    def report(
        self, kind: ImportKind, path: Path, *, curations: int = 0, graph: SourceGraph | None = None
    ) -> ImportReport:
        """Return what was done."""
        report = ImportReport(
            *(kind, str(path), self._counts[Taken.ADDED], self._counts[Taken.UPDATED], self._counts[Taken.UNCHANGED]),
            *(self._counts[None], self._chunks, curations),
            notes=self._notes.notes(),
        )
        return report if graph is None else replace(report, graph=graph)

    async def _take(self, whole: WholeDocument) -> None:
        document = whole.document
        try:
            taken = await self._intake.take(whole)
        except (ConflictError, InvalidRequestError) as error:
            self._counts[None] += 1
            self._notes.add(NoteKind.LEFT_OUT, str(error), document.source)
        else:
            self._counts[taken] += 1
            if taken is not Taken.UNCHANGED:
                self._chunks += len(whole.chunks)
                if (remark := _REMARKS.get(document.status)) is not None:
                    self._notes.add(NoteKind.REMARK, remark, document.source)
        self._progress("documents", self._counts.total())
