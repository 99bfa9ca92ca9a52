"""Answers without a chat model: the sentences of the retrieved chunks that say most about the question.

The sentences are chosen by `sentence_ranking` and quoted as they stand, each with the number of its document, under a
line that says that nobody wrote this answer. Each quote is a `Citation` too: its exact characters in the document, its
page and headings. Where no sentence says anything of the question, there is no answer.
"""

from __future__ import annotations

import asyncio
import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files

from heliograph.calls.tasks import run_together
from heliograph.embedding.base import EmbeddingModel, cosines
from heliograph.models import Document
from heliograph.query.answers.citations import Citation, cite, with_headings_of_quotes
from heliograph.query.answers.quotables import (
    Form,
    Quotable,
    begins_in_code,
    completed_span,
    has_fence,
    quotable_sentences,
    shown_text,
)
from heliograph.query.answers.sentence_ranking import Shortlist, choose, is_answered, shortlist
from heliograph.query.context.format import shown_sources
from heliograph.query.models import Context, Failure, FoundPart, Reference, Retrieval
from heliograph.query.understanding import QuestionKind, Understanding, understand_by_rules
from heliograph.stores.base import RecordsStore
from heliograph.text.analysis import question_language

_MAX_QUOTES = 6
_MOST_OF_PART = 4
_MAX_QUOTE_CHARACTERS = 600
# Of a sentence that is compared with the question; longer ones are lists and tables without an end mark.
_LONGEST_READ = 600


@cache
def _all_words() -> Mapping[str, Mapping[str, str]]:
    return tomllib.loads((files("heliograph.query.answers") / "answer_words.toml").read_text(encoding="utf-8"))


def _words(what: str, question: str) -> str:
    """Return what an answer says itself, in the question's language where it is known, else in English."""
    known = _all_words()[what]
    return known.get(question_language(question), known["en"])


@dataclass(frozen=True, slots=True)
class ExtractiveAnswer:
    """Quoted sentences and where each stands; both empty when nothing relevant is there."""

    text: str = ""
    citations: tuple[Citation, ...] = ()


def nothing_found(retrieval: Retrieval) -> str:
    """Return the statement that there is nothing to answer from, and why, in the question's language."""
    if retrieval.has_no_room:
        return _words(Failure.EMPTY_CONTEXT, retrieval.question)
    if retrieval.is_below_threshold:
        return _words(Failure.BELOW_THRESHOLD, retrieval.question)
    if retrieval.failure is None:
        return _words("not_said", retrieval.question)
    return _words(retrieval.failure, retrieval.question)


async def quote_answer(
    question: str,
    context: Context,
    records: RecordsStore,
    understanding: Understanding | None = None,
    embedding: EmbeddingModel | None = None,
    parts: Sequence[FoundPart] = (),
) -> ExtractiveAnswer:
    """Return the quoted sentences that are relevant, with citations and the list of documents cited.

    A question of several parts is answered part by part, each under its own line. Documents are read for titles and
    pages; the text of one only where a chunk's edge cuts a quoted sentence or a block of code. Empty if no sentence
    says anything of the question. Without an understanding rules tell what it asks for, and without an embedding words
    alone decide.

    Raises:
        ModelError: The embedding failed.
        StoreError: The store failed.
    """
    documents = await records.get_owners(item.chunk for item in context.chunks)
    unclear = [item.chunk for item in context.chunks if item.chunk.start > 0 and has_fence(item.chunk.text)]
    texts = await _texts(records, {chunk.document_id for chunk in unclear})
    understood = understanding or await asyncio.to_thread(understand_by_rules, question)
    in_code = {chunk.id for chunk in unclear if begins_in_code(texts.get(chunk.document_id, ""), chunk.start)}
    source = _Source(context, documents, in_code, embedding)
    found = parts or [FoundPart(part, {}) for part in understood.parts]
    if found:
        quoted = await run_together(*(source.quotes(part.question, _MOST_OF_PART, None, part) for part in found))
        sections = _each_once([(part.question, quotes) for part, quotes in zip(found, quoted, strict=True)])
    else:
        sections = [("", await source.quotes(question, _MAX_QUOTES, understood))]
    cut = {item.item.chunk.document_id for _, quotes in sections for item in quotes if item.is_cut}
    # Of a document that is longer than what the context holds of it in one chunk.
    held: dict[str, int] = {}
    for chunk in (item.chunk for item in context.chunks):
        held[chunk.document_id] = max(held.get(chunk.document_id, 0), chunk.end - chunk.start)
    longer = {id_ for id_, document in documents.items() if document.length > held[id_]}
    texts |= await _texts(records, (cut & longer) - texts.keys())
    written = _written(question, context, sections, documents, texts)
    return replace(written, citations=await with_headings_of_quotes(written.citations, context, records))


@dataclass(frozen=True, slots=True)
class _Source:
    """What may be quoted from."""

    context: Context
    documents: Mapping[str, Document]
    in_code: Collection[str]
    embedding: EmbeddingModel | None

    async def quotes(
        self, question: str, limit: int, understanding: Understanding | None, part: FoundPart | None = None
    ) -> Sequence[Quotable]:
        """Return what answers a question, best first; of a part's hits, where it is one and has some."""
        listed = await asyncio.to_thread(self._listed, question, understanding, part)
        if listed is None:
            return []
        near: Sequence[float] | None = None
        if self.embedding is not None:
            # Each sentence is read with what stands above it.
            told = [sentence.in_place[:_LONGEST_READ] for _, sentence in listed.items]
            asked, read = await run_together(
                self.embedding.embed([question], "query"), self.embedding.embed(told, "document")
            )
            near = (await self.embedding.scale()).usual(cosines(read.vectors, asked.vectors[0])).tolist()
        # What is asked of the documents as a whole is said by no sentence of them.
        is_broad = understanding is not None and understanding.kind is QuestionKind.GLOBAL
        if not is_broad and not is_answered(listed, near):
            return []
        return await asyncio.to_thread(choose, listed, limit, near)

    def _listed(self, question: str, understanding: Understanding | None, part: FoundPart | None) -> Shortlist | None:
        # A cosine with marks or pictures alone means nothing.
        if not any(map(str.isalnum, question)):
            return None
        chunks = self.context.chunks
        scores = part.scores if part else {}
        own = [replace(item, scores=scores[item.chunk.id]) for item in chunks if item.chunk.id in scores]
        own.sort(key=lambda item: -item.channel_total)
        sentences = quotable_sentences(own or chunks, self.in_code, question_language(question))
        titles = {document.id: document.title for document in self.documents.values()}
        return shortlist(question, sentences, titles, understanding) if sentences else None


def _each_once(sections: Sequence[tuple[str, Sequence[Quotable]]]) -> list[tuple[str, Sequence[Quotable]]]:
    """Return the parts with their quotes, none of them twice; parts with the same answer are put together.

    What answers a part, its first quote, stays with it; further quotes stay with the first part that has them.
    """
    written: dict[tuple[str, int, int] | str, tuple[str, list[Quotable]]] = {}
    for part, quotes in sections:
        key = _place(quotes[0]) if quotes else part
        before, given = written.get(key, ("", []))
        written[key] = (f"{before.rstrip('?？ ')} / {part}" if before else part, [*given, *quotes])
    shown = {key for key in written if isinstance(key, tuple)}
    found: list[tuple[str, Sequence[Quotable]]] = []
    for part, quotes in written.values():
        fresh = [quote for place, quote in enumerate(quotes) if place == 0 or _place(quote) not in shown]
        fresh = list({_place(quote): quote for quote in fresh}.values())
        shown |= {_place(quote) for quote in fresh}
        found.append((part, fresh))
    return found


def _place(quote: Quotable) -> tuple[str, int, int]:
    start = quote.item.chunk.start
    return quote.item.chunk.document_id, start + quote.start, start + quote.end


def cited_references(references: Sequence[Reference], cited: Collection[str]) -> str:
    """Return the list of the documents that an answer cites, in the order of their numbers, under its heading."""
    documents = [
        f"- [{reference.reference_id}] {shown_sources(reference)}"
        for reference in references
        if reference.reference_id in cited
    ]
    return "\n".join(["### References", "", *documents])


async def _texts(records: RecordsStore, document_ids: Collection[str]) -> dict[str, str]:
    texts = await run_together(*(records.get_document_text(id_) for id_ in document_ids))
    return {id_: text for id_, text in zip(document_ids, texts, strict=True) if text is not None}


def _written(
    question: str,
    context: Context,
    sections: Sequence[tuple[str, Sequence[Quotable]]],
    documents: Mapping[str, Document],
    texts: Mapping[str, str],
) -> ExtractiveAnswer:
    """Return the answer: its label, the quotes, under a line for each part where there are several, the documents."""
    if not any(quotes for _, quotes in sections):
        return ExtractiveAnswer()
    text = _words("quoted", question) + "\n"
    citations: dict[tuple[str, int, int], Citation] = {}
    for part, quotes in sections:
        if part:
            # With a capital and the question's own mark, which a part seldom has within the question.
            mark = question.rstrip()[-1:]
            text += f"\n**{part[:1].upper()}{part[1:].rstrip('?？。. ')}{mark if mark in '?？' else ''}**\n"
            text += "" if quotes else f"\n{_words('not_said', question)}\n"
        for sentence in quotes:
            chunk = sentence.item.chunk
            start, end = chunk.start + sentence.start, chunk.start + sentence.end
            quote = chunk.text[sentence.start : sentence.end]
            whole = texts.get(chunk.document_id) if sentence.is_cut else None
            # A document that has changed since the chunk was read tells nothing of it.
            if whole is not None and whole[start:end] == quote:
                start, end = completed_span(whole, start, end)
                quote = whole[start:end]
            place = (chunk.document_id, start, end)
            if place in citations:
                continue
            lead = _shortened(sentence.lead) + (" " if sentence.lead.endswith((":", "：")) else " — ")
            lead = lead if sentence.lead else ""
            is_text = sentence.form in (Form.PROSE, Form.ITEM)
            shown = _shortened(shown_text(quote) if is_text else sentence.shown)
            answer_start = len(text) + len(f"\n- {lead}")
            text += f"\n- {lead}{shown} [{sentence.item.reference_id}]"
            document = documents.get(sentence.item.chunk.document_id)
            citations[place] = cite(sentence.item, start, quote, document, (answer_start, answer_start + len(shown)))
        text += "\n" if part and quotes else ""
    found = tuple(citations.values())
    cited = {citation.reference_id for citation in found}
    return ExtractiveAnswer(f"{text.rstrip()}\n\n{cited_references(context.references, cited)}", found)


def _shortened(sentence: str) -> str:
    if len(sentence) <= _MAX_QUOTE_CHARACTERS:
        return sentence
    return sentence[:_MAX_QUOTE_CHARACTERS].rstrip() + " …"
