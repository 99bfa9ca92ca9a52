"""Asks a workspace of 50,000 entities 300 different questions in each mode.

Taken is the CPU time of `query_data`, on one core: keywords given, embedding without cost, no answer written. The
workspace has some 3,600 chunks and 77,000 relations, vectors of 384. Budgets and counts are the defaults (40 entities
and relations, 20 chunks, 30,000 tokens), so contexts are full. Sixty other questions are asked before. Given is the
least median of five blocks of questions, since what else a shared machine does only ever adds.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from benchmarks.corpus import document_entities
from benchmarks.large_store import large_store, open_large_store
from benchmarks.measure import Stopwatch, pin
from benchmarks.registry import Options
from benchmarks.report import Figure, Findings
from heliograph import QueryParam

__all__ = ["TITLE", "question_and_param", "run"]

TITLE = "Building the context of a question"

_BLOCKS = 5
_WANTED = {"local": 6.0, "global": 6.0, "hybrid": None, "mix": 12.0, "naive": 2.0}


def run(options: Options) -> Findings:
    """Measure each mode."""
    how = pin()
    folder = large_store(400 if options.quick else 50_000)
    watches, sizes = asyncio.run(_measure(folder, 5 if options.quick else 300))
    figures = tuple(
        Figure(mode, watches[mode].median(_BLOCKS), "ms", at_most=most, note=watches[mode].spread())
        for mode, most in _WANTED.items()
    )
    shown = "; ".join(f"{mode}: {size}" for mode, size in sizes.items())
    return Findings(figures, (f"Median sizes of a context (entities, relations, chunks): {shown}. Timing {how}.",))


async def _measure(folder: Path, questions: int) -> tuple[dict[str, Stopwatch], dict[str, str]]:
    watches = {mode: Stopwatch() for mode in _WANTED}
    sizes: dict[str, list[tuple[int, ...]]] = {mode: [] for mode in _WANTED}
    async with open_large_store(folder) as kb:
        for number in range(-questions // _BLOCKS, questions):
            for mode, watch in watches.items():
                question, param = question_and_param(number, mode)
                with watch.lap():
                    found = await kb.query_data(question, param)
                sizes[mode].append(_size(found["data"]))
    for watch in watches.values():
        del watch.laps[:-questions]
    return watches, {mode: str(sorted(found)[len(found) // 2]) for mode, found in sizes.items()}


def question_and_param(number: int, mode: str) -> tuple[str, QueryParam]:
    """Return a question about entities of the corpus; each number gives another one."""
    names = document_entities(abs(7 * number))
    question = f"How does {names[0]} depend on {names[-1]} according to report {number}?"
    return question, QueryParam(mode=mode, ll_keywords=[names[0], names[-1]], hl_keywords=["maintenance", names[3]])


def _size(data: dict[str, list[object]]) -> tuple[int, ...]:
    return tuple(len(data.get(part, ())) for part in ("entities", "relationships", "chunks"))
