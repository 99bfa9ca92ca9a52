"""Spans: which part of the work took how long, under the request that asked for it.

The seam between this program and OpenTelemetry. Without an address to send to, `build_tracer` gives the tracer that
does nothing, and no package of OpenTelemetry is loaded. Attributes are words and numbers of this program; of an error
only its class is told, since messages may quote what somebody wrote.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import cast

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
from heliograph.errors import import_optional
from heliograph.settings import MonitoringSettings

# What the span of a request is called.
REQUEST_SPAN = "http.request"


class Span(ABC):
    """Something that lasts."""

    @abstractmethod
    def describe(self, **attributes: str | int) -> None:
        """Add what is known only now."""


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
        """Send what is left; closing twice does nothing. May wait for the network."""


class NoSpan(Span):
    """Nobody's."""

    def describe(self, **attributes: str | int) -> None:  # noqa: ARG002 (an override)
        return


class NoTracer(Tracer):
    """Makes none."""

    _NOTHING = nullcontext(NoSpan())

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
    module = import_optional("heliograph.monitoring.tracing", "otel")
    return cast("Tracer", module.OtelTracer.connect(settings))


# Spans by OpenTelemetry, sent in the background as OTLP over HTTP.
#
# The provider is this process's own and is not registered globally, so that what the surrounding program traces stays
# its own; a span that is current there becomes the parent of ours all the same.

_PROPAGATOR = TraceContextTextMapPropagator()
_HEADER = "traceparent"


class _OtelSpan(Span):
    def __init__(self, span: trace.Span) -> None:
        self._span = span

    def describe(self, **attributes: str | int) -> None:
        for name, value in attributes.items():
            self._span.set_attribute(_attribute(name), value)


class OtelTracer(Tracer):
    """Makes spans of one provider.

    Args:
        provider: Where they go; closed with this.
    """

    def __init__(self, provider: TracerProvider) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("heliograph", __version__)

    @classmethod
    def connect(cls, settings: MonitoringSettings) -> OtelTracer:
        """Return a tracer that sends to the address of the settings, in batches, from a thread.

        Headers, certificates and time limits are those of OpenTelemetry's own variables (`OTEL_EXPORTER_OTLP_...`).
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
        # An empty context is not the one around: what names no valid parent begins a trace.
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
