"""The shape of `/api/v1/retrieve`: what was found, with lists as lists and every id, for other programs to use."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from heliograph.query.data import reference_data, retrieval_metadata
from heliograph.query.retrieved import Retrieval, RetrievedChunk, RetrievedEntity, RetrievedRelation
from heliograph.server.schemas.query import QueryOptions, Question


class RetrieveRequest(QueryOptions):
    """A question to retrieve for."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"query": "How does the ESP32 connect?", "mode": "fusion", "chunk_top_k": 10}]}
    )

    query: Question = Field(description="The question.")
    include_context: bool = Field(True, description="Give the text that a chat model would read.")

    def texts(self) -> list[str]:
        """Return all free text."""
        return [*super().texts(), self.query]


class EntityItem(BaseModel):
    """An entity."""

    id: str
    name: str
    type: str
    description: str
    chunk_ids: list[str]
    sources: list[str] = Field(description="Sources of its first chunks.")
    reference_id: str = Field(description="The first reference among them, or empty.")
    created_at: int = Field(description="Unix seconds.")


class RelationItem(BaseModel):
    """A relation."""

    id: str
    source: str
    target: str
    description: str
    keywords: list[str]
    weight: float
    degree: int = Field(description="Degree of one end plus degree of the other.")
    chunk_ids: list[str]
    sources: list[str]
    reference_id: str
    created_at: int


class ChunkItem(BaseModel):
    """A passage, with its place in its document."""

    id: str
    document_id: str
    source: str
    reference_id: str
    content: str
    start: int = Field(description="Place of its first character in the document's text.")
    end: int = Field(description="Place after its last character.")
    page: int | None
    headings: list[str]
    scores: dict[str, float] = Field(description="What each fused channel adds to its score.")
    rerank_score: float | None
    found_by: list[str] = Field(description="`C` by its own vector, `E` through entities, `R` through relations.")


class ReferenceRow(BaseModel):
    """A document that the context quotes."""

    reference_id: str
    file_path: str
    count: int
    other_file_paths: list[str] | None = None


class KeywordLists(BaseModel):
    """What was searched for."""

    high_level: list[str]
    low_level: list[str]


class RetrieveResponse(BaseModel):
    """What was found."""

    status: Literal["success", "failure"]
    message: str
    question: str
    mode: str
    keywords: KeywordLists
    entities: list[EntityItem]
    relations: list[RelationItem]
    chunks: list[ChunkItem]
    references: list[ReferenceRow]
    paths: list[dict[str, list[str]]] | None = Field(None, description="Shortest paths between named entities.")
    context: str | None = Field(None, description="The text that a chat model would read.")
    warnings: list[str]
    metadata: dict[str, Any] = Field(description="Counts, seconds of the stages, why nothing was found.")


def retrieval_body(retrieval: Retrieval, *, include_context: bool) -> dict[str, Any]:
    """Return a retrieval as a `RetrieveResponse` in plain dicts."""
    context = retrieval.context
    keywords = retrieval.keywords
    body: dict[str, Any] = {
        "status": retrieval.status,
        "message": retrieval.message,
        "question": retrieval.question,
        "mode": retrieval.mode.value,
        "keywords": {"high_level": list(keywords.high_level), "low_level": list(keywords.low_level)},
        "entities": [_entity(item) for item in context.entities],
        "relations": [_relation(item) for item in context.relations],
        "chunks": [_chunk(item) for item in context.chunks],
        "references": reference_data(context),
        "warnings": list(retrieval.warnings),
        "metadata": retrieval_metadata(retrieval),
    }
    if context.paths is not None:
        body["paths"] = [
            {
                "entities": [entity.name for entity in path.entities],
                "relations": [relation.description for relation in path.relations],
            }
            for path in context.paths
        ]
    return body | ({"context": context.text} if include_context else {})


def _entity(item: RetrievedEntity) -> dict[str, Any]:
    entity = item.entity
    return {
        "id": entity.id,
        "name": entity.name,
        "type": entity.type,
        "description": entity.description,
        "chunk_ids": list(entity.chunk_ids),
        "sources": list(item.sources),
        "reference_id": item.reference_id,
        "created_at": entity.created_at,
    }


def _relation(item: RetrievedRelation) -> dict[str, Any]:
    relation = item.relation
    return {
        "id": relation.id,
        "source": relation.source,
        "target": relation.target,
        "description": relation.description,
        "keywords": list(relation.keywords),
        "weight": relation.weight,
        "degree": item.degree,
        "chunk_ids": list(relation.chunk_ids),
        "sources": list(item.sources),
        "reference_id": item.reference_id,
        "created_at": relation.created_at,
    }


def _chunk(item: RetrievedChunk) -> dict[str, Any]:
    chunk = item.chunk
    return {
        "id": chunk.id,
        "document_id": chunk.document_id,
        "source": item.source,
        "reference_id": item.reference_id,
        "content": chunk.text,
        "start": chunk.start,
        "end": chunk.end,
        "page": chunk.page,
        "headings": list(chunk.headings),
        "scores": {name: round(score, 6) for name, score in item.scores.items()},
        "rerank_score": item.rerank_score,
        "found_by": [str(mark) for mark in item.marks],
    }
