"""The OpenAPI document: what failures each route documents, and which credentials it takes.

Routes name the failures of their own by `responses(404, 409)`; what may happen to any request (no credentials, too
large, too many, a store or model that is down) is added here, and every failure gets the body that it really has.
FastAPI adds 422 to all that has fields; a route that tells of them by another status says so by `never(422)`. Examples
of requests and replies are added last (`heliograph.server.examples`).
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from heliograph.server.examples import Shapes, add_examples
from heliograph.server.schemas.problem import InvalidProblem, Problem

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
# What may happen to any request that is guarded, whatever its route does.
_ALWAYS = (400, 401, 403, 404, 413, 429, 500, 503)
_ALWAYS_PUBLIC = (400, 413, 500, 503)
_NEVER = "x-never"
_PROBLEM = "application/problem+json"
_SCHEMES = {
    "ApiKey": {"type": "apiKey", "in": "header", "name": "X-API-Key", "description": "A key of the settings."},
    "Token": {"type": "http", "scheme": "bearer", "description": "A token of `POST /login`, or a key."},
}
_METHODS = ("get", "put", "post", "delete", "patch", "head", "options")


def responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return what a route documents for these failures, for its `responses`; the problem bodies are filled in later."""
    return {status: _response(status) for status in statuses}


def never(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return what keeps statuses out of the document that would be added to a route, for its `responses`."""
    return {status: {"description": "", _NEVER: True} for status in statuses}


def describe_api(app: FastAPI, public: frozenset[str], shapes: Shapes, *, is_open: bool) -> dict[str, Any]:
    """Return the OpenAPI document of an application, made once and kept by it.

    Args:
        app: With all its routes.
        public: Paths that need no credentials.
        shapes: How failures are told where clients expect another shape, by prefix of the path.
        is_open: Whether no path does.
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
            for method in _METHODS:
                if method in methods:
                    _complete(methods[method], is_public=path in public, is_open=is_open)
        add_examples(document.get("paths", {}), shapes, schemas)
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
        if status.isdigit() and int(status) >= HTTPStatus.BAD_REQUEST and not _has_own_shape(response):
            name = (InvalidProblem if status == "422" else Problem).__name__
            shape = {_PROBLEM: {"schema": {"$ref": f"#/components/schemas/{name}"}}}
            # A route that tells failures in another shape still has those that are told before it is reached.
            own = response.get("content", {})
            response["content"] = shape if _is_framework_own(own) else own | shape
            if status in ("429", "503"):
                response["headers"] = {"Retry-After": {"schema": {"type": "integer"}, "description": "Seconds."}}


def _has_own_shape(response: dict[str, Any]) -> bool:
    """Whether a route documents a body of its own, as those do that speak another service's protocol."""
    bodies = response.get("content", {}).values()
    return any(not body.get("schema", {}).get("$ref", "").endswith("/HTTPValidationError") for body in bodies)


def _is_framework_own(content: dict[str, Any]) -> bool:
    return content.get("application/json", {}).get("schema", {}).get("$ref", "").endswith("/HTTPValidationError")


def _response(status: int) -> dict[str, Any]:
    return {"description": _TEXTS.get(status) or HTTPStatus(status).phrase}
