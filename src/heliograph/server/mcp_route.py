"""The MCP tools within the service: at `/mcp` by streamable HTTP, for the same keys, roles and workspaces.

The request middleware has authenticated the caller; the workspace is named by the same headers. A session belongs to
its creator (a key, an account, or an address where no credentials are needed): for other callers it does not exist, and
each owner's number of sessions is limited. Sessions are kept in the memory of this process, so with several worker
processes there are none, and every request stands for itself. Streams that a client keeps open for notifications end at
once when the service stops, since that loses no data.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI
from mcp.server import Server
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser, AuthorizationContext
from mcp.server.auth.provider import AccessToken
from mcp.server.streamable_http import StreamableHTTPServerTransport
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from starlette.requests import Request
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from heliograph.errors import OverloadedError, PermissionDenied
from heliograph.mcp.protocol import make_server
from heliograph.mcp.tools import Host
from heliograph.server.requests import Drain, find_workspace, principal_of
from heliograph.service.access import Principal, Role
from heliograph.service.service import Service

_PATH = "/mcp"
_RETRY_AFTER_SECONDS = 60.0


class McpRoute:
    """Adds the tools to an application."""

    def __init__(self, service: Service, drain: Drain) -> None:
        self._service = service
        self._manager: _Sessions | None = None
        self._streams: set[asyncio.Task[None]] = set()
        drain.call_on_begin(self._end_streams)

    def add_to(self, app: FastAPI) -> None:
        """Serve the tools at their path, if the settings enable them."""
        if self._service.settings.mcp.serve:
            app.router.routes.append(Route(_PATH, endpoint=self))

    @asynccontextmanager
    async def run(self) -> AsyncGenerator[None]:
        """Serve within the block, the application's lifetime; at its end all sessions end."""
        service, mcp, server = self._service, self._service.settings.mcp, self._service.settings.server
        host = Host(service.workspaces, service.admission, service.jobs, service.access)
        manager = _Sessions(
            mcp.max_client_sessions,
            make_server(host, mcp, self._identify),
            stateless=mcp.stateless or server.workers > 1,
            # Allowed hosts and origins are checked for all routes, before this one (`server.requests`).
            security_settings=TransportSecuritySettings(enable_dns_rebinding_protection=False),
            session_idle_timeout=mcp.session_idle_seconds,
            max_request_body_size=server.max_text_bytes,
            max_sessions=mcp.max_sessions,
        )
        ready, over = asyncio.Event(), asyncio.Event()

        async def run_manager() -> None:
            try:
                async with manager.run():
                    ready.set()
                    await over.wait()
            finally:
                # Set it even if the start fails, or the waiter below would wait for ever.
                ready.set()

        # A separate task, since the manager must be exited by the task that entered it, and an application may be
        # started and stopped by two.
        task = asyncio.create_task(run_manager())
        try:
            await ready.wait()
            self._manager = manager
            yield
        finally:
            self._manager = None
            over.set()
            await task

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if scope["method"] == "GET":
            # A stream lasts until its client leaves or the service stops: then it is ended as a complete body.
            has_begun = is_complete = False

            async def noting(message: Message) -> None:
                nonlocal has_begun, is_complete
                has_begun = True
                is_complete = message["type"] == "http.response.body" and not message.get("more_body", False)
                await send(message)

            task = asyncio.create_task(self._serve(scope, receive, noting))
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
        else:
            await self._serve(scope, receive, send)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._manager is None:
            raise RuntimeError("requests came in before the application was started, or after it ended")
        principal, _ = self._identify(Request(scope))
        # The SDK compares session owners by this: a key and an account of one name must differ.
        places = "*" if principal.workspaces is None else " ".join(sorted(principal.workspaces))
        token = AccessToken(token="", client_id=principal.client, scopes=[], subject=f"{principal.role} {places}")
        await self._manager.handle_request({**scope, "user": AuthenticatedUser(token)}, receive, send)

    def _end_streams(self) -> None:
        for task in self._streams:
            task.cancel()

    def _identify(self, request: Request | None) -> tuple[Principal, str]:
        if request is None:
            raise PermissionDenied("the request came without its credentials; send it again")
        workspace = find_workspace(request, self._service.workspaces.default)
        principal = principal_of(request)
        principal.require(Role.READ, workspace)
        return principal, workspace


class _Sessions(StreamableHTTPSessionManager):
    """The sessions of a process, limited per owner."""

    def __init__(self, most_of_one: int, app: Server[Any], **options: Any) -> None:
        super().__init__(app, **options)
        self._most_of_one = most_of_one

    def _admit_session(self, requestor: AuthorizationContext | None) -> StreamableHTTPServerTransport | None:
        # Called while the counted sessions cannot change; no public hook of the SDK guarantees that.
        if sum(owner == requestor for owner in self._session_owners.values()) >= self._most_of_one:
            raise OverloadedError(
                f"{self._most_of_one} sessions are open for these credentials or this address; use them again, end "
                "them by DELETE, wait until they are idle, or raise mcp.max_client_sessions",
                _RETRY_AFTER_SECONDS,
            )
        return super()._admit_session(requestor)
