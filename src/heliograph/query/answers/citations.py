"""Citations: the exact passages of documents that support an answer's sentences, and the citation marks in its text."""

from __future__ import annotations

import asyncio
import re
from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from heliograph.calls.tasks import run_together
from heliograph.ingest.chunking import HeadingPaths
from heliograph.models import Document
from heliograph.query.answers.models import Citation
from heliograph.query.models import Context, RetrievedChunk
from heliograph.stores.base import RecordsStore
from heliograph.text.analysis import terms
from heliograph.text.patterns import late_pattern
from heliograph.text.sentences import sentence_spans

# Citation marks in a chat model's text: normalised, checked, and removed if invalid, while the text streams.
#
# Pieces go in, and text comes out at most a few characters later. `[2]`, `[1, 3]`, `[1-3]`, `[^1]`, `【1】` and
# `【1†source】` are normalised to the form `[1][3]`; a number of no source in the context is dropped and counted. A
# list of references at the end is removed, since ours replaces it, and so is the mark by which a model says that it
# found no answer. Code, links, footnote texts and JSON answers stay unchanged.

NO_ANSWER_MARK = "[no-answer]"

_SEPARATOR = r"\s?[,，、;；–-]\s?"
_NUMBERS = rf"\^?\d{{1,3}}(?:{_SEPARATOR}\^?\d{{1,3}}){{0,9}}"
_MARK = late_pattern(rf"[ \t]?[\[【][ ]?(?P<numbers>{_NUMBERS})[ ]?(?:†[^\]】\n]{{0,20}})?[\]】](?![(:])")
_NO_ANSWER = late_pattern(rf"\s?{re.escape(NO_ANSWER_MARK)}")
# A possible beginning of one of the two marks at the end of the pending text; the longest has some 70 characters.
_MAYBE_MARK = late_pattern(
    r"\s\Z|\s?[\[【][ ]?(?:\^|\^?\d{1,3}[\d\s^,，、;；–-]{0,64})?(?:†[^\]】\n]{0,20})?[\]】]?\Z"
    + "|"
    + "|".join(rf"\s?{re.escape(NO_ANSWER_MARK[:length])}\Z" for length in range(2, len(NO_ANSWER_MARK)))
)
_RANGE = late_pattern(r"(\d+)\s?[–-]\s?\^?(\d+)")
_LONGEST_RANGE = 10
_PART = 256
_NUMBER = late_pattern(r"\d+")
_CITED = late_pattern(r"\[(\d{1,3})\]")
# An open bracket that would form a new mark with the text behind a dropped mark if nothing separated them.
_OPEN = late_pattern(r"\[\d{0,3}\Z")
_LONGEST_OPEN = 4

_FENCE = late_pattern(r"[ \t]{0,3}(`{3}|~{3})")
_MAYBE_FENCE = late_pattern(r"[ \t]{0,3}(?:`{0,2}|~{0,2})\Z")
_REFERENCES_WORDS = ("references", "参考资料", "参考文献")
_HEADING = late_pattern(
    rf"(?:#{{1,6}}[ \t]{{0,3}}\*{{0,2}}|\*\*)(?:{'|'.join(_REFERENCES_WORDS)})"
    r"[:：]?\*{0,2}[:：]?[ \t]{0,64}(?:\n|\Z)",
    re.IGNORECASE,
)
_HEADING_START = late_pattern(
    r"(?:#{1,6}[ \t]{0,3}\*{0,2}|\*\*)(?P<word>[^\W\d_]{0,10})(?P<rest>[:：*]{0,4}[ \t]{0,64})\Z"
)
_ITEM = late_pattern(r"(?:[-*+•][ \t]{1,4})?[\[【]\^?\d{1,3}[\]】]|\d{1,3}[.)][ \t]")
_MAYBE_ITEM = late_pattern(r"(?:[-*+•][ \t]{0,4})?(?:[\[【]\^?\d{0,3}|\d{1,3}[.)]?)?\Z")
_DATA = late_pattern(r"\s*(?:\{|\[\s{0,64}[\[{\"'])")
_MAYBE_DATA = late_pattern(r"\s*(?:\[\s{0,64})?\Z")
# Leading white space that is kept because a fence or a mark may follow it.
_SPACE_KEPT = 8


def cited_numbers(text: str) -> list[str]:
    """Return the reference ids that a filtered text cites, in order, with repeats."""
    return _CITED.findall(text)


class CitationFilter:
    """Normalises citation marks in streamed text; counts those without a document and notes the no-answer mark."""

    def __init__(self, known: Collection[str]) -> None:
        self.dropped = 0
        self.says_no_answer = False
        self._known = frozenset(known)
        self._pending = ""
        self._shown = ""
        self._fence = ""
        self._is_inline_code = False
        self._is_line_start = True
        self._is_data: bool | None = None
        # The heading of the model's list of references and the white space after it, while inside the list.
        self._heading: list[str] | None = None
        self._has_dropped_items = False
        self._is_in_item = False
        self._has_text = False

    @property
    def is_data(self) -> bool:
        """Whether the text is JSON, which stays unchanged."""
        return bool(self._is_data)

    def feed(self, piece: str) -> str:
        """Add the next piece and return the text that is final by now; may be empty."""
        shown = ""
        # Feed in parts, since each step copies all pending text.
        for start in range(0, len(piece), _PART):
            self._pending += piece[start : start + _PART]
            shown += self._drain(is_last=False)
        return shown

    def finish(self) -> str:
        """Return the held-back text; nothing may be fed afterwards."""
        return self._drain(is_last=True)

    def _drain(self, *, is_last: bool) -> str:
        written: list[str] = []
        while self._pending:
            step = self._step(is_last)
            if step is None:
                break
            length, text = step
            consumed, self._pending = self._pending[:length], self._pending[length:]
            self._is_line_start = consumed.endswith("\n") if consumed else self._is_line_start
            self._has_text = self._has_text or bool(text.strip())
            self._shown = (self._shown + text)[-_LONGEST_OPEN:]
            written.append(text)
        if is_last and self._heading is not None and not self._has_dropped_items:
            written.extend(self._heading)
        return "".join(written)

    def _step(self, is_last: bool) -> tuple[int, str] | None:
        """Return how many pending characters are final and their replacement; None to wait for more text."""
        if self._is_data is None:
            blank = _leading_space(self._pending)
            if blank > _SPACE_KEPT:
                return blank - _SPACE_KEPT, self._pending[: blank - _SPACE_KEPT]
            if not is_last and _MAYBE_DATA.match(self._pending):
                return None
            self._is_data = bool(_DATA.match(self._pending))
        if self._is_data:
            return len(self._pending), self._pending
        if self._heading is not None:
            return self._reference_item(is_last)
        if self._is_line_start:
            step = self._line_start(is_last)
            if step != (0, ""):
                return step
        return self._plain(is_last)

    def _line_start(self, is_last: bool) -> tuple[int, str] | None:
        """Process a fence or a heading of references at the start of a line; `(0, "")` if there is neither."""
        text = self._pending
        fence = _FENCE.match(text)
        if fence:
            self._fence = "" if self._fence == fence[1] else self._fence or fence[1]
            return fence.end(), fence[0]
        if not is_last and _MAYBE_FENCE.match(text):
            return None
        if self._fence or not self._has_text:
            return 0, ""
        if not is_last and _may_be_heading(text):
            return None
        heading = _HEADING.match(text)
        if heading:
            self._heading, self._has_dropped_items = [heading[0]], False
            return heading.end(), ""
        return 0, ""

    def _reference_item(self, is_last: bool) -> tuple[int, str] | None:
        """Drop a line of the model's list of references, or end the list and resume normal text."""
        text, held = self._pending, self._heading or []
        if self._is_in_item:
            # Drop the rest of an item unconditionally.
            end = text.find("\n") + 1
            self._is_in_item = not end
            return end or len(text), ""
        if blank := _leading_space(text):
            held.append(text[:blank])
            return blank, ""
        if item := _ITEM.match(text):
            self._has_dropped_items = self._is_in_item = True
            return item.end(), ""
        if not is_last and _MAYBE_ITEM.match(text):
            return None
        self._heading = None
        return 0, "" if self._has_dropped_items else "".join(held)

    def _plain(self, is_last: bool) -> tuple[int, str] | None:
        text = self._pending
        if self._fence:
            end = text.find("\n") + 1 or len(text)
            return end, text[:end]
        if text[0] == "`":
            self._is_inline_code = not self._is_inline_code
            return 1, "`"
        if text[0] == "\n":
            self._is_inline_code = False
        if not self._is_inline_code and text[0] in " \t\n[【":
            if not is_last and _MAYBE_MARK.match(text):
                return None
            if no_answer := _NO_ANSWER.match(text):
                self.says_no_answer = True
                return no_answer.end(), self._nothing()
            if mark := _MARK.match(text):
                numbers = list(dict.fromkeys(str(number) for number in _expanded(mark["numbers"])))
                kept = [number for number in numbers if number in self._known]
                self.dropped += len(numbers) - len(kept)
                space = mark[0][0] if mark[0][0] in " \t" else ""
                return mark.end(), space + "".join(f"[{number}]" for number in kept) if kept else self._nothing()
        return 1, text[0]

    def _nothing(self) -> str:
        """Return the replacement of a dropped mark: a space if the texts around it would form a mark, else nothing."""
        return " " if _OPEN.search(self._shown) else ""


def _leading_space(text: str) -> int:
    return len(text) - len(text.lstrip())


def _expanded(numbers: str) -> list[int]:
    """Return the numbers of a mark, with short ranges expanded."""
    found: list[int] = []
    end = 0
    for match in _RANGE.finditer(numbers):
        found.extend(map(int, _NUMBER.findall(numbers[end : match.start()])))
        first, last = int(match[1]), int(match[2])
        found.extend(range(first, last + 1) if first <= last < first + _LONGEST_RANGE else (first, last))
        end = match.end()
    return [*found, *map(int, _NUMBER.findall(numbers[end:]))]


def _may_be_heading(text: str) -> bool:
    """Return whether an incomplete line may become a heading of references."""
    if not text.strip("#* \t") and "\n" not in text:
        return len(text) < 12
    start = _HEADING_START.match(text)
    if not start:
        return False
    word = start["word"].casefold()
    if start["rest"]:
        return word in _REFERENCES_WORDS
    return any(known.startswith(word) for known in _REFERENCES_WORDS)


_LEADING_MARKS = late_pattern(r"(?:\s*\[\d{1,3}\])+[.。]?")
_MARKS = late_pattern(r"\s?\[\d{1,3}\]")
# Titles, code, rules and lead-ins make no claim that could be supported.
_NO_CLAIM = late_pattern(r"#|```|~~~|\|?[\s:|*_=-]+$")
_LEAD_IN = (":", "：")
_FENCES = ("```", "~~~")
# A possible heading: behind `#`, or above a line of `=` or `-`. Only the whole document shows whether it is one.
_MAYBE_HEADING = late_pattern(r"^[ ]{0,3}(?:#|[=-]+[ \t]*$)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Grounding:
    """The support of a text by its context: a citation per sentence and supporting document, in order.

    `unsupported` counts the sentences that make a claim which no document they cite supports.
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


def ground_answer(text: str, context: Context, documents: Mapping[str, Document] | None = None) -> Grounding:
    """Return the citations that support the sentences of an answer.

    Args:
        text: The answer after `CitationFilter`, without a list of references.
        context: The context it was written from.
        documents: Documents by id, for the pages of quotes; without its document a quote gets its chunk's page.
    """
    found: list[Citation] = []
    unsupported = 0
    # Sentences of the context by reference, read on first use.
    passages: dict[str, list[_Passage]] = {}
    for statement in _statements(text):
        supports: list[_Passage] = []
        for number in dict.fromkeys(statement.numbers):
            if number not in passages:
                passages[number] = [
                    _Passage(item, start, end, frozenset(terms(item.chunk.text[start:end])))
                    for item in context.chunks
                    if item.reference_id == number
                    for start, end in sentence_spans(item.chunk.text)
                ]
            # The passage that shares most words with the sentence; of equal ones the shortest.
            best = max(
                passages[number],
                key=lambda passage: (len(statement.words & passage.words), -len(passage.words)),
                default=None,
            )
            if best is not None and statement.words & best.words:
                supports.append(best)
        for item, start, end in ((passage.item, passage.start, passage.end) for passage in supports):
            chunk, document = item.chunk, (documents or {}).get(item.chunk.document_id)
            place = statement.start, statement.end
            found.append(cite(item, chunk.start + start, chunk.text[start:end], document, place))
        unsupported += statement.is_claim and not supports
    return Grounding(tuple(found), unsupported)


def cite(item: RetrievedChunk, start: int, quote: str, document: Document | None, place: tuple[int, int]) -> Citation:
    """Return the citation of a quote at offset `start` of the document's text, with the headings of its chunk.

    Without a document the page is that of the chunk. `place` is the span of the supported sentence in the answer.
    """
    chunk = item.chunk
    page = page_of(document, start, chunk.page)
    end = start + len(quote)
    return Citation(
        *(item.reference_id, item.source, chunk.document_id, chunk.id, start, end, quote, page, chunk.headings), *place
    )


def page_of(document: Document | None, start: int, page: int | None) -> int | None:
    """Return the page that holds a character of a document; `page` if the document or its pages are unknown."""
    if document is None or not document.page_starts:
        return page
    return max(1, bisect_right(document.page_starts, start))


async def with_headings_of_quotes(
    citations: Sequence[Citation], context: Context, records: RecordsStore
) -> tuple[Citation, ...]:
    """Return citations with the headings right above their quotes, since a chunk may hold several sections.

    A document's text is read only if a heading may stand between the start of a chunk and the quote. If the document
    has no stored text or has changed since, the headings of the chunk stay.

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
    """Return the sentences of an answer; citations behind a full stop belong to the sentence before it."""
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
