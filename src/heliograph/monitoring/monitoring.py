"""What one process knows of its own work: the observer of everything, and what it shows of what it saw."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager

from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric

from heliograph.monitoring.alerts import Alert, make_alert
from heliograph.monitoring.metrics import Metrics
from heliograph.monitoring.shared import SharedMetrics
from heliograph.monitoring.tracing import REQUEST_SPAN, Span, Tracer, build_tracer
from heliograph.monitoring.window import SlidingWindow
from heliograph.monitoring.workspaces import WorkspaceState, workspace_metrics
from heliograph.observing import ModelCalls, Observer, QuestionReport
from heliograph.settings import MonitoringSettings

__all__ = ["Monitoring", "render_metrics"]

_INGEST = "ingest."


class Monitoring(Observer):
    """Counts and traces.

    Args:
        settings: Thresholds, and where spans go.
        shared: Where all workers count; None for a process that serves alone.

    Attributes:
        metrics: The counts.
        tracer: Makes spans.

    Raises:
        MissingDependencyError: Spans are to be sent, and the extra `otel` is not installed.
    """

    def __init__(self, settings: MonitoringSettings, shared: SharedMetrics | None = None) -> None:
        self.metrics = Metrics(shared)
        self.tracer: Tracer = build_tracer(settings)
        self._settings = settings
        self._queries = SlidingWindow(settings.window_seconds)
        self._reranks = SlidingWindow(settings.window_seconds)

    @contextmanager
    def stage(
        self, name: str, attributes: Mapping[str, str | int], *, is_parent: bool = True, traceparent: str | None = None
    ) -> Generator[None]:
        """Make a span, and count how long a stage of taking documents in took."""
        started = time.perf_counter()
        try:
            with self.tracer.span(name, attributes, is_parent=is_parent, traceparent=traceparent):
                yield
        finally:
            if name.startswith(_INGEST):
                self.metrics.count_ingest_stage(name.removeprefix(_INGEST), time.perf_counter() - started)

    def traceparent(self) -> str:
        """Return the header that names the span around."""
        return self.tracer.traceparent()

    def tell_question(self, report: QuestionReport) -> None:
        """Count a question."""
        self.metrics.count_question(report)
        if report.outcome == "cancelled":
            return
        self._queries.add(report.seconds["total"])
        if "rerank" in report.seconds:
            self._reranks.add(report.seconds["rerank"])

    def tell_model_calls(self, calls: ModelCalls) -> None:
        """Count calls to a model."""
        self.metrics.count_model_calls(calls)

    def tell_lookup(self, cache: str, *, is_hit: bool) -> None:
        """Count a lookup in a cache."""
        self.metrics.count_lookup(cache, is_hit=is_hit)

    @contextmanager
    def request(self, traceparent: str, method: str) -> Generator[Span]:
        """Make the span of a request and count it among those that run.

        Args:
            traceparent: The header of that name; empty begins a trace.
            method: Of the request.
        """
        self.metrics.http_requests_running.inc()
        try:
            with self.tracer.span(REQUEST_SPAN, {"http__request__method": method}, traceparent=traceparent) as span:
                yield span
        finally:
            self.metrics.http_requests_running.dec()

    def alerts(self, freshness_seconds: float | None) -> tuple[Alert, ...]:
        """Compare the last minutes with the thresholds.

        Args:
            freshness_seconds: The largest among the workspaces that count; None if it could not be read.
        """
        settings = self._settings
        freshness = make_alert("index_freshness", freshness_seconds, settings.max_index_freshness_seconds)
        if freshness_seconds is None:
            freshness = Alert("index_freshness", "unknown", None, settings.max_index_freshness_seconds)
        return (
            _latency("query_latency", self._queries, settings.max_query_p99_seconds),
            _latency("rerank_latency", self._reranks, settings.max_rerank_p99_seconds),
            freshness,
        )

    def close(self) -> None:
        """Send the spans that are left; may wait for the network."""
        self.tracer.close()


def render_metrics(metrics: Metrics | None, states: Sequence[WorkspaceState], accept: str) -> tuple[bytes, str]:
    """Return metrics as text, and its type.

    Args:
        metrics: Those of the process; None for who may see nothing but workspaces of his own.
        states: The workspaces to show.
        accept: The header `Accept`: OpenMetrics if it is wanted, else Prometheus' text format.
    """
    shown = _Shown([*(metrics.collect() if metrics else ()), *workspace_metrics(states, time.time())])
    encode, media_type = choose_encoder(accept)
    return encode(shown), media_type


class _Shown:
    """Metrics as the encoders ask for them."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def _latency(name: str, window: SlidingWindow, threshold: float) -> Alert:
    return make_alert(name, window.quantile(0.99), threshold, window.quantile(0.5))
