"""The OpenAPI document: the failures and credentials of each route, with examples of the service's replies."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

import heliograph.errors as errors
from heliograph.server.responses import status_of
from heliograph.wire.service import InvalidProblem, Problem

# Examples for the OpenAPI document: recorded replies to small requests, and one body per failure.
#
# Both are in `examples/`, one file per tag: by operation, `request` or the reply's status, and content type.

# Converts a problem body for a prefix, the longest that matches; None leaves it unchanged.
Shape = Callable[[dict[str, Any]], dict[str, Any]]
Shapes = Mapping[str, Shape | None]

_FOLDER = Path(__file__).parent / "examples"
_PROBLEM = "application/problem+json"
_ERRORS: tuple[errors.HeliographError, ...] = (
    errors.InvalidRequestError("confirm is false; set it to true to reset"),
    errors.AuthenticationError("the token has expired; log in again"),
    errors.PermissionDenied("this needs the role 'write', and 'reader' has 'read'"),
    errors.NotFoundError("there is no workspace 'research'; create it first"),
    errors.ConflictError("there is a document of the source 'notes.md'; update or delete it"),
    errors.RequestTooLargeError("the body is larger than 1048576 bytes"),
    errors.OverloadedError("64 questions wait already; try again in 2 seconds", 2),
    errors.MissingDependencyError("reading this needs the extra 'pdf'; pip install 'heliograph[pdf]'"),
    errors.ModelUnavailable("the chat model 'qwen3:8b' cannot be reached; is it running?"),
    errors.StoreUnavailable("the database does not answer; is it running?"),
    errors.ModelTimeout("the chat model 'qwen3:8b' gave no reply within 180 s"),
)
_OTHERS: dict[int, tuple[str, Any]] = {
    415: ("Unsupported Media Type", "send the body as application/json"),
    422: (
        "The request is not valid",
        [{"loc": ["body", "query"], "msg": "String should have at least 3 characters", "type": "string_too_short"}],
    ),
    500: ("Internal error", "something failed that should not have; the log has it under the request id"),
}
_PROBLEMS = {
    status: {"type": "about:blank", "title": title, "detail": detail} for status, (title, detail) in _OTHERS.items()
} | {
    status: {"type": f"urn:heliograph:error:{type(error).__name__}", "title": title, "detail": str(error)}
    for error in _ERRORS
    for status, title in (status_of(error),)
}


def failure_example(status: int) -> dict[str, Any]:
    """Return the problem body of a failure with this status; raises `KeyError` if no route documents it."""
    return {**_PROBLEMS[status], "status": status, "request_id": "5f0c1c6de0a94a7f"}


@cache
def _replies() -> dict[str, dict[str, dict[str, Any]]]:
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for path in sorted(_FOLDER.glob("*.json")):
        found |= json.loads(path.read_text("utf-8"))
    return found


_TEXTS = {
    400: "The request cannot be served as given.",
    401: "No credentials, or they are wrong, expired or revoked.",
    403: "The credentials do not allow this, or not in this workspace.",
    404: "It is not there, or the workspace is not.",
    409: "Another thing has this name, or something under way is in the way.",
    413: "The request is too large or too deeply nested.",
    415: "The type of the body is not served.",
    422: "Fields of the request are not valid.",
    429: "Too many requests, or too much is under way; `Retry-After` says when to try again.",
    500: "A defect; the log has it under the request id.",
    501: "An optional package is not installed.",
    502: "A model is unavailable, or gave a reply that cannot be used.",
    503: "The store or a model is unavailable, or the service is closing.",
    504: "A model did not answer in time.",
}
# Failures of any guarded request, whatever its route does.
_ALWAYS = (400, 401, 403, 404, 413, 429, 500, 503)
_ALWAYS_PUBLIC = (400, 413, 500, 503)
_NEVER = "x-never"
_SCHEMES = {
    "ApiKey": {"type": "apiKey", "in": "header", "name": "X-API-Key", "description": "A key of the settings."},
    "Token": {"type": "http", "scheme": "bearer", "description": "A token of `POST /login`, or a key."},
}
_METHODS = ("get", "put", "post", "delete", "patch", "head", "options")


def responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return a route's `responses` for these failures; the problem bodies are filled in later."""
    return {status: _response(status) for status in statuses}


def never(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return a route's `responses` entry that keeps these statuses, otherwise added to it, out of the document."""
    return {status: {"description": "", _NEVER: True} for status in statuses}


def describe_api(app: FastAPI, public: frozenset[str], shapes: Shapes, *, is_open: bool) -> dict[str, Any]:
    """Return the OpenAPI document of an application with all its routes, built once and cached in it.

    `public` are paths that need no credentials; `shapes` converts failures, by prefix of the path, where clients expect
    another shape.
    """
    if app.openapi_schema is None:
        document = get_openapi(title=app.title, version=app.version, summary=app.summary, routes=app.routes)
        components = document.setdefault("components", {})
        schemas = components.setdefault("schemas", {})
        for model in (Problem, InvalidProblem):
            schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
            schemas.update(schema.pop("$defs", {}))
            schemas[model.__name__] = schema
        for unused in ("HTTPValidationError", "ValidationError"):
            schemas.pop(unused, None)
        components["securitySchemes"] = _SCHEMES
        for path, methods in document.get("paths", {}).items():
            shape = shapes.get(max((known for known in shapes if path.startswith(known)), key=len, default=""))
            for method in _METHODS:
                if method in methods:
                    _complete(methods[method], is_public=path in public, is_open=is_open)
                    _add_examples(methods[method], _replies().get(f"{method.upper()} {path}", {}), shape)
        app.openapi_schema = document
    return app.openapi_schema


def _complete(operation: dict[str, Any], *, is_public: bool, is_open: bool) -> None:
    if is_public:
        operation.setdefault("security", [])
    else:
        operation["security"] = [{"ApiKey": []}, {"Token": []}, *([{}] if is_open else [])]
    known = operation.setdefault("responses", {})
    for status in _ALWAYS_PUBLIC if is_public else _ALWAYS:
        known.setdefault(str(status), _response(status))
    for status in [status for status, response in known.items() if _NEVER in response]:
        del known[status]
    for status, response in known.items():
        own = response.get("content", {})
        # A route that speaks another service's protocol documents a body of its own.
        has_own_shape = any(not _is_framework_own(body) for body in own.values())
        if status.isdigit() and int(status) >= HTTPStatus.BAD_REQUEST and not has_own_shape:
            name = (InvalidProblem if status == "422" else Problem).__name__
            shape = {_PROBLEM: {"schema": {"$ref": f"#/components/schemas/{name}"}}}
            # A route with failures in another shape also has those that occur before it is reached.
            response["content"] = shape if _is_framework_own(own.get("application/json", {})) else own | shape
            if status in ("429", "503"):
                response["headers"] = {"Retry-After": {"schema": {"type": "integer"}, "description": "Seconds."}}


def _add_examples(operation: dict[str, Any], replies: Mapping[str, Any], shape: Shape | None) -> None:
    """Add an example to each schema of a body, if there is one."""
    for kind, example in replies.get("request", {}).items():
        operation["requestBody"]["content"][kind]["example"] = example
    for status, response in operation["responses"].items():
        for kind, media in response.get("content", {}).items():
            if kind in replies.get(status, {}):
                media.setdefault("example", replies[status][kind])
            elif status not in replies and int(status) >= 400:
                problem = failure_example(int(status))
                media.setdefault("example", problem if kind == _PROBLEM or shape is None else shape(problem))


def _is_framework_own(body: dict[str, Any]) -> bool:
    return body.get("schema", {}).get("$ref", "").endswith("/HTTPValidationError")


def _response(status: int) -> dict[str, Any]:
    return {"description": _TEXTS.get(status) or HTTPStatus(status).phrase}
