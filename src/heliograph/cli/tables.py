"""Tables that look alike, and the small pieces of text that stand in their cells."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment
from rich.table import Column, Table
from rich.text import Text

from heliograph.cli.flow import BriefText, FlowText, flat_text, has_bounds, printable
from heliograph.models import FIELD_SEPARATOR

__all__ = ["byte_size", "description_cell", "fields_table", "local_time", "make_table", "name_cell", "status_text"]

_DESCRIPTION_CELLS = 160
# Where nothing is cut, a longer cell shifts those after it in its own row only.
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
    """A table in whose cells no text can steer the terminal; where none is, a line a row."""

    def add_row(self, *cells: RenderableType | None, **options: Any) -> None:
        """Add a row; text from outside is shown as it is, but for control characters."""
        super().add_row(*(Text(printable(cell)) if isinstance(cell, str) else cell for cell in cells), **options)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if has_bounds(console):
            yield from super().__rich_console__(console, options)
            return
        # Rich would fill every row up to the longest.
        for line in self._lines():
            yield Segment(line)
            yield Segment.line()

    def _lines(self) -> Iterator[str]:
        if self.title:
            yield flat_text(self.title)
        cells = [self._filled(column) for column in self.columns[:-1]]
        cells += [self._texts(column) for column in self.columns[-1:]]
        yield from (_GAP.join(row).rstrip() for row in zip(*cells, strict=True))

    def _filled(self, column: Column) -> Sequence[str]:
        """Return the cells of a column, all but long ones of equal width."""
        texts = self._texts(column)
        sizes = [cell_len(text[:_ALIGNED_CELLS]) for text in texts]
        width = min(_ALIGNED_CELLS, max(sizes, default=0))
        spaces = (" " * (width - size) for size in sizes)
        is_right = column.justify == "right"
        return [space + text if is_right else text + space for text, space in zip(texts, spaces, strict=True)]

    def _texts(self, column: Column) -> Sequence[str]:
        head = (column.header,) if self.show_header else ()
        return [flat_text(cell) for cell in (*head, *column.cells)]


def make_table(title: str = "", *, with_header: bool = True) -> Table:
    """Return an empty table in the style of all."""
    return _Table(
        title=title or None,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        show_header=with_header,
        show_edge=False,
        pad_edge=False,
        header_style="dim",
    )


def fields_table(rows: Iterable[tuple[str, RenderableType]], title: str = "") -> Table:
    """Return a table of names and values without a header."""
    table = make_table(title, with_header=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(name, FlowText(value) if isinstance(value, str) else value)
    return table


def name_cell(name: str) -> FlowText:
    """Return the name of a file or document; a line end in it shows, and begins no line that looks like another."""
    return FlowText(printable(name).replace("\n", "\ufffd"))


def description_cell(description: str) -> BriefText:
    """Return a description, its fragments on one line with strokes between them, cut to a few lines on a terminal."""
    fragments = (fragment.strip() for fragment in description.split(FIELD_SEPARATOR))
    return BriefText(" / ".join(fragment for fragment in fragments if fragment), _DESCRIPTION_CELLS)


def status_text(status: str) -> Text:
    """Return a status or outcome in its colour."""
    return Text(status, _STYLES.get(status, ""))


def local_time(moment: datetime) -> str:
    """Return a time in the reader's own zone, to the minute."""
    return f"{moment.astimezone():%Y-%m-%d %H:%M}"


def byte_size(size: int) -> str:
    """Return a size such as `812 B`, `4.1 MB`."""
    value = float(size)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.0f} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"
