"""The files for Prometheus and Grafana: valid PromQL, on metrics and labels that the service has."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import promql_parser as promql
import pytest
import yaml

from heliograph.models import DocumentStatus, Stats
from heliograph.monitoring.monitoring import Monitoring, WorkspaceState, workspace_metrics
from heliograph.observing import ModelCalls, QuestionReport
from heliograph.settings import MonitoringSettings

FOLDER = Path(__file__).parents[3] / "deploy/monitoring"
DEFAULTS = MonitoringSettings.model_validate({})
# What Prometheus itself adds.
TARGET_LABELS = {"job", "instance"}
GRAFANA = {"$__rate_interval": "5m"}


@cache
def known_metrics() -> dict[str, set[str]]:
    """Return the labels of every sample that the service offers, by its name."""
    monitoring = Monitoring(DEFAULTS)
    monitoring.tell_question(QuestionReport("mix", "ok", {"rerank": 0.1, "total": 0.1}))
    monitoring.tell_model_calls(ModelCalls("chat", "answer"))
    monitoring.tell_lookup("answers", is_hit=True)
    monitoring.count_ingest_stage("chunk", 0.1)
    monitoring.count_request("/query", "POST", 200, 0.1)
    stats = Stats({DocumentStatus.PROCESSED: 1}, 1, 1, 1, 1, 1, 1)
    state = WorkspaceState("default", stats, 1.0, {("process", "waiting"): 1}, {"graph": 0})
    families = [*monitoring.collect(), *workspace_metrics([state], 2.0)]
    found: dict[str, set[str]] = {"up": set()}
    for family in families:
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


def groups() -> list[dict[str, Any]]:
    return yaml.safe_load((FOLDER / "rules.yaml").read_text("utf-8"))["groups"]


def rules() -> list[dict[str, Any]]:
    return [rule for group in groups() for rule in group["rules"]]


def dashboard() -> dict[str, Any]:
    return json.loads((FOLDER / "dashboard.json").read_text("utf-8"))


def expressions() -> Iterator[str]:
    yield from (rule["expr"] for rule in rules())
    for panel in dashboard()["panels"]:
        for target in panel.get("targets", ()):
            text = target["expr"]
            for name, value in GRAFANA.items():
                text = text.replace(name, value)
            yield text


def parts(expression: promql.Expr) -> list[promql.Expr]:
    found: list[promql.Expr] = []
    promql.walk(expression, lambda part: found.append(part))
    return found


def selectors(expression: promql.Expr) -> Iterator[promql.VectorSelector]:
    for part in parts(expression):
        if isinstance(part, promql.MatrixSelector):
            yield part.vector_selector
        elif isinstance(part, promql.VectorSelector):
            yield part


@pytest.mark.parametrize("text", list(expressions()))
def test_expression_uses_what_the_service_offers(text: str) -> None:
    expression = promql.parse(text)
    labels = set(TARGET_LABELS)
    found = {id(selector): selector for selector in selectors(expression)}.values()
    assert found
    for selector in found:
        assert selector.name in known_metrics(), selector.name
        own = known_metrics()[selector.name] | TARGET_LABELS
        assert {matcher.name for matcher in selector.matchers.matchers} <= own
        labels |= own
    for part in parts(expression):
        if isinstance(part, promql.AggregateExpr) and part.modifier is not None:
            assert set(part.modifier.labels) <= labels


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule.get("alert") or rule["record"])
def test_rule_has_the_form_that_prometheus_reads(rule: dict[str, Any]) -> None:
    if "record" in rule:
        assert set(rule) <= {"record", "expr", "labels"}
        return
    assert set(rule) == {"alert", "expr", "for", "labels", "annotations"}
    assert rule["labels"]["severity"] in {"warning", "critical"}
    assert set(rule["annotations"]) == {"summary", "description"}
    promql.parse_duration(rule["for"])


def test_names_of_rules_are_unique() -> None:
    names = [json.dumps([rule.get("alert") or rule["record"], rule.get("labels")]) for rule in rules()]
    assert len(set(names)) == len(names)
    assert len({group["name"] for group in groups()}) == len(groups())


def test_short_names_are_recorded() -> None:
    wanted = {"doc_count", "chunk_count", "entity_count", "relation_count"}
    wanted |= {"query_latency", "rerank_latency", "index_freshness"}
    assert {rule["record"] for rule in rules() if "record" in rule} == wanted


@pytest.mark.parametrize(
    ("alert", "threshold"),
    [
        ("HeliographQueryLatencyHigh", DEFAULTS.max_query_p99_seconds),
        ("HeliographRerankLatencyHigh", DEFAULTS.max_rerank_p99_seconds),
        ("HeliographIndexStale", DEFAULTS.max_index_freshness_seconds),
    ],
)
def test_thresholds_are_those_of_the_settings(alert: str, threshold: float) -> None:
    (rule,) = (rule for rule in rules() if rule.get("alert") == alert)
    comparison = promql.parse(rule["expr"])
    assert isinstance(comparison, promql.BinaryExpr)
    assert isinstance(comparison.rhs, promql.NumberLiteral)
    assert comparison.rhs.val == threshold


@pytest.mark.parametrize(
    "metric", ["heliograph_query_latency_seconds_bucket", "heliograph_rerank_latency_seconds_bucket"]
)
def test_thresholds_are_bounds_of_buckets(metric: str) -> None:
    monitoring = Monitoring(DEFAULTS)
    monitoring.tell_question(QuestionReport("mix", "ok", {"rerank": 0.1, "total": 0.1}))
    bounds = {
        float(sample.labels["le"])
        for family in monitoring.collect()
        for sample in family.samples
        if sample.name == metric
    }
    threshold = DEFAULTS.max_query_p99_seconds if "query" in metric else DEFAULTS.max_rerank_p99_seconds
    assert threshold in bounds


def test_dashboard_is_whole() -> None:
    board = dashboard()
    panels = board["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    variables = {variable["name"] for variable in board["templating"]["list"]}
    for panel in panels:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        if panel["type"] != "row":
            assert panel["title"]
            assert panel["description"]
            assert panel["targets"]
    assert variables == {"source", "job", "workspace"}
    boxes = [(p["gridPos"]["x"], p["gridPos"]["y"]) for p in panels]
    assert len(set(boxes)) == len(boxes)


def test_scrape_configuration_brings_a_key() -> None:
    (scrape,) = yaml.safe_load((FOLDER / "prometheus.yaml").read_text("utf-8"))["scrape_configs"]
    assert scrape["metrics_path"] == "/metrics"
    assert scrape["authorization"]["type"] == "Bearer"
