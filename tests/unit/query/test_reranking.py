from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from heliograph.errors import ModelUnavailable
from heliograph.models import Chunk
from heliograph.query.context.assembly import rerank_chunks
from heliograph.rerank.base import Reranker, RerankHit
from heliograph.settings import RerankSettings
from heliograph.testing.fakes import FakeReranker

CHUNKS = [Chunk(name, "doc", 0, name, 1, 0, 1) for name in "abcd"]
SCORES = {"a": 0.1, "b": 0.9, "c": 0.5, "d": 0.4}


class Fixed(Reranker):
    """Gives the hits it was made with, if it ever comes to it."""

    name = "fixed"

    def __init__(self, *hits: tuple[int, float], waits: bool = False) -> None:
        self._hits = [RerankHit(index, score) for index, score in hits]
        self._waits = waits

    async def rerank(self, query: str, documents: Sequence[str], top_n: int) -> list[RerankHit]:
        if self._waits:
            await asyncio.Event().wait()
        return self._hits


async def _rerank(
    reranker: Reranker, top_n: int = 10, **settings: float
) -> tuple[Sequence[tuple[Chunk, float | None]], str]:
    chunks, warning, _ = await rerank_chunks(reranker, RerankSettings(**settings), "question", CHUNKS, top_n)
    return chunks, warning


def _names(ranked: Sequence[tuple[Chunk, float | None]]) -> str:
    return "".join(chunk.id for chunk, _ in ranked)


async def test_chunks_follow_the_scores() -> None:
    ranked, warning = await _rerank(FakeReranker(lambda _, text: SCORES[text]))
    assert ranked == [(CHUNKS[1], 0.9), (CHUNKS[2], 0.5), (CHUNKS[3], 0.4), (CHUNKS[0], 0.1)]
    assert not warning


async def test_low_scores_and_all_beyond_top_n_are_dropped() -> None:
    reranker = FakeReranker(lambda _, text: SCORES[text])
    assert _names((await _rerank(reranker, min_score=0.4))[0]) == "bcd"
    assert _names((await _rerank(reranker, top_n=2))[0]) == "bc"
    assert _names((await _rerank(reranker, min_score=0.95))[0]) == ""


async def test_failure_keeps_the_order_and_warns() -> None:
    reranker = FakeReranker()
    reranker.fail_next(ModelUnavailable("it is down"))
    ranked, warning = await _rerank(reranker, top_n=3)
    assert ranked == [(chunk, None) for chunk in CHUNKS[:3]]
    assert "it is down" in warning


async def test_late_reranker_keeps_the_order_and_warns() -> None:
    ranked, warning = await _rerank(Fixed(waits=True), timeout_seconds=0.01)
    assert _names(ranked) == "abcd"
    assert "no reply within 0.01 seconds" in warning


async def test_impossible_hits_are_ignored() -> None:
    assert _names((await _rerank(Fixed((2, 0.9), (2, 0.8), (9, 0.7), (-1, 0.7), (0, 0.1))))[0]) == "ca"


@pytest.mark.parametrize("hits", [(), ((99, 1.0),)])
async def test_no_usable_hit_keeps_the_order_and_warns(hits: tuple[tuple[int, float], ...]) -> None:
    ranked, warning = await _rerank(Fixed(*hits))
    assert _names(ranked) == "abcd"
    assert "ranked nothing" in warning
