"""The state of workspaces as metrics: how much they hold, what waits, how far projections are behind.

These are the metrics that name workspaces, so they are made for each request, of the workspaces that whoever asks may
enter; the registry of the process has none of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from heliograph.models import Stats

__all__ = ["WorkspaceState", "workspace_metrics"]


@dataclass(frozen=True, slots=True)
class WorkspaceState:
    """What one workspace looked like.

    Attributes:
        name: Of the workspace.
        stats: Its counts.
        waiting_since: When the oldest document that is accepted and not processed yet was accepted, in seconds since
            1970; None when none waits.
        jobs: Unfinished jobs per kind and state.
        lags: Per projection of a composed store, how many commits it is behind.
    """

    name: str
    stats: Stats
    waiting_since: float | None = None
    jobs: Mapping[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])
    lags: Mapping[str, int] = field(default_factory=dict[str, int])

    def freshness_seconds(self, now: float) -> float:
        """Return how long the oldest document has waited; 0 when none does."""
        return 0.0 if self.waiting_since is None else max(0.0, now - self.waiting_since)


def workspace_metrics(states: Sequence[WorkspaceState], now: float) -> list[Metric]:
    """Return the metrics of some workspaces.

    Args:
        states: The workspaces.
        now: Seconds since 1970.
    """
    counts = [
        _gauge("doc_count", "Documents, in any status.", ((s, sum(s.stats.documents.values())) for s in states)),
        _gauge("chunk_count", "Chunks.", ((s, s.stats.chunks) for s in states)),
        _gauge("entity_count", "Entities.", ((s, s.stats.entities) for s in states)),
        _gauge("relation_count", "Relations.", ((s, s.stats.relations) for s in states)),
        _gauge("cached_reply_count", "Replies of models that are kept.", ((s, s.stats.cached_replies) for s in states)),
        _gauge("data_version", "Rises with every commit.", ((s, s.stats.data_version) for s in states)),
        _gauge("store_bytes", "Size of the files; 0 where the store cannot tell.", _sizes(states)),
        _gauge(
            "index_freshness_seconds",
            "How long the oldest document that is accepted and not processed yet has waited; 0 when none waits.",
            ((s, s.freshness_seconds(now)) for s in states),
        ),
    ]
    return [*counts, *_by_label(states)]


def _gauge(name: str, text: str, values: Iterable[tuple[WorkspaceState, float]]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(f"heliograph_{name}", text, labels=("workspace",))
    for state, value in values:
        family.add_metric((state.name,), value)
    return family


def _sizes(states: Sequence[WorkspaceState]) -> Iterable[tuple[WorkspaceState, float]]:
    return ((state, state.stats.bytes_on_disk) for state in states)


def _by_label(states: Sequence[WorkspaceState]) -> list[Metric]:
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
    return [documents, jobs, lags]
