"""What one back end takes beside the embedded store: to be filled, to take documents in, to answer questions.

Both have the same knowledge and are asked by turns, so that what else the machine does falls on both alike.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from benchmarks.corpus import CorpusExtractor, HashEmbedding, corpus_document
from benchmarks.measure import Stopwatch
from benchmarks.query_context import question_and_param
from benchmarks.stores_engines import Engine, RoundTrips
from heliograph import AsyncHeliograph, Settings
from heliograph.maintenance.migration import migrate_workspace
from heliograph.settings import StoreSettings

__all__ = ["MODES", "TOP_KS", "Costs", "Side", "Sizes", "measure_engine"]

MODES = ("mix", "local", "naive", "fusion")
TOP_KS = (10, 40, 160)
_DIMENSION = 384
_WARM_UP = 5


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is done.

    Attributes:
        documents: Taken in, in portions of `batch`.
        batch: Handed over at once.
        questions: Asked in each mode.
        counted: Of these, asked again in each mode with each `top_k`, to count round trips.
    """

    documents: int
    batch: int
    questions: int
    counted: int


@dataclass(slots=True)
class Side:
    """What one store took of this process.

    Attributes:
        document: CPU milliseconds a document; a lap is the mean of a portion.
        questions: CPU milliseconds a question, by mode.
    """

    document: Stopwatch = field(default_factory=Stopwatch)
    questions: dict[str, Stopwatch] = field(default_factory=lambda: {mode: Stopwatch() for mode in MODES})


@dataclass(slots=True)
class Costs:
    """What a back end took, and the embedded store beside it.

    Attributes:
        here: The embedded store.
        there: The back end.
        fill_seconds: CPU seconds of this process until all that the embedded store has was in the back end.
        fill_clock: The same on the clock.
        entities: How many there were.
        document_trips: Round trips a document.
        question_trips: Round trips a question, by mode and `top_k`.
        server_fill: CPU seconds of the server, filling.
        server_document: CPU milliseconds of the server, a document.
        server_question: Likewise, a question of any mode.
    """

    here: Side = field(default_factory=Side)
    there: Side = field(default_factory=Side)
    fill_seconds: float = 0.0
    fill_clock: float = 0.0
    entities: int = 0
    document_trips: float = 0.0
    question_trips: dict[tuple[str, int], float] = field(default_factory=dict[tuple[str, int], float])
    server_fill: float = 0.0
    server_document: float = 0.0
    server_question: float = 0.0


async def measure_engine(engine: Engine, base: Path, folder: Path, sizes: Sizes, trips: RoundTrips) -> Costs:
    """Fill a back end, then have it and the embedded store do the same by turns.

    Args:
        engine: Runs, and is empty.
        base: Workspace of the embedded store, which stays as it is.
        folder: For copies of it.
        sizes: How much is done.
        trips: Counts.
    """
    costs = Costs()
    shutil.copytree(base / "default", folder / "embedded" / "default")
    async with AsyncExitStack() as stack:
        there = await stack.enter_async_context(_filled(engine, folder, costs))
        here = await stack.enter_async_context(_workspace(StoreSettings(data_dir=folder / "embedded")))
        costs.entities = (await here.stats()).entities
        run = _Run(engine, here, there, costs, trips)
        await run.ingest(sizes)
        await run.ask(sizes.questions)
        await run.count(sizes.counted)
    return costs


@asynccontextmanager
async def _filled(engine: Engine, folder: Path, costs: Costs) -> AsyncGenerator[AsyncHeliograph]:
    """Open the back end, filled with what the embedded store has."""
    settings = StoreSettings(data_dir=folder / "home").model_copy(update=dict(engine.settings))
    watch, start, before = Stopwatch(), time.monotonic(), engine.server_seconds()
    if not engine.is_home:
        shutil.copytree(folder / "embedded" / "default", folder / "home" / "default")
    async with AsyncExitStack() as stack:
        with watch.lap():
            if engine.is_home:
                await migrate_workspace(StoreSettings(data_dir=folder / "embedded"), settings)
            kb = await stack.enter_async_context(_workspace(settings))
            await _catch_up(kb)
        costs.fill_seconds, costs.fill_clock = watch.laps[0] / 1000, time.monotonic() - start
        costs.server_fill = engine.server_seconds() - before
        yield kb


def _workspace(store: StoreSettings) -> AsyncHeliograph:
    embedding, extractor = HashEmbedding(_DIMENSION), CorpusExtractor()
    return AsyncHeliograph(settings=Settings(store=store), embedding=embedding, extractor=extractor)


async def _catch_up(kb: AsyncHeliograph) -> None:
    """Have what stands beside the store take in all that was committed."""
    for follower in kb.store.followers:
        await follower.finish()


class _Run:
    def __init__(
        self, engine: Engine, here: AsyncHeliograph, there: AsyncHeliograph, costs: Costs, trips: RoundTrips
    ) -> None:
        self._engine = engine
        self._costs = costs
        self._there = there
        self._sides: Sequence[tuple[AsyncHeliograph, Side]] = ((here, costs.here), (there, costs.there))
        self._trips = trips

    async def ingest(self, sizes: Sizes) -> None:
        first = sum((await self._there.stats()).documents.values())
        before, trips = self._engine.server_seconds(), self._trips.total(self._there)
        for start in range(first, first + sizes.documents, sizes.batch):
            batch = [corpus_document(number) for number in range(start, start + sizes.batch)]
            for kb, side in self._sides:
                with side.document.lap():
                    await kb.insert(batch)
                    await _catch_up(kb)
                side.document.laps[-1] /= sizes.batch
        self._costs.document_trips = (self._trips.total(self._there) - trips) / sizes.documents
        self._costs.server_document = (self._engine.server_seconds() - before) * 1000 / sizes.documents

    async def ask(self, questions: int) -> None:
        before = self._engine.server_seconds()
        for number in range(-_WARM_UP, questions):
            for mode in MODES:
                question, param = question_and_param(number, mode)
                for kb, side in self._sides:
                    with side.questions[mode].lap():
                        await kb.query_data(question, param)
        asked = (questions + _WARM_UP) * len(MODES)
        self._costs.server_question = (self._engine.server_seconds() - before) * 1000 / asked
        for _, side in self._sides:
            for watch in side.questions.values():
                del watch.laps[:-questions]

    async def count(self, questions: int) -> None:
        for mode in MODES:
            for top_k in TOP_KS:
                before = self._trips.total(self._there)
                for number in range(questions):
                    question, param = question_and_param(number, mode)
                    await self._there.query_data(question, replace(param, top_k=top_k, chunk_top_k=top_k))
                self._costs.question_trips[mode, top_k] = (self._trips.total(self._there) - before) / questions
