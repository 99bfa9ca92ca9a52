"""Background work: what is under way, cancelling and retrying it, deleting documents as LightRAG does, and caches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Query

from heliograph.engine import AsyncHeliograph
from heliograph.errors import ConflictError, InvalidRequestError, NotFoundError
from heliograph.ids import track_id as new_track_id
from heliograph.server.dependencies import Admin, CurrentService, ReadEngine, Workspace, WriteEngine, Writer
from heliograph.server.openapi import responses
from heliograph.service.jobs.models import JobKind, JobRequest, JobState
from heliograph.wire.documents import (
    ClearResponse,
    DeleteRequest,
    DeleteResponse,
    JobListResponse,
    JobResponse,
    MessageResponse,
    PipelineResponse,
    RecoveryRequest,
    RecoveryResponse,
    RepairRequest,
    RetryRequest,
    pipeline_response,
)

router = APIRouter(prefix="/documents", tags=["documents"])

_CLEAR_SECONDS = 300.0


@router.get("/pipeline_status", summary="See what is under way")
async def pipeline_status(_: ReadEngine, workspace: Workspace, service: CurrentService) -> PipelineResponse:
    """Return what runs and waits in the workspace, and what happened last."""
    return pipeline_response(await service.jobs.state(workspace))


@router.post("/cancel_pipeline", summary="Cancel what is under way")
async def cancel_pipeline(
    _: WriteEngine, principal: Writer, workspace: Workspace, service: CurrentService
) -> MessageResponse:
    """Cancel all jobs but deletions. Documents that were not finished are kept as failed, for `reprocess_failed`."""
    if not await service.jobs.cancel_all(workspace, principal.name):
        return MessageResponse(status="not_busy", message="Pipeline is not currently running. No cancellation needed.")
    message = "Pipeline cancellation has been requested. Documents will be marked as FAILED."
    return MessageResponse(status="cancellation_requested", message=message)


_RETRY_BODY = {
    "requestBody": {"content": {"application/json": {"example": {"doc_ids": ["doc-5f2b9c01d3a44e6f8b7a6c5d"]}}}}
}


@router.post(
    "/reprocess_failed",
    summary="Try failed documents again",
    responses=responses(404, 409),
    openapi_extra=_RETRY_BODY,
)
async def reprocess_failed(
    kb: WriteEngine,
    principal: Writer,
    workspace: Workspace,
    service: CurrentService,
    body: RetryRequest | None = None,
) -> MessageResponse:
    """Process failed documents, failed chunks of partial ones, and whatever waits; unreadable files are read anew.

    With `doc_ids`, only these of them.
    """
    ids = tuple(body.doc_ids) if body else ()
    await _check_known(kb, ids)
    asked = JobRequest(JobKind.RETRY, new_track_id("retry"), principal.name, document_ids=ids)
    await service.jobs.submit(workspace, asked)
    message = "Reprocessing of failed documents has been initiated in background"
    return MessageResponse(status="reprocessing_started", message=message)


@router.delete("/delete_document", summary="Delete documents by id", responses=responses(404, 409))
async def delete_document(
    body: DeleteRequest, kb: WriteEngine, principal: Writer, workspace: Workspace, service: CurrentService
) -> DeleteResponse:
    """Delete documents and all that only they said, in the background; nothing is deleted if an id is unknown."""
    await _check_known(kb, body.doc_ids)
    asked = JobRequest(
        JobKind.DELETE,
        new_track_id("delete"),
        principal.name,
        document_ids=tuple(body.doc_ids),
        deletes_files=body.delete_file,
    )
    job = await service.jobs.submit(workspace, asked)
    message = f"Deletion of {len(body.doc_ids)} documents has been initiated in the background."
    doc_id = ", ".join(body.doc_ids)
    return DeleteResponse(status="deletion_started", message=message, doc_id=doc_id, job_id=job.id)


@router.delete("", summary="Delete all documents and the files of the input folder", responses=responses(409))
async def clear_documents(
    _: WriteEngine, principal: Admin, workspace: Workspace, service: CurrentService
) -> ClearResponse:
    """Delete everything in the workspace, files of the input folder included; refused while anything is under way."""
    if await service.jobs.count_unfinished(workspace):
        message = "Other work is under way; wait for it, or cancel it, and try again."
        return ClearResponse(status="busy", message=message)
    job = await service.jobs.submit(workspace, JobRequest(JobKind.CLEAR, new_track_id("clear"), principal.name))
    job = await service.jobs.wait(workspace, job.id, _CLEAR_SECONDS)
    if job.state is JobState.DONE:
        files = job.progress.counts.get("files", 0)
        return ClearResponse(status="success", message=f"All documents cleared successfully. Deleted {files} files.")
    return ClearResponse(status="fail", message=job.error or "The deletion takes long and goes on in the background.")


@router.post("/clear_cache", summary="Drop cached replies of models")
async def clear_cache(kb: WriteEngine, _: Admin) -> MessageResponse:
    """Drop all cached replies of chat models; documents and graph stay as they are."""
    count = await kb.clear_cache()
    return MessageResponse(status="success", message=f"Successfully cleared all cache ({count} replies)")


@router.post("/source_conflicts/repair", summary="Settle a conflict of sources", responses=responses(409))
async def repair_source_conflict(body: RepairRequest, _: WriteEngine) -> MessageResponse:
    """Always a conflict of its own: there is none to settle, see `GET /documents/source_conflicts`."""
    raise ConflictError(f"no two documents claim {body.canonical_source_key!r:.200}; nothing has to be repaired")


@router.post("/recovery/force_reset", summary="Reset after a crash")
async def force_reset(body: RecoveryRequest, _: Admin) -> RecoveryResponse:
    """Do nothing: every change is one transaction, so that a crash leaves nothing to reset."""
    if not body.confirm:
        raise InvalidRequestError("confirm is false; set it to true to reset")
    return RecoveryResponse(status="no_recovery_required", message="Nothing has to be reset.")


@router.get("/jobs", summary="List background jobs")
async def list_jobs(
    _: ReadEngine,
    workspace: Workspace,
    service: CurrentService,
    offset: Annotated[int, Query(ge=0, le=1_000_000)] = 0,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
) -> JobListResponse:
    """Return jobs, the latest first; those long finished are dropped."""
    jobs, total = await service.jobs.page(workspace, offset, limit)
    return JobListResponse(jobs=tuple(map(JobResponse.of, jobs)), total=total)


@router.get("/jobs/{job_id}", summary="See one background job", responses=responses(404))
async def get_job(job_id: str, _: ReadEngine, workspace: Workspace, service: CurrentService) -> JobResponse:
    """Return how far a job is, or what came of it."""
    return JobResponse.of(await service.jobs.get(workspace, job_id))


@router.post("/jobs/{job_id}/cancel", summary="Cancel one background job", responses=responses(404))
async def cancel_job(
    job_id: str, _: WriteEngine, principal: Writer, workspace: Workspace, service: CurrentService
) -> JobResponse:
    """Cancel a job; one that is finished stays as it is. Documents it leaves unfinished are kept as failed."""
    return JobResponse.of(await service.jobs.cancel(workspace, job_id, principal.name))


async def _check_known(kb: AsyncHeliograph, ids: Sequence[str]) -> None:
    found = {document.id for document in await kb.store.records.get_documents(ids)}
    if missing := [id_ for id_ in ids if id_ not in found]:
        raise NotFoundError(f"there are no documents {', '.join(map(repr, missing[:10]))}; nothing was done")
