"""Sentences of a context that may be quoted, each with its place in its document.

Headings, rules, code, images and marks without a word say nothing when they stand alone, so they are left out; so are
the header of a table and what only leads in to a list, whose words count for the rows and items below. A sentence that
its chunk cuts off is completed from the document's text.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from heliograph.query.retrieved import RetrievedChunk
from heliograph.text.analysis import terms
from heliograph.text.sentences import sentence_spans

_FENCE_LINE = re.compile(r"^[ \t>]{0,12}(```|~~~)", re.MULTILINE)
_NO_STATEMENT = re.compile(r"#|!\[|[=*_-]{3,}$|\|[\s:|-]*$")
_LIST_MARK = re.compile(r"^(?:(?:[-*+•>]|\d{1,3}[.)])\s+)+")
_TABLE_RULE = re.compile(r"\|?[\s:|-]*-[\s:|-]*$")
_LEADS_IN = (":", "：")
_WORD = re.compile(r"\w")
# How far beyond a chunk the rest of a sentence is looked for.
_REACH = 1000


@dataclass(frozen=True, slots=True)
class Quotable:
    """One sentence.

    Attributes:
        item: The chunk that holds it.
        place: Place of that chunk in the context, from 0.
        start: First character in the chunk.
        end: One past the last.
        shown: The sentence on one line, without its list mark.
        words: Its terms, and those of what leads in to its list or table.
        nearby: Terms of the chunk's headings, its first sentence and the sentence before.
        is_cut: Whether the chunk may cut it off, as it touches an end of the chunk.
    """

    item: RetrievedChunk
    place: int
    start: int
    end: int
    shown: str
    words: frozenset[str]
    nearby: frozenset[str]
    is_cut: bool


def quotable_sentences(chunks: Sequence[RetrievedChunk], in_code: Collection[str] = ()) -> list[Quotable]:
    """Return the sentences of these chunks in order, each text once.

    Args:
        chunks: Chunks, best first.
        in_code: Ids of chunks that begin inside a block of code.
    """
    found: dict[str, Quotable] = {}
    for place, item in enumerate(chunks):
        for sentence in _of_chunk(item, place, item.chunk.id in in_code):
            found.setdefault(sentence.shown, sentence)
    return list(found.values())


def has_open_fence(text: str) -> bool:
    """Return whether a block of code begins or ends in a text, but not both."""
    return len(_FENCE_LINE.findall(text)) % 2 == 1


def begins_in_code(document_text: str, start: int) -> bool:
    """Return whether a character of a document stands inside a block of code."""
    return has_open_fence(document_text[:start])


def completed_span(document_text: str, start: int, end: int) -> tuple[int, int]:
    """Return the span of the whole sentence or sentences that a span is part of, within 1,000 characters around it."""
    first, last = max(0, start - _REACH), min(len(document_text), end + _REACH)
    spans = [(first + a, first + b) for a, b in sentence_spans(document_text[first:last])]
    touched = [(a, b) for a, b in spans if a < end and start < b]
    if not touched:
        return start, end
    begin, stop = touched[0][0], touched[-1][1]
    # What reaches to the edge of what was looked at is cut off there; then the chunk's own edge is as good.
    begin = start if begin == first > 0 else begin
    return begin, end if stop == last < len(document_text) else stop


def shown_text(text: str) -> str:
    """Return a sentence on one line, without its list mark."""
    return _LIST_MARK.sub("", " ".join(text.split()))


def _of_chunk(item: RetrievedChunk, place: int, is_code: bool) -> list[Quotable]:
    text = item.chunk.text
    found: list[Quotable] = []
    headings = frozenset(terms(" ".join(item.chunk.headings)))
    first: frozenset[str] = frozenset()
    before: frozenset[str] = frozenset()
    above: frozenset[str] = frozenset()
    for start, end in sentence_spans(text):
        written = text[start:end]
        if _FENCE_LINE.match(written):
            is_code = not is_code
            continue
        shown = shown_text(written)
        if found and _is_row(found[-1].shown) and _TABLE_RULE.match(shown):
            above = found.pop().words
        if is_code or _NO_STATEMENT.match(shown) or not _WORD.search(shown):
            continue
        words = frozenset(terms(shown))
        if shown.endswith(_LEADS_IN):
            first, before, above = first or words, words, words
            continue
        if not (_is_row(shown) or _LIST_MARK.match(written.lstrip())):
            above = frozenset()
        is_cut = (start == 0 and item.chunk.start > 0) or end == len(text)
        found.append(Quotable(item, place, start, end, shown, words | above, headings | first | before, is_cut))
        first, before = first or words, words
    return found


def _is_row(shown: str) -> bool:
    return shown.startswith("|")
