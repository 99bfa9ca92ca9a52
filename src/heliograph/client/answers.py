"""What is asked of a service and what comes back, frozen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from numbers import Integral
from operator import index
from typing import Any, Literal

__all__ = [
    "ClientAnswer",
    "ClientChunk",
    "ClientCitation",
    "ClientEntity",
    "ClientKeywords",
    "ClientReference",
    "ClientRelation",
    "ClientRetrieval",
    "ClientUsage",
    "QueryOptions",
]


@dataclass(frozen=True, slots=True)
class QueryOptions:
    """How a question is asked, beside its mode; None leaves it to the service. `QueryParam` tells what each means.

    Attributes:
        conversation_history: Earlier messages, oldest first, each `{"role": ..., "content": ...}`; not for `retrieve`.
        include_chunk_content: Give references the texts of their chunks; not for `retrieve`.
    """

    response_type: str | None = None
    top_k: int | None = None
    chunk_top_k: int | None = None
    max_entity_tokens: int | None = None
    max_relation_tokens: int | None = None
    max_total_tokens: int | None = None
    hl_keywords: Sequence[str] | None = None
    ll_keywords: Sequence[str] | None = None
    conversation_history: Sequence[Mapping[str, str]] | None = None
    history_turns: int | None = None
    user_prompt: str | None = None
    enable_rerank: bool | None = None
    only_need_context: bool | None = None
    only_need_prompt: bool | None = None
    include_chunk_content: bool | None = None
    filter: Mapping[str, Any] | None = None
    channels: Sequence[str] | None = None
    fusion: Literal["score", "rank"] | None = None
    chunk_picking: Literal["vector", "weight", "shared_relations"] | None = None
    context_format: Literal["json", "csv"] | None = None

    def to_json(self) -> dict[str, Any]:
        """Return what is given, as the service reads it."""
        given = {item.name: getattr(self, item.name) for item in fields(self)}
        return {name: _plain(value) for name, value in given.items() if value is not None}


def _plain(value: Any) -> Any:
    # Those of NumPy are none to the writer of JSON.
    if isinstance(value, Integral) and not isinstance(value, int):
        return index(value)
    return list(value) if isinstance(value, tuple) else value


@dataclass(frozen=True, slots=True)
class ClientReference:
    """A document that an answer draws on.

    Attributes:
        reference_id: The number that the answer cites.
        file_path: Its source.
        count: Chunks of it in the context.
        other_file_paths: Sources of documents with the same text.
        content: Texts of its chunks, where asked for.
    """

    reference_id: str
    file_path: str
    count: int = 0
    other_file_paths: tuple[str, ...] | None = None
    content: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class ClientCitation:
    """What a sentence of an answer rests on, to the character; `page` and headings where the document has them."""

    reference_id: str
    file_path: str
    document_id: str
    chunk_id: str
    start: int
    end: int
    quote: str
    answer_start: int
    answer_end: int
    page: int | None = None
    headings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ClientUsage:
    """Tokens that chat models spent."""

    input_tokens: int = 0
    output_tokens: int = 0


@dataclass(frozen=True, slots=True)
class ClientAnswer:
    """An answer.

    Attributes:
        text: The answer, or what was asked for in its place.
        mode: The mode it was asked in.
        kind: `generated`, `extractive`, `nothing_found`, `context` or `prompt`.
        references: Documents that it draws on.
        citations: What its sentences rest on.
        is_complete: False when the chat model was cut at a length limit.
        from_cache: Whether it was given before.
        is_unanswered: Whether it says that the documents hold no answer.
        unsupported_references: Citations left out because they named no document of the context.
        unsupported_sentences: Sentences without a document that supports them.
        warnings: What did not go as one would expect.
        usage: Tokens spent.
        response_time: Seconds that the service took.
    """

    text: str
    mode: str
    kind: str
    references: tuple[ClientReference, ...] = ()
    citations: tuple[ClientCitation, ...] = ()
    is_complete: bool = True
    from_cache: bool = False
    is_unanswered: bool = False
    unsupported_references: int = 0
    unsupported_sentences: int = 0
    warnings: tuple[str, ...] = ()
    usage: ClientUsage = ClientUsage()
    response_time: float = 0.0

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class ClientEntity:
    """An entity of a result; `description` holds statements joined by `<SEP>`, or a summary."""

    id: str
    name: str
    type: str
    description: str
    chunk_ids: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    reference_id: str = ""


@dataclass(frozen=True, slots=True)
class ClientRelation:
    """A relation of a result; it has no direction."""

    id: str
    source: str
    target: str
    description: str
    keywords: tuple[str, ...] = ()
    weight: float = 1.0
    degree: int = 0
    chunk_ids: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    reference_id: str = ""


@dataclass(frozen=True, slots=True)
class ClientChunk:
    """A passage of a result.

    Attributes:
        content: Its text, `document_text[start:end]`.
        scores: What each channel adds to its score, where channels are fused.
        found_by: How it was found: `C1/1` by its own vector, `E2/3` through entities, `R1/2` through relations.
    """

    id: str
    document_id: str
    source: str
    reference_id: str
    content: str
    start: int
    end: int
    page: int | None = None
    headings: tuple[str, ...] = ()
    scores: Mapping[str, float] = field(default_factory=dict[str, float])
    rerank_score: float | None = None
    found_by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ClientKeywords:
    """What was searched for."""

    high_level: tuple[str, ...] = ()
    low_level: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ClientRetrieval:
    """What an answer would be made from.

    Attributes:
        status: `success`, or `failure` where nothing was found.
        context: The text that a chat model would read, where asked for.
        metadata: Counts, seconds of the stages, why nothing was found.
    """

    status: str
    message: str
    question: str
    mode: str
    keywords: ClientKeywords
    entities: tuple[ClientEntity, ...]
    relations: tuple[ClientRelation, ...]
    chunks: tuple[ClientChunk, ...]
    references: tuple[ClientReference, ...]
    warnings: tuple[str, ...] = ()
    context: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
