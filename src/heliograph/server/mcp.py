"""The tools for agents within the service: at `/mcp`, for the same keys, roles and workspaces as the routes.

The guard has found out who asks; the workspace is named by the same headers. Streams that a client keeps open to hear
of news end at once when the service is told to stop, since nothing is lost with them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import cast

from fastapi import FastAPI
from starlette.requests import Request
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from heliograph.errors import AuthenticationError
from heliograph.mcp.calls import Caller, Host
from heliograph.mcp.http import McpEndpoint
from heliograph.server.dependencies import find_workspace
from heliograph.server.lifecycle import Drain
from heliograph.service.principal import Principal, Role
from heliograph.service.service import Service

_PATH = "/mcp"


class McpRoute:
    """Puts the endpoint into an application.

    Args:
        service: What the tools work with.
        drain: Says when the end is near.
    """

    def __init__(self, service: Service, drain: Drain) -> None:
        host = Host(service.workspaces, service.admission, service.jobs, service.access)
        self._service = service
        self._endpoint = McpEndpoint(host, service.settings, self._identify)
        self._streams: set[asyncio.Task[None]] = set()
        drain.call_on_begin(self._end_streams)

    def add_to(self, app: FastAPI) -> None:
        """Serve it at its path, if the settings want it."""
        if self._service.settings.mcp.serve:
            app.router.routes.append(Route(_PATH, endpoint=self))

    @asynccontextmanager
    async def run(self) -> AsyncGenerator[None]:
        """Serve within the block, which the application's life is."""
        async with self._endpoint.run():
            yield

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if scope["method"] == "GET":
            await self._stream(scope, receive, send)
        else:
            await self._endpoint(scope, receive, send)

    async def _stream(self, scope: Scope, receive: Receive, send: Send) -> None:
        has_begun = is_complete = False

        async def noting(message: Message) -> None:
            nonlocal has_begun, is_complete
            has_begun = True
            is_complete = message["type"] == "http.response.body" and not message.get("more_body", False)
            await send(message)

        task = asyncio.create_task(self._endpoint(scope, receive, noting))
        self._streams.add(task)
        try:
            await asyncio.wait([task])
        finally:
            self._streams.discard(task)
            task.cancel()
        if not task.cancelled():
            task.result()
        elif has_begun and not is_complete:
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    def _end_streams(self) -> None:
        for task in self._streams:
            task.cancel()

    def _identify(self, request: Request) -> Caller:
        principal = getattr(request.state, "principal", None)
        if principal is None:
            raise AuthenticationError("No credentials provided. Please login.")
        workspace = find_workspace(request, self._service.workspaces.default)
        caller = Caller(cast("Principal", principal), workspace)
        caller.principal.require(Role.READ, workspace)
        return caller
