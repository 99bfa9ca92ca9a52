"""Text that wraps well in English and in Chinese, and cannot steer the terminal it is printed to.

What documents and models say goes through `printable` or `FlowText` before it is shown: control characters are made
visible, and lines may break between Chinese characters, except where punctuation has to stay with its neighbour.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from rich.cells import cell_len, chop_cells
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.measure import Measurement
from rich.style import StyleType
from rich.text import Text

__all__ = ["UNBOUNDED_CELLS", "BriefText", "FlowText", "flat_text", "has_bounds", "one_line", "printable"]

# Width of what is no terminal: nothing is wrapped there, and nothing is cut.
UNBOUNDED_CELLS = 1_000_000

_WIDE = "\u2e80-\u303f\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uff60"
_OPENING = "（《〈「『【〔“‘［｛"
_CLOSING = "，。、；：？！）》〉」』】〕”’…—～％·］｝"
# One unit that is never broken: a wide character, or a run of others, with the punctuation that belongs to it.
_UNIT = re.compile(rf"[{_OPENING}]*(?:[{_WIDE}]|[^\s{_WIDE}{_OPENING}]+)[{_CLOSING}]*\s*|\s+|[{_OPENING}]+")
# Terminals act on these; line ends and tabs are layout.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_LINE_END = re.compile("\r\n?|[\u2028\u2029\x85\x0b\x0c]")
_SPACE = re.compile(r"\s+")


def printable(text: str) -> str:
    """Return a text with one kind of line end and its control characters replaced by U+FFFD."""
    return _CONTROL.sub("\ufffd", _LINE_END.sub("\n", text))


def has_bounds(console: Console) -> bool:
    """Whether what is printed has to fit some width."""
    return console.width < UNBOUNDED_CELLS


def one_line(text: str, max_cells: int | None) -> str:
    """Return a text on one line, cut to so many terminal cells with dots where it is longer; None cuts nothing."""
    flat = _SPACE.sub(" ", printable(text)).strip()
    # Few characters take no cell at all, so most texts are known to be too long unmeasured.
    if max_cells is None or (len(flat) <= 4 * max_cells and cell_len(flat) <= max_cells):
        return flat
    return chop_cells(flat[: max_cells + 1], max(1, max_cells - 3))[0].rstrip() + "..."


def flat_text(shown: RenderableType | None) -> str:
    """Return a string, a text of any kind or a group of them on one line, without styles, uncut.

    Spaces within a line stay as they are; strokes stand between the parts of a group.
    """
    if isinstance(shown, Group):
        return " / ".join(filter(None, map(flat_text, shown.renderables)))
    first, *more = printable(str(shown or "")).expandtabs(4).split("\n")
    return " ".join(filter(None, (first.rstrip(), *(line.strip() for line in more))))


class FlowText:
    """Text from outside, ready to print: harmless, and wrapped at words or between Chinese characters.

    A renderable of its own, as a console joins `Text`s into one and so forgets how they wrap.
    """

    def __init__(self, text: str, style: StyleType = "") -> None:
        self._text = Text(printable(text).expandtabs(4), style=style)

    def __str__(self) -> str:
        return self._text.plain

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for line in self._text.split(allow_blank=True):
            for part in line.divide(_breaks(line.plain, options.max_width)):
                part.rstrip()
                part.no_wrap = True
                yield part

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        lines = self._text.plain.splitlines()
        widest = max((cell_len(line) for line in lines), default=0)
        least = max((cell_len(unit.rstrip()) for line in lines for unit in _units(line)), default=0)
        return Measurement(least, widest)


class BriefText:
    """The beginning of a text on one line; all of it where nothing is cut."""

    def __init__(self, text: str, max_cells: int, style: StyleType = "") -> None:
        self._text = text
        self._max_cells = max_cells
        self._style = style

    def __str__(self) -> str:
        return one_line(self._text, None)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from self._shown(console).__rich_console__(console, options)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return self._shown(console).__rich_measure__(console, options)

    def _shown(self, console: Console) -> FlowText:
        text = one_line(self._text, self._max_cells if has_bounds(console) else None)
        return FlowText(text, self._style)


def _units(line: str) -> Iterator[str]:
    return (match.group() for match in _UNIT.finditer(line))


def _breaks(line: str, width: int) -> list[int]:
    """Return the offsets before which a line is broken so that no part is wider than `width` cells."""
    breaks: list[int] = []
    used = position = 0
    for unit in _units(line):
        size = cell_len(unit.rstrip())
        if used and used + size > width:
            breaks.append(position)
            used = 0
        if size > width:
            pieces = chop_cells(unit, width)
            for piece in pieces[:-1]:
                position += len(piece)
                breaks.append(position)
            unit = pieces[-1]
        used += cell_len(unit)
        position += len(unit)
    return breaks
