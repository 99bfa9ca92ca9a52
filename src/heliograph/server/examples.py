"""Examples for the OpenAPI document: what a service replied to small requests, and one body per failure.

Replies are kept in `examples/`, one file a tag, by operation, status and type of content. An example of a request
stands with its schema, and is repeated where the request is described, since many readers of OpenAPI look only there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from heliograph.errors import (
    AuthenticationError,
    ConflictError,
    HeliographError,
    InvalidRequestError,
    MissingDependencyError,
    ModelTimeout,
    ModelUnavailable,
    NotFoundError,
    OverloadedError,
    PermissionDenied,
    RequestTooLargeError,
    StoreUnavailable,
)
from heliograph.server.errors import status_of

# How failures are told below a prefix, by the longest that fits; None is the problem as it is.
Shapes = Mapping[str, Callable[[dict[str, Any]], dict[str, Any]] | None]

_FOLDER = Path(__file__).parent / "examples"
_PROBLEM = "application/problem+json"
_ERRORS: tuple[HeliographError, ...] = (
    InvalidRequestError("confirm is false; set it to true to reset"),
    AuthenticationError("the token has expired; log in again"),
    PermissionDenied("this needs the role 'write', and 'reader' has 'read'"),
    NotFoundError("there is no workspace 'research'; create it first"),
    ConflictError("there is a document of the source 'notes.md'; update or delete it"),
    RequestTooLargeError("the body is larger than 1048576 bytes"),
    OverloadedError("64 questions wait already; try again in 2 seconds", 2),
    MissingDependencyError("reading this needs the extra 'pdf'; pip install 'heliograph[pdf]'"),
    ModelUnavailable("the chat model 'qwen3:8b' cannot be reached; is it running?"),
    StoreUnavailable("the database does not answer; is it running?"),
    ModelTimeout("the chat model 'qwen3:8b' gave no reply within 180 s"),
)
_OTHERS: dict[int, tuple[str, Any]] = {
    415: ("Unsupported Media Type", "send the body as application/json"),
    422: (
        "The request is not valid",
        [{"loc": ["body", "query"], "msg": "String should have at least 3 characters", "type": "string_too_short"}],
    ),
    500: ("Internal error", "something failed that should not have; the log has it under the request id"),
}


def failure_example(status: int) -> dict[str, Any]:
    """Return the problem body of a failure with this status.

    Raises:
        KeyError: No route documents this status.
    """
    return {**_problems()[status], "status": status, "request_id": "5f0c1c6de0a94a7f"}


def add_examples(paths: Mapping[str, Any], shapes: Shapes, schemas: Mapping[str, Any]) -> None:
    """Put an example beside each schema of a body, where there is one.

    Args:
        paths: Of the OpenAPI document; changed.
        shapes: How failures are told, by prefix of the path.
        schemas: The document's, by name.
    """
    replies = _replies()
    for path, methods in paths.items():
        shape = shapes.get(max((known for known in shapes if path.startswith(known)), key=len, default=""))
        for method, operation in methods.items():
            _add_to_request(operation.get("requestBody", {}).get("content", {}), schemas)
            told = replies.get(f"{method.upper()} {path}", {})
            for status, response in operation["responses"].items():
                if status in told:
                    _add_to_reply(response.get("content", {}), told[status])
                elif int(status) >= 400:
                    _add_to_failure(response.get("content", {}), failure_example(int(status)), shape)


def _add_to_request(content: dict[str, Any], schemas: Mapping[str, Any]) -> None:
    for media in content.values():
        name = media["schema"].get("$ref", "").rpartition("/")[2]
        schema = schemas.get(name, media["schema"])
        known = [*schema.get("examples", ()), *([schema["example"]] if "example" in schema else ())]
        if known:
            media.setdefault("example", known[0])


def _add_to_reply(content: dict[str, Any], told: Mapping[str, Any]) -> None:
    for kind, media in content.items():
        if kind in told:
            media.setdefault("example", told[kind])


def _add_to_failure(
    content: dict[str, Any], problem: dict[str, Any], shape: Callable[[dict[str, Any]], dict[str, Any]] | None
) -> None:
    for kind, media in content.items():
        media.setdefault("example", problem if kind == _PROBLEM or shape is None else shape(problem))


@cache
def _replies() -> dict[str, dict[str, dict[str, Any]]]:
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for path in sorted(_FOLDER.glob("*.json")):
        found |= json.loads(path.read_text("utf-8"))
    return found


@cache
def _problems() -> dict[int, dict[str, Any]]:
    found = {
        status: {"type": "about:blank", "title": title, "detail": detail} for status, (title, detail) in _OTHERS.items()
    }
    for error in _ERRORS:
        status, title = status_of(error)
        kind = f"urn:heliograph:error:{type(error).__name__}"
        found[status] = {"type": kind, "title": title, "detail": str(error)}
    return found
