"""What a chunk is about, given the names that a reader found in it.

It is about what the document's title or its nearest heading names, with or without what stands in brackets there, and
about what its paragraphs open with.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from heliograph.ingest.extraction.local_subjects import subjects_of
from heliograph.models import Chunk
from heliograph.text.names import entity_key
from heliograph.text.paragraphs import paragraph_starts

__all__ = ["subject_keys"]

# List marks, emphasis, quotes and numbering that may stand before a text's first word.
_MARKUP = re.compile(r"(?:[\s#>*\-_`\"'“”‘’«»「」《》(]|\d{1,3}[.)、])*")
_HEADING = re.compile(r"(?:[ \t]*(?:#{1,6}[^\n]*)?\n)+")
_OPENING_LENGTH = 400


def subject_keys(title: str, chunk: Chunk, names: Iterable[str]) -> set[str]:
    """Return the keys of what a chunk is about.

    Args:
        title: Title of its document; may be empty.
        chunk: The chunk.
        names: Names that were found in it; one that a paragraph opens with is a subject.
    """
    given = (title, *chunk.headings[-1:])
    titles = {entity_key(text) for text in given}
    titles |= {entity_key(name) for text in given for name, _ in subjects_of(text)}
    places = [place for start in paragraph_starts(chunk.text) for place in (start, _heading_end(chunk.text, start))]
    starts = {_first_words(chunk.text, place) for place in places}
    opening = {entity_key(name) for name in names if any(_opens(text, name.casefold()) for text in starts)}
    return (titles | opening) - {""}


def _first_words(text: str, start: int) -> str:
    match = _MARKUP.match(text, start)
    start = match.end() if match else start
    return text[start : start + _OPENING_LENGTH].casefold()


def _heading_end(text: str, start: int) -> int:
    match = _HEADING.match(text, start)
    return match.end() if match else start


def _opens(text: str, name: str) -> bool:
    """Whether a text starts with a name, and not merely with a longer word of the same beginning."""
    following = text[len(name) : len(name) + 1]
    is_within_word = name[-1:].isascii() and name[-1:].isalnum() and following.isascii() and following.isalnum()
    return text.startswith(name) and not is_within_word
