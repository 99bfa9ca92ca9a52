"""Replies of a service into objects: JSON into the shapes of the wire, problem bodies into errors.

A list becomes a tuple, an ISO 8601 text a datetime. Nothing else is converted: a value of another type is an error that
names the field.

A failure (RFC 9457) becomes the class of `heliograph.errors` that its body names; where it names none, the status
decides. The message is the service's own, with the request's id, under which the service's log tells more.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache
from importlib import import_module
from typing import Any, TypeVar, cast

import heliograph.errors as errors
from heliograph.errors import HeliographError, ServiceUnavailable

__all__ = ["problem_error", "read_as", "response_error", "retry_after_seconds"]

T = TypeVar("T")


def read_as(kind: type[T], value: Any, where: str = "reply") -> T:
    """Return a reply as an object of a shape or of a plain type.

    Args:
        kind: A shape of `heliograph.client.records`, `str`, `Any`, or a tuple or mapping of these.
        value: What `json.loads` gave.
        where: What the value is called if it does not fit.

    Raises:
        ServiceUnavailable: It is of another shape: whatever answers is no service that this client knows.
    """
    try:
        # By way of JSON, in which nothing but lists and times is converted: "5" is no number.
        return _reader(kind).validate_json(json.dumps(value), strict=True)
    except ValueError as error:
        first = error.errors(include_url=False)[0]  # type: ignore[attr-defined]
        place = ".".join([where, *map(str, first["loc"])])
        raise ServiceUnavailable(
            f"{place} is {first['input']!r:.100}: {first['msg']}; is the address that of a Heliograph service of this "
            "version?"
        ) from None


@cache
def _reader(kind: Any) -> Any:
    # Imported on use, as the shapes are.
    return import_module("pydantic").TypeAdapter(kind)


_PREFIX = "urn:heliograph:error:"
_BY_STATUS: Mapping[int, type[HeliographError]] = {
    400: errors.InvalidRequestError,
    401: errors.AuthenticationError,
    403: errors.PermissionDenied,
    404: errors.NotFoundError,
    409: errors.ConflictError,
    413: errors.RequestTooLargeError,
    422: errors.InvalidRequestError,
    429: errors.OverloadedError,
    502: errors.ServiceUnavailable,
    503: errors.ServiceUnavailable,
    504: errors.ServiceUnavailable,
}
_DEFAULT_WAIT_SECONDS = 1.0


def response_error(status: int, body: bytes, headers: Mapping[str, str]) -> HeliographError:
    """Return the error that a response tells of, whatever its body is."""
    try:
        problem = json.loads(body)
    except (ValueError, RecursionError):
        problem = None
    if not isinstance(problem, dict):
        problem = {"detail": f"the service answered with status {status} and no problem body: {body[:200]!r}"}
    told = cast("dict[str, Any]", problem)
    return problem_error({"status": status} | told, retry_after_seconds(headers))


def problem_error(problem: Mapping[str, Any], wait_seconds: float | None = None) -> HeliographError:
    """Return the error of a problem body.

    Args:
        problem: Its fields; `detail` or `error` is the message.
        wait_seconds: When to try again, for errors that carry it.
    """
    kind = _class_of(problem)
    text = _text(problem.get("detail", problem.get("error", "")))
    request_id = problem.get("request_id")
    message = f"{text} (request {request_id})" if request_id else text
    if issubclass(kind, errors.OverloadedError):
        return kind(message, _DEFAULT_WAIT_SECONDS if wait_seconds is None else wait_seconds)
    if issubclass(kind, errors.RateLimited):
        return kind(message, wait_seconds)
    return kind(message)


def retry_after_seconds(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that `Retry-After` gives, from a number or a date; None without one that can be read."""
    value = headers.get("retry-after", "").strip()
    if value.isascii() and value.isdigit():
        return float(value)
    try:
        moment = parsedate_to_datetime(value)
    except ValueError:
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max(0.0, (moment - datetime.now(UTC)).total_seconds())


def _class_of(problem: Mapping[str, Any]) -> type[HeliographError]:
    name = str(problem.get("type", "")).removeprefix(_PREFIX)
    known = getattr(errors, name, None) if name in errors.__all__ else None
    if isinstance(known, type) and issubclass(known, HeliographError):
        # Its message is made of a package and an extra of the service, which are nothing to install here.
        return HeliographError if known is errors.MissingDependencyError else known
    status = problem.get("status")
    return _BY_STATUS.get(status, HeliographError) if isinstance(status, int) else HeliographError


def _text(detail: Any) -> str:
    if isinstance(detail, str):
        return detail
    if isinstance(detail, list):
        return "; ".join(map(_invalid, cast("list[Any]", detail)))
    return json.dumps(detail)


def _invalid(item: Any) -> str:
    if not isinstance(item, dict):
        return str(item)
    told = cast("dict[str, Any]", item)
    return f"{'.'.join(map(str, told.get('loc', ())))}: {told.get('msg', '')}"
