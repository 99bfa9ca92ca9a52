"""Rows of cells as a Markdown table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

__all__ = ["markdown_table"]

# A file of one long row and many short ones would fill up to its square.
_MOST_FILLED_CELLS = 10_000_000


def markdown_table(rows: Iterable[Sequence[str]]) -> str:
    """Return rows as a table whose first row is the header.

    Short rows are filled up, unless that took more than ten million cells; rows without a word, and columns without
    one at the right end, are left out. White space in a cell becomes one space, as a cell is one line. No rows are the
    empty string.
    """
    filled = [cells for cells in ([_cell(cell) for cell in row] for row in rows) if any(cells)]
    if not filled:
        return ""
    width = max(_used(cells) for cells in filled)
    fills = width * len(filled) <= _MOST_FILLED_CELLS
    lines = [_line(cells, width if fills else min(width, len(cells))) for cells in filled]
    return "\n".join((lines[0], "|" + " --- |" * width, *lines[1:]))


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


def _used(cells: Sequence[str]) -> int:
    return max(index + 1 for index, cell in enumerate(cells) if cell)


def _line(cells: Sequence[str], width: int) -> str:
    padded = [*cells[:width], *[""] * (width - len(cells))]
    return f"| {' | '.join(padded)} |"
