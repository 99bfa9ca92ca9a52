"""Which network addresses may be reached: those of the public internet, unless others are allowed.

A name is resolved once, every address it has is checked, and the connection then goes to a checked address itself, so
an answer that changes between check and connection (DNS rebinding) gains nothing.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable

from heliograph.errors import IngestError

__all__ = ["Resolver", "is_public", "resolve", "resolve_checked"]

# Gives the addresses of a host for a port, as texts.
Resolver = Callable[[str, int], Awaitable[list[str]]]

# Not of the internet either, which not every version of Python knows.
_SPECIAL = (ipaddress.ip_network("192.0.0.0/24"), ipaddress.ip_network("fec0::/10"))
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_IPV4_BITS = 0xFFFF_FFFF


def is_public(address: str) -> bool:
    """Return whether an address belongs to the public internet.

    Private, loopback, link-local, multicast, unspecified and reserved ones do not, nor does an IPv6 address that
    carries such an IPv4 address (mapped, compatible, 6to4, Teredo, NAT64). What is no address is not public.
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
        OSError: There are none.
    """
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(item[4][0]) for item in found))


async def resolve_checked(host: str, port: int, resolver: Resolver, *, allow_private: bool) -> list[str]:
    """Return the addresses of a host, all of which may be reached.

    Raises:
        IngestError: There are none, or one of them may not be reached.
    """
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
    """Return the IPv4 addresses that an IPv6 address stands for."""
    if address.ipv4_mapped is not None:
        return [address.ipv4_mapped]
    if address.sixtofour is not None:
        return [address.sixtofour]
    if address.teredo is not None:
        return list(address.teredo)
    if address in _NAT64 or int(address) >> 32 == 0:
        return [ipaddress.IPv4Address(int(address) & _IPV4_BITS)]
    return []
