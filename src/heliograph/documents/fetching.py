"""Fetches one URL, within limits, from permitted addresses.

A URL is fetched over http or https only, within limits of size and time, and every redirect is checked like the first
address. Only addresses of the public internet are permitted unless settings allow others: a name is resolved once, each
address is checked, and the connection goes to a checked address (this stops DNS rebinding).
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable

import httpx

from heliograph._version import __version__
from heliograph.documents.base import RawDocument
from heliograph.errors import IngestError
from heliograph.settings import DocumentSettings

# Returns the addresses of a host for a port, as text.
Resolver = Callable[[str, int], Awaitable[list[str]]]

# Also not on the public internet, which not every version of Python knows.
_SPECIAL = (ipaddress.ip_network("192.0.0.0/24"), ipaddress.ip_network("fec0::/10"))
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_IPV4_BITS = 0xFFFF_FFFF


def is_public(address: str) -> bool:
    """Return whether an address belongs to the public internet.

    Private, loopback, link-local, multicast, unspecified and reserved addresses do not, nor does an IPv6 address that
    embeds such an IPv4 address (mapped, compatible, 6to4, Teredo, NAT64). A text that is no address is not public.
    """
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(parsed, ipaddress.IPv4Address):
        return _is_public(parsed)
    carried = _carried(parsed)
    if carried:
        return all(_is_public(inner) for inner in carried)
    return _is_public(parsed)


async def resolve(host: str, port: int) -> list[str]:
    """Return the addresses of a host as the system resolves it, which reads decimal, octal and short forms too.

    Raises:
        OSError: The host has no address.
    """
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(item[4][0]) for item in found))


async def resolve_checked(host: str, port: int, resolver: Resolver, *, allow_private: bool) -> list[str]:
    """Return the addresses of a host; raises `IngestError` if there are none or one is not permitted."""
    try:
        addresses = await resolver(host, port)
    except (OSError, UnicodeError) as error:
        raise IngestError(f"the host {host!r} has no address ({error}); check the URL and the network") from error
    if not addresses:
        raise IngestError(f"the host {host!r} has no address; check the URL and the network")
    refused = [address for address in addresses if not is_public(address)]
    if refused and not allow_private:
        raise IngestError(
            f"the host {host!r} leads to {refused[0]!r}, which is not a public address; if it is to be reached, set "
            "documents.allow_private_addresses"
        )
    return addresses


def _is_public(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    is_special = any(address.version == network.version and address in network for network in _SPECIAL)
    return address.is_global and not (
        is_special or address.is_multicast or address.is_reserved or address.is_unspecified
    )


def _carried(address: ipaddress.IPv6Address) -> list[ipaddress.IPv4Address]:
    """Return the IPv4 addresses that an IPv6 address embeds."""
    if address.ipv4_mapped is not None:
        return [address.ipv4_mapped]
    if address.sixtofour is not None:
        return [address.sixtofour]
    if address.teredo is not None:
        return list(address.teredo)
    if address in _NAT64 or int(address) >> 32 == 0:
        return [ipaddress.IPv4Address(int(address) & _IPV4_BITS)]
    return []


# The connection goes to the checked address but keeps the URL's name in the Host header, in TLS and for its
# certificate. Proxies of the environment are not used, as they would resolve names themselves.

_SCHEMES = frozenset({"http", "https"})
_PORTS = {"http": 80, "https": 443}
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_HEADERS = {
    "User-Agent": f"heliograph/{__version__}",
    "Accept": "text/html, text/markdown, */*;q=0.8",
    "Accept-Encoding": "gzip, deflate",
}
# A compressed chunk in one of these unpacks to at most a thousand times its size, so that the limit is noticed in time;
# with other codings, or several combined, one chunk may fill the memory.
_BOUNDED_CODINGS = frozenset({"gzip", "deflate"})
_UNBOUNDED_CODINGS = frozenset({"br", "zstd"})


def check_url(url: str) -> httpx.URL:
    """Return the parts of a URL that may be fetched, checked without network access.

    Raises:
        IngestError: It is no http or https address, or holds credentials.
    """
    try:
        return _checked(httpx.URL(url), url)
    except (httpx.InvalidURL, UnicodeError) as error:
        raise IngestError(f"{url!r} is no URL ({error}); check it") from error


async def fetch(url: str, settings: DocumentSettings, resolver: Resolver = resolve) -> RawDocument:
    """Fetch an http or https URL; the result is named by the URL as given, wherever redirects led.

    Raises:
        IngestError: The URL, a redirect, an address, the reply, its size or its time is not acceptable; says which.
    """
    try:
        async with asyncio.timeout(settings.url_timeout_seconds):
            return await _fetch(url, settings, resolver)
    except TimeoutError as error:
        raise IngestError(
            f"{url!r} was not fetched within {settings.url_timeout_seconds:g} s; try again, or raise "
            "documents.url_timeout_seconds"
        ) from error
    except httpx.HTTPError as error:
        raise IngestError(
            f"{url!r} cannot be fetched ({str(error) or type(error).__name__}); try again later"
        ) from error
    except httpx.InvalidURL as error:
        raise IngestError(f"{url!r} leads to an address that is no URL ({error}); check it") from error


async def _fetch(url: str, settings: DocumentSettings, resolver: Resolver) -> RawDocument:
    transport = _CheckedTransport(resolver, allow_private=settings.allow_private_addresses)
    async with httpx.AsyncClient(
        transport=transport, trust_env=False, timeout=settings.url_timeout_seconds, headers=_HEADERS
    ) as client:
        target = check_url(url)
        for _ in range(settings.max_redirects + 1):
            async with client.stream("GET", target) as response:
                if response.status_code not in _REDIRECTS:
                    return await _read(response, url, settings.max_file_bytes)
                location = response.headers.get("location", "")
                if not location:
                    raise IngestError(f"{url!r} redirects to nowhere; check it")
                target = _checked(target.join(location), url)
    raise IngestError(
        f"{url!r} redirects more than {settings.max_redirects} times; give the address it leads to, or raise "
        "documents.max_redirects"
    )


def _checked(target: httpx.URL, url: str) -> httpx.URL:
    if target.scheme not in _SCHEMES or not target.host:
        leads = "is" if str(target) == url else f"leads to {str(target)!r}, which is"
        raise IngestError(f"{url!r} {leads} not an http or https address; only these are fetched")
    if target.userinfo:
        raise IngestError(f"the address of {target.host!r} holds a user name or password; give it without them")
    return target


async def _read(response: httpx.Response, url: str, max_bytes: int) -> RawDocument:
    if not response.is_success:
        raise IngestError(f"{url!r} answered {response.status_code} {response.reason_phrase}; check the address")
    header = response.headers.get("content-encoding", "")
    codings = [coding.strip().lower() for coding in header.split(",")]
    if sum(coding in _BOUNDED_CODINGS for coding in codings) > 1 or not _UNBOUNDED_CODINGS.isdisjoint(codings):
        raise IngestError(
            f"{url!r} is compressed as {header!r:.100}, which was not asked for and may unpack to anything; save it "
            "and give the file"
        )
    declared = response.headers.get("content-length", "")
    if declared.isascii() and declared.isdigit() and int(declared) > max_bytes:
        raise _too_large(url, max_bytes, int(declared))
    data = bytearray()
    async for piece in response.aiter_bytes():
        data += piece
        if len(data) > max_bytes:
            raise _too_large(url, max_bytes)
    mime_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    return RawDocument(url, bytes(data), mime_type, response.charset_encoding or "")


def _too_large(url: str, max_bytes: int, length: int = 0) -> IngestError:
    if length:
        return IngestError(f"{url!r} has {length:,} bytes, more than {max_bytes:,}; raise documents.max_file_bytes")
    return IngestError(f"{url!r} has more than {max_bytes:,} bytes; raise documents.max_file_bytes to fetch it")


class _CheckedTransport(httpx.AsyncBaseTransport):
    """Connects to checked addresses only."""

    def __init__(self, resolver: Resolver, *, allow_private: bool) -> None:
        self._resolver = resolver
        self._allow_private = allow_private
        # Without keep-alive: a connection for one host must not serve another at the same address.
        self._inner = httpx.AsyncHTTPTransport(trust_env=False, limits=httpx.Limits(max_keepalive_connections=0))

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        host = request.url.host
        port = request.url.port or _PORTS[request.url.scheme]
        addresses = await resolve_checked(host, port, self._resolver, allow_private=self._allow_private)
        failure: httpx.ConnectError | None = None
        for address in addresses:
            request_to_address = httpx.Request(
                request.method,
                request.url.copy_with(host=address.partition("%")[0]),
                headers=request.headers,
                stream=request.stream,
                extensions={**request.extensions, "sni_hostname": host},
            )
            try:
                return await self._inner.handle_async_request(request_to_address)
            except httpx.ConnectError as error:
                failure = error
        raise failure or httpx.ConnectError("no address")

    async def aclose(self) -> None:
        await self._inner.aclose()
