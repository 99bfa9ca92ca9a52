"""Asks a workspace of 50,000 entities questions under filters that leave 1%, 50% and 99% of the documents.

Taken is the CPU time of `query_data`, on one core, as in `query_context`: keywords given, embedding without cost, no
answer written. `first` is the question right after a document that the filter leaves was replaced; the others are
different questions under the same filter, each after as many others, compared with the same questions without a
filter, asked in turn. Given is the least median of three blocks of questions.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from benchmarks.corpus import corpus_document
from benchmarks.large_store import large_store, open_large_store
from benchmarks.measure import Stopwatch, pin
from benchmarks.query_context import question_and_param
from benchmarks.registry import Options
from benchmarks.report import Figure, Findings
from heliograph import AsyncHeliograph
from heliograph.filters import Filter, Range

__all__ = ["TITLE", "run"]

TITLE = "Questions under a filter"

_BLOCKS = 3
_FIRST = 9
_MODES = ("mix", "local", "naive", "fusion")
_SHARES = {"1%": 0.01, "50%": 0.5, "99%": 0.99}
_MOST = 2.0


def run(options: Options) -> Findings:
    """Measure each share of the documents in each mode."""
    how = pin()
    folder = large_store(400 if options.quick else 50_000)
    # Commits are made in a copy, since the workspace serves other benchmarks too.
    with tempfile.TemporaryDirectory() as copy:
        shutil.copytree(folder, copy, dirs_exist_ok=True)
        return asyncio.run(_measure(Path(copy), 5 if options.quick else 60, how))


async def _measure(folder: Path, questions: int, how: str) -> Findings:
    async with open_large_store(folder) as kb:
        documents = sum((await kb.stats()).documents.values())
        filters: Mapping[str, Filter] = {
            name: Range("number", lt=max(1, round(share * documents))) for name, share in _SHARES.items()
        }
        await _ask(kb, "mix", None, 0)
        first = {name: await _first(kb, filter_) for name, filter_ in filters.items()}
        figures: list[Figure] = []
        for mode in _MODES:
            watches = await _compare(kb, mode, filters, questions)
            base = watches[""].median(_BLOCKS)
            figures.append(Figure(f"{mode}, no filter", base, "ms", note=watches[""].spread()))
            for name in filters:
                ratio = watches[name].median(_BLOCKS) / base
                figures.append(Figure(f"{mode}, {name}", ratio, "x", at_most=_MOST, note=watches[name].spread()))
    figures += [Figure(f"first, {name}", cost, "ms") for name, cost in first.items()]
    return Findings(tuple(figures), (f"{documents:,} documents. Timing {how}.",))


async def _compare(
    kb: AsyncHeliograph, mode: str, filters: Mapping[str, Filter], questions: int
) -> dict[str, Stopwatch]:
    watches = {name: Stopwatch() for name in ("", *filters)}
    for number in range(-questions, questions):
        for name, watch in watches.items():
            with watch.lap():
                await _ask(kb, mode, filters.get(name), number)
    for watch in watches.values():
        del watch.laps[:-questions]
    return watches


async def _first(kb: AsyncHeliograph, filter_: Filter) -> float:
    """Return the CPU time of the first question under a filter after documents that match it were replaced."""
    await _ask(kb, "mix", filter_, 0)
    watch = Stopwatch()
    for number in range(_FIRST):
        await kb.insert(corpus_document(0, version=number + 1))
        await _ask(kb, "mix", None, number)
        with watch.lap():
            await _ask(kb, "mix", filter_, number)
    return watch.median(_BLOCKS)


async def _ask(kb: AsyncHeliograph, mode: str, filter_: Filter | None, number: int) -> None:
    question, param = question_and_param(number, mode)
    await kb.query_data(question, replace(param, filter=filter_))
