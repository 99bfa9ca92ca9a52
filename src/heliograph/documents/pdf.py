"""Loads PDF through PDFium, and pictures of pages: text in reading order, with headings, lists and tables.

Lines come from `pdf_layout`. Page numbers are removed, and so are running heads and feet except at their first
occurrence: they stand at the same height on page after page, apart from the text. Headings are recognised by size and
weight relative to most of the text, and words hyphenated at a line end are joined. Pages that are pictures are read by
`scans`, if its extra is installed.
"""

from __future__ import annotations

import io
import math
import re
import struct
import unicodedata
import zlib
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from statistics import median
from types import MappingProxyType
from typing import Any

from heliograph.documents import scans
from heliograph.documents.base import Limits, LoadedDocument, Loader, RawDocument
from heliograph.documents.markdown import clean_text, fence, markdown_table, too_long
from heliograph.documents.pdf_layout import (
    HYPHEN,
    Grid,
    Line,
    Span,
    Table,
    as_line,
    code_lines,
    find_tables,
    is_entry,
    part_lines,
    read_columns,
    read_flow,
    read_spans,
)
from heliograph.errors import IngestError, import_optional

# Share of the page's height, from either edge, in which running lines are searched, and how many lines there.
_ZONE = 0.13
_LINES = 5
_LEAST_PAGES = 3
_HEIGHT_STEP = 4.0
# Pages before and after one that must have similar lines; these may be on every second page.
_NEAR = 4
# Distance of running lines from the text, in line pitches; the smaller one suffices for lines that many pages have.
# Beyond such a gap, only a line that most pages have is a running one.
_GAP, _SMALL_GAP = 1.5, 1.2
_MANY, _MOST = 0.4, 0.7
# Least share of pages on which a number must count the pages; numbers of footnotes may do so by chance on a few.
_COUNTING = 0.3
# Largest height of a running line, relative to the median line.
_LARGEST = 1.25
# Line pitches, in line heights: others come from superscripts, or from pages with few lines.
_LEAST_STEP, _LEAST_PITCH, _MOST_PITCH = 0.5, 1.2, 3.0
_DIGITS = re.compile(r"\d+")
# Roman page numbers below 200: "civil" and "mix" are words.
_ROMAN = re.compile(r"(?=.)c?(?:xc|xl|l?x{0,3})(?:ix|iv|v?i{0,3})")
_NUMBERING = re.compile(r"^§?\s?\d{1,2}(?:\.\d{1,2}){0,4}\.?\s+")
_PAGE_WORD = r"(?:page|p\.|pg\.|seite|blatt|sheet|página|pág\.|folha|стр\.|第)"
_PAGE_NUMBER = re.compile(
    rf"(?P<word>{_PAGE_WORD})?[:.]?\s*[-\u2013\u2014|\[(]?\s*\d{{1,4}}\s*[-\u2013\u2014|\])]?\s*"
    r"(?:(?:of|/|von|de)\s*\d{1,4}|页|頁|ページ)?(?:\s*[,，/]?\s*共\s*\d{1,4}\s*[页頁])?",
    re.IGNORECASE,
)
# A page number after other words, or before them.
_PAGED = re.compile(
    rf"\b{_PAGE_WORD}\s*\d{{1,4}}(?:\s*(?:of|/|von|de)\s*\d{{1,4}})?$|"
    rf"^{_PAGE_WORD}\s*\d{{1,4}}(?:\s*(?:of|/|von|de)\s*\d{{1,4}})?(?=\s)"
)
# A label before a number that is no page number, such as that of an invoice.
_LABEL = re.compile(rf"(?!{_PAGE_WORD}).*(?:[:：#№号]|\b(?:no|nr|nº|n°)\.?)", re.IGNORECASE)
_YEAR = re.compile(r"(?:19|20)\d\d")
_PARTED_BEFORE, _PARTED_BEHIND = re.compile(r"\s[-\u2013\u2014|·•/]\s$"), re.compile(r"\s[-\u2013\u2014|·•/]\s")


@dataclass(frozen=True, slots=True)
class PageSpans:
    """The spans of a page, and its height; for text read by OCR the order means nothing."""

    spans: tuple[Span, ...]
    height: float
    is_picture: bool = False


@dataclass(frozen=True, slots=True)
class PageBody:
    """The spans of a page without running lines, and the words of these, above and below, that occur nowhere else."""

    spans: list[Span]
    above: tuple[str, ...] = ()
    below: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Edge:
    """A line at the edge of a page.

    Attributes:
        gap: Distance to the next line towards the middle, in line pitches of the page.
        keys: Keys, each with a height, of which lines of other pages must share one for it to be a running line.
    """

    line: Line
    spans: list[Span]
    gap: float
    keys: list[tuple[str, int]]


def remove_margins(pages: Sequence[PageSpans]) -> list[PageBody]:
    """Return each page without running heads, feet and page numbers.

    A line is a running one if at least three nearby pages have, at the same height at their edge, the same words,
    numbers aside, or a first or last number that counts the pages; in a shorter document, all pages must. It stands
    apart from the text, unlike first and last lines, rows of a table and lines of an address. Its words are kept at
    their first occurrence, unless the text has them too: they may be the only place that names a company or its bank.
    """
    edges = [_edges(page, number) for number, page in enumerate(pages)]
    seen = _Seen({}, len(pages))
    for number, sides in enumerate(edges):
        for key in {key for side in sides for edge in side for key in edge.keys}:
            seen.pages.setdefault(key, []).append(number)
    running = [[_running(side, number, seen) for side in sides] for number, sides in enumerate(edges)]
    bodies: list[list[Span]] = []
    for page, sides in zip(pages, running, strict=True):
        gone = {id(span) for side in sides for edge in side for span in edge.spans}
        bodies.append([span for span in page.spans if id(span) not in gone])
    said = {_plain(span.text) for spans in bodies for span in spans}
    told: set[str] = set()
    found: list[PageBody] = []
    for number, (spans, sides) in enumerate(zip(bodies, running, strict=True)):
        above, below = ([_news(edge.line, number, seen, told, said) for edge in side] for side in sides)
        found.append(PageBody(spans, tuple(filter(None, above)), tuple(filter(None, reversed(below)))))
    return found


def _edges(page: PageSpans, number: int) -> tuple[list[_Edge], list[_Edge]]:
    """Return the lines at the upper and at the lower edge of a page, the outermost first."""
    ordered = sorted(page.spans, key=lambda span: span.middle)
    steps = (after.middle - before.middle for before, after in pairwise(ordered))
    pitches = [step for step, span in zip(steps, ordered, strict=False) if step > _LEAST_STEP * span.size]
    usual = median(pitches) if pitches else 0.0
    largest = _LARGEST * median(span.size for span in ordered) if ordered else 0.0
    zone = _ZONE * page.height
    # Together with the spans beyond the zone, of which the nearest is the next line.
    high = bisect_left(ordered, zone, key=lambda span: span.middle)
    low = bisect_right(ordered, page.height - zone, key=lambda span: span.middle)
    sides: tuple[list[_Edge], list[_Edge]] = ([], [])
    for side, spans, inner in (
        (sides[0], ordered[:high], ordered[high].middle if high < len(ordered) else math.inf),
        (sides[1], ordered[low:], ordered[low - 1].middle if low else -math.inf),
    ):
        parts = part_lines(spans)
        if side is sides[1]:
            parts.reverse()
        lines = [as_line(part) for part in parts[: _LINES + 1]]
        nexts = [*(line.middle for line in lines[1:]), inner]
        for line, part, other in zip(lines[:_LINES], parts, nexts, strict=False):
            if line.size > largest:
                # A title, which consecutive slides may share.
                break
            pitch = min(max(usual, _LEAST_PITCH * line.size), _MOST_PITCH * line.size)
            side.append(_Edge(line, part, abs(other - line.middle) / max(pitch, 1.0), _keys(line, number)))
    return sides


def _keys(line: Line, page: int) -> list[tuple[str, int]]:
    height = _height(line)
    words = " ".join(line.text.casefold().split())
    numbers = _outer_numbers(words)
    return [
        ("#" if _ROMAN.fullmatch(line.text) else _DIGITS.sub("#", words), height),
        *((f"counts from {first}", height) for first in {int(number[0]) - page for number in numbers}),
    ]


def _height(line: Line) -> int:
    return round(line.cells[0].middle / _HEIGHT_STEP)


def _outer_numbers(text: str) -> list[re.Match[str]]:
    """Return the first and the last number of a text, if they may be page numbers."""
    numbers = list(_DIGITS.finditer(text))
    return [number for number in (*numbers[:1], *numbers[1:][-1:]) if len(number[0]) <= 4]


@dataclass(frozen=True, slots=True)
class _Seen:
    """The pages, in order, on which a key occurs at the edge, and the number of pages."""

    pages: dict[tuple[str, int], list[int]]
    count: int

    def times(self, key: tuple[str, int], page: int | None = None) -> int:
        """Return how many pages have a key, or how many near a page."""

        def within(height: int) -> int:
            places = self.pages.get((key[0], height), ())
            if page is None:
                return len(places)
            return bisect_right(places, page + _NEAR) - bisect_left(places, page - _NEAR)

        # Rounding may separate lines of one height.
        return within(key[1]) + max(within(key[1] - 1), within(key[1] + 1))

    def is_running(self, edge: _Edge, page: int) -> bool:
        """Return whether a line repeats on other pages, or counts them."""
        same, *counting = edge.keys
        is_number = len(edge.line.cells) == 1 and self.is_page_number(edge.line.text, page, same[1])
        if self.count < _LEAST_PAGES:
            is_on_all = self.count > 1 and self.times(same) >= self.count and "#" in same[0]
            return is_on_all or is_number
        least = max(_LEAST_PAGES, _COUNTING * self.count)
        is_counting = any(self.times(key) >= least for key in counting)
        return self.times(same, page) >= _LEAST_PAGES or is_counting or is_number

    def is_usual(self, edge: _Edge, share: float = _MANY) -> bool:
        """Return whether a line does so on at least this share of all pages."""
        return any(self.times(key) >= max(_LEAST_PAGES, share * self.count) for key in edge.keys)

    def counts(self, number: re.Match[str], page: int, height: int) -> bool:
        """Return whether a number at this height is the number of its page."""
        first = int(number[0]) - page
        if first > 1 and _YEAR.fullmatch(number[0]):
            return False
        times = self.times((f"counts from {first}", height))
        return times >= min(_LEAST_PAGES, self.count) and (self.count > 1 or first == 1)

    def is_page_number(self, text: str, page: int, height: int) -> bool:
        """Return whether a text is only the number of its page: "3/20" may be a mark as well."""
        found = _PAGE_NUMBER.fullmatch(text)
        numbers = _outer_numbers(text)
        return found is not None and (
            (found["word"] is not None and len(numbers) > 1)
            or any(self.counts(number, page, height) for number in numbers)
        )

    def without_page_number(self, text: str, label: str, page: int, height: int) -> str:
        """Return a cell's words, in lower case, with "#" for its page number; empty if it has no others.

        Invoices, tickets and days of a month may count up like pages. So a number beside other words is a page number
        only after a word for page, or if a dash or the like sets it apart; a number in its own cell is one, unless the
        cell before labels it.
        """
        words = " ".join(text.casefold().split())
        if _ROMAN.fullmatch(text) or (self.is_page_number(words, page, height) and not _LABEL.fullmatch(label)):
            return ""
        words = _PAGED.sub("#", words)
        for number in _outer_numbers(words):
            before, behind = words[: number.start()], words[number.end() :]
            is_outer = (not behind and _PARTED_BEFORE.search(before)) or (not before and _PARTED_BEHIND.match(behind))
            if is_outer and self.counts(number, page, height):
                return f"{before}#{behind}"
        return words


def _running(side: Sequence[_Edge], page: int, seen: _Seen) -> list[_Edge]:
    """Return the running lines at one edge of a page: a block that stands apart, and frequent ones within it."""
    found: list[_Edge] = []
    is_apart = False
    for edge in side:
        if not seen.is_running(edge, page) or (is_apart and not seen.is_usual(edge, _MOST)):
            break
        found.append(edge)
        is_apart |= edge.gap >= _GAP
    while found and found[-1].gap < (_SMALL_GAP if seen.is_usual(found[-1]) else _GAP):
        found.pop()
    return found


def _news(line: Line, page: int, seen: _Seen, told: set[str], said: set[str]) -> str:
    """Return the words of a running line that neither an earlier one nor the text has; add them to `told`."""
    height = _height(line)
    labels = ("", *(cell.text for cell in line.cells))
    words = [
        seen.without_page_number(cell.text, label, page, height)
        for label, cell in zip(labels, line.cells, strict=False)
    ]
    whole = " ".join(words)
    if whole in told or not any(map(str.isalnum, whole)):
        return ""
    told.add(whole)
    # An amount or a day may recur by chance.
    if all(_plain(text) in said and not _DIGITS.search(_plain(text)) for text in words if text):
        return ""
    return " ".join(cell.text for cell, text in zip(line.cells, words, strict=True) if text).replace(HYPHEN, "-")


def _plain(text: str) -> str:
    """Return a text in lower case without its section number."""
    words = text.casefold()
    number = _NUMBERING.match(words)
    return words[number.end() :] if number else words


# Sizes are relative to the size that most of the document's letters have. A word hyphenated at the end of a line is
# joined, unless the document has it with the hyphen elsewhere.

_HEADING_RATIO = 1.13
_MAX_HEADING_CHARACTERS = 200
_MAX_BOLD_HEADING_CHARACTERS = 90
_HEADING_LEVELS = 4
_SIZE_STEP = 0.5
_PARAGRAPH_GAP = 1.35
# Lines of code that stand farther apart, in their size, are several examples.
_CODE_GAP = 2.5
_INDENT = 0.8
_SHORT_LINE = 0.75
_BULLET = re.compile(r"^([•●▪■◦○‣∙·➢➤✓\uf0b7\uf0a7*–—-])\s+(?=\S)")
_NUMBERED = re.compile(r"^(?:\(?(?:\d{1,3}|[a-zA-Z]|[ivx]{2,5})[.)]|[（(][一二三四五六七八九十\d]+[)）])\s+(?=\S)")
_SENTENCE_END = (".", "!", "?", ":", "。", "！", "？", "；", "：", ".”", '."', ".)")
# Between the parts of a paragraph.
_MOST_ASIDES = 6
_SENTENCE_ENDED = re.compile(r"[.!?:;。！？：；][\"'”’)\]）」』\d]{0,6}$")
_CAPTION = re.compile(
    r"(?:figure|fig\.|table|listing|algorithm|abbildung|abb\.|tabelle|tab\.|figura|tabla|tableau|tabela|rysunek|рис\.|"
    r"рисунок|таблица|[图圖表図])\s?(?:\d|[A-Z]\b)[\w.\-]{0,8}\s?(?:[:.：–—]|$)",
    re.IGNORECASE,
)
_NOTE_MARK = re.compile(r"(?:\[?\d{1,3}\]?|[*†‡§]{1,3})\s?\S")
# Share of the usual text height below which text is small; and how near to the edges of its column a full line begins
# and ends, in its heights.
_SMALL = 0.92
_FLUSH, _FULL_EMS = 0.5, 2.0
_LEADER = re.compile(r"(?:\s?[.·…]){4,}\s*")
_WORD = re.compile(r"[^\W\d_]+(?:[-\u2010][^\W\d_]+)*")
_LINE_HYPHENS = f"-\u2010{HYPHEN}"
# In characters; a longer one is no hyphenated word.
_LONGEST_WORD = 100
_LAST_WORD = re.compile(rf"([^\W\d_]+)[{_LINE_HYPHENS}]$")
_FIRST_WORD = re.compile(r"[^\W\d_]+")
_UNSPACED = re.compile(r"[\u2e80-\u9fff\uf900-\ufaff\uff00-\uffef\u3000-\u30ff]")
_MOST_TITLE_LINES = 3
# A section number, without its dots.
_SECTION = re.compile(r"^(?:\d{1,5}|[a-z]\d{1,4})(?=\D)")
_MARK_AT_START = re.compile(r"^(#{1,6}(?=\s)|```|~~~)")


# By page, from 0: the letters of the titles that bookmarks lead to, each with its level from 1.
Outline = Mapping[int, Mapping[str, int]]


@dataclass(frozen=True, slots=True)
class Style:
    """How a document is set, and its words, in lower case; those with a hyphen within a line too.

    `has_code` says whether what is set in letters of one width is code: not where most of the text is.
    """

    body_size: float
    heading_sizes: tuple[float, ...]
    words: frozenset[str]
    has_code: bool = False


def measure_style(pages: Iterable[Sequence[Sequence[Line] | Grid]]) -> Style:
    """Return the typographic measures of a document, from the lines of all its pages."""
    letters: Counter[float] = Counter()
    lines_of: Counter[float] = Counter()
    words: set[str] = set()
    fixed = 0
    for page in pages:
        lines = (
            line
            for group in page
            for row in (group.rows if isinstance(group, Grid) else ((group,),))
            for cell in row
            for line in cell
        )
        for line in lines:
            size = round(line.size / _SIZE_STEP) * _SIZE_STEP
            letters[size] += len(line.text)
            lines_of[size] += 1
            fixed += len(line.text) * line.is_fixed
            words.update(word.casefold() for word in _WORD.findall(line.text))
    body = letters.most_common(1)[0][0] if letters else 0.0
    sizes: list[float] = []
    for size in sorted((size for size in lines_of if size >= _HEADING_RATIO * body), reverse=True):
        # Sizes that differ by less than the eye sees count as one.
        if not sizes or size < 0.95 * sizes[-1]:
            sizes.append(size)
    return Style(body, tuple(sizes[:_HEADING_LEVELS]), frozenset(words), 2 * fixed < letters.total())


@dataclass(frozen=True, slots=True)
class Block:
    """A paragraph, heading, item of a list or table of a page, as Markdown.

    Attributes:
        is_aside: Whether text continues around it: a table, a caption, a footnote.
        is_first: Whether it is the first of its column.
        is_open: Whether it is text that ends at the edge of its column in the middle of a sentence.
        is_rest: Whether it is text that may be the rest of such a sentence.
    """

    text: str
    is_aside: bool = False
    is_first: bool = False
    is_open: bool = False
    is_rest: bool = False


def render_page(groups: Sequence[Sequence[Line] | Grid], style: Style, titles: Mapping[str, int]) -> Iterator[Block]:
    """Yield the blocks of a page; `titles` are those that the file's bookmarks give for it, in letters only."""
    for group in groups:
        is_first = True
        for block in _column(group, style, titles):
            if text := clean_text(block.text):
                yield replace(block, text=text, is_first=is_first)
                # Text may begin below a table or a figure.
                is_first &= block.is_aside


def _column(group: Sequence[Line] | Grid, style: Style, titles: Mapping[str, int]) -> Iterator[Block]:
    if isinstance(group, Grid):
        rows = [[join_lines((line.text for line in cell), style.words) for cell in row] for row in group.rows]
        yield Block(markdown_table(rows), is_aside=True)
        return
    for part in find_tables(group):
        if isinstance(part, Table):
            yield Block(part.markdown, is_aside=True)
        else:
            yield from _paragraphs(part, style, titles)


def join_blocks(pages: Sequence[Sequence[Block]], words: frozenset[str]) -> tuple[str, tuple[int, ...]]:
    """Return the text of all pages, and the offset at which each starts.

    A paragraph that continues in the next column or on the next page is joined. Blocks between its parts are moved:
    those on its first page before it, those on its last page after it, so that each page keeps its blocks.
    """
    # Paragraphs in order, as lists of parts with their pages.
    told: list[list[tuple[int, Block]]] = []
    for page, blocks in enumerate(pages):
        for block in blocks:
            part = (page, block)
            place = _begun(told, page, block) if block.is_first and block.is_rest else None
            if place is None:
                told.append([part])
                continue
            begun = told.pop(place)
            before = sum(aside[0][0] == begun[0][0] for aside in told[place:]) if begun[0][0] < page else 0
            told.insert(place + before, [*begun, part])
    pieces: list[str] = []
    starts = [-1] * len(pages)
    length = 0
    last: tuple[int, Block] | None = None
    for parts in told:
        if last is not None:
            # Neighbouring items of a list are one block.
            is_list = last[0] == parts[0][0] and last[1].text.startswith("- ") and parts[0][1].text.startswith("- ")
            pieces.append("\n" if is_list else "\n\n")
            length += len(pieces[-1])
        for (page, _), text in zip(parts, _joined((block.text for _, block in parts), words), strict=True):
            if starts[page] < 0:
                starts[page] = length
            pieces.append(text)
            length += len(text)
        last = (parts[-1][0], parts[0][1])
    if pieces:
        pieces.append("\n")
        length += 1
    for page in range(len(pages) - 1, -1, -1):
        if starts[page] < 0:
            starts[page] = starts[page + 1] if page + 1 < len(pages) else length
    return "".join(pieces), tuple(starts)


def _begun(told: Sequence[Sequence[tuple[int, Block]]], page: int, block: Block) -> int | None:
    """Return the index of the paragraph that a block continues, or None."""
    for place in range(len(told) - 1, max(-1, len(told) - 2 - _MOST_ASIDES), -1):
        before = told[place][-1][1]
        if before.is_aside:
            continue
        if not before.is_open or any(told[place][0][0] < aside[0][0] < page for aside in told[place + 1 :]):
            return None
        end, start = before.text[-1], block.text[0]
        if _UNSPACED.match(end) or _UNSPACED.match(start):
            return place if _UNSPACED.match(end) and _UNSPACED.match(start) else None
        # A name, or a noun in German, may continue a paragraph that breaks off after a word.
        return place if start.islower() or end.islower() or end == "," else None
    return None


def join_lines(lines: Iterable[str], words: frozenset[str]) -> str:
    """Join the lines of a paragraph: hyphens at line ends resolved, no space between Chinese characters."""
    return "".join(_joined(filter(None, map(str.strip, lines)), words)).replace(HYPHEN, "-")


def _joined(texts: Iterable[str], words: frozenset[str]) -> list[str]:
    """Return consecutive texts, each ready to be concatenated with the next, with the space between."""
    joined: list[str] = []
    end = ""
    for text in texts:
        if joined:
            dropped, between = _seam(end, text, words)
            joined[-1] = joined[-1][: len(joined[-1]) - dropped] + between
            end = end[: len(end) - dropped] + between
        joined.append(text)
        end = f"{end}{text}"[-_LONGEST_WORD:]
    return joined


def _seam(before: str, after: str, words: frozenset[str]) -> tuple[int, str]:
    """Return how many characters to cut from the end of `before`, and the separator to put before `after`."""
    if before[-1] in _LINE_HYPHENS:
        last, first = _LAST_WORD.search(before), _FIRST_WORD.match(after)
        if last and first:
            whole, hyphenated = f"{last[1]}{first[0]}".casefold(), f"{last[1]}-{first[0]}".casefold()
            return 1, "" if first[0][0].islower() and (whole in words or hyphenated not in words) else "-"
        if before[-1] == HYPHEN:
            return 1, "-"
    return 0, "" if _UNSPACED.match(before[-1]) and _UNSPACED.match(after) else " "


def _letters(text: str) -> str:
    """Return the letters and digits of a text, by which a bookmark is matched on its page."""
    return "".join(filter(str.isalnum, unicodedata.normalize("NFKC", text))).casefold()


def _paragraphs(lines: Sequence[Line], style: Style, titles: Mapping[str, int]) -> Iterator[Block]:
    pitches = [after.middle - before.middle for before, after in pairwise(lines)]
    pitch = median(sorted(pitches)[: max(1, len(pitches) * 3 // 4)]) if pitches else 0.0
    left, right = min((line.left for line in lines), default=0.0), max((line.right for line in lines), default=0.0)
    titled = _find_titles(lines, titles) if titles else {}
    current: list[Line] = []
    end = 0
    for index, line in enumerate(lines):
        if index < end:
            continue
        if index in titled:
            if current:
                yield _paragraph(current, left, right, style)
            current = []
            end, level = titled[index]
            yield Block(f"{'#' * level} {join_lines((line.text for line in lines[index:end]), style.words)}")
            continue
        if current and _starts_paragraph(current, line, pitch, left, right, style):
            yield _paragraph(current, left, right, style)
            current = []
        current.append(line)
    if current:
        yield _paragraph(current, left, right, style)


def _find_titles(lines: Sequence[Line], titles: Mapping[str, int]) -> dict[int, tuple[int, int]]:
    """Return, by index of their first line, the end and level of bookmarked titles; each is matched once."""
    found: dict[int, tuple[int, int]] = {}
    letters = [_letters(line.text) for line in lines]
    met: set[str] = set()
    for index, first in enumerate(letters):
        text = ""
        for end in range(index + 1, min(index + _MOST_TITLE_LINES, len(lines)) + 1) if first else ():
            text += letters[end - 1]
            # The bookmark may omit the number that the title has on the page.
            number = _SECTION.match(text)
            name = text[number.end() :] if text not in titles and number and number.end() <= len(first) else text
            if name in titles and name not in met and any(map(str.isalpha, name)):
                met.add(name)
                found[index] = end, titles[name]
                break
    return found


def _starts_paragraph(
    current: Sequence[Line], line: Line, pitch: float, left: float, right: float, style: Style
) -> bool:
    last = current[-1]
    if style.has_code and line.is_fixed and last.is_fixed:
        return line.middle - last.middle > _CODE_GAP * line.size
    if style.has_code and line.is_fixed != last.is_fixed:
        # Below a term in such letters stands, farther to the right, what explains it.
        shift = line.left - last.left if line.is_fixed else min(0, line.left - last.left)
        if abs(shift) > _INDENT * line.size:
            return True
    if _BULLET.match(line.text) or _NUMBERED.match(line.text) or is_entry(last.text):
        return True
    # Fonts of one size differ in height; headings differ more.
    ratio = line.size / last.size if last.size else 1.0
    is_heading = max(line.size, last.size) >= _HEADING_RATIO * style.body_size
    is_same_size = 0.88 < ratio < 1.14 if is_heading else 0.7 < ratio < 1.43
    if not is_same_size:
        return True
    if line.is_bold != last.is_bold:
        # A heading without a gap is entirely bold and short.
        bold = last if last.is_bold else line
        if len(bold.text) <= _MAX_BOLD_HEADING_CHARACTERS and not bold.text.endswith((",", ";")):
            return True
    if line.middle - last.middle > max(_PARAGRAPH_GAP * pitch, 1.1 * last.size):
        return True
    is_item = bool(_BULLET.match(current[0].text) or _NUMBERED.match(current[0].text))
    if line.left > left + _INDENT * line.size and last.left < line.left - _INDENT * line.size and not is_item:
        return len(current) > 1 or last.text.endswith(_SENTENCE_END)
    is_short = last.right < left + _SHORT_LINE * (right - left)
    return is_short and last.text.endswith(_SENTENCE_END)


def _paragraph(lines: Sequence[Line], left: float, right: float, style: Style) -> Block:
    text = join_lines((line.text for line in lines), style.words)
    if is_entry(text):
        return Block(f"- {_LEADER.sub(' ', text).strip()}")
    text = _LEADER.sub(" ", text).strip()
    level = _heading_level(lines, text, style)
    if level:
        return Block(f"{'#' * level} {text}")
    if style.has_code and all(line.is_fixed for line in lines) and not _BULLET.match(text):
        return Block(fence("\n".join(code_lines(lines))))
    size = median(line.size for line in lines)
    is_note = size < _SMALL * style.body_size and bool(_NOTE_MARK.match(text))
    if is_note or _CAPTION.match(text):
        return Block(_MARK_AT_START.sub(r"\\\1", text), is_aside=True)
    edge = right - _FULL_EMS * size
    is_several = len(lines) > 1
    is_open = is_several and lines[-1].right >= edge and not _SENTENCE_ENDED.search(text[-8:])
    if _BULLET.match(text):
        return Block(_BULLET.sub("- ", text), is_open=is_open)
    is_text = text[:1].isalpha() and not _NUMBERED.match(text)
    is_flush = is_several and lines[0].right >= edge and lines[0].left <= left + _FLUSH * size
    is_rest = is_text and (text[0].islower() or is_flush)
    return Block(_MARK_AT_START.sub(r"\\\1", text), is_open=is_open, is_rest=is_rest)


def _heading_level(lines: Sequence[Line], text: str, style: Style) -> int:
    """Return the level of a heading, or 0 if it is none."""
    if not any(character.isalpha() for character in text) or len(text) > _MAX_HEADING_CHARACTERS:
        return 0
    if text.endswith((".", ",", ";", "。", "，")) and (text[0].islower() or len(text) > _MAX_BOLD_HEADING_CHARACTERS):
        return 0
    if any(len(line.cells) > 1 and line.cells[-1].text.isdecimal() for line in lines):
        # An entry of a table of contents, without dots.
        return 0
    size = median(line.size for line in lines)
    for level, heading_size in enumerate(style.heading_sizes, 1):
        if size >= 0.95 * heading_size:
            return level
    is_bold = all(line.is_bold for line in lines) and len(lines) <= 2 and size >= 0.95 * style.body_size
    if not is_bold or len(text) > _MAX_BOLD_HEADING_CHARACTERS or text.endswith((".", ",", ";", "。", "，")):
        return 0
    return min(6, len(style.heading_sizes) + 1)


_PASSWORD_ERROR = 4
# The last is the length of all titles together, in characters: many bookmarks may share a long one.
_OUTLINE_DEPTH, _MOST_MARKS, _MOST_TITLES = 6, 20_000, 1_000_000
_DATE = re.compile(r"D?:?(\d{4})(\d{2})?(\d{2})?(\d{2})?(\d{2})?(\d{2})?")
# Default titles of programs.
_NO_TITLE = re.compile(
    r"(?:microsoft (?:word|powerpoint|excel) - .*|untitled.*|.*\.(?:docx?|pptx?|xlsx?|tex|dvi|indd|qxd|pdf)|\W*)",
    re.IGNORECASE,
)


# A page with fewer letters is a picture if one covers this much of it: a stamp or a page number may be on it.
_FEW_LETTERS = 64
_COVERED = 0.5


class PdfLoader(Loader):
    """PDF files; pages that are pictures are read if the extra `ocr` is installed, else counted."""

    suffixes = frozenset({".pdf"})
    mime_types = frozenset({"application/pdf"})
    runs_isolated = True

    def load(self, raw: RawDocument, limits: Limits) -> LoadedDocument:
        pdfium = import_optional("pypdfium2", "")
        document = _open(pdfium, raw)
        try:
            count = len(document)
            limits.check_pages(raw.name, count)
            pages, unread = _read_pages(pdfium, document, raw, limits)
            outline = _outline(pdfium, document)
            stated = document.get_metadata_dict()
        finally:
            document.close()
        text, starts = _render(pages, outline)
        if not text and count:
            can_do = unread and not scans.can_read_pictures()
            do = "install heliograph[ocr], which reads them" if can_do else "nothing in it can be read as text"
            raise IngestError(f"{raw.name!r} has {count:,} pages without text, as scans have; {do}")
        known = {key: " ".join(clean_text(value).split()) for key, value in stated.items() if value}
        title = known.get("Title", "")
        metadata = {
            "author": known.get("Author", ""),
            "subject": known.get("Subject", ""),
            "keywords": known.get("Keywords", ""),
            "created_at": _date(known.get("CreationDate", "")),
            "modified_at": _date(known.get("ModDate", "")),
            "page_count": count,
        }
        if unread:
            # Other pages have text, so the document is not refused.
            metadata["unread_pages"] = unread
        return LoadedDocument(raw.name, "" if _NO_TITLE.fullmatch(title) else title, text, metadata, starts)


class PictureLoader(Loader):
    """Pictures of pages. From folders only TIFF files are taken, which are scans; other pictures may be decoration."""

    suffixes = frozenset({".tif", ".tiff"} if scans.can_read_pictures() else ())
    given_suffixes = frozenset({".png", ".jpg", ".jpeg", ".webp"} if scans.can_read_pictures() else ())
    mime_types = frozenset({"image/tiff", "image/png", "image/jpeg", "image/webp"})
    runs_isolated = True

    def load(self, raw: RawDocument, limits: Limits) -> LoadedDocument:
        image = import_optional("PIL.Image", scans.EXTRA)
        try:
            pages = _read_pictures(image, raw, limits)
        except image.DecompressionBombError as error:
            message = f"{raw.name!r} has more than {_MOST_PICTURE_PIXELS:,} pixels; save it smaller"
            raise IngestError(message) from error
        except (OSError, ValueError, SyntaxError, EOFError) as error:
            raise IngestError(f"{raw.name!r} is no picture that can be read; get it again, or save it anew") from error
        text, starts = _render(pages)
        if not text:
            raise IngestError(f"no text was found in the picture {raw.name!r}; give pictures of pages")
        if len(pages) == 1:
            return LoadedDocument(raw.name, "", text)
        return LoadedDocument(raw.name, "", text, {"page_count": len(pages)}, starts)


def _read_pictures(image: Any, raw: RawDocument, limits: Limits) -> list[PageSpans]:
    turn = import_optional("PIL.ImageOps", scans.EXTRA).exif_transpose
    pages: list[PageSpans] = []
    with image.open(io.BytesIO(raw.data)) as picture:
        # The pages of a TIFF file; in other formats, further pictures are animation frames or smaller copies.
        count = picture.n_frames if picture.format == "TIFF" else 1
        limits.check_pages(raw.name, count)
        for number in range(count):
            picture.seek(number)
            if picture.width * picture.height > _MOST_PICTURE_PIXELS:
                raise image.DecompressionBombError
            page = turn(picture)
            if page.has_transparency_data:
                page = image.alpha_composite(image.new("RGBA", page.size, "white"), page.convert("RGBA"))
            page = page.convert("RGB")
            scale = scans.picture_scale(*page.size)
            if scale < 1:
                page = page.resize((round(page.width * scale), round(page.height * scale)))
            points = min(page.size) / _PAGE_POINTS
            pages.append(PageSpans(scans.read_picture(page, points), page.height / points, is_picture=True))
    return pages


def _open(pdfium: Any, raw: RawDocument) -> Any:
    try:
        return pdfium.PdfDocument(raw.data)
    except pdfium.PdfiumError as error:
        if getattr(error, "err_code", None) == _PASSWORD_ERROR:
            raise IngestError(f"{raw.name!r} is encrypted; remove its password and try again") from error
        raise IngestError(
            f"{raw.name!r} is no PDF that can be read ({error}); get it again, or save it anew"
        ) from error


# Per page; a scan at 600 dots per inch has 35 million.
_MOST_PICTURE_PIXELS = 150_000_000
# The shorter side of a picture, like that of paper; only relative sizes matter.
_PAGE_POINTS = 595.0

# A page is rendered at most this large, whatever its proportions.
_MOST_PIXELS = 6_000_000


def draw_page(raw: RawDocument, number: int, width: int) -> bytes:
    """Render a page, from 1, as PNG of this width in pixels; raises `IngestError` if there is none."""
    pdfium = import_optional("pypdfium2", "")
    document = _open(pdfium, raw)
    try:
        if not 1 <= number <= len(document):
            raise IngestError(f"{raw.name!r} has {len(document):,} pages, and no page {number}")
        page = document[number - 1]
        across, down = page.get_size()
        scale = min(width / max(across, 1.0), (_MOST_PIXELS / max(across * down, 1.0)) ** 0.5)
        pixels = page.render(scale=scale, rev_byteorder=True).to_numpy()
    except pdfium.PdfiumError as error:
        raise IngestError(f"page {number} of {raw.name!r} cannot be drawn ({error}); save the file anew") from error
    finally:
        document.close()
    height, width, channels = pixels.shape
    kind = {1: 0, 3: 2, 4: 6}[channels]
    rows = b"".join(b"\0" + pixels[row].tobytes() for row in range(height))
    head = struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0)
    parts = ((b"IHDR", head), (b"IDAT", zlib.compress(rows, 6)), (b"IEND", b""))
    chunks = (
        struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body)) for name, body in parts
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def _read_pages(pdfium: Any, document: Any, raw: RawDocument, limits: Limits) -> tuple[list[PageSpans], int]:
    """Return the spans of the pages, and how many pages are pictures that no installed package reads."""
    pages: list[PageSpans] = []
    unread = 0
    left = limits.max_characters
    for index in range(len(document)):
        try:
            page = document[index]
        except pdfium.PdfiumError as error:
            raise IngestError(f"page {index + 1} of {raw.name!r} is broken ({error}); save the file anew") from error
        try:
            # One more than allowed, to tell a text that is too long from one that just fits.
            spans = tuple(read_spans(page, left + 1))
            height = page.get_height()
            is_picture = _is_picture(pdfium, page, spans)
            if is_picture:
                found: tuple[Span, ...] = ()
                if scans.can_read_pictures():
                    scale = scans.picture_scale(*page.get_size())
                    found = scans.read_picture(page.render(scale=scale).to_pil().convert("RGB"), scale)
                unread += not found
                is_picture, spans = bool(found), found or spans
        except pdfium.PdfiumError as error:
            raise IngestError(f"page {index + 1} of {raw.name!r} is broken ({error}); save the file anew") from error
        finally:
            page.close()
        left -= sum(len(span.text) for span in spans)
        if left < 0:
            where = f"page {index + 1} of {len(document)}"
            raise too_long(raw.name, limits.max_characters, limits.max_characters - left, where)
        pages.append(PageSpans(spans, height, is_picture))
    return pages, unread


def _outline(pdfium: Any, document: Any) -> Outline:
    """Return the titles of a file's bookmarks by page, each with its level from 1; a broken list gives those before."""
    titles: dict[int, dict[str, int]] = {}
    left = _MOST_TITLES
    try:
        for mark in islice(document.get_toc(max_depth=_OUTLINE_DEPTH), _MOST_MARKS):
            place = mark.get_dest()
            page = place.get_index() if place else None
            title = mark.get_title() if page is not None else ""
            left -= len(title)
            if left < 0:
                break
            if page is not None and (letters := _letters(title)):
                titles.setdefault(page, {}).setdefault(letters, mark.level + 1)
    except (pdfium.PdfiumError, UnicodeError, ValueError):
        pass
    return titles


def _is_picture(pdfium: Any, page: Any, spans: Sequence[Span]) -> bool:
    """Return whether a page has almost no text, but something visible in its place."""
    if sum(len(span.text) for span in spans) >= _FEW_LETTERS:
        return False
    if not spans:
        # A picture, or letters that were drawn as lines.
        return next(page.get_objects(max_depth=2), None) is not None
    image, form = pdfium.raw.FPDF_PAGEOBJ_IMAGE, pdfium.raw.FPDF_PAGEOBJ_FORM
    left, bottom, right, top = page.get_cropbox()
    covered = 0.0
    for item in page.get_objects(filter=(image, form), max_depth=1):
        if item.type == form and next(page.get_objects(filter=(image,), max_depth=4, form=item, level=1), None) is None:
            continue
        bounds = item.get_bounds()
        across, down = min(bounds[2], right) - max(bounds[0], left), min(bounds[3], top) - max(bounds[1], bottom)
        covered += max(across, 0.0) * max(down, 0.0)
    return covered >= _COVERED * (right - left) * (top - bottom)


def _render(pages: Sequence[PageSpans], outline: Outline = MappingProxyType({})) -> tuple[str, tuple[int, ...]]:
    """Return the text of all pages, and where each starts."""
    bodies = remove_margins(pages)
    columns = [
        [*read_columns(body.spans)] if page.is_picture else read_flow(body.spans)
        for page, body in zip(pages, bodies, strict=True)
    ]
    style = measure_style(columns)
    blocks = [
        [
            *(Block(clean_text(text), is_aside=True) for text in body.above),
            *render_page(page, style, outline.get(number, {})),
            *(Block(clean_text(text), is_aside=True) for text in body.below),
        ]
        for number, (page, body) in enumerate(zip(columns, bodies, strict=True))
    ]
    return join_blocks(blocks, style.words)


def _date(stated: str) -> str:
    """Return a date such as `D:20240131120000+01'00'` in ISO 8601, as precise as given; empty if it is none."""
    match = _DATE.match(stated)
    if not match:
        return ""
    day = "-".join(part for part in match.groups()[:3] if part)
    clock = [part for part in match.groups()[3:] if part]
    return f"{day}T{':'.join(clock)}" if len(clock) == 3 else day
