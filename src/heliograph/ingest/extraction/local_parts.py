"""The parts of a chunk, and what each opens with: packing puts paragraphs side by side that need not share a topic.

A part is a paragraph (`heliograph.text.paragraphs`). Its sentences in; out come the names in its title line or heading,
and what its first sentence defines. What of that it is about, `local_reading` says.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from heliograph.ingest.extraction.local_openers import Opening, read_opening, title_line
from heliograph.ingest.extraction.local_subjects import subjects_of
from heliograph.text.paragraphs import paragraph_starts
from heliograph.text.phrases import SentenceReading

__all__ = ["Part", "read_parts"]


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a chunk.

    Attributes:
        first: Index of its first sentence.
        last: One past that of its last.
        titles: Names and types in its title line, else in its nearest heading.
        opening: What its first sentence defines, if anything.
    """

    first: int
    last: int
    titles: tuple[tuple[str, str], ...]
    opening: Opening | None


def read_parts(text: str, sentences: Sequence[SentenceReading], *, may_define_term: bool) -> list[Part]:
    """Return the parts in order; every sentence is in one.

    Args:
        text: The chunk's text.
        sentences: Its sentences.
        may_define_term: Whether the first part may define a common term.
    """
    starts = paragraph_starts(text)
    parts: list[Part] = []
    for _, group in groupby(sentences, lambda sentence: bisect_right(starts, sentence.start)):
        parts.append(
            _read(text, list(group), parts[-1].last if parts else 0, may_define_term=may_define_term and not parts)
        )
    return parts


def _read(text: str, inside: list[SentenceReading], first: int, *, may_define_term: bool) -> Part:
    headings = [text[item.start : item.end] for item in inside if text[item.start] == "#"]
    lines = (title_line(text, inside[len(headings) :]), *reversed(headings))
    titles = next((names for names in map(subjects_of, lines) if names), ())
    return Part(first, first + len(inside), titles, read_opening(text, inside, opens_document=may_define_term))
