"""From spans to lines in reading order: columns are found by the gap between them.

A gap counts if text stands on both sides of it in lines that mostly fill their side; that tells columns of prose from
columns of a table, which are read by rows. Lines that cross the gap, such as a title or a wide table, part the page
into bands that are read one after the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from heliograph.documents.pdf_spans import Span

__all__ = ["Line", "find_gap", "group_lines", "read_columns"]

_CELL_GAP = 1.1
_STEP_POINTS = 4.0
_MIDDLE = (0.15, 0.85)
_LEAST_LINES = 5
_LEAST_FILLED = 0.5
_FILLED_SHARE = 0.6
_LEAST_LINE_EMS = 9.0
_MAX_DEPTH = 3
# Far more spans than a page of text has; a drawing's labels are not worth looking for columns in.
_MAX_SPANS = 4_000


@dataclass(frozen=True, slots=True)
class Line:
    """Spans of one line, from left to right; more than one where wide gaps part them."""

    cells: tuple[Span, ...]

    @property
    def text(self) -> str:
        """Its words."""
        return " ".join(cell.text for cell in self.cells)

    @property
    def left(self) -> float:
        """Where it starts."""
        return self.cells[0].left

    @property
    def right(self) -> float:
        """Where it ends."""
        return max(cell.right for cell in self.cells)

    @property
    def top(self) -> float:
        """Its upper edge."""
        return min(cell.top for cell in self.cells)

    @property
    def bottom(self) -> float:
        """Its lower edge."""
        return max(cell.bottom for cell in self.cells)

    @property
    def middle(self) -> float:
        """Where it is, from the top."""
        return (self.top + self.bottom) / 2

    @property
    def size(self) -> float:
        """Height of the cell with the most text."""
        return max(self.cells, key=lambda cell: len(cell.text)).size

    @property
    def is_bold(self) -> bool:
        """Whether all of it starts bold."""
        return all(cell.is_bold for cell in self.cells)


def read_columns(spans: Sequence[Span]) -> list[list[Line]]:
    """Return a page's lines in reading order, in groups of one column each."""
    return [group_lines(group) for group in _ordered(list(spans), 0) if group]


def group_lines(spans: Sequence[Span]) -> list[Line]:
    """Return spans as lines from top to bottom; spans closer than a wide gap become one cell."""
    lines: list[list[Span]] = []
    for span in sorted(spans, key=lambda span: (span.middle, span.left)):
        if lines and _is_same_line(lines[-1], span):
            lines[-1].append(span)
        else:
            lines.append([span])
    return [Line(tuple(_cells(line))) for line in lines]


def _is_same_line(line: Sequence[Span], span: Span) -> bool:
    tallest = max(line, key=lambda other: other.size)
    return tallest.top <= span.middle <= tallest.bottom and abs(span.middle - tallest.middle) < 0.5 * tallest.size


def _cells(line: Sequence[Span]) -> Iterator[Span]:
    current: Span | None = None
    for span in sorted(line, key=lambda span: span.left):
        if current is None:
            current = span
        elif span.left - current.right < _CELL_GAP * max(current.size, span.size):
            current = _joined(current, span)
        else:
            yield current
            current = span
    if current is not None:
        yield current


def _joined(span: Span, other: Span) -> Span:
    is_apart = other.left - span.right > 0.12 * min(span.size, other.size)
    larger = span if len(span.text) >= len(other.text) else other
    return Span(
        min(span.left, other.left),
        larger.top,
        max(span.right, other.right),
        larger.bottom,
        f"{span.text}{' ' if is_apart else ''}{other.text}",
        span.is_bold,
    )


def _ordered(spans: list[Span], depth: int) -> Iterator[list[Span]]:
    gap = find_gap(spans) if depth < _MAX_DEPTH and len(spans) <= _MAX_SPANS else None
    if gap is None:
        yield spans
        return
    wide: list[Span] = []
    for band in _bands(spans, gap):
        left, right = _sides(band, gap)
        if left and right and _is_prose(left) and _is_prose(right):
            yield wide
            wide = []
            yield from _ordered(left, depth + 1)
            yield from _ordered(right, depth + 1)
        else:
            wide += band
    yield wide


def find_gap(spans: Sequence[Span]) -> float | None:
    """Return where the gap between columns is that parts the most text, or None."""
    if len(spans) < 2 * _LEAST_LINES:
        return None
    start, end = min(span.left for span in spans), max(span.right for span in spans)
    at = start + _MIDDLE[0] * (end - start)
    best, most = None, 0
    while at < start + _MIDDLE[1] * (end - start):
        parted = 0
        for band in _bands(spans, at):
            left, right = _sides(band, at)
            if min(len(left), len(right)) >= _LEAST_LINES and _is_prose(left) and _is_prose(right):
                parted += len(left) + len(right)
        if parted > most:
            best, most = at, parted
        at += _STEP_POINTS
    return best


def _bands(spans: Sequence[Span], gap: float) -> Iterator[list[Span]]:
    """Yield, from top to bottom, what lies between spans that cross the gap, and in turn these spans."""
    crossing = sorted((span for span in spans if span.left < gap < span.right), key=lambda span: span.middle)
    others = sorted((span for span in spans if not span.left < gap < span.right), key=lambda span: span.middle)
    position = 0
    for span in crossing:
        end = position
        while end < len(others) and others[end].middle < span.middle:
            end += 1
        if end > position:
            yield others[position:end]
        yield [span]
        position = end
    if position < len(others):
        yield others[position:]


def _sides(band: Sequence[Span], gap: float) -> tuple[list[Span], list[Span]]:
    return [span for span in band if span.right <= gap], [span for span in band if span.left >= gap]


def _is_prose(spans: Sequence[Span]) -> bool:
    """Whether the lines of one side mostly fill it and are long enough to be text."""
    start, end = min(span.left for span in spans), max(span.right for span in spans)
    lines = group_lines(spans)
    filled = sum(line.right - line.left >= _FILLED_SHARE * (end - start) and len(line.cells) == 1 for line in lines)
    width = median((line.right - line.left) / max(line.size, 1.0) for line in lines)
    return filled >= _LEAST_FILLED * len(lines) and width >= _LEAST_LINE_EMS
