"""How much each parameter of fused retrieval matters: R@5 with one of them halved or doubled, all others as they are.

Every passage is a document, its title a first line; offline embedding, local extractor; `data=FOLDER` keeps the indexes
and uses them again. Only the ranking of chunks is asked for, not all of a `fusion` query. Of a large set the first 100
questions are asked. A change of a point or two is chance. The table of all parameters goes into `docs/retrieval.md`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path

from benchmarks.marked_tables import USUAL
from benchmarks.ranked_set import open_ranked_set, wanted_sets
from benchmarks.registry import Options
from benchmarks.report import Figure, Findings
from heliograph.query.plan import FusionParameters

__all__ = ["TITLE", "run"]

TITLE = "Sensitivity of fused retrieval"

_DEFAULT = ("hotpotqa_train100",)
_FACTORS = {"halved": 0.5, "doubled": 2.0}


def run(options: Options) -> Findings:
    """Measure each set with each parameter changed."""
    folders, data = wanted_sets(options, _DEFAULT)
    figures = [figure for folder in folders for figure in asyncio.run(_measure(folder, data, options.quick))]
    return Findings(tuple(figures), ())


async def _measure(folder: Path, data: Path | None, is_quick: bool) -> list[Figure]:
    async with open_ranked_set(folder, data, is_quick) as ranked:
        figures = [
            Figure(f"{ranked.name}: {label}", await ranked.recall(parameters), "%") for label, parameters in _variants()
        ]
    return [replace(figures[0], note=f"{len(ranked.questions)} questions"), *figures[1:]]


def _variants() -> Iterator[tuple[str, FusionParameters]]:
    usual = FusionParameters()
    yield USUAL, usual
    for field in fields(usual):
        value = getattr(usual, field.name)
        for word, factor in _FACTORS.items():
            changed = type(value)(value * factor)
            if field.name != "damping" or changed < 1:
                yield f"{field.name} {word}", replace(usual, **{field.name: changed})
