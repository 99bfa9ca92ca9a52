"""Streamable HTTP: an ASGI application to be mounted where requests come in that are authenticated already.

Sessions belong to who opened them (a key, an account, or an address where nobody is asked for credentials): to anybody
else they do not exist, and nobody may have so many that others get none. They are kept in the memory of this process,
so where several processes share an address there are none, and every request stands for itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

from mcp.server import Server
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser, AuthorizationContext
from mcp.server.auth.provider import AccessToken
from mcp.server.streamable_http import StreamableHTTPServerTransport
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from heliograph.errors import OverloadedError, PermissionDenied
from heliograph.mcp.calls import Caller, Host
from heliograph.mcp.server import make_server
from heliograph.service.principal import Principal
from heliograph.settings import Settings

_RETRY_AFTER_SECONDS = 60.0


class McpEndpoint:
    """Serves the protocol's requests.

    Args:
        host: The parts of the process that tools work with.
        settings: Of the process.
        identify: Says who sent a request, and to which workspace.
    """

    def __init__(self, host: Host, settings: Settings, identify: Callable[[Request], Caller]) -> None:
        self._identify = identify
        self._host = host
        self._settings = settings
        self._manager: _Sessions | None = None

    @asynccontextmanager
    async def run(self) -> AsyncGenerator[None]:
        """Serve within the block; at its end all sessions end."""
        mcp, server = self._settings.mcp, self._settings.server
        self._manager = _Sessions(
            mcp.max_client_sessions,
            make_server(self._host, mcp, self._caller),
            stateless=mcp.stateless or server.workers > 1,
            # Which names and pages are answered is settled for all routes, before this one (`server.guard`).
            security_settings=TransportSecuritySettings(enable_dns_rebinding_protection=False),
            session_idle_timeout=mcp.session_idle_seconds,
            max_request_body_size=server.max_text_bytes,
            max_sessions=mcp.max_sessions,
        )
        ready, over = asyncio.Event(), asyncio.Event()
        # A task of its own, since the manager must be left by the task that entered it, and who runs an application
        # may start and stop it from two.
        task = asyncio.create_task(_run_until(self._manager, ready, over))
        try:
            await ready.wait()
            yield
        finally:
            self._manager = None
            over.set()
            await task

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if self._manager is None:
            raise RuntimeError("requests came in before the application was started, or after it ended")
        caller = self._identify(Request(scope))
        await self._manager.handle_request({**scope, "user": _owner(caller.principal)}, receive, send)

    def _caller(self, request: Request | None) -> Caller:
        if request is None:
            raise PermissionDenied("the request came without its credentials; send it again")
        return self._identify(request)


class _Sessions(StreamableHTTPSessionManager):
    """All sessions of a process.

    Args:
        most_of_one: Sessions that one owner may have.
        app: The server.
        options: As of the SDK's manager.
    """

    def __init__(self, most_of_one: int, app: Server[Any], **options: Any) -> None:
        super().__init__(app, **options)
        self._most_of_one = most_of_one

    def _admit_session(self, requestor: AuthorizationContext | None) -> StreamableHTTPServerTransport | None:
        # Called with what is counted held still, which no hook of the SDK's is.
        if sum(owner == requestor for owner in self._session_owners.values()) >= self._most_of_one:
            raise OverloadedError(
                f"{self._most_of_one} sessions are open for these credentials or this address; use them again, end "
                "them by DELETE, wait until they are idle, or raise mcp.max_client_sessions",
                _RETRY_AFTER_SECONDS,
            )
        return super()._admit_session(requestor)


async def _run_until(manager: StreamableHTTPSessionManager, ready: asyncio.Event, over: asyncio.Event) -> None:
    try:
        async with manager.run():
            ready.set()
            await over.wait()
    finally:
        # Were it not to start, this would be waited for in vain.
        ready.set()


def _owner(principal: Principal) -> AuthenticatedUser:
    """Return a principal as the SDK compares owners of sessions: a key and an account of one name are two."""
    places = "*" if principal.workspaces is None else " ".join(sorted(principal.workspaces))
    token = AccessToken(token="", client_id=principal.client, scopes=[], subject=f"{principal.role} {places}")
    return AuthenticatedUser(token)
