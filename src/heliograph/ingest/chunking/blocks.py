"""Where a text may be cut, and how well: one pass over its lines.

A `Block` begins at a heading, paragraph, list item, table row or line of code and reaches to the next one. `strength`
says how good the place before it is for a cut. Strengths nest: between two places of one strength stand only weaker
ones, so that a cut at the strongest places keeps lists, tables, code and sections together where they fit. Headings
and fences are read as `heliograph.documents.markdown` reads them. Time is linear in the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum

from heliograph.documents.markdown import Heading

__all__ = ["Block", "Strength", "find_blocks", "heading_strength"]

_DEEPEST_HEADING = 6
_CODE_INDENT = 4

_FENCE = re.compile(r"[ \t>]*(`{3,}|~{3,})(.*)", re.DOTALL)
_ITEM = re.compile(r"[ \t]*(?:[-*+•·]|\d{1,9}[.)])[ \t]")
_ROW = re.compile(r"[ \t]{0,12}\|")
_DELIMITER_ROW = re.compile(r"[ \t]*\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?\s*$")


class Strength(IntEnum):
    """How good a place is for a cut, the weakest first; headings are above all, see `heading_strength`."""

    NONE = 0
    TOKEN = 1
    LINE = 2
    SENTENCE = 3
    ROW = 4
    NESTED = 5
    ITEM = 6
    LEAD = 7
    BLOCK = 8
    HEADING = 10


def heading_strength(level: int) -> int:
    """Return the strength of the place before a heading of this level."""
    return Strength.HEADING + _DEEPEST_HEADING - level


@dataclass(frozen=True, slots=True)
class Block:
    """What begins at `start`.

    Attributes:
        start: First character of its line.
        strength: How good the place before it is for a cut.
        is_prose: Whether it is made of sentences: neither heading nor table nor code.
    """

    start: int
    strength: int
    is_prose: bool


def find_blocks(text: str, headings: Iterable[Heading]) -> list[Block]:
    """Return the blocks of a text in order; white space before the first belongs to none.

    Args:
        text: Any text; line feeds end lines.
        headings: Its headings.
    """
    reader = _Reader(text, headings)
    start = 0
    while start < len(text):
        end = text.find("\n", start) + 1 or len(text)
        reader.read(start, end)
        start = end
    return reader.blocks


class _Reader:
    """Reads lines one by one; what is open (fence, code, table, list, paragraph) is its state."""

    def __init__(self, text: str, headings: Iterable[Heading]) -> None:
        self.blocks: list[Block] = []
        self._text = text
        self._levels = {heading.start: heading.level for heading in headings}
        # What the line before belongs to: heading, fence, indented (code), table or prose; empty after a blank line.
        self._open = ""
        self._last = ""  # The same, blank lines passed over.
        self._leads = False
        self._fence = ""
        self._fence_indent = 0
        self._list_indent = -1
        self._is_underline = False

    def read(self, start: int, end: int) -> None:
        line = self._text[start:end]
        body = line.lstrip(" \t")
        level = self._levels.get(start)
        # A fence inside a list item ends with the list at the latest.
        if self._fence and not (level and self._fence_indent >= _CODE_INDENT):
            self._in_fence(start, body.strip())
        elif not body.strip():
            self._open = ""
        elif self._is_underline:
            self._is_underline = False
        elif level:
            self._heading(start, level, body)
        else:
            self._content(start, end, line, len(line) - len(body))

    def _heading(self, start: int, level: int, body: str) -> None:
        self._fence, self._list_indent = "", -1
        self._is_underline = not body.startswith("#")
        self._put(start, heading_strength(level), "heading")

    def _content(self, start: int, end: int, line: str, indent: int) -> None:
        fence = _FENCE.match(line)
        if fence and not (fence[1][0] == "`" and "`" in fence[2]):
            self._fence, self._fence_indent = fence[1], indent
            self._put(start, self._nested(indent) or self._before(), "fence")
        elif self._is_row(line, end):
            self._row(start, line, indent)
        elif self._is_code(line, indent):
            self._put(start, Strength.ROW if self._last == "indented" else self._before(), "indented")
        elif _ITEM.match(line):
            self._item(start, line, indent)
        else:
            self._prose(start, line, indent)

    def _in_fence(self, start: int, body: str) -> None:
        mark = self._fence
        body = body.lstrip("> \t")
        if body.startswith(mark) and not body.strip(mark[0]):
            self._fence = ""
        elif body and self._text.rfind("\n", self.blocks[-1].start, start - 1) >= 0:
            # The first line of code stays with the fence, the last fence with the line before.
            self._put(start, Strength.ROW, "fence")
        self._open = "fence"

    def _is_row(self, line: str, end: int) -> bool:
        if _ROW.match(line):
            return True
        if "|" not in line:
            return False
        if self._open == "table":
            return True
        following = self._text[end : self._text.find("\n", end) + 1 or len(self._text)] if self._open == "" else ""
        return "|" in following and "-" in following and bool(_DELIMITER_ROW.match(following))

    def _row(self, start: int, line: str, indent: int) -> None:
        if self._open != "table":
            self._put(start, self._nested(indent) or self._before(), "table")
        elif not _DELIMITER_ROW.match(line):
            self._put(start, Strength.ROW, "table")

    def _is_code(self, line: str, indent: int) -> bool:
        is_deep = indent >= _CODE_INDENT or line[:indent].endswith("\t")
        return is_deep and self._list_indent < 0 and self._open in ("", "indented")

    def _item(self, start: int, line: str, indent: int) -> None:
        if self._list_indent < 0:
            strength = Strength.LEAD if self._open == "prose" else self._before()
            self._list_indent = indent
            self._put(start, Strength.NONE if self._last == "heading" else strength, "prose", line)
        else:
            is_top = indent <= self._list_indent + 1
            self._put(start, Strength.ITEM if is_top else Strength.NESTED, "prose", line)

    def _prose(self, start: int, line: str, indent: int) -> None:
        if self._open == "prose":
            self._leads = _leads(line)
        elif nested := self._nested(indent):
            self._put(start, nested, "prose", line)
        else:
            self._list_indent = -1
            self._put(start, Strength.NONE if self._last == "heading" else self._before(), "prose", line)

    def _nested(self, indent: int) -> Strength | None:
        return Strength.NESTED if self._list_indent >= 0 and indent > self._list_indent else None

    def _before(self) -> Strength:
        return Strength.LEAD if self._leads or self._last == "heading" else Strength.BLOCK

    def _put(self, start: int, strength: int, kind: str, line: str = "") -> None:
        self.blocks.append(Block(start, strength, kind == "prose"))
        self._open = self._last = kind
        self._leads = _leads(line)


def _leads(line: str) -> bool:
    """Whether a line announces what follows."""
    return line.rstrip().endswith((":", "："))
