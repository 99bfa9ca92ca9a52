"""Whether what is measured stays within the thresholds of the settings.

The same three conditions ship as rules for Prometheus; these are computed by the process about itself, so that they
can be seen without one. A limit is kept at the threshold itself and broken above it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["Alert", "AlertState", "make_alert"]

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
