"""Asks a large workspace questions in modes `fusion`, `mix` and `naive` in turn, and some that name nothing.

Taken is the CPU time of `query_data` per question, of all threads, on one core: linking, channels, bridges, the walk,
paths, entities, relations and context. Models cost nothing (vectors are looked up by a checksum, no chat model), so
what is left is the engine's own. `benchmarks.natural_corpus` says what documents and questions are like; vectors have
the 384 dimensions of the offline embedding.

The workspace has 100,000 chunks with `--all`, else 10,000 (`chunks=N`: so many; several sizes show how the cost grows),
and is kept in the system's folder for temporary files; its filling takes long and goes on where it was stopped. What
is read should be in the system's cache, so the first run after a while does not count: from a disk a question costs up
to twice as much.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from benchmarks.corpus import HashEmbedding
from benchmarks.measure import Stopwatch, pin
from benchmarks.natural_corpus import NaturalExtractor, nameless_question, natural_document, natural_question
from benchmarks.registry import Options
from benchmarks.report import Figure, Findings
from heliograph import AsyncHeliograph, QueryParam

__all__ = ["TITLE", "run"]

TITLE = "A question in mode `fusion`"

_NAMELESS = "fusion, nothing named"
# What a question may cost, in CPU milliseconds.
_BOUNDS = {"fusion": 25.0, _NAMELESS: 25.0, "mix": 20.0, "naive": 10.0}
_DIMENSION = 384
# Made-up words have four times as many tokens as real ones, and so has what the default budget is meant for.
_TOKENS = 4 * 30_000
_CHUNKS = 10_000
_ALL_CHUNKS = 100_000
_BATCH = 500
_BLOCKS = 5
_WARM_UP = 5


def run(options: Options) -> Findings:
    """Measure the three modes side by side, at each size."""
    how = pin()
    given = [int(word.removeprefix("chunks=")) for word in options.arguments]
    sizes = given or [200 if options.quick else _ALL_CHUNKS if options.everything else _CHUNKS]
    figures = [figure for size in sizes for figure in asyncio.run(_measure(size, 10 if options.quick else 100))]
    return Findings(tuple(figures), (f"the least median of {_BLOCKS} blocks; {how}.",))


async def _measure(chunks: int, questions: int) -> list[Figure]:
    watches = {mode: Stopwatch() for mode in _BOUNDS}
    async with await _filled(chunks) as kb:
        for place in range(_WARM_UP + questions):
            number = 1 + place * (chunks // (_WARM_UP + questions + 1)) + place % 2
            for label, watch in watches.items():
                question = nameless_question(number) if label == _NAMELESS else natural_question(number)
                param = QueryParam(mode="fusion" if label == _NAMELESS else label, max_total_tokens=_TOKENS)
                with watch.lap():
                    answer = await kb.query_data(question, param)
                # Vectors alone may hold nothing near enough among few texts of random words.
                if label != "naive" and not answer["data"].get("chunks"):
                    raise RuntimeError(f"{label!r} found nothing for {question!r}; delete the folder and run again")
    for watch in watches.values():
        del watch.laps[:_WARM_UP]
    return [
        Figure(f"{mode}, {chunks:,} chunks", watch.median(_BLOCKS), "ms", at_most=_BOUNDS[mode], note=watch.spread())
        for mode, watch in watches.items()
    ]


async def _filled(chunks: int) -> AsyncHeliograph:
    """Return a workspace of so many documents, not opened yet."""
    folder = Path(tempfile.gettempdir()) / f"heliograph-benchmark-natural-{chunks}"
    async with _open(folder) as kb:
        for start in range((await kb.stats()).chunks // _BATCH * _BATCH, chunks, _BATCH):
            await kb.insert([natural_document(number) for number in range(start, min(start + _BATCH, chunks))])
    return _open(folder)


def _open(folder: Path) -> AsyncHeliograph:
    return AsyncHeliograph(folder, embedding=HashEmbedding(_DIMENSION, 16_384), extractor=NaturalExtractor())
