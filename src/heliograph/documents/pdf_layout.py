"""Turns a PDF page into lines in reading order.

Characters become spans: runs on one line with position, size and weight, in points from the upper left corner. Columns
are found by the gap between spans; consecutive lines whose cells share columns are a table. The order in which the PDF
draws its text is used where it makes sense; elsewhere geometry alone decides. Only the code that makes spans knows
PDFium.
"""

from __future__ import annotations

import ctypes
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from statistics import median
from typing import Any

from heliograph.documents.markdown import markdown_table
from heliograph.errors import import_optional

# From a PDF page to spans: runs of characters on one line without a wide gap, with position, size and weight.
#
# Coordinates are points from the page's upper left corner, after rotating a page that is shown or written sideways. All
# later steps work on spans alone and know nothing of PDFium.

# A hyphen at the end of a line, as PDFium marks it in one way or another.
HYPHEN = "\u00ad"
_HYPHENS = frozenset({0x02, 0xAD, 0xFFFE})
_LIGATURES = {0xFB00: "ff", 0xFB01: "fi", 0xFB02: "fl", 0xFB03: "ffi", 0xFB04: "ffl", 0xFB05: "st", 0xFB06: "st"}
_SPACES = frozenset({0x20, 0xA0, 0x09, 0x3000, 0x2002, 0x2003, 0x2009})
_LINE_ENDS = frozenset({0x0A, 0x0D})
_SURROGATES = range(0xD800, 0xE000)
# Spacing accents with their combining forms: TeX's older fonts draw "ü" as "¨" over "u".
_ACCENTS = dict(
    zip(
        "`´¨ˆ˜¯˘ˇ˚¸˙˝˛",
        "\u0300\u0301\u0308\u0302\u0303\u0304\u0306\u030c\u030a\u0327\u0307\u030b\u0328",
        strict=True,
    )
)
# Largest distance of an accent's centre from that of its letter, in widths of the letter, or heights.
_FARTHEST_ACROSS, _FARTHEST_DOWN = 0.35, 0.5
_BUCKET_POINTS = 4.0
# A narrower gap beside an accented letter, in ems, separates no words.
_LEAST_SPACE = 0.12
# Wider gaps, in ems, separate columns of text or of a table; words of a justified line are closer.
_WIDEST_GAP = 1.1
_BOLD_WEIGHT = 600
# What a font is called says more than its weight, which is guessed from its stems: TeX's bold ones have 545.
_BOLD_FONT = re.compile(r"bold|black|heavy|demi|medi\b|\b(?:cm|sf|ec)b[xs]", re.IGNORECASE)
_PLAIN_FONT = re.compile(r"regular|roman|book|light", re.IGNORECASE)
_FIXED_FONT = re.compile(
    r"mono(?!type)|nimbusmon|typewriter|courier|consol|menlo|sourcecode|\b(?:cm|sf|ec)(?:sl|it)?tt|xtt\b", re.IGNORECASE
)
_FIXED_PITCH = 1
_FONT_SAMPLES = 5
# Code stands no farther to the right, in characters; tiny letters far apart would make a line of millions.
_WIDEST_CODE = 240
_ANGLE_SAMPLES = 24
_MAX_TILT_DEGREES = 10.0


@dataclass(frozen=True, slots=True)
class Span:
    """Adjacent characters on one line.

    Attributes:
        top: Upper edge of its line, which lies above the letters.
        bottom: Lower edge of its line.
        text: Its characters, without white space at the ends.
        is_fixed: Whether its letters are all equally wide, as those of code.
    """

    left: float
    top: float
    right: float
    bottom: float
    text: str
    is_bold: bool = False
    is_fixed: bool = False

    @property
    def size(self) -> float:
        """Height of its line, which is proportional to the font size."""
        return self.bottom - self.top

    @property
    def middle(self) -> float:
        """Vertical centre of its line, from the top."""
        return (self.top + self.bottom) / 2


@dataclass(slots=True)
class _Frame:
    """Maps the page's own coordinates, from its lower left corner, to those of spans."""

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
    """Return the spans of a page in drawing order; text at an angle is left out."""
    c = import_optional("pypdfium2.raw", "")
    text_page = page.get_textpage()
    try:
        raw = text_page.raw
        count = min(text_page.count_chars(), max_characters)
        # The direction of most of the text in quarter turns, counted clockwise as PDFium does.
        sample = range(0, count, max(1, count // _ANGLE_SAMPLES))
        angles = (c.FPDFText_GetCharAngle(raw, index) for index in sample)
        found = Counter(round(math.degrees(angle) / 90) % 4 if angle >= 0 else 0 for angle in angles)
        turns = found.most_common(1)[0][0] if count else 0
        left, bottom, right, top = page.get_mediabox()
        width, height = abs(right - left) + min(left, right), abs(top - bottom) + min(bottom, top)
        frame = _Frame(width, height, turns)
        has_accents = count and not _ACCENTS.keys().isdisjoint(text_page.get_text_range(0, count))
        accented = _accented(c, raw, count, frame) if has_accents else {}
        return list(_spans(c, raw, count, frame, accented))
    finally:
        text_page.close()


@dataclass(slots=True)
class _Open:
    """The span being read."""

    left: float
    top: float
    right: float
    bottom: float
    pieces: list[str]
    first: int
    last: int
    # Letters or digits: a span's start without any may be a bullet.
    has_letters: bool
    # By height, in quarters of a point: how many characters have it, and the position of one of them.
    heights: dict[int, tuple[int, float, float]] = field(default_factory=dict[int, tuple[int, float, float]])

    def measure(self, top: float, bottom: float) -> None:
        """Count a character."""
        height = int(4 * (bottom - top))
        self.heights[height] = (self.heights.get(height, (0,))[0] + 1, top, bottom)

    def takes(self, left: float, top: float, bottom: float) -> bool:
        """Return whether a character belongs to this span."""
        size = self.bottom - self.top
        middle = (top + bottom) / 2
        is_same_line = self.top <= middle <= self.bottom or top <= (self.top + self.bottom) / 2 <= bottom
        return is_same_line and -size < left - self.right < _WIDEST_GAP * max(size, bottom - top)


def _accented(c: Any, raw: Any, count: int, frame: _Frame) -> dict[int, str]:
    """Return by index the replacements of letters with a separately drawn accent, and empty ones for the accents."""
    box = c.FS_RECTF()
    letters: dict[int, list[tuple[float, float, float, int, str]]] = {}
    accents: list[tuple[float, float, float, int, str]] = []
    for index in range(count):
        code = c.FPDFText_GetUnicode(raw, index)
        character = "" if code in _SURROGATES else chr(code)
        is_accent = character in _ACCENTS
        if not (is_accent or character.isalpha()) or not c.FPDFText_GetLooseCharBox(raw, index, ctypes.byref(box)):
            continue
        left, top, right, bottom = frame.place(box.left, box.bottom, box.right, box.top)
        across, down = (left + right) / 2, (top + bottom) / 2
        if is_accent:
            accents.append((across, down, bottom - top, index, _ACCENTS[character]))
        else:
            bucket = letters.setdefault(int(across // _BUCKET_POINTS), [])
            bucket.append((across, down, right - left, index, character))
    found: dict[int, str] = {}
    for across, down, height, index, mark in accents:
        bucket = int(across // _BUCKET_POINTS)
        near = [
            (abs(other[0] - across) + abs(other[1] - down), other)
            for number in range(bucket - 1, bucket + 2)
            for other in letters.get(number, ())
            if abs(other[0] - across) < _FARTHEST_ACROSS * other[2] and abs(other[1] - down) < _FARTHEST_DOWN * height
        ]
        if near:
            _, (_, _, _, place, letter) = min(near)
            # "ı" and "ȷ" have no dot, to make room.
            whole = unicodedata.normalize("NFC", {"ı": "i", "ȷ": "j"}.get(letter, letter) + mark)
            if len(whole) == 1:
                found[place], found[index] = whole, ""
    return found


def _spans(c: Any, raw: Any, count: int, frame: _Frame, accented: Mapping[int, str]) -> Iterator[Span]:
    current: _Open | None = None
    box = c.FS_RECTF()
    pointer = ctypes.byref(box)
    get_unicode, get_box = c.FPDFText_GetUnicode, c.FPDFText_GetLooseCharBox
    has_space = False
    # Whether an accent or a low quote came after the last letter; PDFium reports gaps around it where there are none.
    is_beside_accent = False
    index = 0
    while index < count:
        position = index
        code = get_unicode(raw, index)
        index += 1
        if code in _SPACES or code in _LINE_ENDS:
            has_space = True
            continue
        text = (
            HYPHEN if code in _HYPHENS else "" if code < 0x20 or code == 0xFFFF else _LIGATURES.get(code) or chr(code)
        )
        if code in _SURROGATES and index < count:
            text = (
                (chr(code) + chr(get_unicode(raw, index)))
                .encode("utf-16-le", "surrogatepass")
                .decode("utf-16-le", "replace")
            )
            index += 1
        if position in accented:
            text = accented[position]
            is_beside_accent |= not text
        if not text or not get_box(raw, position, pointer) or box.top <= box.bottom:
            continue
        left, top, right, bottom = frame.place(box.left, box.bottom, box.right, box.top)
        if text == "”" and (line := _line_of_low_quote(c, raw, range(index, count), frame, (left, top, right, bottom))):
            top, bottom = line
            text = "„"
            has_space = current is not None and left - current.right > _LEAST_SPACE * (bottom - top)
        if current is not None and current.takes(left, top, bottom):
            if not current.has_letters:
                # The height of a bullet says nothing about the font of the text after it.
                current.top, current.bottom, current.first = top, bottom, position
                current.heights.clear()
                current.has_letters = any(map(str.isalnum, text))
            if is_beside_accent and left - current.right < _LEAST_SPACE * (bottom - top):
                has_space = False
            current.pieces.append(f" {text}" if has_space else text)
            current.right = max(current.right, right)
            current.last = position
        else:
            yield from _close(c, raw, current, frame)
            # A sign of which the font does not say what it is: at the start of a line it is a bullet.
            text = "•" if 0x7F <= code < 0xA0 else text
            current = _Open(left, top, right, bottom, [text], position, position, any(map(str.isalnum, text)))
        current.measure(top, bottom)
        has_space, is_beside_accent = False, text == "„"
    yield from _close(c, raw, current, frame)


def _line_of_low_quote(
    c: Any, raw: Any, following: range, frame: _Frame, quote: tuple[float, float, float, float]
) -> tuple[float, float] | None:
    """Return top and bottom of the letter after a quote that is drawn below its line, as TeX does with "„"; or None."""
    _, top, right, bottom = quote
    box = c.FS_RECTF()
    for index in following[:4]:
        code = c.FPDFText_GetUnicode(raw, index)
        if code in _SPACES or code in _LINE_ENDS or chr(code) in _ACCENTS:
            continue
        if not c.FPDFText_GetLooseCharBox(raw, index, ctypes.byref(box)):
            return None
        left, upper, _, lower = frame.place(box.left, box.bottom, box.right, box.top)
        size, drop = lower - upper, (top + bottom - upper - lower) / 2
        return (upper, lower) if abs(left - right) < 0.3 * size and 0.25 * size < drop < size else None
    return None


def _close(c: Any, raw: Any, current: _Open | None, frame: _Frame) -> Iterator[Span]:
    if current is None:
        return
    angle = c.FPDFText_GetCharAngle(raw, current.first)
    tilt = abs((math.degrees(angle) - 90 * frame.quarter_turns + 180) % 360 - 180) if angle >= 0 else 0.0
    if tilt > _MAX_TILT_DEGREES:
        return
    # Its last character too: a bold word may begin a line of text; and more for code, which may begin and end it.
    ends = [_font(c, raw, index) for index in (current.first, current.last)]
    is_bold, is_fixed = (all(said) for said in zip(*ends, strict=True))
    if is_fixed:
        steps = range(current.first, current.last, max(1, (current.last - current.first) // _FONT_SAMPLES))
        fixed = [_font(c, raw, index)[1] for index in steps if not chr(c.FPDFText_GetUnicode(raw, index)).isspace()]
        is_fixed = all(fixed) and not any(character > "\u2e80" for piece in current.pieces for character in piece)
    # A line is as high as most of it; a sign from another font may begin it.
    _, top, bottom = max(current.heights.values(), key=lambda height: height[0])
    yield Span(current.left, top, current.right, bottom, "".join(current.pieces), is_bold, is_fixed)


def _font(c: Any, raw: Any, index: int) -> tuple[bool, bool]:
    """Return whether a character is bold, and whether its font has letters that are all equally wide."""
    buffer, flags = ctypes.create_string_buffer(64), ctypes.c_int()
    c.FPDFText_GetFontInfo(raw, index, buffer, len(buffer), ctypes.byref(flags))
    name = buffer.value.decode("utf-8", "replace")
    is_fixed = bool(flags.value & _FIXED_PITCH or _FIXED_FONT.search(name))
    is_heavy = not is_fixed and not _PLAIN_FONT.search(name) and c.FPDFText_GetFontWeight(raw, index) >= _BOLD_WEIGHT
    return is_heavy or bool(_BOLD_FONT.search(name)), is_fixed


_CELL_GAP = 1.1
_STEP_POINTS = 4.0
_MIDDLE = (0.15, 0.85)
_LEAST_LINES = 5
_LEAST_FILLED = 0.5
_FILLED_SHARE = 0.6
_LEAST_LINE_EMS = 9.0
_MAX_DEPTH = 3
# Far more spans than a page of text has; the labels of a drawing are not searched for columns.
_MAX_SPANS = 4_000


@dataclass(frozen=True, slots=True)
class Line:
    """Spans of one line, from left to right; more than one where wide gaps separate them."""

    cells: tuple[Span, ...]

    @property
    def text(self) -> str:
        """The line's words."""
        return " ".join(cell.text for cell in self.cells)

    @property
    def left(self) -> float:
        """The left edge."""
        return self.cells[0].left

    @property
    def right(self) -> float:
        """The right edge."""
        return max(cell.right for cell in self.cells)

    @property
    def top(self) -> float:
        """The upper edge."""
        return min(cell.top for cell in self.cells)

    @property
    def bottom(self) -> float:
        """The lower edge."""
        return max(cell.bottom for cell in self.cells)

    @property
    def middle(self) -> float:
        """The vertical centre, from the top."""
        return (self.top + self.bottom) / 2

    @property
    def size(self) -> float:
        """Height of the cell with the most text."""
        return max(self.cells, key=lambda cell: len(cell.text)).size

    @property
    def is_bold(self) -> bool:
        """Whether all cells begin in bold."""
        return all(cell.is_bold for cell in self.cells)

    @property
    def is_fixed(self) -> bool:
        """Whether all of it is set as code is."""
        return all(cell.is_fixed for cell in self.cells)


def read_columns(spans: Sequence[Span]) -> list[list[Line]]:
    """Return a page's lines in reading order, one group per column."""
    return [group_lines(group) for group in _ordered(list(spans), 0) if group]


def group_lines(spans: Sequence[Span]) -> list[Line]:
    """Return spans as lines from top to bottom; spans closer than a wide gap become one cell."""
    return [as_line(line) for line in part_lines(spans)]


def part_lines(spans: Sequence[Span]) -> list[list[Span]]:
    """Group spans by line, from top to bottom."""
    lines: list[list[Span]] = []
    tallest: Span | None = None
    for span in sorted(spans, key=lambda span: (span.middle, span.left)):
        if (
            tallest is not None
            and tallest.top <= span.middle <= tallest.bottom
            and abs(span.middle - tallest.middle) < 0.5 * tallest.size
        ):
            lines[-1].append(span)
            tallest = span if span.size > tallest.size else tallest
        else:
            lines.append([span])
            tallest = span
    return lines


def as_line(spans: Iterable[Span]) -> Line:
    """Join spans that stand side by side into a line."""
    cells: list[Span] = []
    for span in sorted(spans, key=lambda span: span.left):
        last = cells[-1] if cells else span
        if not cells or span.left - last.right >= _CELL_GAP * max(last.size, span.size):
            cells.append(span)
            continue
        is_apart = span.left - last.right > 0.12 * min(last.size, span.size)
        larger = last if len(last.text) >= len(span.text) else span
        text = f"{last.text}{' ' if is_apart else ''}{span.text}"
        right, is_fixed = max(last.right, span.right), last.is_fixed and span.is_fixed
        cells[-1] = Span(last.left, larger.top, right, larger.bottom, text, last.is_bold, is_fixed)
    return Line(tuple(cells))


def code_lines(lines: Sequence[Line]) -> Iterator[str]:
    """Yield lines of code, their parts as far to the right as they stand."""
    least = min(line.left for line in lines)
    width = median((cell.right - cell.left) / len(cell.text) for line in lines for cell in line.cells) or 1.0
    for line in lines:
        said = ""
        for cell in line.cells:
            place = round(min((cell.left - least) / width, _WIDEST_CODE))
            said = said.ljust(max(place, len(said) + bool(said))) + cell.text
        yield said.replace(HYPHEN, "-")


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
    """Return the position of the column gap that divides the most text, or None."""
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
    """Yield, from top to bottom, the spans between those that cross the gap, alternating with the crossing ones."""
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
    """Return whether the lines of one side mostly fill it and are long enough to be text."""
    start, end = min(span.left for span in spans), max(span.right for span in spans)
    lines = group_lines(spans)
    filled = sum(line.right - line.left >= _FILLED_SHARE * (end - start) and len(line.cells) == 1 for line in lines)
    width = median((line.right - line.left) / max(line.size, 1.0) for line in lines)
    return filled >= _LEAST_FILLED * len(lines) and width >= _LEAST_LINE_EMS


# Tables in a PDF: consecutive lines whose cells share columns.

_LEAST_TABLE_ROWS = 3
_LEAST_WIDE_ROWS = 2
_LEAST_WIDE_COLUMNS = 3
_MAX_CELL_CHARACTERS = 80
_PAGE_AT_END = re.compile(r"(?<=[\s.·…])(?:\d{1,4}|[ivxlcdm]{1,8}|[A-Z]-?\d{1,3})$")
_LEAST_DOTS = 4
# Lines of one cell follow each other more closely than rows do.
_CONTINUATION_GAP = 0.35
_ROW_GAP = 2.5
# A number or mark of a list item or heading, if a wide gap follows it.
_MARKER = re.compile(
    r"[•●▪■◦○‣∙·➢➤✓\uf0b7\uf0a7*–—-]|\(?(?:\d{1,3}|[a-zA-Z]|[ivx]{1,5})[.)]|\d{1,2}(?:\.\d{1,2})+\.?|第.{1,3}[章节]|[一二三四五六七八九十]+、"
)


@dataclass(frozen=True, slots=True)
class Table:
    """A table as Markdown."""

    markdown: str


def is_marker(text: str) -> bool:
    """Return whether a text is a bullet, or the number of a list item or heading."""
    return bool(_MARKER.fullmatch(text))


def is_entry(text: str) -> bool:
    """Return whether a text is an entry of a table of contents: dots lead to a page number."""
    number = _PAGE_AT_END.search(text, max(0, len(text) - 12))
    if number is None:
        return False
    before = text[: number.start()]
    words = before.rstrip(" .·…")
    dots = sum(character in ".·…" for character in before[len(words) :])
    return dots >= _LEAST_DOTS and any(map(str.isalpha, words))


def find_tables(lines: Sequence[Line]) -> Iterator[Table | list[Line]]:
    """Yield the lines of a column in order, with runs that form tables as tables."""
    plain: list[Line] = []
    position = 0
    merged: list[Line] = []
    for line in lines:
        first, *others = line.cells
        # A cell that only marks or numbers an item is merged with the next.
        if others and is_marker(first.text) and not (len(others) > 1 and first.text[0].isalnum()):
            joined = replace(others[0], left=first.left, text=f"{first.text} {others[0].text}")
            merged.append(Line((joined, *others[1:])))
        else:
            merged.append(line)
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


def _table_end(lines: Sequence[Line], start: int) -> int:
    """Return the end of the run of lines that may be a table, or `start` if none starts here."""
    if len(lines[start].cells) < 2 or is_entry(lines[start].text):
        return start
    end = start + 1
    while end < len(lines):
        line, last = lines[end], lines[end - 1]
        if is_entry(line.text):
            break
        gap = line.top - last.bottom
        is_row = len(line.cells) > 1 and gap < _ROW_GAP * line.size
        if not is_row:
            # The line may continue one cell of the row before.
            columns = _table_columns(lines[start:end]) if gap < _CONTINUATION_GAP * line.size else []
            touched = sum(line.left < right and line.right > left for left, right in columns)
            if len(columns) < 2 or touched != 1:
                break
        end += 1
    return end


def _table(lines: Sequence[Line]) -> Table | None:
    rows = [line for line in lines if len(line.cells) > 1]
    columns = _table_columns(lines)
    least = _LEAST_WIDE_ROWS if len(columns) >= _LEAST_WIDE_COLUMNS else _LEAST_TABLE_ROWS
    if len(columns) < 2 or len(rows) < least:
        return None
    if median(len(cell.text) for line in rows for cell in line.cells) > _MAX_CELL_CHARACTERS:
        return None
    filled: list[list[str]] = []
    last: Line | None = None
    for line in lines:
        cells = [""] * len(columns)
        for cell in line.cells:
            index = max(
                range(len(columns)),
                key=lambda index: min(cell.right, columns[index][1]) - max(cell.left, columns[index][0]),
            )
            cells[index] = f"{cells[index]} {cell.text}".strip()
        is_continued = last is not None and line.top - last.bottom < _CONTINUATION_GAP * line.size
        if filled and is_continued and not cells[0]:
            filled[-1] = [f"{above} {below}".strip() for above, below in zip(filled[-1], cells, strict=True)]
        else:
            filled.append(cells)
        last = line
    return Table(markdown_table([[cell.replace(HYPHEN, "-") for cell in row] for row in filled]))


def _table_columns(lines: Sequence[Line]) -> list[tuple[float, float]]:
    return _columns(cell for line in lines if len(line.cells) > 1 for cell in line.cells)


def _columns(parts: Iterable[Span | _Run]) -> list[tuple[float, float]]:
    """Return the disjoint horizontal ranges that these cover."""
    columns: list[tuple[float, float]] = []
    for left, right in sorted((part.left, part.right) for part in parts):
        if columns and left < columns[-1][1]:
            columns[-1] = (columns[-1][0], max(columns[-1][1], right))
        else:
            columns.append((left, right))
    return columns


# The order in which a PDF draws its text, used where it makes sense: most programs write in reading order.
#
# Spans that follow each other down a column form a run. Runs side by side form a row, and rows that share columns form
# a grid, which is a table whose cells may hold several lines. Where the drawing order jumps about, or crosses columns
# of prose line by line, geometry alone decides (`pdf_layout`).

_LINE_GAP = 1.2
_OUTDENT = 3.0
_MAX_CELL_LINES = 15
_LEAST_GRID_ROWS = 2
# Jumps back up the page, other than to the next column, up to which the drawing order is trusted.
_MOST_JUMPS = 4
_MOST_JUMPS_SHARE = 0.2


@dataclass(frozen=True, slots=True)
class Grid:
    """A table: rows of cells, each a list of lines; empty where a row has no text in a column."""

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
        """Return whether the two runs stand side by side."""
        return min(self.bottom, other.bottom) - max(self.top, other.top) > 0.5 * min(
            self.spans[0].size, other.spans[0].size
        )


def read_flow(spans: Sequence[Span]) -> list[list[Line] | Grid]:
    """Return a page's lines in reading order, one group per column, and its tables with several lines per cell."""
    runs = list(_runs(spans))
    # How often the drawing order goes back up other than to the right.
    jumps = sum(
        after.bottom < before.top and after.left < before.right - 0.5 * (before.right - before.left)
        for before, after in pairwise(runs)
    )
    if jumps > max(_MOST_JUMPS, _MOST_JUMPS_SHARE * len(runs)):
        return [*read_columns(spans)]
    groups: list[list[Line] | Grid] = []
    for part in _parts(_rows(runs)):
        found = [span for row in part for run in row for span in run.spans]
        is_grid = len(part[0]) > 1
        if is_grid and any(run.lines > 1 for row in part for run in row):
            columns = _columns(run for row in part for run in row)
            rows: list[tuple[tuple[Line, ...], ...]] = []
            for row in part:
                cells: list[tuple[Line, ...]] = [()] * len(columns)
                for run in row:
                    index = next(number for number, (left, right) in enumerate(columns) if left <= run.left <= right)
                    cells[index] = (*cells[index], *group_lines(run.spans))
                rows.append(tuple(cells))
            groups.append(Grid(tuple(rows)))
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
    """Yield rows in groups: those that form a grid, and those between that go down one column."""
    position = 0
    flow: list[Sequence[_Run]] = []
    while position < len(rows):
        # The rows that share columns with this one.
        end, most = position, 0
        while end < len(rows) and len(rows[end]) > 1:
            if end > position and rows[end][0].top < rows[end - 1][0].top:
                break
            count = len(_columns(run for row in rows[position : end + 1] for run in row))
            if count < max(2, most):
                break
            most, end = count, end + 1
        if end - position >= _LEAST_GRID_ROWS:
            yield from _columns_of_flow(flow)
            flow = []
            yield list(rows[position:end])
            position = end
        else:
            flow.append(rows[position])
            position += 1
    yield from _columns_of_flow(flow)


def _columns_of_flow(rows: Sequence[Sequence[_Run]]) -> Iterator[list[Sequence[_Run]]]:
    """Yield rows, split where the order goes back up to the next column."""
    column: list[Sequence[_Run]] = []
    for row in rows:
        first, last = row[0].spans[0], column[-1][0].spans[-1] if column else row[0].spans[0]
        # What stands beside a line goes on with it: the text of a heading beside its number.
        is_beside = first.left > last.right and abs(first.middle - last.middle) < 0.5 * last.size
        if column and first.middle < column[-1][0].bottom and not is_beside:
            yield _single(column)
            column = []
        column.append(row)
    if column:
        yield _single(column)


def _single(rows: Sequence[Sequence[_Run]]) -> list[Sequence[_Run]]:
    """Return each run as a row of its own, so that none is taken for a grid."""
    return [[run] for row in rows for run in row]
