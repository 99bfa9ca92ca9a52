"""Replies of a service into objects: JSON into frozen dataclasses by their annotations, problem bodies into errors.

Fields that a dataclass does not have are left out, so that a newer service can say more; one that is missing takes its
default. A list becomes a tuple, an ISO 8601 text a datetime. Nothing else is converted: a value of another type is
an error that names the field.

A failure (RFC 9457) becomes the class of `heliograph.errors` that its body names; where it names none, the status
decides. The message is the service's own, with the request's id, under which the service's log tells more.
"""

from __future__ import annotations

import json
import types
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import heliograph.errors as errors
from heliograph.errors import HeliographError, ServiceUnavailable

__all__ = ["problem_error", "read_as", "response_error", "retry_after_seconds"]

T = TypeVar("T")


def read_as(kind: type[T], value: Any, where: str = "reply") -> T:
    """Return a JSON value as an object of a dataclass or of a plain type.

    Args:
        kind: A dataclass, `str`, `int`, `float`, `bool`, `datetime`, `Any`, or a union, tuple or mapping of these.
        value: What `json.loads` gave.
        where: What the value is called if it does not fit.

    Raises:
        ServiceUnavailable: It is of another shape: whatever answers is no service that this client knows.
    """
    return cast("T", _read(kind, value, where))


def _read(kind: Any, value: Any, where: str) -> Any:
    if kind is Any:
        return value
    if is_dataclass(kind):
        return _read_object(cast("type[Any]", kind), value, where)
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        return _read_union(kind, value, where)
    if origin is tuple and isinstance(value, list):
        item = get_args(kind)[0]
        return tuple(_read(item, part, f"{where}[{place}]") for place, part in enumerate(cast("list[Any]", value)))
    if origin is Mapping and isinstance(value, dict):
        item = get_args(kind)[1]
        return {key: _read(item, part, f"{where}.{key}") for key, part in cast("dict[str, Any]", value).items()}
    return _read_plain(kind, value, where)


def _read_object(kind: type[Any], value: Any, where: str) -> Any:
    if not isinstance(value, dict):
        raise _misfit(where, "an object", value)
    given = cast("dict[str, Any]", value)
    found: dict[str, Any] = {}
    for name, hint, is_needed in _fields(kind):
        if name in given:
            found[name] = _read(hint, given[name], f"{where}.{name}")
        elif is_needed:
            raise _misfit(f"{where}.{name}", "a value", None)
    return kind(**found)


@cache
def _fields(kind: type[Any]) -> tuple[tuple[str, Any, bool], ...]:
    hints = get_type_hints(kind)
    return tuple(
        (field.name, hints[field.name], field.default is MISSING and field.default_factory is MISSING)
        for field in fields(kind)
    )


def _read_union(kind: Any, value: Any, where: str) -> Any:
    kinds = get_args(kind)
    if value is None and type(None) in kinds:
        return None
    others = [one for one in kinds if one is not type(None)]
    return _read(others[0], value, where)


def _read_plain(kind: Any, value: Any, where: str) -> Any:
    if kind is datetime and isinstance(value, str):
        try:
            return datetime.fromisoformat(value)
        except ValueError:
            raise _misfit(where, "an ISO 8601 time", value) from None
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if isinstance(kind, type) and isinstance(value, kind) and (kind is bool or not isinstance(value, bool)):
        return value
    raise _misfit(where, getattr(kind, "__name__", str(kind)), value)


def _misfit(where: str, wanted: str, value: Any) -> ServiceUnavailable:
    return ServiceUnavailable(
        f"{where} is not {wanted} but {value!r:.100}; is the address that of a Heliograph service of this version?"
    )


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
