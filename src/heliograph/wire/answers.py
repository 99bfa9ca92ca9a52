"""Answers and retrievals as they go over the wire: what `/query`, `/query/data` and `/api/v1/retrieve` reply.

These are supersets of LightRAG's. The service writes them as plain dicts (`wire.query`), since they may be large; the
models serve its documentation, its clients and the tests that hold one against the other.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from heliograph.wire.base import EntityHead, RelationHead, Shape, may_lack


class ReferenceItem(Shape):
    """A document that an answer draws on."""

    model_config = ConfigDict(json_schema_extra=may_lack("content", "other_file_paths"))

    reference_id: str
    file_path: str
    count: int = Field(0, description="Chunks of it in the context.")
    content: tuple[str, ...] | None = Field(None, description="Texts of its chunks, with `include_chunk_content`.")
    other_file_paths: tuple[str, ...] | None = Field(None, description="Documents with the same text.")


class CitationItem(Shape):
    """What a sentence of an answer rests on, to the character."""

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


class TokenUsage(Shape):
    """Tokens that chat models spent."""

    input_tokens: int = 0
    output_tokens: int = 0


class AnswerHead(Shape):
    """All that is told of an answer beside its text and references."""

    mode: str
    kind: Literal["generated", "extractive", "nothing_found", "context", "prompt"]
    response_time: float = Field(0.0, description="Seconds from the request to the answer.")
    llm_generated: bool = Field(False, description="Whether a chat model wrote it.")
    is_complete: bool = Field(True, description="False when the chat model was cut, at a length limit or in a loop.")
    from_cache: bool = Field(False, description="Whether it was given before.")
    is_unanswered: bool = Field(False, description="Whether it says that the documents hold no answer.")
    citations: tuple[CitationItem, ...] = Field((), description="What its sentences rest on, to the character.")
    unsupported_references: int = Field(0, description="Citations left out: they named no document of the context.")
    unsupported_sentences: int = Field(0, description="Sentences without a document that supports them.")
    warnings: tuple[str, ...] = Field((), description="What did not go as one would expect.")
    usage: TokenUsage = Field(TokenUsage(), description="Tokens that chat models spent on it.")


class QueryResponse(AnswerHead):
    """An answer; with `include_sources` or `return_structured` there are more fields beside these."""

    model_config = ConfigDict(extra="allow", json_schema_extra=may_lack("references"))

    response: str = Field(description="The answer, or what was asked for in its place.")
    references: tuple[ReferenceItem, ...] | None = Field(None, description="Left out with `include_references` false.")


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


class FoundChunk(Shape):
    """A passage that was found, with its place in its document."""

    id: str
    document_id: str
    source: str
    reference_id: str
    content: str = Field(description="Its text, `document_text[start:end]`.")
    start: int = Field(description="Place of its first character in the document's text.")
    end: int = Field(description="Place after its last character.")
    page: int | None = None
    headings: tuple[str, ...] = ()
    scores: dict[str, float] = Field({}, description="What each fused channel adds to its score.")
    rerank_score: float | None = None
    found_by: tuple[str, ...] = Field(
        (), description="`C1/1`: by its own vector, `E2/3`: through entities, `R1/2`: through relations."
    )


class KeywordLists(Shape):
    """What was searched for."""

    high_level: tuple[str, ...] = ()
    low_level: tuple[str, ...] = ()


class RetrieveResponse(Shape):
    """What an answer would be made from."""

    model_config = ConfigDict(json_schema_extra=may_lack("paths", "context"))

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
