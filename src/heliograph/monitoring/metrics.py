"""The metrics of one process, in a registry of its own; none of them names a workspace, a person or a text.

Where several processes serve together, what is shown are the sums over all of them (`heliograph.monitoring.shared`).
What they are labelled with is bounded: modes, stages, purposes, route templates, methods and statuses are words of this
program or of HTTP. Names follow Prometheus' conventions: seconds and bytes, `_total` for what only rises.
"""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info
from prometheus_client.gc_collector import GCCollector
from prometheus_client.metrics_core import Metric
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

from heliograph._version import __version__
from heliograph.monitoring.shared import OwnProcess, SharedMetrics
from heliograph.observing import ModelCalls, QuestionReport

__all__ = ["Metrics"]

# From a cached reply to a local model that writes for a minute; the thresholds of the alerts are bounds, so that
# quantiles are exact where they matter.
_QUERY_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
_RERANK_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.0, 5.0)
_HTTP_BUCKETS = (0.005, 0.025, 0.1, 0.5, 2.0, 8.0, 32.0, 128.0)
_INGEST_BUCKETS = (0.005, 0.025, 0.1, 0.5, 2.0, 8.0, 32.0, 128.0, 512.0)
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class Metrics:
    """Counts.

    Args:
        shared: Where all workers count; None for a process that serves alone.

    Attributes:
        queries_running: Questions being answered.
        queries_waiting: Questions that wait for their turn.
        open_workspaces: Workspaces that are open.
    """

    def __init__(self, shared: SharedMetrics | None = None) -> None:
        self._registry = registry = CollectorRegistry()
        self._shared = shared
        self._latency = Histogram(
            "heliograph_query_latency_seconds",
            "Seconds that questions took, per stage; `total` is all of it.",
            ("mode", "stage"),
            buckets=_QUERY_BUCKETS,
            registry=registry,
        )
        self._rerank = Histogram(
            "heliograph_rerank_latency_seconds",
            "Seconds that reranking took, over all modes.",
            buckets=_RERANK_BUCKETS,
            registry=registry,
        )
        self._questions = Counter(
            "heliograph_queries", "Questions by how they went.", ("mode", "outcome"), registry=registry
        )
        self._ingest = Histogram(
            "heliograph_ingest_stage_seconds",
            "Seconds that stages of taking documents in took.",
            ("stage",),
            buckets=_INGEST_BUCKETS,
            registry=registry,
        )
        self._make_model_counters(registry)
        self._make_http_metrics(registry)
        self.queries_running = _gauge("heliograph_queries_running", "Questions being answered.", registry)
        self.queries_waiting = _gauge("heliograph_queries_waiting", "Questions that wait.", registry)
        self.open_workspaces = _gauge("heliograph_open_workspaces", "Workspaces that are open.", registry)
        # What is the same in all workers, and what tells of a process that serves alone.
        self._plain = plain = CollectorRegistry()
        Info("heliograph_build", "What is running.", registry=plain).info({"version": __version__})
        PlatformCollector(registry=plain)
        self._process = OwnProcess(registry) if shared else None
        if shared is None:
            ProcessCollector(registry=plain)
            GCCollector(registry=plain)

    def collect(self) -> Iterable[Metric]:
        """Return all of them; of several workers, their sums."""
        yield from self._shared.collect() if self._shared else self._registry.collect()
        yield from self._plain.collect()

    def refresh(self) -> None:
        """Have this process looked at for the other workers, if there are any; from one thread at a time."""
        if self._process:
            self._process.refresh()

    def _make_model_counters(self, registry: CollectorRegistry) -> None:
        labels = ("model", "purpose")
        self._calls = Counter("heliograph_model_calls", "Calls, failed ones too.", labels, registry=registry)
        self._failures = Counter("heliograph_model_failures", "Calls that failed.", labels, registry=registry)
        self._tokens = Counter(
            "heliograph_model_tokens", "Tokens read and written.", (*labels, "direction"), registry=registry
        )
        self._lookups = Counter(
            "heliograph_cache_lookups", "Lookups in caches.", ("cache", "result"), registry=registry
        )

    def _make_http_metrics(self, registry: CollectorRegistry) -> None:
        self._requests = Counter(
            "heliograph_http_requests", "Requests.", ("route", "method", "status"), registry=registry
        )
        self._durations = Histogram(
            "heliograph_http_request_duration_seconds",
            "Seconds from the head of a request to the end of its response.",
            ("route", "method"),
            buckets=_HTTP_BUCKETS,
            registry=registry,
        )
        self.http_requests_running = _gauge("heliograph_http_requests_running", "Requests being served.", registry)

    def count_question(self, report: QuestionReport) -> None:
        """Count a question; what was given up has no latency worth knowing."""
        self._questions.labels(report.mode, report.outcome).inc()
        if report.outcome == "cancelled":
            return
        for stage, seconds in report.seconds.items():
            self._latency.labels(report.mode, stage).observe(seconds)
        if "rerank" in report.seconds:
            self._rerank.observe(report.seconds["rerank"])

    def count_ingest_stage(self, stage: str, seconds: float) -> None:
        """Count a stage of taking documents in."""
        self._ingest.labels(stage).observe(seconds)

    def count_model_calls(self, calls: ModelCalls) -> None:
        """Count calls to a model."""
        labels = (calls.model, calls.purpose)
        self._calls.labels(*labels).inc(calls.calls)
        self._failures.labels(*labels).inc(calls.failures)
        self._tokens.labels(*labels, "input").inc(calls.usage.input_tokens)
        self._tokens.labels(*labels, "output").inc(calls.usage.output_tokens)

    def count_lookup(self, cache: str, *, is_hit: bool) -> None:
        """Count a lookup in a cache."""
        self._lookups.labels(cache, "hit" if is_hit else "miss").inc()

    def count_request(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count a request.

        Args:
            route: Template of its path, never the path itself; empty if there is none of this path.
            method: Of HTTP; unknown ones count as one.
            status: Of the response; 0 if there was none.
            seconds: How long it took.
        """
        known = method if method in _METHODS else "other"
        self._requests.labels(route or "none", known, str(status)).inc()
        self._durations.labels(route or "none", known).observe(seconds)


def _gauge(name: str, text: str, registry: CollectorRegistry) -> Gauge:
    # Of several workers, the sum over those that live.
    return Gauge(name, text, registry=registry, multiprocess_mode="livesum")
