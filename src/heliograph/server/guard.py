"""Who may come in: credentials are looked at first, and where none are asked for, web pages of elsewhere stay out."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from heliograph.errors import AccessError, HeliographError, PermissionDenied
from heliograph.server.errors import error_response
from heliograph.service.access import Access, Credentials, Identity, has_credentials
from heliograph.settings import Settings

# Keeps web pages of elsewhere away from a service that asks nobody for credentials, or names its hosts.
#
# A browser on this machine runs anybody's pages and reaches what listens here. A page could read everything by a name
# of its own that leads to this machine (DNS rebinding), and send without asking what browsers let pass, such as an
# upload. So a request must be addressed to this machine by a name of it or by a number, and the page it comes from,
# if it comes from one, must be of this machine as well. `server.allowed_hosts` names further hosts, for all routes
# and tools alike.

_ANY_PORT = ":*"
_LOCAL_NAMES = ("localhost", "localhost.localdomain", "ip6-localhost")
# Zones that no stranger can have a name in; containers call their machine host.docker.internal.
_LOCAL_ZONES = (".localhost", ".internal")


class LocalPages:
    """Middleware for a service that is open, or named.

    Args:
        app: What is kept.
        settings: Name further hosts and origins.
    """

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app = app
        self._settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it with 403."""
        if scope["type"] == "http":
            try:
                check_page(Headers(scope=scope), self._settings)
            except PermissionDenied as error:
                await error_response(Request(scope), error)(scope, receive, send)
                return
        await self._app(scope, receive, send)


def check_page(headers: Headers, settings: Settings) -> None:
    """Check by its headers that a request is none of a page of elsewhere; what sends no such headers is no browser.

    Raises:
        PermissionDenied: It is addressed to another name, or comes from another page.
    """
    hosts = settings.allowed_hosts
    address, origin = headers.get("host", ""), headers.get("origin")
    name = _name(address)
    if address and not (_is_local(name) or _is_number(name) or _is_named(address, hosts)):
        raise _refusal(f"the service does not answer by the name {address!r:.100}", "server.allowed_hosts", settings)
    if origin is None or {origin, "*"} & set(settings.server.allowed_origins):
        return
    place = origin.partition("://")[2]
    if not place or not (_is_local(_name(place)) or place == address or _is_named(place, hosts)):
        raise _refusal(f"the service does not answer pages of {origin!r:.100}", "server.allowed_origins", settings)


def _refusal(what: str, setting: str, settings: Settings) -> PermissionDenied:
    remedy = "" if has_credentials(settings) else ", set a key (server.api_key), or serve with --insecure"
    return PermissionDenied(f"{what}, only those of this machine and of the settings; name it in {setting}{remedy}")


def _name(address: str) -> str:
    """Return the host of an address with or without a port; empty if there is none."""
    try:
        return (urlsplit(f"//{address}").hostname or "").removesuffix(".")
    except ValueError:
        return ""


def _is_local(name: str) -> bool:
    if name in _LOCAL_NAMES or name.endswith(_LOCAL_ZONES):
        return True
    return _is_number(name) and ipaddress.ip_address(name).is_loopback


def _is_number(name: str) -> bool:
    # Such an address leads to no other machine than it says, so no page can have made it its own.
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _is_named(address: str, hosts: tuple[str, ...]) -> bool:
    return any(
        address.lower() == host.lower()
        or (host.endswith(_ANY_PORT) and _name(address) == _name(host[: -len(_ANY_PORT)]))
        for host in hosts
    )


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
