"""Failures that a service tells of (problem bodies, RFC 9457), as the errors of `heliograph.errors`.

The class is the one that the body names; where it names none, the status decides. The message is the service's own,
with the request's id, under which the service's log tells more.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, cast

import heliograph.errors as errors
from heliograph.errors import HeliographError

__all__ = ["problem_error", "response_error", "retry_after_seconds"]

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
