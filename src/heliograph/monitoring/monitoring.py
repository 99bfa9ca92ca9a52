"""Monitoring of one process: metrics for Prometheus, spans, alerts, and the observer that feeds them.

`Monitoring` receives stages, questions and model calls from `heliograph.observing` and passes them to metrics and
spans. Alerts compare quantiles of a sliding window and the state of workspaces with the thresholds of the settings.

Where several processes serve together, each counts in memory-mapped files of one folder (prometheus_client's mode
for several processes), so that any of them shows the sums. Labels are bounded: modes, stages, purposes, routes,
methods, statuses; none names a person or a text. Only the metrics of workspaces name workspaces; they are built for
each request, from the workspaces that the caller may enter.
"""

from __future__ import annotations

import fcntl
import math
import os
import threading
import time
from collections import Counter as Tally
from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any, Literal, cast

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.gc_collector import GCCollector
from prometheus_client.metrics_core import Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

from heliograph._version import __version__
from heliograph.errors import import_optional
from heliograph.models import Stats, Usage
from heliograph.observing import ModelCalls, Observer, QuestionReport
from heliograph.settings import MonitoringSettings

# Metrics of several processes that serve together, in files of one folder, so that any of them can show all.
#
# Each worker counts in memory mapped from files of its own (prometheus_client's mode for several processes, chosen by
# an environment variable before it is imported). A worker's counters stay when it dies, its live gauges are removed
# (`mark_process_dead`): by itself when it closes, and by the supervisor if it was killed. The folder is created for one
# run, so that no data is left over from an earlier one.

_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
# Metrics of which the earliest over all workers is shown; everything else is summed.
_EARLIEST = ("process_start_time_seconds",)


@contextmanager
def shared_folder() -> Generator[Path]:
    """Create a folder for the metrics of processes started within the block, and delete it at the end."""
    with TemporaryDirectory(prefix="heliograph-metrics-") as name:
        descriptor = os.open(name, os.O_RDONLY)
        try:
            # The lock keeps cleaners of temporary files away.
            fcntl.flock(descriptor, fcntl.LOCK_SH)
            # For children only: this process has chosen its mode already.
            os.putenv(_VARIABLE, name)
            yield Path(name)
        finally:
            os.unsetenv(_VARIABLE)
            os.close(descriptor)


class OwnProcess:
    """Memory, processor time, open files and garbage collection of this process, as metrics that can be shared."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self._collectors = ProcessCollector(registry=None), GCCollector(registry=CollectorRegistry())
        self._metrics: dict[str, Counter | Gauge] = {}
        self._before: dict[tuple[str, ...], float] = {}

    def refresh(self) -> None:
        """Update the metrics from the process."""
        for family in [family for collector in self._collectors for family in collector.collect()]:
            for sample in family.samples:
                metric = self._metrics.get(family.name) or self._make(family, tuple(sample.labels))
                one = metric.labels(**sample.labels) if sample.labels else metric
                if isinstance(one, Gauge):
                    one.set(sample.value)
                else:
                    key = (family.name, *sample.labels.values())
                    one.inc(max(0.0, sample.value - self._before.get(key, 0.0)))
                    self._before[key] = sample.value

    def _make(self, family: Metric, labels: tuple[str, ...]) -> Counter | Gauge:
        if family.type == "counter":
            made: Counter | Gauge = Counter(family.name, family.documentation, labels, registry=self._registry)
        else:
            mode = "livemin" if family.name in _EARLIEST else "livesum"
            made = Gauge(family.name, family.documentation, labels, registry=self._registry, multiprocess_mode=mode)
        self._metrics[family.name] = made
        return made


# From a cached reply to a local model that writes for a minute; the thresholds of the alerts are bucket bounds, so that
# quantiles are exact there.
_QUERY_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
_RERANK_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.0, 5.0)
_HTTP_BUCKETS = (0.005, 0.025, 0.1, 0.5, 2.0, 8.0, 32.0, 128.0)
_INGEST_BUCKETS = (0.005, 0.025, 0.1, 0.5, 2.0, 8.0, 32.0, 128.0, 512.0)
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


_CALLS, _FAILURES, _TOKENS = "heliograph_model_calls", "heliograph_model_failures", "heliograph_model_tokens"
_SPEND = (_CALLS, _FAILURES, _TOKENS)


class Metrics(Observer):
    """The metrics of this process or, with a shared folder, of all workers."""

    def __init__(self, shared: Path | None = None) -> None:
        self._registry = registry = CollectorRegistry()
        self._shared = shared
        histogram, counter = partial(Histogram, registry=registry), partial(Counter, registry=registry)
        self._latency = histogram(
            "heliograph_query_latency_seconds",
            "Seconds that questions took, per stage; `total` is all of it.",
            ("mode", "stage"),
            buckets=_QUERY_BUCKETS,
        )
        self._rerank = histogram(
            "heliograph_rerank_latency_seconds", "Seconds that reranking took, over all modes.", buckets=_RERANK_BUCKETS
        )
        self._questions = counter("heliograph_queries", "Questions by how they went.", ("mode", "outcome"))
        self._unanswered = counter("heliograph_unanswered_queries", "Questions to which there is no answer.", ("mode",))
        self._ingest = histogram(
            "heliograph_ingest_stage_seconds",
            "Seconds that stages of taking documents in took.",
            ("stage",),
            buckets=_INGEST_BUCKETS,
        )
        labels = ("model", "purpose")
        self._calls = counter(_CALLS, "Calls, failed ones too.", labels)
        self._failures = counter(_FAILURES, "Calls that failed.", labels)
        self._tokens = counter(_TOKENS, "Tokens read and written.", (*labels, "direction"))
        self._lookups = counter("heliograph_cache_lookups", "Lookups in caches.", ("cache", "result"))
        self._requests = counter("heliograph_http_requests", "Requests.", ("route", "method", "status"))
        self._durations = histogram(
            "heliograph_http_request_duration_seconds",
            "Seconds from the head of a request to the end of its response.",
            ("route", "method"),
            buckets=_HTTP_BUCKETS,
        )
        self.http_requests_running = _gauge("heliograph_http_requests_running", "Requests being served.", registry)
        self.queries_running = _gauge("heliograph_queries_running", "Questions being answered.", registry)
        self.queries_waiting = _gauge("heliograph_queries_waiting", "Questions that wait.", registry)
        self.open_workspaces = _gauge("heliograph_open_workspaces", "Workspaces that are open.", registry)
        # Metrics that are the same in all workers, or only of a process that serves alone.
        self._plain = plain = CollectorRegistry()
        Info("heliograph_build", "What is running.", registry=plain).info({"version": __version__})
        PlatformCollector(registry=plain)
        self._process = OwnProcess(registry) if shared else None
        if shared is None:
            ProcessCollector(registry=plain)
            GCCollector(registry=plain)

    def collect(self) -> Iterable[Metric]:
        """Return all metrics; with several workers, their sums."""
        yield from MultiProcessCollector(None, self._shared).collect() if self._shared else self._registry.collect()
        yield from self._plain.collect()

    def spent(self) -> list[ModelCalls]:
        """Return the calls and tokens of models since the start, over all workers, by model and purpose."""
        found: dict[tuple[str, str], dict[str, float]] = {}
        for family in self.collect():
            if family.name not in _SPEND:
                continue
            for sample in family.samples:
                if sample.name != f"{family.name}_total":
                    continue
                row = found.setdefault((sample.labels["model"], sample.labels["purpose"]), {})
                row[sample.labels.get("direction", family.name)] = sample.value
        return [
            ModelCalls(
                "chat" if model == "chat" else "embedding",
                purpose,
                int(row.get(_CALLS, 0)),
                int(row.get(_FAILURES, 0)),
                Usage(int(row.get("input", 0)), int(row.get("output", 0))),
            )
            for (model, purpose), row in sorted(found.items())
        ]

    def refresh(self) -> None:
        """Update this process's metrics for the other workers, if there are any; from one thread at a time."""
        if self._process:
            self._process.refresh()

    def tell_question(self, report: QuestionReport) -> None:
        """Count a question; records no latency of an abandoned one."""
        self._questions.labels(report.mode, report.outcome).inc()
        self._unanswered.labels(report.mode).inc(report.is_unanswered)
        if report.outcome == "cancelled":
            return
        for stage, seconds in report.seconds.items():
            self._latency.labels(report.mode, stage).observe(seconds)
        if "rerank" in report.seconds:
            self._rerank.observe(report.seconds["rerank"])

    def count_ingest_stage(self, stage: str, seconds: float) -> None:
        """Count a stage of the ingest."""
        self._ingest.labels(stage).observe(seconds)

    def tell_model_calls(self, calls: ModelCalls) -> None:
        labels = (calls.model, calls.purpose)
        self._calls.labels(*labels).inc(calls.calls)
        self._failures.labels(*labels).inc(calls.failures)
        self._tokens.labels(*labels, "input").inc(calls.usage.input_tokens)
        self._tokens.labels(*labels, "output").inc(calls.usage.output_tokens)

    def tell_lookup(self, cache: str, *, is_hit: bool) -> None:
        self._lookups.labels(cache, "hit" if is_hit else "miss").inc()

    def count_request(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count a request by the template of its path (empty if it has none), its method, and its status, 0 if none."""
        known = method if method in _METHODS else "other"
        self._requests.labels(route or "none", known, str(status)).inc()
        self._durations.labels(route or "none", known).observe(seconds)


def _gauge(name: str, text: str, registry: CollectorRegistry) -> Gauge:
    # With several workers, the sum over the live ones.
    return Gauge(name, text, registry=registry, multiprocess_mode="livesum")


# The state of workspaces as metrics: counts, waiting documents, lag of projections.
#
# These are the metrics that name workspaces, so they are built for each request, from the workspaces that the caller
# may enter; the registry of the process has none of them.


@dataclass(frozen=True, slots=True)
class WorkspaceState:
    """The state of one workspace.

    Attributes:
        waiting_since: When the oldest waiting document was accepted, in seconds since 1970; None if there is none.
        jobs: Unfinished jobs per kind and state.
        lags: Per projection of a composed store, how many commits it is behind.
    """

    name: str
    stats: Stats
    waiting_since: float | None = None
    jobs: Mapping[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])
    lags: Mapping[str, int] = field(default_factory=dict[str, int])

    def freshness_seconds(self, now: float) -> float:
        """Return how long the oldest document has waited; 0 if none does."""
        return 0.0 if self.waiting_since is None else max(0.0, now - self.waiting_since)


def workspace_metrics(states: Sequence[WorkspaceState], now: float) -> list[Metric]:
    """Return the metrics of some workspaces at the moment `now`, in seconds since 1970."""
    read: dict[str, tuple[str, Callable[[WorkspaceState], float]]] = {
        "doc_count": ("Documents, in any status.", lambda state: sum(state.stats.documents.values())),
        "chunk_count": ("Chunks.", lambda state: state.stats.chunks),
        "entity_count": ("Entities.", lambda state: state.stats.entities),
        "relation_count": ("Relations.", lambda state: state.stats.relations),
        "cached_reply_count": ("Replies of models that are kept.", lambda state: state.stats.cached_replies),
        "data_version": ("Rises with every commit.", lambda state: state.stats.data_version),
        "store_bytes": ("Size of the files; 0 where the store cannot tell.", lambda state: state.stats.bytes_on_disk),
        "index_freshness_seconds": (
            "How long the oldest document that is accepted and not processed yet has waited; 0 when none waits.",
            lambda state: state.freshness_seconds(now),
        ),
    }
    counts: list[Metric] = []
    for name, (text, value) in read.items():
        family = GaugeMetricFamily(f"heliograph_{name}", text, labels=("workspace",))
        for state in states:
            family.add_metric((state.name,), value(state))
        counts.append(family)
    documents = GaugeMetricFamily("heliograph_documents", "Documents per status.", labels=("workspace", "status"))
    jobs = GaugeMetricFamily(
        "heliograph_jobs_unfinished", "Jobs that wait or run.", labels=("workspace", "kind", "state")
    )
    lags = GaugeMetricFamily(
        "heliograph_store_lag_commits", "Commits that a projection is behind.", labels=("workspace", "projection")
    )
    for state in states:
        for status, count in state.stats.documents.items():
            documents.add_metric((state.name, status.value), count)
        for (kind, job_state), count in state.jobs.items():
            jobs.add_metric((state.name, kind, job_state), count)
        for projection, commits in state.lags.items():
            lags.add_metric((state.name, projection), commits)
    return [*counts, documents, jobs, lags]


# Spans: how long each part of the work took, under the request that caused it.
#
# The seam between this program and OpenTelemetry. Without an address to send to, `build_tracer` returns the tracer that
# does nothing, and no package of OpenTelemetry is loaded. Attributes are words and numbers of this program; for an
# error only its class is recorded, since messages may quote user text.

# The name of a request's span.
REQUEST_SPAN = "http.request"


class Span:
    """A span of time; this one is not recorded."""

    def describe(self, **attributes: str | int) -> None:
        """Add attributes that become known during the span."""


class Tracer:
    """Creates spans; thread-safe. This one records none."""

    _NOTHING = nullcontext(Span())

    def span(
        self,
        name: str,  # noqa: ARG002
        attributes: Mapping[str, str | int] | None = None,  # noqa: ARG002
        *,
        is_parent: bool = True,  # noqa: ARG002
        traceparent: str | None = None,  # noqa: ARG002
    ) -> AbstractContextManager[Span]:
        """Return a span that lasts as long as the block.

        Args:
            name: The name of the operation.
            attributes: Its attributes.
            is_parent: Whether spans within the block belong to it; False in generators, which leave it in between.
            traceparent: Header of W3C's Trace Context that names the parent; None means the current span, and an
                invalid
                one starts a new trace.
        """
        return self._NOTHING

    def traceparent(self) -> str:
        """Return the header that names the current span, for work that is done later; empty without one."""
        return ""

    def close(self) -> None:
        """Send the remaining spans; closing twice does nothing. May wait for the network."""


def build_tracer(settings: MonitoringSettings) -> Tracer:
    """Return the tracer of the settings.

    Raises:
        MissingDependencyError: There is an address to send spans to, and the extra `otel` is not installed.
    """
    if not settings.traces_endpoint:
        return Tracer()
    module = import_optional("heliograph.monitoring.otel", "otel")
    return cast("Tracer", module.OtelTracer.connect(settings))


# Quantiles of recent measurements.


class SlidingWindow:
    """Keeps measurements for a while, at most the latest `max_count`; thread-safe."""

    def __init__(self, seconds: float, max_count: int = 10_000, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._clock = clock
        self._values: deque[tuple[float, float]] = deque(maxlen=max_count)
        self._lock = threading.Lock()

    def add(self, value: float) -> None:
        """Add a measurement."""
        with self._lock:
            self._values.append((self._clock(), value))

    def quantile(self, share: float, *, outliers: int = 0) -> float | None:
        """Return the least value that at least this share of the measurements does not exceed; None without any.

        The nearest-rank definition: always one of the measurements, the largest for a share of 1.

        Args:
            share: From 0 to 1.
            outliers: So many of the largest are never returned; None if there are no others.
        """
        with self._lock:
            oldest = self._clock() - self._seconds
            while self._values and self._values[0][0] < oldest:
                self._values.popleft()
            values = sorted(value for _, value in self._values)
        rank = min(max(1, math.ceil(share * len(values))), len(values) - outliers)
        return values[rank - 1] if rank > 0 else None


# Whether measurements stay within the thresholds of the settings.
#
# The same three conditions ship as rules for Prometheus; these are computed by the process about itself, so that they
# can be seen without one. A value equal to the threshold is within it.

AlertState = Literal["ok", "firing", "unknown"]


@dataclass(frozen=True, slots=True)
class Alert:
    """One condition.

    Attributes:
        name: `query_latency`, `rerank_latency` or `index_freshness`.
        state: `firing` above the threshold; `unknown` if it could not be measured.
        seconds: The measurement; None if there was none lately, or it could not be taken.
        median_seconds: The p50 beside a p99; None for other measures, or without measurements.
    """

    name: str
    state: AlertState
    seconds: float | None
    threshold_seconds: float
    median_seconds: float | None = None


def make_alert(
    name: str, seconds: float | None, threshold_seconds: float, median_seconds: float | None = None
) -> Alert:
    """Compare a measurement with its threshold; without a measurement it does not fire."""
    is_firing = seconds is not None and seconds > threshold_seconds
    return Alert(name, "firing" if is_firing else "ok", seconds, threshold_seconds, median_seconds)


_INGEST = "ingest."
# Per mode, which bounds the total.
_MOST_TIMES = 2_000


class Monitoring(Metrics):
    """Collects metrics and spans, and raises alerts about recent latency.

    Args:
        settings: Thresholds, and where spans are sent.
        shared: The folder for metrics of all workers; None for a process that serves alone.

    Raises:
        MissingDependencyError: Spans are to be sent, and the extra `otel` is not installed.
    """

    def __init__(self, settings: MonitoringSettings, shared: Path | None = None) -> None:
        super().__init__(shared)
        self.tracer = build_tracer(settings)
        self._settings = settings
        self._queries = SlidingWindow(settings.window_seconds)
        self._reranks = SlidingWindow(settings.window_seconds)
        # Per mode the number of questions, and the latest durations.
        self._counts: Tally[str] = Tally()
        self._times: dict[str, SlidingWindow] = {}

    @contextmanager
    def stage(
        self, name: str, attributes: Mapping[str, str | int], *, is_parent: bool = True, traceparent: str | None = None
    ) -> Generator[None]:
        started = time.perf_counter()
        try:
            with self.tracer.span(name, attributes, is_parent=is_parent, traceparent=traceparent):
                yield
        finally:
            if name.startswith(_INGEST):
                self.count_ingest_stage(name.removeprefix(_INGEST), time.perf_counter() - started)

    def traceparent(self) -> str:
        return self.tracer.traceparent()

    def tell_question(self, report: QuestionReport) -> None:
        super().tell_question(report)
        if report.outcome == "cancelled":
            return
        self._queries.add(report.seconds["total"])
        self._counts[report.mode] += 1
        self._times.setdefault(report.mode, SlidingWindow(math.inf, _MOST_TIMES)).add(report.seconds["total"])
        if "rerank" in report.seconds:
            self._reranks.add(report.seconds["rerank"])

    def latencies(self) -> dict[str, tuple[int, float, float, float]]:
        """Return latencies of questions in this process, sorted by mode.

        Per mode: how many there were since the start, including cached and failed ones, without abandoned ones; and the
        50th, 95th and 99th percentiles of the latest 2,000, in seconds.
        """
        found: dict[str, tuple[int, float, float, float]] = {}
        for mode, window in sorted(self._times.items()):
            p50, p95, p99 = (window.quantile(share) or 0.0 for share in (0.5, 0.95, 0.99))
            found[mode] = (self._counts[mode], p50, p95, p99)
        return found

    @contextmanager
    def request(self, traceparent: str, method: str) -> Generator[Callable[[str, int], None]]:
        """Open the span of a request and count it as running.

        Yields a function to call at its end with the template of its route and its status.
        """
        started = time.perf_counter()
        attributes = {"http__request__method": method}

        def count(route: str, status: int) -> None:
            self.count_request(route, method, status, time.perf_counter() - started)
            span.describe(http__route=route, http__response__status_code=status)

        self.http_requests_running.inc()
        try:
            with self.tracer.span(REQUEST_SPAN, attributes, traceparent=traceparent) as span:
                yield count
        finally:
            self.http_requests_running.dec()

    def alerts(self, freshness_seconds: float | None) -> tuple[Alert, ...]:
        """Compare the last minutes with the thresholds; the freshness is the largest of the relevant workspaces."""
        settings = self._settings
        freshness = make_alert("index_freshness", freshness_seconds, settings.max_index_freshness_seconds)
        windows = (
            ("query_latency", self._queries, settings.max_query_p99_seconds),
            ("rerank_latency", self._reranks, settings.max_rerank_p99_seconds),
        )
        return (
            # With fewer than a hundred, the slowest alone would be the p99, and one cold start an alarm.
            *(
                make_alert(name, window.quantile(0.99, outliers=1), threshold, window.quantile(0.5))
                for name, window, threshold in windows
            ),
            freshness if freshness_seconds is not None else replace(freshness, state="unknown"),
        )

    def close(self) -> None:
        """Send the remaining spans; may wait for the network."""
        self.tracer.close()


def render_metrics(metrics: Metrics | None, states: Sequence[WorkspaceState], accept: str) -> tuple[bytes, str]:
    """Return metrics as text, and its content type.

    Args:
        metrics: Those of the process; None for callers who may see only some workspaces.
        states: The workspaces to show.
        accept: The `Accept` header: OpenMetrics if it asks for that, otherwise Prometheus' text format.
    """
    families = [*(metrics.collect() if metrics else ()), *workspace_metrics(states, time.time())]
    encode, media_type = choose_encoder(accept)
    # Encoders need only this method of a registry.
    return encode(cast("Any", SimpleNamespace(collect=lambda: families))), media_type
