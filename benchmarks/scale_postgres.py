"""Fills workspaces of several sizes on PostgreSQL and measures what they cost, here and on the server.

Documents and questions are those of `scale`, the server the one that the tests start, with 1 GB of shared buffers; it
does not wait for its disk. "here" is CPU time of this process, a median; "server" the CPU time of all the server's
processes by the number of what was done, as the system counts it in hundredths of a second. A round trip is an answer
that was waited for. A bulk insert ends when the indexes of its vectors are built, and each size begins with an empty
workspace. Sizes are 5,000 and 25,000 chunks; arguments are others.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg
from tests.servers.postgres import PostgresServer, running_postgres

from benchmarks.corpus import HashEmbedding
from benchmarks.measure import Stopwatch, growth_exponent
from benchmarks.registry import Options
from benchmarks.report import Figure, Findings
from benchmarks.scale import CHUNK_TOKENS, CHUNKS, DIMENSION, StatementExtractor, plant_question, report_document
from benchmarks.stores_engines import Engine, RoundTrips
from heliograph import AsyncHeliograph, Settings

__all__ = ["TITLE", "Bench", "Side", "run"]

TITLE = "Workspaces on PostgreSQL by size"

_MODES = ("naive", "mix", "fusion")
_WARM_UP = 3
_SHARED_BUFFERS = "1GB"
_BYTES = "SELECT pg_database_size(current_database())"
_HNSW_BYTES = "SELECT coalesce(sum(pg_relation_size(oid)), 0)::bigint FROM pg_class WHERE relname LIKE '%_hnsw_%'"


@dataclass
class Side:
    """What an operation took, each time.

    Attributes:
        here: CPU milliseconds of this process.
        server: CPU seconds of the server, added up.
        trips: Round trips, added up.
    """

    here: Stopwatch = field(default_factory=Stopwatch)
    server: float = 0.0
    trips: int = 0

    def figures(self, what: str) -> dict[str, float]:
        """Return what is told of it."""
        count = len(self.here.laps)
        return {
            f"{what}, here, ms CPU": self.here.median(),
            f"{what}, server, ms CPU": 1000 * self.server / count,
            f"{what}, round trips": self.trips / count,
        }


class Bench:
    """A workspace on a server, and what its operations take."""

    def __init__(self, folder: Path, server: PostgresServer) -> None:
        self._url = server.make_database()
        self._engine = Engine(TITLE, {}, is_home=True, server=server.pid)
        self._trips = RoundTrips()
        self._settings = Settings.load(
            store={"url": self._url, "workspace": "scale", "data_dir": folder}, ingest={"chunk_tokens": CHUNK_TOKENS}
        )

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[AsyncHeliograph]:
        """Open the workspace."""
        embedding, extractor = HashEmbedding(DIMENSION), StatementExtractor()
        async with AsyncHeliograph(settings=self._settings, embedding=embedding, extractor=extractor) as kb:
            yield kb

    async def take(self, kb: AsyncHeliograph, work: Awaitable[object], side: Side) -> None:
        """Do something and note what it took."""
        trips, server = self._trips.total(kb), self._engine.server_seconds()
        with side.here.lap():
            await work
        side.server += self._engine.server_seconds() - server
        side.trips += self._trips.total(kb) - trips

    async def measure(self, size: int, repeats: int) -> dict[str, float]:
        """Fill the workspace and use it."""
        documents, filling = size // CHUNKS, Side()
        async with self.open() as kb:
            await self.take(kb, kb.insert([report_document(number) for number in range(documents)]), filling)
        costs = {
            "bulk insert of a chunk, here, ms CPU": filling.here.laps[0] / size,
            "bulk insert of a chunk, server, ms CPU": 1000 * filling.server / size,
        }
        with psycopg.connect(self._url, autocommit=True) as connection:
            # As autovacuum does by and by.
            connection.execute("ANALYZE")
            for what, query in (("on disk, MB", _BYTES), ("of these indexes of vectors, MB", _HNSW_BYTES)):
                costs[what] = connection.execute(query.encode()).fetchall()[0][0] / 1e6
        async with self.open() as kb:
            return costs | await self._use(kb, documents, repeats)

    async def _use(self, kb: AsyncHeliograph, documents: int, repeats: int) -> dict[str, float]:
        costs: dict[str, float] = {}
        for mode in _MODES:
            side = Side()
            for number in range(-_WARM_UP, repeats):
                question, param = plant_question(37 * (number + _WARM_UP))
                if number == 0:
                    side = Side()
                await self.take(kb, kb.query_data(question, replace(param, mode=mode)), side)
            costs |= side.figures(f"question {mode}")
        add, delete = Side(), Side()
        for number in range(documents, documents + repeats):
            document = replace(report_document(number), id=f"added-{number}")
            await self.take(kb, kb.insert([document]), add)
            await self.take(kb, kb.delete(f"added-{number}"), delete)
        return costs | add.figures("add one document") | delete.figures("delete one document")


def _give_memory(server: PostgresServer) -> None:
    """Have the server that the tests bring hold in memory what a server of one's own would."""
    if server.pid is None:
        return
    with psycopg.connect(server.make_database(), autocommit=True) as connection:
        connection.execute(f"ALTER SYSTEM SET shared_buffers = '{_SHARED_BUFFERS}'".encode())
    server.kill()
    server.start()


def run(options: Options) -> Findings:
    """Measure at each size."""
    if options.quick:
        sizes, repeats = (40, 80), 2
    else:
        sizes, repeats = tuple(map(int, options.arguments)) or (5_000, 25_000), 20
    with TemporaryDirectory() as folder, running_postgres() as server:
        _give_memory(server)
        costs = [asyncio.run(Bench(Path(folder), server).measure(size, repeats)) for size in sizes]
    figures: list[Figure] = []
    for what in costs[0]:
        values = [cost[what] for cost in costs]
        figures += [Figure(f"{what}: {size:,} chunks", value) for size, value in zip(sizes, values, strict=True)]
        if what.endswith("ms CPU") and not options.quick:
            figures.append(Figure(f"{what}: slope", growth_exponent(sizes, values)))
    return Findings(tuple(figures), (f"Documents of {CHUNKS} chunks, vectors of {DIMENSION}.",))
