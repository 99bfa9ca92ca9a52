"""Chunks that follow the structure of a text: cut at the strongest places, packed with what fits beside.

The text is a run of blocks (`blocks`). A run that is too long is cut at its strongest places; parts that are still too
long are cut in turn (last at sentences, then lines, then tokens), the others are packed into groups (`packing`). A
group that came out too small joins a neighbour (`joining`). All cuts are made by what is said near them, so a change to
one paragraph leaves the chunks elsewhere as they were. Groups are packed so that an overlap (`overlap`) has room beside
them, but a block of code or a table that fits into a chunk without it is not cut.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from heliograph.ingest.chunking.base import Span, SpanChunker, trim
from heliograph.ingest.chunking.blocks import Block, Strength, find_blocks
from heliograph.ingest.chunking.headings import HeadingPaths
from heliograph.ingest.chunking.joining import Core, Joining
from heliograph.ingest.chunking.overlap import Overlap
from heliograph.ingest.chunking.packing import pack, part_key
from heliograph.ingest.chunking.tokens import token_windows
from heliograph.text.sentences import sentence_spans
from heliograph.text.tokens import count_tokens, token_ends

__all__ = ["MarkdownChunker", "SemanticChunker"]

# Longer runs are rare and would fill the memory.
_LONGEST_REMEMBERED = 4_000


class SemanticChunker(SpanChunker):
    """Paragraphs, lists, tables and code packed up to the limit; a heading goes with what follows it."""

    _parts_at_headings = False

    def spans(self, text: str) -> Iterator[Span]:
        """See `SpanChunker`."""
        paths = HeadingPaths(text)
        blocks = find_blocks(text, paths.headings)
        if not self._parts_at_headings:
            blocks = [replace(block, strength=min(block.strength, Strength.BLOCK)) for block in blocks]
        ends = token_ends(text)
        cores = _Division(text, blocks, ends, Joining(self.max_tokens, self.overlap_tokens, paths)).cores()
        overlap = Overlap(text, blocks, ends, self.max_tokens, self.overlap_tokens)
        before: Core | None = None
        for core in cores:
            if text[core.start : core.end].isspace():
                continue
            start = overlap.start(before, core) if before else core.start
            yield from _fit(text, start, core, self.max_tokens)
            before = core


class MarkdownChunker(SemanticChunker):
    """Sections first: no chunk reaches from one section into another, but over small ones under one parent."""

    _parts_at_headings = True


class _Division:
    """The division of one text into parts that fit."""

    def __init__(self, text: str, blocks: Sequence[Block], ends: NDArray[np.int64], joining: Joining) -> None:
        self._text = text
        self._ends = ends
        self._joining = joining
        self._max = joining.max_tokens
        self._limit = joining.max_tokens - joining.overlap_tokens
        self._starts = [*(block.start for block in blocks), len(text)]
        self._strengths = [block.strength for block in blocks]
        self._is_prose = [block.is_prose for block in blocks]
        self._places = self._count_before(self._starts)

    def cores(self) -> list[Core]:
        """Return the parts in order; they leave no gap."""
        cores = list(self._blocks(0, len(self._strengths))) if self._strengths else []
        return self._joining.join(cores, self._count_before([*(core.start for core in cores), len(self._text)]))

    def _count_before(self, indexes: Sequence[int]) -> list[int]:
        """Return how many tokens end at or before each place."""
        return np.searchsorted(self._ends, np.array(indexes, np.int64), side="right").tolist()

    def _blocks(self, first: int, last: int) -> Iterator[Core]:
        """Yield the parts of the blocks from `first` up to `last`."""
        strength = max(self._strengths[first + 1 : last], default=0)
        if self._places[last] - self._places[first] < self._max:
            found: Iterable[Core] = (Core(self._starts[first], self._starts[last], 0),)
        elif strength:
            found = self._blocks_at(first, last, strength)
        else:
            found = self._sentences(first, last)
        return _led_by(self._strengths[first], found)

    def _blocks_at(self, first: int, last: int, strength: int) -> Iterator[Core]:
        inner = [index for index in range(first + 1, last) if self._strengths[index] == strength]
        if strength >= Strength.HEADING and self._is_small_lead(first, inner, last):
            # What stands before the first section on this level is too little to stand alone.
            self._strengths[inner.pop(0)] = Strength.NONE
        parts = [first, *inner, last]
        cuts = [self._starts[part] for part in parts]
        limit = self._max if strength >= Strength.HEADING else self._limit
        return self._group(cuts, strength, limit, lambda index: self._blocks(parts[index], parts[index + 1]))

    def _is_small_lead(self, first: int, inner: Sequence[int], last: int) -> bool:
        """Whether a section too long for a chunk follows a heading with too little for one."""
        end = inner[1] if len(inner) > 1 else last
        is_small = self._joining.is_small(self._places[inner[0]] - self._places[first])
        return is_small and not self._is_prose[first] and self._places[end] - self._places[inner[0]] >= self._max

    def _sentences(self, first: int, last: int) -> Iterator[Core]:
        """Yield the parts of blocks between which there is no place for a cut."""
        start, end = self._starts[first], self._starts[last]
        found = [start + span[0] for span in _sentence_spans(self._text[start:end])]
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
        count = _count(text[span[0] : span[1]])
        if count <= max_tokens:
            yield Span(*span, count)
            return
    # Cut out of its surroundings, a text may encode into more tokens than it had there.
    for window in token_windows(text[core.start : core.end], max_tokens):
        yield Span(core.start + window.start, core.start + window.end, window.token_count)


def _count(text: str) -> int:
    """Return the tokens of a chunk; a document that changes here and there mostly repeats its chunks."""
    return count_tokens(text) if len(text) > _LONGEST_REMEMBERED else _remembered_count(text)


@lru_cache(maxsize=4_096)
def _remembered_count(text: str) -> int:
    return count_tokens(text)


def _sentence_spans(text: str) -> Sequence[tuple[int, int]]:
    """Return the sentences of a run of blocks; a document that changes here and there mostly repeats its runs."""
    return sentence_spans(text) if len(text) > _LONGEST_REMEMBERED else _remembered_spans(text)


@lru_cache(maxsize=4_096)
def _remembered_spans(text: str) -> tuple[tuple[int, int], ...]:
    return tuple(sentence_spans(text))
