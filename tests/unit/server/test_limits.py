from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import AsyncGenerator
from contextlib import suppress
from functools import partial
from pathlib import Path

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.errors import InvalidRequestError, RequestTooLargeError
from heliograph.server import requests
from heliograph.server.requests import check_json, most_body_bytes
from heliograph.settings import ServerSettings, Settings

from .guarded import ADMIN, WRITER, guarded_settings, served

JSON = {"Content-Type": "application/json"}


@pytest.fixture
async def client(tmp_path: Path) -> AsyncGenerator[httpx.AsyncClient]:
    settings = Settings.load(store={"data_dir": tmp_path}, server={"max_body_bytes": 4096, "max_upload_bytes": 8192})
    async with served(settings) as (_, made):
        yield made


async def chunked(body: bytes) -> AsyncGenerator[bytes]:
    for start in range(0, len(body), 1000):
        yield body[start : start + 1000]


async def test_declared_length_is_limited(client: httpx.AsyncClient) -> None:
    found = await client.post("/query", content=b" " * 5000, headers=JSON)
    assert found.status_code == 413
    assert "5,000 bytes or more, and at most 4,096" in found.json()["detail"]
    assert found.json()["detail"].endswith("raise server.max_body_bytes")


async def test_length_that_is_not_declared_is_limited(client: httpx.AsyncClient) -> None:
    found = await client.post("/query", content=chunked(b" " * 5000), headers=JSON)
    assert found.status_code == 413
    assert found.headers["X-Request-ID"] == found.json()["request_id"]


async def test_upload_is_cut_off(client: httpx.AsyncClient) -> None:
    head = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n'
    kind = {"Content-Type": "multipart/form-data; boundary=x"}
    found = await client.post(
        "/documents/upload", content=chunked(head + b"a" * 100_000 + b"\r\n--x--\r\n"), headers=kind
    )
    assert found.status_code == 413


async def test_login_form_is_limited(client: httpx.AsyncClient) -> None:
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    assert (await client.post("/login", content=chunked(b"username=" + b"a" * 9000), headers=kind)).status_code == 413


def test_limits_are_those_of_the_route() -> None:
    most_bytes = partial(most_body_bytes, ServerSettings.model_validate({}))
    assert most_bytes("POST", "/query") == (1_048_576, "max_body_bytes")
    assert most_bytes("POST", "/documents/text") == (52_428_800, "max_text_bytes")
    assert most_bytes("PUT", "/documents/doc-1") == (52_428_800, "max_text_bytes")
    most, setting = most_bytes("POST", "/documents/upload")
    assert most > 104_857_600
    assert setting == "max_upload_bytes"


FORM_ROUTES = ("/documents/upload", "/login")
KINDS = ["application/json", "application/x-www-form-urlencoded", ""]


async def test_bodies_are_looked_through_whatever_they_call_themselves(tmp_path: Path) -> None:
    bodies = {b'{"a":' * 40 + b"1" + b"}" * 40: 413, b'{"a": "\\ud800"}': 400, b"[" + b"1," * 1_000 + b"1]": 413}
    server = {"max_json_values": 1_000}
    async with served(Settings.load(store={"data_dir": tmp_path}, server=server)) as (app, client):
        routes = [
            (method.upper(), path.replace("{", "").replace("}", ""))
            for path, operations in app.openapi()["paths"].items()
            for method, operation in operations.items()
            if "requestBody" in operation and path not in FORM_ROUTES
        ]
        assert len(routes) > 20
        for method, path in [*routes, ("POST", "/mcp")]:
            for kind in KINDS:
                for body, status in bodies.items():
                    found = await client.request(method, path, content=body, headers={"Content-Type": kind})
                    assert found.status_code == status, (method, path, kind, body[:20], found.text)


@pytest.mark.parametrize("metadata", ["[" * 100 + "]" * 100, '{"a": ' * 50 + "1" + "}" * 50, '{"a": "\\ud800"}', "NaN"])
async def test_metadata_of_an_upload_is_looked_through(client: httpx.AsyncClient, metadata: str) -> None:
    found = await client.post("/documents/upload", files={"file": ("a.txt", b"text")}, data={"metadata": metadata})
    assert found.status_code in (400, 413)
    assert (await client.get("/documents")).json()["total"] == 0


async def test_others_are_answered_while_a_long_body_is_looked_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, answered = threading.Event(), threading.Event()

    def waiting(body: bytes, max_depth: int, max_values: int) -> None:
        if len(body) > 1_000_000:
            begun.set()
            assert answered.wait(60)
        check_json(body, max_depth, max_values)

    monkeypatch.setattr(requests, "check_json", waiting)
    async with served(Settings.load(store={"data_dir": tmp_path})) as (_, client):
        text = {"text": "The lamp burns oil. " * 100_000}
        sending = asyncio.create_task(client.post("/documents/text", json=text))
        while not begun.is_set():  # noqa: ASYNC110 (a thread sets it)
            await asyncio.sleep(0.01)
        assert (await client.get("/health")).status_code == 200
        answered.set()
        assert (await sending).status_code == 200


async def test_one_client_sends_so_many_long_bodies_at_once(tmp_path: Path) -> None:
    gate, held_up = asyncio.Event(), asyncio.Semaphore(0)

    async def long() -> AsyncGenerator[bytes]:
        yield b'{"text": "' + b"a" * 5_000
        held_up.release()
        await gate.wait()
        yield b'"}'

    settings = guarded_settings(tmp_path, max_client_uploads=2, max_body_bytes=4_096)
    async with served(settings) as (_, client):

        def send(key: dict[str, str]) -> asyncio.Task[httpx.Response]:
            return asyncio.create_task(client.post("/documents/text", content=long(), headers=key | JSON))

        held = [send(WRITER), send(WRITER)]
        for _ in held:
            await held_up.acquire()
        found = await client.post("/documents/upload", headers=WRITER)
        assert found.status_code == 429
        assert "server.max_client_uploads" in found.json()["detail"]
        short = await client.post("/documents/text", json={"text": "short"}, headers=WRITER)
        assert short.status_code == 200
        others = send(ADMIN)
        gate.set()
        assert [response.status_code for response in await asyncio.gather(others, *held)] == [200, 200, 200]
        assert (await client.post("/documents/upload", headers=WRITER)).status_code == 422


BAD = {
    "deep": b"[" * 100 + b"]" * 100,
    "deep unclosed": b'{"a":' * 3000,
    "nan": b'{"query": NaN}',
    "infinity": b'{"query": "x", "top_k": -Infinity}',
    "surrogate": b'{"query": "\\ud800 abc"}',
    "not utf-8": b'{"query": "\xff\xfe"}',
    "utf-16": '{"query": "abc"}'.encode("utf-16"),
    "nul": b'{"query": "a\x00bc"}',
    "cut off": b'{"query": "ab',
    "huge number": b'{"query": "abc", "top_k": ' + b"9" * 4000 + b"}",
    "number that no parser takes": b'{"query": "abc", "top_k": ' + b"9" * 5000 + b"}",
    "no json": b"query=abc",
    "list": b"[]",
    "string": b'"abc"',
    "empty": b"",
    "twice": b'{"query": 1, "query": {"a": 1e999}}',
}


@pytest.mark.parametrize("path", ["/query", "/query/stream", "/api/chat", "/v1/chat/completions", "/workspaces"])
@pytest.mark.parametrize("name", BAD)
async def test_bad_json_is_no_defect(client: httpx.AsyncClient, name: str, path: str) -> None:
    found = await client.post(path, content=BAD[name], headers=JSON)
    assert found.status_code in (400, 413, 422), (found.status_code, found.text)
    assert "error parsing the body" not in found.text


@pytest.mark.parametrize(
    "path", ["/%ff%fe", "/workspaces/%00", "/workspaces/%2e%2e", "/graphs?label=%ff%fe&max_depth=1"]
)
async def test_bad_addresses_are_no_defect(client: httpx.AsyncClient, path: str) -> None:
    assert (await client.get(path)).status_code < 500


@pytest.mark.parametrize("name", [b"\xff\xfe", b"%00", b"..%2f..", b"a" * 1000, "团队".encode()])
async def test_bad_workspace_headers_are_no_defect(client: httpx.AsyncClient, name: bytes) -> None:
    found = await client.get("/ready", headers={b"LIGHTRAG-WORKSPACE": name})
    assert found.status_code in (400, 404)


@pytest.mark.parametrize(
    "named",
    [
        [("LIGHTRAG-WORKSPACE", "alpha"), ("X-Heliograph-Workspace", "beta")],
        [("X-Heliograph-Workspace", "alpha"), ("X-Heliograph-Workspace", "beta")],
    ],
)
async def test_two_workspaces_in_one_request_are_refused(
    client: httpx.AsyncClient, named: list[tuple[str, str]]
) -> None:
    for method, path in (("GET", "/documents"), ("POST", "/mcp")):
        found = await client.request(method, path, headers=named)
        assert found.status_code == 400, (path, found.text)
        assert "two workspaces, 'alpha' and 'beta'" in found.text


async def test_workspace_named_twice_alike_is_one(client: httpx.AsyncClient) -> None:
    named = [("LIGHTRAG-WORKSPACE", "%E5%9B%A2"), ("X-Heliograph-Workspace", "团".encode().decode("latin-1"))]
    named += [("X-Heliograph-Workspace", "")]
    encoded = [(name.encode(), value.encode("latin-1")) for name, value in named]
    assert (await client.put("/workspaces/团")).status_code == 201
    assert (await client.get("/documents", headers=encoded)).status_code == 200


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(st.binary(max_size=40) | st.text('"\\\\a,[]{}', max_size=40).map(str.encode), st.integers(1, 4))
def test_frame_is_what_stands_outside_of_strings(body: bytes, piece: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(requests, "_IN_STRING", re.compile(rb'(?:[^"\\]|\\.){0,%d}+' % piece, re.DOTALL))
        assert requests._frame(body, 1_000) == re.sub(rb'"(?:[^"\\]|\\.)*+(?:"|\\$)?', b"", body, flags=re.DOTALL)


def depth(value: object) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inner is None else 1 + max(map(depth, inner), default=0)


@given(json_values)
def test_depth_is_that_of_the_value(value: object) -> None:
    import json

    body = json.dumps(value).encode()
    if depth(value) <= 3:
        check_json(body, 3, 10_000)
    else:
        with pytest.raises(RequestTooLargeError):
            check_json(body, 3, 10_000)


@given(st.binary(max_size=200))
def test_any_bytes_are_accepted_or_refused(body: bytes) -> None:
    is_accepted = False
    with suppress(InvalidRequestError, RequestTooLargeError):
        check_json(body, 4, 1_000)
        is_accepted = True
    if is_accepted:
        assert body.decode("utf-8").encode("utf-8") == body
