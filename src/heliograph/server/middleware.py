"""What every request passes through, in order, from the outside in; and the headers that browsers obey."""

from __future__ import annotations

from fastapi import FastAPI
from starlette.datastructures import MutableHeaders
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from heliograph.server.guard import Guard, LocalPages
from heliograph.server.lifecycle import Drain, Draining
from heliograph.server.limits import Limits
from heliograph.server.request_log import Observed, RequestLog
from heliograph.service.service import Service

# Headers that tell browsers what they may do with what they get. A route that sets one itself keeps it.

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


class SecurityHeaders:
    """Middleware that adds them to every response; what is no page is never kept by caches."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def adding(message: Message) -> None:
            if message["type"] == "http.response.start":
                _add(MutableHeaders(scope=message))
            await send(message)

        await self._app(scope, receive, adding)


def _add(headers: MutableHeaders) -> None:
    for name, value in _ALWAYS.items():
        headers.setdefault(name, value)
    kind = headers.get("content-type", "")
    headers.setdefault("Content-Security-Policy", _PAGE_POLICY if kind.startswith("text/html") else _DATA_POLICY)
    if kind.startswith(("application/json", "application/problem+json", "application/x-ndjson")):
        headers.setdefault("Cache-Control", "no-store")


_EXPOSED = ["Mcp-Session-Id", "Retry-After", "X-New-Token", "X-Request-ID"]


def add_middleware(app: FastAPI, service: Service, drain: Drain) -> None:
    """Put everything around an application that its requests pass through.

    From the outside in: ids and the log, counts and traces, headers for browsers, CORS if origins are allowed,
    credentials (where none are asked for, or hosts are named, which names and pages), the end of the service, limits of
    bodies. So nobody
    unknown has a body read, and every refusal is counted and has its id and its headers.
    """
    settings = service.settings.server
    # Each one goes around those before it.
    app.add_middleware(Limits, settings=settings)
    app.add_middleware(Draining, drain=drain)
    app.add_middleware(Guard, access=service.access)
    if (service.access.is_open and not settings.insecure) or service.settings.allowed_hosts:
        app.add_middleware(LocalPages, settings=service.settings)
    if settings.allowed_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(settings.allowed_origins),
            allow_methods=["GET", "POST", "PUT", "DELETE"],
            allow_headers=["*"],
            expose_headers=_EXPOSED,
        )
    app.add_middleware(SecurityHeaders)
    app.add_middleware(Observed, monitoring=service.monitoring)
    app.add_middleware(RequestLog)
