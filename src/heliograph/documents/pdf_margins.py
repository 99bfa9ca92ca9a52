"""Running heads, feet and page numbers: what stands at the edge of page after page at the same height."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from heliograph.documents.pdf_layout import Line, group_lines
from heliograph.documents.pdf_spans import Span

__all__ = ["PageSpans", "remove_margins"]

# Part of the page's height, from either edge, in which they are looked for, and lines looked at there.
_ZONE = 0.13
_LINES = 3
_LEAST_PAGES = 3
_HEIGHT_STEP = 4.0
_DIGITS = re.compile(r"\d+")
_ROMAN = re.compile(r"^[ivxlcdm]{1,8}$")
_PAGE_NUMBER = re.compile(
    r"(?:page|p\.|seite|página|第)?\s*[-\u2013\u2014|]?\s*\d{1,4}\s*[-\u2013\u2014|]?\s*(?:(?:of|/|von|de)\s*\d{1,4}|页|頁)?"
    r"(?:\s*[,，/]?\s*共\s*\d{1,4}\s*[页頁])?",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class PageSpans:
    """What stands on a page, and how high the page is."""

    spans: tuple[Span, ...]
    height: float


def remove_margins(pages: Sequence[PageSpans]) -> list[list[Span]]:
    """Return the spans of each page without running heads, feet and page numbers.

    A line goes if, at the same height at the edge of at least three pages, stand the same words, numbers aside, or a
    number first or last that counts the pages; in a shorter document, if that holds for all pages. A page number goes
    that stands alone in its line.
    """
    edges = [list(_edge_lines(page)) for page in pages]
    seen = Counter(
        key for number, lines in enumerate(edges) for key in {key for line in lines for key in _keys(line, number)}
    )
    kept: list[list[Span]] = []
    for number, (page, lines) in enumerate(zip(pages, edges, strict=True)):
        running = [line for line in lines if _is_running(line, number, seen, len(pages))]
        kept.append([span for span in page.spans if not any(_is_in(span, line) for line in running)])
    return kept


def _edge_lines(page: PageSpans) -> Iterator[Line]:
    """Yield the outermost lines near the upper and lower edge."""
    zone = _ZONE * page.height
    upper = group_lines([span for span in page.spans if span.middle < zone])
    lower = group_lines([span for span in page.spans if span.middle > page.height - zone])
    yield from upper[:_LINES]
    yield from lower[-_LINES:]


def _keys(line: Line, page: int) -> list[tuple[str, int]]:
    """Return what lines of other pages must share with a line for it to be a running one, each with its height."""
    height = round(line.cells[0].middle / _HEIGHT_STEP)
    words = line.text.casefold().split()
    numbers = (
        {int(word) - page for word in (words[0], words[-1]) if word.isdecimal() and len(word) <= 4} if words else ()
    )
    same_words = _DIGITS.sub("#", " ".join(words))
    return [(_ROMAN.sub("#", same_words), height), *((f"counts from {first}", height) for first in numbers)]


def _is_running(line: Line, page: int, seen: Counter[tuple[str, int]], pages: int) -> bool:
    # Rounding may part lines of one height.
    times = max(
        seen[words, height] + max(seen[words, height - 1], seen[words, height + 1])
        for words, height in _keys(line, page)
    )
    if pages >= _LEAST_PAGES:
        return times >= _LEAST_PAGES or _is_page_number(line)
    is_on_all = pages > 1 and times >= pages and any(character.isdecimal() for character in line.text)
    return is_on_all or _is_page_number(line)


def _is_page_number(line: Line) -> bool:
    text = line.text.strip()
    return len(line.cells) == 1 and bool(_PAGE_NUMBER.fullmatch(text))


def _is_in(span: Span, line: Line) -> bool:
    return line.top <= span.middle <= line.bottom
