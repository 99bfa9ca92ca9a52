"""How long a body may be, by route, and what JSON is not even parsed.

Every body is read whole, up to its limit, and looked through before anything parses it, whatever it calls itself: in
UTF-8 without NUL, nested no deeper than `max_json_depth`, of no more than `max_json_values`, no NaN or infinity (which
no JSON has), no half of a surrogate pair (with which no text can be written). Only what routes that take forms get is
passed on as it comes and cut off at its limit, so an upload needs no memory; they look through what is JSON in it.

A long body is looked through in a thread, piece by piece, and parsing it costs little beside that: it has few values,
so most of it is copied. Others are answered meanwhile. One client may send so many of them at once.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from heliograph.errors import HeliographError, InvalidRequestError, OverloadedError, RequestTooLargeError
from heliograph.server.errors import error_response
from heliograph.settings import ServerSettings

_TEXT_PATHS = ("/documents/text", "/documents/texts", "/mcp")
_TEXT_PREFIXES = ("/mcp/",)
_UPLOAD_PATHS = ("/documents/upload",)
_FORM_PATHS = (*_UPLOAD_PATHS, "/login")
# What the parts of a form are wrapped in.
_FORM_FRAME_BYTES = 65_536
_LONG_BYTES = 262_144
# A piece of a string, since one that is matched whole keeps all threads waiting.
_IN_STRING = re.compile(rb'(?:[^"\\]|\\.){0,65536}+', re.DOTALL)
_BRACKETS = re.compile(rb"[\[\]{}]")
_OPENING = b"[{"
_RETRY_AFTER_SECONDS = 5.0
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


@dataclass(frozen=True, slots=True)
class BodyLimits:
    """The limits of some settings."""

    settings: ServerSettings

    def most_bytes(self, method: str, path: str) -> int:
        """Return how long the body of a request may be."""
        if path in _UPLOAD_PATHS:
            return self.settings.max_upload_bytes + _FORM_FRAME_BYTES
        brings_text = path in _TEXT_PATHS or path.startswith(_TEXT_PREFIXES)
        if brings_text or (method == "PUT" and path.startswith("/documents/")):
            return self.settings.max_text_bytes
        return self.settings.max_body_bytes


def check_json(body: bytes, max_depth: int, max_values: int) -> None:
    """Look a body through that is to be parsed as JSON; whether it is valid is for the parser to say.

    Raises:
        InvalidRequestError: It is not UTF-8, has NUL, NaN or an infinity, or half of a surrogate pair.
        RequestTooLargeError: It is nested deeper than `max_depth`, or holds more than `max_values`.
    """
    if b"\0" in body:
        raise InvalidRequestError("the body is not JSON in UTF-8: it holds NUL; send UTF-8")
    try:
        body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidRequestError(f"the body is not UTF-8 at byte {error.start}; send UTF-8") from None
    frame = _frame(body, max_values)
    if b"NaN" in frame or b"Infinity" in frame:
        raise InvalidRequestError(
            "the body holds NaN or Infinity, which JSON has not; leave the field out, or send null"
        )
    if sum(frame.count(mark) for mark in (b",", b"[", b"{")) > max_values:
        raise _too_many(max_values)
    _check_depth(frame, max_depth)
    if _SURROGATE.search(body):
        _check_surrogates(body)


def _frame(body: bytes, max_values: int) -> bytes:
    """Return a body without its strings."""
    parts: list[bytes] = []
    end = 0
    while (start := body.find(b'"', end)) >= 0:
        parts.append(body[end:start])
        # Each value is one string at most, or has one as its key.
        if len(parts) > 2 * max_values + 2:
            raise _too_many(max_values)
        end = start + 1
        while (piece := _IN_STRING.match(body, end)) and piece[0]:
            end = piece.end()
        # Past the closing quotation mark; a lone backslash ends the body.
        end += 1
    return b"".join((*parts, body[end:]))


def _too_many(max_values: int) -> RequestTooLargeError:
    return RequestTooLargeError(f"the body holds more than {max_values:,} values; send several smaller ones")


def _check_depth(frame: bytes, max_depth: int) -> None:
    if frame.count(b"[") + frame.count(b"{") <= max_depth:
        return
    depth = 0
    for bracket in _BRACKETS.finditer(frame):
        depth += 1 if bracket[0] in _OPENING else -1
        if depth > max_depth:
            raise RequestTooLargeError(f"the body is nested deeper than {max_depth} levels; send a flatter one")


def _check_surrogates(body: bytes) -> None:
    try:
        text = json.dumps(json.loads(body), ensure_ascii=False)
    except ValueError:
        return
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise InvalidRequestError("a text in the body holds half of a surrogate pair; send whole characters") from None


class Limits:
    """Reads bodies within their limits.

    Args:
        app: What gets the bodies.
        settings: The limits.
    """

    def __init__(self, app: ASGIApp, settings: ServerSettings) -> None:
        self._app = app
        self._limits = BodyLimits(settings)
        self._settings = settings
        self._sending: Counter[str] = Counter()

    async def serve(self, path: str, client: str, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on with its body, or refuse it with 400 or 413.

        Args:
            path: Of the request, below the prefix of a proxy.
            client: Whose share of long bodies it is.
            scope: Of the request.
            receive: Brings the body.
            send: Takes the response.
        """
        path = path.rstrip("/")
        most = self._limits.most_bytes(scope["method"], path)
        try:
            _check_declared(Headers(scope=scope), most)
            if path in _FORM_PATHS:
                with self._place(client) if path in _UPLOAD_PATHS else nullcontext():
                    await _Form(self._app, most).serve(scope, receive, send)
                return
            body = await self._read(client, receive, most)
        except HeliographError as error:
            await error_response(Request(scope), error)(scope, receive, send)
        except ClientDisconnect:
            return
        else:
            await self._app(scope, _replaying(body, receive), send)

    async def _read(self, client: str, receive: Receive, most: int) -> bytes:
        limits = self._settings.max_json_depth, self._settings.max_json_values
        parts: list[bytes] = []
        length = 0
        with ExitStack() as stack:
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ClientDisconnect
                parts.append(message.get("body", b""))
                is_long = length > self._settings.max_body_bytes
                length += len(parts[-1])
                _check_length(length, most)
                if not is_long and length > self._settings.max_body_bytes:
                    stack.enter_context(self._place(client))
                if not message.get("more_body", False):
                    break
            body = b"".join(parts)
            if length > _LONG_BYTES:
                await asyncio.to_thread(check_json, body, *limits)
            else:
                check_json(body, *limits)
        return body

    @contextmanager
    def _place(self, client: str) -> Generator[None]:
        """Count a long body of a client while it comes."""
        most = self._settings.max_client_uploads
        if self._sending[client] >= most:
            raise OverloadedError(
                f"{most} uploads or long bodies of yours are coming in already; try again when one is done, or raise "
                "server.max_client_uploads",
                _RETRY_AFTER_SECONDS,
            )
        self._sending[client] += 1
        try:
            yield
        finally:
            self._sending[client] -= 1
            # Addresses that are gone leave nothing behind.
            self._sending += Counter()


class _Form:
    """One request with a form, whose body is counted as it passes by."""

    def __init__(self, app: ASGIApp, most: int) -> None:
        self._app = app
        self._most = most
        self._length = 0
        self._has_begun = False

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def counted() -> Message:
            message = await receive()
            self._length += len(message.get("body", b""))
            if self._is_too_long:
                # Of this class, since the framework passes it on from wherever it reads a body.
                raise HTTPException(413)
            return message

        async def sent(message: Message) -> None:
            # Whatever the application makes of being cut off, below is told what it was.
            if self._has_begun or not self._is_too_long:
                self._has_begun = True
                await send(message)

        try:
            await self._app(scope, counted, sent)
        except HTTPException:
            if not self._is_too_long:
                raise
        if self._is_too_long and not self._has_begun:
            _check_length(self._length, self._most)

    @property
    def _is_too_long(self) -> bool:
        return self._length > self._most


def _check_declared(headers: Headers, most: int) -> None:
    declared = headers.get("content-length", "")
    if declared.isascii() and declared.isdecimal():
        # Of a number with thousands of digits, the length says enough.
        _check_length(int(declared[:20]), most)


def _check_length(length: int, most: int) -> None:
    if length > most:
        raise RequestTooLargeError(
            f"the body is longer than {most:,} bytes, the most for this route; send less at once"
        )


def _replaying(body: bytes, receive: Receive) -> Receive:
    is_sent = False

    async def replay() -> dict[str, Any]:
        nonlocal is_sent
        if is_sent:
            return dict(await receive())
        is_sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay
