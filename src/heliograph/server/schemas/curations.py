"""Corrections of the graph by hand, who said what of a thing, and entities that may be one."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from heliograph.curation.duplicate_entities import DuplicatePair
from heliograph.curation.history import History, Statement
from heliograph.models import Curation
from heliograph.server.schemas.graph_edits import EntityName

_Ids = Annotated[list[Annotated[str, Field(max_length=200)]], Field(max_length=10_000)]


class SplitRequest(BaseModel):
    """Which mentions of an entity are another one."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"entity_name": "Java", "new_name": "Java (island)", "document_ids": ["doc-1"]}]
        }
    )

    entity_name: EntityName
    new_name: EntityName = Field(description="Name of the other one; no entity may have it.")
    document_ids: _Ids = Field(default=[], description="Documents that mean the other one.")
    chunk_ids: _Ids = Field(default=[], description="Chunks that mean the other one.")


class CurationItem(BaseModel):
    """One correction; it counts until it is undone."""

    id: str
    kind: str = Field(description="`create_entity`, `edit_entity`, `rename_entity`, `merge_entities` and so on.")
    names: list[str] = Field(description="What it was done to; of a merge, last what the others became.")
    type: str | None
    description: str | None
    keywords: list[str] | None
    weight: float | None
    scope: list[str] = Field(description="Of a split: documents and chunks whose mentions go to the new name.")
    author: str
    created_at: datetime
    undone_by: str
    undone_at: datetime | None = Field(description="None while it counts.")

    @classmethod
    def of(cls, item: Curation) -> CurationItem:
        """Return what is told of a curation."""
        return cls(
            id=item.id,
            kind=item.kind.value,
            names=list(item.names),
            type=item.type,
            description=item.description,
            keywords=None if item.keywords is None else list(item.keywords),
            weight=item.weight,
            scope=list(item.scope),
            author=item.author,
            created_at=item.created_at,
            undone_by=item.undone_by,
            undone_at=item.undone_at,
        )


class CurationListResponse(BaseModel):
    """One page of corrections, the latest first."""

    curations: list[CurationItem]
    total: int = Field(description="How many there are without `limit`.")


class StatementItem(BaseModel):
    """What one chunk says."""

    chunk_id: str
    document_id: str
    file_path: str = Field(description="Source of the document.")
    position: int = Field(description="Order index of the chunk in it.")
    names: list[str] = Field(description="The name as written; of a relation both.")
    type: str
    description: str
    keywords: list[str]
    weight: float

    @classmethod
    def of(cls, item: Statement) -> StatementItem:
        """Return what is told of a statement."""
        return cls(
            chunk_id=item.chunk_id,
            document_id=item.document_id,
            file_path=item.source,
            position=item.position,
            names=list(item.names),
            type=item.type,
            description=item.description,
            keywords=list(item.keywords),
            weight=item.weight,
        )


class HistoryResponse(BaseModel):
    """Who said what of an entity or a relation."""

    id: str = Field(description="Id of the entity or relation.")
    statements: list[StatementItem] = Field(description="What chunks say, one page of it.")
    statement_count: int = Field(description="Statements there are without `limit`.")
    curations: list[CurationItem] = Field(description="What people did, earliest first.")

    @classmethod
    def of(cls, history: History) -> HistoryResponse:
        """Return what is told of a history."""
        return cls(
            id=history.id,
            statements=[StatementItem.of(item) for item in history.statements],
            statement_count=history.statement_count,
            curations=[CurationItem.of(item) for item in history.curations],
        )


class DuplicateItem(BaseModel):
    """Two entities that may be one."""

    name: str = Field(description="The better connected one.")
    other: str
    score: float = Field(description="Mean of the two below, in [0, 1].")
    cosine: float = Field(description="Likeness of their vectors.")
    similarity: float = Field(description="Likeness in spelling, in [0, 1].")
    reason: str

    @classmethod
    def of(cls, pair: DuplicatePair) -> DuplicateItem:
        """Return what is told of a pair."""
        return cls(
            name=pair.name,
            other=pair.other,
            score=pair.score,
            cosine=pair.cosine,
            similarity=pair.similarity,
            reason=pair.reason,
        )


class DuplicateResponse(BaseModel):
    """Pairs that may be one, the most alike first; merging them is left to people."""

    pairs: list[DuplicateItem]
