"""Documents over HTTP: pages and counts as LightRAG's clients list them, and each document as a resource.

An id may be any text, so paths with an id come last, and this router after the others below `/documents`. Listings are
polled often, so each is a few indexed reads.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import islice, zip_longest
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query
from starlette.requests import Request
from starlette.responses import Response

import heliograph.wire.documents as wire
from heliograph.documents.markdown import clean_text
from heliograph.engine import AsyncHeliograph
from heliograph.errors import InvalidRequestError, NotFoundError
from heliograph.filters import parse_filter
from heliograph.ids import mention_entity_id
from heliograph.ingest.intake import changed_document
from heliograph.ingest.models import NewDocument, Outcome
from heliograph.models import Document, DocumentStatus
from heliograph.server.openapi import responses
from heliograph.server.requests import ReadEngine, ReadWork, Work, WriteWork
from heliograph.service.jobs.models import Job, JobKind, JobState
from heliograph.stores.base import DocumentPage, DocumentQuery, DocumentSort

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
async def paginated(body: wire.PageRequest, kb: ReadEngine) -> wire.PageResponse:
    """Return one page of documents, and how many there are per status."""
    counts, statuses = await _counts(kb), body.statuses()
    query = DocumentQuery(
        statuses or (),
        sort=_SORTS[body.sort_field],
        descending=body.sort_direction == "desc",
        offset=(body.page - 1) * body.page_size,
        limit=body.page_size,
    )
    # No document ever has some of LightRAG's statuses.
    page = DocumentPage((), 0) if statuses == () else await kb.documents(query)
    pages = -(-page.total // body.page_size)
    return wire.PageResponse(
        documents=await _told(kb, page.documents),
        pagination=wire.Pagination(
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
async def status_counts(kb: ReadEngine) -> wire.StatusCountsResponse:
    """Return how many documents there are per status, and in all."""
    return wire.StatusCountsResponse(status_counts=await _counts(kb))


@router.get("/track_status/{track_id}", summary="Follow a batch")
async def track_status(track_id: TrackId, work: ReadWork) -> wire.TrackResponse:
    """Return the documents of a batch, including those not read yet; none for an unknown batch.

    If later versions have replaced all of them, these are returned, each with the `track_id` of its batch.
    """
    track_id = track_id.strip()
    jobs = await work.jobs.of_track(work.workspace, track_id)
    page = await work.kb.documents(DocumentQuery(track_id=track_id, limit=_MOST_OF_TRACK))
    found: Sequence[Document] = page.documents
    if not found:
        ids = await work.jobs.documents_of_track(work.workspace, track_id, _MOST_OF_TRACK)
        found = await work.kb.documents_by_id(ids)
    documents = await _told(work.kb, found) + await _unread(work.kb, jobs, {item.source for item in found})
    summary: dict[str, int] = {}
    for document in documents:
        summary[document.status] = summary.get(document.status, 0) + 1
    return wire.TrackResponse(
        track_id=track_id, documents=documents, total_count=len(documents), status_summary=summary
    )


@router.get("/scan/status/{track_id}", summary="Follow a scan", responses=responses(404))
async def scan_status(track_id: TrackId, work: ReadWork) -> wire.ScanStatusResponse:
    """Return how far a scan of the input folder is, and what it found."""
    for job in await work.jobs.of_track(work.workspace, track_id.strip()):
        if job.kind is JobKind.SCAN:
            return wire.scan_status_response(job)
    raise NotFoundError(f"there is no scan {track_id!r:.100}; it may be long finished")


@router.get("/source_conflicts", summary="List sources that several documents claim")
async def source_conflicts(
    _: ReadEngine,
    limit: Annotated[int, Query(ge=1, le=200, description="Conflicts on a page.")] = 50,  # noqa: ARG001 (there are none)
    cursor: Annotated[str | None, Query(description="From the page before; there is none.")] = None,
) -> wire.ConflictsResponse:
    """Return none: every document has its own id, and a text whose source several documents have replaces none."""
    if cursor is not None:
        raise InvalidRequestError(f"no page has the cursor {cursor!r:.100}; leave it out")
    return wire.ConflictsResponse()


async def _counts(kb: AsyncHeliograph) -> dict[str, int]:
    pages = await asyncio.gather(*(kb.documents(DocumentQuery((status,), limit=0)) for status in DocumentStatus))
    return wire.count_statuses(zip(DocumentStatus, (page.total for page in pages), strict=True))


async def _told(kb: AsyncHeliograph, documents: Sequence[Document]) -> list[wire.DocStatusResponse]:
    openings = await kb.store.records.get_openings([document.id for document in documents], _OPENING_LENGTH)
    return [wire.doc_status_response(document, openings.get(document.id, "")) for document in documents]


async def _unread(kb: AsyncHeliograph, jobs: Sequence[Job], stored: set[str]) -> list[wire.DocStatusResponse]:
    """Return uploads and URLs that were accepted and are not read yet."""
    sources = [
        (job, source)
        for job in jobs
        if job.is_unfinished and job.kind in (JobKind.FILES, JobKind.URL)
        for source in job.request.sources
        if clean_text(source) not in stored
    ]
    ids = await kb.identify_files([source for _, source in sources])
    return [
        wire.doc_status_response(
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


_DELETE_SECONDS = 10.0

DocumentId = Annotated[str, Path(max_length=4_096, description="The document's id.")]


_MOST_BY_STATUS = 1_000
# The name of the API key in LightRAG's OpenAPI document, where it is a parameter; generated clients send it.
_KEY_PARAMETER = "api_key_header_value"


@router.get("", summary="List documents")
async def list_documents(
    request: Request,
    kb: ReadEngine,
    status: Annotated[list[wire.StatusName] | None, Query(description="Any of these.")] = None,
    track_id: Annotated[str | None, Query(max_length=4_096)] = None,
    source_prefix: Annotated[str | None, Query(max_length=4_096)] = None,
    filter: Annotated[str | None, Query(max_length=65_536, description="A filter as JSON.")] = None,
    sort: DocumentSort = "created_at",
    descending: bool = False,
    offset: Annotated[int, Query(ge=0, le=1_000_000_000)] = 0,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 100,
) -> wire.ListResponse:
    """Return documents that meet all given conditions; without any, also by status, as LightRAG before 1.5.7."""
    condition = None
    if filter is not None:
        try:
            value = json.loads(filter)
        except (ValueError, RecursionError) as error:
            raise InvalidRequestError(f"filter is not JSON: {error}") from error
        condition = parse_filter(value)
    query = DocumentQuery(
        tuple(DocumentStatus(name) for name in status or ()),
        track_id=track_id,
        source_prefix=source_prefix,
        filter=condition,
        sort=sort,
        descending=descending,
        offset=offset,
        limit=limit,
    )
    page = await kb.documents(query)
    documents = tuple(map(wire.DocumentResponse.of, page.documents))
    statuses = {} if request.query_params.keys() - {_KEY_PARAMETER} else await _by_status(kb)
    return wire.ListResponse(documents=documents, total=page.total, offset=offset, limit=limit, statuses=statuses)


async def _by_status(kb: AsyncHeliograph) -> dict[wire.DocStatus, list[wire.FormerDocStatusResponse]]:
    """Return documents by LightRAG's statuses, the latest first; if there are too many, an equal share of each."""
    queries = (DocumentQuery((status,), descending=True, limit=_MOST_BY_STATUS) for status in DocumentStatus)
    pages = await asyncio.gather(*map(kb.documents, queries))
    turns = zip_longest(*(page.documents for page in pages))
    kept = islice((document for turn in turns for document in turn if document is not None), _MOST_BY_STATUS)
    found: dict[wire.DocStatus, list[wire.FormerDocStatusResponse]] = {}
    for told in await _told(kb, tuple(kept)):
        former = wire.FormerDocStatusResponse.model_construct(**vars(told), error=told.error_msg)
        found.setdefault(told.status, []).append(former)
    return found


@router.post("/delete_matching", summary="Delete documents that match", responses=responses(409))
async def delete_matching(body: wire.DeleteMatchingRequest, work: WriteWork) -> wire.RemovalResponse:
    """Delete all documents that match now, in the background. Without any condition nothing is deleted."""
    if body.source_prefix is None and body.filter is None:
        raise InvalidRequestError("give source_prefix or filter; DELETE /documents deletes everything")
    condition = None if body.filter is None else parse_filter(body.filter)
    query = DocumentQuery(source_prefix=body.source_prefix, filter=condition, sort="id")
    found = [document async for document in work.kb.store.records.all_documents(query)]
    if not found:
        return wire.RemovalResponse(status="deleted", message="No document matches.", job_id="", count=0)
    return await _remove(work, found, deletes_files=body.delete_file)


@router.get("/{document_id:path}/text", summary="Read a document's text", responses=responses(404))
async def get_text(
    document_id: DocumentId,
    kb: ReadEngine,
    offset: Annotated[int, Query(ge=0, le=1_000_000_000)] = 0,
    limit: Annotated[int | None, Query(ge=1, description="Characters; all by default.")] = None,
) -> wire.TextResponse:
    """Return the whole text as it is stored, or a part of it."""
    document = await _find(kb, document_id)
    text = await kb.document_text(document.id)
    if text is None:
        raise NotFoundError(f"the document {document.source!r} has no text: {document.error or 'it is not read yet'}")
    part = text[offset:] if limit is None else text[offset : offset + limit]
    return wire.TextResponse(
        id=document.id, source=document.source, text=part, offset=offset, total_characters=len(text)
    )


@router.get(
    "/{document_id:path}/pages/{page}",
    summary="Draw a page of a PDF",
    response_class=Response,
    responses={
        200: {"content": {"image/png": {"schema": {"type": "string", "format": "binary"}, "example": "PNG"}}},
        **responses(404, 422, 501),
    },
)
async def draw_page(
    document_id: DocumentId,
    page: Annotated[int, Path(ge=1, le=1_000_000)],
    work: ReadWork,
    width: Annotated[int, Query(ge=100, le=2_000, description="Of the picture, in pixels.")] = 1_000,
) -> Response:
    """Return a page as PNG if the uploaded file is still in the input folder; 404 otherwise."""
    document = await _find(work.kb, document_id)
    path = await asyncio.to_thread(work.jobs.input_folder(work.workspace).find, document.source)
    if path is None or path.suffix.lower() != ".pdf":
        raise NotFoundError(
            f"the file of the document {document.source!r} is no PDF in the input folder of the service"
        )
    picture = await asyncio.to_thread(work.service.page_reader.draw_page, path, document.source, page, width)
    return Response(picture, media_type="image/png", headers={"Cache-Control": "private, max-age=300"})


@router.get("/{document_id:path}/entities", summary="List the entities of a document", responses=responses(404))
async def get_entities(
    document_id: DocumentId,
    kb: ReadEngine,
    limit: Annotated[int, Query(ge=1, le=1_000, description="Entities at the most.")] = 200,
) -> wire.DocumentEntitiesResponse:
    """Return the entities that a document names, the most mentioned first, each with its spellings there."""
    document = await _find(kb, document_id)
    chunks = await kb.chunks(document.id)
    found = await kb.store.records.get_entity_mentions([chunk.id for chunk in chunks])
    written: dict[str, Counter[str]] = {}
    for mentions in found.values():
        for mention in mentions:
            written.setdefault(mention_entity_id(mention), Counter())[mention.name] += 1
    known = {entity.id: entity for entity in await kb.store.graph.get_entities(list(written))}
    entities = [
        wire.DocumentEntity(name=known[id_].name, type=known[id_].type, written=list(names), count=names.total())
        for id_, names in written.items()
        if id_ in known
    ]
    entities.sort(key=lambda item: (-item.count, item.name))
    return wire.DocumentEntitiesResponse(entities=entities[:limit], total=len(entities))


@router.get("/{document_id:path}", summary="Read a document with its chunks", responses=responses(404))
async def get_document(
    document_id: DocumentId,
    work: ReadWork,
    chunk_offset: Annotated[int, Query(ge=0, le=1_000_000_000)] = 0,
    chunk_limit: Annotated[int, Query(ge=0, le=500)] = 50,
) -> wire.DetailResponse:
    """Return a document and a page of its chunks in order."""
    document = await _find(work.kb, document_id)
    chunks = await work.kb.chunks(document.id) if chunk_limit else []
    shown = tuple(map(wire.ChunkResponse.model_validate, chunks[chunk_offset : chunk_offset + chunk_limit]))
    known = wire.DocumentResponse.of(document).model_dump()
    versions = tuple(map(wire.VersionItem.model_validate, await work.jobs.versions(work.workspace, document.id)))
    return wire.DetailResponse(**known, chunks=shown, chunk_offset=chunk_offset, versions=versions)


@router.put("/{document_id:path}", summary="Update a document", responses=responses(404, 409))
async def update_document(
    document_id: DocumentId,
    body: wire.UpdateRequest,
    work: WriteWork,
) -> wire.ChangeResponse:
    """Replace text, title or metadata; omitted fields stay. The old text answers until the new one is processed.

    Unchanged chunks keep their extractions.
    """
    document = await _find(work.kb, document_id)
    new = await changed_document(work.kb.store.records, document, body.text, body.metadata, body)
    return await _update(work, new)


@router.patch("/{document_id:path}", summary="Change metadata or title", responses=responses(404, 409))
async def change_document(
    document_id: DocumentId,
    body: wire.ChangeRequest,
    work: WriteWork,
) -> wire.ChangeResponse:
    """Merge metadata into a document's, or change its title. Metadata alone takes effect at once."""
    document = await _find(work.kb, document_id)
    metadata = None if body.metadata is None else _merged(document.metadata, body.metadata)
    new = await changed_document(work.kb.store.records, document, None, metadata, body)
    return await _update(work, new)


@router.delete("/{document_id:path}", summary="Delete a document", responses=responses(404, 409))
async def delete_one(
    document_id: DocumentId,
    work: WriteWork,
    delete_file: bool = False,
) -> wire.RemovalResponse:
    """Delete a document and everything only it mentions; `deletion_started` if that takes longer than a moment."""
    return await _remove(work, [await _find(work.kb, document_id)], deletes_files=delete_file)


async def _find(kb: AsyncHeliograph, id_: str) -> Document:
    if (document := await kb.document(id_)) is None:
        raise NotFoundError(f"there is no document {id_!r:.200} in this workspace")
    return document


async def _update(work: Work, new: NewDocument) -> wire.ChangeResponse:
    report = await work.enqueue([new], "update")
    (result,) = report.results
    if result.error is not None:
        raise result.error
    document = await _find(work.kb, result.id)
    if result.outcome is Outcome.PENDING:
        status, message = "success", "The update was accepted and is processed in the background."
    else:
        status, message = "unchanged", "The text is unchanged; what was given beside it is in effect."
    return wire.ChangeResponse(
        status=status, message=message, track_id=document.track_id, document=wire.DocumentResponse.of(document)
    )


def _merged(known: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return metadata after a merge patch (RFC 7396)."""
    merged = dict(known)
    for name, value in changes.items():
        if value is None:
            merged.pop(name, None)
        elif isinstance(value, dict):
            before = merged.get(name)
            merged[name] = _merged(before if isinstance(before, dict) else {}, value)
        else:
            merged[name] = value
    return merged


async def _remove(work: Work, found: Sequence[Document], *, deletes_files: bool) -> wire.RemovalResponse:
    job = await work.delete(found, deletes_files=deletes_files)
    job = await work.jobs.wait(work.workspace, job.id, _DELETE_SECONDS)
    count = len(found)
    if job.state is JobState.DONE:
        deleted, replaced = (job.progress.counts.get(name, 0) for name in ("deleted", "replaced"))
        stay = f" {replaced} handed over anew meanwhile, so not deleted." if replaced else ""
        message = f"{deleted} deleted.{stay}"
        return wire.RemovalResponse(status="deleted", message=message, job_id=job.id, count=count)
    message = job.error or "The deletion goes on in the background."
    return wire.RemovalResponse(status="deletion_started", message=message, job_id=job.id, count=count)
