"""Background work on the wire: LightRAG's pipeline status and scan status, and jobs as they are."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from heliograph.service.jobs.models import Job, JobKind, JobState, Lane, PipelineState
from heliograph.service.jobs.telling import describe


class JobResponse(BaseModel):
    """One job."""

    id: str
    kind: Literal["files", "url", "scan", "process", "retry", "delete", "clear"]
    state: Literal["waiting", "running", "done", "failed", "cancelled"]
    track_id: str
    author: str = Field(description="Who asked for it.")
    sources: list[str] = Field(description="Uploads or the URL that it reads.")
    done: int = Field(description="Documents or files done.")
    total: int
    counts: dict[str, int] = Field(description="What came of them.")
    problems: list[str] = Field(description="What went wrong with some, the first few.")
    error: str = Field(description="Why it failed, or what it waits for.")
    attempts: int = Field(description="How often in a row it came to nothing.")
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None

    @classmethod
    def of(cls, job: Job) -> JobResponse:
        """Return a job as JSON."""
        return cls(
            id=job.id,
            kind=job.kind.value,
            state=job.state.value,
            track_id=job.request.track_id,
            author=job.request.author,
            sources=list(job.request.sources),
            done=job.progress.done,
            total=job.progress.total,
            counts=dict(job.progress.counts),
            problems=list(job.progress.problems),
            error=job.error,
            attempts=job.attempts,
            created_at=job.created_at,
            started_at=job.started_at,
            finished_at=job.finished_at,
        )


class JobListResponse(BaseModel):
    """Jobs, the latest first."""

    jobs: list[JobResponse]
    total: int


class PipelineResponse(BaseModel):
    """What is under way, in LightRAG's shape."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "busy": True,
                "job_name": "Processing documents",
                "job_start": "2026-11-02T10:15:00+00:00",
                "docs": 20,
                "batchs": 20,
                "cur_batch": 7,
                "latest_message": "Processing documents: 7 of 20 done",
                "history_messages": ["Processing documents begins", "Processing documents: 7 of 20 done"],
            }
        }
    )

    autoscanned: bool = Field(default=False, description="Nothing is scanned unasked.")
    busy: bool = Field(default=False, description="Whether anything runs or waits.")
    job_name: str = "Default Job"
    job_start: str | None = None
    docs: int = Field(default=0, description="Documents of the job under way.")
    batchs: int = Field(default=0, description="The same.")
    cur_batch: int = Field(default=0, description="How many of them are done.")
    request_pending: bool = Field(default=False, description="Whether further jobs wait.")
    cancellation_requested: bool = False
    latest_message: str = ""
    history_messages: list[str] = Field(default_factory=list, description="The last thousand, oldest first.")
    update_status: dict[str, Any] = Field(default_factory=dict[str, Any], description="Nothing has to be told others.")
    recovery_required: bool = Field(default=False, description="Never: no crash leaves anything half done.")
    recovery_kind: str | None = None
    recovery_message: str | None = None
    scanning: bool = False
    destructive_busy: bool = Field(default=False, description="Whether documents are being deleted.")
    pending_enqueues: int = Field(default=0, description="Uploads and URLs that are not read yet.")


def pipeline_response(state: PipelineState) -> PipelineResponse:
    """Return the state of the jobs in LightRAG's shape; the job shown is the one that processes, else the first."""
    shown = _shown(state.jobs)
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
            "job_name": describe(shown.kind),
            "job_start": (shown.started_at or shown.created_at).isoformat(),
            "docs": progress.total,
            "batchs": progress.total,
            "cur_batch": progress.done,
        }
    )


def _shown(jobs: tuple[Job, ...]) -> Job | None:
    def rank(job: Job) -> tuple[bool, bool]:
        return job.state is not JobState.RUNNING, job.lane is not Lane.PROCESSING

    return min(jobs, key=rank, default=None)


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


_SCAN_STATES: dict[JobState, Literal["running", "completed", "failed", "cancelled"]] = {
    JobState.WAITING: "running",
    JobState.RUNNING: "running",
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
        status=_SCAN_STATES[job.state],
        counts=dict(job.progress.counts),
        samples={"processed": _Samples(), "warning": _Samples(), "error": errors},
        created_at=job.created_at.timestamp(),
        updated_at=(job.finished_at or job.started_at or job.created_at).timestamp(),
        message=job.error,
    )
