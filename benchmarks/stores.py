"""Fills every back end with 100,000 entities, or as many as are said, and uses it beside the embedded store.

`python -m benchmarks stores [NAME ...] [entities=100000]`: the home store `postgres` and, beside the
embedded store, graphs (`neo4j_graph`, `falkordb_graph`, `redis_graph`, `postgres_graph`), vectors (`qdrant_vectors`,
`postgres_vectors`), full text (`postgres_text`) and replies of models (`redis_cache`). Taken is the CPU
time of this process, on one core; both stores do the same by turns. A home store is filled by `heliograph migrate`,
what stands beside one by being opened. Documents are handed over by the fifty, and done when every engine has them;
questions are those of `query_context`. Extraction and embedding cost nothing, servers are on this machine, and what
they need is given beside it. Round trips are answers that were waited for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Set
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from benchmarks.large_store import large_store
from benchmarks.measure import Stopwatch, pin
from benchmarks.registry import Options
from benchmarks.report import Figure, Findings, read_reports
from benchmarks.stores_engines import ENGINES, Engine, counted_trips
from benchmarks.stores_measuring import MODES, TOP_KS, Costs, Sizes, measure_engine

__all__ = ["TITLE", "run"]

TITLE = "What each store costs"

_ENTITIES = 100_000
# Of a home store, beside the embedded one.
_MOST_INGEST, _MOST_QUERY = 3.0, 2.0
# Round trips that a question with top_k 160 may take beyond one with 10: each of three searches by vectors may have to
# look at late candidates.
_MOST_GROWTH = 3.0


def run(options: Options) -> Findings:
    """Measure those that are named, or all that are there; of the others, the figures of earlier runs stay."""
    names, entities = _read_arguments(options)
    sizes = Sizes(20, 10, 3, 3) if options.quick else Sizes(200, 50, 40, 10)
    how = pin()
    base = large_store(entities)
    figures: list[Figure] = []
    notes: list[str] = []
    about = f"{sizes.documents} documents, {sizes.questions} questions a mode; {how}."
    for name in names:
        try:
            with TemporaryDirectory() as folder, ENGINES[name]() as engine, counted_trips() as trips:
                costs = asyncio.run(measure_engine(engine, base, Path(folder), sizes, trips))
        except pytest.skip.Exception as missing:
            notes.append(f"{name} was left out: {missing}.")
            continue
        figures += _figures(engine, costs)
        notes += [f"{engine.title}: {engine.remark}."] if engine.remark else []
    kept = Findings((), ()) if options.quick else _earlier({_title(figure.name) for figure in figures})
    return Findings((*kept.figures, *figures), (about, *kept.notes, *notes))


def _earlier(titles: Set[str]) -> Findings:
    """Return what earlier runs found of back ends other than these."""
    report = read_reports().get("stores")
    if report is None:
        return Findings((), ())
    others = {_title(figure.name) for figure in report.figures} - titles
    return Findings(
        tuple(figure for figure in report.figures if _title(figure.name) in others),
        tuple(note for note in report.notes if _title(note) in others),
    )


def _title(text: str) -> str:
    """Return of which back end a figure or note is."""
    return text.partition(": ")[0]


def _read_arguments(options: Options) -> tuple[list[str], int]:
    names = [word for word in options.arguments if "=" not in word]
    if unknown := sorted(set(names) - ENGINES.keys()):
        raise ValueError(f"there are no stores {unknown}; there are {', '.join(ENGINES)}")
    sizes = [int(word.removeprefix("entities=")) for word in options.arguments if word.startswith("entities=")]
    return names or list(ENGINES), 400 if options.quick else next(iter(sizes), _ENTITIES)


def _figures(engine: Engine, costs: Costs) -> Iterator[Figure]:
    name, here, there = engine.title, costs.here, costs.there
    yield Figure(f"{name}: entities", costs.entities)
    yield Figure(f"{name}: filling", costs.fill_seconds, "s", note=f"{costs.fill_clock:.0f} s on the clock")
    yield Figure(f"{name}: entities filled in a CPU second", costs.entities / costs.fill_seconds)
    yield Figure(f"{name}: filling, the server's own", costs.server_fill, "s")
    most = _MOST_INGEST if engine.is_home else None
    yield from _beside(f"{name}: a document", here.document, there.document, most)
    yield Figure(f"{name}: a document, round trips", costs.document_trips)
    yield Figure(f"{name}: a document, the server's own", costs.server_document, "ms")
    for mode in MODES:
        yield from _beside(f"{name}: {mode}", here.questions[mode], there.questions[mode], _MOST_QUERY)
        trips = {top_k: costs.question_trips[mode, top_k] for top_k in TOP_KS}
        shown = ", ".join(f"{count:.3g} at {top_k}" for top_k, count in trips.items())
        yield Figure(f"{name}: {mode}, round trips", max(trips.values()), note=f"top_k: {shown}")
        yield Figure(f"{name}: {mode}, further round trips at top_k 160", _growth(trips), at_most=_MOST_GROWTH)
    yield Figure(f"{name}: a question, the server's own", costs.server_question, "ms")


def _beside(what: str, here: Stopwatch, there: Stopwatch, most: float | None) -> Iterator[Figure]:
    """Yield what a back end takes, what the embedded store took meanwhile, and their ratio."""
    yield Figure(what, there.median(), "ms", note=there.spread())
    yield Figure(f"{what}, SQLite", here.median(), "ms", note=here.spread())
    yield Figure(f"{what}, ratio", there.median() / here.median(), at_most=most)


def _growth(trips: Mapping[int, float]) -> float:
    """Return by how much more is waited for where most is asked for than where least is."""
    return max(0.0, trips[max(trips)] - trips[min(trips)])
