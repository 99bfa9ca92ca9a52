"""Cuts a document's text into chunks: by structure, or by windows of tokens.

The input is clean text; the output is chunks in order, each exactly a span of the text without white space at its ends,
none longer than `max_tokens`. Strategies only find spans; separators, ids, headings and pages are handled in one place.
Long runs are cut at the strongest boundaries between their blocks, then at sentences, lines, tokens; a chunk repeats
whole sentences of the one before. Ids depend on the document and the chunk's own text.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import lru_cache
from hashlib import blake2b
from itertools import pairwise

import numpy as np

from heliograph.documents.markdown import Heading, find_headings
from heliograph.embedding.base import EmbeddingInfo
from heliograph.errors import IngestError, SettingsError
from heliograph.ids import chunk_ids
from heliograph.models import Chunk
from heliograph.settings import IngestSettings
from heliograph.text.patterns import late_pattern
from heliograph.text.sentences import row_cells, sentence_spans
from heliograph.text.tokens import count_tokens, token_ends


class HeadingPaths:
    """The headings and the table head above each position of a text."""

    def __init__(self, text: str) -> None:
        self._text = text
        # The position of the last lookup in `columns_at`, and the start of the block that holds it.
        self._block = 0, 0
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
        """Return the titles of the headings above a character, outermost first."""
        place = bisect_right(self._starts, index)
        return self._paths[place - 1] if place else ()

    def columns_at(self, index: int) -> tuple[str, ...]:
        """Return the column names of a table if one of its body rows begins at the character, else none."""
        # If a row is cut in the middle, it is unknown which columns follow.
        if not self._text.startswith("\n|", index - 1):
            return ()
        # A table has no blank line or heading inside. It may be long, so it is searched only once.
        known, begin = self._block if self._block[0] <= index else (0, 0)
        begin = max(begin, self._text.rfind("\n\n", known, index))
        self._block = index, begin
        if place := bisect_right(self._starts, index):
            begin = max(begin, self._starts[place - 1])
        head = _TABLE_HEAD.search(self._text, begin, min(index, begin + _LONGEST_HEAD))
        names = row_cells(head["names"]) if head else ()
        return tuple(names) if any(names) else ()

    def level_at(self, index: int) -> int:
        """Return the level of the innermost heading above a character; 0 before the first."""
        place = bisect_right(self._starts, index)
        return self.headings[place - 1].level if place else 0


_TABLE_HEAD = late_pattern(r"^(?P<names>\|.*)\n[ \t:|]*-[ \t:|-]*\n", re.MULTILINE)
# A longer table head is not recognised.
_LONGEST_HEAD = 2000


# Finding the boundaries at which a text may be cut, and their strength, in one pass over its lines.
#
# A `Block` begins at a heading, paragraph, list item, table row or line of code and reaches to the next one. Its
# `strength` is that of the boundary before it. Strengths nest: a unit has only weaker boundaries inside, so that cuts
# at the strongest boundaries keep lists, tables, code and sections together where they fit. Headings and fences are
# parsed as in `heliograph.documents.markdown`. Time is linear in the text.

_DEEPEST_HEADING = 6
_CODE_INDENT = 4

_FENCE = re.compile(r"[ \t>]*(`{3,}|~{3,})(.*)", re.DOTALL)
_ITEM = re.compile(r"[ \t]*(?:[-*+•·]|\d{1,9}[.)])[ \t]")
_ROW = re.compile(r"[ \t]{0,12}\|")
_DELIMITER_ROW = re.compile(r"[ \t]*\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?\s*$")


class Strength(IntEnum):
    """Strength of a boundary for a cut, the weakest first; headings are strongest, see `heading_strength`."""

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
    """Return the strength of the boundary before a heading of this level."""
    return Strength.HEADING + _DEEPEST_HEADING - level


@dataclass(frozen=True, slots=True)
class Block:
    """A block of text from `start`, the first character of its line, to the next block.

    Attributes:
        strength: Strength of the boundary before it.
        is_prose: Whether it consists of sentences: neither heading nor table nor code.
    """

    start: int
    strength: int
    is_prose: bool


class _Reader:
    """Reads lines one by one; its state is the open block (fence, code, table, list, paragraph)."""

    def __init__(self, text: str, headings: Iterable[Heading]) -> None:
        self.blocks: list[Block] = []
        self._text = text
        self._levels = {heading.start: heading.level for heading in headings}
        # Kind of the previous line: heading, fence, indented (code), table or prose; empty after a blank line.
        self._open = ""
        self._last = ""  # The same, ignoring blank lines.
        self._leads = False
        self._fence = ""
        self._fence_indent = 0
        self._list_indent = -1
        self._is_underline = False

    def read(self, start: int, end: int) -> None:
        line = self._text[start:end]
        body = line.lstrip(" \t")
        level = self._levels.get(start)
        # A fence inside a list item ends at the latest with the list.
        if self._fence and not (level and self._fence_indent >= _CODE_INDENT):
            self._in_fence(start, body.strip())
        elif not body.strip():
            self._open = ""
        elif self._is_underline:
            self._is_underline = False
        elif level:
            self._fence, self._list_indent = "", -1
            self._is_underline = not body.startswith("#")
            self._put(start, heading_strength(level), "heading")
        else:
            indent = len(line) - len(body)
            fence = _FENCE.match(line)
            is_deep = indent >= _CODE_INDENT or line[:indent].endswith("\t")
            if fence and not (fence[1][0] == "`" and "`" in fence[2]):
                self._fence, self._fence_indent = fence[1], indent
                self._put(start, self._nested(indent) or self._before(), "fence")
            elif self._is_row(line, end):
                if self._open != "table":
                    self._put(start, self._nested(indent) or self._before(), "table")
                elif not _DELIMITER_ROW.match(line):
                    self._put(start, Strength.ROW, "table")
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


# Does not begin with a repetition, which a search would retry from each character of a long run.
_ANNOUNCES = re.compile(r"[:：?？][*_]{0,3}\s*$|(\*\*|__)[^*_\n]{1,100}\1\s*$")


def _leads(line: str) -> bool:
    """Return whether a line introduces the next block: it ends in a colon, a question mark or bold text."""
    return _ANNOUNCES.search(line) is not None


# A chunk is too small below `max_tokens` divided by this.
_SMALL_PART = 5


@dataclass(frozen=True, slots=True)
class Core:
    """A chunk without its overlap, up to the start of the next; `strength` is that of the boundary before it."""

    start: int
    end: int
    strength: int


# Packing small parts into groups so that an edit changes only nearby groups.
#
# Greedy packing moves every later cut when one part grows. Here cuts depend on the content of nearby parts: a part
# begins a group if its key is the greatest within a group's length on both sides (local maximum chunking, Bjorner,
# Blass and Gurevich, "Content-dependent chunking for differential compression", 2010). A run between two such parts
# that is still too long is cut before the greatest key that leaves groups well filled. Content further away has no
# influence.

_KEY_CHARACTERS = 64
# A group is filled at least to this share, if a boundary allows it.
_LEAST_FILL = 0.75


def part_key(text: str, start: int) -> int:
    """Return the key of the part that begins at `start`; it depends on its first characters alone."""
    data = text[start : start + _KEY_CHARACTERS].strip().encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(data, digest_size=6).digest(), "little")


def pack(places: Sequence[int], keys: Sequence[int], limit: int) -> list[int]:
    """Return the index of the first part of each group.

    Args:
        places: Token offsets of the start of each part, and of the end of the last; never decreasing.
        keys: One per part.
        limit: Most tokens of a group; a longer part is a group of its own.

    Returns:
        Indexes in order, beginning with 0; none without parts.
    """
    if not keys:
        return []
    count = len(keys)
    before = _greater(keys, range(1, count), 0)
    after = _greater(keys, range(count - 1, 0, -1), count)
    # The parts with the greatest key of all parts that begin within `limit` tokens of them.
    anchors = (
        index
        for index in range(1, count)
        if places[index] - places[before[index]] > limit and places[after[index]] - places[index] > limit
    )
    firsts = [0, *anchors, count]
    return [cut for first, last in pairwise(firsts) for cut in (first, *_cuts(places, keys, first, last, limit))]


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
        # Least and most tokens of the next group.
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


def page_at(page_starts: Sequence[int], index: int) -> int | None:
    """Return the number, from 1, of the page that holds a character; None before the first page or without pages."""
    return bisect_right(page_starts, index) or None


# The contract of chunkers, and their common parts: separator, ids, headings and pages. Chunks cover all text except
# white space and the separators they were split on, and none has more than `max_tokens` tokens, unless a single
# character has more. An update keeps unchanged chunks.

# Texts up to this length are first counted as a whole: most of them are one chunk.
_SHORT_CHARACTERS_PER_TOKEN = 8


class Chunker(ABC):
    """Cuts texts into chunks. Implementations keep no state between calls and may run in any thread."""

    @abstractmethod
    def chunk(self, document_id: str, text: str, page_starts: Sequence[int] = ()) -> list[Chunk]:
        """Return the chunks of a text in order; blank text gives none. CPU time is proportional to the text.

        `page_starts` are offsets at which pages 1, 2, ... start; empty where it has none.

        Raises:
            IngestError: The text cannot be cut under the rules of this chunker.
        """


@dataclass(frozen=True, slots=True)
class Span:
    """The span of a future chunk: its first character, one past its last, and its number of o200k_base tokens."""

    start: int
    end: int
    token_count: int


def place_chunks(
    document_id: str,
    placed: Iterable[tuple[str, Span]],
    paths: HeadingPaths | None = None,
    page_starts: Sequence[int] = (),
) -> list[Chunk]:
    """Return the chunks of a document from the text and span of each, in order; all chunks are created here."""
    placed = list(placed)
    ids = chunk_ids(document_id, (text for text, _ in placed))
    return [
        Chunk(
            id=id_,
            document_id=document_id,
            position=position,
            text=text,
            token_count=span.token_count,
            start=span.start,
            end=span.end,
            headings=paths.at(span.start) if paths else (),
            page=page_at(page_starts, span.start),
            columns=paths.columns_at(span.start) if paths else (),
        )
        for position, (id_, (text, span)) in enumerate(zip(ids, placed, strict=True))
    ]


# Separates given chunk texts that are joined into a document's text.
JOINT = "\n\n"


def joined(texts: Iterable[str]) -> Iterator[tuple[str, Span]]:
    """Yield texts with their places in `JOINT.join(texts)`."""
    start = 0
    for text in texts:
        yield text, Span(start, start + len(text), count_tokens(text))
        start += len(text) + len(JOINT)


class SpanChunker(Chunker):
    """A chunker whose subclasses only find the `spans` of a text."""

    def __init__(
        self, max_tokens: int, overlap_tokens: int = 0, split_by: str = "", *, split_by_only: bool = False
    ) -> None:
        """Keep the rules.

        Args:
            max_tokens: o200k_base tokens of a chunk at the most.
            overlap_tokens: Tokens shared by neighbours; fewer than `max_tokens`.
            split_by: Split on this first; each piece is cut on its own, and the separator belongs to none.
            split_by_only: Never cut elsewhere.

        Raises:
            SettingsError: These do not go together.
        """
        if max_tokens < 1 or not 0 <= overlap_tokens < max_tokens:
            raise SettingsError(
                f"chunks of {max_tokens} tokens cannot overlap by {overlap_tokens}; "
                "set ingest.overlap_tokens below ingest.chunk_tokens"
            )
        if split_by_only and not split_by:
            raise SettingsError("ingest.split_by_only needs a separator; set ingest.split_by")
        self.max_tokens = max_tokens
        self.overlap_tokens = overlap_tokens
        self._split_by = split_by
        self._split_by_only = split_by_only

    def chunk(self, document_id: str, text: str, page_starts: Sequence[int] = ()) -> list[Chunk]:
        """See `Chunker`.

        Raises:
            IngestError: A piece is too long, and it may be split on the separator only.
        """
        placed: list[tuple[str, Span]] = []
        offset = 0
        for piece in text.split(self._split_by) if self._split_by else (text,):
            if self._split_by_only and (count := count_tokens(piece.strip())) > self.max_tokens:
                raise IngestError(
                    f"the document {document_id!r} has a piece of {count} tokens at character {offset}, more than "
                    f"{self.max_tokens}; raise ingest.chunk_tokens, or set ingest.split_by_only to false"
                )
            whole = whole_span(piece, self.max_tokens)
            for span in self.spans(piece) if whole is None else (whole,):
                if span.token_count:
                    there = Span(offset + span.start, offset + span.end, span.token_count)
                    placed.append((piece[span.start : span.end], there))
            offset += len(piece) + len(self._split_by)
        return place_chunks(document_id, placed, HeadingPaths(text), page_starts)

    @abstractmethod
    def spans(self, text: str) -> Iterator[Span]:
        """Yield the spans of a text, or of a piece between separators, in order.

        Called only for a text that is too long for one chunk; a shorter one is one span (`whole_span`).
        """


def whole_span(text: str, max_tokens: int) -> Span | None:
    """Return the span of all that is not white space, if it is short enough for one chunk; else None."""
    start, end = trim(text, 0, len(text))
    if end - start > max_tokens * _SHORT_CHARACTERS_PER_TOKEN:
        return None
    count = count_tokens(text[start:end])
    return Span(start, end, count) if count <= max_tokens else None


def trim(text: str, start: int, end: int) -> tuple[int, int]:
    """Return a span without the white space at its ends; an empty one if there is nothing else."""
    piece = text[start:end]
    start += len(piece) - len(piece.lstrip())
    return start, start + len(piece.strip())


class TokenChunker(SpanChunker):
    """Windows of `max_tokens` tokens that share `overlap_tokens` with the one before."""

    def spans(self, text: str) -> Iterator[Span]:
        """See `SpanChunker`; a tail inside the last overlap is left out."""
        return token_windows(text, self.max_tokens, self.overlap_tokens)


def token_windows(text: str, max_tokens: int, overlap_tokens: int = 0) -> Iterator[Span]:
    """Yield windows of at most `max_tokens` tokens, blank ones left out, that overlap by so many where they can.

    A single character of more tokens is a window all the same.
    """
    ends = token_ends(text)
    first = 0
    while first < len(ends):
        last = min(first + max_tokens, len(ends))
        while True:
            start, end = trim(text, int(ends[first - 1]) if first else 0, int(ends[last - 1]))
            token_count = count_tokens(text[start:end])
            # Tokenized alone, a text may have more tokens than within its context.
            excess = token_count - max_tokens
            if excess <= 0 or last == first + 1:
                break
            last = max(first + 1, last - excess)
        if start < end:
            yield Span(start, end, token_count)
        first = last if last == len(ends) else max(first + 1, last - overlap_tokens)


# Chunks that follow the structure of a text: cut at the strongest places, packed with what fits beside.
#
# The text is a run of blocks (`_Reader`). A run that is too long is cut at its strongest places; parts that are still
# too long are cut in turn (last at sentences, then lines, then tokens), the others are packed into groups
# (`pack`). A group that came out too small joins a neighbour. All cuts are made by what is said near them, so a change
# to one paragraph leaves the chunks elsewhere as they were. Groups are packed so that an overlap has room beside them,
# but a block of code or a table that fits into a chunk without it is not cut.

# Longer runs are rare and would fill the memory.
_LONGEST_REMEMBERED = 4_000


class SemanticChunker(SpanChunker):
    """Paragraphs, lists, tables and code packed up to the limit; a heading goes with what follows it."""

    _parts_at_headings = False

    def spans(self, text: str) -> Iterator[Span]:
        paths = HeadingPaths(text)
        reader, start = _Reader(text, paths.headings), 0
        while start < len(text):
            end = text.find("\n", start) + 1 or len(text)
            reader.read(start, end)
            start = end
        blocks = reader.blocks
        if not self._parts_at_headings:
            blocks = [replace(block, strength=min(block.strength, Strength.BLOCK)) for block in blocks]
        division = _Division(text, blocks, paths, self.max_tokens, self.overlap_tokens)
        before: Core | None = None
        for core in division.cores():
            if text[core.start : core.end].isspace():
                continue
            start = division.start_with_overlap(before, core) if before else core.start
            yield from _fit(text, start, core, self.max_tokens)
            before = core


class MarkdownChunker(SemanticChunker):
    """Sections first: no chunk reaches from one section into another, but over small ones under one parent."""

    _parts_at_headings = True


class _Division:
    """The division of one text into parts that fit, overlaps included.

    By its sections, a small part only joins what begins in the same parent, or the beginning of that parent. An overlap
    is left free but in chunks that begin with a section.
    """

    def __init__(
        self, text: str, blocks: Sequence[Block], paths: HeadingPaths, max_tokens: int, overlap_tokens: int
    ) -> None:
        self._text = text
        self._paths = paths
        self._max = max_tokens
        self._overlap = overlap_tokens
        self._limit = max_tokens - overlap_tokens
        # One past the last character of each token.
        self._ends = token_ends(text)
        self._starts = [*(block.start for block in blocks), len(text)]
        self._strengths = [block.strength for block in blocks]
        self._is_prose = [block.is_prose for block in blocks]
        self._places = self._count_before(self._starts)

    def cores(self) -> list[Core]:
        """Return the parts in order; they leave no gap.

        Each small one is joined with the neighbour from which it was parted at the weaker place; one that fits into
        neither stays as it is.
        """
        cores = list(self._blocks(0, len(self._strengths))) if self._strengths else []
        places = self._count_before([*(core.start for core in cores), len(self._text)])
        joined: list[tuple[int, int]] = []
        for index in range(len(cores)):
            if joined and self._joins(cores, places, joined[-1][0], index):
                joined[-1] = joined[-1][0], index + 1
            else:
                joined.append((index, index + 1))
        return [Core(cores[first].start, cores[last - 1].end, cores[first].strength) for first, last in joined]

    def start_with_overlap(self, before: Core, core: Core) -> int:
        """Return where the chunk of `core` begins if it repeats the end of the one before; else where `core` does.

        Whole sentences of prose are repeated, or tokens where a sentence itself was cut. Headings, tables and code are
        not, nor is anything over the beginning of a section.
        """
        place, end = self._count_before((core.start, core.end))
        budget = min(self._overlap, self._max - (end - place) - 1)
        if budget < 1 or core.strength >= Strength.HEADING:
            return core.start
        # A chunk that begins where the previous one does would contain all of it.
        lowest = trim(self._text, before.start, before.end)[0] + 1
        earliest = max(lowest, int(self._ends[place - budget - 1]) if place > budget else 0)
        starts: Iterable[int] = (earliest,)
        if core.strength != Strength.TOKEN:
            # Sentences are looked for in the block that holds `earliest`, or behind the last block that is no prose.
            first = max(0, bisect_right(self._starts, earliest) - 1)
            last = bisect_right(self._starts, core.start - 1) - 1
            begin = max(before.start, self._starts[first])
            for index in range(last, first - 1, -1):
                if not self._is_prose[index]:
                    begin = self._starts[index + 1] if index < last else core.start
                    break
            sentences = (begin + span[0] for span in sentence_spans(self._text[begin : core.start]))
            starts = (start for start in sentences if start >= earliest)
        fitting = (start for start in starts if count_tokens(self._text[start : core.start].strip()) <= self._overlap)
        return next(fitting, core.start)

    def _joins(self, cores: Sequence[Core], places: Sequence[int], first: int, index: int) -> bool:
        """Whether the core `index` joins the group that begins with `first` and ends before it."""
        if not self._may_join(cores, places, first, index):
            return False
        if self._is_small(places[index] - places[first]):
            return True
        if not self._is_small(places[index + 1] - places[index]):
            return False
        following = index + 1
        is_nearer = following < len(cores) and cores[following].strength < cores[index].strength
        return not (is_nearer and self._may_join(cores, places, index, following))

    def _may_join(self, cores: Sequence[Core], places: Sequence[int], first: int, index: int) -> bool:
        strength = cores[index].strength
        if strength >= Strength.HEADING and heading_strength(self._paths.level_at(cores[first].start)) < strength:
            return False
        begins_section = first == 0 or cores[first].strength >= Strength.HEADING
        return places[index + 1] - places[first] < (self._max if begins_section else self._limit)

    def _is_small(self, token_count: int) -> bool:
        """Whether a chunk of so many tokens should join a neighbour."""
        return token_count < self._max // _SMALL_PART

    def _count_before(self, indexes: Sequence[int]) -> list[int]:
        """Return how many tokens end at or before each character index."""
        return np.searchsorted(self._ends, np.array(indexes, np.int64), side="right").tolist()

    def _blocks(self, first: int, last: int) -> Iterator[Core]:
        """Yield the parts of the blocks from `first` up to `last`."""
        strength = max(self._strengths[first + 1 : last], default=0)
        if self._places[last] - self._places[first] < self._max:
            found: Iterable[Core] = (Core(self._starts[first], self._starts[last], 0),)
        elif strength:
            inner = [index for index in range(first + 1, last) if self._strengths[index] == strength]
            if strength >= Strength.HEADING and not self._is_prose[first]:
                lead, end = self._places[inner[0]], self._places[inner[1] if len(inner) > 1 else last]
                if self._is_small(lead - self._places[first]) and end - lead >= self._max:
                    # A heading with too little to stand alone before a section that is too long for a chunk.
                    self._strengths[inner.pop(0)] = Strength.NONE
            parts = [first, *inner, last]
            cuts = [self._starts[part] for part in parts]
            limit = self._max if strength >= Strength.HEADING else self._limit
            found = self._group(cuts, strength, limit, lambda index: self._blocks(parts[index], parts[index + 1]))
        else:
            found = self._sentences(first, last)
        return _led_by(self._strengths[first], found)

    def _sentences(self, first: int, last: int) -> Iterator[Core]:
        """Yield the parts of blocks between which there is no place for a cut."""
        start, end = self._starts[first], self._starts[last]
        run = self._text[start:end]
        # Cached, since an updated document mostly repeats its runs of blocks.
        spans = sentence_spans(run) if len(run) > _LONGEST_REMEMBERED else _remembered_spans(run)
        found = [start + span[0] for span in spans]
        # A heading goes with the sentence after it.
        kept_whole = {trim(self._text, *self._starts[index : index + 2])[0] for index in range(first, last)}
        cuts = [start, *(cut for cut in found if cut not in kept_whole), end]
        return self._group(cuts, Strength.SENTENCE, self._limit, lambda index: self._lines(*cuts[index : index + 2]))

    def _lines(self, start: int, end: int) -> Iterator[Core]:
        """Yield the parts of a sentence that leaves no room for an overlap."""
        if self._fits(start, end):
            return iter((Core(start, end, 0),))
        lengths = [len(line) for line in self._text[start:end].splitlines(keepends=True)]
        cuts: list[int] = [start, *(start + np.cumsum(lengths)).tolist()]
        return self._group(cuts, Strength.LINE, self._limit, lambda index: self._tokens(*cuts[index : index + 2]))

    def _tokens(self, start: int, end: int) -> Iterator[Core]:
        """Yield the parts of a line that leaves no room for an overlap."""
        if self._fits(start, end):
            yield Core(start, end, 0)
            return
        first, last = self._count_before([start, end])
        step = max(1, self._limit - 1)
        inner = dict.fromkeys(self._ends[first + step - 1 : last - 1 : step].tolist())
        for cut, following in pairwise((start, *(cut for cut in inner if start < cut < end), end)):
            yield Core(cut, following, Strength.TOKEN)

    def _fits(self, start: int, end: int) -> bool:
        first, last = self._count_before([start, end])
        return last - first < self._max

    def _group(
        self, cuts: Sequence[int], strength: int, limit: int, divide: Callable[[int], Iterator[Core]]
    ) -> Iterator[Core]:
        """Yield the parts between cuts: those too long divided, runs of the others packed."""
        places = self._count_before(cuts)
        begin = 0
        for index in range(len(cuts) - 1):
            if places[index + 1] - places[index] >= limit:
                yield from self._pack(cuts[begin : index + 1], places[begin : index + 1], strength, limit)
                yield from _led_by(strength, divide(index))
                begin = index + 1
        yield from self._pack(cuts[begin:], places[begin:], strength, limit)

    def _pack(self, cuts: Sequence[int], places: Sequence[int], strength: int, limit: int) -> Iterator[Core]:
        keys = [part_key(self._text, cut) for cut in cuts[:-1]]
        firsts = [cuts[index] for index in pack(places, keys, limit - 1)]
        for start, end in pairwise((*firsts, cuts[-1])):
            yield Core(start, end, strength)


def _led_by(strength: int, cores: Iterable[Core]) -> Iterator[Core]:
    """Yield the cores, the first one with the strength of the place before all of them."""
    for index, core in enumerate(cores):
        yield core if index else replace(core, strength=strength)


def _fit(text: str, start: int, core: Core, max_tokens: int) -> Iterator[Span]:
    """Yield the chunk from `start` to the end of `core`; if it is too long after all, without overlap, or in parts."""
    for first in dict.fromkeys((start, core.start)):
        span = trim(text, first, core.end)
        # Cached, since an updated document mostly repeats its chunks.
        piece = text[span[0] : span[1]]
        count = count_tokens(piece) if len(piece) > _LONGEST_REMEMBERED else _remembered_count(piece)
        if count <= max_tokens:
            yield Span(*span, count)
            return
    # Tokenized alone, a text may have more tokens than within its context.
    for window in token_windows(text[core.start : core.end], max_tokens):
        yield Span(core.start + window.start, core.start + window.end, window.token_count)


_remembered_count = lru_cache(maxsize=4_096)(count_tokens)
_remembered_spans = lru_cache(maxsize=4_096)(sentence_spans)


_STRATEGIES: Mapping[str, type[SpanChunker]] = {
    # Best for retrieval, on Markdown too (`python -m benchmarks chunking`).
    "auto": SemanticChunker,
    "tokens": TokenChunker,
    "semantic": SemanticChunker,
    "markdown": MarkdownChunker,
}
_CHAT_CHUNK_TOKENS = 1200
# Tokens of o200k_base per token of the embedding's window. Measured with multilingual-e5-small on its 512: 99 of 100
# chunks of dense English Markdown fit together with their title, prose and Chinese always do.
_TOKENS_PER_EMBEDDING_TOKEN = 0.68
# The overlap of small chunks is at most this part of them: every shared token is embedded twice.
_LARGEST_OVERLAP_PART = 8


def make_chunker(settings: IngestSettings, embedding: EmbeddingInfo, *, extracts_by_chat: bool) -> SpanChunker:
    """Return the chunker that the settings ask for.

    Without a size of their own, chunks have 1200 tokens where a chat model reads them, else what fits the embedding's
    window; and there the overlap is at most an eighth of a chunk.

    Raises:
        SettingsError: Size, overlap and separator do not go together.
    """
    max_tokens, overlap = settings.chunk_tokens, settings.overlap_tokens
    if not max_tokens:
        fitting = max(1, int(embedding.max_input_tokens * _TOKENS_PER_EMBEDDING_TOKEN))
        max_tokens = _CHAT_CHUNK_TOKENS if extracts_by_chat else min(_CHAT_CHUNK_TOKENS, fitting)
        if max_tokens < _CHAT_CHUNK_TOKENS:
            overlap = min(overlap, max_tokens // _LARGEST_OVERLAP_PART)
    strategy = _STRATEGIES[settings.chunking]
    return strategy(max_tokens, overlap, settings.split_by, split_by_only=settings.split_by_only)
