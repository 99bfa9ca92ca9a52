from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from heliograph.ingest.models import NewDocument
from heliograph.service.service import Service

from .guarded import ADMIN, BOUND, READER, guarded_settings, served

TEXT = "The harbour master of Port Ellen keeps the lamp oil in the old customs house."
QUESTION = "Where does the harbour master keep the lamp oil?"


@pytest.fixture
async def world(tmp_path: Path) -> AsyncGenerator[tuple[FastAPI, httpx.AsyncClient]]:
    async with served(guarded_settings(tmp_path)) as (app, client):
        yield app, client


@pytest.fixture
def client(world: tuple[FastAPI, httpx.AsyncClient]) -> httpx.AsyncClient:
    return world[1]


@pytest.fixture
def service(world: tuple[FastAPI, httpx.AsyncClient]) -> Service:
    return world[0].state.service


async def scrape(client: httpx.AsyncClient, headers: dict[str, str] = ADMIN) -> dict[str, dict[tuple[str, ...], float]]:
    """Return the value of every sample, by name and the values of its labels, which are in alphabetical order."""
    response = await client.get("/metrics", headers=headers)
    assert response.status_code == 200, response.text
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in parse_text(response.text):
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(sample.labels.values())] = sample.value
    return found


async def test_empty_workspace_counts_nothing(client: httpx.AsyncClient) -> None:
    assert (await scrape(client))["heliograph_doc_count"] == {("default",): 0}


async def test_counts_are_those_of_the_workspace(client: httpx.AsyncClient, service: Service) -> None:
    async with service.workspaces.use() as kb:
        await kb.insert(TEXT, sources=["port.md"])
        stats = await kb.stats()
    found = await scrape(client)
    assert found["heliograph_doc_count"] == {("default",): 1}
    assert found["heliograph_chunk_count"] == {("default",): stats.chunks}
    assert found["heliograph_entity_count"] == {("default",): stats.entities}
    assert found["heliograph_relation_count"] == {("default",): stats.relations}
    assert found["heliograph_documents"] == {("processed", "default"): 1}


async def test_questions_are_measured_by_mode_and_stage(client: httpx.AsyncClient, service: Service) -> None:
    async with service.workspaces.use() as kb:
        await kb.insert(TEXT)
    for _ in range(2):
        assert (await client.post("/query", json={"query": QUESTION, "mode": "mix"}, headers=ADMIN)).status_code == 200
    found = await scrape(client)
    counts = found["heliograph_query_latency_seconds_count"]
    assert counts == {("mix", stage): 2 for stage in ("keywords", "search", "context", "answer", "total")}
    sums = found["heliograph_query_latency_seconds_sum"]
    assert sum(sums["mix", stage] for stage in ("keywords", "search", "context", "answer")) <= sums["mix", "total"]
    assert found["heliograph_queries_total"] == {("mix", "ok"): 2}


async def test_streams_and_searches_count_as_questions(client: httpx.AsyncClient, service: Service) -> None:
    async with service.workspaces.use() as kb:
        await kb.insert(TEXT)
    await client.post("/query/stream", json={"query": QUESTION, "mode": "naive"}, headers=ADMIN)
    await client.post("/query/data", json={"query": QUESTION, "mode": "local"}, headers=ADMIN)
    found = await scrape(client)
    assert found["heliograph_queries_total"] == {("naive", "ok"): 1, ("local", "ok"): 1}


async def test_bound_key_sees_its_workspaces_alone(client: httpx.AsyncClient, service: Service) -> None:
    for name in ("alpha", "beta"):
        async with service.workspaces.use(name, creates=True) as kb:
            await kb.insert(TEXT)
    everything = await scrape(client, READER)
    assert set(everything["heliograph_doc_count"]) == {("alpha",), ("beta",), ("default",)}
    text = (await client.get("/metrics", headers=BOUND)).text
    assert 'workspace="alpha"' in text
    assert "beta" not in text
    assert "default" not in text
    assert set(await scrape(client, BOUND)) < set(everything)
    assert "heliograph_http_requests_total" not in await scrape(client, BOUND)


async def test_nobody_else_sees_metrics(client: httpx.AsyncClient) -> None:
    assert (await client.get("/metrics")).status_code == 401
    assert (await client.get("/metrics", headers={"X-API-Key": "wrong"})).status_code == 403


async def test_openmetrics_is_given_to_who_asks_for_it(client: httpx.AsyncClient, service: Service) -> None:
    async with service.workspaces.use() as kb:
        await kb.insert(TEXT)
    headers = {**ADMIN, "Accept": "application/openmetrics-text; version=1.0.0, text/plain;q=0.5"}
    response = await client.get("/metrics", headers=headers)
    assert response.headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")
    names = {family.name for family in parse_openmetrics(response.text)}
    assert {"heliograph_doc_count", "heliograph_query_latency_seconds", "heliograph_http_requests"} <= names
    plain = await client.get("/metrics", headers=ADMIN)
    assert plain.headers["Content-Type"].startswith("text/plain; version=0.0.4")


async def test_requests_are_counted_by_template(client: httpx.AsyncClient) -> None:
    await client.get("/documents/doc-secret", headers=ADMIN)
    await client.get("/nothing/secret", headers=ADMIN)
    await client.request("SECRET", "/health")
    await client.get("/documents/doc-secret")
    text = (await client.get("/metrics", headers=ADMIN)).text
    assert "secret" not in text.lower()
    counts = (await scrape(client))["heliograph_http_requests_total"]
    assert counts["GET", "/documents/{document_id}", "404"] == 1
    assert counts["GET", "none", "404"] == 1
    assert counts["GET", "none", "401"] == 1
    assert counts["other", "/health", "405"] == 1


async def test_freshness_is_the_age_of_what_waits(client: httpx.AsyncClient, service: Service) -> None:
    assert (await scrape(client))["heliograph_index_freshness_seconds"] == {("default",): 0}
    async with service.workspaces.use() as kb:
        await kb.enqueue([NewDocument(TEXT, "port.md")])
        (waiting,) = (await kb.documents()).documents
        age = time.time() - waiting.updated_at.timestamp()
        found = (await scrape(client))["heliograph_index_freshness_seconds"]["default",]
        assert age <= found <= age + 60
        await kb.resume()
    assert (await scrape(client))["heliograph_index_freshness_seconds"] == {("default",): 0}


async def test_health_tells_which_thresholds_are_broken(tmp_path: Path) -> None:
    settings = guarded_settings(tmp_path)
    strict = settings.monitoring.model_copy(update={"max_query_p99_seconds": 1e-9, "max_index_freshness_seconds": 1e-9})
    async with served(settings.model_copy(update={"monitoring": strict})) as (app, client):
        before = (await client.get("/health", headers=ADMIN)).json()
        assert before["condition"] == "ok"
        assert [alert["state"] for alert in before["alerts"]] == ["ok"] * 3
        service: Service = app.state.service
        async with service.workspaces.use() as kb:
            await kb.enqueue(TEXT)
        for _ in range(2):  # one slow question is no reason to alarm
            await client.post("/query", json={"query": QUESTION, "mode": "naive"}, headers=ADMIN)
        after = (await client.get("/health", headers=ADMIN)).json()
        alerts = {alert["name"]: alert for alert in after["alerts"]}
        assert after["status"] == "healthy"
        assert after["condition"] == "degraded"
        assert alerts["query_latency"]["state"] == alerts["index_freshness"]["state"] == "firing"
        assert alerts["query_latency"]["seconds"] >= alerts["query_latency"]["median_seconds"] > 0
        assert alerts["rerank_latency"] == {"name": "rerank_latency", "state": "ok", "threshold_seconds": 0.5}
        nobody = (await client.get("/health")).json()
        assert nobody["status"] == "healthy"
        assert "alerts" not in nobody


async def test_freshness_of_others_is_not_told(client: httpx.AsyncClient, service: Service) -> None:
    async with service.workspaces.use("beta", creates=True) as kb:
        await kb.enqueue(TEXT)
    seen = await service.states.freshness_seconds(lambda _: True)
    assert seen is not None
    assert seen > 0
    assert await service.states.freshness_seconds(lambda name: name == "default") == 0


async def test_counts_are_read_once_per_commit(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    async with service.workspaces.use() as kb:
        reads = 0
        read = kb.store.get_stats

        async def counting() -> object:
            nonlocal reads
            reads += 1
            return await read()

        monkeypatch.setattr(kb.store, "get_stats", counting)
        for _ in range(3):
            await service.states.read(lambda _: True)
        assert reads == 1


async def test_parts_of_the_route_are_documented(client: httpx.AsyncClient) -> None:
    api = (await client.get("/openapi.json", headers=ADMIN)).json()
    described = api["paths"]["/metrics"]["get"]["responses"]
    assert "text/plain" in described["200"]["content"]
    assert {"401", "403"} <= set(described)


async def test_figures_tell_times_and_costs_to_who_may_enter_everywhere(client: httpx.AsyncClient) -> None:
    for _ in range(3):
        asked = await client.post("/query", json={"query": QUESTION, "mode": "naive"}, headers=ADMIN)
        assert asked.status_code == 200
    figures = (await client.get("/api/v1/figures", headers=ADMIN)).json()
    (row,) = figures["latencies"]
    assert (row["mode"], row["count"]) == ("naive", 3)
    assert 0 < row["p50"] <= row["p95"] <= row["p99"]
    assert (await client.get("/api/v1/figures", headers=BOUND | {"X-Heliograph-Workspace": "alpha"})).json() == {
        "latencies": [],
        "models": [],
    }
    assert (await client.get("/api/v1/figures")).status_code in (401, 403)
