"""The one table of HTTP status per error, and the problem body (RFC 9457) that every failure is told in.

`detail` is what LightRAG's clients read. A validation failure (422) keeps the list of problems there that clients
generated from the OpenAPI expect.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from typing import Any

from fastapi import FastAPI, Request
from fastapi.encoders import jsonable_encoder
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException

from heliograph.errors import (
    AuthenticationError,
    BadModelReply,
    ClusterUnavailable,
    ConflictError,
    ContextTooLong,
    HeliographError,
    IngestError,
    InvalidRequestError,
    MissingDependencyError,
    ModelError,
    ModelTimeout,
    ModelUnavailable,
    NotFoundError,
    OverloadedError,
    PermissionDenied,
    RateLimited,
    RequestTooLargeError,
    SchemaMismatch,
    SettingsError,
    StoreDamaged,
    StoreError,
    StoreUnavailable,
)
from heliograph.server.responses import ClientGone
from heliograph.service.principal import Principal, as_told

_LOG = logging.getLogger(__name__)
_UNEXPECTED = "something failed that should not have; the log has it under the request id"

# The first class in the method resolution order of an error that is listed here decides.
_STATUSES: dict[type[Exception], tuple[int, str]] = {
    SettingsError: (400, "A setting is not valid"),
    MissingDependencyError: (501, "An optional package is not installed"),
    InvalidRequestError: (400, "The request cannot be served as given"),
    NotFoundError: (404, "Not found"),
    ConflictError: (409, "Conflict"),
    IngestError: (422, "A document could not be taken in"),
    AuthenticationError: (401, "Credentials are needed"),
    PermissionDenied: (403, "Not allowed"),
    OverloadedError: (429, "Too many requests"),
    RequestTooLargeError: (413, "The request is too large"),
    ClusterUnavailable: (503, "The cluster that reads documents is unavailable"),
    StoreUnavailable: (503, "The store is unavailable"),
    StoreDamaged: (503, "The store is damaged"),
    SchemaMismatch: (503, "The store does not fit"),
    StoreError: (503, "The store failed"),
    RateLimited: (503, "A model refuses for now"),
    ModelTimeout: (504, "A model did not answer in time"),
    BadModelReply: (502, "A model gave a reply that cannot be used"),
    ContextTooLong: (502, "A model was asked for more than it can read"),
    ModelUnavailable: (502, "A model is unavailable"),
    ModelError: (502, "A model failed"),
    HeliographError: (500, "The request failed"),
}


def status_of(error: Exception) -> tuple[int, str]:
    """Return the HTTP status of an error and its title; 500 for what is no error of Heliograph."""
    for class_ in type(error).__mro__:
        if class_ in _STATUSES:
            return _STATUSES[class_]
    return 500, "Internal error"


def problem(request: Request, status: int, title: str, detail: Any, kind: str = "about:blank") -> JSONResponse:
    """Return a problem body; its request id is the one of the response's `X-Request-ID`.

    Below the prefixes in `app.state.problem_shapes`, whose clients expect another shape, it is made into that; the
    longest prefix decides, and None leaves it as it is.
    """
    if isinstance(detail, str):
        detail = as_told(detail, _principal(request))
    body = {"type": kind, "title": title, "status": status, "detail": detail, "request_id": _request_id(request)}
    if (render := _shape_of(request)) is not None:
        return JSONResponse(render(body), status)
    return JSONResponse(body, status, media_type="application/problem+json")


def failure_body(request: Request, error: Exception) -> dict[str, Any]:
    """Return the problem of a failure, for a response that has begun and cannot have its status any more."""
    status, title = status_of(error)
    is_known = isinstance(error, HeliographError)
    return {
        "type": _kind(error) if is_known else "about:blank",
        "title": title,
        "status": status,
        "detail": as_told(str(error), _principal(request)) if is_known else _UNEXPECTED,
        "request_id": _request_id(request),
    }


def add_error_handlers(app: FastAPI) -> None:
    """Have every failure of an application told as a problem."""
    app.add_exception_handler(HeliographError, _on_error)
    app.add_exception_handler(RequestValidationError, _on_invalid)
    app.add_exception_handler(HTTPException, _on_http_error)
    app.add_exception_handler(ClientGone, _on_client_gone)
    app.add_exception_handler(Exception, _on_unexpected)


def error_response(request: Request, error: HeliographError) -> JSONResponse:
    """Return the response that tells of an error, with the headers that belong to its status."""
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
    """Return the response to a defect, which the log tells in full."""
    _LOG.error("request %s failed unexpectedly", _request_id(request), exc_info=error)
    return problem(request, 500, "Internal error", _UNEXPECTED)


async def _on_error(request: Request, error: Exception) -> JSONResponse:
    if not isinstance(error, HeliographError):
        return await _on_unexpected(request, error)
    return error_response(request, error)


async def _on_invalid(request: Request, error: Exception) -> JSONResponse:
    problems = error.errors() if isinstance(error, RequestValidationError) else []
    shown = [{key: value for key, value in item.items() if key in ("loc", "msg", "type")} for item in problems]
    given = request.headers.get("content-type", "")
    for item in shown:
        # What is sent as something else is one long string, of which nothing else can be said.
        if item["loc"] == ("body",) and item["type"] != "missing" and "json" not in given:
            item["msg"] = f"The body is to be JSON; set Content-Type to application/json (it is {given!r})"
    return problem(request, 422, "The request is not valid", jsonable_encoder(shown))


async def _on_http_error(request: Request, error: Exception) -> JSONResponse:
    status = error.status_code if isinstance(error, HTTPException) else 500
    detail = error.detail if isinstance(error, HTTPException) else "failed"
    response = problem(request, status, str(detail), detail)
    response.headers.update(getattr(error, "headers", None) or {})
    return response


async def _on_unexpected(request: Request, error: Exception) -> JSONResponse:
    return internal_error_response(request, error)


async def _on_client_gone(request: Request, error: Exception) -> Response:  # noqa: ARG001 (nobody reads it)
    return Response(status_code=499)


def _shape_of(request: Request) -> Callable[[dict[str, Any]], dict[str, Any]] | None:
    shapes = getattr(request.app.state, "problem_shapes", {})
    path = request.scope["path"].removeprefix(request.scope.get("root_path", ""))
    prefix = max((known for known in shapes if path.startswith(known)), key=len, default="")
    return shapes.get(prefix)


def _kind(error: Exception) -> str:
    return f"urn:heliograph:error:{type(error).__name__}"


def _principal(request: Request) -> Principal | None:
    return getattr(request.state, "principal", None)


def _request_id(request: Request) -> str:
    return getattr(request.state, "request_id", "")
