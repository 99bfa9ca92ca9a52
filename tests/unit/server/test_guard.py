from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from heliograph.engine import Given
from heliograph.errors import StoreUnavailable, without_folders
from heliograph.server.app import create_app
from heliograph.server.requests import is_public
from heliograph.service.access import ANYONE, Principal, Role, as_told
from heliograph.service.workspaces import Workspaces
from heliograph.settings import Settings
from heliograph.testing.fakes import FakeEmbeddingModel

from .guarded import ADMIN, BOUND, READER, WRITER, guarded_settings, served

# POST, but only asks.
ASKING = ("/query", "/api/", "/v1/", "/documents/paginated", "/logout")
READING = Principal("reader", Role.READ)
METHODS = {"get", "put", "post", "delete", "patch"}


@pytest.fixture
async def client(tmp_path: Path) -> AsyncGenerator[httpx.AsyncClient]:
    async with served(guarded_settings(tmp_path)) as (_, made):
        yield made


def operations(app: FastAPI) -> Iterator[tuple[str, str]]:
    for path, methods in app.openapi()["paths"].items():
        for method in METHODS & set(methods):
            yield method.upper(), path


def all_operations() -> list[tuple[str, str]]:
    return sorted(operations(create_app(Settings.load())))


def filled(path: str) -> str:
    return path.replace("{", "").replace("}", "")


def test_document_lists_every_route(tmp_path: Path) -> None:
    app = create_app(Settings.load(store={"data_dir": tmp_path}))
    assert len(list(operations(app))) > 30


@pytest.mark.parametrize("headers", [{}, {"X-API-Key": "wrong"}, {"Authorization": "Bearer a.b.c"}], ids=str)
async def test_every_route_but_the_ways_in_is_guarded(client: httpx.AsyncClient, headers: dict[str, str]) -> None:
    for method, path in [*all_operations(), ("GET", "/openapi.json"), ("GET", "/nothing"), ("POST", "/mcp")]:
        found = await client.request(method, filled(path), headers=headers)
        if is_public(path):
            assert found.status_code not in (401, 403), (method, path)
        else:
            assert found.status_code in (401, 403), (method, path, found.text)
            assert found.headers["X-Request-ID"] in found.text


def test_few_paths_are_public() -> None:
    public = {path for _, path in all_operations() if is_public(path)}
    assert {"/health", "/login", "/auth-status"} <= public
    for path in public - {"/health", "/login", "/auth-status", "/", "/favicon.ico"}:
        assert path.startswith(("/page/", "/ui/", "/webui/", "/workspace/")), path


async def test_reader_changes_nothing(client: httpx.AsyncClient) -> None:
    for method, path in all_operations():
        if method == "GET" or is_public(path) or path.startswith(ASKING) or path.startswith("/api/v1/retrieve"):
            continue
        found = await client.request(method, filled(path), headers=READER, json=_body(path))
        assert found.status_code == 403, (method, path, found.text)


def _body(path: str) -> dict[str, Any]:
    return {"name": "beta"} if path == "/workspaces" else {}


async def test_writer_manages_no_workspaces(client: httpx.AsyncClient) -> None:
    assert (await client.post("/workspaces", headers=WRITER, json={"name": "beta"})).status_code == 403
    assert (await client.put("/workspaces/beta", headers=WRITER)).status_code == 403
    assert (await client.delete("/workspaces/default", headers=WRITER)).status_code == 403
    assert (await client.delete("/documents", headers=WRITER)).status_code == 403


@pytest.mark.parametrize("header", ["LIGHTRAG-WORKSPACE", "X-Heliograph-Workspace"])
async def test_bound_key_enters_no_other_workspace(client: httpx.AsyncClient, header: str) -> None:
    assert (await client.put("/workspaces/alpha", headers=ADMIN)).status_code == 201
    assert (await client.put("/workspaces/beta", headers=ADMIN)).status_code == 201
    for method, path in all_operations():
        if is_public(path) or path.startswith(("/workspaces", "/auth", "/logout")):
            continue
        found = await client.request(method, filled(path), headers=BOUND | {header: "beta"}, json={})
        assert found.status_code == 403, (method, path, found.text)
    assert (await client.get("/ready", headers=BOUND | {header: "beta"})).status_code == 403
    assert (await client.get("/ready", headers=BOUND)).status_code == 403
    assert (await client.get("/ready", headers=BOUND | {header: "alpha"})).status_code == 200


async def test_bound_key_sees_only_its_workspaces(client: httpx.AsyncClient) -> None:
    await client.put("/workspaces/alpha", headers=ADMIN)
    await client.put("/workspaces/beta", headers=ADMIN)
    listed = (await client.get("/workspaces", headers=BOUND)).json()
    assert [row["name"] for row in listed["workspaces"]] == ["alpha"]
    assert (await client.get("/workspaces/beta", headers=BOUND)).status_code == 403
    assert (await client.delete("/workspaces/beta", headers=BOUND)).status_code == 403
    assert (await client.put("/workspaces/gamma", headers=BOUND)).status_code == 403


async def test_nobody_but_the_operator_is_told_where_things_lie(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(guarded_settings(tmp_path)) as (app, client):
        jobs = app.state.service.jobs
        await client.put("/workspaces/alpha", headers=ADMIN)
        alpha = BOUND | {"LIGHTRAG-WORKSPACE": "alpha"}
        for name, data in (("broken.pdf", b"%PDF-1.4 no"), ("broken.docx", b"PK no"), ("empty.html", b"")):
            await client.post("/documents/upload", headers=alpha, files={"file": (name, data)})
        # One goes while it waits to be read.
        (jobs.input_folder("alpha").path / "broken.docx").unlink(missing_ok=True)
        async with asyncio.timeout(60):
            while await jobs.count_unfinished("alpha"):  # noqa: ASYNC110 (they tell nobody)
                await asyncio.sleep(0.02)
        app.state.drain.begin()  # so that the stream of events ends after the first
        answers = [await client.request(*operation, headers=alpha) for operation in all_reads()]
        told = "".join(found.text for found in answers)
        assert "broken.pdf" in told
        assert "cannot be read" in told
        assert str(tmp_path) not in told

        def fail(*_: object, **__: object) -> None:
            raise StoreUnavailable(f"the store {str(tmp_path / 'alpha' / 'a store.db')!r} failed ({tmp_path}/x: I/O)")

        monkeypatch.setattr(Workspaces, "use", fail)
        for method, path in all_operations():
            found = await client.request(method, filled(path), headers=alpha, json={})
            assert str(tmp_path) not in found.text, (method, path)
        assert "'a store.db' failed (x: I/O)" in (await client.get("/documents", headers=alpha)).text
        assert str(tmp_path) in (await client.get("/documents", headers=ADMIN)).text


def all_reads() -> list[tuple[str, str]]:
    return [(method, filled(path)) for method, path in all_operations() if method == "GET"]


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ("the store '/usr/share/my folder/a store.db' failed", "the store 'a store.db' failed"),
        ('the file "/usr/lib/it\'s here.pdf" is empty', 'the file "it\'s here.pdf" is empty'),
        (
            "[Errno 13] Permission denied: '/usr/share/x'; see /usr/share/doc/x.gz",
            "[Errno 13] Permission denied: 'x'; see x.gz",
        ),
        ("ask /documents/status_counts, or POST '/graph/entity/edit' to http://localhost/usr/share", None),
        ("1/2 of '/' and TCP/IP, and/or ~/usr", None),
    ],
)
def test_paths_of_the_machine_alone_are_shortened(message: str, told: str | None) -> None:
    assert as_told(message, READING) == without_folders(message) == (message if told is None else told)
    assert as_told(message, ANYONE) == message


@pytest.mark.parametrize("path", ["/page", "/webui", "/workspace"])
async def test_a_page_without_its_slash_leads_there_as_where_nobody_is_asked(tmp_path: Path, path: str) -> None:
    folder = tmp_path / "built"
    folder.mkdir()
    for name in ("index.html", "workspace.html"):
        (folder / name).write_text("<p>page</p>")
    for settings in (
        guarded_settings(tmp_path / "a", web_page_dir=folder),
        Settings.load(store={"data_dir": tmp_path / "b"}, server={"web_page_dir": folder}),
    ):
        async with served(settings) as (_, client):
            found = await client.get(path)
        assert (found.status_code, found.headers["Location"]) == (307, f"http://127.0.0.1{path}/")


async def test_nothing_beside_the_pages_leads_anywhere(client: httpx.AsyncClient) -> None:
    for path in ("/pages", "/ui", "/workspaces", "/page-2", "/webui2/", "/documents", "/graphs"):
        assert (await client.get(path)).status_code == 401, path


async def test_key_is_taken_as_bearer_token(client: httpx.AsyncClient) -> None:
    found = await client.get("/auth/verify", headers={"Authorization": f"Bearer {WRITER['X-API-Key']}"})
    assert found.json() == {"status": "ok", "valid": True, "username": "writer", "role": "write", "workspaces": None}


async def test_statuses_are_those_that_clients_know(tmp_path: Path) -> None:
    async with served(guarded_settings(tmp_path / "a", accounts=[])) as (_, client):
        missing = await client.get("/ready")
        assert (missing.status_code, missing.json()["detail"]) == (403, "API Key required")
        wrong = await client.get("/ready", headers={"X-API-Key": "wrong"})
        assert (wrong.status_code, wrong.json()["detail"]) == (403, "Invalid API Key")
        guest = (await client.get("/auth-status")).json()["access_token"]
        refused = await client.get("/ready", headers={"Authorization": f"Bearer {guest}"})
        assert (refused.status_code, refused.json()["detail"]) == (403, "API Key required")
        both = await client.get("/ready", headers=ADMIN | {"Authorization": f"Bearer {guest}"})
        assert both.status_code == 200
    async with served(guarded_settings(tmp_path / "b")) as (_, client):
        missing = await client.get("/ready")
        assert missing.status_code == 401
        assert missing.headers["WWW-Authenticate"] == "Bearer"


async def test_body_of_nobody_is_not_read(tmp_path: Path) -> None:
    async with served(guarded_settings(tmp_path)) as (_, client):

        async def body() -> AsyncGenerator[bytes]:
            raise AssertionError("read")
            yield b""

        found = await client.post("/query", content=body())
    assert found.status_code == 401


async def test_health_tells_strangers_nothing(client: httpx.AsyncClient) -> None:
    stranger = (await client.get("/health")).json()
    assert stranger["status"] == "healthy"
    assert not {"configuration", "queues", "working_directory"} & set(stranger)
    known = await client.get("/health", headers=READER)
    assert known.json()["configuration"]["workspace"] == "default"
    assert known.json()["configuration"]["storage_workspaces"]["kv_storage"] == "default"
    assert "working_directory" not in known.json()
    assert "working_directory" in (await client.get("/health", headers=ADMIN)).json()
    assert all(key["X-API-Key"] not in known.text for key in (ADMIN, READER, WRITER, BOUND))
    elsewhere = (await client.get("/health", headers=BOUND)).json()
    assert "configuration" not in elsewhere


@pytest.mark.parametrize(("query", "told"), [({}, 0.35), ({"min_cosine": 0.0}, 0.0), ({"min_cosine": 0.5}, 0.5)])
async def test_health_tells_the_least_cosine_in_force(tmp_path: Path, query: dict[str, float], told: float) -> None:
    given = {"api_key": ADMIN["X-API-Key"]}
    settings = Settings.load(store={"data_dir": tmp_path}, query=query, server=given)
    app = create_app(settings, Given(embedding=FakeEmbeddingModel(16, min_score=0.35)))
    transport = httpx.ASGITransport(app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client,
    ):
        assert (await client.get("/health", headers=ADMIN)).json()["configuration"]["cosine_threshold"] == told


async def test_health_tells_strangers_of_the_pipeline_of_the_default_workspace_alone(client: httpx.AsyncClient) -> None:
    for headers in ({}, READER, BOUND):
        told = (await client.get("/health", headers=headers)).json()
        assert (told["pipeline_busy"], told["pipeline_active"]) == (False, False)
    there = {"LIGHTRAG-WORKSPACE": "beta"}
    assert "pipeline_busy" not in (await client.get("/health", headers=there)).json()
    assert (await client.get("/health", headers={**READER, **there})).json()["pipeline_active"] is False


async def test_open_service_lets_everybody_do_everything(tmp_path: Path) -> None:
    async with served(Settings.load(store={"data_dir": tmp_path})) as (_, client):
        assert (await client.get("/auth/verify", headers={"Authorization": "Bearer whatever"})).json()[
            "role"
        ] == "admin"
        status = (await client.get("/auth-status")).json()
        assert status["auth_configured"] is False
        assert status["access_token"].count(".") == 2
        assert (await client.put("/workspaces/x")).status_code == 201


def test_prefix_of_a_proxy_hides_no_route(tmp_path: Path) -> None:
    assert not is_public("/webuix")
    assert not is_public("/health/../ready")
