"""Documents and background work over the wire."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, AliasChoices, AliasPath, BaseModel, BeforeValidator, Field, StringConstraints

from heliograph.errors import InvalidRequestError, without_folders
from heliograph.ingest.models import NewDocument
from heliograph.models import COMMITTED_STATUSES, Document, DocumentStatus, document_details
from heliograph.service.jobs.models import NAMES, UNFINISHED, Job, JobKind, JobState, Lane, PipelineState
from heliograph.wire.base import ChunkDetails, Moment, Shape

# Background jobs on the wire: LightRAG's pipeline status and scan status, and our own jobs.


def _of(part: str, name: str) -> AliasChoices:
    """Return the aliases of a field: by its name in a reply, within `part` in a record."""
    return AliasChoices(name, AliasPath(part, name))


class JobResponse(Shape):
    """One job."""

    id: str
    kind: Literal["files", "url", "scan", "process", "retry", "delete", "clear"]
    state: Literal["waiting", "running", "done", "failed", "cancelled"]
    is_unfinished: bool = Field(
        # An older service does not send it.
        default_factory=lambda read: read.get("state") in UNFINISHED,
        description="Whether it waits or runs.",
    )
    track_id: str = Field(validation_alias=_of("request", "track_id"))
    author: str = Field(validation_alias=_of("request", "author"), description="Who asked for it.")
    sources: tuple[str, ...] = Field(
        validation_alias=_of("request", "sources"), description="Uploads or the URL that it reads."
    )
    done: int = Field(validation_alias=_of("progress", "done"), description="Documents or files done.")
    total: int = Field(validation_alias=_of("progress", "total"))
    counts: dict[str, int] = Field(
        validation_alias=_of("progress", "counts"),
        description="What came of them, by outcome; while documents are read, `chunks` of `chunks_begun`, how "
        "many more `entities` and `relations` there are, `failed`, and `seconds_left`.",
    )
    problems: tuple[str, ...] = Field(
        validation_alias=_of("progress", "problems"), description="What went wrong with some, the first few."
    )
    error: str = Field(description="Why it failed, or what it waits for.")
    attempts: int = Field(description="How often in a row it came to nothing.")
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


class WorkEvent(Shape):
    """The counts of a workspace's documents, and its jobs."""

    documents: dict[str, int] = Field(description="How many there are, by status.")
    jobs: tuple[JobResponse, ...] = Field(description="What runs, and of each kind what comes next.")
    latest: JobResponse | None = Field(description="What was asked for last, so that what is soon done is told, too.")


class JobListResponse(Shape):
    """Jobs, the latest first."""

    jobs: tuple[JobResponse, ...]
    total: int


class PipelineResponse(BaseModel):
    """Running and waiting work, in LightRAG's shape."""

    autoscanned: bool = Field(default=False, description="Nothing is scanned unasked.")
    busy: bool = Field(default=False, description="Whether anything runs or waits.")
    job_name: str = "Default Job"
    job_start: str | None = None
    docs: int = Field(default=0, description="Documents of the job under way.")
    batchs: int = Field(default=0, description="The same.")
    cur_batch: int = Field(default=0, description="How many of them are done.")
    request_pending: bool = Field(default=False, description="Whether further jobs wait.")
    cancellation_requested: bool = False
    cancellation_reason: str | None = Field(default=None, description="Always null: only people cancel.")
    cancellation_detail: str | None = Field(default=None, description="Likewise; the messages say who it was.")
    latest_message: str = ""
    history_messages: list[str] = Field(default_factory=list, description="The last thousand, oldest first.")
    update_status: dict[str, Any] = Field(default_factory=dict[str, Any], description="Nothing has to be told others.")
    recovery_required: bool = Field(default=False, description="Never: no crash leaves anything half done.")
    recovery_kind: str | None = None
    recovery_message: str | None = None
    scanning: bool = False
    scanning_exclusive: bool = Field(default=False, description="Never: a scan holds nobody up.")
    destructive_busy: bool = Field(default=False, description="Whether documents are being deleted.")
    pending_enqueues: int = Field(default=0, description="Uploads and URLs that are not read yet.")


def pipeline_response(state: PipelineState) -> PipelineResponse:
    """Return the state of the jobs in LightRAG's shape; the job shown is the one that processes, else the first."""
    shown = min(
        state.jobs,
        key=lambda job: (job.state is not JobState.RUNNING, job.lane is not Lane.PROCESSING),
        default=None,
    )
    messages = [text for _, text in state.messages]
    counts = state.counts
    response = PipelineResponse(
        busy=bool(counts),
        request_pending=sum(counts.values()) > 1,
        cancellation_requested=any(job.cancelled_by for job in state.jobs),
        latest_message=messages[-1] if messages else "",
        history_messages=messages,
        scanning=JobKind.SCAN in counts,
        destructive_busy=JobKind.DELETE in counts or JobKind.CLEAR in counts,
        pending_enqueues=counts.get(JobKind.FILES, 0) + counts.get(JobKind.URL, 0),
    )
    if shown is None:
        return response
    progress = shown.progress
    return response.model_copy(
        update={
            "job_name": NAMES[shown.kind],
            "job_start": (shown.started_at or shown.created_at).isoformat(),
            "docs": progress.total,
            "batchs": progress.total,
            "cur_batch": progress.done,
        }
    )


class ScanResponse(BaseModel):
    """Whether a scan has begun."""

    status: Literal["scanning_started", "scanning_skipped_pipeline_busy"]
    message: str
    track_id: str


class _Samples(BaseModel):
    items: list[str] = Field(default_factory=list)
    truncated: bool = False
    dropped: int = 0


class ScanStatusResponse(BaseModel):
    """How far a scan is."""

    track_id: str
    status: Literal["running", "completed", "failed", "cancelled", "abandoned"]
    counts: dict[str, int] = Field(description="`files` seen, `unread` since unchanged, and the rest by outcome.")
    counters_dropped: int = 0
    samples: dict[str, _Samples]
    created_at: float = Field(description="Seconds since 1970.")
    updated_at: float
    version: int = 1
    message: str = ""


_SCAN_ENDS: dict[JobState, Literal["completed", "failed", "cancelled"]] = {
    JobState.DONE: "completed",
    JobState.FAILED: "failed",
    JobState.CANCELLED: "cancelled",
}


def scan_status_response(job: Job) -> ScanStatusResponse:
    """Return a scan in LightRAG's shape."""
    problems, failed = list(job.progress.problems), job.progress.counts.get("failed", 0)
    errors = _Samples(items=problems, dropped=max(0, failed - len(problems)))
    return ScanStatusResponse(
        track_id=job.request.track_id,
        status="running" if job.is_unfinished else _SCAN_ENDS[job.state],
        counts=dict(job.progress.counts),
        samples={"processed": _Samples(), "warning": _Samples(), "error": errors},
        created_at=job.created_at.timestamp(),
        updated_at=(job.finished_at or job.started_at or job.created_at).timestamp(),
        message=job.error,
    )


# Documents on the wire as LightRAG's clients know them: the shapes, limits and words of its 1.5.7.
#
# Fields beyond LightRAG's are optional in requests and additional in responses.

Metadata = Annotated[dict[str, Any], Field(description="Free JSON, kept with the document; filters match it.")]
_Text = Annotated[str, StringConstraints(min_length=1, strip_whitespace=True)]
_Source = Annotated[str, StringConstraints(max_length=4_096, strip_whitespace=True)]

StatusName = Literal["pending", "parsing", "processing", "processed", "partial", "failed"]
DocStatus = Literal["pending", "parsing", "analyzing", "preprocessed", "processing", "processed", "failed"]
# The statuses that each of LightRAG's words covers; it has none for a document with unreadable chunks.
STATUSES: dict[DocStatus, tuple[DocumentStatus, ...]] = {
    "pending": (DocumentStatus.PENDING,),
    "parsing": (DocumentStatus.PARSING,),
    "analyzing": (),
    "preprocessed": (),
    "processing": (DocumentStatus.PROCESSING,),
    "processed": COMMITTED_STATUSES,
    "failed": (DocumentStatus.FAILED,),
}
_WORDS: dict[DocumentStatus, DocStatus] = {status: word for word, group in STATUSES.items() for status in group}
_SUMMARY_LENGTH = 250


def doc_status(status: DocumentStatus) -> DocStatus:
    """Return LightRAG's word for a status."""
    return _WORDS[status]


class TextChunking(BaseModel):
    """How LightRAG's clients want a text chunked."""

    strategy: Literal["fixed_token", "recursive_character", "semantic_vector", "paragraph_semantic", "custom"] = (
        "fixed_token"
    )
    params: dict[str, Any] = Field(default_factory=dict[str, Any])


class _TextOptions(BaseModel):
    chunking: TextChunking | None = Field(
        None, description="Accepted for LightRAG's clients and not applied: how texts are cut is a setting."
    )
    metadata: Metadata | None = None


class TextRequest(_TextOptions):
    """One text to insert."""

    text: _Text = Field(description="Plain text or Markdown.")
    file_source: _Source | None = Field(default=None, description="What citations name; a known one is an update.")
    title: str = Field(default="", max_length=1_000, description="Empty means the first heading, else from the source.")

    def documents(self) -> list[NewDocument]:
        """Return the documents to insert."""
        return [NewDocument(self.text, self.file_source or "", metadata=self.metadata, **document_details(self))]


class TextsRequest(_TextOptions):
    """Several texts to insert."""

    texts: Annotated[list[_Text], Field(min_length=1, max_length=10_000)]
    file_sources: list[_Source] | None = Field(default=None, description="One a text, all different.")

    def documents(self) -> list[NewDocument]:
        """Return the documents to insert.

        Raises:
            InvalidRequestError: There is not one source per text, or one twice.
        """
        sources = self.file_sources or [""] * len(self.texts)
        if len(sources) != len(self.texts):
            raise InvalidRequestError(
                f"file_sources has {len(sources)} entries for {len(self.texts)} texts; give one a text"
            )
        named = [source for source in sources if source]
        if len(named) != len(set(named)):
            raise InvalidRequestError("file_sources holds one source twice; all must be different")
        return [
            NewDocument(text, source, metadata=self.metadata) for text, source in zip(self.texts, sources, strict=True)
        ]


class InsertResponse(Shape):
    """The outcome of inserting texts or a file; the rest is done in the background."""

    status: Literal["success", "duplicated", "partial_success", "failure"] = Field(
        description="`duplicated`: known already, and unchanged."
    )
    message: str
    track_id: str = Field(description="Names the batch in `/documents/track_status/{track_id}`.")
    document_ids: tuple[str, ...] = Field(default=(), description="Ids of the documents, as far as they are known.")


class DocStatusResponse(BaseModel):
    """One document in LightRAG's words."""

    id: str
    content_summary: str = Field(description="How its text begins.")
    content_length: int = Field(description="Characters of its text.")
    status: DocStatus
    created_at: str = Field(description="ISO 8601, UTC.")
    updated_at: str = Field(description="ISO 8601, UTC.")
    track_id: str | None = None
    chunks_count: int | None = None
    error_msg: str | None = Field(default=None, description="Why it failed, or which of its chunks could not be read.")
    metadata: dict[str, Any] | None = None
    file_path: str = Field(description="Its source.")


class FormerDocStatusResponse(DocStatusResponse):
    """One document in the words of LightRAG's servers that list all by status."""

    error: str | None = Field(
        default=None, exclude_if=lambda error: error is None, description="What `error_msg` says, by its first name."
    )


def doc_status_response(document: Document, opening: str) -> DocStatusResponse:
    """Return a document as LightRAG's clients expect it; `opening` is how its text begins."""
    summary = " ".join(opening[: _SUMMARY_LENGTH + 1].split())
    is_cut = len(opening) > _SUMMARY_LENGTH
    return DocStatusResponse(
        id=document.id,
        content_summary=f"{summary[:_SUMMARY_LENGTH]}..." if is_cut else summary,
        content_length=document.length,
        status=doc_status(document.status),
        created_at=document.created_at.isoformat(),
        updated_at=document.updated_at.isoformat(),
        track_id=document.track_id or None,
        chunks_count=document.chunk_count,
        error_msg=without_folders(document.error) or None,
        metadata=dict(document.metadata),
        file_path=document.source,
    )


def _word(value: object) -> object:
    """Return the current word for a status; LightRAG 1.4.9.3 had another word for one."""
    word = value.lower() if isinstance(value, str) else value
    return "preprocessed" if word == "multimodal_processed" else word


_Filter = Annotated[DocStatus, BeforeValidator(_word)]


class PageRequest(BaseModel):
    """Which documents to list."""

    status_filter: _Filter | None = Field(default=None, description="Ignored when `status_filters` is given.")
    status_filters: list[_Filter] | None = None
    page: int = Field(default=1, ge=1, le=1_000_000_000)
    page_size: int = Field(default=50, ge=10, le=200)
    sort_field: Literal["created_at", "updated_at", "id", "file_path"] = "updated_at"
    sort_direction: Literal["asc", "desc"] = "desc"

    def statuses(self) -> tuple[DocumentStatus, ...] | None:
        """Return the requested statuses; None means all, an empty tuple those that no document ever has."""
        words = self.status_filters or ([self.status_filter] if self.status_filter else None)
        return None if words is None else tuple(status for word in words for status in STATUSES[word])


class Pagination(BaseModel):
    """Where a page stands."""

    page: int
    page_size: int
    total_count: int
    total_pages: int
    has_next: bool
    has_prev: bool


class PageResponse(BaseModel):
    """One page of documents."""

    documents: list[DocStatusResponse]
    pagination: Pagination
    status_counts: dict[str, int] = Field(description="Documents per status, and `all`.")


class StatusCountsResponse(BaseModel):
    """How many documents there are."""

    status_counts: dict[str, int] = Field(description="Documents per status, and `all`.")


def count_statuses(counts: Iterable[tuple[DocumentStatus, int]]) -> dict[str, int]:
    """Return counts by LightRAG's words, including all words and `all`."""
    found: dict[str, int] = dict.fromkeys(STATUSES, 0)
    for status, count in counts:
        found[doc_status(status)] += count
    return {**found, "all": sum(found.values())}


class TrackResponse(BaseModel):
    """The documents of one batch; empty for an unknown batch."""

    track_id: str
    documents: list[DocStatusResponse]
    total_count: int
    status_summary: dict[str, int] = Field(description="Documents per status.")


class SupportedTypesResponse(BaseModel):
    """The file types that can be read."""

    supported_extensions: list[str] = Field(description="Endings of file names, with the dot.")
    engines: dict[str, list[str]] = Field(description="The same, per parser.")


def _unique(ids: list[str]) -> list[str]:
    if len(set(ids)) != len(ids):
        raise ValueError("Document IDs must be unique")
    return ids


_Id = Annotated[str, StringConstraints(min_length=1, max_length=4_096, strip_whitespace=True)]


class RetryRequest(BaseModel):
    """Which failed documents to try again."""

    doc_ids: Annotated[
        list[_Id], Field(max_length=10_000, description="None means all that failed."), AfterValidator(_unique)
    ] = []


class DeleteRequest(BaseModel):
    """Which documents to delete."""

    doc_ids: Annotated[list[_Id], Field(min_length=1, max_length=10_000), AfterValidator(_unique)]
    delete_file: bool = Field(default=False, description="Whether files of the input folder go, too.")
    delete_llm_cache: bool = Field(
        default=False, description="Accepted for LightRAG's clients: what was read always goes."
    )


class DeleteResponse(BaseModel):
    """Whether a deletion has begun."""

    status: Literal["deletion_started", "busy", "not_allowed"]
    message: str
    doc_id: str = Field(description="The ids, joined by commas.")
    job_id: str = Field(default="", description="The job that deletes, see `/documents/jobs/{job_id}`.")


class ClearResponse(BaseModel):
    """Whether everything was deleted."""

    status: Literal["success", "partial_success", "busy", "fail"]
    message: str


class MessageResponse(BaseModel):
    """The outcome of a request about the pipeline or the cache."""

    status: Literal["success", "fail", "cancellation_requested", "not_busy", "reprocessing_started"]
    message: str
    track_id: str = ""


class ConflictsResponse(BaseModel):
    """Sources whose documents must be told apart by hand: there are none, since ids tell them apart."""

    conflicts: list[dict[str, Any]] = Field(default_factory=list[dict[str, Any]])
    next_cursor: str | None = None


class RepairRequest(BaseModel):
    """Which conflict of sources to settle."""

    canonical_source_key: str = Field(min_length=1)
    primary_doc_id: str = Field(min_length=1)
    expected_candidate_count: int | None = Field(default=None, ge=0)
    expected_candidate_fingerprint: str | None = None
    dry_run: bool = True


class RecoveryRequest(BaseModel):
    """Confirms a reset."""

    confirm: bool = False


class RecoveryResponse(BaseModel):
    """The outcome of a reset: nothing to do, since no crash leaves anything half done."""

    status: Literal["reset", "no_recovery_required"]
    message: str
    cancelled_manual_retries: int = 0


# Documents on the wire in Heliograph's own words: lists, one with its chunks, updates, deletions.


class DocumentResponse(Shape):
    """One document."""

    id: str
    source: str
    title: str
    status: StatusName = Field(description="`partial`: in everything, but some chunks could not be read.")
    error: str
    metadata: dict[str, Any]
    length: int = Field(description="Characters of its text.")
    chunk_count: int
    track_id: str
    created_at: Moment = Field(description="ISO 8601, UTC.")
    updated_at: Moment = Field(description="ISO 8601, UTC.")
    twin_of: str = Field(description="Id of the document that holds the chunks of the same text; empty if it does.")

    @classmethod
    def of(cls, record: Document) -> Self:
        """Return the shape of a document."""
        told = cls.model_validate(record)
        return told.model_copy(update={"error": without_folders(told.error)}) if told.error else told

    @property
    def is_finished(self) -> bool:
        """Whether its processing has ended."""
        return self.status in ("processed", "partial", "failed")


class ListResponse(Shape):
    """One page of documents."""

    documents: tuple[DocumentResponse, ...]
    total: int = Field(description="How many match in all.")
    offset: int = 0
    limit: int = 0
    statuses: dict[DocStatus, list[FormerDocStatusResponse]] = Field(
        default_factory=dict[DocStatus, list[FormerDocStatusResponse]],
        description="Only where nothing was asked for: up to 1,000 documents by LightRAG's words, the latest of each "
        "first, as LightRAG's servers before 1.5.7 list them.",
    )


class ChunkResponse(ChunkDetails):
    """A passage of one document; what mentions something, in any document, is a `SourceChunk` of the graph."""

    id: str
    position: int
    text: str
    token_count: int
    start: int = Field(description="First character in the document's text.")
    end: int = Field(description="One past the last.")


class VersionItem(Shape):
    """One of the texts that a document had."""

    author: str = Field(description="Who gave it.")
    track_id: str = Field(description="The batch that it came with.")
    length: int = Field(description="Its characters.")
    content_hash: str
    created_at: datetime


class DetailResponse(DocumentResponse):
    """One document and a page of its chunks."""

    chunks: tuple[ChunkResponse, ...]
    chunk_offset: int
    versions: tuple[VersionItem, ...] = Field(
        default=(), description="The texts that it had, latest first, as far as the service took them in."
    )


class TextResponse(Shape):
    """A document's text, or a part of it."""

    id: str
    source: str
    text: str
    offset: int = Field(description="First character.")
    total_characters: int


class DocumentEntity(BaseModel):
    """An entity that a document names."""

    name: str
    type: str
    written: list[str] = Field(description="How it is written there.")
    count: int = Field(description="Chunks that mention it, each way of writing counted on its own.")


class DocumentEntitiesResponse(BaseModel):
    """The entities named in a document."""

    entities: list[DocumentEntity]
    total: int = Field(description="How many there are without `limit`.")


class _NewDetails(BaseModel):
    title: Annotated[str, StringConstraints(max_length=1_000)] | None = Field(
        default=None, description="Empty means the first heading, else from the source."
    )


class UpdateRequest(_NewDetails):
    """New values for a document; omitted fields stay."""

    text: Annotated[str, StringConstraints(min_length=1)] | None = Field(
        default=None, description="In place of its text."
    )
    metadata: dict[str, Any] | None = Field(default=None, description="In place of its metadata.")


class ChangeRequest(_NewDetails):
    """Changes to a document (RFC 7396 for `metadata`: fields are merged, null removes one)."""

    metadata: dict[str, Any] | None = None


class ChangeResponse(Shape):
    """The outcome of an update."""

    status: Literal["success", "unchanged"] = Field(
        description="`unchanged`: the text is the same, and nothing has to be read again."
    )
    message: str
    track_id: str
    document: DocumentResponse


class RemovalResponse(Shape):
    """The outcome of a deletion, or that it is in progress."""

    status: Literal["deleted", "deletion_started"]
    message: str
    job_id: str = Field(description="The job that deletes, see `/documents/jobs/{job_id}`; empty if nothing matched.")
    count: int = Field(description="Documents to delete.")


class DeleteMatchingRequest(BaseModel):
    """Which documents to delete: all that match everything given; at least one condition is needed."""

    source_prefix: Annotated[str, StringConstraints(min_length=1, max_length=4_096)] | None = None
    filter: dict[str, Any] | None = Field(default=None, description="As questions have it.")
    delete_file: bool = False


class UrlRequest(BaseModel):
    """A web page or file to fetch."""

    url: _Id
    metadata: dict[str, Any] | None = None
