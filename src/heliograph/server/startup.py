"""Says in one line why the service cannot start, where the reason is one that Heliograph knows."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from heliograph.errors import HeliographError

__all__ = ["PlainStartup"]

_PREFIX = f"{HeliographError.__module__}."


class PlainStartup:
    """Passes everything on, but shortens the traceback of a failed start to its reason.

    Args:
        app: What is to start.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on; listen to what is said of the start."""
        if scope["type"] != "lifespan":
            await self._app(scope, receive, send)
            return

        async def tell(message: Message) -> None:
            if message["type"] == "lifespan.startup.failed":
                message = {**message, "message": _reason(message.get("message", ""))}
            await send(message)

        await self._app(scope, receive, tell)


def _reason(trace: str) -> str:
    """Return what an error of Heliograph says at the end of a traceback; any other is kept whole."""
    lines = trace.strip().splitlines()
    for number in range(len(lines) - 1, -1, -1):
        if lines[number].startswith(_PREFIX):
            first = lines[number].partition(": ")[2]
            return "\n".join(["cannot start: " + first, *lines[number + 1 :]])
        if lines[number].startswith(" "):
            break
    return trace
