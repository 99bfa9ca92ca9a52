"""Rerankers are limited, retried and timed, and the fake scores by shared words."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from heliograph.calls.limit import CallGuard, RetryPolicy
from heliograph.errors import ModelTimeout, RateLimited
from heliograph.rerank.base import GuardedReranker, RerankHit
from heliograph.testing.fakes import FakeReranker

TEXTS = ("the red fox", "a blue whale", "the fox is quick and red")


class SlowReranker(FakeReranker):
    """Waits at a gate, and knows how many calls wait there."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()
        self.under_way = 0
        self.most_under_way = 0

    async def rerank(self, query: str, documents: Sequence[str], top_n: int) -> list[RerankHit]:
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            await self.gate.wait()
            return await super().rerank(query, documents, top_n)
        finally:
            self.under_way -= 1


async def no_wait(seconds: float) -> None:
    """Stand in for a sleep."""


async def test_fake_ranks_by_shared_words() -> None:
    hits = await FakeReranker().rerank("Red quick fox", TEXTS, 2)
    assert hits == [RerankHit(2, 1.0), RerankHit(0, pytest.approx(2 / 3))]


async def test_fake_ranks_chinese_by_characters() -> None:
    assert [hit.index for hit in await FakeReranker().rerank("证书轮换", ("天气很好", "轮换证书"), 1)] == [1]


async def test_fake_scores_as_told_and_keeps_the_order_of_equals() -> None:
    reranker = FakeReranker(lambda query, text: float("fox" in text))
    assert [hit.index for hit in await reranker.rerank("", TEXTS, 9)] == [0, 2, 1]


@pytest.mark.parametrize(("texts", "top_n"), [((), 5), (TEXTS, 0), (TEXTS, -1)])
async def test_fake_of_nothing_gives_nothing(texts: Sequence[str], top_n: int) -> None:
    assert await FakeReranker().rerank("fox", texts, top_n) == []


async def test_limited_reranker_lets_so_many_run() -> None:
    inner = SlowReranker()
    model = GuardedReranker(inner, CallGuard(2))
    tasks = [asyncio.create_task(model.rerank("fox", TEXTS, 1)) for _ in range(6)]
    for _ in range(10):
        await asyncio.sleep(0)
    inner.gate.set()
    await asyncio.gather(*tasks)
    assert inner.most_under_way == 2


async def test_retrying_reranker_tries_again() -> None:
    inner = FakeReranker()
    inner.fail_next(RateLimited("busy", 3), ModelTimeout("slow"))
    hits = await GuardedReranker(inner, CallGuard(retries=RetryPolicy(2), sleep=no_wait)).rerank("blue", TEXTS, 1)
    assert [hit.index for hit in hits] == [1]
    assert len(inner.calls) == 3


async def test_timed_reranker_cancels_what_takes_too_long() -> None:
    inner = SlowReranker()
    with pytest.raises(ModelTimeout, match=r"'fake'.*timeout_seconds"):
        await GuardedReranker(inner, CallGuard(timeout_seconds=0.01)).rerank("fox", TEXTS, 1)
    assert inner.under_way == 0


async def test_wrapped_reranker_passes_name_hits_and_close_through() -> None:
    inner = FakeReranker(name="inner")
    model = GuardedReranker(inner, CallGuard(2, 5, RetryPolicy(1)))
    assert model.name == "inner"
    assert await model.rerank("fox", TEXTS, 3) == await inner.rerank("fox", TEXTS, 3)
    await model.close()
    assert inner.is_closed
