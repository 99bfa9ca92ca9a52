"""How all commands show their results: tables and their cells, progress bars, and plain data for `--json`.

`to_plain` turns the engine's models into plain data under their own field names. `make_table` and the cell functions
give all tables one look. `ProgressView` shows an ingest as bars on a terminal, as lines elsewhere, and not at all when
quiet.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, SecretStr
from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
from rich.progress import Progress as Bars
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from heliograph.cli.output import BriefText, FlowText, Output, flat_text, has_bounds, printable
from heliograph.ingest.models import Progress
from heliograph.models import FIELD_SEPARATOR

# The engine's models as plain data for `--json`: every field under its own name, nothing shortened.


def to_plain(value: object) -> Any:
    """Convert a value to data that `json.dumps` accepts.

    Dataclasses and tables of settings become objects, enumerations their value, times ISO 8601, paths and errors text;
    secrets stay masked.
    """
    if isinstance(value, Enum):
        return value.value
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Exception | Path | SecretStr):
        return str(value)
    if isinstance(value, BaseModel):
        return {name: to_plain(getattr(value, name)) for name in type(value).model_fields}
    if is_dataclass(value):
        return {field.name: to_plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(to_plain(key)): to_plain(item) for key, item in value.items()}
    if isinstance(value, Sequence | set | frozenset):
        return [to_plain(item) for item in value]
    raise TypeError(f"{value!r} has no plain form")


# Tables with one look, and the small pieces of text in their cells.

_DESCRIPTION_CELLS = 160
# Where nothing is cut, a longer cell only shifts later cells in its own row.
_ALIGNED_CELLS = 200
_GAP = "  "
_STYLES = {
    "processed": "green",
    "unchanged": "cyan",
    "partial": "yellow",
    "failed": "red",
    "ok": "green",
    "warn": "yellow",
    "fail": "red",
}


class _Table(Table):
    """A table in which no text can control the terminal; without a terminal, one line per row."""

    def add_row(self, *cells: RenderableType | None, **options: Any) -> None:
        """Add a row; text from outside is shown as it is, except for control characters."""
        super().add_row(*(Text(printable(cell)) if isinstance(cell, str) else cell for cell in cells), **options)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if has_bounds(console):
            yield from super().__rich_console__(console, options)
            return
        # Rich would pad every row to the longest.
        for line in self._lines():
            yield Segment(line)
            yield Segment.line()

    def _lines(self) -> Iterator[str]:
        if self.title:
            yield flat_text(self.title)
        columns: list[list[str]] = []
        for column in self.columns:
            head = (column.header,) if self.show_header else ()
            texts = [flat_text(cell) for cell in (*head, *column.cells)]
            # All but long cells are padded to one width; trailing blanks are stripped.
            sizes = [cell_len(text[:_ALIGNED_CELLS]) for text in texts]
            width = min(_ALIGNED_CELLS, max(sizes, default=0))
            spaces = (" " * (width - size) for size in sizes)
            is_right = column.justify == "right" and column is not self.columns[-1]
            columns.append([gap + text if is_right else text + gap for text, gap in zip(texts, spaces, strict=True)])
        yield from (_GAP.join(row).rstrip() for row in zip(*columns, strict=True))


# How a column looks, by its kind of content.
WORD: Mapping[str, Any] = {"no_wrap": True}
FAINT: Mapping[str, Any] = {"no_wrap": True, "style": "dim"}
KEY: Mapping[str, Any] = {"no_wrap": True, "style": "cyan"}
FIGURE: Mapping[str, Any] = {"justify": "right", "no_wrap": True}
FOLDED: Mapping[str, Any] = {"overflow": "fold"}
WIDE: Mapping[str, Any] = {"ratio": 1}


def make_table(
    columns: Mapping[str, Mapping[str, Any]], title: str | None = None, *, with_header: bool = True
) -> Table:
    """Return an empty table in the common style; `columns` gives each column's options by its heading."""
    table = _Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        show_header=with_header,
        show_edge=False,
        pad_edge=False,
        header_style="dim",
    )
    for name, look in columns.items():
        table.add_column(name, **look)
    return table


def fields_table(rows: Iterable[tuple[str, RenderableType]]) -> Table:
    """Return a table of names and values without a header."""
    table = make_table({"name": FAINT, "value": FOLDED}, with_header=False)
    for name, value in rows:
        table.add_row(name, FlowText(value) if isinstance(value, str) else value)
    return table


def name_cell(name: str) -> FlowText:
    """Return the name of a file or document; a line end in it is shown, and starts no new line."""
    return FlowText(printable(name).replace("\n", "\ufffd"))


def description_cell(description: str) -> BriefText:
    """Return a description, its fragments on one line separated by strokes, cut to a few lines on a terminal."""
    fragments = (fragment.strip() for fragment in description.split(FIELD_SEPARATOR))
    return BriefText(" / ".join(fragment for fragment in fragments if fragment), _DESCRIPTION_CELLS)


def status_text(status: str) -> Text:
    """Return a status or outcome in its colour."""
    return Text(status, _STYLES.get(status, ""))


def local_time(moment: datetime) -> str:
    """Return a time in the local time zone, to the minute."""
    return f"{moment.astimezone():%Y-%m-%d %H:%M}"


def amount(count: int, noun: str) -> str:
    """Return a count with its noun, such as `1 chunk`, `1,204 chunks`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def byte_size(size: int) -> str:
    """Return a size such as `812 B`, `4.1 MB`."""
    value = float(size)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.0f} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"


# The progress of an ingest: bars on a terminal, a line every few seconds elsewhere, nothing when quiet.
#
# It gets `Progress` from the engine's thread and writes to standard error only.

_LINE_EVERY_SECONDS = 5.0
_BAR_CELLS = 16


class ProgressView:
    """Shows progress while its block runs; call it with each `Progress`, the latest of which is `last`."""

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
        """Show the progress."""
        self.last = progress
        if self._has_bars:
            said = ", ".join(_eta(progress) + _failures(progress))
            self._bars.update(
                self._documents, completed=progress.documents_done, total=progress.documents_total or None, said=said
            )
            self._bars.update(
                self._chunks, completed=progress.chunks_done, total=progress.chunks_total or None, said=growth(progress)
            )
        elif progress.elapsed_seconds >= self._line_due_at:
            self._line_due_at = progress.elapsed_seconds + _LINE_EVERY_SECONDS
            self._output.note(progress_line(progress))

    def __enter__(self) -> Self:
        if self._has_bars:
            self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._has_bars:
            self._bars.stop()


def progress_line(progress: Progress) -> str:
    """Return the progress in one line."""
    parts = [
        f"{progress.documents_done:,}/{progress.documents_total:,} documents",
        f"{progress.chunks_done:,}/{progress.chunks_total:,} chunks",
        growth(progress),
        *_failures(progress),
        *_eta(progress),
    ]
    return ", ".join(parts)


def growth(progress: Progress) -> str:
    """Return a run's additions to the graph, such as `+1,204 entities, +980 relations`."""
    return f"{progress.entities:+,} entities, {progress.relations:+,} relations"


def seconds(value: float) -> str:
    """Return a duration in readable form: `0.21 s`, `12 s`, `3:05 min`, `2:03 h`."""
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
    if progress.eta_seconds < 1 and progress.chunks_done == progress.chunks_total:
        # All chunks are read. The pace of reading does not predict the time of embedding and commits, above all on a
        # server.
        return ["storing"]
    whole = max(1, round(progress.eta_seconds))
    return [f"{whole} s left" if whole < 60 else f"{seconds(whole)} left"]


def _failures(progress: Progress) -> list[str]:
    return [f"{progress.failures:,} failed"] if progress.failures else []
