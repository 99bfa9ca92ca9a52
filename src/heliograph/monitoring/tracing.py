"""Spans: how long each part of the work took, under the request that caused it.

The seam between this program and OpenTelemetry. Without an address to send to, `build_tracer` gives the tracer that
does nothing, and no package of OpenTelemetry is loaded. Attributes are words and numbers of this program; of an error
only its class is told, since messages may quote what somebody wrote.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import cast

from heliograph.errors import import_optional
from heliograph.settings import MonitoringSettings

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
