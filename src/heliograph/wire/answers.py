"""Answers and retrievals as they go over the wire: what `/query`, `/query/data` and `/api/v1/retrieve` reply.

These are supersets of LightRAG's. The service writes them as plain dicts, since they may be large: `query.payloads`
has the dicts of `/query/data` and the functions that fill them, `wire.query` writes the answers and `/api/v1/retrieve`.
The models here serve its documentation, its clients and the tests that hold one against the other.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from heliograph.models import ChunkOutcome, Usage
from heliograph.wire.base import ChunkDetails, EntityHead, RelationHead, Shape, may_lack


class ReferenceItem(Shape):
    """A source that an answer draws on; several documents may have it."""

    model_config = ConfigDict(json_schema_extra=may_lack("content", "other_file_paths"))

    reference_id: str
    file_path: str
    count: int = Field(0, description="Chunks of it in the context.")
    content: tuple[str, ...] | None = Field(None, description="Texts of its chunks, with `include_chunk_content`.")
    other_file_paths: tuple[str, ...] | None = Field(None, description="Sources of documents with the same text.")


class CitationItem(Shape):
    """The exact passage that a sentence of an answer rests on."""

    reference_id: str
    file_path: str
    document_id: str
    chunk_id: str
    start: int = Field(description="First character of the quote in the document's text.")
    end: int = Field(description="One past the last.")
    quote: str
    answer_start: int = Field(description="First character, in the answer, of the sentence that rests on it.")
    answer_end: int
    page: int | None = None
    headings: tuple[str, ...] = ()


# An `AnswerKind` as it is written.
AnswerKindName = Literal["generated", "extractive", "nothing_found", "context", "prompt"]


class AnswerHead(Shape):
    """The fields of an answer beside its text and references."""

    mode: str
    kind: AnswerKindName
    response_time: float = Field(0.0, description="Seconds from the request to the answer.")
    llm_generated: bool = Field(False, description="Whether a chat model wrote it.")
    is_complete: bool = Field(True, description="False when the chat model was cut, at a length limit or in a loop.")
    from_cache: bool = Field(False, description="Whether it was given before.")
    is_unanswered: bool = Field(False, description="Whether it says that the documents hold no answer.")
    citations: tuple[CitationItem, ...] = Field((), description="What its sentences rest on, to the character.")
    unsupported_references: int = Field(0, description="Citations left out: they named no source of the context.")
    unsupported_sentences: int = Field(0, description="Sentences without a source that supports them.")
    warnings: tuple[str, ...] = Field((), description="What did not go as one would expect.")
    usage: Usage = Field(Usage(), description="Tokens that chat models spent on it.")


class KeywordLists(Shape):
    """The keywords of a search."""

    high_level: tuple[str, ...] = ()
    low_level: tuple[str, ...] = ()


class ExplainedChunk(Shape):
    """A passage that was found, and whether it was used."""

    chunk_id: str
    document_id: str
    source: str
    page: int | None
    headings: tuple[str, ...]
    start: int = Field(description="Place of its first character in the document's text.")
    opening: str = Field(description="How it begins.")
    tokens: int = Field(description="What its text costs.")
    place: int = Field(description="Rank after the channels were joined, from 1; 0 if it had none.")
    marks: tuple[str, ...] = Field(description="How it was found: `E5/2` is listed by 5 entities, second there.")
    scores: dict[str, float] = Field(description="What each fused channel adds; `vector` whichever found it.")
    rerank_score: float | None
    path: tuple[str, ...] = Field(description="Chunks from which bridges led to it.")
    outcome: ChunkOutcome = Field(
        description="`kept`; or dropped by number, by the reranker, or by the budget of tokens."
    )


class ExplainedItem(Shape):
    """An entity or relation that was found, and whether it fitted its budget."""

    name: str
    is_kept: bool


class ExplainedUnderstanding(Shape):
    """What mode `auto` read in the question."""

    kind: str
    entities: tuple[str, ...]
    expansions: tuple[str, ...]
    language: str
    parts: tuple[str, ...]
    sides: tuple[str, ...]
    by_model: bool


class Explanation(Shape):
    """The outcome of everything that was found for a question."""

    mode: str
    keywords: KeywordLists
    respelt: str | None = Field(description="The question as it was searched for, if names in it were misspelt.")
    understanding: ExplainedUnderstanding | None
    chunks: tuple[ExplainedChunk, ...] = Field(description="In joined order; of those dropped the best.")
    entities: tuple[ExplainedItem, ...]
    relations: tuple[ExplainedItem, ...] = Field(description="Named by their ends.")
    counts: dict[str, int] = Field(description="How many were found, and left after each cut.")
    tokens: dict[str, int] = Field(description="Per part of the prompt; `total` is the budget.")
    timings: dict[str, float] = Field(description="Seconds per stage.")
    prompt: str = Field(description="What a chat model would read.")


class QueryResponse(AnswerHead):
    """An answer; with `include_sources` or `return_structured` there are more fields beside these."""

    model_config = ConfigDict(extra="allow", json_schema_extra=may_lack("references", "explanation"))

    response: str = Field(description="The answer, or what was asked for in its place.")
    references: tuple[ReferenceItem, ...] | None = Field(None, description="Left out with `include_references` false.")
    explanation: Explanation | None = Field(None, description="With `explain`: what became of what was found.")


class ClientAnswer(AnswerHead):
    """A `QueryResponse` as a client holds it: its text is called so, and references are always there."""

    text: str = Field(
        validation_alias=AliasChoices("text", "response"), description="The answer, or what was asked for in its place."
    )
    references: tuple[ReferenceItem, ...] = Field(default=(), description="Documents that it draws on.")

    def __str__(self) -> str:
        return self.text


class DataResponse(BaseModel):
    """What was found for a question; nothing found is status `failure` with an empty `data`."""

    status: Literal["success", "failure"]
    message: str
    data: dict[str, Any] = Field(description="`entities`, `relationships`, `chunks` and `references`.")
    metadata: dict[str, Any] = Field(description="`query_mode`, `keywords`, `processing_info` and more.")


class FoundEntity(EntityHead):
    """An entity that was found; `description` holds statements joined by `<SEP>`, or a summary."""

    description: str
    chunk_ids: tuple[str, ...] = ()
    sources: tuple[str, ...] = Field((), description="Sources of its first chunks.")
    reference_id: str = Field("", description="The first reference among them, or empty.")
    created_at: int = Field(0, description="Unix seconds.")


class FoundRelation(RelationHead):
    """A relation that was found."""

    description: str
    degree: int = Field(0, description="Degree of one end plus degree of the other.")
    chunk_ids: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    reference_id: str = ""
    created_at: int = 0


class FoundChunk(ChunkDetails):
    """A passage that was found, with its place in its document."""

    id: str
    document_id: str
    source: str
    reference_id: str
    content: str = Field(description="Its text, `document_text[start:end]`.")
    start: int = Field(description="Place of its first character in the document's text.")
    end: int = Field(description="Place after its last character.")
    scores: dict[str, float] = Field({}, description="What each fused channel adds; `vector` whichever found it.")
    rerank_score: float | None = None
    found_by: tuple[str, ...] = Field(
        (), description="`C1/1`: by a search for chunks, `E2/3`: through entities, `R1/2`: through relations."
    )


class RetrieveResponse(Shape):
    """The material that an answer would be made from."""

    model_config = ConfigDict(json_schema_extra=may_lack("paths", "context", "explanation"))

    status: Literal["success", "failure"] = Field(description="`failure` where nothing was found.")
    message: str
    question: str
    mode: str
    keywords: KeywordLists
    entities: tuple[FoundEntity, ...]
    relations: tuple[FoundRelation, ...]
    chunks: tuple[FoundChunk, ...]
    references: tuple[ReferenceItem, ...]
    paths: list[dict[str, list[str]]] | None = Field(None, description="Shortest paths between named entities.")
    context: str | None = Field(None, description="The text that a chat model would read.")
    warnings: tuple[str, ...] = ()
    metadata: dict[str, Any] = Field({}, description="Counts, seconds of the stages, why nothing was found.")
    explanation: Explanation | None = Field(None, description="With `explain`: what became of what was found.")
