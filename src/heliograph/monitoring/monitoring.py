"""What one process knows of its own work: the observer that counts and traces everything, its spans and alerts.

`Monitoring` receives stages, questions and model calls from `heliograph.observing` and passes them to metrics and
spans. Alerts compare quantiles of a sliding window and the state of workspaces with the thresholds of the settings.
"""

from __future__ import annotations

import math
import threading
import time
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Literal, cast

from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric

from heliograph.errors import import_optional
from heliograph.monitoring.metrics import Metrics, SharedMetrics, WorkspaceState, workspace_metrics
from heliograph.observing import ModelCalls, Observer, QuestionReport
from heliograph.settings import MonitoringSettings

# Spans: how long each part of the work took, under the request that caused it.
#
# The seam between this program and OpenTelemetry. Without an address to send to, `build_tracer` gives the tracer that
# does nothing, and no package of OpenTelemetry is loaded. Attributes are words and numbers of this program; of an error
# only its class is told, since messages may quote what somebody wrote.

# What the span of a request is called.
REQUEST_SPAN = "http.request"


class Span:
    """Something that lasts; this one is recorded nowhere."""

    def describe(self, **attributes: str | int) -> None:
        """Add attributes that are known only now."""


class Tracer(ABC):
    """Makes spans; used from several threads."""

    @abstractmethod
    def span(
        self,
        name: str,
        attributes: Mapping[str, str | int] | None = None,
        *,
        is_parent: bool = True,
        traceparent: str | None = None,
    ) -> AbstractContextManager[Span]:
        """Return a span that lasts as long as the block.

        Args:
            name: What is done.
            attributes: About it.
            is_parent: Whether spans within the block belong to it; False in generators, which leave it in between.
            traceparent: Header of W3C's Trace Context that names the parent; None means the span around, and what is
                not valid begins a trace of its own.
        """

    @abstractmethod
    def traceparent(self) -> str:
        """Return the header that names the span around, for work that is done later; empty without one."""

    @abstractmethod
    def close(self) -> None:
        """Send the remaining spans; closing twice does nothing. May wait for the network."""


class NoTracer(Tracer):
    """Makes none."""

    _NOTHING = nullcontext(Span())

    def span(
        self,
        name: str,  # noqa: ARG002
        attributes: Mapping[str, str | int] | None = None,  # noqa: ARG002
        *,
        is_parent: bool = True,  # noqa: ARG002
        traceparent: str | None = None,  # noqa: ARG002
    ) -> AbstractContextManager[Span]:
        return self._NOTHING

    def traceparent(self) -> str:
        return ""

    def close(self) -> None:
        return


def build_tracer(settings: MonitoringSettings) -> Tracer:
    """Return the tracer of the settings.

    Raises:
        MissingDependencyError: There is an address to send spans to, and the extra `otel` is not installed.
    """
    if not settings.traces_endpoint:
        return NoTracer()
    module = import_optional("heliograph.monitoring.otel", "otel")
    return cast("Tracer", module.OtelTracer.connect(settings))


# Quantiles of what was measured lately.


class SlidingWindow:
    """Keeps measurements for a while; safe to use from several threads.

    Args:
        seconds: How long one counts.
        max_count: How many are kept; of more, the latest.
        clock: Monotonic seconds.
    """

    def __init__(self, seconds: float, max_count: int = 10_000, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._clock = clock
        self._values: deque[tuple[float, float]] = deque(maxlen=max_count)
        self._lock = threading.Lock()

    def add(self, value: float) -> None:
        """Note a measurement."""
        with self._lock:
            self._values.append((self._clock(), value))

    def quantile(self, share: float, *, outliers: int = 0) -> float | None:
        """Return the least value that at least this share of the measurements does not exceed; None without any.

        The nearest-rank definition: always one of the measurements, the largest for a share of 1.

        Args:
            share: From 0 to 1.
            outliers: So many of the largest are never the answer; None if there are no others.
        """
        with self._lock:
            oldest = self._clock() - self._seconds
            while self._values and self._values[0][0] < oldest:
                self._values.popleft()
            values = sorted(value for _, value in self._values)
        rank = min(max(1, math.ceil(share * len(values))), len(values) - outliers)
        return values[rank - 1] if rank > 0 else None


# Whether what is measured stays within the thresholds of the settings.
#
# The same three conditions ship as rules for Prometheus; these are computed by the process about itself, so that they
# can be seen without one. A limit is kept at the threshold itself and broken above it.

AlertState = Literal["ok", "firing", "unknown"]


@dataclass(frozen=True, slots=True)
class Alert:
    """One condition.

    Attributes:
        name: `query_latency`, `rerank_latency` or `index_freshness`.
        state: `firing` above the threshold; `unknown` if it could not be measured.
        seconds: What was measured; None if nothing was, lately, or it could not be.
        threshold_seconds: Where it begins to fire.
        median_seconds: The p50 beside a p99; None for what is no quantile, or without measurements.
    """

    name: str
    state: AlertState
    seconds: float | None
    threshold_seconds: float
    median_seconds: float | None = None


def make_alert(
    name: str, seconds: float | None, threshold_seconds: float, median_seconds: float | None = None
) -> Alert:
    """Compare a measurement with its threshold; none at all is no reason to fire."""
    is_firing = seconds is not None and seconds > threshold_seconds
    return Alert(name, "firing" if is_firing else "ok", seconds, threshold_seconds, median_seconds)


_INGEST = "ingest."
# Of each mode, so that what a few modes keep stays small.
_MOST_TIMES = 2_000


@dataclass(frozen=True, slots=True)
class ModeLatency:
    """How long the latest questions of one mode took in this process.

    Attributes:
        mode: The mode.
        count: Questions since the start, cached and failed ones included, those given up not.
        p50: Seconds that half of the latest 2,000 did not exceed.
        p95: Likewise 95 of 100.
        p99: Likewise 99 of 100.
    """

    mode: str
    count: int
    p50: float
    p95: float
    p99: float


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
        # Per mode the questions so far, and the times of the latest.
        self._counts: Counter[str] = Counter()
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
                self.metrics.count_ingest_stage(name.removeprefix(_INGEST), time.perf_counter() - started)

    def traceparent(self) -> str:
        return self.tracer.traceparent()

    def tell_question(self, report: QuestionReport) -> None:
        self.metrics.count_question(report)
        if report.outcome == "cancelled":
            return
        self._queries.add(report.seconds["total"])
        self._counts[report.mode] += 1
        self._times.setdefault(report.mode, SlidingWindow(math.inf, _MOST_TIMES)).add(report.seconds["total"])
        if "rerank" in report.seconds:
            self._reranks.add(report.seconds["rerank"])

    def latencies(self) -> list[ModeLatency]:
        """Return how long questions took in this process, by mode, sorted by it."""
        found: list[ModeLatency] = []
        for mode, window in sorted(self._times.items()):
            p50, p95, p99 = (window.quantile(share) or 0.0 for share in (0.5, 0.95, 0.99))
            found.append(ModeLatency(mode, self._counts[mode], p50, p95, p99))
        return found

    def tell_model_calls(self, calls: ModelCalls) -> None:
        self.metrics.count_model_calls(calls)

    def tell_lookup(self, cache: str, *, is_hit: bool) -> None:
        self.metrics.count_lookup(cache, is_hit=is_hit)

    @contextmanager
    def request(self, traceparent: str, method: str) -> Generator[Callable[[str, int], None]]:
        """Make the span of a request and count it among those that run.

        Gives what counts it once it is done: called with the template of its route and its status.

        Args:
            traceparent: The header of that name; empty begins a trace.
            method: Of the request.
        """
        started = time.perf_counter()
        attributes = {"http__request__method": method}

        def count(route: str, status: int) -> None:
            self.metrics.count_request(route, method, status, time.perf_counter() - started)
            span.describe(http__route=route, http__response__status_code=status)

        self.metrics.http_requests_running.inc()
        try:
            with self.tracer.span(REQUEST_SPAN, attributes, traceparent=traceparent) as span:
                yield count
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
    # Of fewer than a hundred the slowest alone would be the p99, and one cold start an alarm.
    return make_alert(name, window.quantile(0.99, outliers=1), threshold, window.quantile(0.5))
