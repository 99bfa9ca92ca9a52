"""Responses: JSON, streams of lines that end when their client hangs up, and problem bodies for failures (RFC 9457).

One table gives the HTTP status of each error. A problem's `detail` is what LightRAG's clients read. A validation
failure (422) keeps the list of problems there that clients generated from the OpenAPI expect.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from fastapi import FastAPI, Request
from fastapi.encoders import jsonable_encoder
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic_core import to_json
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

import heliograph.errors as errors
from heliograph.service.access import as_told

# JSON output by pydantic's encoder: four times as fast as the standard library's on the bodies of queries.


class JsonBody(Response):
    """A response of plain dicts and lists, encoded without validation; numbers that JSON lacks become null."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """Return the content as JSON in UTF-8."""
        return to_json(content, inf_nan_mode="null")


def json_line(content: Any) -> bytes:
    """Return one line of newline-delimited JSON."""
    return to_json(content, inf_nan_mode="null") + b"\n"


# Work that ends when its client hangs up, and responses that are sent line by line.
#
# `until_disconnect` runs a coroutine for a response that is sent whole. A `LineResponse` runs one task from the first
# line to the last: a failure before the first line has its own status like any other, and a later one becomes the last
# line. Either way the task is cancelled as soon as the client disconnects.

_LOG = logging.getLogger(__name__)

T = TypeVar("T")
Write = Callable[[bytes], None]

STREAM_HEADERS = {"Cache-Control": "no-cache", "Connection": "keep-alive", "X-Accel-Buffering": "no"}


class ClientGone(Exception):  # noqa: N818 (no failure)
    """The client has hung up; no response can reach it."""


async def until_disconnect(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Return the result of `work`; when the client hangs up, cancel it and raise `ClientGone`."""
    task = asyncio.create_task(work)
    async with _watched(request.receive, task):
        await asyncio.wait([task])
        _raise_failure(task)
        return task.result()


class LineResponse(Response):
    """A response of lines that are sent as they are written.

    A failure before the first line has its own status, so no line is written until the work has begun well; after it
    the status is 200, and a failure is the last line. Our client and our page skip blank lines.

    Args:
        write_lines: Called once with a function that takes each line; returns after the last.
        on_failure: Returns the last line for a failure after the first line.
        media_type: Content type of the response.
    """

    def __init__(
        self,
        write_lines: Callable[[Write], Coroutine[Any, Any, None]],
        on_failure: Callable[[Exception], bytes],
        media_type: str,
    ) -> None:
        super().__init__(status_code=200, headers=STREAM_HEADERS, media_type=media_type)
        # Its length is not known.
        del self.headers["content-length"]
        self._write_lines = write_lines
        self._on_failure = on_failure

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        """Send the lines; raises failures before the first of them."""
        lines: asyncio.Queue[bytes | None] = asyncio.Queue()
        task = asyncio.create_task(self._write_lines(lines.put_nowait))
        task.add_done_callback(lambda _: lines.put_nowait(None))
        async with _watched(receive, task):
            line = await lines.get()
            if line is None:
                _raise_failure(task)
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            while line is not None:
                line, is_last = _all_ready(line, lines)
                await send({"type": "http.response.body", "body": line, "more_body": True})
                line = None if is_last else await lines.get()
            error = None if task.cancelled() else task.exception()
            last = b""
            if isinstance(error, Exception):
                defect = None if isinstance(error, errors.HeliographError) else error
                _LOG.warning("a response failed after it began: %s: %s", type(error).__name__, error, exc_info=defect)
                last = self._on_failure(error)
            await send({"type": "http.response.body", "body": last, "more_body": False})


def _raise_failure(task: asyncio.Task[Any]) -> None:
    if task.cancelled():
        raise ClientGone
    if (error := task.exception()) is not None:
        raise error


def _all_ready(line: bytes, lines: asyncio.Queue[bytes | None]) -> tuple[bytes, bool]:
    """Return a line joined with all lines written since, and whether that was the last."""
    ready = [line]
    while not lines.empty():
        following = lines.get_nowait()
        if following is None:
            return b"".join(ready), True
        ready.append(following)
    return b"".join(ready), False


@asynccontextmanager
async def _watched(receive: Callable[[], Awaitable[Any]], task: asyncio.Task[Any]) -> AsyncGenerator[None]:
    """Cancel a task once the client hangs up, and wait for its end when the block is left."""

    async def wait_for_disconnect() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    watcher = asyncio.create_task(wait_for_disconnect())
    watcher.add_done_callback(lambda done: None if done.cancelled() else task.cancel())
    try:
        yield
    finally:
        watcher.cancel()
        task.cancel()
        await asyncio.gather(watcher, task, return_exceptions=True)


_INVALID = "The request is not valid"
_UNEXPECTED = "something failed that should not have; the log has it under the request id"

# The status of an error is that of its first listed class in method resolution order.
_STATUSES: dict[type[Exception], tuple[int, str]] = {
    errors.SettingsError: (400, "A setting is not valid"),
    errors.MissingDependencyError: (501, "An optional package is not installed"),
    errors.InvalidRequestError: (400, "The request cannot be served as given"),
    errors.NotFoundError: (404, "Not found"),
    errors.ConflictError: (409, "Conflict"),
    errors.IngestError: (422, "A document could not be taken in"),
    errors.AuthenticationError: (401, "Credentials are needed"),
    errors.PermissionDenied: (403, "Not allowed"),
    errors.OverloadedError: (429, "Too many requests"),
    errors.RequestTooLargeError: (413, "The request is too large"),
    errors.ClusterUnavailable: (503, "The cluster that reads documents is unavailable"),
    errors.StoreUnavailable: (503, "The store is unavailable"),
    errors.StoreDamaged: (503, "The store is damaged"),
    errors.SchemaMismatch: (503, "The store does not fit"),
    errors.StoreError: (503, "The store failed"),
    errors.RateLimited: (503, "A model refuses for now"),
    errors.ModelTimeout: (504, "A model did not answer in time"),
    errors.BadModelReply: (502, "A model gave a reply that cannot be used"),
    errors.ContextTooLong: (502, "A model was asked for more than it can read"),
    errors.ModelUnavailable: (502, "A model is unavailable"),
    errors.ModelError: (502, "A model failed"),
    errors.HeliographError: (500, "The request failed"),
}


def status_of(error: Exception) -> tuple[int, str]:
    """Return the HTTP status of an error and its title; 500 for errors that are not Heliograph's."""
    for class_ in type(error).__mro__:
        if class_ in _STATUSES:
            return _STATUSES[class_]
    return 500, "Internal error"


def problem(request: Request, status: int, title: str, detail: Any, kind: str = "about:blank") -> JSONResponse:
    """Return a problem body; its request id is the one of the response's `X-Request-ID`.

    Below the prefixes in `app.state.problem_shapes`, whose clients expect another shape, it is converted; the longest
    prefix decides, and None leaves it as it is.
    """
    body = _body(request, status, title, detail, kind)
    shapes: Mapping[str, Callable[[dict[str, Any]], dict[str, Any]] | None]
    shapes = getattr(request.app.state, "problem_shapes", {})
    path = request.scope["path"].removeprefix(request.scope.get("root_path", ""))
    prefix = max((known for known in shapes if path.startswith(known)), key=len, default="")
    if (render := shapes.get(prefix)) is not None:
        return JSONResponse(render(body), status)
    return JSONResponse(body, status, media_type="application/problem+json")


def failure_body(request: Request, error: Exception) -> dict[str, Any]:
    """Return the problem of a failure, for a response that has begun and can no longer have its status."""
    known = (str(error), _kind(error)) if isinstance(error, errors.HeliographError) else (_UNEXPECTED, "about:blank")
    return _body(request, *status_of(error), *known)


def _body(request: Request, status: int, title: str, detail: Any, kind: str) -> dict[str, Any]:
    if isinstance(detail, str):
        detail = as_told(detail, getattr(request.state, "principal", None))
    return {"type": kind, "title": title, "status": status, "detail": detail, "request_id": _request_id(request)}


def add_error_handlers(app: FastAPI) -> None:
    """Answer every failure of an application with a problem body."""
    app.add_exception_handler(errors.HeliographError, _on_error)
    app.add_exception_handler(RequestValidationError, _on_invalid)
    app.add_exception_handler(HTTPException, _on_http_error)
    app.add_exception_handler(ClientGone, _on_client_gone)
    app.add_exception_handler(Exception, _on_error)


def error_response(request: Request, error: errors.HeliographError) -> JSONResponse:
    """Return the response to an error, with the headers that belong to its status."""
    status, title = status_of(error)
    if status >= 500:
        _LOG.warning("request %s failed: %s: %s", _request_id(request), type(error).__name__, error)
    response = problem(request, status, title, str(error), _kind(error))
    if (seconds := getattr(error, "retry_after_seconds", None)) is not None:
        response.headers["Retry-After"] = str(max(1, math.ceil(seconds)))
    if status == 401:
        response.headers["WWW-Authenticate"] = "Bearer"
    return response


def internal_error_response(request: Request, error: Exception) -> JSONResponse:
    """Return the response to a defect, whose traceback is in the log."""
    _LOG.error("request %s failed unexpectedly", _request_id(request), exc_info=error)
    return problem(request, 500, "Internal error", _UNEXPECTED)


async def _on_error(request: Request, error: Exception) -> JSONResponse:
    is_known = isinstance(error, errors.HeliographError)
    return error_response(request, error) if is_known else internal_error_response(request, error)


def invalid_body(request: Request, error: RequestValidationError, kind: str = "about:blank") -> dict[str, Any]:
    """Return the problem of a request whose fields are not valid; its `detail` lists the errors."""
    shown = [{key: value for key, value in item.items() if key in ("loc", "msg", "type")} for item in error.errors()]
    given = request.headers.get("content-type", "")
    for item in shown:
        # A body of another content type is one long string, about which no more can be said.
        if item["loc"] == ("body",) and item["type"] != "missing" and "json" not in given:
            item["msg"] = f"The body is to be JSON; set Content-Type to application/json (it is {given!r})"
    return _body(request, 422, _INVALID, jsonable_encoder(shown), kind)


async def _on_invalid(request: Request, error: Exception) -> JSONResponse:
    detail = invalid_body(request, error)["detail"] if isinstance(error, RequestValidationError) else []
    return problem(request, 422, _INVALID, detail)


async def _on_http_error(request: Request, error: Exception) -> JSONResponse:
    status = error.status_code if isinstance(error, HTTPException) else 500
    detail = error.detail if isinstance(error, HTTPException) else "failed"
    response = problem(request, status, str(detail), detail)
    response.headers.update(getattr(error, "headers", None) or {})
    return response


async def _on_client_gone(request: Request, error: Exception) -> Response:  # noqa: ARG001 (nobody reads it)
    return Response(status_code=499)


def _kind(error: Exception) -> str:
    return f"urn:heliograph:error:{type(error).__name__}"


def _request_id(request: Request) -> str:
    return getattr(request.state, "request_id", "")
