"""What is told of jobs in the list of messages: plain sentences, without secrets and without paths of the machine."""

from __future__ import annotations

from collections.abc import Mapping

from heliograph.service.jobs.models import Job, JobKind, JobProgress

_NAMES = {
    JobKind.FILES: "Reading uploads",
    JobKind.URL: "Reading a URL",
    JobKind.SCAN: "Scanning the input folder",
    JobKind.PROCESS: "Processing documents",
    JobKind.RETRY: "Reprocessing failed documents",
    JobKind.DELETE: "Deleting documents",
    JobKind.CLEAR: "Deleting all documents",
}


def describe(kind: JobKind) -> str:
    """Return the name of a kind of job, for people."""
    return _NAMES[kind]


def begun(job: Job) -> str:
    """Return what is told when a job begins."""
    of = ", ".join(job.request.sources[:3]) + (", ..." if len(job.request.sources) > 3 else "")
    return f"{describe(job.kind)}: {of}" if of else f"{describe(job.kind)} begins"


def progressed(job: Job, progress: JobProgress) -> str:
    """Return what is told on the way."""
    failed = progress.counts.get("failed", 0)
    return f"{describe(job.kind)}: {progress.done} of {progress.total} done" + (f", {failed} failed" if failed else "")


def ended(job: Job, progress: JobProgress) -> str:
    """Return what is told when a job is done."""
    return f"{describe(job.kind)} is done: {_counted(progress.counts) or 'nothing to do'}" + "".join(
        f"; {problem}" for problem in progress.problems[:3]
    )


def waits(job: Job, error: Exception, delay_seconds: float) -> str:
    """Return what is told when a job has to wait for a model or a store."""
    return f"{describe(job.kind)} waits, next try in {delay_seconds:.0f} s: {error}"


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items() if count)
