"""Documents as LightRAG's clients list them: pages, counts, batches. Polled often, so each is a few indexed reads."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Path

from heliograph.documents.markdown import clean_text
from heliograph.engine import AsyncHeliograph
from heliograph.errors import NotFoundError
from heliograph.ingest.intake import identify_files
from heliograph.models import Document, DocumentStatus
from heliograph.server.dependencies import CurrentService, ReadEngine, Workspace
from heliograph.server.openapi import responses
from heliograph.service.jobs.models import Job, JobKind
from heliograph.stores.base import DocumentPage, DocumentQuery, DocumentSort
from heliograph.wire.documents import (
    ConflictsResponse,
    DocStatusResponse,
    PageRequest,
    PageResponse,
    Pagination,
    ScanStatusResponse,
    StatusCountsResponse,
    TrackResponse,
    count_statuses,
    doc_status_response,
    scan_status_response,
)

router = APIRouter(prefix="/documents", tags=["documents"])

_SORTS: dict[str, DocumentSort] = {
    "created_at": "created_at",
    "updated_at": "updated_at",
    "id": "id",
    "file_path": "source",
}
_OPENING_LENGTH = 251
_MOST_OF_TRACK = 10_000

TrackId = Annotated[str, Path(max_length=4_096, description="As the response that accepted the batch named it.")]


@router.post("/paginated", summary="List documents page by page")
async def paginated(body: PageRequest, kb: ReadEngine) -> PageResponse:
    """Return one page of documents, and how many there are per status."""
    counts = await _counts(kb)
    page = await _page(kb, body)
    pages = -(-page.total // body.page_size)
    return PageResponse(
        documents=await _told(kb, page.documents),
        pagination=Pagination(
            page=body.page,
            page_size=body.page_size,
            total_count=page.total,
            total_pages=pages,
            has_next=body.page < pages,
            has_prev=body.page > 1,
        ),
        status_counts=counts,
    )


@router.get("/status_counts", summary="Count documents by status")
async def status_counts(kb: ReadEngine) -> StatusCountsResponse:
    """Return how many documents there are per status, and in all."""
    return StatusCountsResponse(status_counts=await _counts(kb))


@router.get("/track_status/{track_id}", summary="Follow a batch")
async def track_status(
    track_id: TrackId, kb: ReadEngine, workspace: Workspace, service: CurrentService
) -> TrackResponse:
    """Return the documents of a batch, those that are still to be read included; none for an unknown batch."""
    track_id = track_id.strip()
    jobs = await service.jobs.of_track(workspace, track_id)
    page = await kb.documents(DocumentQuery(track_id=track_id, limit=_MOST_OF_TRACK))
    documents = await _told(kb, page.documents) + await _unread(kb, jobs, {item.source for item in page.documents})
    summary: dict[str, int] = {}
    for document in documents:
        summary[document.status] = summary.get(document.status, 0) + 1
    return TrackResponse(track_id=track_id, documents=documents, total_count=len(documents), status_summary=summary)


@router.get("/scan/status/{track_id}", summary="Follow a scan", responses=responses(404))
async def scan_status(
    track_id: TrackId, _: ReadEngine, workspace: Workspace, service: CurrentService
) -> ScanStatusResponse:
    """Return how far a scan of the input folder is, and what it found."""
    for job in await service.jobs.of_track(workspace, track_id.strip()):
        if job.kind is JobKind.SCAN:
            return scan_status_response(job)
    raise NotFoundError(f"there is no scan {track_id!r:.100}; it may be long finished")


@router.get("/source_conflicts", summary="List sources that several documents claim")
async def source_conflicts(_: ReadEngine) -> ConflictsResponse:
    """Return none: every document has its own id, and a text of a source that several have replaces none of them."""
    return ConflictsResponse()


async def _counts(kb: AsyncHeliograph) -> dict[str, int]:
    pages = await asyncio.gather(*(kb.documents(DocumentQuery((status,), limit=0)) for status in DocumentStatus))
    return count_statuses(zip(DocumentStatus, (page.total for page in pages), strict=True))


async def _page(kb: AsyncHeliograph, body: PageRequest) -> DocumentPage:
    statuses = body.statuses()
    if statuses == ():
        return DocumentPage((), 0)
    query = DocumentQuery(
        statuses or (),
        sort=_SORTS[body.sort_field],
        descending=body.sort_direction == "desc",
        offset=(body.page - 1) * body.page_size,
        limit=body.page_size,
    )
    return await kb.documents(query)


async def _told(kb: AsyncHeliograph, documents: Sequence[Document]) -> list[DocStatusResponse]:
    openings = await kb.store.records.get_openings([document.id for document in documents], _OPENING_LENGTH)
    return [doc_status_response(document, openings.get(document.id, "")) for document in documents]


async def _unread(kb: AsyncHeliograph, jobs: Sequence[Job], stored: set[str]) -> list[DocStatusResponse]:
    """Return uploads and URLs that were accepted and are not read yet."""
    sources = [
        (job, source)
        for job in jobs
        if job.is_unfinished and job.kind in (JobKind.FILES, JobKind.URL)
        for source in job.request.sources
        if clean_text(source) not in stored
    ]
    ids = await identify_files(kb.store.records, [source for _, source in sources])
    return [
        doc_status_response(
            Document(
                id_,
                source,
                error=job.error,
                track_id=job.request.track_id,
                created_at=job.created_at,
                updated_at=job.created_at,
            ),
            "",
        )
        for id_, (job, source) in zip(ids, sources, strict=True)
    ]
