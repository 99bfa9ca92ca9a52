"""Tables in a PDF: consecutive lines whose cells stand in the same columns."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median

from heliograph.documents.pdf_layout import Line
from heliograph.documents.pdf_spans import HYPHEN
from heliograph.documents.tables import markdown_table

__all__ = ["Table", "find_tables", "is_marker"]

_LEAST_ROWS = 3
_LEAST_WIDE_ROWS = 2
_LEAST_WIDE_COLUMNS = 3
_MAX_CELL_CHARACTERS = 80
# Lines of one cell follow each other more closely than rows do.
_CONTINUATION_GAP = 0.35
_ROW_GAP = 2.5
# What numbers or marks an item of a list, or a heading, when a wide gap follows it.
_MARKER = re.compile(
    r"[•●▪■◦○‣∙·➢➤✓\uf0b7\uf0a7*–—-]|\(?(?:\d{1,3}|[a-zA-Z]|[ivx]{1,5})[.)]|\d{1,2}(?:\.\d{1,2})+\.?|第.{1,3}[章节]|[一二三四五六七八九十]+、"
)


@dataclass(frozen=True, slots=True)
class Table:
    """A table as Markdown."""

    markdown: str


def is_marker(text: str) -> bool:
    """Return whether a text is a bullet, or numbers an item of a list or a heading."""
    return bool(_MARKER.fullmatch(text))


def find_tables(lines: Sequence[Line]) -> Iterator[Table | list[Line]]:
    """Yield the lines of a column in order, those that form tables as tables."""
    plain: list[Line] = []
    position = 0
    merged = [_without_marker(line) for line in lines]
    while position < len(merged):
        end = _table_end(merged, position)
        table = _table(merged[position:end]) if end > position else None
        if table is None:
            plain.append(merged[position])
            position += 1
            continue
        if plain:
            yield plain
        plain = []
        yield table
        position = end
    if plain:
        yield plain


def _without_marker(line: Line) -> Line:
    """Return a line whose first cell, if it only marks or numbers an item, is one with the second."""
    first, *others = line.cells
    if not others or not is_marker(first.text) or (len(others) > 1 and first.text[0].isalnum()):
        return line
    joined = replace(others[0], left=first.left, text=f"{first.text} {others[0].text}")
    return Line((joined, *others[1:]))


def _table_end(lines: Sequence[Line], start: int) -> int:
    """Return where the run of lines ends that may be a table, or `start` if none starts here."""
    if len(lines[start].cells) < 2:
        return start
    end = start + 1
    while end < len(lines):
        line, last = lines[end], lines[end - 1]
        gap = line.top - last.bottom
        is_row = len(line.cells) > 1 and gap < _ROW_GAP * line.size
        if not is_row and not (gap < _CONTINUATION_GAP * line.size and _fits_one_column(lines[start:end], line)):
            break
        end += 1
    return end


def _fits_one_column(rows: Sequence[Line], line: Line) -> bool:
    columns = _columns(rows)
    return len(columns) > 1 and sum(line.left < right and line.right > left for left, right in columns) == 1


def _table(lines: Sequence[Line]) -> Table | None:
    rows = [line for line in lines if len(line.cells) > 1]
    columns = _columns(lines)
    least = _LEAST_WIDE_ROWS if len(columns) >= _LEAST_WIDE_COLUMNS else _LEAST_ROWS
    if len(columns) < 2 or len(rows) < least:
        return None
    if median(len(cell.text) for line in rows for cell in line.cells) > _MAX_CELL_CHARACTERS:
        return None
    filled: list[list[str]] = []
    last: Line | None = None
    for line in lines:
        cells = [""] * len(columns)
        for cell in line.cells:
            index = _column_of(cell.left, cell.right, columns)
            cells[index] = f"{cells[index]} {cell.text}".strip()
        is_continued = last is not None and line.top - last.bottom < _CONTINUATION_GAP * line.size
        if filled and is_continued and not cells[0]:
            filled[-1] = [f"{above} {below}".strip() for above, below in zip(filled[-1], cells, strict=True)]
        else:
            filled.append(cells)
        last = line
    return Table(markdown_table([[cell.replace(HYPHEN, "-") for cell in row] for row in filled]))


def _columns(lines: Sequence[Line]) -> list[tuple[float, float]]:
    """Return the columns: stretches that cells cover, apart from each other."""
    stretches = sorted((cell.left, cell.right) for line in lines if len(line.cells) > 1 for cell in line.cells)
    columns: list[tuple[float, float]] = []
    for left, right in stretches:
        if columns and left < columns[-1][1]:
            columns[-1] = (columns[-1][0], max(columns[-1][1], right))
        else:
            columns.append((left, right))
    return columns


def _column_of(left: float, right: float, columns: Sequence[tuple[float, float]]) -> int:
    return max(range(len(columns)), key=lambda index: min(right, columns[index][1]) - max(left, columns[index][0]))
