"""Documents, jobs, workspaces and the graph as a service tells of them, frozen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

__all__ = [
    "DocumentChange",
    "DocumentChunk",
    "DocumentDetail",
    "DocumentInsertion",
    "DocumentList",
    "DocumentRecord",
    "DocumentRemoval",
    "DocumentText",
    "EntityDetail",
    "EntityRecord",
    "GraphAround",
    "JobList",
    "JobRecord",
    "PathRecord",
    "PathsFound",
    "RelationDetail",
    "RelationRecord",
    "SourceRecord",
    "WorkspaceCounts",
    "WorkspaceList",
    "WorkspaceRecord",
]


@dataclass(frozen=True, slots=True)
class DocumentInsertion:
    """What was taken in; it is processed in the background. `status` is `success`, `duplicated` or less."""

    status: str
    message: str
    track_id: str
    document_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DocumentRecord:
    """A document; `status` is `pending`, `parsing`, `processing`, `processed`, `partial` or `failed`."""

    id: str
    source: str
    title: str
    status: str
    error: str
    metadata: Mapping[str, Any]
    length: int
    chunk_count: int
    track_id: str
    created_at: datetime
    updated_at: datetime
    twin_of: str = ""

    @property
    def is_finished(self) -> bool:
        """Whether nothing more happens to it unasked."""
        return self.status in ("processed", "partial", "failed")


@dataclass(frozen=True, slots=True)
class DocumentList:
    """One page of documents, and how many match in all."""

    documents: tuple[DocumentRecord, ...]
    total: int


@dataclass(frozen=True, slots=True)
class DocumentChunk:
    """A passage of a document."""

    id: str
    position: int
    text: str
    token_count: int
    start: int
    end: int
    headings: tuple[str, ...] = ()
    page: int | None = None


@dataclass(frozen=True, slots=True)
class DocumentDetail(DocumentRecord):
    """A document and a page of its chunks."""

    chunks: tuple[DocumentChunk, ...] = ()
    chunk_offset: int = 0


@dataclass(frozen=True, slots=True)
class DocumentText:
    """A document's text."""

    id: str
    text: str


@dataclass(frozen=True, slots=True)
class DocumentChange:
    """A changed document; `status` is `success` or `unchanged`."""

    status: str
    message: str
    track_id: str
    document: DocumentRecord


@dataclass(frozen=True, slots=True)
class DocumentRemoval:
    """A deletion; `deletion_started` goes on as a job."""

    status: str
    message: str
    job_id: str
    count: int


@dataclass(frozen=True, slots=True)
class JobRecord:
    """Background work; `state` is `waiting`, `running`, `done`, `failed` or `cancelled`."""

    id: str
    kind: str
    state: str
    track_id: str
    author: str
    done: int
    total: int
    error: str
    created_at: datetime
    started_at: datetime | None = None
    finished_at: datetime | None = None
    counts: Mapping[str, int] = field(default_factory=dict[str, int])
    problems: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class JobList:
    """Jobs, the latest first, and how many there are."""

    jobs: tuple[JobRecord, ...]
    total: int


@dataclass(frozen=True, slots=True)
class WorkspaceRecord:
    """A workspace."""

    name: str
    is_default: bool = False


@dataclass(frozen=True, slots=True)
class WorkspaceList:
    """Workspaces that the credentials may enter."""

    workspaces: tuple[WorkspaceRecord, ...]
    default: str


@dataclass(frozen=True, slots=True)
class WorkspaceCounts:
    """What a workspace holds."""

    name: str
    documents: Mapping[str, int]
    chunks: int
    entities: int
    relations: int
    data_version: int = 0
    bytes_on_disk: int = 0


@dataclass(frozen=True, slots=True)
class EntityRecord:
    """An entity of the graph; `created_at` in Unix seconds."""

    id: str
    name: str
    type: str
    descriptions: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    degree: int = 0
    chunk_count: int = 0
    created_at: int = 0


@dataclass(frozen=True, slots=True)
class RelationRecord:
    """A relation of the graph, without direction."""

    id: str
    source: str
    target: str
    keywords: tuple[str, ...] = ()
    descriptions: tuple[str, ...] = ()
    weight: float = 1.0
    chunk_count: int = 0
    created_at: int = 0


@dataclass(frozen=True, slots=True)
class SourceRecord:
    """A chunk that mentions something, and where it stands."""

    chunk_id: str
    document_id: str
    file_path: str
    position: int
    text: str
    start: int
    end: int
    page: int | None = None
    headings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class EntityDetail:
    """An entity and a page of the chunks that mention it."""

    entity: EntityRecord
    sources: tuple[SourceRecord, ...]
    source_count: int


@dataclass(frozen=True, slots=True)
class RelationDetail:
    """A relation and a page of the chunks that tell of it."""

    relation: RelationRecord
    sources: tuple[SourceRecord, ...]
    source_count: int


@dataclass(frozen=True, slots=True)
class GraphAround:
    """What lies around an entity, nearest first."""

    entities: tuple[EntityRecord, ...]
    relations: tuple[RelationRecord, ...]
    is_truncated: bool


@dataclass(frozen=True, slots=True)
class PathRecord:
    """A way from one entity to another."""

    entities: tuple[EntityRecord, ...]
    relations: tuple[RelationRecord, ...]


@dataclass(frozen=True, slots=True)
class PathsFound:
    """The shortest ways, strongest first."""

    paths: tuple[PathRecord, ...]
