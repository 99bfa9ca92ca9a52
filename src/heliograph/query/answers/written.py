"""What a chat model writes, piece by piece, made true to its context.

Pieces go in as they come, and what may be shown comes out, citations checked; at the end the list of the documents
cited is added. Text that follows a caller's own prompt, or for which nothing was searched, is shown as it is written,
since only our prompts say what a number in brackets means.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace

from heliograph.query.answers.citation_marks import CitationFilter, cited_numbers
from heliograph.query.answers.citations import Grounding, ground_answer, with_headings_of_quotes
from heliograph.query.answers.extractive import cited_references
from heliograph.query.plan import Plan
from heliograph.query.retrieved import Retrieval
from heliograph.stores.base import RecordsStore
from heliograph.text.sentences import sentence_spans

# How models say it that do not write the mark; only looked for in a short answer that cites nothing, and only in how it
# begins. What is said of the subject itself must not pass for it ("The protocol does not encrypt the text"), so the
# passages must be who says nothing, or where nothing is said, or the writer who does not know.
_LONGEST_REFUSAL = 400
_GIVEN = (
    r"(?:(?:provided|given|available|above|supplied|retrieved|listed|quoted|cited|of|these|those|the|your) ){0,4}"
    r"(?:context|documents?|passages?|sources?|texts?|excerpts?|references|materials?|knowledge base|information"
    r"(?: provided| given| available)?)"
)
# The passages as such, not what is called after them ("the text index").
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
_REFUSAL = re.compile(
    # Who says nothing: "The documents do not mention it."
    rf"(?:^|[,;:] ?|\b(?:that|but|because|since|as) )(?:the|these|this|those|my) {_GIVEN}\b"
    r"(?: (?:itself|themselves|alone|above|here|i (?:have|was given)))?,? "
    rf"(?:(?:do(?:es)?|did)(?: not|n['’]t)(?: \w+ly)? {_SAYS}\b"
    r"|(?:say|contain|hold|give|offer|provide|has|have|mention)s? (?:no|nothing|neither)\b|(?:is|are) silent\b)"
    # Where nothing is said: "It is not mentioned in the passages.", "There is no information about it in the context."
    rf"|^(?:none|neither|nothing) (?:of|in) (?:the|these|those) {_GIVEN} {_SAYS}e?s?\b"
    rf"|(?:\bnot|n['’]t|\bnever)(?: \w+ly)? {_SAID}\b[^.!?\n]{{0,40}}\b(?:in|by|from|within|across) (?:any of )?"
    rf"{_THE_GIVEN}"
    rf"|^(?:from|in|based on|according to|given) (?:the|these|this|those) {_GIVEN},? (?:it|this|that)"
    rf"(?: is|['’]s) (?:not |un){_SAID}\b"
    rf"|\b(?:no|not any|n['’]t any)(?: \w+){{0,3}} {_TOLD}\b[^.!?\n]{{0,80}}\b(?:in|by|from|within) {_THE_GIVEN}"
    rf"|^(?:there is |i (?:found|find|have|see) )?(?:nothing|no(?: \w+){{0,3}} {_TOLD})\b[^.!?\n]{{0,40}}"
    rf"(?:\b(?:in|by|within) {_THE_GIVEN}|\b(?:was|is|are|were|could be|can be) (?:found|given|provided|available)\b)"
    # The writer who does not know: "I cannot answer this."
    r"|\b(?:i|we)(?:['’]m| am| was| are)? (?:unable|not able) to\b|\b(?:i|we) (?:do not|don['’]t) (?:know|have)\b"
    r"|\b(?:i|we) (?:can|could|did)(?:not| not|['’]t|n['’]t) (?:answer|find|provide|determine|tell|see)\b"
    r"|\b(?:question|this|that|it) (?:cannot|can['’]t|can not|could not) be (?:answered|determined)\b"
    r"|(?:提供|给定|给出|上述|以上|所给|现有|已有|已知|检索到|该|这些|本|上下)?的?"
    r"(?:文档|文件|资料|材料|文章|原文|段落|知识库|上下文|文中|提供的信息|已知信息|现有信息)[^。！？，\n]{0,12}?"
    r"(?:没有|并未|未|并无|无)[^。！？，\n]{0,8}(?:提到|提及|说明|包含|包括|涉及|给出|提供|记载|描述|指出|找到|介绍|信息|内容|答案)"
    r"|(?:没有|未能?)(?:找到|检索到|发现)[^。！？\n]{0,24}(?:信息|内容|资料|答案|文档)"
    r"|(?:根据|从|依据)[^。！？\n]{0,16}(?:文档|资料|材料|上下文|信息|内容|文中)[^。！？\n]{0,8}(?:无法|不能)"
    r"|(?:我|目前|因此|所以|故|^)(?:也)?(?:无法|不能)(?:直接)?(?:回答|得知|给出答案)|我不(?:知道|清楚)",
    re.IGNORECASE,
)
_APOLOGY = re.compile(
    r"(?:i(?:['’]m| am)|we(?:['’]re| are))?\s*(?:very )?(?:sorry|afraid)\b|unfortunately|很?抱歉|对不起", re.IGNORECASE
)


class WrittenAnswer:
    """The text of one answer while it is written.

    Attributes:
        text: What may be shown so far; all of it once `finish` was called.
    """

    def __init__(self, plan: Plan, retrieval: Retrieval) -> None:
        self.text = ""
        self._retrieval = retrieval
        self._body = ""
        known = [reference.reference_id for reference in retrieval.context.references]
        self._filter = CitationFilter(known) if plan.channels and not plan.system_prompt else None

    def feed(self, piece: str) -> str:
        """Take a piece and return what may be shown of it and of what was held back."""
        return self._add(self._filter.feed(piece) if self._filter else piece)

    def finish(self) -> str:
        """Return what is still to be shown: what was held back, and the list of the documents cited."""
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
        """Citations that named no document of the context."""
        return self._filter.dropped if self._filter else 0

    @property
    def is_unanswered(self) -> bool:
        """Whether the model says that the context holds no answer."""
        if self._filter is None or self._filter.says_no_answer:
            return self._filter is not None
        body = self._body.strip()
        is_bare = len(body) <= _LONGEST_REFUSAL and not cited_numbers(body)
        return is_bare and _begins_with_refusal(body)

    async def ground(self, records: RecordsStore) -> Grounding:
        """Return what the sentences of the finished answer rest on; only citations where nothing is checked.

        Raises:
            StoreError: The documents cited cannot be read.
        """
        context = self._retrieval.context
        if not context.chunks:
            return Grounding()
        cited = set(cited_numbers(self._body))
        ids = dict.fromkeys(item.chunk.document_id for item in context.chunks if item.reference_id in cited)
        documents = {document.id: document for document in await records.get_documents(list(ids))} if ids else {}
        found = await asyncio.to_thread(ground_answer, self._body, context, documents)
        found = replace(found, citations=await with_headings_of_quotes(found.citations, context, records))
        return found if self._is_checked and not self.is_unanswered else Grounding(found.citations)

    def warnings(self, grounding: Grounding) -> tuple[str, ...]:
        """Return in words what is wrong with the citations."""
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


def _begins_with_refusal(body: str) -> bool:
    """Return whether a text's first sentence, but for an apology, says that there is no answer."""
    for start, end in sentence_spans(body):
        sentence = " ".join(body[start:end].split())
        if _REFUSAL.search(sentence):
            return True
        if not _APOLOGY.match(sentence):
            return False
    return False


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
