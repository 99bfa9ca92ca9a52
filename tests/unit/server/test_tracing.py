"""One trace a request: the request, and below it one span for each stage of a question or of an ingest."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from heliograph.chat.base import Purpose
from heliograph.engine import Given
from heliograph.monitoring.otel import OtelTracer
from heliograph.server.app import create_app
from heliograph.server.run import JsonFormatter
from heliograph.service.service import Service
from heliograph.settings import Settings
from heliograph.testing.fakes import FakeChatModel, FakeEmbeddingModel, FakeReranker

TEXT = "The ESP32 speaks MQTT over TLS. Espressif made the ESP32 in Shanghai."
QUESTION = "What does the ESP32 speak?"
TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
HEADERS = {"traceparent": f"00-{TRACE}-{PARENT}-01", "X-Request-ID": "request-7"}


@asynccontextmanager
async def traced(folder: Path) -> AsyncGenerator[tuple[httpx.AsyncClient, InMemorySpanExporter, Service]]:
    keywords = '{"high_level_keywords": ["protocol"], "low_level_keywords": ["ESP32"]}'
    chat = FakeChatModel({Purpose.KEYWORDS: keywords, Purpose.ANSWER: "MQTT [1]."})
    settings = Settings.load(
        store={"data_dir": folder}, ingest={"extractor": "local"}, server={"api_key": "secret-key-0123456789"}
    )
    app = create_app(settings, Given(chat, FakeEmbeddingModel(16), FakeReranker()))
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    service: Service = app.state.service
    service.monitoring.tracer = OtelTracer(provider)
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    headers = {"X-API-Key": "secret-key-0123456789"}
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", headers=headers) as client,
    ):
        # Else it might find what the tests take in, and begin a job of its own.
        assert service.jobs._looking
        await service.jobs._looking
        yield client, exporter, service


def by_name(exporter: InMemorySpanExporter) -> dict[str, ReadableSpan]:
    return {span.name: span for span in exporter.get_finished_spans()}


def parent_of(span: ReadableSpan, spans: dict[str, ReadableSpan]) -> str | None:
    names = {other.context.span_id: name for name, other in spans.items() if other.context}
    return names.get(span.parent.span_id) if span.parent else None


async def ingest(client: httpx.AsyncClient, service: Service) -> None:
    accepted = await client.post("/documents/text", json={"text": TEXT, "file_source": "a.md"}, headers=HEADERS)
    assert accepted.status_code == 200, accepted.text
    (job,) = (await service.jobs.page("default", 0, 10))[0]
    await service.jobs.wait("default", job.id, 20)


async def test_question_is_one_trace_with_its_stages(tmp_path: Path) -> None:
    async with traced(tmp_path) as (client, exporter, service):
        async with service.workspaces.use() as kb:
            await kb.insert(TEXT)
        exporter.clear()
        response = await client.post("/query", json={"query": QUESTION, "mode": "mix"}, headers=HEADERS)
        assert response.status_code == 200, response.text
        spans = by_name(exporter)
    stages = {"query.keywords", "query.embed", "query.search", "query.select", "query.rerank", "query.answer"}
    assert stages <= set(spans)
    assert {f"{span.context.trace_id:032x}" for span in spans.values() if span.context} == {TRACE}
    request = spans["http.request"]
    assert request.parent is not None
    assert f"{request.parent.span_id:016x}" == PARENT
    assert parent_of(spans["query"], spans) == "http.request"
    assert parent_of(spans["query.search"], spans) == "query"
    assert dict(request.attributes or {}) == {
        "http.request.method": "POST",
        "http.route": "/query",
        "http.response.status_code": 200,
    }
    assert dict(spans["query"].attributes or {}) == {"mode": "mix"}


async def test_stream_has_a_span_for_its_answer(tmp_path: Path) -> None:
    async with traced(tmp_path) as (client, exporter, service):
        async with service.workspaces.use() as kb:
            await kb.insert(TEXT)
        exporter.clear()
        await client.post("/query/stream", json={"query": QUESTION, "mode": "naive"}, headers=HEADERS)
        spans = by_name(exporter)
    assert parent_of(spans["query.answer"], spans) == "http.request"


async def test_ingest_belongs_to_the_request_that_ordered_it(tmp_path: Path) -> None:
    async with traced(tmp_path) as (client, exporter, service):
        await ingest(client, service)
        spans = by_name(exporter)
    assert {"ingest.chunk", "ingest.extract", "ingest.embed", "ingest.commit"} <= set(spans)
    assert {f"{span.context.trace_id:032x}" for span in spans.values() if span.context} == {TRACE}
    assert parent_of(spans["job"], spans) == "http.request"
    assert parent_of(spans["ingest.chunk"], spans) == "ingest.document"


async def test_spans_hold_no_texts_and_no_secrets(tmp_path: Path) -> None:
    async with traced(tmp_path) as (client, exporter, service):
        await ingest(client, service)
        await client.post("/query", json={"query": QUESTION, "mode": "bogus"}, headers=HEADERS)
        await client.post("/query", json={"query": QUESTION, "mode": "mix"}, headers=HEADERS)
        told = "".join(span.to_json() for span in exporter.get_finished_spans())
    for hidden in ("ESP32", "MQTT", "a.md", "secret-key"):
        assert hidden not in told


async def test_failure_is_told_by_its_class_alone(tmp_path: Path) -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    with pytest.raises(ValueError, match="private"), OtelTracer(provider).span("query.search"):
        raise ValueError("private")
    (span,) = exporter.get_finished_spans()
    assert dict(span.attributes or {}) == {"error.type": "ValueError"}
    assert not span.status.is_ok
    assert "private" not in span.to_json()


async def test_bad_parent_begins_a_trace(tmp_path: Path) -> None:
    async with traced(tmp_path) as (client, exporter, _):
        await client.get("/health", headers={"traceparent": "00-bogus"})
        (span,) = exporter.get_finished_spans()
    assert span.parent is None


async def test_logs_of_question_and_ingest_carry_the_request_and_no_texts(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lines: list[str] = []

    class Writing(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(JsonFormatter().format(record))

    handler, logger = Writing(), logging.getLogger("heliograph")
    logger.addHandler(handler)
    caplog.set_level(logging.INFO, "heliograph")
    try:
        async with traced(tmp_path) as (client, _, service):
            async with service.workspaces.use() as kb:
                extract = kb.store.apply

                async def told(changeset: object) -> object:
                    logging.getLogger("heliograph.ingest").info("a commit")
                    return await extract(changeset)  # type: ignore[arg-type]

                kb.store.apply = told  # type: ignore[assignment]
                await ingest(client, service)
            await client.post("/query", json={"query": QUESTION, "mode": "mix"}, headers=HEADERS)
    finally:
        logger.removeHandler(handler)
    told_of = [json.loads(line) for line in lines]
    commits = [line for line in told_of if line["message"] == "a commit"]
    assert commits
    assert {line["request_id"] for line in commits} == {"request-7"}
    (asked,) = [line for line in told_of if line.get("route") == "/query"]
    assert asked["request_id"] == "request-7"
    for hidden in ("ESP32", "MQTT", "secret-key"):
        assert hidden not in "".join(lines)
