"""Documents in: text, texts, uploads, URLs, and scans of the input folder.

What a response accepts is on disk by then: texts as pending documents, uploads as files of the input folder with a job
that reads them. The rest is done in the background.
"""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import APIRouter, Request

from heliograph.documents.registry import known_suffixes
from heliograph.documents.sources import check_url
from heliograph.engine import AsyncHeliograph
from heliograph.errors import IngestError, InvalidRequestError
from heliograph.ids import track_id as new_track_id
from heliograph.ingest.files import find_samples
from heliograph.ingest.intake import identify_files
from heliograph.ingest.models import IngestReport, Outcome
from heliograph.models import COMMITTED_STATUSES
from heliograph.server.dependencies import CurrentService, ReadEngine, Workspace, WriteEngine, Writer
from heliograph.server.openapi import responses
from heliograph.server.uploads import receive_upload
from heliograph.service.jobs.models import JobKind, JobRequest
from heliograph.service.principal import without_folders
from heliograph.wire.documents import (
    InsertResponse,
    ScanResponse,
    SupportedTypesResponse,
    TextRequest,
    TextsRequest,
    UrlRequest,
)

router = APIRouter(prefix="/documents", tags=["documents"])

_UPLOAD_FORM: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["file"],
                    "properties": {
                        "file": {"type": "string", "format": "binary"},
                        "metadata": {"type": "string", "description": "A JSON object, kept with the document."},
                    },
                },
                "example": {"file": "ESP32 speaks MQTT over TLS.", "metadata": '{"team": "red"}'},
            }
        },
    }
}


@router.post("/text", summary="Take in a text", responses=responses(409))
async def insert_text(
    body: TextRequest, kb: WriteEngine, principal: Writer, workspace: Workspace, service: CurrentService
) -> InsertResponse:
    """Store a text, to be processed in the background; one with a known source replaces that document.

    The same text again is `duplicated` and changes nothing, so that a request may be repeated.
    """
    track_id = new_track_id("insert")
    report = await service.jobs.enqueue(workspace, kb, body.documents(), track_id, principal.name)
    return await _inserted(kb, report, has_chunking=body.chunking is not None)


@router.post("/texts", summary="Take in several texts", responses=responses(409))
async def insert_texts(
    body: TextsRequest, kb: WriteEngine, principal: Writer, workspace: Workspace, service: CurrentService
) -> InsertResponse:
    """Store texts, to be processed in the background; see `POST /documents/text`."""
    track_id = new_track_id("insert")
    report = await service.jobs.enqueue(workspace, kb, body.documents(), track_id, principal.name)
    return await _inserted(kb, report, has_chunking=body.chunking is not None)


@router.post("/samples", summary="Take in the sample documents", responses=responses(409))
async def insert_samples(
    kb: WriteEngine, principal: Writer, workspace: Workspace, service: CurrentService
) -> InsertResponse:
    """Store the documents that come with the package, a handbook and a story in English and Chinese, to try."""
    track_id = new_track_id("samples")
    documents = await asyncio.to_thread(find_samples)
    report = await service.jobs.enqueue(workspace, kb, documents, track_id, principal.name)
    return await _inserted(kb, report, has_chunking=False)


@router.post("/upload", summary="Upload a file", responses=responses(409, 422), openapi_extra=_UPLOAD_FORM)
async def upload(
    request: Request, kb: WriteEngine, principal: Writer, workspace: Workspace, service: CurrentService
) -> InsertResponse:
    """Keep a file in the input folder and have it read in the background. The form is `multipart/form-data`.

    A file of a known name is an update: it takes the place of the file, and its document is read anew. The same file
    again is `duplicated` and changes nothing.
    """
    await service.jobs.check_room(workspace, kb)
    folder = service.jobs.input_folder(workspace)
    received = await receive_upload(request, folder, service.settings.server)
    try:
        is_new = await asyncio.to_thread(folder.finish, received.part, received.name)
    finally:
        received.part.unlink(missing_ok=True)
    (id_,) = await identify_files(kb.store.records, [received.name])
    known = await kb.document(id_)
    if known is not None and known.status in COMMITTED_STATUSES and not is_new and received.metadata is None:
        message = f"The file '{received.name}' was known already and is unchanged."
        return InsertResponse(status="duplicated", message=message, track_id=known.track_id, document_ids=(id_,))
    track_id = new_track_id("upload")
    # If this fails, the file stays: the next scan reads it, and uploading it again is safe.
    await service.jobs.submit(
        workspace,
        JobRequest(JobKind.FILES, track_id, principal.name, (received.name,), metadata=received.metadata),
    )
    message = f"File '{received.name}' uploaded successfully. Processing will continue in background."
    return InsertResponse(status="success", message=message, track_id=track_id, document_ids=(id_,))


@router.post("/url", summary="Take in a web page or file by its URL", responses=responses(409))
async def insert_url(
    body: UrlRequest, kb: WriteEngine, principal: Writer, workspace: Workspace, service: CurrentService
) -> InsertResponse:
    """Fetch a URL in the background; a known one is updated. Private addresses are refused unless settings allow."""
    try:
        check_url(body.url)
    except IngestError as error:
        raise InvalidRequestError(str(error)) from error
    await service.jobs.check_room(workspace, kb)
    track_id = new_track_id("url")
    asked = JobRequest(JobKind.URL, track_id, principal.name, (body.url,), metadata=body.metadata)
    await service.jobs.submit(workspace, asked)
    message = "The URL was accepted and is read in the background."
    ids = tuple(await identify_files(kb.store.records, [body.url]))
    return InsertResponse(status="success", message=message, track_id=track_id, document_ids=ids)


@router.post("/scan", summary="Read what is new in the input folder", responses=responses(409))
async def scan(_: WriteEngine, principal: Writer, workspace: Workspace, service: CurrentService) -> ScanResponse:
    """Read new and changed files of the input folder in the background; unchanged ones are not opened."""
    for job in (await service.jobs.state(workspace, most_messages=0)).jobs:
        if job.kind is JobKind.SCAN:
            message = "A scan is under way already."
            status = "scanning_skipped_pipeline_busy"
            return ScanResponse(status=status, message=message, track_id=job.request.track_id)
    job = await service.jobs.submit(workspace, JobRequest(JobKind.SCAN, new_track_id("scan"), principal.name))
    message = "Scanning process has been initiated in the background"
    return ScanResponse(status="scanning_started", message=message, track_id=job.request.track_id)


@router.get("/supported_file_types", summary="List the kinds of files that are read")
async def supported_file_types(_: ReadEngine) -> SupportedTypesResponse:
    """Return the endings of file names that can be uploaded and scanned."""
    endings = sorted(known_suffixes())
    return SupportedTypesResponse(supported_extensions=endings, engines={"heliograph": endings})


async def _inserted(kb: AsyncHeliograph, report: IngestReport, *, has_chunking: bool) -> InsertResponse:
    """Return what became of texts; a failure of all of them is raised."""
    failures = report.failures
    if len(failures) == len(report.results) and failures[0].error is not None:
        raise failures[0].error
    waiting, ids = report.count(Outcome.PENDING), tuple(result.id for result in report.results if result.id)
    note = " `chunking` was not applied: how texts are cut is a setting." if has_chunking else ""
    if failures:
        reasons = "; ".join(without_folders(str(result.error)) for result in failures[:3])
        message = f"{len(failures)} of {len(report.results)} texts were refused: {reasons}"
        return InsertResponse(
            status="partial_success", message=message + note, track_id=report.track_id, document_ids=ids
        )
    if not waiting:
        known = await kb.document(ids[0])
        track_id = known.track_id if known is not None and known.track_id else report.track_id
        message = "Everything was known already and is unchanged."
        return InsertResponse(status="duplicated", message=message, track_id=track_id, document_ids=ids)
    message = f"{waiting} of {len(ids)} texts accepted. Processing will continue in background.{note}"
    return InsertResponse(status="success", message=message, track_id=report.track_id, document_ids=ids)
