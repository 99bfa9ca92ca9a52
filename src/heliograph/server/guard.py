"""Asks every request for its credentials before anything else looks at it, its body included.

Whatever the application serves is guarded, mounted applications too, but for the paths named here. Who asks is left in
`request.state.principal`; on a path that is not guarded only if the credentials are good. A token past half its life
is renewed in the header `X-New-Token`.
"""

from __future__ import annotations

import ipaddress

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from heliograph.errors import AccessError, HeliographError
from heliograph.server.errors import error_response
from heliograph.service.access.access import Access, Credentials, Identity

# Liveness, the ways in, and files of pages, which hold nothing of anybody's; without the slash one is led to the page.
_PAGES = ("/page", "/webui", "/workspace")
PUBLIC_PATHS = frozenset({"/", "/auth-status", "/docs", "/favicon.ico", "/health", "/login", *_PAGES})
PUBLIC_PREFIXES = ("/ui/", *(f"{page}/" for page in _PAGES))
_BEARER = "bearer "


def is_public(path: str) -> bool:
    """Whether a path, below the prefix of a proxy, needs no credentials."""
    return path in PUBLIC_PATHS or path.startswith(PUBLIC_PREFIXES)


def credentials_of(request: Request) -> Credentials:
    """Return what a request brought in its headers."""
    header = request.headers.get("Authorization", "")
    bearer = header[len(_BEARER) :].strip() if header[: len(_BEARER)].lower() == _BEARER else ""
    return Credentials(request.headers.get("X-API-Key", "").strip(), bearer)


def address_of(request: Request) -> str:
    """Return where a request comes from; of IPv6 the network, since all addresses in it are one host's to choose."""
    host = request.client.host if request.client else ""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if address.version == 4 or address.ipv4_mapped:
        return str(getattr(address, "ipv4_mapped", None) or address)
    return str(ipaddress.ip_network((address, 64), strict=False))


class Guard:
    """Middleware that lets nobody pass unknown.

    Args:
        app: What is guarded.
        access: Knows who asks.
    """

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it; there are no web sockets here."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await self._guard(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1008})

    async def _guard(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope)
        try:
            identity = self._access.identify(credentials_of(request), address_of(request))
        except HeliographError as error:
            if not (isinstance(error, AccessError) and is_public(route_path(scope))):
                await error_response(request, error)(scope, receive, send)
                return
            identity = None
        if identity is not None:
            request.state.principal = identity.principal
        await self._app(scope, receive, _renewing(send, identity))


def route_path(scope: Scope) -> str:
    """Return the path of a request below the prefix of a proxy."""
    path, root = scope["path"], scope.get("root_path", "")
    return path[len(root) :] if root and path.startswith(f"{root}/") else path


def _renewing(send: Send, identity: Identity | None) -> Send:
    if identity is None or identity.new_token is None:
        return send
    token = identity.new_token

    async def send_with_token(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message)["X-New-Token"] = token
        await send(message)

    return send_with_token
