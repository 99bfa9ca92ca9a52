"""What a question is answered with: an `Answer`, its kind, and the citations that it rests on."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from heliograph.models import Mode, Usage
from heliograph.query.models import Context, QueryParam, Reference, Retrieval
from heliograph.query.payloads import context_data, record_data, retrieval_metadata


@dataclass(frozen=True, slots=True)
class Citation:
    """A passage of a document that a sentence of an answer rests on.

    Attributes:
        reference_id: Number of its source in the list of references.
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


class AnswerKind(StrEnum):
    """What the text of an answer is."""

    GENERATED = "generated"
    EXTRACTIVE = "extractive"
    NOTHING_FOUND = "nothing_found"
    CONTEXT = "context"
    PROMPT = "prompt"


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer and what it was made from.

    Attributes:
        text: The answer, or what was asked for in its place.
        is_complete: False when the chat model was cut, at a length limit or in a loop.
        from_cache: Whether it was given before and cost nothing now.
        warnings: What did not go as one would expect, in words; those of the retrieval included.
        usage: Tokens that chat models spent on it, keywords included; none if it comes from the cache.
        citations: What its sentences rest on, to the character, in the order of the text.
        unsupported_references: Citations left out because they named no source of the context.
        unsupported_sentences: Sentences that a chat model wrote without a source that supports them.
        is_unanswered: Whether it is `NOTHING_FOUND`, or a chat model says that the documents hold no answer.
    """

    text: str
    kind: AnswerKind
    retrieval: Retrieval = field(repr=False)
    is_complete: bool = True
    from_cache: bool = False
    warnings: tuple[str, ...] = ()
    usage: Usage = field(default_factory=Usage)
    citations: tuple[Citation, ...] = ()
    unsupported_references: int = 0
    unsupported_sentences: int = 0
    is_unanswered: bool = False

    def __str__(self) -> str:
        return self.text

    def _repr_markdown_(self) -> str:
        """Return how a notebook shows it: the text, the sources it draws on, and what did not go as expected."""
        if self.kind in (AnswerKind.CONTEXT, AnswerKind.PROMPT):
            # As it is: what a chat model reads is no Markdown.
            return f"~~~~~~text\n{self.text}\n~~~~~~"
        parts = [self.text or self.retrieval.message]
        if self.references and "### References" not in self.text:
            sources = [f"- [{item.reference_id}] {item.source}" for item in self.references]
            parts.append("\n".join(["### References", "", *sources]))
        parts += [f"> **Warning:** {warning}" for warning in self.warnings]
        return "\n\n".join(parts)

    @property
    def is_generated(self) -> bool:
        """Whether a chat model wrote the text."""
        return self.kind is AnswerKind.GENERATED

    @property
    def mode(self) -> Mode:
        """The mode of the question."""
        return self.retrieval.mode

    @property
    def context(self) -> Context:
        """Entities, relations and chunks behind it."""
        return self.retrieval.context

    @property
    def references(self) -> tuple[Reference, ...]:
        """Sources of the chunks behind it; the numbers are those that the text cites."""
        return self.retrieval.context.references

    def payload(self, param: QueryParam) -> str | dict[str, Any]:
        """Return the answer in the shape that the parameters choose.

        Returns:
            The text; with `include_sources` a dict of `answer`, `entities`, `relationships`, `chunks`, `references`
            and `metadata`; with `return_structured` (which wins) that and everything else that is known.
        """
        if not (param.return_structured or param.include_sources):
            return self.text
        sources = {
            "answer": self.text,
            **context_data(self.context, param.include_chunk_content),
            "metadata": retrieval_metadata(self.retrieval),
        }
        if not param.return_structured:
            return sources
        found = {name: getattr(self.retrieval, name) for name in ("status", "message", "question")}
        return sources | found | {"context": self.context.text, "is_generated": self.is_generated} | self.details

    @property
    def details(self) -> dict[str, Any]:
        """What is told of an answer beside its text and what it was made from, as plain data."""
        return {
            "mode": self.mode.value,
            "kind": self.kind.value,
            "is_complete": self.is_complete,
            "from_cache": self.from_cache,
            "is_unanswered": self.is_unanswered,
            "citations": [record_data(citation, source="file_path") for citation in self.citations],
            "unsupported_references": self.unsupported_references,
            "unsupported_sentences": self.unsupported_sentences,
            "warnings": list(self.warnings),
            "usage": record_data(self.usage),
        }
