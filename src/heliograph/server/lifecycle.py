"""How the application starts and how it ends: why it did not start, and how requests end when it is told to stop."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from heliograph.errors import HeliographError, StoreUnavailable
from heliograph.server.errors import error_response, failure_body

# Tells whether the application has started, and if not, why: by the error itself where Heliograph raised it.

StartReport = Callable[[HeliographError | None], None]
"""Told once how a start went: None if well, else what went wrong."""


_FAILURES = ("lifespan.startup.failed", "lifespan.shutdown.failed")


class PlainStartup:
    """Passes everything on, but spares two tracebacks.

    That of a start that failed for a reason Heliograph knows, and that of an end at once, by a second Ctrl-C. Any other
    is that of a defect, and stays.

    Args:
        app: What is to start.
        report: Told how that went.
    """

    def __init__(self, app: ASGIApp, report: StartReport) -> None:
        self._app = app
        self._report = report

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on; listen to what is said of the start."""
        if scope["type"] != "lifespan":
            await self._app(scope, receive, send)
            return
        failure: Message | None = None

        async def tell(message: Message) -> None:
            nonlocal failure
            if message["type"] in _FAILURES:
                # Held back: the error itself follows.
                failure = message
                return
            await send(message)
            if message["type"] == "lifespan.startup.complete":
                self._report(None)

        try:
            await self._app(scope, receive, tell)
        except BaseException as error:
            if failure is not None:
                await send({**failure, "message": self._reason(error, failure)})
            raise

    def _reason(self, error: BaseException, failure: Message) -> str:
        """Return what the log is told; an error that is reported is told by who gets the report."""
        if isinstance(error, asyncio.CancelledError):
            return "ended at once, before everything was closed"
        if isinstance(error, HeliographError) and failure["type"] == "lifespan.startup.failed":
            self._report(error)
            return ""
        return failure.get("message", "")


# How requests end when the service is told to stop.
#
# New connections are refused by then. What is under way gets most of `shutdown_seconds`; what is not done after that
# is cancelled, and told so: by a last line where lines were sent, by 503 where nothing was.

# What is left of the time is for writing the last lines and closing stores.
_SHARE_OF_REQUESTS = 0.7


class Drain:
    """Which requests are under way, and until when they may be.

    Args:
        shutdown_seconds: From being told to stop until everything is closed.
    """

    def __init__(self, shutdown_seconds: float) -> None:
        self.request_seconds = shutdown_seconds * _SHARE_OF_REQUESTS
        self._running: set[asyncio.Timeout] = set()
        self._deadline: float | None = None
        self._on_begin: list[Callable[[], None]] = []

    def call_on_begin(self, step: Callable[[], None]) -> None:
        """Have something called in the event loop when the service is told to stop."""
        self._on_begin.append(step)

    def begin(self) -> None:
        """Give requests under way their last time; call it in the event loop. Calling it again changes nothing."""
        if self._deadline is None:
            for step in self._on_begin:
                step()
            self._deadline = asyncio.get_running_loop().time() + self.request_seconds
            for timeout in self._running:
                timeout.reschedule(self._deadline)

    async def run(self, request: Any) -> bool:
        """Run a request to its end; False if its time was up before."""
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


class Draining:
    """Middleware that ends requests when their last time is up.

    Args:
        app: What serves them.
        drain: Says when.
    """

    def __init__(self, app: ASGIApp, drain: Drain) -> None:
        self._app = app
        self._drain = drain

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, as long as there is time."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started: Message | None = None
        is_complete = False

        async def noting(message: Message) -> None:
            nonlocal started, is_complete
            if message["type"] == "http.response.start":
                started = message
            elif not message.get("more_body", False):
                is_complete = True
            await send(message)

        if await self._drain.run(self._app(scope, receive, noting)) or is_complete:
            return
        error = StoreUnavailable("the service is being stopped; ask again, it may be back in a moment")
        request = Request(scope)
        if started is None:
            response = error_response(request, error)
            response.headers["Retry-After"] = "5"
            await response(scope, receive, send)
        else:
            await send({"type": "http.response.body", "body": _last_line(request, started, error), "more_body": False})


def _last_line(request: Request, started: Message, error: Exception) -> bytes:
    kind = Headers(scope=started).get("content-type", "")
    if kind.startswith("application/x-ndjson"):
        return json.dumps({"error": str(error)}).encode() + b"\n"
    if kind.startswith("text/event-stream"):
        return b"data: " + json.dumps({"error": failure_body(request, error)}).encode() + b"\n\n"
    # Nothing can be added to a body of another kind; that it is cut short shows by its length.
    raise error
