"""Documents on the wire in Heliograph's own words: lists, one with its chunks, updates, deletions."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from heliograph.models import Chunk, Document
from heliograph.service.principal import without_folders


class DocumentResponse(BaseModel):
    """One document."""

    id: str
    source: str
    title: str
    status: Literal["pending", "parsing", "processing", "processed", "partial", "failed"] = Field(
        description="`partial`: in everything, but some chunks could not be read."
    )
    error: str
    metadata: dict[str, Any]
    length: int = Field(description="Characters of its text.")
    chunk_count: int
    track_id: str
    created_at: str = Field(description="ISO 8601, UTC.")
    updated_at: str = Field(description="ISO 8601, UTC.")
    twin_of: str = Field(description="Id of the document that holds the chunks of the same text; empty if it does.")

    @classmethod
    def of(cls, document: Document) -> DocumentResponse:
        """Return a document as JSON."""
        return cls(
            id=document.id,
            source=document.source,
            title=document.title,
            status=document.status.value,
            error=without_folders(document.error),
            metadata=dict(document.metadata),
            length=document.length,
            chunk_count=document.chunk_count,
            track_id=document.track_id,
            created_at=document.created_at.isoformat(),
            updated_at=document.updated_at.isoformat(),
            twin_of=document.twin_of,
        )


class ListResponse(BaseModel):
    """One page of documents."""

    documents: list[DocumentResponse]
    total: int
    offset: int
    limit: int


class ChunkResponse(BaseModel):
    """One passage."""

    id: str
    position: int
    text: str
    token_count: int
    start: int = Field(description="First character in the document's text.")
    end: int = Field(description="One past the last.")
    headings: list[str]
    page: int | None

    @classmethod
    def of(cls, chunk: Chunk) -> ChunkResponse:
        """Return a chunk as JSON."""
        return cls(
            id=chunk.id,
            position=chunk.position,
            text=chunk.text,
            token_count=chunk.token_count,
            start=chunk.start,
            end=chunk.end,
            headings=list(chunk.headings),
            page=chunk.page,
        )


class DetailResponse(DocumentResponse):
    """One document and a page of its chunks."""

    chunks: list[ChunkResponse]
    chunk_offset: int


class TextResponse(BaseModel):
    """A document's text, or a part of it."""

    id: str
    source: str
    text: str
    offset: int = Field(description="First character.")
    total_characters: int


class UpdateRequest(BaseModel):
    """What a document shall be; what is not given stays as it is."""

    model_config = ConfigDict(json_schema_extra={"example": {"text": "ESP32 speaks MQTT 5 over TLS 1.3."}})

    text: Annotated[str, StringConstraints(min_length=1)] | None = Field(
        default=None, description="In place of its text."
    )
    title: Annotated[str, StringConstraints(max_length=1_000)] | None = Field(
        default=None, description="Empty means the first heading, else from the source."
    )
    metadata: dict[str, Any] | None = Field(default=None, description="In place of its metadata.")


class ChangeRequest(BaseModel):
    """What of a document to change (RFC 7396 for `metadata`: fields are merged, null removes one)."""

    model_config = ConfigDict(json_schema_extra={"example": {"metadata": {"team": "red", "draft": None}}})

    title: Annotated[str, StringConstraints(max_length=1_000)] | None = None
    metadata: dict[str, Any] | None = None


class ChangeResponse(BaseModel):
    """What became of an update."""

    status: Literal["success", "unchanged"] = Field(
        description="`unchanged`: the text is the same, and nothing has to be read again."
    )
    message: str
    track_id: str
    document: DocumentResponse


class RemovalResponse(BaseModel):
    """What a deletion did, or that it goes on."""

    status: Literal["deleted", "deletion_started"]
    message: str
    job_id: str = Field(description="The job that deletes, see `/documents/jobs/{job_id}`; empty if nothing matched.")
    count: int = Field(description="Documents to delete.")


class DeleteMatchingRequest(BaseModel):
    """Which documents to delete: all that match everything given; at least one condition is needed."""

    model_config = ConfigDict(json_schema_extra={"example": {"filter": {"team": "red"}}})

    source_prefix: Annotated[str, StringConstraints(min_length=1, max_length=4_096)] | None = None
    filter: dict[str, Any] | None = Field(default=None, description="As questions have it.")
    delete_file: bool = False


class UrlRequest(BaseModel):
    """A web page or file to fetch."""

    model_config = ConfigDict(json_schema_extra={"example": {"url": "https://example.org/page.html"}})

    url: Annotated[str, StringConstraints(min_length=1, max_length=4_096, strip_whitespace=True)]
    metadata: dict[str, Any] | None = None
