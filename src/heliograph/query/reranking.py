"""Putting chunks into the order of a reranker, if there is one and it answers.

Only chunks are reranked. A reranker that fails does not fail the question: the merged order stands, and a warning
says why.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass

from heliograph.errors import ModelError
from heliograph.models import Chunk
from heliograph.rerank.base import Reranker
from heliograph.settings import RerankSettings


@dataclass(frozen=True, slots=True)
class RankedChunks:
    """Chunks in their new order with the reranker's score, None where it gave none; and why it failed, if it did."""

    chunks: Sequence[tuple[Chunk, float | None]]
    warning: str = ""


async def rerank_chunks(
    reranker: Reranker, settings: RerankSettings, question: str, chunks: Sequence[Chunk], top_n: int
) -> RankedChunks:
    """Return the `top_n` best chunks that score at least `settings.min_score`; a minimum of 0 keeps all."""
    try:
        async with asyncio.timeout(settings.timeout_seconds):
            hits = await reranker.rerank(question, [chunk.text for chunk in chunks], top_n)
    except (ModelError, TimeoutError) as error:
        reason = str(error) or f"no reply within {settings.timeout_seconds:g} seconds"
        warning = f"the reranker {reranker.name!r} failed, so chunks keep the order of the search: {reason}"
        return RankedChunks([(chunk, None) for chunk in chunks[:top_n]], warning)
    # Services have been seen to repeat an index, or to name one that was not sent.
    scores: dict[int, float] = {}
    for hit in hits:
        if 0 <= hit.index < len(chunks):
            scores.setdefault(hit.index, hit.score)
    if not scores:
        warning = f"the reranker {reranker.name!r} ranked nothing, so chunks keep the order of the search"
        return RankedChunks([(chunk, None) for chunk in chunks[:top_n]], warning)
    least = settings.min_score if settings.min_score > 0 else -math.inf
    return RankedChunks([(chunks[index], score) for index, score in scores.items() if score >= least][:top_n])
