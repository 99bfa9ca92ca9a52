"""Document input and jobs: texts, uploads, URLs, the input folder; jobs, retries, deletions as LightRAG's.

Every route here starts or follows a background job. An upload is streamed to the disk, within a limit, under a safe
name: its form holds one part named `file` and perhaps one named `metadata`, a JSON object. Memory holds a piece at a
time, and an interrupted upload leaves no file behind.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, BinaryIO

from fastapi import APIRouter, Query, Request
from fastapi.exceptions import RequestValidationError
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

import heliograph.wire.documents as wire
from heliograph.documents.fetching import check_url
from heliograph.documents.registry import known_suffixes
from heliograph.engine import AsyncHeliograph
from heliograph.errors import (
    ConflictError,
    IngestError,
    InvalidRequestError,
    NotFoundError,
    RequestTooLargeError,
    StoreUnavailable,
    without_folders,
)
from heliograph.ingest.files import find_samples
from heliograph.ingest.intake import clean_metadata
from heliograph.ingest.models import IngestReport, Outcome
from heliograph.models import COMMITTED_STATUSES, Document
from heliograph.server.openapi import responses
from heliograph.server.requests import Admin, ReadEngine, ReadWork, WriteWork, check_json
from heliograph.service.jobs.input_folder import InputFolder, checked_name
from heliograph.service.jobs.models import JobKind, JobState
from heliograph.settings import ServerSettings

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
            }
        },
    }
}


@router.post("/text", summary="Take in a text", responses=responses(409))
async def insert_text(body: wire.TextRequest, work: WriteWork) -> wire.InsertResponse:
    """Store a text, to be processed in the background; one with a known source replaces that document.

    The same text again is `duplicated` and changes nothing, so that a request may be repeated. A document in process is
    replaced at once; the extractions of its old text are dropped.
    """
    report = await work.enqueue(body.documents(), "insert")
    return await _inserted(work.kb, report, has_chunking=body.chunking is not None)


@router.post("/texts", summary="Take in several texts", responses=responses(400, 409))
async def insert_texts(body: wire.TextsRequest, work: WriteWork) -> wire.InsertResponse:
    """Store texts, to be processed in the background; see `POST /documents/text`."""
    report = await work.enqueue(body.documents(), "insert")
    return await _inserted(work.kb, report, has_chunking=body.chunking is not None)


@router.post("/samples", summary="Take in the sample documents", responses=responses(409))
async def insert_samples(work: WriteWork) -> wire.InsertResponse:
    """Store the documents that come with the package, a handbook and a story in English and Chinese, to try."""
    report = await work.enqueue(await asyncio.to_thread(find_samples), "samples")
    return await _inserted(work.kb, report, has_chunking=False)


@router.post("/file", include_in_schema=False)  # LightRAG before 1.4 had this path, and its clients are still in use.
@router.post("/upload", summary="Upload a file", responses=responses(409, 422), openapi_extra=_UPLOAD_FORM)
async def upload(request: Request, work: WriteWork) -> wire.InsertResponse:
    """Keep a file in the input folder and read it in the background. The form is `multipart/form-data`.

    A file of a known name is an update: it replaces the file, and its document is read again. The same file again is
    `duplicated` and changes nothing.
    """
    await work.jobs.check_backlog(work.workspace, work.kb)
    folder = work.jobs.input_folder(work.workspace)
    name, metadata, is_new = await receive_upload(request, folder, work.service.settings.server)
    (id_,) = await work.kb.identify_files([name])
    known = await work.kb.document(id_)
    if known is not None and known.status in COMMITTED_STATUSES and not is_new and metadata is None:
        message = f"The file '{name}' was known already and is unchanged."
        return wire.InsertResponse(status="duplicated", message=message, track_id=known.track_id, document_ids=(id_,))
    # If this fails, the file stays: the next scan reads it, and uploading it again is safe.
    job = await work.submit(JobKind.FILES, "upload", sources=(name,), metadata=metadata)
    message = f"File '{name}' uploaded successfully. Processing will continue in background."
    return wire.InsertResponse(status="success", message=message, track_id=job.request.track_id, document_ids=(id_,))


@router.post("/url", summary="Take in a web page or file by its URL", responses=responses(409))
async def insert_url(body: wire.UrlRequest, work: WriteWork) -> wire.InsertResponse:
    """Fetch a URL in the background; a known one is updated. Private addresses are refused unless settings allow."""
    try:
        check_url(body.url)
    except IngestError as error:
        raise InvalidRequestError(str(error)) from error
    await work.jobs.check_backlog(work.workspace, work.kb)
    job = await work.submit(JobKind.URL, sources=(body.url,), metadata=body.metadata)
    message = "The URL was accepted and is read in the background."
    ids = tuple(await work.kb.identify_files([body.url]))
    return wire.InsertResponse(status="success", message=message, track_id=job.request.track_id, document_ids=ids)


@router.post("/scan", summary="Read what is new in the input folder", responses=responses(409))
async def scan(work: WriteWork) -> wire.ScanResponse:
    """Read new and changed files of the input folder in the background; unchanged ones are not opened."""
    for job in (await work.jobs.state(work.workspace, most_messages=0)).jobs:
        if job.kind is JobKind.SCAN:
            message = "A scan is under way already."
            status = "scanning_skipped_pipeline_busy"
            return wire.ScanResponse(status=status, message=message, track_id=job.request.track_id)
    job = await work.submit(JobKind.SCAN)
    message = "Scanning process has been initiated in the background"
    return wire.ScanResponse(status="scanning_started", message=message, track_id=job.request.track_id)


@router.get("/supported_file_types", summary="List the kinds of files that are read")
async def supported_file_types(_: ReadEngine) -> wire.SupportedTypesResponse:
    """Return the endings of file names that can be uploaded and scanned, those of manual pages (`.1`, `.3pm`) last."""
    endings = sorted(known_suffixes(given=True), key=lambda ending: (ending[1].isdigit(), ending))
    return wire.SupportedTypesResponse(supported_extensions=endings, engines={"heliograph": endings})


async def _inserted(kb: AsyncHeliograph, report: IngestReport, *, has_chunking: bool) -> wire.InsertResponse:
    """Return the outcome for each text; raise if all of them failed."""
    failures = report.failures
    if len(failures) == len(report.results) and failures[0].error is not None:
        raise failures[0].error
    ids = tuple(result.id for result in report.results if result.id)
    waiting = sum(result.outcome is Outcome.PENDING and not result.is_known for result in report.results)
    note = " `chunking` was not applied: how texts are cut is a setting." if has_chunking else ""
    if failures:
        reasons = "; ".join(without_folders(str(result.error)) for result in failures[:3])
        message = f"{len(failures)} of {len(report.results)} texts were refused: {reasons}"
        return wire.InsertResponse(
            status="partial_success", message=message + note, track_id=report.track_id, document_ids=ids
        )
    if not waiting:
        known = await kb.document(ids[0])
        track_id = known.track_id if known is not None and known.track_id else report.track_id
        message = "Everything was known already and is unchanged."
        return wire.InsertResponse(status="duplicated", message=message, track_id=track_id, document_ids=ids)
    message = f"{waiting} of {len(ids)} texts accepted. Processing will continue in background.{note}"
    return wire.InsertResponse(status="success", message=message, track_id=report.track_id, document_ids=ids)


# Receiving one uploaded file.

_MOST_FIELD_BYTES = 65_536


async def receive_upload(
    request: Request, folder: InputFolder, settings: ServerSettings
) -> tuple[str, Mapping[str, Any] | None, bool]:
    """Receive a multipart form and keep its file; return the file's name, its metadata, and whether it changed.

    Raises:
        ConflictError: Something other than a file has this name in the input folder.
        InvalidRequestError: The form is broken, or the name or metadata is not acceptable.
        RequestTooLargeError: The file is longer than `max_upload_bytes`, or its metadata too large or deep.
        RequestValidationError: There is no file in it.
        StoreUnavailable: It cannot be written.
    """
    kind, options = parse_options_header(request.headers.get("content-type", ""))
    if kind != b"multipart/form-data" or not options.get(b"boundary"):
        raise _missing_file()
    form = _UploadForm(folder, settings.max_upload_bytes)
    try:
        parser = MultipartParser(options[b"boundary"], form.callbacks())
        async for piece in request.stream():
            # Writing blocks.
            await asyncio.to_thread(parser.write, piece)
        if not form.is_whole:
            raise InvalidRequestError("the form was cut off; send it again")
        if form.part is None:
            raise _missing_file()
        metadata = _metadata(bytes(form.metadata), settings)
        return form.name, metadata, await asyncio.to_thread(folder.finish, form.part, form.name)
    except FormParserError as error:
        raise InvalidRequestError(f"the form is broken: {error}") from error
    finally:
        if form.part is not None:
            folder.end(form.part)


class _UploadForm:
    """The parser's state so far; the parser calls its methods."""

    def __init__(self, folder: InputFolder, max_bytes: int) -> None:
        self._folder = folder
        self._max_bytes = max_bytes
        self._disposition = b""
        self._header = b""
        self._value = b""
        self._field = b""
        self.name = ""
        self.part: BinaryIO | None = None
        self.metadata = bytearray()
        self.is_whole = False

    def callbacks(self) -> Any:
        """Return the parser's callbacks."""

        def take_header(data: bytes, start: int, end: int) -> None:
            self._header += data[start:end]

        def take_value(data: bytes, start: int, end: int) -> None:
            self._value += data[start:end]

        def end_header() -> None:
            if self._header.lower() == b"content-disposition":
                self._disposition = self._value
            self._header = self._value = b""

        def end() -> None:
            self.is_whole = True

        return {
            "on_part_data": self._take_data,
            "on_header_field": take_header,
            "on_header_value": take_value,
            "on_header_end": end_header,
            "on_headers_finished": self._end_headers,
            "on_end": end,
        }

    def _end_headers(self) -> None:
        _, options = parse_options_header(self._disposition)
        self._disposition, self._field = b"", options.get(b"name", b"")
        if self._field != b"file":
            return
        if self.part is not None:
            raise InvalidRequestError("the form holds several files; send one a request")
        if b"filename" not in options:
            raise _missing_file()
        try:
            name = options[b"filename"].decode("utf-8")
        except UnicodeDecodeError as error:
            raise InvalidRequestError("the name of the file is not in UTF-8; rename the file") from error
        self.name = checked_name(name)
        self.part = self._folder.begin(self.name)

    def _take_data(self, data: bytes, start: int, end: int) -> None:
        if self._field == b"file" and self.part is not None:
            try:
                self.part.write(data[start:end])
                size = self.part.tell()
            except OSError as error:
                raise StoreUnavailable(f"an upload cannot be written: {error.strerror}; check the disk") from error
            if size > self._max_bytes:
                raise RequestTooLargeError(
                    f"the file has more than {self._max_bytes:,} bytes; split it, or raise server.max_upload_bytes"
                )
        elif self._field == b"metadata":
            self.metadata += data[start:end]
            if len(self.metadata) > _MOST_FIELD_BYTES:
                raise RequestTooLargeError(f"metadata has more than {_MOST_FIELD_BYTES:,} bytes; give less")


def _metadata(data: bytes, settings: ServerSettings) -> Mapping[str, Any] | None:
    if not data:
        return None
    check_json(data, settings.max_json_depth, settings.max_json_values)
    try:
        value = json.loads(data)
    except ValueError as error:
        raise InvalidRequestError(f"metadata is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise InvalidRequestError("metadata must be a JSON object")
    return clean_metadata(value, "uploaded")


def _missing_file() -> RequestValidationError:
    return RequestValidationError(
        [{"type": "missing", "loc": ("body", "file"), "msg": "Field required", "input": None}]
    )


# Background work: listing, cancelling and retrying it, deleting documents as LightRAG does, and caches.

_CLEAR_SECONDS = 300.0


@router.get("/pipeline_status", summary="See what is under way")
async def pipeline_status(work: ReadWork) -> wire.PipelineResponse:
    """Return the running and waiting jobs of the workspace, and its latest messages."""
    return wire.pipeline_response(await work.jobs.state(work.workspace))


@router.post("/cancel_pipeline", summary="Cancel what is under way")
async def cancel_pipeline(work: WriteWork) -> wire.MessageResponse:
    """Cancel all jobs except deletions. Unfinished documents are kept as failed, for `reprocess_failed`."""
    if not await work.jobs.cancel_all(work.workspace, work.author):
        return wire.MessageResponse(
            status="not_busy", message="Pipeline is not currently running. No cancellation needed."
        )
    message = "Pipeline cancellation has been requested. Documents will be marked as FAILED."
    return wire.MessageResponse(status="cancellation_requested", message=message)


@router.post(
    "/reprocess_failed",
    summary="Try failed documents again",
    responses=responses(404, 409),
)
async def reprocess_failed(
    work: WriteWork,
    body: wire.RetryRequest | None = None,
) -> wire.MessageResponse:
    """Process failed documents, failed chunks of partial ones, and all waiting ones; unreadable files are read again.

    With `doc_ids`, only these of them.
    """
    ids = tuple(body.doc_ids) if body else ()
    await _known(work.kb, ids)
    await work.submit(JobKind.RETRY, document_ids=ids)
    message = "Reprocessing of failed documents has been initiated in background"
    return wire.MessageResponse(status="reprocessing_started", message=message)


@router.delete("/delete_document", summary="Delete documents by id", responses=responses(404, 409))
async def delete_document(body: wire.DeleteRequest, work: WriteWork) -> wire.DeleteResponse:
    """Delete documents and everything only they mention, in the background; if an id is unknown, nothing is deleted."""
    job = await work.delete(await _known(work.kb, body.doc_ids), deletes_files=body.delete_file)
    message = f"Deletion of {len(body.doc_ids)} documents has been initiated in the background."
    doc_id = ", ".join(body.doc_ids)
    return wire.DeleteResponse(status="deletion_started", message=message, doc_id=doc_id, job_id=job.id)


async def _known(kb: AsyncHeliograph, ids: Sequence[str]) -> list[Document]:
    found = {document.id: document for document in await kb.documents_by_id(ids)}
    if missing := [id_ for id_ in ids if id_ not in found]:
        raise NotFoundError(f"there are no documents {', '.join(map(repr, missing[:10]))}; nothing was done")
    return [found[id_] for id_ in dict.fromkeys(ids)]


@router.delete("", summary="Delete all documents and the files of the input folder", responses=responses(409))
async def clear_documents(work: WriteWork, _: Admin) -> wire.ClearResponse:
    """Delete everything in the workspace, including files of the input folder; refused while any job is unfinished."""
    if await work.jobs.count_unfinished(work.workspace):
        message = "Other work is under way; wait for it, or cancel it, and try again."
        return wire.ClearResponse(status="busy", message=message)
    job = await work.submit(JobKind.CLEAR)
    job = await work.jobs.wait(work.workspace, job.id, _CLEAR_SECONDS)
    if job.state is JobState.DONE:
        files = job.progress.counts.get("files", 0)
        return wire.ClearResponse(
            status="success", message=f"All documents cleared successfully. Deleted {files} files."
        )
    return wire.ClearResponse(
        status="fail", message=job.error or "The deletion takes long and goes on in the background."
    )


@router.post("/clear_cache", summary="Drop cached replies of models")
async def clear_cache(work: WriteWork, _: Admin) -> wire.MessageResponse:
    """Drop all cached replies of chat models; documents and graph stay as they are."""
    count = await work.kb.clear_cache()
    return wire.MessageResponse(status="success", message=f"Successfully cleared all cache ({count} replies)")


@router.post("/source_conflicts/repair", summary="Settle a conflict of sources", responses=responses(409))
async def repair_source_conflict(body: wire.RepairRequest, _: WriteWork) -> wire.MessageResponse:
    """Always reply with a conflict: there is none to settle, see `GET /documents/source_conflicts`."""
    raise ConflictError(f"no two documents claim {body.canonical_source_key!r:.200}; nothing has to be repaired")


@router.post("/recovery/force_reset", summary="Reset after a crash")
async def force_reset(body: wire.RecoveryRequest, _: Admin) -> wire.RecoveryResponse:
    """Do nothing: every change is one transaction, so that a crash leaves nothing to reset."""
    if not body.confirm:
        raise InvalidRequestError("confirm is false; set it to true to reset")
    return wire.RecoveryResponse(status="no_recovery_required", message="Nothing has to be reset.")


@router.get("/jobs", summary="List background jobs")
async def list_jobs(
    work: ReadWork,
    offset: Annotated[int, Query(ge=0, le=1_000_000)] = 0,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
) -> wire.JobListResponse:
    """Return jobs, the latest first; old finished ones are dropped."""
    jobs, total = await work.jobs.page(work.workspace, offset, limit)
    return wire.JobListResponse(jobs=tuple(map(wire.JobResponse.model_validate, jobs)), total=total)


@router.get("/jobs/{job_id}", summary="See one background job", responses=responses(404))
async def get_job(job_id: str, work: ReadWork) -> wire.JobResponse:
    """Return the progress or outcome of a job."""
    return wire.JobResponse.model_validate(await work.jobs.get(work.workspace, job_id))


@router.post("/jobs/{job_id}/cancel", summary="Cancel one background job", responses=responses(404))
async def cancel_job(job_id: str, work: WriteWork) -> wire.JobResponse:
    """Cancel a job; a finished one is left alone. Documents it leaves unfinished are kept as failed."""
    return wire.JobResponse.model_validate(await work.jobs.cancel(work.workspace, job_id, work.author))
