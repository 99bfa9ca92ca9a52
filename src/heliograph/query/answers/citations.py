"""Citations: which characters of which document a sentence of an answer rests on.

A sentence that cites a document is matched with the sentence of that document, among those in the context, which holds
most of its words; a citation whose document shares no content word with the sentence supports nothing. Pages are those
that hold the quote's first character, which may be later than the page on which its chunk starts; so are headings.
"""

from __future__ import annotations

import asyncio
import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from heliograph.calls.together import run_together
from heliograph.ingest.blocks import HeadingPaths
from heliograph.models import Document
from heliograph.query.answers.citation_marks import cited_numbers
from heliograph.query.retrieved import Context, RetrievedChunk
from heliograph.stores.base import RecordsStore
from heliograph.text.analysis import terms
from heliograph.text.sentences import sentence_spans

_LEADING_MARKS = re.compile(r"(?:\s*\[\d{1,3}\])+[.。]?")
_MARKS = re.compile(r"\s?\[\d{1,3}\]")
# Titles, code, rules and lead-ins claim nothing that could be supported.
_NO_CLAIM = re.compile(r"#|```|~~~|\|?[\s:|*_=-]+$")
_LEAD_IN = (":", "：")
_FENCES = ("```", "~~~")
# Where a heading may stand: behind marks, or above a line of them. Whether one does, the whole document says.
_MAYBE_HEADING = re.compile(r"^[ ]{0,3}(?:#|[=-]+[ \t]*$)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Citation:
    """A passage of a document that a sentence of an answer rests on.

    Attributes:
        reference_id: Number of the document in the list of references.
        source: The document's source.
        document_id: The document.
        chunk_id: The chunk that was retrieved.
        start: First character of the quote in the document's text.
        end: One past the last.
        quote: Exactly `document_text[start:end]`.
        page: Number of the page, from 1, where the document has pages.
        headings: Titles of the sections around the quote, outermost first.
        answer_start: First character, in the answer's text, of the sentence that rests on it.
        answer_end: One past the last.
    """

    reference_id: str
    source: str
    document_id: str
    chunk_id: str
    start: int
    end: int
    quote: str
    page: int | None
    headings: tuple[str, ...]
    answer_start: int
    answer_end: int


@dataclass(frozen=True, slots=True)
class Grounding:
    """How well a text rests on its context.

    Attributes:
        citations: One per sentence and document that supports it, in the order of the text.
        unsupported: Sentences that claim something and that no document supports which they cite.
    """

    citations: tuple[Citation, ...] = ()
    unsupported: int = 0


@dataclass(frozen=True, slots=True)
class _Statement:
    start: int
    end: int
    words: frozenset[str]
    numbers: tuple[str, ...]
    is_claim: bool


@dataclass(frozen=True, slots=True)
class _Passage:
    item: RetrievedChunk
    start: int
    end: int
    words: frozenset[str]


@dataclass(slots=True)
class _Passages:
    """Sentences of the context by reference, read when first asked for."""

    context: Context
    read: dict[str, list[_Passage]] = field(default_factory=dict[str, list[_Passage]])

    def of(self, reference_id: str) -> Sequence[_Passage]:
        if reference_id not in self.read:
            items = [item for item in self.context.chunks if item.reference_id == reference_id]
            self.read[reference_id] = [
                _Passage(item, start, end, frozenset(terms(item.chunk.text[start:end])))
                for item in items
                for start, end in sentence_spans(item.chunk.text)
            ]
        return self.read[reference_id]


def ground_answer(text: str, context: Context, documents: Mapping[str, Document] | None = None) -> Grounding:
    """Return what the sentences of an answer rest on.

    Args:
        text: The answer as `CitationFilter` leaves it, without a list of references.
        context: What it was written from.
        documents: Documents by id, for the pages of quotes; of one that is missing a quote has its chunk's page.
    """
    passages = _Passages(context)
    found: list[Citation] = []
    unsupported = 0
    for statement in _statements(text):
        supports = [
            (number, passage)
            for number in dict.fromkeys(statement.numbers)
            if (passage := _support(statement.words, passages.of(number))) is not None
        ]
        found.extend(_citation(number, passage, statement, documents or {}) for number, passage in supports)
        unsupported += statement.is_claim and not supports
    return Grounding(tuple(found), unsupported)


def page_of(document: Document | None, start: int, page: int | None) -> int | None:
    """Return the page that holds a character of a document; `page` where the document or its pages are not known."""
    if document is None or not document.page_starts:
        return page
    return max(1, bisect_right(document.page_starts, start))


async def with_headings_of_quotes(
    citations: Sequence[Citation], context: Context, records: RecordsStore
) -> tuple[Citation, ...]:
    """Return citations with the headings that their quotes stand under; a chunk may hold several sections.

    A document's text is read only where a heading may stand between the start of a chunk and what is quoted of it. One
    without a text of its own, or that has changed since, leaves the headings of the chunk.

    Args:
        citations: With the headings of their chunks.
        context: What the quotes were found in.
        records: Where the documents are.

    Raises:
        StoreError: A document cannot be read.
    """
    chunks = {item.chunk.id: item.chunk for item in context.chunks}
    asked: dict[str, list[Citation]] = {}
    for citation in citations:
        chunk = chunks[citation.chunk_id]
        if citation.start < chunk.start or _MAYBE_HEADING.search(chunk.text, 0, citation.start - chunk.start):
            asked.setdefault(citation.document_id, []).append(citation)
    texts = await run_together(*(records.get_document_text(id_) for id_ in asked))

    def find() -> dict[Citation, Citation]:
        found: dict[Citation, Citation] = {}
        for quotes, text in zip(asked.values(), texts, strict=True):
            paths = HeadingPaths(text or "")
            for item in quotes:
                if text is not None and text[item.start : item.end] == item.quote:
                    found[item] = replace(item, headings=paths.at(item.start))
        return found

    exact = await asyncio.to_thread(find) if asked else {}
    return tuple(exact.get(citation, citation) for citation in citations)


def _statements(text: str) -> list[_Statement]:
    """Return the sentences of an answer; citations behind a sentence's full stop are the sentence's own."""
    found: list[_Statement] = []
    is_code = False
    for start, end in sentence_spans(text):
        lead = _LEADING_MARKS.match(text, start, end)
        if lead and found:
            before = found[-1]
            numbers = (*before.numbers, *cited_numbers(lead[0]))
            found[-1] = _Statement(before.start, lead.end(), before.words, numbers, before.is_claim)
            start = lead.end()
        sentence = text[start:end]
        if sentence.startswith(_FENCES):
            is_code = not is_code
        words = frozenset(terms(_MARKS.sub("", sentence)))
        if not sentence.strip() or not (words or cited_numbers(sentence)):
            continue
        is_claim = bool(words) and not (is_code or _NO_CLAIM.match(sentence) or sentence.rstrip().endswith(_LEAD_IN))
        start += len(sentence) - len(sentence.lstrip())
        found.append(_Statement(start, end, words, tuple(cited_numbers(sentence)), is_claim))
    return found


def _support(words: frozenset[str], passages: Sequence[_Passage]) -> _Passage | None:
    """Return the passage that shares most words with a sentence, the shortest of equals; None if none shares any."""
    best = max(passages, key=lambda passage: (len(words & passage.words), -len(passage.words)), default=None)
    return best if best is not None and words & best.words else None


def _citation(number: str, passage: _Passage, statement: _Statement, documents: Mapping[str, Document]) -> Citation:
    chunk = passage.item.chunk
    start = chunk.start + passage.start
    return Citation(
        number,
        passage.item.source,
        chunk.document_id,
        chunk.id,
        start,
        chunk.start + passage.end,
        chunk.text[passage.start : passage.end],
        page_of(documents.get(chunk.document_id), start, chunk.page),
        chunk.headings,
        statement.start,
        statement.end,
    )
