"""Simulates by discrete events how far a cluster that reads documents scales over PostgreSQL, and where it stops.

Costs are measured first, on this machine. A worker reads a document of ten chunks in the CPU time that local models
take for ten chunks of this project's pages. An owner commits what is waiting, at most six such documents together and
one commit after the other: by its own CPU time, the server's, and the round trips of a bulk insert into a real
PostgreSQL, each of which waits for the latency besides. That is while a workspace is filled for the first time, and
("indexes kept up") where a commit also adds to the indexes of its vectors, here of 2,000 chunks. A worker has at most
ten documents under way, those that wait for their commit among them. The server has 8 cores, which all owners share,
each with a workspace and an equal part of the workers. Messages between owner and workers take no time.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from tests.servers.postgres import running_postgres

from benchmarks.registry import Options
from benchmarks.report import Figure, Findings
from benchmarks.scale import CHUNKS, report_document
from benchmarks.scale_postgres import Bench, Side
from heliograph import AsyncHeliograph
from heliograph.stores.postgres import search

__all__ = ["TITLE", "Cluster", "run", "simulate"]

TITLE = "A cluster that reads, simulated"

_PAGES = Path(__file__).parents[1] / "docs"
_WORKERS = (2, 4, 8, 16, 32, 64)
# Milliseconds of a round trip, owners, whether there are indexes of vectors that a commit keeps up to date.
_COLUMNS = ((1, 1, False), (5, 1, False), (20, 1, False), (20, 4, False), (5, 1, True), (5, 4, True))
_MILLISECOND = 0.001
_DOCUMENTS_PER_WORKER = 200


@dataclass(frozen=True, slots=True)
class Cluster:
    """What is simulated; times are seconds, of one document where nothing else is said.

    Attributes:
        read: CPU time of a worker.
        own: CPU time of the owner.
        server: CPU time of the database server.
        workers: How many read, a multiple of `owners`.
        owners: How many commit, each into a workspace of its own.
        latency: Of a round trip to the server.
        trips: Round trips of a joint commit, one after the other.
        most_joint: Documents that one commit takes.
        most_under_way: Documents begun and not committed, for each worker.
        server_cores: Commits that the server works on at once.
        spread: How far the time of a document is from the mean at the most, as a share of it.
    """

    read: float
    own: float
    server: float
    workers: int = 1
    owners: int = 1
    latency: float = 0.0
    trips: float = 7.0
    most_joint: int = 6
    most_under_way: int = 10
    server_cores: int = 8
    spread: float = 0.5

    @property
    def waiting(self) -> float:
        """Seconds that a document of the largest joint commit waits for round trips."""
        return self.trips * self.latency / self.most_joint

    @property
    def bound(self) -> float:
        """Documents a second that the owners and the server can take in, whatever the number of workers."""
        of_owners = self.owners / (self.own + self.server + self.waiting)
        return min(of_owners, self.server_cores / self.server) if self.server else of_owners


@dataclass(slots=True)
class _Owner:
    unread: int
    idle_workers: int
    under_way: int = 0
    waiting: int = 0
    is_committing: bool = False


class _Simulation:
    def __init__(self, cluster: Cluster, documents: int) -> None:
        self._cluster = cluster
        self._random = random.Random(7)
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._tickets = count()
        self._free_from = [0.0] * cluster.server_cores
        self._workers = cluster.workers // cluster.owners
        self._owners = [_Owner(documents // cluster.owners, self._workers) for _ in range(cluster.owners)]
        self.now = 0.0

    def run(self) -> float:
        """Run until every document is committed; return the seconds that took."""
        for owner in self._owners:
            self._read(owner)
        while self._events:
            self.now, _, happen = heappop(self._events)
            happen()
        return self.now

    def _after(self, seconds: float, happen: Callable[[], None]) -> None:
        heappush(self._events, (self.now + seconds, next(self._tickets), happen))

    def _read(self, owner: _Owner) -> None:
        while owner.idle_workers and owner.unread and owner.under_way < self._cluster.most_under_way * self._workers:
            owner.idle_workers -= 1
            owner.unread -= 1
            owner.under_way += 1
            spread = self._random.uniform(-self._cluster.spread, self._cluster.spread)
            self._after(self._cluster.read * (1 + spread), lambda: self._finish_reading(owner))

    def _finish_reading(self, owner: _Owner) -> None:
        owner.idle_workers += 1
        owner.waiting += 1
        self._commit(owner)
        self._read(owner)

    def _commit(self, owner: _Owner) -> None:
        if owner.is_committing or not owner.waiting:
            return
        documents = min(owner.waiting, self._cluster.most_joint)
        owner.is_committing, owner.waiting = True, owner.waiting - documents
        seconds = documents * self._cluster.own + self._cluster.trips * self._cluster.latency
        self._after(seconds, lambda: self._serve(owner, documents))

    def _serve(self, owner: _Owner, documents: int) -> None:
        done = max(self.now, heappop(self._free_from)) + documents * self._cluster.server
        heappush(self._free_from, done)
        self._after(done - self.now, lambda: self._finish_commit(owner, documents))

    def _finish_commit(self, owner: _Owner, documents: int) -> None:
        owner.is_committing, owner.under_way = False, owner.under_way - documents
        self._commit(owner)
        self._read(owner)


def simulate(cluster: Cluster, documents: int) -> float:
    """Return the seconds until so many documents are committed, each owner an equal part of them."""
    return _Simulation(cluster, documents).run()


def run(options: Options) -> Findings:
    """Measure the costs, and simulate."""
    with TemporaryDirectory() as folder:
        waiting, kept = asyncio.run(_measure(Path(folder), 20 if options.quick else 100))
    figures: list[Figure] = []
    for latency, owners, is_kept in _COLUMNS:
        column = f"{latency} ms" + f", {owners} owners" * (owners > 1) + ", indexes kept up" * is_kept
        costs = kept if is_kept else waiting
        cluster = replace(costs, latency=latency * _MILLISECOND, owners=owners)
        for workers in _WORKERS:
            documents = _DOCUMENTS_PER_WORKER * workers
            if workers >= owners:
                rate = documents / simulate(replace(cluster, workers=workers), documents)
                figures.append(Figure(f"{workers} workers, documents a second: {column}", rate))
        figures += [
            Figure(f"most that is committed, documents a second: {column}", cluster.bound),
            Figure(f"workers that this keeps busy: {column}", cluster.bound * cluster.read),
            Figure(f"of a document's commit the owner's CPU, ms: {column}", cluster.own / _MILLISECOND),
            Figure(f"of a document's commit the server's CPU, ms: {column}", cluster.server / _MILLISECOND),
            Figure(f"of a document's commit round trips, ms: {column}", cluster.waiting / _MILLISECOND),
        ]
    measured = (
        f"A worker reads a document in {waiting.read:.2f} s, a joint commit makes {waiting.trips:.1f} round trips."
    )
    return Findings(tuple(figures), (measured,))


async def _measure(folder: Path, documents: int) -> list[Cluster]:
    """Return what one worker and one owner take, without indexes of vectors and with."""
    found, read = list[Cluster](), await _measure_reading(folder / "reading", documents // 20)
    with running_postgres() as server, pytest.MonkeyPatch.context() as patch:
        bench = Bench(folder / "postgres", server)
        for first in (0, 2 * documents):
            reports = [report_document(number) for number in range(first, first + 2 * documents)]
            async with bench.open() as kb:
                # Indexes that are due are built when this ends.
                await kb.insert(reports[:documents])
                side, version = Side(), await kb.store.get_data_version()
                await bench.take(kb, kb.insert(reports[documents:]), side)
                # One commit takes all in as pending, and each is looked at once more before it is read.
                trips = (side.trips - documents) / (await kb.store.get_data_version() - version - 1)
            own, served = side.here.laps[0] * _MILLISECOND / documents, side.server / documents
            found.append(Cluster(read, own, served, trips=trips))
            patch.setattr(search, "_WORTH_AN_INDEX", documents)
    return found


async def _measure_reading(folder: Path, pages: int) -> float:
    texts = [page.read_text("utf-8") for page in sorted(_PAGES.glob("*.md"))[:pages]]
    async with AsyncHeliograph(folder) as kb:
        await kb.insert("The models are loaded before anything is measured.")
        before, seconds = (await kb.stats()).chunks, time.process_time()
        await kb.insert(texts)
        return (time.process_time() - seconds) / ((await kb.stats()).chunks - before) * CHUNKS
