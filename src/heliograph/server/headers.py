"""Headers that tell browsers what they may do with what they get. A route that sets one itself keeps it."""

from __future__ import annotations

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

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
