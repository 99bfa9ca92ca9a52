"""Every request has an id, is counted and traced, and leaves one line in the log; defects leave their traceback."""

from __future__ import annotations

import json
import logging
import re
import secrets
import sys
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from heliograph.monitoring.monitoring import Monitoring
from heliograph.observing import REQUEST_ID, observing
from heliograph.server.errors import internal_error_response
from heliograph.settings import ServerSettings

# How the service's log is written: to standard error, each line with the id of the request that caused it.

# Loggers whose lines are the service's; everything else stays as the surrounding program has it.
_LOGGERS = ("heliograph", "uvicorn")
# What ends a line, or tells a terminal to do something; a traceback keeps its line ends.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_CONTROL_IN_LINES = re.compile(rf"(?![\n\t]){_CONTROL.pattern}")


def configure_logging(settings: ServerSettings) -> None:
    """Write the log of this process as the settings say."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if settings.log_format == "json" else TextFormatter())
    for name in _LOGGERS:
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.propagate = False
        logger.setLevel(settings.log_level.upper())
    # Its warnings quote questions; whoever asked gets them in the answer.
    logging.getLogger("heliograph.query").setLevel(logging.ERROR)
    # What it says beyond warnings is about itself.
    logging.getLogger("uvicorn").setLevel(max(logging.WARNING, logging.getLogger("uvicorn").level))


class TextFormatter(logging.Formatter):
    """One line a record, the request's id before the message; control characters inside it are escaped."""

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        request_id = REQUEST_ID.get() or "-"
        message = _CONTROL.sub(_escaped, record.getMessage())
        line = f"{time} {record.levelname} {record.name} {request_id} {message}"
        if not record.exc_info:
            return line
        return f"{line}\n{_CONTROL_IN_LINES.sub(_escaped, self.formatException(record.exc_info))}"


class JsonFormatter(logging.Formatter):
    """One JSON object a record, with the fields of `extra={"fields": ...}`."""

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "request_id": REQUEST_ID.get() or None,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return json.dumps({name: value for name, value in fields.items() if value is not None}, default=str)


def _escaped(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()


# Counts and traces every request, and makes what is done for it known to the monitoring of this service.
#
# A trace that the caller has begun (`traceparent` of W3C's Trace Context) goes on. Requests are told apart by the
# template of their route, never by their path.

# What a parameter of a path is read as.
_CONVERTER = re.compile(r":\w+}")
# Where the status stays unknown, an error passes through: whoever is around makes a response of it.
_DEFECT = 500


class Observed:
    """Middleware within the log of requests.

    Args:
        app: What serves.
        monitoring: Counts.
    """

    def __init__(self, app: ASGIApp, monitoring: Monitoring) -> None:
        self._app = app
        self._monitoring = monitoring

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status = _DEFECT

        async def watch(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        started = time.perf_counter()
        parent = Headers(scope=scope).get("traceparent", "")
        with observing(self._monitoring), self._monitoring.request(parent, scope["method"]) as span:
            try:
                await self._app(scope, receive, watch)
            finally:
                route = _template(scope)
                seconds = time.perf_counter() - started
                self._monitoring.metrics.count_request(route, scope["method"], status, seconds)
                span.describe(http__route=route, http__response__status_code=status)


def _template(scope: Scope) -> str:
    """Return the template of the route that served; `other` for what is mounted, empty if nothing was reached."""
    template = getattr(scope.get("route"), "path", "other" if "endpoint" in scope else "")
    return _CONVERTER.sub("}", template)


_LOG = logging.getLogger("heliograph.requests")
_SANE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:\-]{0,63}")
_HEADER = "X-Request-ID"


class RequestLog:
    """Middleware around everything else."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request under its id; HEAD is served as GET without its body."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = _request_id(scope)
        scope.setdefault("state", {})["request_id"] = request_id
        token = REQUEST_ID.set(request_id)
        response = _Response(send, request_id, is_head=scope["method"] == "HEAD")
        if scope["method"] == "HEAD":
            scope["method"] = "GET"
        start = time.perf_counter()
        try:
            await self._serve(scope, receive, response)
        finally:
            _write_line(scope, response, time.perf_counter() - start)
            REQUEST_ID.reset(token)

    async def _serve(self, scope: Scope, receive: Receive, response: _Response) -> None:
        try:
            await self._app(scope, receive, response.send)
        except Exception as error:
            request = Request(scope)
            if response.status:
                # It cannot be unsaid; the connection breaks off, so that nobody takes it for whole.
                raise
            await internal_error_response(request, error)(scope, receive, response.send)


class _Response:
    """What was sent so far."""

    def __init__(self, send: Send, request_id: str, *, is_head: bool) -> None:
        self.status = 0
        self.bytes = 0
        self.is_head = is_head
        self._send = send
        self._request_id = request_id

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            MutableHeaders(scope=message)[_HEADER] = self._request_id
        elif message["type"] == "http.response.body":
            self.bytes += len(message.get("body", b""))
            if self.is_head:
                message = {**message, "body": b""}
        await self._send(message)


def _request_id(scope: Scope) -> str:
    given = Headers(scope=scope).get(_HEADER, "")
    return given if _SANE_ID.fullmatch(given) else secrets.token_hex(8)


def _write_line(scope: Scope, response: _Response, seconds: float) -> None:
    state: Mapping[str, Any] = scope["state"]
    principal = state.get("principal")
    fields = {
        "method": "HEAD" if response.is_head else scope["method"],
        "route": getattr(scope.get("route"), "path", None),
        "status": response.status or None,
        "milliseconds": round(seconds * 1000, 1),
        "bytes": response.bytes,
        "principal": getattr(principal, "name", None),
        "workspace": state.get("workspace"),
    }
    text = " ".join(f"{name}={value}" for name, value in fields.items() if value is not None)
    _LOG.info("%s", text, extra={"fields": fields})
