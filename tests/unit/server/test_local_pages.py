"""A page of elsewhere gets nothing from a service that asks nobody for credentials, and sends it nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from starlette.datastructures import Headers

from heliograph.server.requests import PageCheck
from heliograph.server.run import describe_names
from heliograph.settings import Settings

from .guarded import ADMIN, guarded_settings, served

HOME = "127.0.0.1:9621"
NAMED = Settings.load(
    # The second by the former name of the setting.
    mcp={"allowed_hosts": ["wiki.example.org:*"]},
    server={"allowed_hosts": ["kb.example.org"], "allowed_origins": ["app://notes"]},
)


def is_answered(settings: Settings = NAMED, **headers: str) -> bool:
    return PageCheck(settings).refusal(Headers(headers)) is None


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        (HOME, True),
        ("localhost", True),
        ("LocalHost.:80", True),
        ("kb.localhost:80", True),
        ("host.docker.internal:11434", True),
        ("localhost.localdomain", True),
        ("KB.Example.org", True),
        ("internal", False),
        ("[::1]:9621", True),
        ("192.168.1.5:9621", True),
        ("", True),
        ("kb.example.org", True),
        ("wiki.example.org:8080", True),
        ("kb.example.org:8080", False),
        ("evil.example:9621", False),
        ("127.0.0.1.evil.example", False),
        ("evil.example@127.0.0.1.example", False),
        ("localhost.evil.example", False),
        ("notlocalhost", False),
        ("[::1", False),
        (":9621", False),
    ],
)
def test_request_is_addressed_to_this_machine(host: str, expected: bool) -> None:
    assert is_answered(host=host) is expected


@pytest.mark.parametrize(
    ("origin", "expected"),
    [
        ("http://127.0.0.1:9621", True),
        ("http://localhost:3000", True),
        ("http://[::1]", True),
        ("app://notes", True),
        ("https://wiki.example.org", True),
        ("null", False),
        ("", False),
        ("http://", False),
        ("http://evil.example", False),
        ("http://192.168.1.5:9621", False),
        ("http://127.0.0.1.evil.example", False),
    ],
)
def test_page_is_of_this_machine(origin: str, expected: bool) -> None:
    assert is_answered(host=HOME, origin=origin) is expected


def test_page_may_come_from_where_it_asks() -> None:
    assert is_answered(host="192.168.1.5:9621", origin="http://192.168.1.5:9621")
    assert is_answered(Settings.load(server={"allowed_origins": ["*"]}), host=HOME, origin="http://evil.example")


async def test_open_service_answers_no_page_of_elsewhere(tmp_path: Path) -> None:
    async with served(Settings.load(store={"data_dir": tmp_path})) as (_, client):
        for path in ("/documents", "/health", "/openapi.json", "/page/", "/nothing"):
            refused = await client.get(path, headers={"Host": "evil.example"})
            assert (refused.status_code, refused.json()["title"]) == (403, "Not allowed"), path
            assert refused.headers["X-Request-ID"]
        files, page = {"file": ("evil.md", b"planted")}, {"Origin": "http://evil.example"}
        assert (await client.post("/documents/upload", files=files, headers=page)).status_code == 403
        assert (await client.post("/documents/clear_cache", headers=page)).status_code == 403
        assert (await client.get("/documents")).json()["total"] == 0
        own = {"Origin": "http://127.0.0.1"}
        assert (await client.post("/documents/upload", files=files, headers=own)).status_code == 200


@pytest.mark.parametrize("server", [{"insecure": True}, {}])
async def test_other_names_are_answered_where_keys_or_settings_say_so(tmp_path: Path, server: dict[str, bool]) -> None:
    settings = Settings.load(store={"data_dir": tmp_path}, server=server) if server else guarded_settings(tmp_path)
    async with served(settings) as (_, client):
        headers = ADMIN | {"Host": "kb.example.org", "Origin": "https://kb.example.org"}
        assert (await client.get("/documents", headers=headers)).status_code == 200


@pytest.mark.parametrize("is_guarded", [True, False])
async def test_named_hosts_are_those_of_all_routes_and_tools(tmp_path: Path, is_guarded: bool) -> None:
    server = {"allowed_hosts": ["kb.example.org"]}
    settings = guarded_settings(tmp_path, **server)
    if not is_guarded:
        settings = Settings.load(store={"data_dir": tmp_path}, server=server)
    async with served(settings) as (_, client):
        for host, expected in (("kb.example.org", True), ("127.0.0.1:9621", True), ("evil.example", False)):
            headers = ADMIN | {"Host": host}
            for path in ("/documents", "/health", "/page/", "/mcp"):
                found = await client.get(path, headers=headers)
                assert (found.status_code != 403) is expected, (path, host)
                if not expected:
                    assert "name it in server.allowed_hosts" in found.json()["detail"]
                    assert ("server.api_key" in found.json()["detail"]) is not is_guarded


@pytest.mark.parametrize(
    ("server", "mcp", "told"),
    [
        ({}, {}, ""),
        ({"host": "0.0.0.0"}, {}, "server.allowed_hosts"),
        ({"host": "0.0.0.0", "allowed_hosts": ["kb.example.org"]}, {}, "answering by kb.example.org and"),
        ({}, {"allowed_hosts": ["kb.example.org"]}, "is now called server.allowed_hosts"),
    ],
)
def test_who_starts_the_service_is_told_its_names(server: dict[str, Any], mcp: dict[str, Any], told: str) -> None:
    notice = describe_names(Settings.load(server=server, mcp=mcp))
    assert told in notice if told else not notice
