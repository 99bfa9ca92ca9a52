"""Finds where a text may be cut, and packs the parts.

One pass over the lines gives blocks: a heading, paragraph, list item, table row or line of code, each with the strength
of the cut before it. Parts are packed by what the parts nearby say, so that a change of one part moves no distant cut
(local maximum chunking, Bjorner, Blass and Gurevich, 2010). A part that is too small joins a neighbour.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from hashlib import blake2b
from itertools import pairwise

from heliograph.documents.markdown import Heading, find_headings

# The headings in force at every place of a text.


class HeadingPaths:
    """Titles and level of the section around each character.

    Attributes:
        headings: All headings of the text, in order.
    """

    def __init__(self, text: str) -> None:
        self.headings = find_headings(text)
        self._starts = [heading.start for heading in self.headings]
        self._paths: list[tuple[str, ...]] = []
        open_headings: list[Heading] = []
        for heading in self.headings:
            while open_headings and open_headings[-1].level >= heading.level:
                open_headings.pop()
            open_headings.append(heading)
            self._paths.append(tuple(item.title for item in open_headings))

    def at(self, index: int) -> tuple[str, ...]:
        """Return the titles in force at a character, outermost first."""
        place = bisect_right(self._starts, index)
        return self._paths[place - 1] if place else ()

    def level_at(self, index: int) -> int:
        """Return the level of the innermost heading in force at a character; 0 before the first."""
        place = bisect_right(self._starts, index)
        return self.headings[place - 1].level if place else 0


# Where a text may be cut, and how well: one pass over its lines.
#
# A `Block` begins at a heading, paragraph, list item, table row or line of code and reaches to the next one.
# `strength` says how good the place before it is for a cut. Strengths nest: between two places of one strength stand
# only weaker ones, so that a cut at the strongest places keeps lists, tables, code and sections together where they
# fit. Headings and fences are read as `heliograph.documents.markdown` reads them. Time is linear in the text.

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
        is_deep = indent >= _CODE_INDENT or line[:indent].endswith("\t")
        if fence and not (fence[1][0] == "`" and "`" in fence[2]):
            self._fence, self._fence_indent = fence[1], indent
            self._put(start, self._nested(indent) or self._before(), "fence")
        elif self._is_row(line, end):
            self._row(start, line, indent)
        elif is_deep and self._list_indent < 0 and self._open in ("", "indented"):
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


# What becomes of parts that are too small for a chunk: they join a neighbour, and nothing is lost.

# A chunk of less than this part of the longest one is too small.
_SMALL_PART = 5


@dataclass(frozen=True, slots=True)
class Core:
    """A chunk without its overlap.

    Attributes:
        start: First character.
        end: Where the next one starts.
        strength: How good the place before it was for a cut.
    """

    start: int
    end: int
    strength: int


@dataclass(frozen=True, slots=True)
class Joining:
    """The rules by which neighbours are joined.

    Attributes:
        max_tokens: Tokens of a chunk at the most.
        overlap_tokens: Tokens to leave free for the overlap, but in chunks that begin with a section.
        paths: Sections; one may only join what begins in the same parent, or the beginning of that parent.
    """

    max_tokens: int
    overlap_tokens: int
    paths: HeadingPaths

    def is_small(self, token_count: int) -> bool:
        """Whether a chunk of so many tokens should join a neighbour."""
        return token_count < self.max_tokens // _SMALL_PART

    def join(self, cores: Sequence[Core], places: Sequence[int]) -> list[Core]:
        """Return the cores, each small one joined with the neighbour from which it was parted at the weaker place.

        A small one that fits into neither stays as it is.

        Args:
            cores: In order, without gaps.
            places: Tokens before each, and in all.
        """
        joined: list[tuple[int, int]] = []
        for index in range(len(cores)):
            if joined and self._joins(cores, places, joined[-1][0], index):
                joined[-1] = joined[-1][0], index + 1
            else:
                joined.append((index, index + 1))
        return [Core(cores[first].start, cores[last - 1].end, cores[first].strength) for first, last in joined]

    def _joins(self, cores: Sequence[Core], places: Sequence[int], first: int, index: int) -> bool:
        """Whether the core `index` joins the group that begins with `first` and ends before it."""
        if not self._may_join(cores, places, first, index):
            return False
        if self.is_small(places[index] - places[first]):
            return True
        if not self.is_small(places[index + 1] - places[index]):
            return False
        following = index + 1
        is_nearer = following < len(cores) and cores[following].strength < cores[index].strength
        return not (is_nearer and self._may_join(cores, places, index, following))

    def _may_join(self, cores: Sequence[Core], places: Sequence[int], first: int, index: int) -> bool:
        strength = cores[index].strength
        if strength >= Strength.HEADING and heading_strength(self.paths.level_at(cores[first].start)) < strength:
            return False
        begins_section = first == 0 or cores[first].strength >= Strength.HEADING
        limit = self.max_tokens if begins_section else self.max_tokens - self.overlap_tokens
        return places[index + 1] - places[first] < limit


# Packing small parts into groups so that a change stays where it is made.
#
# Greedy packing moves every later cut when one part grows. Here cuts depend on what the parts nearby say: a part
# begins a group if its key is the greatest within a group's length on both sides (local maximum chunking, Bjorner,
# Blass and Gurevich, "Content-dependent chunking for differential compression", 2010). What lies between two such
# parts and is still too long is cut before the greatest key that leaves groups well filled. Nothing said further away
# changes this.

_KEY_CHARACTERS = 64
# A group is filled at least to this part, where there is a place to cut.
_LEAST_FILL = 0.75


def part_key(text: str, start: int) -> int:
    """Return the key of the part that begins at `start`; it depends on its first characters alone."""
    data = text[start : start + _KEY_CHARACTERS].strip().encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(data, digest_size=6).digest(), "little")


def pack(places: Sequence[int], keys: Sequence[int], limit: int) -> list[int]:
    """Return the index of the first part of each group.

    Args:
        places: Where each part begins, in tokens, and where the last one ends; never going down.
        keys: One per part.
        limit: Tokens of a group at the most; a part that is longer is a group of its own.

    Returns:
        Indexes in order, beginning with 0; none without parts.
    """
    if not keys:
        return []
    firsts = [0, *_anchors(places, keys, limit), len(keys)]
    return [cut for first, last in pairwise(firsts) for cut in (first, *_cuts(places, keys, first, last, limit))]


def _anchors(places: Sequence[int], keys: Sequence[int], reach: int) -> Iterator[int]:
    """Yield the parts, but the first, whose key is the greatest of all that begin within `reach` tokens of them."""
    count = len(keys)
    before = _greater(keys, range(1, count), 0)
    after = _greater(keys, range(count - 1, 0, -1), count)
    for index in range(1, count):
        far_left = places[index] - places[before[index]] > reach
        if far_left and places[after[index]] - places[index] > reach:
            yield index


def _greater(keys: Sequence[int], order: range, limit: int) -> dict[int, int]:
    """Return, per index, the nearest one passed before it whose key is greater or the same; else `limit`."""
    found: dict[int, int] = {}
    stack: list[int] = []
    for index in order:
        while stack and keys[stack[-1]] < keys[index]:
            stack.pop()
        found[index] = stack[-1] if stack else limit
        stack.append(index)
    return found


def _cuts(places: Sequence[int], keys: Sequence[int], first: int, last: int, limit: int) -> Iterator[int]:
    """Yield the parts, after `first`, before which a run of parts up to `last` is cut."""
    while (rest := places[last] - places[first]) > limit and last - first > 1:
        start = places[first]
        # How few and how many tokens the next group may have.
        low, high = int(limit * _LEAST_FILL), limit
        if rest <= 2 * limit:
            # Two groups to go: neither may be too long, nor less than a third of both.
            low, high = max(rest - limit, rest // 3), min(limit, rest - rest // 3)
        begin = bisect_left(places, start + low, first + 1, last)
        end = bisect_right(places, start + high, begin, last)
        if begin < end:
            first = max(range(begin, end), key=keys.__getitem__)
        else:
            first = max(first + 1, bisect_right(places, start + limit, first + 1, last) - 1)
        yield first
