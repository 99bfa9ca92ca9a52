"""The steps that every request passes through, in one place and in order.

1. It gets an id, is counted and traced, and leaves one line in the log; a defect leaves its traceback there, and its
   client a body with the id. The response gets the id and the headers that browsers obey.
2. CORS answers browsers, if origins are allowed.
3. Web pages of other origins are refused where no credentials are needed, or hosts are named.
4. Credentials are checked: unauthenticated requests reach only public paths, and their body is not read.
5. From here on it is one of the requests that end when the service stops.
6. Its body is read within its limits.
7. Its route declares what it needs: a role, the engine of the named workspace, a turn for its question.

So every refusal is counted and has its id and its headers.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import logging
import re
import secrets
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar, cast
from urllib.parse import quote, unquote, urlsplit

from fastapi import Depends
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import RedirectResponse
from starlette.routing import Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

import heliograph.errors as errors
from heliograph.engine import AsyncHeliograph
from heliograph.ids import track_id
from heliograph.ingest.models import IngestReport, NewDocument
from heliograph.models import Document
from heliograph.observing import OBSERVER, REQUEST_ID
from heliograph.query.answers.answer import AnswerStream
from heliograph.query.models import QueryParam
from heliograph.server.openapi import responses
from heliograph.server.responses import error_response, failure_body, internal_error_response, until_disconnect
from heliograph.service.access import Credentials, Principal, Role, has_credentials
from heliograph.service.admission import Admission
from heliograph.service.jobs.jobs import Jobs
from heliograph.service.jobs.models import Job, JobKind, JobRequest
from heliograph.service.service import Service
from heliograph.settings import ServerSettings, Settings

_LOG = logging.getLogger("heliograph.requests")
_SANE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:\-]{0,63}")
_ID_HEADER = "X-Request-ID"
# The converter of a path parameter.
_CONVERTER = re.compile(r":\w+}")
# The status counted if an exception passes through and the status is unknown.
_DEFECT = 500

# Headers that tell browsers what they may do with a response. A route that sets one itself keeps it.
_DATA_POLICY = "default-src 'none'; frame-ancestors 'none'"
_PAGE_POLICY = (
    "default-src 'self'; img-src 'self' data: blob:; style-src 'self' 'unsafe-inline'; object-src 'none'; "
    "base-uri 'self'; form-action 'self'; frame-ancestors 'none'"
)
_ALWAYS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
_EXPOSED = ["Mcp-Session-Id", "Retry-After", "X-New-Token", _ID_HEADER]
_BODY_HEADERS = ("content-length", "transfer-encoding")

_T = TypeVar("_T")


class Requests:
    """The outermost middleware."""

    def __init__(self, app: ASGIApp, service: Service, drain: Drain) -> None:
        settings = service.settings.server
        self._app = app
        self._access = service.access
        self._monitoring = service.monitoring
        self._drain = drain
        self._limits = Limits(app, settings)
        is_for_pages = (service.access.is_open and not settings.insecure) or service.settings.allowed_hosts
        self._pages = PageCheck(service.settings) if is_for_pages else None
        self._enter: ASGIApp = self._admit
        if settings.allowed_origins:
            self._enter = CORSMiddleware(
                self._admit,
                allow_origins=list(settings.allowed_origins),
                allow_methods=["GET", "POST", "PUT", "PATCH", "DELETE"],
                allow_headers=["*"],
                expose_headers=_EXPOSED,
            )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request under its id; HEAD is served as GET without its body. There are no web sockets here."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            _take_prefix_once(scope)
            await self._observe(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1008})

    async def _observe(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = time.perf_counter()
        headers = Headers(scope=scope)
        given = headers.get(_ID_HEADER, "")
        request_id = given if _SANE_ID.fullmatch(given) else secrets.token_hex(8)
        scope.setdefault("state", {})["request_id"] = request_id
        response = scope["heliograph.response"] = _Response(send, request_id, is_head=scope["method"] == "HEAD")
        if response.is_head:
            scope["method"] = "GET"
        id_token, observer_token = REQUEST_ID.set(request_id), OBSERVER.set(self._monitoring)
        # Continue the caller's trace (`traceparent` of W3C's Trace Context).
        parent = headers.get("traceparent", "")
        try:
            with self._monitoring.request(parent, scope["method"]) as counted:
                try:
                    await self._enter(scope, receive, response.send)
                finally:
                    # Requests are labelled by the template of their route, never by their path: `other` for mounted
                    # applications, empty if no route was reached.
                    template = getattr(scope.get("route"), "path", "other" if "endpoint" in scope else "")
                    counted(_CONVERTER.sub("}", template), response.status or _DEFECT)
        except Exception as error:
            if response.status:
                # The response has begun; break off the connection, so that no client takes the body for complete.
                raise
            await internal_error_response(Request(scope), error)(scope, receive, response.send)
        finally:
            _write_line(scope, response, time.perf_counter() - started)
            OBSERVER.reset(observer_token)
            REQUEST_ID.reset(id_token)

    async def _admit(self, scope: Scope, receive: Receive, send: Send) -> None:
        request, path = Request(scope), route_path(scope)
        client = address = address_of(request)
        if self._pages is not None and (refusal := self._pages.refusal(request.headers)) is not None:
            await error_response(request, refusal)(scope, receive, send)
            return
        try:
            identity = self._access.identify(credentials_of(request), address)
        except errors.HeliographError as error:
            if not (isinstance(error, errors.AccessError) and is_public(path)):
                await error_response(request, error)(scope, receive, send)
                return
        else:
            request.state.principal = identity.principal
            client = identity.principal.client
            scope["heliograph.response"].new_token = identity.new_token
        if (target := _without_slash(scope)) is not None:
            await RedirectResponse(target)(scope, receive, send)
            return
        # No GET route reads a body, and without these headers there is none.
        has_body = scope["method"] != "GET" or any(name in request.headers for name in _BODY_HEADERS)
        work = self._limits.serve(path, client, scope, receive, send) if has_body else self._app(scope, receive, send)
        if not await self._drain.run(work):
            await self._end(request, scope, receive, send)

    async def _end(self, request: Request, scope: Scope, receive: Receive, send: Send) -> None:
        """End a response whose time is up: by a last line if it sends lines, by 503 if it has sent nothing."""
        response: _Response = scope["heliograph.response"]
        if response.is_complete:
            return
        error = errors.StoreUnavailable("the service is being stopped; ask again, it may be back in a moment")
        if not response.status:
            refusal = error_response(request, error)
            refusal.headers["Retry-After"] = "5"
            await refusal(scope, receive, send)
            return
        if response.kind.startswith("application/x-ndjson"):
            line = json.dumps({"error": str(error)}).encode() + b"\n"
        elif response.kind.startswith("text/event-stream"):
            line = b"data: " + json.dumps({"error": failure_body(request, error)}).encode() + b"\n\n"
        else:
            # Nothing can be added to a body of another kind; its length shows that it is cut short.
            raise error
        await send({"type": "http.response.body", "body": line, "more_body": False})


class _Response:
    """The state of the response so far; its status is 0 before it has begun."""

    def __init__(self, send: Send, request_id: str, *, is_head: bool) -> None:
        self.status = 0
        self.kind = ""
        self.bytes = 0
        self.is_complete = False
        self.is_head = is_head
        # The token that replaces the one in the request, if it is to be renewed.
        self.new_token: str | None = None
        self._send = send
        self._request_id = request_id

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            headers[_ID_HEADER] = self._request_id
            if self.new_token is not None:
                headers["X-New-Token"] = self.new_token
            for name, value in _ALWAYS.items():
                headers.setdefault(name, value)
            self.kind = kind = headers.get("content-type", "")
            headers.setdefault(
                "Content-Security-Policy", _PAGE_POLICY if kind.startswith("text/html") else _DATA_POLICY
            )
            # Responses other than pages are never cached.
            if kind.startswith(("application/json", "application/problem+json", "application/x-ndjson")):
                headers.setdefault("Cache-Control", "no-store")
        elif message["type"] == "http.response.body":
            self.bytes += len(message.get("body", b""))
            self.is_complete = not message.get("more_body", False)
            if self.is_head:
                message = {**message, "body": b""}
        await self._send(message)


def _write_line(scope: Scope, response: _Response, seconds: float) -> None:
    state: dict[str, Any] = scope["state"]
    fields = {
        "method": "HEAD" if response.is_head else scope["method"],
        "route": getattr(scope.get("route"), "path", None),
        "status": response.status or None,
        "milliseconds": round(seconds * 1000, 1),
        "bytes": response.bytes,
        "principal": getattr(state.get("principal"), "name", None),
        "workspace": state.get("workspace"),
    }
    text = " ".join(f"{name}={value}" for name, value in fields.items() if value is not None)
    _LOG.info("%s", text, extra={"fields": fields})


# How requests end when the service stops.
#
# New connections are refused by then. Requests in progress get most of `shutdown_seconds`; those that are not done
# after that are cancelled, and their clients told.

# The rest of the time is for writing the last lines and closing stores.
_SHARE_OF_REQUESTS = 0.7


class Drain:
    """The requests in progress, and their deadline: `shutdown_seconds` after the order to stop."""

    def __init__(self, shutdown_seconds: float) -> None:
        self.request_seconds = shutdown_seconds * _SHARE_OF_REQUESTS
        self._running: set[asyncio.Timeout] = set()
        self._deadline: float | None = None
        self._on_begin: list[Callable[[], None]] = []

    @property
    def has_begun(self) -> bool:
        """Whether the service is stopping."""
        return self._deadline is not None

    def call_on_begin(self, step: Callable[[], None]) -> None:
        """Call a function in the event loop when the service begins to stop."""
        self._on_begin.append(step)

    def begin(self) -> None:
        """Start the deadline of requests in progress; call it in the event loop. Calling it again changes nothing."""
        if self._deadline is None:
            for step in self._on_begin:
                step()
            self._deadline = asyncio.get_running_loop().time() + self.request_seconds
            for timeout in self._running:
                timeout.reschedule(self._deadline)

    async def run(self, request: Any) -> bool:
        """Run a request to its end; False if its time was up first."""
        timeout = asyncio.timeout_at(self._deadline)
        try:
            async with timeout:
                self._running.add(timeout)
                try:
                    await request
                finally:
                    self._running.discard(timeout)
        except TimeoutError:
            if not timeout.expired():
                raise
            return False
        return True


# Protects a service that needs no credentials, or names its hosts, from web pages of other origins.
#
# A browser on this machine runs arbitrary pages and reaches what listens here. A page could read everything through a
# host name of its own that resolves to this machine (DNS rebinding), and send requests that browsers allow without a
# preflight, such as an upload. So a request must be addressed to this machine by a name of it or by an IP address, and
# its page, if it comes from one, must be of this machine as well. `server.allowed_hosts` names further hosts, for all
# routes and tools alike.

_ANY_PORT = ":*"
_LOCAL_NAMES = ("localhost", "localhost.localdomain", "ip6-localhost")
# Zones in which no stranger can register a name; containers call their machine host.docker.internal.
_LOCAL_ZONES = (".localhost", ".internal")


class PageCheck:
    """Checks the hosts and origins of requests; the settings name further ones."""

    def __init__(self, settings: Settings) -> None:
        self._hosts = settings.allowed_hosts
        self._origins = {*settings.server.allowed_origins}
        self._remedy = "" if has_credentials(settings) else ", set a key (server.api_key), or serve with --insecure"

    def refusal(self, headers: Headers) -> errors.PermissionDenied | None:
        """Return why a request is refused: its host is not allowed, or it comes from a page of another origin.

        A request with neither header does not come from a browser.
        """
        address, origin = headers.get("host", ""), headers.get("origin")
        name = _name(address)
        if address and not (_is_local(name) or _is_number(name) or self._is_named(address)):
            return self._refusal(f"the service does not answer by the name {address!r:.100}", "server.allowed_hosts")
        if origin is None or {origin, "*"} & self._origins:
            return None
        place = origin.partition("://")[2]
        if not place or not (_is_local(_name(place)) or place == address or self._is_named(place)):
            return self._refusal(f"the service does not answer pages of {origin!r:.100}", "server.allowed_origins")
        return None

    def _is_named(self, address: str) -> bool:
        return any(
            address.lower() == host.lower()
            or (host.endswith(_ANY_PORT) and _name(address) == _name(host[: -len(_ANY_PORT)]))
            for host in self._hosts
        )

    def _refusal(self, what: str, setting: str) -> errors.PermissionDenied:
        return errors.PermissionDenied(
            f"{what}, only those of this machine and of the settings; name it in {setting}{self._remedy}"
        )


def _name(address: str) -> str:
    """Return the host of an address with or without a port; empty if there is none."""
    try:
        return (urlsplit(f"//{address}").hostname or "").removesuffix(".")
    except ValueError:
        return ""


def _is_local(name: str) -> bool:
    if name in _LOCAL_NAMES or name.endswith(_LOCAL_ZONES):
        return True
    return _is_number(name) and ipaddress.ip_address(name).is_loopback


def _is_number(name: str) -> bool:
    # An IP address cannot be rebound to another machine, so no page can have made it its own.
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


# The caller's credentials and address.

# Liveness, log-in, and files of pages, which hold no user data; without the slash a page's path is redirected.
_PAGES = ("/page", "/webui", "/workspace")
PUBLIC_PATHS = frozenset({"/", "/auth-status", "/docs", "/favicon.ico", "/health", "/login", "/redoc", *_PAGES})
PUBLIC_PREFIXES = ("/ui/", *(f"{page}/" for page in _PAGES))
_BEARER = "bearer "


def is_public(path: str) -> bool:
    """Whether a path, below the prefix of a proxy, needs no credentials."""
    return path in PUBLIC_PATHS or path.startswith(PUBLIC_PREFIXES)


def credentials_of(request: Request) -> Credentials:
    """Return the credentials in a request's headers."""
    header = request.headers.get("Authorization", "")
    bearer = header[len(_BEARER) :].strip() if header[: len(_BEARER)].lower() == _BEARER else ""
    return Credentials(request.headers.get("X-API-Key", "").strip(), bearer)


def address_of(request: Request) -> str:
    """Return the client address of a request; for IPv6 the network, since one host can use all addresses in it."""
    host = request.client.host if request.client else ""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if address.version == 4 or address.ipv4_mapped:
        return str(getattr(address, "ipv4_mapped", None) or address)
    return str(ipaddress.ip_network((address, 64), strict=False))


def _take_prefix_once(scope: Scope) -> None:
    """Drop a proxy's prefix if the proxy left it in the path although the server prepends it, too.

    So both kinds of proxies work, as with LightRAG. A path that a route has literally is that route's.
    """
    root = scope.get("root_path", "")
    if not root or not f"{scope['path']}/".startswith(f"{root}{root}/"):
        return
    if any(route.matches(scope)[0] is not Match.NONE for route in scope["app"].routes):
        return
    scope["path"] = scope["path"][len(root) :]
    if (raw := scope.get("raw_path")) is not None:
        scope["raw_path"] = raw.removeprefix(root.encode())


def _without_slash(scope: Scope) -> str | None:
    """Return the redirect target of a path that is a route's except for a slash at its end, or None.

    The router redirects other paths, but takes anything below `/documents` for an id, which may end in anything. DELETE
    is left to the router: a document with an empty id must not become all of them. The target is a path alone, so that
    the client sends its credentials to the same address again, whatever a proxy has told the service.
    """
    path, method = route_path(scope), scope["method"]
    bare = path.rstrip("/")
    if path == bare or method == "DELETE":
        return None
    if not any(method in methods and own.match(bare) for methods, own in scope["app"].state.own_paths):
        return None
    query = scope.get("query_string", b"").decode("latin-1")
    # The path is percent-encoded, so that no `?`, `#` or `%` in a name gets a meaning.
    return quote(scope.get("root_path", "") + bare) + (f"?{query}" if query else "")


def route_path(scope: Scope) -> str:
    """Return the path of a request below the prefix of a proxy."""
    path, root = scope["path"], scope.get("root_path", "")
    return path[len(root) :] if root and path.startswith(f"{root}/") else path


# The limits of bodies by route, and JSON that is rejected before parsing.
#
# Every body is read whole, up to its limit, and checked before it is parsed, whatever its content type: UTF-8 without
# NUL, nested no deeper than `max_json_depth`, at most `max_json_values` values, no NaN or infinity (which JSON lacks),
# no lone surrogate (which no text can be written with). Only forms are streamed to their routes and cut off at their
# limit, so an upload needs no memory; these routes check the JSON in them.
#
# A long body is checked in a thread, piece by piece, and parsing it costs little beside that: it has few values, so
# most of it is copied. Other requests are served meanwhile. The number of long bodies that one client may send at once
# is limited.

_TEXT_PATHS = ("/documents/text", "/documents/texts", "/mcp")
_TEXT_PREFIXES = ("/mcp/",)
_UPLOAD_PATHS = ("/documents/upload", "/documents/file")
_FORM_PATHS = (*_UPLOAD_PATHS, "/login")
# Allowance for the multipart framing of a form.
_FORM_FRAME_BYTES = 65_536
_LONG_BYTES = 262_144
# Limited to a piece of a string, since a match of a whole long string would block all threads.
_IN_STRING = re.compile(rb'(?:[^"\\]|\\.){0,65536}+', re.DOTALL)
_BRACKETS = re.compile(rb"[\[\]{}]")
_OPENING = b"[{"
_RETRY_AFTER_SECONDS = 5.0
_LONG_NUMBER = re.compile(rb"\d{1001}")
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


def most_body_bytes(settings: ServerSettings, method: str, path: str) -> tuple[int, str]:
    """Return the maximum length of a request's body, and the name of the setting that limits it."""
    if path in _UPLOAD_PATHS:
        return settings.max_upload_bytes + _FORM_FRAME_BYTES, "max_upload_bytes"
    brings_text = path in _TEXT_PATHS or path.startswith(_TEXT_PREFIXES)
    if brings_text or (method == "PUT" and path.startswith("/documents/")):
        return settings.max_text_bytes, "max_text_bytes"
    return settings.max_body_bytes, "max_body_bytes"


def check_json(body: bytes, max_depth: int, max_values: int) -> None:
    """Check a body before it is parsed as JSON; the parser decides whether it is valid.

    Raises:
        InvalidRequestError: It is not UTF-8, has NUL, NaN, an infinity, a lone surrogate, or a number that no parser
            takes.
        RequestTooLargeError: It is nested deeper than `max_depth`, or holds more than `max_values`.
    """
    if b"\0" in body:
        raise errors.InvalidRequestError("the body is not JSON in UTF-8: it holds NUL; send UTF-8")
    try:
        body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise errors.InvalidRequestError(f"the body is not UTF-8 at byte {error.start}; send UTF-8") from None
    frame = _frame(body, max_values)
    if b"NaN" in frame or b"Infinity" in frame:
        raise errors.InvalidRequestError(
            "the body holds NaN or Infinity, which JSON has not; leave the field out, or send null"
        )
    if _LONG_NUMBER.search(frame):
        raise errors.InvalidRequestError("the body holds a number of more than a thousand digits; send a shorter one")
    if sum(frame.count(mark) for mark in (b",", b"[", b"{")) > max_values:
        raise _too_many(max_values)
    depth = 0
    for bracket in _BRACKETS.finditer(frame) if frame.count(b"[") + frame.count(b"{") > max_depth else ():
        depth += 1 if bracket[0] in _OPENING else -1
        if depth > max_depth:
            raise errors.RequestTooLargeError(f"the body is nested deeper than {max_depth} levels; send a flatter one")
    if _SURROGATE.search(body):
        _check_surrogates(body)


def _frame(body: bytes, max_values: int) -> bytes:
    """Return a body without its strings."""
    parts: list[bytes] = []
    end = 0
    while (start := body.find(b'"', end)) >= 0:
        parts.append(body[end:start])
        # Each value is at most one string, or has one as its key.
        if len(parts) > 2 * max_values + 2:
            raise _too_many(max_values)
        end = start + 1
        while (piece := _IN_STRING.match(body, end)) and piece[0]:
            end = piece.end()
        # Past the closing quotation mark; a lone backslash ends the body.
        end += 1
    return b"".join((*parts, body[end:]))


def _too_many(max_values: int) -> errors.RequestTooLargeError:
    return errors.RequestTooLargeError(f"the body holds more than {max_values:,} values; send several smaller ones")


def _check_surrogates(body: bytes) -> None:
    try:
        text = json.dumps(json.loads(body), ensure_ascii=False)
    except ValueError:
        return
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise errors.InvalidRequestError(
            "a text in the body holds half of a surrogate pair; send whole characters"
        ) from None


class Limits:
    """Reads bodies within their limits."""

    def __init__(self, app: ASGIApp, settings: ServerSettings) -> None:
        self._app = app
        self._settings = settings
        self._sending: Counter[str] = Counter()

    async def serve(self, path: str, client: str, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on with its body, or refuse it with 400 or 413; the path is below the prefix of a proxy."""
        path = path.rstrip("/")
        most, setting = most_body_bytes(self._settings, scope["method"], path)
        try:
            declared = Headers(scope=scope).get("content-length", "")
            if declared.isascii() and declared.isdecimal():
                # Of a number with thousands of digits, the first twenty suffice.
                _check_body_length(int(declared[:20]), most, setting)
            if path in _FORM_PATHS:
                with self._place(client) if path in _UPLOAD_PATHS else nullcontext():
                    await self._pass_form(most, setting, scope, receive, send)
                return
            body = await self._read(client, receive, most, setting)
        except errors.HeliographError as error:
            await error_response(Request(scope), error)(scope, receive, send)
        except ClientDisconnect:
            return
        else:
            whole: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

            async def replay() -> Message:
                return whole.pop() if whole else await receive()

            await self._app(scope, replay, send)

    async def _pass_form(self, most: int, setting: str, scope: Scope, receive: Receive, send: Send) -> None:
        """Stream a form to its route, counting its bytes."""
        length, has_begun = 0, False

        async def counted() -> Message:
            nonlocal length
            message = await receive()
            length += len(message.get("body", b""))
            if length > most:
                # Of this class, since the framework passes it on from wherever it reads a body.
                raise HTTPException(413)
            return message

        async def sent(message: Message) -> None:
            nonlocal has_begun
            # Whatever the application makes of the cut-off body, the client gets the 413 below.
            if has_begun or length <= most:
                has_begun = True
                await send(message)

        try:
            await self._app(scope, counted, sent)
        except HTTPException:
            if length <= most:
                raise
        if not has_begun:
            _check_body_length(length, most, setting)

    async def _read(self, client: str, receive: Receive, most: int, setting: str) -> bytes:
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
                _check_body_length(length, most, setting)
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
        """Count a long body of a client while it is received."""
        most = self._settings.max_client_uploads
        if self._sending[client] >= most:
            raise errors.OverloadedError(
                f"{most} uploads or long bodies of yours are coming in already; try again when one is done, or raise "
                "server.max_client_uploads",
                _RETRY_AFTER_SECONDS,
            )
        self._sending[client] += 1
        try:
            yield
        finally:
            self._sending[client] -= 1
            # Drop addresses whose count is 0.
            self._sending += Counter()


def _check_body_length(length: int, most: int, setting: str) -> None:
    if length > most:
        raise errors.RequestTooLargeError(
            f"the body has {length:,} bytes or more, and at most {most:,} are taken here; send less at once, or raise "
            f"server.{setting}"
        )


# Dependencies of routes: the service, the principal, the engine of the named workspace, and a turn.

_HEADERS = ("X-Heliograph-Workspace", "LIGHTRAG-WORKSPACE")
# Characters of a workspace's name in a message: as many as a name may have.
_NAME_SHOWN = 64


def find_workspace(request: Request, default: str) -> str:
    """Return the workspace that a request names in its headers, and store it for the log.

    Raises:
        InvalidRequestError: The headers name two workspaces, so that either might be meant.
    """
    named = {_decoded(value.strip()) for header in _HEADERS for value in request.headers.getlist(header)} - {""}
    if len(named) > 1:
        first, second, *_ = sorted(named)
        raise errors.InvalidRequestError(
            f"the headers name two workspaces, {first[:_NAME_SHOWN]!r} and {second[:_NAME_SHOWN]!r}; name one"
        )
    request.state.workspace = next(iter(named), default)
    return request.state.workspace


def _decoded(name: str) -> str:
    # Headers are ASCII, so other letters arrive as bytes of UTF-8 or percent-encoded.
    with suppress(UnicodeError):
        return unquote(name.encode("latin-1").decode("utf-8"))
    return name


def _entering(request: Request, role: Role) -> tuple[Service, Principal, str]:
    """Return the service, the principal and the workspace, if the principal holds the role there."""
    service = cast("Service", request.app.state.service)
    principal, workspace = principal_of(request), find_workspace(request, service.workspaces.default)
    principal.require(role, workspace)
    return service, principal, workspace


def principal_of(request: Request) -> Principal:
    """Return the principal of a request; raises `AuthenticationError` if there is none."""
    principal = getattr(request.state, "principal", None)
    if principal is None:
        raise errors.AuthenticationError("No credentials provided. Please login.")
    return cast("Principal", principal)


# FastAPI runs dependencies that are not async in a thread, which costs more than all of these together; so all are
# async. Each reads the request, and none depends on another, since resolving a tree of dependencies costs more than
# they do.
async def _service(request: Request) -> Service:
    return request.app.state.service


async def _workspace(request: Request) -> str:
    return find_workspace(request, request.app.state.service.workspaces.default)


async def _principal(request: Request) -> Principal:
    return principal_of(request)


def _with(role: Role) -> Callable[[Request], Awaitable[Principal]]:
    async def principal(request: Request) -> Principal:
        return _entering(request, role)[1]

    return principal


@dataclass(frozen=True, slots=True)
class Work:
    """A workspace to read or to change: its engine, its name, the principal, and the service around it."""

    kb: AsyncHeliograph
    workspace: str
    author: str
    service: Service

    @property
    def jobs(self) -> Jobs:
        """Background jobs, of this workspace and others."""
        return self.service.jobs

    async def submit(self, kind: JobKind, batch: str = "", **details: Any) -> Job:
        """Submit a job for the principal, as a batch of its own; `details` are fields of its `JobRequest`."""
        request = JobRequest(kind, track_id(batch or kind.value), self.author, **details)
        return await self.jobs.submit(self.workspace, request)

    async def delete(self, documents: Sequence[Document], *, deletes_files: bool) -> Job:
        """Submit the deletion of documents as they are now: those inserted with another text from here on stay."""
        hashes = {document.id: document.content_hash for document in documents}
        return await self.submit(
            JobKind.DELETE, document_ids=tuple(hashes), content_hashes=hashes, deletes_files=deletes_files
        )

    async def enqueue(self, documents: Sequence[NewDocument], batch: str) -> IngestReport:
        """Store documents as pending for the principal, as a batch of its own, and have them processed."""
        return await self.jobs.enqueue(self.workspace, self.kb, documents, track_id(batch), self.author)


def _working(role: Role) -> Callable[[Request], AsyncGenerator[Work]]:
    async def work(request: Request) -> AsyncGenerator[Work]:
        service, principal, workspace = _entering(request, role)
        may_create = principal.may_create(workspace) or workspace == service.workspaces.default
        async with service.workspaces.use(workspace, creates=role is Role.WRITE and may_create) as kb:
            yield Work(kb, workspace, principal.name, service)

    return work


async def _read_engine(request: Request) -> AsyncGenerator[AsyncHeliograph]:
    service, _, workspace = _entering(request, Role.READ)
    async with service.workspaces.use(workspace) as engine:
        yield engine


CurrentService = Annotated[Service, Depends(_service)]
Workspace = Annotated[str, Depends(_workspace)]
CurrentPrincipal = Annotated[Principal, Depends(_principal)]
Reader = Annotated[Principal, Depends(_with(Role.READ))]
Admin = Annotated[Principal, Depends(_with(Role.ADMIN))]
ReadEngine = Annotated[AsyncHeliograph, Depends(_read_engine)]
ReadWork = Annotated[Work, Depends(_working(Role.READ))]
WriteWork = Annotated[Work, Depends(_working(Role.WRITE))]


# Failures of every route that answers questions.
FAILURES = responses(400, 401, 403, 404, 413, 422, 429, 500, 502, 503, 504)


@dataclass(frozen=True, slots=True)
class Asker:
    """Runs queries on one workspace for one client: in its turn, and only while the client is connected."""

    engine: AsyncHeliograph
    admission: Admission
    client: str
    request: Request

    async def ask(self, ask: Callable[[AsyncHeliograph], Awaitable[_T]]) -> _T:
        """Return the result of a method of the engine.

        Raises:
            ClientGone: The client hung up, and its query was cancelled.
            OverloadedError: Too many wait.
            HeliographError: Errors of the engine.
        """

        async def wait_and_ask() -> _T:
            async with self.admission.turn(self.client):
                return await ask(self.engine)

        return await until_disconnect(self.request, wait_and_ask())

    @asynccontextmanager
    async def stream(
        self, question: str, param: QueryParam, progress: Callable[[str], None] | None = None
    ) -> AsyncGenerator[AnswerStream]:
        """Retrieve and yield the stream of the answer; the turn lasts until the block is left."""
        async with (
            self.admission.turn(self.client),
            await self.engine.query_stream(question, param, progress=progress) as stream,
        ):
            yield stream


async def _asker(request: Request, engine: ReadEngine) -> Asker:
    service = cast("Service", request.app.state.service)
    await service.access.count_query(request.state.principal)
    return Asker(engine, service.admission, request.state.principal.client, request)


CurrentAsker = Annotated[Asker, Depends(_asker)]
