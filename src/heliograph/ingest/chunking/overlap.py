"""What a chunk repeats of the one before: whole sentences of prose, or tokens where a sentence itself was cut.

Headings, tables and code are not repeated, nor is anything over the beginning of a section.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from heliograph.ingest.chunking.base import trim
from heliograph.ingest.chunking.blocks import Block, Strength
from heliograph.ingest.chunking.joining import Core
from heliograph.text.sentences import sentence_spans
from heliograph.text.tokens import count_tokens

__all__ = ["Overlap"]


class Overlap:
    """Finds where chunks of one text begin if they overlap."""

    def __init__(
        self, text: str, blocks: Sequence[Block], ends: NDArray[np.int64], max_tokens: int, overlap_tokens: int
    ) -> None:
        """Keep what is known of the text.

        Args:
            text: All of it.
            blocks: Its blocks.
            ends: One past the last character of each of its tokens.
            max_tokens: Tokens of a chunk with its overlap.
            overlap_tokens: Tokens of the overlap at the most.
        """
        self._text = text
        self._blocks = blocks
        self._starts = [block.start for block in blocks]
        self._ends = ends
        self._max = max_tokens
        self._overlap = overlap_tokens

    def start(self, before: Core, core: Core) -> int:
        """Return where the chunk of `core` begins if it repeats the end of the one before; else where `core` does."""
        place, end = np.searchsorted(self._ends, (core.start, core.end), side="right").tolist()
        budget = min(self._overlap, self._max - (end - place) - 1)
        if budget < 1 or core.strength >= Strength.HEADING:
            return core.start
        # A chunk that begins where the one before does would hold all of it.
        lowest = trim(self._text, before.start, before.end)[0] + 1
        earliest = max(lowest, int(self._ends[place - budget - 1]) if place > budget else 0)
        if core.strength == Strength.TOKEN:
            return self._first_fitting((earliest,), core.start)
        begin = self._prose_start(earliest, core.start, before.start)
        sentences = (begin + span[0] for span in sentence_spans(self._text[begin : core.start]))
        return self._first_fitting((start for start in sentences if start >= earliest), core.start)

    def _first_fitting(self, starts: Iterable[int], end: int) -> int:
        for start in starts:
            if count_tokens(self._text[start:end].strip()) <= self._overlap:
                return start
        return end

    def _prose_start(self, earliest: int, end: int, lowest: int) -> int:
        """Return where to look for sentences: the block that holds `earliest`, or behind the last that is no prose."""
        first = max(0, bisect_right(self._starts, earliest) - 1)
        last = bisect_right(self._starts, end - 1) - 1
        for index in range(last, first - 1, -1):
            if not self._blocks[index].is_prose:
                return self._starts[index + 1] if index < last else end
        return max(lowest, self._starts[first])
