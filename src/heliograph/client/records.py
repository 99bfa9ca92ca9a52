"""What a client is given and gives back: questions, answers, documents, jobs, the graph and its corrections, frozen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from numbers import Integral
from operator import index
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class QueryOptions:
    """How a question is asked, beside its mode; None leaves it to the service. `QueryParam` tells what each means.

    Attributes:
        conversation_history: Earlier messages, oldest first, each `{"role": ..., "content": ...}`; not for `retrieve`.
        include_chunk_content: Give references the texts of their chunks; not for `retrieve`.
    """

    response_type: str | None = None
    top_k: int | None = None
    chunk_top_k: int | None = None
    max_entity_tokens: int | None = None
    max_relation_tokens: int | None = None
    max_total_tokens: int | None = None
    hl_keywords: Sequence[str] | None = None
    ll_keywords: Sequence[str] | None = None
    conversation_history: Sequence[Mapping[str, str]] | None = None
    history_turns: int | None = None
    user_prompt: str | None = None
    enable_rerank: bool | None = None
    only_need_context: bool | None = None
    only_need_prompt: bool | None = None
    include_chunk_content: bool | None = None
    filter: Mapping[str, Any] | None = None
    channels: Sequence[str] | None = None
    fusion: Literal["score", "rank"] | None = None
    chunk_picking: Literal["vector", "weight", "shared_relations"] | None = None
    context_format: Literal["json", "csv"] | None = None

    def to_json(self) -> dict[str, Any]:
        """Return what is given, as the service reads it."""
        given = {item.name: getattr(self, item.name) for item in fields(self)}
        return {name: _plain(value) for name, value in given.items() if value is not None}


def _plain(value: Any) -> Any:
    # Those of NumPy are none to the writer of JSON.
    if isinstance(value, Integral) and not isinstance(value, int):
        return index(value)
    return list(value) if isinstance(value, tuple) else value


@dataclass(frozen=True, slots=True)
class ClientReference:
    """A document that an answer draws on.

    Attributes:
        reference_id: The number that the answer cites.
        file_path: Its source.
        count: Chunks of it in the context.
        other_file_paths: Sources of documents with the same text.
        content: Texts of its chunks, where asked for.
    """

    reference_id: str
    file_path: str
    count: int = 0
    other_file_paths: tuple[str, ...] | None = None
    content: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class ClientCitation:
    """What a sentence of an answer rests on, to the character; `page` and headings where the document has them."""

    reference_id: str
    file_path: str
    document_id: str
    chunk_id: str
    start: int
    end: int
    quote: str
    answer_start: int
    answer_end: int
    page: int | None = None
    headings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ClientUsage:
    """Tokens that chat models spent."""

    input_tokens: int = 0
    output_tokens: int = 0


@dataclass(frozen=True, slots=True)
class ClientAnswer:
    """An answer.

    Attributes:
        text: The answer, or what was asked for in its place.
        mode: The mode it was asked in.
        kind: `generated`, `extractive`, `nothing_found`, `context` or `prompt`.
        references: Documents that it draws on.
        citations: What its sentences rest on.
        is_complete: False when the chat model was cut, at a length limit or in a loop.
        from_cache: Whether it was given before.
        is_unanswered: Whether it says that the documents hold no answer.
        unsupported_references: Citations left out because they named no document of the context.
        unsupported_sentences: Sentences without a document that supports them.
        warnings: What did not go as one would expect.
        usage: Tokens spent.
        response_time: Seconds that the service took.
    """

    text: str
    mode: str
    kind: str
    references: tuple[ClientReference, ...] = ()
    citations: tuple[ClientCitation, ...] = ()
    is_complete: bool = True
    from_cache: bool = False
    is_unanswered: bool = False
    unsupported_references: int = 0
    unsupported_sentences: int = 0
    warnings: tuple[str, ...] = ()
    usage: ClientUsage = ClientUsage()
    response_time: float = 0.0

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class ClientEntity:
    """An entity of a result; `description` holds statements joined by `<SEP>`, or a summary."""

    id: str
    name: str
    type: str
    description: str
    chunk_ids: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    reference_id: str = ""


@dataclass(frozen=True, slots=True)
class ClientRelation:
    """A relation of a result; it has no direction."""

    id: str
    source: str
    target: str
    description: str
    keywords: tuple[str, ...] = ()
    weight: float = 1.0
    degree: int = 0
    chunk_ids: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    reference_id: str = ""


@dataclass(frozen=True, slots=True)
class ClientChunk:
    """A passage of a result.

    Attributes:
        content: Its text, `document_text[start:end]`.
        scores: What each channel adds to its score, where channels are fused.
        found_by: How it was found: `C1/1` by its own vector, `E2/3` through entities, `R1/2` through relations.
    """

    id: str
    document_id: str
    source: str
    reference_id: str
    content: str
    start: int
    end: int
    page: int | None = None
    headings: tuple[str, ...] = ()
    scores: Mapping[str, float] = field(default_factory=dict[str, float])
    rerank_score: float | None = None
    found_by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ClientKeywords:
    """What was searched for."""

    high_level: tuple[str, ...] = ()
    low_level: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ClientRetrieval:
    """What an answer would be made from.

    Attributes:
        status: `success`, or `failure` where nothing was found.
        context: The text that a chat model would read, where asked for.
        metadata: Counts, seconds of the stages, why nothing was found.
    """

    status: str
    message: str
    question: str
    mode: str
    keywords: ClientKeywords
    entities: tuple[ClientEntity, ...]
    relations: tuple[ClientRelation, ...]
    chunks: tuple[ClientChunk, ...]
    references: tuple[ClientReference, ...]
    warnings: tuple[str, ...] = ()
    context: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])


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
