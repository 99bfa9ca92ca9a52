from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families as parse_text

from heliograph.embedding.base import EmbeddingMeter, QueryCachedEmbeddingModel
from heliograph.engine import AsyncHeliograph
from heliograph.errors import MissingDependencyError, ModelUnavailable
from heliograph.models import DocumentStatus, Mode, Stats, Usage
from heliograph.monitoring.monitoring import (
    Metrics,
    Monitoring,
    Tracer,
    WorkspaceState,
    build_tracer,
    make_alert,
    render_metrics,
)
from heliograph.observing import (
    REQUEST_ID,
    ModelCalls,
    Origin,
    QuestionReport,
    observing,
    origin,
    stage,
    working_for,
)
from heliograph.query.models import QueryParam
from heliograph.settings import MonitoringSettings, Settings
from heliograph.testing.fakes import FakeChatModel, FakeEmbeddingModel, FakeReranker

NOTES = "The ESP32 speaks MQTT over TLS. It was made by Espressif in Shanghai."


def make_monitoring(**settings: object) -> Monitoring:
    return Monitoring(MonitoringSettings.model_validate(settings))


def samples(monitoring: Monitoring) -> dict[tuple[str, ...], float]:
    """Return the value of every sample by its name and the values of its labels in alphabetical order."""
    text, _ = render_metrics(monitoring, (), "")
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in parse_text(text.decode())
        for sample in family.samples
    }


@pytest.fixture
def monitoring() -> Iterator[Monitoring]:
    made = make_monitoring()
    with observing(made):
        yield made


async def test_reranking_is_measured_in_every_mode(monitoring: Monitoring, tmp_path: Path) -> None:
    settings = Settings.load(store={"data_dir": tmp_path})
    async with AsyncHeliograph(settings=settings, embedding=FakeEmbeddingModel(16), reranker=FakeReranker()) as kb:
        await kb.insert(NOTES)
        for mode in ("naive", "mix"):
            await kb.query("What does the ESP32 speak?", QueryParam(mode=Mode(mode)))
    found = samples(monitoring)
    assert found["heliograph_rerank_latency_seconds_count",] == 2
    assert found["heliograph_query_latency_seconds_count", "naive", "rerank"] == 1
    assert found["heliograph_ingest_stage_seconds_count", "commit"] == 1


async def test_kept_answers_and_failures_are_told_apart(monitoring: Monitoring, tmp_path: Path) -> None:
    chat = FakeChatModel("MQTT [1].")
    settings = Settings.load(store={"data_dir": tmp_path}, ingest={"extractor": "local"}, chat={"max_retries": 0})
    async with AsyncHeliograph(settings=settings, embedding=FakeEmbeddingModel(16), chat=chat) as kb:
        await kb.insert(NOTES)
        param = QueryParam(mode=Mode.NAIVE)
        for _ in range(2):
            await kb.query("What does the ESP32 speak?", param)
        stream = await kb.query_stream("What does the ESP32 use?", param)
        async for _ in stream:
            break
        await stream.aclose()
    async with AsyncHeliograph(settings=settings, embedding=FakeEmbeddingModel(16), chat=_Broken()) as kb:
        with pytest.raises(ModelUnavailable):
            await kb.query("Who made it?", param)
    found = samples(monitoring)
    for outcome in ("ok", "cached", "cancelled", "error"):
        assert found["heliograph_queries_total", "naive", outcome] == 1, outcome
    assert found["heliograph_cache_lookups_total", "answers", "hit"] == 1
    assert found["heliograph_model_calls_total", "chat", "answer"] == 3
    assert found["heliograph_model_failures_total", "chat", "answer"] == 1
    assert found["heliograph_model_tokens_total", "output", "chat", "answer"] > 0


async def test_answers_that_say_that_there_is_none_are_counted_however_they_come(
    monitoring: Monitoring, tmp_path: Path
) -> None:
    settings = Settings.load(store={"data_dir": tmp_path}, ingest={"extractor": "local"})
    for reply in ("Nobody says. [no-answer]", "MQTT [1]."):
        chat = FakeChatModel(reply)
        async with AsyncHeliograph(settings=settings, embedding=FakeEmbeddingModel(16), chat=chat) as kb:
            await kb.insert(NOTES)
            question, param = f"What does the ESP32 speak, {reply!r}?", QueryParam(mode=Mode.NAIVE)
            for _ in range(2):
                await kb.query(question, param)
            await (await kb.query_stream(question, param)).collect()
            await kb.query_data(question, param)
    found = samples(monitoring)
    assert found["heliograph_queries_total", "naive", "cached"] == 2
    assert found["heliograph_unanswered_queries_total", "naive"] == 3


class _Broken(FakeChatModel):
    def __init__(self) -> None:
        super().__init__("")

    async def complete(self, request: object) -> object:  # type: ignore[override]
        raise ModelUnavailable("the model is out of reach; try again")


async def test_embeddings_and_their_cache_are_counted(monitoring: Monitoring) -> None:
    model = EmbeddingMeter(QueryCachedEmbeddingModel(FakeEmbeddingModel(8)))
    for _ in range(2):
        assert (await model.embed(["one", "two"], "query")).vectors.dtype == np.float32
    found = samples(monitoring)
    assert found["heliograph_cache_lookups_total", "query_embeddings", "miss"] == 2
    assert found["heliograph_cache_lookups_total", "query_embeddings", "hit"] == 2
    assert found["heliograph_model_calls_total", "embedding", "query"] == 2


def test_nothing_is_told_without_an_observer(monitoring: Monitoring) -> None:
    other = make_monitoring()
    with observing(other), stage("ingest.chunk"):
        pass
    assert ("heliograph_ingest_stage_seconds_count", "chunk") in samples(other)
    assert ("heliograph_ingest_stage_seconds_count", "chunk") not in samples(monitoring)


def test_late_work_is_done_under_its_request() -> None:
    token = REQUEST_ID.set("first")
    try:
        asked_by = origin()
        REQUEST_ID.set("second")
        with working_for(asked_by, "job"):
            assert REQUEST_ID.get() == "first"
        assert REQUEST_ID.get() == "second"
    finally:
        REQUEST_ID.reset(token)
    assert asked_by == Origin("first")


def test_values_of_labels_are_escaped() -> None:
    name = 'a"b\\c\nd'
    stats = Stats({DocumentStatus.PROCESSED: 3}, 4, 5, 6, 7, 8, 9)
    text, _ = render_metrics(None, [WorkspaceState(name, stats)], "")
    families: dict[str, Metric] = {family.name: family for family in parse_text(text.decode())}
    (sample,) = families["heliograph_doc_count"].samples
    assert (sample.labels, sample.value) == ({"workspace": name}, 3)


@pytest.mark.parametrize(("seconds", "state"), [(None, "ok"), (1.9, "ok"), (2.0, "ok"), (2.1, "firing")])
def test_alert_fires_above_its_threshold(seconds: float | None, state: str) -> None:
    assert make_alert("query_latency", seconds, 2.0).state == state


def test_alerts_follow_the_settings() -> None:
    monitoring = make_monitoring(max_query_p99_seconds=1.0, max_rerank_p99_seconds=0.1)
    for _ in range(2):
        monitoring.tell_question(QuestionReport("mix", "ok", {"rerank": 0.2, "total": 0.5}))
    states = {alert.name: alert.state for alert in monitoring.alerts(None)}
    assert states == {"query_latency": "ok", "rerank_latency": "firing", "index_freshness": "unknown"}


def test_one_slow_question_is_no_reason_to_alarm_and_two_are() -> None:
    monitoring = make_monitoring(max_query_p99_seconds=1.0)
    for seconds, state in ((9.0, "ok"), (0.5, "ok"), (1.5, "firing")):
        monitoring.tell_question(QuestionReport("mix", "ok", {"total": seconds}))
        assert monitoring.alerts(0.0)[0].state == state


def test_questions_that_were_given_up_have_no_latency() -> None:
    monitoring = make_monitoring()
    monitoring.tell_question(QuestionReport("mix", "cancelled", {"total": 99.0}))
    assert monitoring.alerts(0.0)[0].seconds is None
    assert ("heliograph_query_latency_seconds_count", "mix", "total") not in samples(monitoring)


def test_tracing_is_off_by_default() -> None:
    assert type(build_tracer(MonitoringSettings.model_validate({}))) is Tracer


def test_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    monkeypatch.delitem(sys.modules, "heliograph.monitoring.otel", raising=False)
    with pytest.raises(MissingDependencyError, match=r"heliograph\[otel\]"):
        build_tracer(MonitoringSettings.model_validate({"traces_endpoint": "http://127.0.0.1:4318/v1/traces"}))


def test_without_the_extra_everything_but_spans_works() -> None:
    program = "import sys; sys.modules['opentelemetry'] = None; import heliograph.monitoring.monitoring"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_unknown_methods_count_as_one() -> None:
    monitoring = make_monitoring()
    for method in ("BREW", "WHEN"):
        monitoring.count_request("", method, 405, 0.01)
    assert samples(monitoring)["heliograph_http_requests_total", "other", "none", "405"] == 2


def test_model_calls_are_labelled_by_purpose() -> None:
    monitoring = make_monitoring()
    monitoring.tell_model_calls(ModelCalls("chat", "extract", calls=2, failures=1))
    assert samples(monitoring)["heliograph_model_failures_total", "chat", "extract"] == 1


def test_what_models_cost_is_summed_by_model_and_purpose() -> None:
    metrics = Metrics()
    assert metrics.spent() == []
    for failures in (0, 1):
        metrics.tell_model_calls(ModelCalls("chat", "answer", 2, failures, Usage(100, 20)))
    metrics.tell_model_calls(ModelCalls("embedding", "query", 1, 0, Usage(7, 0)))
    assert metrics.spent() == [
        ModelCalls("chat", "answer", 4, 1, Usage(200, 40)),
        ModelCalls("embedding", "query", 1, 0, Usage(7, 0)),
    ]
