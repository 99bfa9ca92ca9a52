"""What a caller touches: `QueryParam` goes in, `Answer` comes out.

What was retrieved on the way (`Keywords`, `Context`, `Reference` ...) is defined in `heliograph.query.retrieved` and
offered here too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

from heliograph.chat.base import ChatMessage, ChatModel
from heliograph.filters import Filter
from heliograph.functions import ChatFunction
from heliograph.models import DEFAULT_MODE, ModeName, Usage
from heliograph.query.answers.citations import Citation
from heliograph.query.data import citation_data, context_data, retrieval_metadata
from heliograph.query.retrieved import (
    Context,
    Failure,
    Keywords,
    Mode,
    ProcessingInfo,
    Reference,
    Retrieval,
    RetrievedChunk,
    RetrievedEntity,
    RetrievedRelation,
    SourceMark,
)

__all__ = [
    "Answer",
    "AnswerKind",
    "Citation",
    "Context",
    "Failure",
    "Keywords",
    "Mode",
    "ModeName",
    "ProcessingInfo",
    "QueryParam",
    "Reference",
    "Retrieval",
    "RetrievedChunk",
    "RetrievedEntity",
    "RetrievedRelation",
    "SourceMark",
]


@dataclass(frozen=True, slots=True)
class QueryParam:
    """How one question is to be answered. None means the default of `QuerySettings`.

    Nothing is checked here; a value out of range is an `InvalidRequestError` when the question is asked.

    Attributes:
        mode: One of `Mode`.
        only_need_context: Return the context as the answer's text and call no chat model for it.
        only_need_prompt: Return what the chat model would be given; wins over `only_need_context`.
        response_type: Form of the answer, in words.
        stream: Collect the answer from a stream; nothing streamed is cached. `QueryEngine.stream` gives the pieces.
        top_k: Entities and relations searched, 1 to 10,000.
        chunk_top_k: Chunks searched, and kept after reranking, 1 to 10,000.
        max_entity_tokens: Budget of the entities.
        max_relation_tokens: Budget of the relations.
        max_total_tokens: Budget of prompt, question, entities, relations and chunks.
        hl_keywords: High-level keywords; if these or `ll_keywords` are given, both are used as they are.
        ll_keywords: Low-level keywords.
        conversation_history: Earlier messages, `{"role": ..., "content": ...}` or `ChatMessage`, oldest first.
        user_prompt: Further instructions to the chat model.
        enable_rerank: Rerank chunks if a reranker is configured.
        include_references: For services that render an answer: show its references.
        disable_user_prompt_prefix: Leave out `QuerySettings.user_prompt_prefix`.
        include_chunk_content: Give references the texts of their chunks.
        include_sources: Let `Answer.payload` be the answer with what it was made from.
        return_structured: Let `Answer.payload` be everything.
        history_turns: Turns (a user's message and what follows it) used of the history; 0 uses all.
        chunk_picking: How chunks of entities and relations are picked.
        context_format: JSON lines, or CSV tables.
        channels: Channels to search beside the mode's own: `vector`, `keyword`, `bridge`, `graph`. Where the mode has
            none of the last three itself, what they find is joined with the mode's chunks by reciprocal rank.
        fusion: How chunks of several channels are fused: by weighted `score` or by reciprocal `rank`.
        chat_model: The chat model for this question, or a function, for keywords and answer.
        system_prompt: In place of the built-in prompt; `{context_data}`, `{response_type}` and `{user_prompt}`, or
            the same names after a `$`, are filled in.
        filter: Only documents that match it exist for this question: a condition of `heliograph.filters`, or the dict
            that `heliograph.filters.parse_filter` reads; None leaves out none.
        explain: Let `Retrieval.trace` say what became of everything that was found.
    """

    mode: Mode | ModeName = DEFAULT_MODE
    only_need_context: bool = False
    only_need_prompt: bool = False
    response_type: str = "Multiple Paragraphs"
    stream: bool = False
    top_k: int | None = None
    chunk_top_k: int | None = None
    max_entity_tokens: int | None = None
    max_relation_tokens: int | None = None
    max_total_tokens: int | None = None
    hl_keywords: Sequence[str] = ()
    ll_keywords: Sequence[str] = ()
    conversation_history: Sequence[ChatMessage | Mapping[str, str]] = ()
    user_prompt: str | None = None
    enable_rerank: bool | None = None
    include_references: bool = False
    disable_user_prompt_prefix: bool = False
    include_chunk_content: bool = False
    include_sources: bool = False
    return_structured: bool = False
    history_turns: int = 0
    chunk_picking: Literal["vector", "weight", "shared_relations"] | None = None
    context_format: Literal["json", "csv"] | None = None
    channels: Sequence[str] = ()
    fusion: Literal["score", "rank"] | None = None
    chat_model: ChatModel | ChatFunction | None = None
    system_prompt: str | None = None
    filter: Filter | Mapping[str, Any] | None = None
    explain: bool = False


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
        kind: What `text` is.
        retrieval: Keywords, context and counts behind it.
        is_complete: False when the chat model was cut, at a length limit or in a loop.
        from_cache: Whether it was given before and cost nothing now.
        warnings: What did not go as one would expect, in words; those of the retrieval included.
        usage: Tokens that chat models spent on it, keywords included; none if it comes from the cache.
        citations: What its sentences rest on, to the character, in the order of the text.
        unsupported_references: Citations left out because they named no document of the context.
        unsupported_sentences: Sentences that a chat model wrote without a document that supports them.
        is_unanswered: Whether it says that the documents hold no answer.
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
        """Return how a notebook shows it: the text, the documents it draws on, and what did not go as expected."""
        if self.kind in (AnswerKind.CONTEXT, AnswerKind.PROMPT):
            # As it is: what a chat model reads is no Markdown.
            return f"~~~~~~text\n{self.text}\n~~~~~~"
        parts = [self.text or self.retrieval.message]
        if self.references and "### References" not in self.text:
            documents = [f"- [{item.reference_id}] {item.source}" for item in self.references]
            parts.append("\n".join(["### References", "", *documents]))
        parts += [f"> **Warning:** {warning}" for warning in self.warnings]
        return "\n\n".join(parts)

    @property
    def is_generated(self) -> bool:
        """Whether a chat model wrote the text."""
        return self.kind is AnswerKind.GENERATED

    @property
    def mode(self) -> Mode:
        """The mode it was asked in."""
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
        """Return the answer in the shape that the question asked for.

        Returns:
            The text; with `include_sources` a dict of `answer`, `entities`, `relationships`, `chunks`, `references`
            and `metadata`; with `return_structured` (which wins) that and everything else that is known.
        """
        if param.return_structured:
            return self._sources(param) | self._details()
        return self._sources(param) if param.include_sources else self.text

    def _sources(self, param: QueryParam) -> dict[str, Any]:
        return {
            "answer": self.text,
            **context_data(self.context, param.include_chunk_content),
            "metadata": retrieval_metadata(self.retrieval),
        }

    def _details(self) -> dict[str, Any]:
        return {
            "status": self.retrieval.status,
            "message": self.retrieval.message,
            "question": self.retrieval.question,
            "mode": self.mode.value,
            "context": self.context.text,
            "kind": self.kind.value,
            "is_generated": self.is_generated,
            "is_complete": self.is_complete,
            "from_cache": self.from_cache,
            "warnings": list(self.warnings),
            "citations": [citation_data(citation) for citation in self.citations],
            "unsupported_references": self.unsupported_references,
            "unsupported_sentences": self.unsupported_sentences,
            "is_unanswered": self.is_unanswered,
            "usage": {"input_tokens": self.usage.input_tokens, "output_tokens": self.usage.output_tokens},
        }
