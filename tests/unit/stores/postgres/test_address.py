"""Addresses, what errors say of them, and every exception of the driver."""

from __future__ import annotations

import subprocess
import sys

import psycopg
import psycopg_pool
import pytest

from heliograph.cli.installation import list_values
from heliograph.errors import SettingsError, StoreError, StoreUnavailable
from heliograph.settings import Settings, StoreSettings
from heliograph.stores.postgres.database import parse_address, translate_errors
from heliograph.stores.registry import open_store

SECRET = "s3cr3t"


def test_address_is_shown_without_its_password() -> None:
    for url in (f"postgresql://ann:{SECRET}@db.example:5433/kb", f"postgres://ann:{SECRET}@db.example:5433/kb"):
        address = parse_address(url)
        assert address.label == "postgresql://ann@db.example:5433/kb"
        assert SECRET not in repr(address)
        assert SECRET in address.conninfo


@pytest.mark.parametrize(
    "url", ["postgresql://ann:s3cr3t@db/kb", "redis://:s3cr3t@h", "postgresql://h/kb?password=s3cr3t"]
)
def test_settings_show_no_password(url: str) -> None:
    settings = Settings(store=StoreSettings(url=url))
    assert SECRET not in repr(settings)
    (shown,) = (item.value for item in list_values(settings) if item.path == "store.url")
    assert shown == url.replace(SECRET, "***")


@pytest.mark.parametrize("url", [f"postgresql://ann:{SECRET}@[db/kb", f"postgresql://ann:{SECRET}@db/kb?nothing=1"])
async def test_bad_address_is_not_quoted(url: str) -> None:
    with pytest.raises(SettingsError, match=r"store\.url") as caught:
        await open_store(StoreSettings(url=url), None)
    assert SECRET not in str(caught.value)
    assert caught.value.__suppress_context__


async def test_server_out_of_reach_is_named_without_password() -> None:
    with pytest.raises(StoreUnavailable, match=r"ann@127\.0\.0\.1:1/kb") as caught:
        await open_store(StoreSettings(url=f"postgresql://ann:{SECRET}@127.0.0.1:1/kb"), None)
    assert SECRET not in str(caught.value)


def _driver_errors() -> list[type[Exception]]:
    pools = [psycopg_pool.PoolTimeout, psycopg_pool.PoolClosed, psycopg_pool.TooManyRequests]
    found: list[type[Exception]] = [psycopg.Error, *pools]
    for kind in found:
        found.extend(child for child in kind.__subclasses__() if child not in found)
    return found


def test_every_error_of_the_driver_becomes_one_of_ours() -> None:
    kinds = _driver_errors()
    assert len(kinds) > 200
    for kind in kinds:
        with pytest.raises(StoreError), translate_errors("label"):
            raise kind("said")


def test_store_without_the_driver_names_the_extra() -> None:
    script = (
        "import sys; sys.modules['psycopg'] = None\n"
        "import asyncio\n"
        "from heliograph.settings import StoreSettings\n"
        "from heliograph.stores.registry import open_store\n"
        "asyncio.run(open_store(StoreSettings(url='postgresql://x/y'), None))\n"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert "MissingDependencyError" in result.stderr
    assert "heliograph[postgres]" in result.stderr


def test_lost_network_is_noticed_unless_the_url_says_otherwise() -> None:
    assert "tcp_user_timeout=30000" in parse_address("postgresql://db/knowledge").conninfo
    said = parse_address("postgresql://db/knowledge?tcp_user_timeout=5&keepalives_idle=7").conninfo
    assert "tcp_user_timeout=5 " in f"{said} "
    assert "keepalives_idle=7 " in f"{said} "
