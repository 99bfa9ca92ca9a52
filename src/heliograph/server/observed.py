"""Counts and traces every request, and makes what is done for it known to the monitoring of this service.

A trace that the caller has begun (`traceparent` of W3C's Trace Context) goes on. Requests are told apart by the
template of their route, never by their path.
"""

from __future__ import annotations

import re
import time

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from heliograph.monitoring.monitoring import Monitoring
from heliograph.observing import observing

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
