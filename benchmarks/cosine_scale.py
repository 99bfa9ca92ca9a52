"""R@5 of the fused search where cosines crowd together: raw vectors, with cosines as they are and brought to scale.

The raw vectors of the offline embedding give 0.74 to texts that have nothing to do with each other and 0.88 to a
question and its answer, as those of many models do. Shown are the vectors that the engine uses; the raw ones with
their cosines taken as they are; and with their cosines brought to the usual scale, as the engine does for every model
(`heliograph.embedding.base`). Beside each, the nearest chunks alone. Sets are those of `sensitivity`.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

from benchmarks.ranked_set import RankedSet, open_ranked_set, wanted_sets
from benchmarks.registry import Options
from benchmarks.report import Figure, Findings
from heliograph.embedding.base import USUAL_SCALE, CosineScale, WrapperEmbeddingModel
from heliograph.embedding.e5.model import E5EmbeddingModel
from heliograph.settings import user_cache_dir

__all__ = ["TITLE", "run"]

TITLE = "Cosines that crowd together"

_DEFAULT = ("hotpotqa_train100",)


class _AsIs(WrapperEmbeddingModel):
    """Takes cosines as they are."""

    async def scale(self) -> CosineScale:
        return USUAL_SCALE


def run(options: Options) -> Findings:
    """Measure each set with each reading of the cosines."""
    folders, _ = wanted_sets(options, _DEFAULT)
    figures = [figure for folder in folders for figure in asyncio.run(_measure(folder, options.quick))]
    return Findings(tuple(figures), ())


async def _measure(folder: Path, is_quick: bool) -> list[Figure]:
    async with open_ranked_set(folder, None, is_quick) as usual:
        figures = await _recalls(usual, "vectors as the engine uses them")
    async with open_ranked_set(folder, None, is_quick, E5EmbeddingModel(user_cache_dir(), is_centred=False)) as raw:
        as_is = replace(raw, embedding=_AsIs(raw.embedding))
        figures += await _recalls(as_is, "raw vectors, cosines as they are")
        figures += await _recalls(raw, "raw vectors, cosines by scale")
    return figures


async def _recalls(ranked: RankedSet, vectors: str) -> list[Figure]:
    return [
        Figure(f"{ranked.name}: {vectors}, fused", await ranked.recall(), "%"),
        Figure(f"{ranked.name}: {vectors}, nearest", await ranked.recall_by_vector(), "%"),
    ]
