"""The order in which a PDF draws its text, used where it makes sense: most programs write in reading order.

Spans that follow each other down a column form a run. Runs beside each other form a row, and rows in the same columns a
grid, which is a table whose cells may hold several lines. Where the drawing order jumps about, or goes across columns
of prose line by line, the page is read by its geometry alone (`pdf_layout`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from heliograph.documents.pdf_layout import Line, find_gap, group_lines, read_columns
from heliograph.documents.pdf_spans import Span
from heliograph.documents.pdf_tables import is_marker

__all__ = ["Grid", "read_flow"]

_LINE_GAP = 1.2
_OUTDENT = 3.0
_CELL_GAP = 1.1
_MAX_CELL_LINES = 15
_LEAST_ROWS = 2
# Jumps back up the page, beside those from column to column, before the drawing order is not trusted.
_MOST_JUMPS = 4
_MOST_JUMPS_SHARE = 0.2


@dataclass(frozen=True, slots=True)
class Grid:
    """A table: rows of cells, each the lines it holds; empty where a row has nothing in a column."""

    rows: tuple[tuple[tuple[Line, ...], ...], ...]


@dataclass(slots=True)
class _Run:
    """Spans drawn one after the other, line below line."""

    spans: list[Span] = field(default_factory=list[Span])
    left: float = 0.0
    top: float = 0.0
    right: float = 0.0
    bottom: float = 0.0
    lines: int = 0

    def add(self, span: Span, *, is_new_line: bool) -> None:
        first = not self.spans
        self.spans.append(span)
        self.left = span.left if first else min(self.left, span.left)
        self.top = span.top if first else min(self.top, span.top)
        self.right = span.right if first else max(self.right, span.right)
        self.bottom = span.bottom if first else max(self.bottom, span.bottom)
        self.lines += is_new_line

    def overlaps_across(self, other: _Run) -> bool:
        """Whether both stand side by side."""
        return min(self.bottom, other.bottom) - max(self.top, other.top) > 0.5 * min(
            self.spans[0].size, other.spans[0].size
        )


def read_flow(spans: Sequence[Span]) -> list[list[Line] | Grid]:
    """Return a page's lines in reading order, in groups of one column each, and its tables of several lines a cell.

    Args:
        spans: As the file draws them.
    """
    runs = list(_runs(spans))
    if _jumps(runs) > max(_MOST_JUMPS, _MOST_JUMPS_SHARE * len(runs)):
        return [*read_columns(spans)]
    groups: list[list[Line] | Grid] = []
    for part in _parts(_rows(runs)):
        found = [span for row in part for run in row for span in run.spans]
        is_grid = len(part[0]) > 1
        if is_grid and any(run.lines > 1 for row in part for run in row):
            groups.append(_grid(part))
        elif is_grid and find_gap(found) is not None:
            return [*read_columns(spans)]
        else:
            groups.append(group_lines(found))
    return groups


def _runs(spans: Sequence[Span]) -> Iterator[_Run]:
    run = _Run()
    for span in spans:
        if run.spans:
            last = run.spans[-1]
            is_beside = abs(span.middle - last.middle) < 0.5 * max(span.size, last.size) and span.left > last.left
            is_near = span.left - last.right < _CELL_GAP * max(span.size, last.size) or is_marker(last.text)
            is_below = span.middle - last.middle > 0 and span.top - last.bottom < _LINE_GAP * last.size
            is_aligned = span.left < run.right and span.right > run.left - _OUTDENT * span.size
            if not (is_near if is_beside else is_below and is_aligned):
                yield run
                run = _Run()
            run.add(span, is_new_line=not is_beside or not run.spans)
        else:
            run.add(span, is_new_line=True)
    if run.spans:
        yield run


def _jumps(runs: Sequence[_Run]) -> int:
    """Return how often the drawing order goes back up other than to the right."""
    return sum(
        after.bottom < before.top and after.left < before.right - 0.5 * (before.right - before.left)
        for before, after in pairwise(runs)
    )


def _rows(runs: Sequence[_Run]) -> list[list[_Run]]:
    """Return runs in rows: each stands to the right of the one before it and beside the first."""
    rows: list[list[_Run]] = []
    for run in runs:
        row = rows[-1] if rows else []
        if row and run.left >= row[-1].right and run.overlaps_across(row[0]) and _is_cell(run) and _is_cell(row[-1]):
            row.append(run)
        else:
            rows.append([run])
    return rows


def _is_cell(run: _Run) -> bool:
    return run.lines <= _MAX_CELL_LINES


def _parts(rows: Sequence[Sequence[_Run]]) -> Iterator[list[Sequence[_Run]]]:
    """Yield rows in parts: those that form a grid, and those between that go down one column."""
    position = 0
    flow: list[Sequence[_Run]] = []
    while position < len(rows):
        end = _grid_end(rows, position)
        if end - position >= _LEAST_ROWS:
            yield from _columns_of_flow(flow)
            flow = []
            yield list(rows[position:end])
            position = end
        else:
            flow.append(rows[position])
            position += 1
    yield from _columns_of_flow(flow)


def _columns_of_flow(rows: Sequence[Sequence[_Run]]) -> Iterator[list[Sequence[_Run]]]:
    """Yield rows parted where the order goes back up, to the next column."""
    column: list[Sequence[_Run]] = []
    for row in rows:
        if column and row[0].spans[0].middle < column[-1][0].bottom:
            yield _single(column)
            column = []
        column.append(row)
    if column:
        yield _single(column)


def _single(rows: Sequence[Sequence[_Run]]) -> list[Sequence[_Run]]:
    """Return rows as one row for each run, so that none is taken for a grid."""
    return [[run] for row in rows for run in row]


def _grid_end(rows: Sequence[Sequence[_Run]], start: int) -> int:
    """Return where the rows end that share columns with the one at `start`."""
    end, most = start, 0
    while end < len(rows) and len(rows[end]) > 1:
        if end > start and rows[end][0].top < rows[end - 1][0].top:
            break
        count = len(_columns(rows[start : end + 1]))
        if count < max(2, most):
            break
        most, end = count, end + 1
    return end


def _columns(rows: Sequence[Sequence[_Run]]) -> list[tuple[float, float]]:
    columns: list[tuple[float, float]] = []
    for left, right in sorted((run.left, run.right) for row in rows for run in row):
        if columns and left < columns[-1][1]:
            columns[-1] = (columns[-1][0], max(columns[-1][1], right))
        else:
            columns.append((left, right))
    return columns


def _grid(rows: Sequence[Sequence[_Run]]) -> Grid:
    columns = _columns(rows)
    filled: list[tuple[tuple[Line, ...], ...]] = []
    for row in rows:
        cells: list[tuple[Line, ...]] = [()] * len(columns)
        for run in row:
            index = next(number for number, (left, right) in enumerate(columns) if left <= run.left <= right)
            cells[index] = (*cells[index], *group_lines(run.spans))
        filled.append(tuple(cells))
    return Grid(tuple(filled))
