"""The answer to a question: an `Answer`, its kind, and the citations that support it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from heliograph.models import Mode, Usage
from heliograph.query.models import Context, QueryParam, Reference, Retrieval
from heliograph.query.payloads import context_data, record_data, retrieval_metadata


@dataclass(frozen=True, slots=True)
class Citation:
    """A passage of a document that supports a sentence of an answer.

    Attributes:
        reference_id: Number of its source in the list of references.
        start: Offset of the quote's first character in the document's text.
        end: Offset one past its last character.
        quote: Exactly `document_text[start:end]`.
        page: Page number, from 1, if the document has pages.
        headings: Titles of the sections around the quote, outermost first.
        answer_start: Offset, in the answer's text, of the first character of the supported sentence.
        answer_end: Offset one past its last character.
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
    """The kind of text that an answer holds."""

    GENERATED = "generated"
    EXTRACTIVE = "extractive"
    NOTHING_FOUND = "nothing_found"
    CONTEXT = "context"
    PROMPT = "prompt"


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer and the retrieval that it was made from.

    Attributes:
        text: The answer, or the context or prompt if the caller requested that instead.
        is_complete: False if the chat model's reply was cut, at a length limit or in a loop.
        from_cache: Whether the answer comes from the cache and cost nothing.
        warnings: Unexpected events, in words, including those of the retrieval.
        usage: Tokens that chat models spent on it, keywords included; none if it comes from the cache.
        citations: Exact passages that support its sentences, in the order of the text.
        unsupported_references: Number of citations left out because they named no source of the context.
        unsupported_sentences: Number of sentences that a chat model wrote without a supporting source.
        is_unanswered: Whether `kind` is `NOTHING_FOUND`, or a chat model says that the documents hold no answer.
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
        """Return the Markdown that a notebook shows: the text, its sources and the warnings."""
        if self.kind in (AnswerKind.CONTEXT, AnswerKind.PROMPT):
            # Show it verbatim: a context or prompt is not Markdown.
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
        """Entities, relations and chunks behind the answer."""
        return self.retrieval.context

    @property
    def references(self) -> tuple[Reference, ...]:
        """Sources of the chunks behind the answer; the text cites their numbers."""
        return self.retrieval.context.references

    def payload(self, param: QueryParam) -> str | dict[str, Any]:
        """Return the answer in the shape that the parameters choose.

        Returns:
            The text; with `include_sources` a dict of `answer`, `entities`, `relationships`, `chunks`, `references`
            and `metadata`; with `return_structured` (which wins) these and all other data of the answer.
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
        """The fields of the answer besides its text and its retrieval, as plain data."""
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
