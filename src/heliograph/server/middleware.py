"""What every request passes through, in order."""

from __future__ import annotations

from fastapi import FastAPI
from starlette.middleware.cors import CORSMiddleware

from heliograph.server.guard import Guard
from heliograph.server.headers import SecurityHeaders
from heliograph.server.limits import Limits
from heliograph.server.local_pages import LocalPages
from heliograph.server.observed import Observed
from heliograph.server.request_log import RequestLog
from heliograph.server.shutdown import Drain, Draining
from heliograph.service.service import Service

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
