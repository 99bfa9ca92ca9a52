"""Keeps web pages of elsewhere away from a service that asks nobody for credentials, or names its hosts.

A browser on this machine runs anybody's pages and reaches what listens here. A page could read everything by a name of
its own that leads to this machine (DNS rebinding), and send without asking what browsers let pass, such as an upload.
So a request must be addressed to this machine by a name of it or by a number, and the page it comes from, if it comes
from one, must be of this machine as well. `server.allowed_hosts` names further hosts, for all routes and tools alike.
"""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from heliograph.errors import PermissionDenied
from heliograph.server.errors import error_response
from heliograph.service.access.access import has_credentials
from heliograph.settings import Settings

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
