from __future__ import annotations

import json
import logging
import sys
from collections.abc import AsyncGenerator
from pathlib import Path

import httpx
import pytest

from heliograph.observing import REQUEST_ID
from heliograph.server.run import JsonFormatter, TextFormatter, configure_logging
from heliograph.settings import ServerSettings, Settings

from .guarded import ADMIN, guarded_settings, served


@pytest.fixture
async def client(tmp_path: Path) -> AsyncGenerator[httpx.AsyncClient]:
    async with served(guarded_settings(tmp_path, allowed_origins=["https://a.example"])) as (app, made):

        @app.get("/broken")
        async def broken() -> None:
            raise RuntimeError("secret detail")

        yield made


@pytest.mark.parametrize("given", ["abc-123", "A.b:c_d"])
async def test_sane_id_is_kept(client: httpx.AsyncClient, given: str) -> None:
    assert (await client.get("/health", headers={"X-Request-ID": given})).headers["X-Request-ID"] == given


@pytest.mark.parametrize("given", ["", "a b", "x" * 65, "a\tb", "<script>", "-a"])
async def test_other_ids_are_replaced(client: httpx.AsyncClient, given: str) -> None:
    made = (await client.get("/health", headers={"X-Request-ID": given})).headers["X-Request-ID"]
    assert made != given
    assert len(made) == 16


async def test_defect_is_told_without_its_text(client: httpx.AsyncClient, caplog: pytest.LogCaptureFixture) -> None:
    found = await client.get("/broken", headers=ADMIN)
    assert found.status_code == 500
    assert "secret detail" not in found.text
    assert found.json()["request_id"] == found.headers["X-Request-ID"]
    assert "secret detail" in caplog.text


async def test_line_says_which_route_and_not_with_what(
    client: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "heliograph.requests")
    await client.get("/graph/label/search?q=private", headers=ADMIN)
    await client.get("/private/path", headers=ADMIN)
    await client.post("/query", json={"query": "private"}, headers={"X-API-Key": "private"})
    records = [record for record in caplog.records if record.name == "heliograph.requests"]
    fields = [record.fields for record in records]  # type: ignore[attr-defined]
    assert [item["status"] for item in fields] == [200, 404, 403]
    assert fields[0]["route"] == "/graph/label/search"
    assert fields[0]["principal"] == "api-key"
    text = "".join(JsonFormatter().format(record) + TextFormatter().format(record) for record in records)
    assert "private" not in text
    assert ADMIN["X-API-Key"] not in text


async def test_head_is_get_without_body(client: httpx.AsyncClient) -> None:
    found = await client.head("/health")
    assert found.status_code == 200
    assert found.content == b""
    assert (await client.head("/login")).status_code == 405


async def test_browsers_are_told_what_they_may_do(client: httpx.AsyncClient) -> None:
    for path in ("/health", "/ready", "/nothing"):
        headers = (await client.get(path)).headers
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
        assert headers["Referrer-Policy"] == "no-referrer"


async def test_only_allowed_origins_may_ask(client: httpx.AsyncClient, tmp_path: Path) -> None:
    ask = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "X-API-Key"}
    allowed = await client.options("/query", headers=ask | {"Origin": "https://a.example"})
    assert allowed.headers["Access-Control-Allow-Origin"] == "https://a.example"
    change = ask | {"Origin": "https://a.example", "Access-Control-Request-Method": "PATCH"}
    assert (await client.options("/documents/doc-1", headers=change)).status_code == 200
    other = await client.options("/query", headers=ask | {"Origin": "https://b.example"})
    assert "Access-Control-Allow-Origin" not in other.headers
    async with served(Settings.load(store={"data_dir": tmp_path / "open"})) as (_, closed):
        found = await closed.options("/query", headers=ask | {"Origin": "https://a.example"})
        assert found.status_code == 403
        assert "Access-Control-Allow-Origin" not in found.headers


def test_lines_have_the_request_id_and_stay_lines() -> None:
    record = logging.LogRecord("heliograph.x", logging.WARNING, __file__, 1, "one\ntwo %s", ("\r\nthree",), None)
    token = REQUEST_ID.set("id-1")
    try:
        assert json.loads(JsonFormatter().format(record))["request_id"] == "id-1"
        text = TextFormatter().format(record)
    finally:
        REQUEST_ID.reset(token)
    assert " id-1 " in text
    assert "\n" not in text


def test_line_tells_no_terminal_what_to_do() -> None:
    hostile = "\x1b]0;title\x07 \x9b2J \u202e \u2028"
    try:
        raise ValueError(hostile)
    except ValueError:
        record = logging.LogRecord("heliograph.x", logging.ERROR, __file__, 1, "%s", (hostile,), sys.exc_info())
    text = TextFormatter().format(record)
    assert text.count("\\x1b]0;title\\x07") == 2
    assert not set("\x1b\x07\x9b\u202e\u2028") & set(text)
    assert "\nTraceback" in text


def test_log_is_written_once(capsys: pytest.CaptureFixture[str]) -> None:
    names = ("heliograph", "uvicorn")
    before = [(logging.getLogger(name), list(logging.getLogger(name).handlers)) for name in names]
    levels = [logging.getLogger(name).level for name in names]
    try:
        for _ in range(2):
            configure_logging(ServerSettings.model_validate({"log_format": "json"}))
        logging.getLogger("heliograph.x").info("hello")
        assert capsys.readouterr().err.count("hello") == 1
    finally:
        for (logger, handlers), level in zip(before, levels, strict=True):
            logger.handlers, logger.propagate = handlers, True
            logger.setLevel(level)
