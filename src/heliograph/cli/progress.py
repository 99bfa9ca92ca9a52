"""How far an ingest has come: bars on a terminal, a line every few seconds elsewhere, nothing when quiet.

Fed with `Progress` from the engine's thread; writes to standard error only.
"""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
from rich.progress import Progress as Bars

from heliograph.cli.output import Output
from heliograph.ingest.progress import Progress

__all__ = ["ProgressView", "growth", "progress_line", "seconds"]

_LINE_EVERY_SECONDS = 5.0
_BAR_CELLS = 16


class ProgressView:
    """Shows progress while its block runs; call it with each `Progress`.

    Attributes:
        last: The latest progress, None before the first.
    """

    def __init__(self, output: Output) -> None:
        self.last: Progress | None = None
        self._output = output
        self._has_bars = output.notes.is_terminal and not output.is_quiet
        self._bars = Bars(
            TextColumn("{task.description:<9}"),
            BarColumn(_BAR_CELLS),
            MofNCompleteColumn(),
            TextColumn("{task.fields[said]}", markup=False),
            console=output.notes,
            transient=True,
        )
        self._documents = self._bars.add_task("documents", total=None, said="")
        self._chunks = self._bars.add_task("chunks", total=None, said="")
        self._line_due_at = _LINE_EVERY_SECONDS

    def __call__(self, progress: Progress) -> None:
        """Show how far it is."""
        self.last = progress
        if self._has_bars:
            self._update_bars(progress)
        elif progress.elapsed_seconds >= self._line_due_at:
            self._line_due_at = progress.elapsed_seconds + _LINE_EVERY_SECONDS
            self._output.note(progress_line(progress))

    def __enter__(self) -> Self:
        if self._has_bars:
            self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._has_bars:
            self._bars.stop()

    def _update_bars(self, progress: Progress) -> None:
        said = ", ".join(_eta(progress) + _failures(progress))
        self._bars.update(
            self._documents, completed=progress.documents_done, total=progress.documents_total or None, said=said
        )
        self._bars.update(
            self._chunks, completed=progress.chunks_done, total=progress.chunks_total or None, said=growth(progress)
        )


def progress_line(progress: Progress) -> str:
    """Return how far it is in one line."""
    parts = [
        f"{progress.documents_done:,}/{progress.documents_total:,} documents",
        f"{progress.chunks_done:,}/{progress.chunks_total:,} chunks",
        growth(progress),
        *_failures(progress),
        *_eta(progress),
    ]
    return ", ".join(parts)


def growth(progress: Progress) -> str:
    """Return what a run has added to the graph, such as `+1,204 entities, +980 relations`."""
    return f"{progress.entities:+,} entities, {progress.relations:+,} relations"


def seconds(value: float) -> str:
    """Return a time as one reads it: `0.21 s`, `12 s`, `3:05 min`, `2:03 h`."""
    if value < 10:
        return f"{value:.2f} s"
    whole = round(value)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    return f"{minutes}:{rest:02} min" if minutes < 60 else f"{minutes // 60}:{minutes % 60:02} h"


def _eta(progress: Progress) -> list[str]:
    if progress.eta_seconds is None or progress.is_finished:
        return []
    whole = max(1, round(progress.eta_seconds))
    return [f"{whole} s left" if whole < 60 else f"{seconds(whole)} left"]


def _failures(progress: Progress) -> list[str]:
    return [f"{progress.failures:,} failed"] if progress.failures else []
