"""What a chat model writes, piece by piece, made true to its context.

Pieces go in as they come, and what may be shown comes out, citations checked; at the end the list of the documents
cited is added. Text that follows a caller's own prompt, or for which nothing was searched, is shown as it is written,
since only our prompts say what a number in brackets means.
"""

from __future__ import annotations

import asyncio
import re

from heliograph.query.answers.citation_marks import CitationFilter, cited_numbers
from heliograph.query.answers.citations import Grounding, ground_answer
from heliograph.query.answers.extractive import cited_references
from heliograph.query.plan import Plan
from heliograph.query.retrieved import Retrieval
from heliograph.stores.base import RecordsStore

__all__ = ["WrittenAnswer"]

# How models say it that do not write the mark; only looked for in a short answer that cites nothing.
_LONGEST_REFUSAL = 400
_REFUSAL = re.compile(
    r"\b(?:context|documents?|passages?|sources|text|knowledge base|information provided)\b[^.!?\n]{0,40}"
    r"\b(?:do(?:es)? not|don't|doesn't|hold no|contains? no|has no|have no)\b"
    r"|\b(?:not|n't|no information|nothing)\b[^.!?\n]{0,60}"
    r"\b(?:context|documents?|passages?|sources|text|knowledge base|information provided)\b"
    r"|\b(?:not able to|unable to|cannot|can't) (?:answer|provide an answer)\b|\b(?:do not|don't) know\b"
    r"|(?:没有|未|并未|无法|不能)[^。！？\n]{0,20}(?:提到|提及|说明|找到|包含|涉及|相关|信息|内容|回答|答案|得知|确定)",
    re.IGNORECASE,
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
        return is_bare and _REFUSAL.search(body) is not None

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


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
