"""From a PDF page to spans: runs of characters on one line without a wide gap, with their place, size and weight.

Coordinates are points from the page's upper left corner, after turning a page that is shown or written sideways.
Everything above works on spans alone and knows nothing of PDFium.
"""

from __future__ import annotations

import ctypes
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from heliograph.documents.optional import import_package

__all__ = ["HYPHEN", "Span", "read_spans"]

# A hyphen at the end of a line, as PDFium marks it in one way or another.
HYPHEN = "\u00ad"
_HYPHENS = frozenset({0x02, 0xAD, 0xFFFE})
_LIGATURES = {0xFB00: "ff", 0xFB01: "fi", 0xFB02: "fl", 0xFB03: "ffi", 0xFB04: "ffl", 0xFB05: "st", 0xFB06: "st"}
_SPACES = frozenset({0x20, 0xA0, 0x09, 0x3000, 0x2002, 0x2003, 0x2009})
_LINE_ENDS = frozenset({0x0A, 0x0D})
_SURROGATES = range(0xD800, 0xE000)
# Wider gaps, in ems, part columns of text or of a table; words of a justified line stand closer.
_WIDEST_GAP = 1.1
_BOLD_WEIGHT = 600
_ANGLE_SAMPLES = 24
_MAX_TILT_DEGREES = 10.0


@dataclass(frozen=True, slots=True)
class Span:
    """Characters beside each other.

    Attributes:
        left: Where it starts.
        top: Upper edge of its line, which lies above the letters.
        right: Where it ends.
        bottom: Lower edge of its line.
        text: Its characters, without white space at the ends.
        is_bold: Whether its first letter is bold.
    """

    left: float
    top: float
    right: float
    bottom: float
    text: str
    is_bold: bool = False

    @property
    def size(self) -> float:
        """Height of its line, which goes with the size of its font."""
        return self.bottom - self.top

    @property
    def middle(self) -> float:
        """Where its line is, from the top."""
        return (self.top + self.bottom) / 2


@dataclass(slots=True)
class _Frame:
    """How to turn the page's own coordinates, from its lower left corner, into those of spans."""

    width: float
    height: float
    quarter_turns: int

    def place(self, left: float, bottom: float, right: float, top: float) -> tuple[float, float, float, float]:
        if self.quarter_turns == 1:
            return bottom, left, top, right
        if self.quarter_turns == 2:
            return self.width - right, bottom, self.width - left, top
        if self.quarter_turns == 3:
            return self.height - top, self.width - right, self.height - bottom, self.width - left
        return left, self.height - top, right, self.height - bottom


def read_spans(page: Any, max_characters: int) -> list[Span]:
    """Return the spans of a page in the order in which the file draws them; text that stands tilted is left out.

    Args:
        page: A `pypdfium2.PdfPage`.
        max_characters: Characters read at the most.
    """
    c = import_package("pypdfium2.raw", "pypdfium2")
    text_page = page.get_textpage()
    try:
        raw = text_page.raw
        count = min(text_page.count_chars(), max_characters)
        turns = _main_turns(c, raw, count)
        width, height = _unrotated_size(page)
        frame = _Frame(width, height, turns)
        return list(_spans(c, raw, count, frame))
    finally:
        text_page.close()


def _unrotated_size(page: Any) -> tuple[float, float]:
    left, bottom, right, top = page.get_mediabox()
    return abs(right - left) + min(left, right), abs(top - bottom) + min(bottom, top)


def _main_turns(c: Any, raw: Any, count: int) -> int:
    """Return in how many quarter turns most of the text runs, counted clockwise as PDFium does."""
    if not count:
        return 0
    step = max(1, count // _ANGLE_SAMPLES)
    votes = Counter(_turns(c, raw, index) for index in range(0, count, step))
    return votes.most_common(1)[0][0]


def _turns(c: Any, raw: Any, index: int) -> int:
    angle = c.FPDFText_GetCharAngle(raw, index)
    return round(math.degrees(angle) / 90) % 4 if angle >= 0 else 0


@dataclass(slots=True)
class _Open:
    """The span being read."""

    left: float
    top: float
    right: float
    bottom: float
    pieces: list[str]
    first: int

    def takes(self, left: float, top: float, bottom: float) -> bool:
        """Whether a character belongs to it."""
        size = self.bottom - self.top
        middle = (top + bottom) / 2
        is_same_line = self.top <= middle <= self.bottom or top <= (self.top + self.bottom) / 2 <= bottom
        return is_same_line and -size < left - self.right < _WIDEST_GAP * max(size, bottom - top)


def _spans(c: Any, raw: Any, count: int, frame: _Frame) -> Iterator[Span]:
    current: _Open | None = None
    box = c.FS_RECTF()
    pointer = ctypes.byref(box)
    get_unicode, get_box = c.FPDFText_GetUnicode, c.FPDFText_GetLooseCharBox
    has_space = False
    index = 0
    while index < count:
        position = index
        code = get_unicode(raw, index)
        index += 1
        if code in _SPACES or code in _LINE_ENDS:
            has_space = True
            continue
        text = _character(code)
        if code in _SURROGATES and index < count:
            text = (
                (chr(code) + chr(get_unicode(raw, index)))
                .encode("utf-16-le", "surrogatepass")
                .decode("utf-16-le", "replace")
            )
            index += 1
        if not text or not get_box(raw, position, pointer) or box.top <= box.bottom:
            continue
        left, top, right, bottom = frame.place(box.left, box.bottom, box.right, box.top)
        if current is not None and current.takes(left, top, bottom):
            if not any(character.isalnum() for piece in current.pieces for character in piece):
                # The height of a bullet says nothing about the font of what follows.
                current.top, current.bottom, current.first = top, bottom, position
            current.pieces.append(f" {text}" if has_space else text)
            current.right = max(current.right, right)
        else:
            yield from _close(c, raw, current, frame)
            current = _Open(left, top, right, bottom, [text], position)
        has_space = False
    yield from _close(c, raw, current, frame)


def _character(code: int) -> str:
    if code in _HYPHENS:
        return HYPHEN
    if code < 0x20 or code == 0xFFFF:
        return ""
    return _LIGATURES.get(code) or chr(code)


def _close(c: Any, raw: Any, current: _Open | None, frame: _Frame) -> Iterator[Span]:
    if current is None:
        return
    angle = c.FPDFText_GetCharAngle(raw, current.first)
    tilt = abs((math.degrees(angle) - 90 * frame.quarter_turns + 180) % 360 - 180) if angle >= 0 else 0.0
    if tilt > _MAX_TILT_DEGREES:
        return
    is_bold = c.FPDFText_GetFontWeight(raw, current.first) >= _BOLD_WEIGHT
    yield Span(current.left, current.top, current.right, current.bottom, "".join(current.pieces), is_bold)
