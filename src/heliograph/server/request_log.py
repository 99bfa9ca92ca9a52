"""The outermost layer: gives every request an id, writes one line about it when it is done, and tells of defects.

The id of the request's `X-Request-ID` is kept if it is a sane one, and stands in the response, in problems and in every
log line that the request causes. The line says which route was asked, never with what: paths, questions, headers and
bodies are not written.
"""

from __future__ import annotations

import logging
import re
import secrets
import time
from collections.abc import Mapping
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from heliograph.observing import REQUEST_ID
from heliograph.server.errors import internal_error_response

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
