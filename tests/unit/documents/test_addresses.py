from __future__ import annotations

import pytest

from heliograph.documents.fetching import is_public, resolve, resolve_checked
from heliograph.errors import IngestError


@pytest.mark.parametrize(
    "address", ["93.184.216.34", "8.8.8.8", "2606:2800:220:1:248:1893:25c8:1946", "::ffff:8.8.8.8"]
)
def test_address_of_the_internet_is_public(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "127.8.8.8", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "0.0.0.0", "0.1.2.3"),
        *("100.64.0.1", "224.0.0.1", "240.0.0.1", "255.255.255.255", "192.0.2.1", "198.18.0.1", "192.0.0.8"),
        *("::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1", "fd12::1", "fec0::1", "ff02::1", "2001:db8::1"),
        *(
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::ffff:a9fe:a9fe",
            "::127.0.0.1",
            "2002:7f00:1::",
            "2002:0a00:0001::1",
        ),
        *("64:ff9b::7f00:1", "64:ff9b::10.0.0.1", "2001:0:7f00:1::80ff:fffe", "localhost", "", "1.2.3"),
    ],
)
def test_any_other_address_is_not_public(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("host", ["127.0.0.1", "2130706433", "0x7f.1", "0177.0.0.1", "127.1", "0", "::1", "localhost"])
async def test_every_way_to_write_loopback_is_refused(host: str) -> None:
    with pytest.raises(IngestError, match="not a public address"):
        await resolve_checked(host, 80, resolve, allow_private=False)
    assert await resolve_checked(host, 80, resolve, allow_private=True)


async def test_one_private_address_among_public_ones_is_enough_to_refuse() -> None:
    async def resolver(host: str, port: int) -> list[str]:
        return ["8.8.8.8", "10.0.0.1"]

    with pytest.raises(IngestError, match=r"'example\.org' leads to '10\.0\.0\.1'"):
        await resolve_checked("example.org", 80, resolver, allow_private=False)


@pytest.mark.parametrize("failure", [OSError("no such host"), UnicodeError("label too long")])
async def test_host_without_an_address_is_an_ingest_error(failure: Exception) -> None:
    async def resolver(host: str, port: int) -> list[str]:
        raise failure

    with pytest.raises(IngestError, match="has no address"):
        await resolve_checked("nowhere.example", 80, resolver, allow_private=True)
