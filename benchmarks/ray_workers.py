"""Takes the same documents in on one worker and on two of a Ray cluster on this machine, in short turns.

Reading a document burns a quarter of a second of CPU time in the worker (arithmetic, timed by the thread's own clock,
beside the local extraction), so what is measured is how the work is shared out; embedding costs next to nothing. Taken
is the wall time from the call to the last commit with all workers running, the best of all turns, since a machine that
others use as well has no two cores to give at times. How many workers were at it at once, on average, hardly depends on
others: it is what the speedup comes to on cores that are free. And the CPU time of the process that owns the store, per
document, which bounds how many workers it can keep busy. Every document is durable. With an argument, so many turns.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.corpus import HashEmbedding
from benchmarks.registry import Options
from benchmarks.report import Figure, Findings
from heliograph import AsyncHeliograph, Settings
from heliograph.distributed.ray_cluster import RayLauncher
from heliograph.extraction.base import ignore_progress
from heliograph.extraction.local import LocalExtractor
from heliograph.ingest.models import NewDocument
from heliograph.models import Chunk, Document, Extraction

__all__ = ["TITLE", "BurningExtractor", "run"]

TITLE = "Reading on a Ray cluster"

_WORKERS = (1, 2)
_BURNT_SECONDS = 0.25
_LEAST_SPEEDUP = 1.7
_DIMENSION = 384


class BurningExtractor(LocalExtractor):
    """Extracts locally, burns CPU time for each document, and notes when.

    Args:
        seconds: CPU time burnt per document.
        log: File that gets a line per document: process, and the moments of beginning and end.
    """

    def __init__(self, seconds: float, log: Path) -> None:
        super().__init__()
        self._seconds = seconds
        self._log = log

    async def extract_in_context(
        self,
        document: Document,
        chunks: Sequence[Chunk],
        contexts: Sequence[str],
        on_chunk: Callable[[], None] = ignore_progress,
    ) -> list[Extraction]:
        """See `Extractor.extract_in_context`."""
        began = time.monotonic()
        await asyncio.to_thread(_burn, self._seconds)
        with self._log.open("a", encoding="utf-8") as file:
            file.write(f"{os.getpid()} {began} {time.monotonic()}\n")
        return await super().extract_in_context(document, chunks, contexts, on_chunk)


@dataclass
class _Taken:
    """What the turns with so many workers took, per document: seconds of wall time, and of CPU in this process.

    Attributes:
        wall: Of each turn.
        own: Likewise.
        busy: Workers at it at once, on average.
    """

    wall: list[float] = field(default_factory=list[float])
    own: list[float] = field(default_factory=list[float])
    busy: list[float] = field(default_factory=list[float])


def run(options: Options) -> Findings:
    """Measure both."""
    turns = 1 if options.quick else int((options.arguments or ("15",))[0])
    documents = 4 if options.quick else 8
    taken = asyncio.run(_measure(documents, turns))
    one, two = (taken[workers] for workers in _WORKERS)
    wall = [min(item.wall) * 1000 for item in (one, two)]
    own = [statistics.median(item.own) * 1000 for item in (one, two)]
    busy = [statistics.median(item.busy) for item in (one, two)]
    figures = (
        Figure("a document, 1 worker", wall[0], "ms", note=_spread(one.wall)),
        Figure("a document, 2 workers", wall[1], "ms", note=_spread(two.wall)),
        Figure("speedup, best turns", wall[0] / wall[1], at_least=_LEAST_SPEEDUP),
        Figure("workers at it at once, of 1", busy[0]),
        Figure("workers at it at once, of 2", busy[1]),
        Figure("speedup, on free cores", busy[1] / busy[0], at_least=_LEAST_SPEEDUP),
        Figure("CPU of the process with the store, 1 worker", own[0], "ms"),
        Figure("CPU of the process with the store, 2 workers", own[1], "ms"),
    )
    burnt = f"{turns} turns of each, {documents} documents in a turn, {_BURNT_SECONDS * 1000:.0f} ms of CPU burnt each."
    return Findings(figures, (burnt,))


async def _measure(documents: int, turns: int) -> dict[int, _Taken]:
    taken = {workers: _Taken() for workers in _WORKERS}
    # One cluster for both; it counts cores by what it is told.
    settings = Settings.load(ray={"workers": sum(_WORKERS), "start_timeout_seconds": 600})
    launcher = RayLauncher(settings.ray)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(launcher.close)
        await launcher.open()
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        log = folder / "log"
        engines = {workers: await stack.enter_async_context(_engine(settings, workers, folder)) for workers in _WORKERS}
        for workers, kb in engines.items():
            # As many as there are places, so that all workers are running.
            await kb.insert([_document(-1 - place) for place in range(workers * settings.ray.documents_per_worker)])
        for turn in range(turns):
            for workers, kb in engines.items():
                log.unlink(missing_ok=True)
                await _take_in(kb, range(turn * documents, (turn + 1) * documents), log, taken[workers])
    return taken


def _engine(settings: Settings, workers: int, folder: Path) -> AsyncHeliograph:
    ray = settings.ray.model_copy(update={"workers": workers})
    return AsyncHeliograph(
        folder / str(workers),
        settings=settings.model_copy(update={"ray": ray}),
        embedding=HashEmbedding(_DIMENSION),
        extractor=BurningExtractor(_BURNT_SECONDS, folder / "log"),
        engine="ray",
    )


async def _take_in(kb: AsyncHeliograph, numbers: range, log: Path, taken: _Taken) -> None:
    documents = [_document(number) for number in numbers]
    started, burnt = time.monotonic(), time.process_time()
    await kb.insert(documents)
    wall = time.monotonic() - started
    taken.wall.append(wall / len(documents))
    taken.own.append((time.process_time() - burnt) / len(documents))
    taken.busy.append(_busy_seconds(log) / wall)


def _busy_seconds(log: Path) -> float:
    """Return how long workers were at it, added up; what one does at the same time counts once."""
    spans: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for line in log.read_text("utf-8").splitlines():
        process, began, ended = line.split()
        spans[process].append((float(began), float(ended)))
    total = 0.0
    for of_one in spans.values():
        until = 0.0
        for began, ended in sorted(of_one):
            total += max(0.0, ended - max(began, until))
            until = max(until, ended)
    return total


def _document(number: int) -> NewDocument:
    text = f"# Station {number}\n\nMiriam Vale of Dorn Station {number} calibrates pump K{number} for Carrow Works."
    return NewDocument(text, f"stations/{number}.md")


def _burn(seconds: float) -> None:
    until = time.thread_time() + seconds
    value = 1
    while time.thread_time() < until:
        for _ in range(1_000):
            value = value * 31 % 1_000_003


def _spread(values: Sequence[float]) -> str:
    return f"{min(values) * 1000:.0f} to {max(values) * 1000:.0f}"
