"""Makes an `Answer` from a retrieval: written by a chat model or quoted, at once or piece by piece.

A quoted answer has the sentences of the retrieved chunks that say most about the question. `sentence_ranking` chooses
them; they are quoted verbatim, each with the number of its document, under a line that says that the answer consists of
quotes. Each quote is also a `Citation`: its exact characters in the document, its page and headings. If no sentence is
relevant to the question, there is no answer.
"""

from __future__ import annotations

import asyncio
import re
import tomllib
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from types import AsyncGeneratorType, TracebackType
from typing import Self

from heliograph.calls.tasks import run_together
from heliograph.chat.base import ChatMessage, ChatModel, ChatReply, ChatRequest, Purpose
from heliograph.embedding.base import EmbeddingModel, cosines
from heliograph.errors import InvalidRequestError
from heliograph.models import Document, Usage
from heliograph.observing import QuestionTimer
from heliograph.query.answers.citations import (
    Citation,
    CitationFilter,
    Grounding,
    cite,
    cited_numbers,
    ground_answer,
    with_headings_of_quotes,
)
from heliograph.query.answers.models import Answer, AnswerKind
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
from heliograph.query.context.format import drops_user_prompt, show_prompt, shown_sources, system_prompt
from heliograph.query.models import Context, Failure, FoundPart, Reference, Retrieval
from heliograph.query.plan import Plan
from heliograph.query.understanding import QuestionKind, Understanding, understand_by_rules
from heliograph.stores.base import RecordsStore
from heliograph.text.analysis import question_language
from heliograph.text.patterns import late_pattern
from heliograph.text.sentences import sentence_spans

# Answers without a chat model.

_MAX_QUOTES = 6
_MOST_OF_PART = 4
_MAX_QUOTE_CHARACTERS = 600
# Characters of a sentence that are compared with the question; longer ones are lists and tables without an end mark.
_LONGEST_READ = 600


@cache
def _all_words() -> Mapping[str, Mapping[str, str]]:
    return tomllib.loads((files("heliograph.query.answers") / "answer_words.toml").read_text(encoding="utf-8"))


def _words(what: str, question: str) -> str:
    """Return a fixed phrase of answers in the question's language if available, else in English."""
    known = _all_words()[what]
    return known.get(question_language(question), known["en"])


@dataclass(frozen=True, slots=True)
class ExtractiveAnswer:
    """Quoted sentences and their citations; both empty if nothing is relevant."""

    text: str = ""
    citations: tuple[Citation, ...] = ()


def nothing_found(retrieval: Retrieval) -> str:
    """Return the text that says, in the question's language, why there is no answer."""
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
    """Return the relevant sentences as quotes, with citations and the list of cited documents.

    A question of several parts is answered part by part, each under its own line. Documents are read for titles and
    pages; their texts only where a chunk's edge may cut a quoted sentence or a block of code. The result is empty if no
    sentence is relevant. Without `understanding`, rules classify the question; without `embedding`, only words decide.

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
    # Documents that are longer than any chunk of theirs in the context.
    held: dict[str, int] = {}
    for chunk in (item.chunk for item in context.chunks):
        held[chunk.document_id] = max(held.get(chunk.document_id, 0), chunk.end - chunk.start)
    longer = {id_ for id_, document in documents.items() if document.length > held[id_]}
    texts |= await _texts(records, (cut & longer) - texts.keys())
    written = _written(question, context, sections, documents, texts)
    return replace(written, citations=await with_headings_of_quotes(written.citations, context, records))


@dataclass(frozen=True, slots=True)
class _Source:
    """The context and documents to quote from."""

    context: Context
    documents: Mapping[str, Document]
    in_code: Collection[str]
    embedding: EmbeddingModel | None

    async def quotes(
        self, question: str, limit: int, understanding: Understanding | None, part: FoundPart | None = None
    ) -> Sequence[Quotable]:
        """Return the quotes that answer a question, best first; only from a part's own hits if it has some."""
        listed = await asyncio.to_thread(self._listed, question, understanding, part)
        if listed is None:
            return []
        near: Sequence[float] | None = None
        if self.embedding is not None:
            # Embed each sentence with its heading and lead.
            told = [sentence.in_place[:_LONGEST_READ] for _, sentence in listed.items]
            asked, read = await run_together(
                self.embedding.embed([question], "query"), self.embedding.embed(told, "document")
            )
            near = (await self.embedding.scale()).usual(cosines(read.vectors, asked.vectors[0])).tolist()
        # No single sentence answers a question about the documents as a whole.
        is_broad = understanding is not None and understanding.kind is QuestionKind.GLOBAL
        if not is_broad and not is_answered(listed, near):
            return []
        return await asyncio.to_thread(choose, listed, limit, near)

    def _listed(self, question: str, understanding: Understanding | None, part: FoundPart | None) -> Shortlist | None:
        # The cosine of a question of punctuation or emoji alone means nothing.
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
    """Return the parts with their quotes deduplicated; parts with the same first quote are merged.

    The first quote of a part, its answer, stays with it; further quotes stay with the first part that has them.
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
    """Return the list of the documents that an answer cites, in the order of their numbers, with a heading."""
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
    """Return the answer text with citations: label, quotes (under a line per part if there are several), documents."""
    if not any(quotes for _, quotes in sections):
        return ExtractiveAnswer()
    text = _words("quoted", question) + "\n"
    citations: dict[tuple[str, int, int], Citation] = {}
    for part, quotes in sections:
        if part:
            # Capitalise the part and end it with the question's own mark, which parts seldom have.
            mark = question.rstrip()[-1:]
            text += f"\n**{part[:1].upper()}{part[1:].rstrip('?？。. ')}{mark if mark in '?？' else ''}**\n"
            text += "" if quotes else f"\n{_words('not_said', question)}\n"
        for sentence in quotes:
            chunk = sentence.item.chunk
            start, end = chunk.start + sentence.start, chunk.start + sentence.end
            quote = chunk.text[sentence.start : sentence.end]
            whole = texts.get(chunk.document_id) if sentence.is_cut else None
            # Ignore the text of a document that changed after the chunk was read.
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


# Checking a chat model's text against its context, piece by piece.
#
# Pieces go in as they arrive, and text with checked citations comes out; at the end the list of cited documents is
# added. Text written for a caller's own prompt, or without a search, passes unchanged, since only our prompts define
# the meaning of a number in brackets.

# Refusals by models that do not write the mark; only matched at the start of a short answer without citations. A
# statement about the subject must not match ("The protocol does not encrypt the text"), so the pattern requires that
# the passages say nothing, that nothing is said in them, or that the writer does not know.
_LONGEST_REFUSAL = 400
_GIVEN = (
    r"(?:(?:provided|given|available|above|supplied|retrieved|listed|quoted|cited|of|these|those|the|your) ){0,4}"
    r"(?:context|documents?|passages?|sources?|texts?|excerpts?|references|materials?|knowledge base|information"
    r"(?: provided| given| available)?)"
)
# The passages as such, not other things whose names begin alike ("the text index").
_THE_GIVEN = (
    rf"(?:the|these|this|those) {_GIVEN}\b(?=\W*$|[.,;:!?)]| (?:about|on|regarding|concerning|that|which|who|says?|"
    r"mentions?|states?|to|of|for|i|and|so|provided|given|above|supplied|available|retrieved)\b)"
)
_SAYS = (
    r"(?:mention|say|state|specify|provide|include|contain|give|describe|discuss|cover|address|explain|answer|offer|"
    r"indicate|tell|name|list|hold|have|reveal|refer|define|detail)"
)
_SAID = (
    r"(?:mentioned|said|stated|specified|provided|included|contained|given|described|discussed|covered|addressed|"
    r"explained|answered|indicated|named|listed|found|defined|available|present|clear|stated)"
)
_TOLD = r"(?:information|mention|answer|details?|evidence|reference|indication|data|statement|description)"
_CAN_GERMAN = "(?:kann|konnte|weiß|finde|habe)"
_REFUSAL = late_pattern(
    # The passages say nothing: "The documents do not mention it."
    rf"(?:^|[,;:] ?|\b(?:that|but|because|since|as) )(?:the|these|this|those|my) {_GIVEN}\b"
    r"(?: (?:itself|themselves|alone|above|here|i (?:have|was given)))?,? "
    rf"(?:(?:do(?:es)?|did)(?: not|n['’]t)(?: \w+ly)? {_SAYS}\b"
    r"|(?:say|contain|hold|give|offer|provide|has|have|mention)s? (?:no|nothing|neither)\b|(?:is|are) silent\b)"
    # Nothing is said in them: "It is not mentioned in the passages.", "There is no information about it in the context."
    rf"|^(?:none|neither|nothing) (?:of|in) (?:the|these|those) {_GIVEN} {_SAYS}e?s?\b"
    rf"|(?:\bnot|n['’]t|\bnever)(?: \w+ly)? {_SAID}\b[^.!?\n]{{0,40}}\b(?:in|by|from|within|across) (?:any of )?"
    rf"{_THE_GIVEN}"
    rf"|^(?:from|in|based on|according to|given) (?:the|these|this|those) {_GIVEN},? (?:it|this|that)"
    rf"(?: is|['’]s) (?:not |un){_SAID}\b"
    rf"|\b(?:no|not any|n['’]t any)(?: \w+){{0,3}} {_TOLD}\b[^.!?\n]{{0,80}}\b(?:in|by|from|within) {_THE_GIVEN}"
    rf"|^(?:there is |i (?:found|find|have|see) )?(?:nothing|no(?: \w+){{0,3}} {_TOLD})\b[^.!?\n]{{0,40}}"
    rf"(?:\b(?:in|by|within) {_THE_GIVEN}|\b(?:was|is|are|were|could be|can be) (?:found|given|provided|available)\b)"
    # The writer does not know: "I cannot answer this."
    r"|\b(?:i|we)(?:['’]m| am| was| are)? (?:unable|not able) to\b|\b(?:i|we) (?:do not|don['’]t) (?:know|have)\b"
    r"|\b(?:i|we) (?:can|could|did)(?:not| not|['’]t|n['’]t) (?:answer|find|provide|determine|tell|see)\b"
    r"|\b(?:question|this|that|it) (?:cannot|can['’]t|can not|could not) be (?:answered|determined)\b"
    r"|(?:提供|给定|给出|上述|以上|所给|现有|已有|已知|检索到|该|这些|本|上下)?的?"
    r"(?:文档|文件|资料|材料|文章|原文|段落|知识库|上下文|文中|提供的信息|已知信息|现有信息)[^。！？，\n]{0,12}?"
    r"(?:没有|并未|未|并无|无)[^。！？，\n]{0,8}(?:提到|提及|说明|包含|包括|涉及|给出|提供|记载|描述|指出|找到|介绍|信息|内容|答案)"
    r"|(?:没有|未能?)(?:找到|检索到|发现)[^。！？\n]{0,24}(?:信息|内容|资料|答案|文档)"
    r"|(?:根据|从|依据)[^。！？\n]{0,16}(?:文档|资料|材料|上下文|信息|内容|文中)[^。！？\n]{0,8}(?:无法|不能)"
    r"|(?:我|目前|因此|所以|故|^)(?:也)?(?:无法|不能)(?:直接)?(?:回答|得知|给出答案)|我不(?:知道|清楚)"
    r"|\b(?:die|diese[nm]?|de[nmr]|im) (?:\w+en )?"
    r"(?:dokumenten?|kontext|quellen?|texten?|textstellen|passagen|unterlagen|auszügen?|informationen)\b[^.!?\n]{0,40}"
    r"\b(?:(?:enth[aä]lt(?:en)?|sag(?:en|t)|nenn(?:en|t)|erwähn(?:en|t)|geben|gibt|liefer[nt]|machen|steh(?:en|t)|finde[nt]"
    r"|beantworte[nt])\b[^.!?\n]{0,40}\b(?:kein\w*|nichts|nicht)\b"
    r"|(?:kein\w*|nichts|nicht)\b[^.!?\n]{0,40}"
    r"\b(?:erwähnt|genannt|angegeben|beschrieben|enthalten|gefunden|beantwortet)\b)"
    rf"|\b(?:ich {_CAN_GERMAN}|{_CAN_GERMAN} ich)\b[^.!?\n]{{0,60}}\b(?:nicht|keine?n?|nichts)\b",
    re.IGNORECASE,
)
_APOLOGY = late_pattern(
    r"(?:i(?:['’]m| am)|we(?:['’]re| are))?\s*(?:very )?(?:sorry|afraid)\b|unfortunately|很?抱歉|对不起"
    r"|leider|entschuldigung|es tut mir leid",
    re.IGNORECASE,
)


class WrittenAnswer:
    """The text of one answer while it is written: `text` may be shown so far, and is complete after `finish`."""

    def __init__(self, plan: Plan, retrieval: Retrieval) -> None:
        self.text = ""
        self._retrieval = retrieval
        self._body = ""
        known = [reference.reference_id for reference in retrieval.context.references]
        self._filter = CitationFilter(known) if plan.channels and not plan.system_prompt else None

    def feed(self, piece: str) -> str:
        """Add a piece and return the text that may be shown now, including text held back before."""
        return self._add(self._filter.feed(piece) if self._filter else piece)

    def finish(self) -> str:
        """Return the held-back text and the list of cited documents."""
        shown = self._add(self._filter.finish() if self._filter else "")
        self._body = self.text
        cited = set(cited_numbers(self._body)) if self._is_checked else set[str]()
        references = self._retrieval.context.references
        if cited.isdisjoint(reference.reference_id for reference in references):
            return shown
        missing = 2 - (len(self._body) - len(self._body.rstrip("\n")))
        return shown + self._add("\n" * max(0, missing) + cited_references(references, cited))

    @property
    def dropped(self) -> int:
        """The number of citations that named no source of the context."""
        return self._filter.dropped if self._filter else 0

    @property
    def is_unanswered(self) -> bool:
        """Whether the model says that the context holds no answer."""
        if self._filter is None or self._filter.says_no_answer:
            return self._filter is not None
        body = self._body.strip()
        if len(body) > _LONGEST_REFUSAL or cited_numbers(body):
            return False
        # Its first sentence, skipping apologies, must be a refusal.
        sentences = (" ".join(body[start:end].split()) for start, end in sentence_spans(body))
        first = next((text for text in sentences if _REFUSAL.search(text) or not _APOLOGY.match(text)), "")
        return _REFUSAL.search(first) is not None

    async def ground(self, records: RecordsStore) -> Grounding:
        """Return the support for the sentences of the finished answer; only citations if the text is not checked.

        Raises:
            StoreError: The cited documents cannot be read.
        """
        context = self._retrieval.context
        if not context.chunks:
            return Grounding()
        cited = set(cited_numbers(self._body))
        documents = await records.get_owners(item.chunk for item in context.chunks if item.reference_id in cited)
        found = await asyncio.to_thread(ground_answer, self._body, context, documents)
        found = replace(found, citations=await with_headings_of_quotes(found.citations, context, records))
        return found if self._is_checked and not self.is_unanswered else Grounding(found.citations)

    def warnings(self, grounding: Grounding) -> tuple[str, ...]:
        """Describe the problems of the citations."""
        found: list[str] = []
        if self.dropped:
            found.append(f"{_count(self.dropped, 'citation')} of no document in the context left out")
        if grounding.unsupported:
            found.append(
                f"{_count(grounding.unsupported, 'sentence')} of the answer without a document that supports it"
            )
        return tuple(found)

    @property
    def _is_checked(self) -> bool:
        return self._filter is not None and not self._filter.is_data

    def _add(self, text: str) -> str:
        self.text += text
        return text


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


# Tokens of the longest useful answer; long reports have half of it.
_NEEDED_TOKENS = 8192


def answering_model(plan: Plan, retrieval: Retrieval, chat: ChatModel | None) -> ChatModel | None:
    """Return the chat model that writes the answer, or None if none is needed or configured.

    Raises:
        InvalidRequestError: The mode is bypass and there is no chat model.
    """
    if not plan.wants_answer or retrieval.failure is not None:
        return None
    if chat is None and not plan.channels:
        raise InvalidRequestError(
            f"mode {plan.mode.value!r} needs a chat model and none is configured; set HELIOGRAPH_CHAT__MODEL, "
            "give QueryParam(chat_model=...), or use another mode"
        )
    return chat


async def answer_offline(
    plan: Plan, retrieval: Retrieval, records: RecordsStore, embedding: EmbeddingModel | None = None
) -> Answer:
    """Return the answer where no chat model is needed or configured.

    Raises:
        ModelError: The embedding, which compares sentences with the question, failed.
        StoreError: The quoted documents cannot be read.
    """
    if retrieval.failure is not None:
        text = nothing_found(retrieval) if plan.wants_answer else ""
        return _answer(plan, retrieval, text, AnswerKind.NOTHING_FOUND)
    if plan.param.only_need_prompt:
        return _answer(plan, retrieval, show_prompt(plan, _prompt(plan, retrieval)), AnswerKind.PROMPT)
    if plan.param.only_need_context:
        return _answer(plan, retrieval, retrieval.context.text, AnswerKind.CONTEXT)
    # The understanding belongs to the question before its spelling was corrected.
    understanding = None if retrieval.respelt else retrieval.understanding
    question = retrieval.respelt or plan.question
    quoted = await quote_answer(question, retrieval.context, records, understanding, embedding, retrieval.parts)
    if not quoted.text:
        return _answer(plan, retrieval, nothing_found(retrieval), AnswerKind.NOTHING_FOUND)
    return Answer(
        quoted.text,
        AnswerKind.EXTRACTIVE,
        retrieval,
        warnings=retrieval.warnings,
        usage=retrieval.usage,
        citations=quoted.citations,
    )


async def answer_with(chat: ChatModel, plan: Plan, retrieval: Retrieval, records: RecordsStore) -> Answer:
    """Return the answer that a chat model writes.

    Raises:
        ModelError: The chat model failed.
        StoreError: The cited documents cannot be read.
    """
    reply = await chat.complete(answer_request(plan, retrieval))
    written = WrittenAnswer(plan, retrieval)
    written.feed(reply.text)
    written.finish()
    return await finished_answer(plan, retrieval, written, reply, records)


def answer_request(plan: Plan, retrieval: Retrieval) -> ChatRequest:
    """Return the messages for the chat model: system prompt, history, question."""
    prompt = _prompt(plan, retrieval)
    system = (ChatMessage("system", prompt),) if prompt else ()
    messages = (*system, *plan.history, ChatMessage("user", plan.question))
    return ChatRequest(messages, Purpose.ANSWER, needed_tokens=_NEEDED_TOKENS)


async def finished_answer(
    plan: Plan, retrieval: Retrieval, written: WrittenAnswer, reply: ChatReply | None, records: RecordsStore
) -> Answer:
    """Return a chat model's text as an `Answer`; `reply` is None if a stream did not report how it ended."""
    grounding = await written.ground(records)
    answer = _answer(plan, retrieval, written.text, AnswerKind.GENERATED)
    is_complete = reply is None or reply.is_complete
    cut = () if is_complete else ("the answer was cut at a length limit, or because it went on without an end",)
    spent = Usage() if reply is None or reply.from_cache else reply.usage
    return Answer(
        written.text,
        AnswerKind.GENERATED,
        retrieval,
        is_complete=is_complete,
        from_cache=reply is not None and reply.from_cache,
        warnings=(*answer.warnings, *written.warnings(grounding), *cut),
        usage=retrieval.usage + spent,
        citations=grounding.citations,
        unsupported_references=written.dropped,
        unsupported_sentences=grounding.unsupported,
        is_unanswered=written.is_unanswered,
    )


def _answer(plan: Plan, retrieval: Retrieval, text: str, kind: AnswerKind) -> Answer:
    warnings = retrieval.warnings
    if drops_user_prompt(plan) and kind in (AnswerKind.GENERATED, AnswerKind.PROMPT):
        warnings = (*warnings, "system_prompt has no {user_prompt}, so user_prompt is not used")
    is_unanswered = kind is AnswerKind.NOTHING_FOUND
    return Answer(text, kind, retrieval, warnings=warnings, usage=retrieval.usage, is_unanswered=is_unanswered)


def _prompt(plan: Plan, retrieval: Retrieval) -> str:
    """Return the system prompt; in a mode without channels only the caller's, unchanged."""
    return system_prompt(plan, retrieval.context.text) if plan.channels else plan.system_prompt


class AnswerStream:
    """An async iterator over the pieces of one answer, which can be read once.

        stream = await engine.query_stream("Who keeps the light?")
        print(stream.references)
        async for piece in stream:
            print(piece, end="")

    Leaving the loop early cancels the call to the chat model; `aclose`, or an `async with` around it, waits until the
    call is cancelled. Reading raises the model's `ModelError`.

    Attributes:
        answer: The whole answer after the last piece was read; None before.
    """

    def __init__(
        self,
        plan: Plan,
        retrieval: Retrieval,
        source: ChatModel | Answer,
        records: RecordsStore,
        asked: QuestionTimer | None = None,
    ) -> None:
        """Yield a ready answer as the only piece, or call a chat model when the first piece is read.

        The timer `asked` is notified when the last piece was read or the reading was abandoned.
        """
        self.retrieval = retrieval
        self.answer: Answer | None = None
        self._plan = plan
        self._source = source
        self._records = records
        self._asked = asked or QuestionTimer(plan.mode)
        self._reading: weakref.ref[AsyncGenerator[str]] | None = None
        # Once reading has begun, its end notifies the timer; if the stream is closed before, `aclose` does.
        self._is_begun = False

    @property
    def ready(self) -> Answer | None:
        """The answer if it is known before reading, since no chat model writes it; else None."""
        return self._source if isinstance(self._source, Answer) else None

    @property
    def context(self) -> Context:
        """Entities, relations and chunks behind the answer."""
        return self.retrieval.context

    @property
    def references(self) -> tuple[Reference, ...]:
        """Sources of the chunks behind the answer."""
        return self.retrieval.context.references

    def __aiter__(self) -> AsyncIterator[str]:
        """Start reading; raises `InvalidRequestError` if the stream was read or closed before."""
        if self._reading is not None or self._is_begun:
            raise InvalidRequestError("this stream has been read already or closed; ask again")
        source = self._source
        pieces = self._ready(source) if isinstance(source, Answer) else self._written(source)
        # A weak reference, so that leaving the loop drops the last strong one and thereby ends the call.
        self._reading = weakref.ref(pieces)
        return pieces

    async def collect(self) -> Answer:
        """Read all pieces and return the whole answer."""
        async for _ in self:
            pass
        if self.answer is None:
            raise InvalidRequestError("this stream was closed while it was read; ask again")
        return self.answer

    async def _ready(self, answer: Answer) -> AsyncGenerator[str]:
        self._is_begun = True
        with self._asked:
            if answer.text:
                yield answer.text
            self._end(answer)

    async def _written(self, chat: ChatModel) -> AsyncGenerator[str]:
        self._is_begun = True
        written = WrittenAnswer(self._plan, self.retrieval)
        replies: list[ChatReply] = []
        request = replace(answer_request(self._plan, self.retrieval), on_finish=replies.append)
        with self._asked, self._asked.answering(in_pieces=True):
            pieces = chat.stream(request)
            async with AsyncExitStack() as stack:
                if isinstance(pieces, AsyncGenerator):
                    stack.push_async_callback(pieces.aclose)
                async for piece in pieces:
                    if shown := written.feed(piece):
                        yield shown
            if rest := written.finish():
                yield rest
            reply = replies[0] if replies else None
            self._end(await finished_answer(self._plan, self.retrieval, written, reply, self._records))

    def _end(self, answer: Answer) -> None:
        self._asked.note_answer(from_cache=answer.from_cache, is_unanswered=answer.is_unanswered)
        self.answer = answer

    async def aclose(self) -> None:
        """Stop reading and end the call; closing twice does nothing. An unread stream cannot be read afterwards.

        Raises:
            InvalidRequestError: Another task waits for a piece; cancelling that task ends the call.
        """
        pieces = self._reading() if self._reading is not None else None
        if pieces is not None:
            if isinstance(pieces, AsyncGeneratorType) and pieces.ag_running:
                raise InvalidRequestError("this stream is being read by another task; cancel that task to end the call")
            await pieces.aclose()
        if not self._is_begun:
            self._is_begun = True
            self._asked.give_up()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()
