"""Records of background jobs: the request, its progress, its outcome, and the messages about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from heliograph.observing import Origin


class JobKind(StrEnum):
    """What a job does.

    `files` and `url` read the named sources and store them as pending, `scan` does so with new or changed files of the
    input folder, `process` takes pending documents through to the graph, `retry` those that failed; `delete` and
    `clear` delete documents.
    """

    FILES = "files"
    URL = "url"
    SCAN = "scan"
    PROCESS = "process"
    RETRY = "retry"
    DELETE = "delete"
    CLEAR = "clear"


class Lane(StrEnum):
    """Jobs of one lane run one after the other, lanes run side by side; no job runs beside one of `ALONE`."""

    READING = "reading"
    PROCESSING = "processing"
    DELETING = "deleting"
    ALONE = "alone"


LANES = {
    JobKind.FILES: Lane.READING,
    JobKind.URL: Lane.READING,
    JobKind.SCAN: Lane.READING,
    JobKind.PROCESS: Lane.PROCESSING,
    JobKind.RETRY: Lane.PROCESSING,
    JobKind.DELETE: Lane.DELETING,
    JobKind.CLEAR: Lane.ALONE,
}


class JobState(StrEnum):
    """The state of a job; a waiting one may have been tried already and wait for a model to come back."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


UNFINISHED = (JobState.WAITING, JobState.RUNNING)


@dataclass(frozen=True, slots=True)
class JobRequest:
    """A request for a job.

    Attributes:
        sources: For `files`, names in the input folder; for `url`, the address.
        document_ids: For `delete`; for `retry`, empty means all that failed.
        content_hashes: For `delete`: hashes of the documents when it was requested, by id; those that have another one
            stay.
        metadata: For `files` and `url`: overrides the sources' own metadata.
        deletes_files: For `delete`: whether files of the input folder are deleted, too.
        origin: The request that submitted it; the job's logs and traces belong to it.
    """

    kind: JobKind
    track_id: str
    author: str = ""
    sources: tuple[str, ...] = ()
    document_ids: tuple[str, ...] = ()
    content_hashes: Mapping[str, str] = field(default_factory=dict[str, str])
    metadata: Mapping[str, Any] | None = None
    deletes_files: bool = False
    origin: Origin = field(default_factory=Origin)


@dataclass(frozen=True, slots=True)
class JobProgress:
    """How far a job is.

    Attributes:
        done: Documents or files done.
        counts: Documents or files by outcome. While documents are read: `chunks` read of those `chunks_begun`, how many
            more `entities` and `relations` there are, `failed` documents, and `seconds_left`.
        problems: Errors of the first few that failed.
    """

    done: int = 0
    total: int = 0
    counts: Mapping[str, int] = field(default_factory=dict[str, int])
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Job:
    """One piece of work.

    Attributes:
        id: `job-<hash>`.
        error: Why it failed, or why it waits to be retried; empty otherwise.
        attempts: Consecutive failed attempts.
        due_at: When it may be started, UTC.
        cancelled_by: Who requested its cancellation; empty if no one did.
        started_at: When it was last started; None before.
    """

    id: str
    request: JobRequest
    state: JobState
    progress: JobProgress
    error: str
    attempts: int
    due_at: datetime
    cancelled_by: str
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None

    @property
    def kind(self) -> JobKind:
        """The kind of work it does."""
        return self.request.kind

    @property
    def lane(self) -> Lane:
        """The lane it runs in."""
        return LANES[self.request.kind]

    @property
    def is_unfinished(self) -> bool:
        """Whether it waits or runs."""
        return self.state in UNFINISHED


@dataclass(frozen=True, slots=True)
class DocumentVersion:
    """One of the texts that a document had: author, length, and when it was accepted, UTC."""

    document_id: str
    author: str
    track_id: str
    length: int
    content_hash: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class PipelineState:
    """All unfinished jobs of one workspace, at one moment.

    Attributes:
        jobs: Running jobs, in order, and the next waiting ones of each kind.
        counts: How many jobs wait or run, per kind that has any.
        messages: The latest messages, oldest first: moment and text.
    """

    jobs: tuple[Job, ...]
    counts: Mapping[JobKind, int]
    messages: tuple[tuple[datetime, str], ...]


# Messages about jobs: plain sentences, without secrets and without paths of the machine.

# Names of kinds of jobs, for people.
NAMES = {
    JobKind.FILES: "Reading uploads",
    JobKind.URL: "Reading a URL",
    JobKind.SCAN: "Scanning the input folder",
    JobKind.PROCESS: "Processing documents",
    JobKind.RETRY: "Reprocessing failed documents",
    JobKind.DELETE: "Deleting documents",
    JobKind.CLEAR: "Deleting all documents",
}


def begun(job: Job) -> str:
    """Return the message for the beginning of a job."""
    of = ", ".join(job.request.sources[:3]) + (", ..." if len(job.request.sources) > 3 else "")
    return f"{NAMES[job.kind]}: {of}" if of else f"{NAMES[job.kind]} begins"


def progressed(job: Job, progress: JobProgress) -> str:
    """Return the message for the progress of a job."""
    failed = progress.counts.get("failed", 0)
    return f"{NAMES[job.kind]}: {progress.done} of {progress.total} done" + (f", {failed} failed" if failed else "")


def ended(job: Job, progress: JobProgress) -> str:
    """Return the message for the end of a job."""
    counts = ", ".join(f"{count} {name}" for name, count in progress.counts.items() if count)
    return "; ".join([f"{NAMES[job.kind]} is done: {counts or 'nothing to do'}", *progress.problems[:3]])


def waits(job: Job, error: Exception, delay_seconds: float) -> str:
    """Return the message for a job that waits for a model or a store."""
    return f"{NAMES[job.kind]} waits, next try in {delay_seconds:.0f} s: {error}"
