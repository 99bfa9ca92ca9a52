"""Spans by OpenTelemetry (extra `otel`), sent in the background as OTLP over HTTP.

The provider is this process's own and is not registered globally, so that it does not affect the surrounding program's
traces; a current span of that program becomes the parent of ours all the same.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from opentelemetry.trace import Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from heliograph._version import __version__
from heliograph.monitoring.monitoring import REQUEST_SPAN, Span, Tracer
from heliograph.settings import MonitoringSettings

_PROPAGATOR = TraceContextTextMapPropagator()
_HEADER = "traceparent"


class _OtelSpan(Span):
    def __init__(self, span: trace.Span) -> None:
        self._span = span

    def describe(self, **attributes: str | int) -> None:
        for name, value in attributes.items():
            self._span.set_attribute(_attribute(name), value)


class OtelTracer(Tracer):
    """Creates spans of one provider, which is closed with this."""

    def __init__(self, provider: TracerProvider) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("heliograph", __version__)

    @classmethod
    def connect(cls, settings: MonitoringSettings) -> OtelTracer:
        """Return a tracer that sends to the address of the settings, in batches, from a thread.

        Headers, certificates and time limits come from OpenTelemetry's own variables (`OTEL_EXPORTER_OTLP_...`).
        """
        sampler = ParentBased(TraceIdRatioBased(settings.traces_share))
        provider = TracerProvider(sampler=sampler, resource=Resource.create({"service.name": settings.service_name}))
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=settings.traces_endpoint)))
        return cls(provider)

    @contextmanager
    def span(
        self,
        name: str,
        attributes: Mapping[str, str | int] | None = None,
        *,
        is_parent: bool = True,
        traceparent: str | None = None,
    ) -> Generator[Span]:
        # An empty context is not the current one: a header without a valid parent starts a new trace.
        context = None if traceparent is None else _PROPAGATOR.extract({_HEADER: traceparent}, Context())
        given = {_attribute(key): value for key, value in (attributes or {}).items()}
        kind = trace.SpanKind.SERVER if name == REQUEST_SPAN else trace.SpanKind.INTERNAL
        span = self._tracer.start_span(name, context, kind, given)
        try:
            if is_parent:
                with trace.use_span(span, record_exception=False, set_status_on_exception=False):
                    yield _OtelSpan(span)
            else:
                yield _OtelSpan(span)
        except Exception as error:
            span.set_attribute("error.type", type(error).__name__)
            span.set_status(Status(StatusCode.ERROR))
            raise
        finally:
            span.end()

    def traceparent(self) -> str:
        carrier: dict[str, str] = {}
        _PROPAGATOR.inject(carrier)
        return carrier.get(_HEADER, "")

    def close(self) -> None:
        self._provider.shutdown()


def _attribute(name: str) -> str:
    """Return a name as OpenTelemetry writes it: words of one namespace joined by dots."""
    return name.replace("__", ".")
