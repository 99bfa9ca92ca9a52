"""The data of a knowledge base, frozen and without behaviour that reads or writes.

Truth is what was said: `Document`, `Chunk`, and per chunk its `Extraction` (entity and relation mentions).
`EntityEvidence` and `RelationEvidence` are running counts over mentions; `Entity` and `Relation` are folded from them
and can always be computed again. What flows through a query lives in `heliograph.query.models`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

__all__ = [
    "Chunk",
    "Document",
    "DocumentStatus",
    "Entity",
    "EntityEvidence",
    "EntityMention",
    "Extraction",
    "GraphPath",
    "Relation",
    "RelationEvidence",
    "RelationMention",
    "Stats",
    "Subgraph",
    "Usage",
    "utc_now",
]


def utc_now() -> datetime:
    """Return the present moment, aware, in UTC."""
    return datetime.now(UTC)


class DocumentStatus(StrEnum):
    """Where a document is on its way in.

    `partial` means: in every projection, but the extraction of some chunks failed and can be retried.
    """

    PENDING = "pending"
    PARSING = "parsing"
    PROCESSING = "processing"
    PROCESSED = "processed"
    PARTIAL = "partial"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens that a model call read and wrote, as the provider counts them."""

    input_tokens: int = 0
    output_tokens: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(self.input_tokens + other.input_tokens, self.output_tokens + other.output_tokens)


@dataclass(frozen=True, slots=True)
class Document:
    """One source, without its text (which is read on its own, being large).

    Attributes:
        id: `doc-<hash>`.
        source: Path or URI as given; what citations show.
        title: First heading or file name; may be empty.
        content_hash: Hash of the whole text.
        status: Where it is on its way in.
        error: Why it failed, or which chunks did; empty otherwise.
        metadata: Free JSON of the user.
        length: Characters of text.
        chunk_count: Chunks stored; 0 until processed.
        track_id: The batch that brought it.
        usage: Tokens that chat models spent on it.
        created_at: First seen, UTC.
        updated_at: Last change, UTC.
    """

    id: str
    source: str
    title: str = ""
    content_hash: str = ""
    status: DocumentStatus = DocumentStatus.PENDING
    error: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    length: int = 0
    chunk_count: int = 0
    track_id: str = ""
    usage: Usage = Usage()
    created_at: datetime = field(default_factory=utc_now)
    updated_at: datetime = field(default_factory=utc_now)


@dataclass(frozen=True, slots=True)
class Chunk:
    """A passage of a document, and where in it the passage stands.

    Attributes:
        id: `chunk-<hash>` of document and text, so that an unchanged chunk keeps its id when the document changes.
        document_id: The document that holds it.
        position: Order index within the document, from 0.
        text: The passage, exactly `document_text[start:end]`.
        token_count: o200k_base tokens of `text`.
        start: First character in the document's text.
        end: One past the last character.
        headings: Titles of the sections around it, outermost first.
        page: Page number from 1, where the source has pages.
    """

    id: str
    document_id: str
    position: int
    text: str
    token_count: int
    start: int
    end: int
    headings: tuple[str, ...] = ()
    page: int | None = None


@dataclass(frozen=True, slots=True)
class EntityMention:
    """One chunk says something of one entity.

    Attributes:
        chunk_id: The chunk that says it.
        name: The name as written there, normalised (`heliograph.text.names.clean_name`).
        type: Lower-case type such as `person`; `unknown` casts no vote against any other.
        description: What is said; may be empty.
        rank: Place in the canonical order (`heliograph.ids.mention_rank`).
    """

    chunk_id: str
    name: str
    type: str
    description: str
    rank: int


@dataclass(frozen=True, slots=True)
class RelationMention:
    """One chunk says how two entities are related; the pair is undirected.

    Attributes:
        chunk_id: The chunk that says it.
        source: Name of one entity, normalised.
        target: Name of the other; never the same entity.
        keywords: Themes of the relation, as written.
        description: What is said; may be empty.
        weight: Strength of this one mention, 1.0 unless the extractor knows better.
        rank: Place in the canonical order.
    """

    chunk_id: str
    source: str
    target: str
    keywords: tuple[str, ...]
    description: str
    weight: float
    rank: int


@dataclass(frozen=True, slots=True)
class Extraction:
    """All that was read in one chunk.

    Attributes:
        chunk_id: The chunk.
        extractor: Name of the extractor that read it.
        entities: Entity mentions; every end point of `relations` is among them.
        relations: Relation mentions.
        error: Why nothing usable came; empty when the chunk was read.
        reply_keys: Keys of the cached model replies behind it, dropped with the chunk.
        usage: Tokens that chat models spent on it.
    """

    chunk_id: str
    extractor: str
    entities: tuple[EntityMention, ...] = ()
    relations: tuple[RelationMention, ...] = ()
    error: str = ""
    reply_keys: tuple[str, ...] = ()
    usage: Usage = Usage()


@dataclass(frozen=True, slots=True)
class EntityEvidence:
    """What all mentions of one entity add up to.

    Attributes:
        id: The entity's id.
        names: Mentions per name as written.
        types: Mentions per type.
        mention_count: Number of mentions.
        leading: The first mentions in canonical order, at most as many as were asked for.
        version: Data version of the last change; 0 when there is no evidence.
    """

    id: str
    names: Mapping[str, int]
    types: Mapping[str, int]
    mention_count: int
    leading: tuple[EntityMention, ...]
    version: int = 0


@dataclass(frozen=True, slots=True)
class RelationEvidence:
    """What all mentions of one relation add up to.

    Attributes:
        id: The relation's id.
        source_id: Entity id of the end point whose key sorts first.
        target_id: Entity id of the other.
        keywords: Mentions per keyword.
        weight_millionths: Sum of the mentions' weights in millionths; integers add up the same in any order.
        mention_count: Number of mentions.
        leading: The first mentions in canonical order, at most as many as were asked for.
        version: Data version of the last change; 0 when there is no evidence.
    """

    id: str
    source_id: str
    target_id: str
    keywords: Mapping[str, int]
    weight_millionths: int
    mention_count: int
    leading: tuple[RelationMention, ...]
    version: int = 0


@dataclass(frozen=True, slots=True)
class Entity:
    """A folded entity.

    Attributes:
        id: `ent-<hash>` of its key.
        name: Its most frequent name.
        type: Its most frequent type.
        description: Fragments joined by `<SEP>`, or their summary.
        aliases: Its other names, sorted.
        chunk_ids: Chunks that mention it, in canonical order, the first 200.
        token_count: o200k_base tokens of its line in a JSON-lines context.
        degree: Relations that touch it; kept by the graph store, ignored when written.
        created_at: Unix seconds when it first appeared; kept by the graph store, ignored when written.
    """

    id: str
    name: str
    type: str
    description: str
    aliases: tuple[str, ...] = ()
    chunk_ids: tuple[str, ...] = ()
    token_count: int = 0
    degree: int = 0
    created_at: int = 0


@dataclass(frozen=True, slots=True)
class Relation:
    """A folded relation between two entities; undirected.

    Attributes:
        id: `rel-<hash>` of the two keys.
        source: Name of the end point whose key sorts first.
        target: Name of the other.
        source_id: Entity id of `source`.
        target_id: Entity id of `target`.
        keywords: All keywords, sorted.
        description: Fragments joined by `<SEP>`, or their summary.
        weight: Sum of the mentions' weights.
        chunk_ids: Chunks that mention it, in canonical order, the first 200.
        token_count: o200k_base tokens of its line in a JSON-lines context.
        created_at: Unix seconds when it first appeared; kept by the graph store, ignored when written.
    """

    id: str
    source: str
    target: str
    source_id: str
    target_id: str
    keywords: tuple[str, ...]
    description: str
    weight: float
    chunk_ids: tuple[str, ...] = ()
    token_count: int = 0
    created_at: int = 0


@dataclass(frozen=True, slots=True)
class Subgraph:
    """Entities around a start, nearest first, and the relations among them.

    Attributes:
        entities: Each once; the start first, then by distance, degree (descending) and name.
        relations: Those whose two ends are both in `entities`.
        is_truncated: Whether a limit left something out.
    """

    entities: tuple[Entity, ...]
    relations: tuple[Relation, ...]
    is_truncated: bool


@dataclass(frozen=True, slots=True)
class GraphPath:
    """A way from one entity to another: `entities` has one more element than `relations`."""

    entities: tuple[Entity, ...]
    relations: tuple[Relation, ...]


@dataclass(frozen=True, slots=True)
class Stats:
    """Counts of one workspace.

    Attributes:
        documents: Documents per status.
        chunks: Chunks stored.
        entities: Entities folded.
        relations: Relations folded.
        cached_replies: Model replies kept.
        data_version: Raised by every commit.
        bytes_on_disk: Size of the workspace's files, 0 where the back end cannot tell.
    """

    documents: Mapping[DocumentStatus, int]
    chunks: int
    entities: int
    relations: int
    cached_replies: int
    data_version: int
    bytes_on_disk: int
