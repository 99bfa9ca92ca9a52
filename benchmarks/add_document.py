"""Adds single documents to a workspace that holds 100, 300, 1000 and 3000 already.

Taken is the CPU time of each call of `AsyncHeliograph.insert`, on one core. A document has one chunk of about 300
words, 21 entities and 22 relations; a third of the entities is shared by Zipf's law, so that hubs grow. Extraction and
embedding cost nothing. Settings are the defaults: every document is durable when the call returns. The workspaces of
all sizes are open at once and get each document in turn, so that what else the machine does meets all alike; given is
the least median of five blocks of documents, since it only ever adds.
"""

from __future__ import annotations

import asyncio
import shutil
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.corpus import CorpusExtractor, HashEmbedding, corpus_document
from benchmarks.measure import Stopwatch, pin
from benchmarks.registry import Options
from benchmarks.report import Figure, Findings
from heliograph import AsyncHeliograph

__all__ = ["TITLE", "measure", "run"]

TITLE = "Adding one document"

_DIMENSIONS = (1024, 384)
_STORED = (100, 300, 1000, 3000)
_MOST_MILLISECONDS = 8.0
_MOST_GROWTH = 1.5
_WARM_UP = 10
_BLOCKS = 5


def run(options: Options) -> Findings:
    """Measure for each dimension."""
    how = pin()
    stored, repeats = ((10, 20), 4) if options.quick else (_STORED, 100)
    figures: list[Figure] = []
    for dimension in _DIMENSIONS[:1] if options.quick else _DIMENSIONS:
        with TemporaryDirectory() as folder:
            watches = measure(Path(folder), dimension, stored, repeats)
        figures += _figures(dimension, watches)
    return Findings(tuple(figures), (f"{repeats} documents each, the least median of {_BLOCKS} blocks; {how}.",))


def measure(folder: Path, dimension: int, stored: tuple[int, ...], repeats: int) -> dict[int, Stopwatch]:
    """Add the same `repeats` documents to workspaces of these sizes, ascending; return the CPU times by size."""
    return asyncio.run(_add(folder, dimension, stored, repeats))


async def _add(folder: Path, dimension: int, stored: tuple[int, ...], repeats: int) -> dict[int, Stopwatch]:
    await _fill(folder, dimension, stored)
    watches = {size: Stopwatch() for size in stored}
    async with AsyncExitStack() as stack:
        opened = [await stack.enter_async_context(_open(folder / str(size), dimension)) for size in stored]
        for number in range(max(stored), max(stored) + _WARM_UP + repeats):
            document = corpus_document(number)
            for kb, watch in zip(opened, watches.values(), strict=True):
                with watch.lap():
                    await kb.insert(document)
    for watch in watches.values():
        del watch.laps[:_WARM_UP]
    return watches


async def _fill(folder: Path, dimension: int, stored: tuple[int, ...]) -> None:
    """Fill one workspace and keep a copy of it at every size."""
    count = 0
    for size in stored:
        async with _open(folder / "growing", dimension) as kb:
            await kb.insert([corpus_document(number) for number in range(count, size)])
        await asyncio.to_thread(shutil.copytree, folder / "growing", folder / str(size))
        count = size


def _open(folder: Path, dimension: int) -> AsyncHeliograph:
    return AsyncHeliograph(folder, embedding=HashEmbedding(dimension), extractor=CorpusExtractor())


def _figures(dimension: int, watches: dict[int, Stopwatch]) -> list[Figure]:
    figures = [
        Figure(
            f"{size:,} stored, vectors of {dimension}",
            watch.median(_BLOCKS),
            "ms",
            at_most=_MOST_MILLISECONDS if size == 1000 else None,
            note=watch.spread(),
        )
        for size, watch in watches.items()
    ]
    if {300, 3000} <= watches.keys():
        growth = watches[3000].median(_BLOCKS) / watches[300].median(_BLOCKS)
        figures.append(Figure(f"growth from 300 to 3,000, vectors of {dimension}", growth, at_most=_MOST_GROWTH))
    return figures
