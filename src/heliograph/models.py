"""The data of a knowledge base, frozen and without behaviour that reads or writes.

The primary records are `Document`, `Chunk`, per chunk its `Extraction` (entity and relation mentions, and aliases),
and the `Curation`s by which people corrected the graph.
`EntityEvidence` and `RelationEvidence` are running counts over mentions; `Entity` and `Relation` are folded from them
and can always be recomputed. The types of a query live in `heliograph.query.models`, except `Mode`, which clients of a
service need too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, Final, Literal

# LightRAG's separator between parts of one text: fragments of a description, chunk ids, sources.
FIELD_SEPARATOR = "<SEP>"


def utc_now() -> datetime:
    """Return the current time, timezone-aware, in UTC."""
    return datetime.now(UTC)


class Mode(StrEnum):
    """How a question is answered; `heliograph.query.plan` says which channels each one uses."""

    LOCAL = "local"
    GLOBAL = "global"
    HYBRID = "hybrid"
    MIX = "mix"
    FUSION = "fusion"
    AUTO = "auto"
    NAIVE = "naive"
    BYPASS = "bypass"


# A mode as a string.
ModeName = Literal["auto", "fusion", "mix", "hybrid", "local", "global", "naive", "bypass"]
# Sort keys of document lists. `created_at` is when a document was first seen, as in `Document`; the time when it was
# written is in its metadata (`heliograph.documents.base.WRITTEN_AT`).
DocumentSort = Literal["created_at", "updated_at", "source", "id"]
# The sources of an entity or relation come from its first so many chunks; as in LightRAG.
MOST_SOURCES = 75
# How chunks of several channels are fused: by weighted score, or by reciprocal rank.
FusionName = Literal["score", "rank"]
# Channels that a question may add to those of its mode.
ChannelName = Literal["vector", "keyword", "bridge", "graph"]
# How chunks of entities and relations are picked.
ChunkPicking = Literal["vector", "weight", "shared_relations"]
# JSON lines, or CSV tables.
ContextFormatName = Literal["json", "csv"]
# Why a chunk that was found was kept or dropped; see `TracedChunk`. The web page has a word for each (`o_...`).
ChunkOutcome = Literal["kept", "count", "rerank", "budget"]
# The mode of a question without one, except on LightRAG's routes (`heliograph.wire.query.LIGHTRAG_MODE`).
DEFAULT_MODE: Final = Mode.AUTO


class DocumentStatus(StrEnum):
    """The ingest status of a document.

    `partial` means: in every projection, but the extraction of some chunks failed and can be retried. A document is
    `pending` until it is committed. Nothing sets `parsing` and `processing`, LightRAG's statuses, by which its clients
    list documents.
    """

    PENDING = "pending"
    PARSING = "parsing"
    PROCESSING = "processing"
    PROCESSED = "processed"
    PARTIAL = "partial"
    FAILED = "failed"


COMMITTED_STATUSES = (DocumentStatus.PROCESSED, DocumentStatus.PARTIAL)  # in every projection
WAITING_STATUSES = (DocumentStatus.PENDING, DocumentStatus.PARSING, DocumentStatus.PROCESSING)  # for `resume`
RETRIED_STATUSES = (DocumentStatus.FAILED, DocumentStatus.PARTIAL)  # `retry` reads them again


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens that a model call read and wrote, as the provider counts them."""

    input_tokens: int = 0
    output_tokens: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(self.input_tokens + other.input_tokens, self.output_tokens + other.output_tokens)


# The time resolution of stores.
_TICK: Final = timedelta(microseconds=1)
# Marks a field that is shown wherever its document or chunk is, and that filters may use.
_DETAIL: Final = {"is_detail": True}
# Marks a field of documents that an update keeps. The update resets all others, so a field that the ingest computes
# is 0 until the new text is committed, unless it is marked.
_KEPT: Final = {"is_kept": True}


@dataclass(frozen=True, slots=True)
class Document:
    """One source, without its text (which is read on its own, being large).

    Columns of stores, archives and exports are derived from its fields; its details are also searchable by filters and
    shown in listings. A new field needs a default, for existing documents, and a migration in each store on SQL
    (CONTRIBUTING.md, "Adding something"). Callers set details by fields of the same name.

    Attributes:
        id: `doc-<hash>`.
        source: Path or URI as given; what citations show.
        title: First heading or file name; may be empty.
        content_hash: Hash of the whole text.
        status: Its ingest status.
        error: Why it failed, or which chunks did; empty otherwise.
        metadata: Free JSON of the user, which overrides the file's own metadata (`mime_type`, `author`, ...), and
            `language`: as stated, else detected.
        length: Characters of text.
        chunk_count: Chunks stored; 0 until processed.
        track_id: The batch that brought it.
        usage: Tokens that chat models spent on it.
        created_at: First seen, UTC.
        updated_at: Last change, UTC.
        page_starts: Offsets in the text at which pages 1, 2, ... start; empty where the source has none.
        twin_of: Id of the document that holds the chunks of the same text; empty if this one holds its own.
    """

    id: str
    source: str
    title: str = field(default="", metadata=_DETAIL)
    content_hash: str = ""
    status: DocumentStatus = DocumentStatus.PENDING
    error: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    length: int = 0
    chunk_count: int = field(default=0, metadata=_KEPT)
    track_id: str = ""
    usage: Usage = field(default=Usage(), metadata=_KEPT)
    created_at: datetime = field(default_factory=utc_now, metadata=_KEPT)
    updated_at: datetime = field(default_factory=utc_now)
    page_starts: tuple[int, ...] = ()
    twin_of: str = ""

    @property
    def details(self) -> dict[str, Any]:
        """Its details by name."""
        return document_details(self)

    @property
    def version(self) -> tuple[str, DocumentStatus, int, datetime]:
        """The fields that identify one stored version of the document, for optimistic locking."""
        return self.content_hash, self.status, self.chunk_count, self.updated_at


@dataclass(frozen=True, slots=True)
class Chunk:
    """A passage of a document, and its position there.

    Columns of stores, archives, replies and filters are derived from its fields. A new field needs a default, for
    existing chunks, and a migration in each store on SQL (CONTRIBUTING.md, "Adding something").

    Attributes:
        id: `chunk-<hash>` of document and text, so that an unchanged chunk keeps its id when the document changes.
        document_id: The document that holds it.
        position: Order index within the document, from 0.
        text: The passage, exactly `document_text[start:end]`.
        token_count: o200k_base tokens of `text`.
        start: First character in the document's text.
        end: One past the last character.
        headings: Titles of the sections around it, outermost first.
        page: Number, from 1, of the page that holds its first character, where the source has pages.
        context: Extractor input besides text, headings and title, as the extractor computed it.
        columns: Column names of the table in whose body it begins, if the head of the table is in an earlier chunk.
    """

    id: str
    document_id: str
    position: int
    text: str
    token_count: int
    start: int
    end: int
    headings: tuple[str, ...] = field(default=(), metadata=_DETAIL)
    page: int | None = field(default=None, metadata=_DETAIL)
    context: str = ""
    columns: tuple[str, ...] = field(default=(), metadata=_DETAIL)


KEPT_FIELDS: Final = tuple(item.name for item in fields(Document) if item.metadata.get("is_kept"))
DOCUMENT_DETAILS: Final = tuple(item.name for item in fields(Document) if item.metadata.get("is_detail"))
CHUNK_DETAILS: Final = tuple(item.name for item in fields(Chunk) if item.metadata.get("is_detail"))


def revised(document: Document, **fields: Any) -> Document:
    """Return a document with changed fields and a new `updated_at`, later than the old one whatever the clock says."""
    return replace(document, updated_at=max(utc_now(), document.updated_at + _TICK), **fields)


def document_details(given: object) -> dict[str, Any]:
    """Return the details of a document by name, from any object with fields of these names."""
    return {name: getattr(given, name) for name in DOCUMENT_DETAILS}


def heading_path(headings: Iterable[str]) -> str:
    """Return the headings above a passage, outermost first, as one line: `Guide > Brokers`."""
    return " > ".join(headings)


def chunk_details(chunk: Chunk) -> dict[str, Any]:
    """Return the details of a chunk by name, as plain JSON."""
    found = {name: getattr(chunk, name) for name in CHUNK_DETAILS}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in found.items()}


@dataclass(frozen=True, slots=True)
class EntityMention:
    """One chunk's mention of an entity.

    Attributes:
        chunk_id: The chunk.
        name: The name as written there, normalised (`heliograph.ids.clean_name`).
        type: Lower-case type such as `person`; `unknown` casts no vote against any other.
        description: One statement about the entity, as `/graph/history` shows it; may be empty. Without a chat model it
            is a sentence of the chunk, cut and without markup (`excerpt` in `heliograph.extraction.local`); a chat
            model writes it in its own words; in a given graph it is the given description. Its position in the text is
            not stored.
        rank: Place in the canonical order (`heliograph.ids.mention_rank`).
        entity_id: The entity that it counts for; empty means the entity of the name itself.
    """

    chunk_id: str
    name: str
    type: str
    description: str
    rank: int
    entity_id: str = ""


@dataclass(frozen=True, slots=True)
class RelationMention:
    """One chunk's mention of a relation between two entities; the pair is undirected.

    Attributes:
        chunk_id: The chunk.
        source: Name of one entity, normalised.
        target: Name of the other; never the same entity.
        keywords: Themes of the relation, as written.
        description: As for entities; without a chat model the sentence that mentions both.
        weight: Strength of this one mention, 1.0 unless the extractor knows better.
        rank: Place in the canonical order.
        source_id: The entity that `source` counts for; empty means the entity of the name itself.
        target_id: Likewise for `target`. A mention whose two ends count for one entity counts for no relation.
    """

    chunk_id: str
    source: str
    target: str
    keywords: tuple[str, ...]
    description: str
    weight: float
    rank: int
    source_id: str = ""
    target_id: str = ""


@dataclass(frozen=True, slots=True)
class AliasMention:
    """One chunk's statement that a name has an alias, such as an acronym that it introduces.

    Attributes:
        name: The name, normalised.
        alias: The alias, normalised; never just another spelling of the name.
    """

    chunk_id: str
    name: str
    alias: str


@dataclass(frozen=True, slots=True)
class Extraction:
    """Everything that was extracted from one chunk.

    Attributes:
        entities: Entity mentions; every end point of `relations` is among them.
        relations: Relation mentions.
        error: Why the extraction failed; empty if it did not.
        reply_keys: Keys of the cached model replies that it came from, deleted with the chunk.
        usage: Tokens that chat models spent on it.
        aliases: Aliases that the chunk states.
    """

    chunk_id: str
    extractor: str
    entities: tuple[EntityMention, ...] = ()
    relations: tuple[RelationMention, ...] = ()
    error: str = ""
    reply_keys: tuple[str, ...] = ()
    usage: Usage = Usage()
    aliases: tuple[AliasMention, ...] = ()


class CurationKind(StrEnum):
    """The kind of a correction of the graph by a person."""

    CREATE_ENTITY = "create_entity"
    EDIT_ENTITY = "edit_entity"
    RENAME_ENTITY = "rename_entity"
    MERGE_ENTITIES = "merge_entities"
    SPLIT_ENTITY = "split_entity"
    DELETE_ENTITY = "delete_entity"
    CREATE_RELATION = "create_relation"
    EDIT_RELATION = "edit_relation"
    DELETE_RELATION = "delete_relation"


_AFTER_STORED = 1 << 62


@dataclass(frozen=True, slots=True)
class Curation:
    """One correction of the graph by a person; in force from its commit until it is undone, whatever documents change.

    An edit, a rename, a merge, a split and a deletion by hand are all curations; deleting by hand hides an entity.

    Attributes:
        id: `cur-<hash>`.
        names: Names of the corrected entities, in this order: the entity; for a rename and a split the entity and the
            new name; for a merge the merged entities and, last, the resulting one; for a relation its two ends.
        entity_ids: Entity id per name, at the time of the correction.
        scope: For a split: ids of the documents or chunks whose mentions move to the new name. For a creation or an
            edit: the evidence that its author states.
        type: The type set; None leaves it as it is, likewise for the next three.
        author: Name of the key or account that made it; `anyone` on a service without authentication.
        created_at: When it was made, UTC.
        undone_by: Who undid it; empty while it is in force.
        undone_at: When it was undone, UTC; None while it is in force.
        sequence: Place in the order of all curations, given by the store; 0 before it is stored.
    """

    id: str
    kind: CurationKind
    names: tuple[str, ...]
    entity_ids: tuple[str, ...]
    scope: tuple[str, ...] = ()
    type: str | None = None
    description: str | None = None
    keywords: tuple[str, ...] | None = None
    weight: float | None = None
    author: str = ""
    created_at: datetime = field(default_factory=utc_now)
    undone_by: str = ""
    undone_at: datetime | None = None
    sequence: int = 0

    @property
    def is_active(self) -> bool:
        """Whether it is in force."""
        return self.undone_at is None

    @property
    def place(self) -> int:
        """Place in the order of all curations; one that is not stored yet comes last."""
        return self.sequence or _AFTER_STORED


@dataclass(frozen=True, slots=True)
class NameRules:
    """The rules by which the id of a name resolves to an entity, and people's corrections of that entity.

    Attributes:
        id: Entity id of the name.
        names: Number of alias mentions in which it is the alias, per entity id of the name.
        aliases: Number of alias mentions in which it is the name, per entity id of the alias.
        curations: Active curations that name it in `entity_ids`, by sequence.
        version: Data version of the last change; 0 when there never was any.
    """

    id: str
    names: Mapping[str, int] = field(default_factory=dict[str, int])
    aliases: Mapping[str, int] = field(default_factory=dict[str, int])
    curations: tuple[Curation, ...] = ()
    version: int = 0


@dataclass(frozen=True, slots=True)
class EntityEvidence:
    """The aggregate of all mentions of one entity.

    Attributes:
        leading: The first mentions in canonical order, up to the requested number.
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
    """The aggregate of all mentions of one relation.

    Attributes:
        source_id: Entity id of the end point whose key sorts first.
        target_id: Entity id of the other.
        weight_millionths: Sum of the mentions' weights in millionths; an integer sum is the same in any order.
        leading: The first mentions in canonical order, up to the requested number.
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
        chunk_ids: The first chunks that mention it, in canonical order, up to `ingest.max_sources`.
        token_count: o200k_base tokens of its line in a JSON-lines context; 0 means to be counted again, so code that
            changes the description sets it to 0.
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
        chunk_ids: The first chunks that mention it, in canonical order, up to `ingest.max_sources`.
        token_count: o200k_base tokens of its line in a JSON-lines context; 0 means to be counted again, so code that
            changes the description sets it to 0.
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


def sources_of(chunk_ids: Sequence[str], sources: Mapping[str, str]) -> tuple[str, ...]:
    """Return the sources of an entity's or relation's first `MOST_SOURCES` chunks, each once, in order."""
    if len(chunk_ids) == 1:
        source = sources.get(chunk_ids[0])
        return (source,) if source else ()
    found = dict.fromkeys(map(sources.get, chunk_ids[:MOST_SOURCES]))
    return tuple([source for source in found if source])


@dataclass(frozen=True, slots=True)
class Subgraph:
    """Entities around a start, nearest first, and the relations among them.

    Attributes:
        entities: Each once; the start first, then by distance, degree (descending) and name.
        relations: Those whose two ends are both in `entities`.
    """

    entities: tuple[Entity, ...]
    relations: tuple[Relation, ...]
    is_truncated: bool


@dataclass(frozen=True, slots=True)
class GraphPath:
    """A path from one entity to another: `entities` has one more element than `relations`."""

    entities: tuple[Entity, ...]
    relations: tuple[Relation, ...]


@dataclass(frozen=True, slots=True)
class Batch:
    """The documents that one call ingested.

    Attributes:
        documents: Number of its documents per current status.
        usage: Tokens that chat models have ever spent on them.
        created_at: When the first of them was first seen, UTC.
        updated_at: When one of them last changed, UTC.
        errors: The first few errors of its documents, as source and message.
    """

    track_id: str
    documents: Mapping[DocumentStatus, int]
    chunks: int
    usage: Usage
    created_at: datetime
    updated_at: datetime
    errors: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Stats:
    """Counts of one workspace.

    Attributes:
        data_version: Incremented by every commit.
        bytes_on_disk: Size of the workspace's files; an estimate where workspaces share them, 0 where unknown.
    """

    documents: Mapping[DocumentStatus, int]
    chunks: int
    entities: int
    relations: int
    cached_replies: int
    data_version: int
    bytes_on_disk: int
