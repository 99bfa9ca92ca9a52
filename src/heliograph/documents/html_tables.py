"""The cells of an HTML table: spans resolved, tables that only place things on a page told from tables of data."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

__all__ = ["layout_cells", "read_table"]

Node = Any

# Spans beyond these are mistakes, or made to exhaust memory.
_MAX_COLUMNS = 500
_MAX_ROW_SPAN = 2_000
# Mail and old pages put whole articles into a cell; no cell of a table of data is that long.
_MAX_CELL_CHARACTERS = 2_000


def layout_cells(table: Node) -> list[Node] | None:
    """Return the cells of a table that serves layout, or None if it is one of data.

    It serves layout if it says so, holds other tables, has a single row or column without headers, or holds texts.
    """
    rows = list(_rows(table))
    cells = [cell for row in rows for cell in _cells(row)]
    if table.attributes.get("role") in ("presentation", "none"):
        return cells
    if any(cell.css_first("table, pre, h1, h2, h3") is not None for cell in cells):
        return cells
    if any(cell.tag == "th" for cell in cells):
        return None
    is_line = len(rows) < 2 or max((sum(1 for _ in _cells(row)) for row in rows), default=0) < 2
    return cells if is_line or any(len(cell.text()) > _MAX_CELL_CHARACTERS for cell in cells) else None


def read_table(table: Node, read_cell: Callable[[Node], str]) -> list[list[str]]:
    """Return the rows of a table as texts; a cell that spans rows is repeated in each, one that spans columns is not.

    Args:
        table: The table.
        read_cell: Gives the text of a cell.
    """
    rows: list[list[str]] = []
    from_above: dict[int, _Spanning] = {}
    for row in _rows(table):
        texts: list[str] = []
        below: dict[int, _Spanning] = {}
        for cell in _cells(row):
            _carry_down(texts, from_above, below)
            if len(texts) >= _MAX_COLUMNS:
                break
            text, height = read_cell(cell), _span(cell, "rowspan", _MAX_ROW_SPAN)
            if height > 1:
                below[len(texts)] = _Spanning(height - 1, text)
            texts += [text, *[""] * (_span(cell, "colspan", _MAX_COLUMNS) - 1)]
        _carry_down(texts, from_above, below)
        rows.append(texts[:_MAX_COLUMNS])
        from_above = below
    return rows


@dataclass(frozen=True, slots=True)
class _Spanning:
    """A cell that reaches into this many rows below."""

    rows: int
    text: str


def _carry_down(texts: list[str], from_above: dict[int, _Spanning], below: dict[int, _Spanning]) -> None:
    """Append the cells that rows above put next in this one."""
    while (cell := from_above.pop(len(texts), None)) is not None:
        if cell.rows > 1:
            below[len(texts)] = _Spanning(cell.rows - 1, cell.text)
        texts.append(cell.text)


def _rows(table: Node) -> Iterator[Node]:
    for part in _elements(table):
        if part.tag == "tr":
            yield part
        elif part.tag in ("thead", "tbody", "tfoot"):
            yield from (row for row in _elements(part) if row.tag == "tr")


def _cells(row: Node) -> Iterator[Node]:
    return (cell for cell in _elements(row) if cell.tag in ("td", "th"))


def _elements(node: Node) -> Iterator[Node]:
    child = node.first_child
    while child is not None:
        if child.is_element_node:
            yield child
        child = child.next


def _span(cell: Node, name: str, most: int) -> int:
    value = (cell.attributes.get(name) or "").strip()
    return max(1, min(int(value), most)) if value.isascii() and value.isdigit() and len(value) < 9 else 1
