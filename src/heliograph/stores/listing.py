"""What is asked of stores, and the pages and hits that come back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from heliograph.arguments import check_count, check_limit
from heliograph.errors import InvalidRequestError
from heliograph.filters import Filter, check_filter, matches
from heliograph.ids import is_storable, is_subject_rank
from heliograph.models import Curation, Document, DocumentStatus, EntityEvidence

DocumentSort = Literal["created_at", "updated_at", "source", "id"]


@dataclass(frozen=True, slots=True)
class Hit:
    """One search result: an id and its score, higher is better."""

    id: str
    score: float


@dataclass(frozen=True, slots=True)
class DocumentQuery:
    """Which documents to list; every condition given must hold.

    Attributes:
        statuses: Any of these; empty means all.
        track_id: Of this batch.
        source_prefix: Whose source starts so.
        filter: Which match it.
        content_hashes: Whose text has any of these hashes; empty means any text.
        twin_of: Which are twins of this document.
        sort: Field to sort by; ties by id.
        descending: Largest first.
        offset: Documents to skip.
        limit: Documents to return at the most; `sys.maxsize` for all.

    Raises:
        InvalidRequestError: The filter is none, there is no such field to sort by, or a number is negative or
            `offset` above `LARGEST_COUNT`.
    """

    statuses: tuple[DocumentStatus, ...] = ()
    track_id: str | None = None
    source_prefix: str | None = None
    filter: Filter | None = None
    content_hashes: tuple[str, ...] = ()
    twin_of: str | None = None
    sort: DocumentSort = "created_at"
    descending: bool = False
    offset: int = 0
    limit: int = 100

    def __post_init__(self) -> None:
        # What is no filter must not pass for none: what matches may be about to be deleted.
        if isinstance(self.filter, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidRequestError(f"filter is {self.filter!r:.200}; read it with heliograph.filters.parse_filter")
        if self.filter is not None:
            check_filter(self.filter)
        if self.source_prefix is not None and not isinstance(self.source_prefix, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidRequestError(f"source_prefix is {self.source_prefix!r}; give a string")
        if self.sort not in get_args(DocumentSort):
            raise InvalidRequestError(f"sort is {self.sort!r}; choose one of {', '.join(get_args(DocumentSort))}")
        object.__setattr__(self, "offset", check_count("offset", self.offset))
        object.__setattr__(self, "limit", check_limit("limit", self.limit))

    @property
    def can_match(self) -> bool:
        """Whether all its texts are such as a store can hold; no document answers others."""
        texts = (self.track_id, self.source_prefix, self.twin_of, *self.content_hashes)
        return all(text is None or is_storable(text) for text in texts)


@dataclass(frozen=True, slots=True)
class DocumentPage:
    """Documents that answer a `DocumentQuery`, and how many there are without its limit."""

    documents: tuple[Document, ...]
    total: int


def is_wanted(document: Document, query: DocumentQuery) -> bool:
    """Return whether every condition of a query holds for a document."""
    return (
        (not query.statuses or document.status in query.statuses)
        and (query.track_id is None or document.track_id == query.track_id)
        and (query.source_prefix is None or document.source.startswith(query.source_prefix))
        and (query.filter is None or matches(query.filter, document))
        and (not query.content_hashes or document.content_hash in query.content_hashes)
        and (query.twin_of is None or document.twin_of == query.twin_of)
    )


@dataclass(frozen=True, slots=True)
class EntityPlaces:
    """Where an entity is mentioned: of its evidence what it takes to go from chunk to chunk.

    Attributes:
        id: The entity's id.
        mention_count: Number of mentions.
        chunk_ids: The chunks of its mentions in canonical order, one for each; of an entity that is mentioned more
            often than was asked for, the first of those that are about it.
        subjects: How many of these, the first ones, are about it.
    """

    id: str
    mention_count: int
    chunk_ids: tuple[str, ...]
    subjects: int

    @property
    def about(self) -> tuple[str, ...]:
        """Chunks that are about it, once each, in canonical order, at most as many as were asked for."""
        return tuple(dict.fromkeys(self.chunk_ids[: self.subjects]))


def places_of(evidence: EntityEvidence, most: int) -> EntityPlaces:
    """Return where an entity is mentioned, given its evidence with its first `most` mentions."""
    leading = evidence.leading
    subjects = sum(is_subject_rank(mention.rank) for mention in leading)
    read = leading if evidence.mention_count <= most else leading[:subjects]
    return EntityPlaces(evidence.id, evidence.mention_count, tuple(mention.chunk_id for mention in read), subjects)


@dataclass(frozen=True, slots=True)
class IncidentRelation:
    """A relation that touches a given entity, with what ranks it.

    Attributes:
        id: The relation's id.
        degree: Degree of one end plus degree of the other.
        weight: The relation's weight.
    """

    id: str
    degree: int
    weight: float


@dataclass(frozen=True, slots=True)
class CurationQuery:
    """Which curations to list; every condition given must hold.

    Attributes:
        entity_id: That names this entity, alone or as an end of a relation.
        includes_undone: Whether to list those that were taken back, too.
        descending: Latest first.
        offset: Curations to skip.
        limit: Curations to return at the most; `sys.maxsize` for all.

    Raises:
        InvalidRequestError: A number is negative, or `offset` above `LARGEST_COUNT`.
    """

    entity_id: str | None = None
    includes_undone: bool = True
    descending: bool = False
    offset: int = 0
    limit: int = 100

    def __post_init__(self) -> None:
        object.__setattr__(self, "offset", check_count("offset", self.offset))
        object.__setattr__(self, "limit", check_limit("limit", self.limit))


@dataclass(frozen=True, slots=True)
class CurationPage:
    """Curations that answer a `CurationQuery`, and how many there are without its limit."""

    curations: tuple[Curation, ...]
    total: int
