"""Reads how the open workspaces of one process are, cheaply enough to be asked every few seconds.

Counts are read again only after a commit, and then for no more than a twentieth of the time: a store that counts slowly
is counted seldom. What waits is read each time, by indexes.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from heliograph.engine import AsyncHeliograph
from heliograph.errors import HeliographError
from heliograph.models import WAITING_STATUSES, Stats
from heliograph.monitoring.metrics import WorkspaceState
from heliograph.service.jobs.jobs import Jobs
from heliograph.service.jobs.models import LANES, JobState, Lane, PipelineState
from heliograph.service.workspaces import Workspaces
from heliograph.stores.base import DocumentQuery

_LOG = logging.getLogger(__name__)
_SHARE_OF_TIME = 0.05


@dataclass(frozen=True, slots=True)
class _Counted:
    """Counts, when they may be read again (monotonic seconds), and of which engine they are."""

    stats: Stats
    due: float
    engine: AsyncHeliograph


@dataclass(frozen=True, slots=True)
class EngineState:
    """An engine beside the store with the truth: commits it is behind, and why it cannot be asked, if so."""

    name: str
    lag: int
    trouble: str


class States:
    """Looks at workspaces; used from the event loop's thread only.

    Args:
        workspaces: Lends engines.
        jobs: Their background work.
    """

    def __init__(self, workspaces: Workspaces, jobs: Jobs) -> None:
        self._workspaces = workspaces
        self._jobs = jobs
        self._counted: dict[str, _Counted] = {}

    async def read(self, may_see: Callable[[str], bool]) -> list[WorkspaceState]:
        """Return the state of every open workspace that may be seen.

        One whose store is out of reach is left out, and logged.
        """
        names = [name for name in self._workspaces.open_names if may_see(name)]
        for name in self._counted.keys() - set(self._workspaces.open_names):
            del self._counted[name]
        found: list[WorkspaceState] = []
        for name in names:
            try:
                async with self._workspaces.use(name) as kb:
                    found.append(await self._read(name, kb))
            except HeliographError as error:
                _LOG.warning("a workspace is left out of what is shown: %s", error)
        return found

    async def freshness_seconds(self, may_see: Callable[[str], bool]) -> float | None:
        """Return how long the oldest document waits in any open workspace; None if one could not be read."""
        longest = 0.0
        try:
            for name in filter(may_see, self._workspaces.open_names):
                async with self._workspaces.use(name) as kb:
                    since = await _waiting_since(kb, await self._jobs.state(name, 0))
                longest = max(longest, 0.0 if since is None else time.time() - since)
        except HeliographError as error:
            _LOG.warning("how long documents wait cannot be read: %s", error)
            return None
        return longest

    async def engines(self, name: str) -> list[EngineState] | None:
        """Return how other engines follow the store of a workspace; None if it is not open, or cannot be read."""
        if name not in self._workspaces.open_names:
            return None
        try:
            async with self._workspaces.use(name) as kb:
                lags, troubles = await kb.lags(), await kb.troubles()
        except HeliographError as error:
            _LOG.warning("how engines follow a workspace cannot be read: %s", error)
            return None
        return [EngineState(engine, lag, troubles.get(engine, "")) for engine, lag in lags.items()]

    async def _read(self, name: str, kb: AsyncHeliograph) -> WorkspaceState:
        pipeline = await self._jobs.state(name, 0)
        store = kb.store
        return WorkspaceState(
            name,
            await self._count(name, kb),
            waiting_since=await _waiting_since(kb, pipeline),
            jobs=_count_jobs(pipeline),
            lags=await store.get_lags(),
        )

    async def _count(self, name: str, kb: AsyncHeliograph) -> Stats:
        known, started = self._counted.get(name), time.monotonic()
        if known is not None and known.engine is kb:
            if started < known.due or known.stats.data_version == await kb.store.get_data_version():
                return known.stats
            started = time.monotonic()
        stats = await kb.stats()
        now = time.monotonic()
        self._counted[name] = _Counted(stats, now + (now - started) / _SHARE_OF_TIME, kb)
        return stats


async def _waiting_since(kb: AsyncHeliograph, pipeline: PipelineState) -> float | None:
    """Return when the oldest of what waits was accepted: a document, or a file or address that is not read yet."""
    page = await kb.documents(DocumentQuery(WAITING_STATUSES, sort="updated_at", limit=1))
    moments = [document.updated_at for document in page.documents]
    moments += [job.created_at for job in pipeline.jobs if LANES[job.kind] is Lane.READING and job.is_unfinished]
    return min(moments).timestamp() if moments else None


def _count_jobs(pipeline: PipelineState) -> dict[tuple[str, str], int]:
    """Return unfinished jobs per kind and state."""
    running = Counter(job.kind for job in pipeline.jobs if job.state is JobState.RUNNING)
    counts: dict[tuple[str, str], int] = {}
    for kind, total in pipeline.counts.items():
        counts[kind.value, JobState.RUNNING.value] = running[kind]
        counts[kind.value, JobState.WAITING.value] = max(0, total - running[kind])
    return counts
