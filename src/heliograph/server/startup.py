"""Tells whether the application has started, and if not, why: by the error itself where Heliograph raised it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from heliograph.errors import HeliographError

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
