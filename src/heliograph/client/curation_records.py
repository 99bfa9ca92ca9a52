"""Corrections of the graph as a service tells of them, frozen."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

__all__ = [
    "CurationEdit",
    "CurationPage",
    "CurationRecord",
    "DuplicateRecord",
    "DuplicatesFound",
    "HistoryRecord",
    "StatementRecord",
]


@dataclass(frozen=True, slots=True)
class CurationEdit:
    """What a correction came to.

    Attributes:
        message: In words.
        names: What it is called now: the entity, or both ends of the relation.
        curation_ids: What was recorded, in order; each can be undone.
        is_merged: Whether the entity became part of another one.
    """

    message: str
    names: tuple[str, ...]
    curation_ids: tuple[str, ...]
    is_merged: bool = False


@dataclass(frozen=True, slots=True)
class CurationRecord:
    """A correction; it counts until `undone_at`.

    `kind` is `create_entity`, `edit_entity`, `rename_entity`, `merge_entities`, `split_entity`, `delete_entity` or the
    same of a relation. Of a merge, the last of `names` is what the others became.
    """

    id: str
    kind: str
    names: tuple[str, ...]
    author: str
    created_at: datetime
    type: str | None = None
    description: str | None = None
    keywords: tuple[str, ...] | None = None
    weight: float | None = None
    scope: tuple[str, ...] = ()
    undone_by: str = ""
    undone_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class CurationPage:
    """A page of corrections, the latest first; `total` is how many there are."""

    curations: tuple[CurationRecord, ...]
    total: int


@dataclass(frozen=True, slots=True)
class StatementRecord:
    """What one chunk says of an entity, or of a relation."""

    chunk_id: str
    document_id: str
    file_path: str
    position: int
    names: tuple[str, ...]
    type: str = ""
    description: str = ""
    keywords: tuple[str, ...] = ()
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class HistoryRecord:
    """Who said what: a page of what chunks say, and all that people did, earliest first."""

    id: str
    statements: tuple[StatementRecord, ...]
    statement_count: int
    curations: tuple[CurationRecord, ...]


@dataclass(frozen=True, slots=True)
class DuplicateRecord:
    """Two entities that may be one; `score` is the mean of the other two likenesses, in [0, 1]."""

    name: str
    other: str
    score: float
    cosine: float
    similarity: float
    reason: str = ""


@dataclass(frozen=True, slots=True)
class DuplicatesFound:
    """Pairs, the most alike first."""

    pairs: tuple[DuplicateRecord, ...]
