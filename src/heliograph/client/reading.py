"""Parses replies: JSON into the shapes of the wire, problem bodies into errors, streams into answers.

A list becomes a tuple, an ISO 8601 text a datetime. Nothing else is converted: a value of another type is an error that
names the field.

A failure (RFC 9457) becomes the class of `heliograph.errors` that its body names; without a name, the status decides.
The message is the service's own, with the request's id, by which the service's log has more.

A stream is newline-delimited JSON: the references first, then the text, then the details of the answer. Lines are split
at line feeds only, as a text may hold other characters that some libraries take for line ends.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache
from importlib import import_module
from typing import Any, Self, TypeVar, cast

import heliograph.client.records as records
import heliograph.errors as errors
from heliograph.errors import HeliographError, InvalidRequestError, ServiceUnavailable

T = TypeVar("T")


def read_as(kind: type[T], value: Any, where: str = "reply") -> T:
    """Return a reply as an object of a shape or of a plain type; `where` names it in errors.

    Raises:
        ServiceUnavailable: It has another shape: the other side is not a service that this client knows.
    """
    try:
        # Through JSON, in which only lists and times are converted: "5" is not a number.
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
    # Imported on use, like the shapes.
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
    """Return the error for a response, whatever its body is."""
    try:
        problem = json.loads(body)
    except (ValueError, RecursionError):
        problem = None
    if not isinstance(problem, dict):
        problem = {"detail": f"the service answered with status {status} and no problem body: {body[:200]!r}"}
    told = cast("dict[str, Any]", problem)
    return problem_error({"status": status} | told, retry_after_seconds(headers))


def problem_error(problem: Mapping[str, Any], wait_seconds: float | None = None) -> HeliographError:
    """Return the error for a problem body."""
    status = problem.get("status")
    kind = _BY_STATUS.get(status, HeliographError) if isinstance(status, int) else HeliographError
    name = str(problem.get("type", "")).removeprefix(_PREFIX)
    known = getattr(errors, name, None)
    if isinstance(known, type) and issubclass(known, HeliographError):
        # Its message names a package and an extra of the service, which need not be installed here.
        kind = HeliographError if known is errors.MissingDependencyError else known
    text = _text(problem.get("detail", problem.get("error", "")))
    request_id = problem.get("request_id")
    message = f"{text} (request {request_id})" if request_id else text
    if issubclass(kind, errors.OverloadedError):
        return kind(message, _DEFAULT_WAIT_SECONDS if wait_seconds is None else wait_seconds)
    if issubclass(kind, errors.RateLimited):
        return kind(message, wait_seconds)
    return kind(message)


def retry_after_seconds(headers: Mapping[str, str]) -> float | None:
    """Return the seconds in `Retry-After`, from a number or a date; None if it is missing or unreadable."""
    value = headers.get("retry-after", "").strip()
    if value.isascii() and value.isdigit():
        return float(value)
    try:
        moment = parsedate_to_datetime(value)
    except ValueError:
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max(0.0, (moment - datetime.now(UTC)).total_seconds())


def _text(detail: Any) -> str:
    if isinstance(detail, str):
        return detail
    if not isinstance(detail, list):
        return json.dumps(detail)
    told: list[str] = []
    for item in cast("list[Any]", detail):
        if isinstance(item, dict):
            invalid = cast("dict[str, Any]", item)
            told.append(f"{'.'.join(map(str, invalid.get('loc', ())))}: {invalid.get('msg', '')}")
        else:
            told.append(str(item))
    return "; ".join(told)


class StreamReader:
    """Reads the lines of a stream, for both the async and the blocking client."""

    def __init__(self, progress: Callable[[str], None] | None = None) -> None:
        self.references: tuple[records.ReferenceItem, ...] = ()
        self.text = ""
        self.answer: records.ClientAnswer | None = None
        self.has_references = False
        self._shown_references: Any = ()
        self._progress = progress
        self._details: dict[str, Any] = {}
        self._rest = b""

    def feed(self, data: bytes) -> list[str]:
        """Feed bytes and return the pieces of text in them.

        Raises:
            HeliographError: The service reports a failure during the stream.
            ServiceUnavailable: It is not a stream of a service.
        """
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [piece for line in lines if line.strip() for piece in self._take(line)]

    def end(self) -> list[str]:
        """Read the rest, and build the answer; raises `ServiceUnavailable` if the stream was cut off."""
        pieces = self.feed(b"\n")
        if not self._details:
            raise ServiceUnavailable("the stream was cut off before the answer was whole; ask again")
        self.answer = answer_from(self._details | {"response": self.text, "references": self._shown_references})
        return pieces

    def _take(self, line: bytes) -> list[str]:
        decoded, failure = None, None
        try:
            decoded = json.loads(line)
        except (ValueError, RecursionError) as error:
            failure = error
        if not isinstance(decoded, dict):
            raise ServiceUnavailable(f"the stream has a line that is no JSON object: {line[:100]!r}") from failure
        told = cast("dict[str, Any]", decoded)
        if "error" in told:
            raise problem_error(told)
        if "references" in told:
            self._shown_references = told["references"]
            self.references = read_as(tuple[records.ReferenceItem, ...], told["references"], "references")
            self.has_references = True
        if self._progress is not None and isinstance(told.get("progress"), str):
            self._progress(told["progress"])
        if isinstance(told.get("details"), dict):
            self._details |= told["details"]
        if "response_time" in told:
            self._details["response_time"] = told["response_time"]
        piece = told.get("response")
        if not isinstance(piece, str):
            return []
        self.text += piece
        return [piece]


class AsyncAnswerStream:
    """An answer piece by piece: `async for piece in stream`; `answer` is the whole afterwards."""

    def __init__(self, reader: StreamReader, chunks: AsyncIterator[bytes]) -> None:
        self._reader = reader
        self._chunks = chunks
        self._waiting: list[str] = []

    @property
    def references(self) -> tuple[records.ReferenceItem, ...]:
        """Documents that the answer draws on; known before its first piece."""
        return self._reader.references

    @property
    def answer(self) -> records.ClientAnswer:
        """The whole answer; an `InvalidRequestError` before the stream has been read to its end."""
        if self._reader.answer is None:
            raise InvalidRequestError("the stream has not been read to its end; loop over it first")
        return self._reader.answer

    async def begin(self) -> Self:
        """Read up to the references."""
        while not (self._reader.has_references or self._waiting):
            data = await anext(self._chunks, None)
            if data is None:
                self._waiting += self._reader.end()
                break
            self._waiting += self._reader.feed(data)
        return self

    async def __aiter__(self) -> AsyncIterator[str]:
        while self._reader.answer is None:
            for piece in self._drain():
                yield piece
            data = await anext(self._chunks, None)
            self._waiting += self._reader.end() if data is None else self._reader.feed(data)
        for piece in self._drain():
            yield piece

    def _drain(self) -> list[str]:
        pieces, self._waiting = self._waiting, []
        return pieces


def answer_from(body: Any) -> records.ClientAnswer:
    """Return an answer from the JSON of `/query`, or from the details of a stream with its text."""
    told = read_as(Mapping[str, Any], body)
    return read_as(records.ClientAnswer, {**told, "references": told.get("references") or []})
