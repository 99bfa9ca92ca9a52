"""Limit, retry, timeout and meter, and passing through."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from heliograph.calls.limit import CallGuard, RetryPolicy
from heliograph.embedding.base import (
    EmbeddingKind,
    EmbeddingMeter,
    Embeddings,
    GuardedEmbeddingModel,
    WrapperEmbeddingModel,
    for_question,
)
from heliograph.errors import BadModelReply, ModelTimeout, RateLimited
from heliograph.models import Usage
from heliograph.observing import CallCount
from heliograph.testing.fakes import FakeEmbeddingModel


class GatedModel(FakeEmbeddingModel):
    """Counts calls under way, which last until the gate opens."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()
        self.under_way = self.most_under_way = 0

    async def embed(self, texts: Sequence[str], kind: EmbeddingKind) -> Embeddings:
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            await self.gate.wait()
            return await super().embed(texts, kind)
        finally:
            self.under_way -= 1


async def test_wrapper_passes_everything_through() -> None:
    fake = FakeEmbeddingModel()
    wrapper = WrapperEmbeddingModel(fake)
    assert wrapper.info is fake.info
    assert (await wrapper.embed(["a", "b"], "query")).vectors.shape == (2, 64)
    await wrapper.close()
    assert fake.is_closed


async def test_limit_holds_and_queries_go_first() -> None:
    gated = GatedModel()
    limited = GuardedEmbeddingModel(gated, CallGuard(1))
    calls = [asyncio.create_task(limited.embed([text], "document")) for text in ("a", "b", "c")]
    await asyncio.sleep(0)
    calls.append(asyncio.create_task(limited.embed(["q"], "query")))
    with for_question():
        calls.append(asyncio.create_task(limited.embed(["quoted"], "document")))
    await asyncio.sleep(0)
    calls[1].cancel()
    gated.gate.set()
    await asyncio.wait(calls)
    assert gated.most_under_way == 1
    assert [texts[0] for _, texts in gated.calls] == ["a", "q", "quoted", "c"]


async def test_retry_tries_again_what_may_pass() -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    fake = FakeEmbeddingModel()
    fake.fail_next(RateLimited("slow down"), ModelTimeout("late"))
    retrying = GuardedEmbeddingModel(fake, CallGuard(retries=RetryPolicy(2), sleep=sleep))
    assert len((await retrying.embed(["a"], "query")).vectors) == 1
    assert len(waits) == 2
    fake.fail_next(BadModelReply("nonsense"))
    with pytest.raises(BadModelReply):
        await retrying.embed(["a"], "query")
    assert len(fake.calls) == 4


async def test_timeout_names_the_model_and_the_wait() -> None:
    timed = GuardedEmbeddingModel(GatedModel(), CallGuard(timeout_seconds=0.01))
    with pytest.raises(ModelTimeout, match=r"'fake'.*0\.01 seconds"):
        await timed.embed(["a"], "query")


async def test_meter_counts_by_kind() -> None:
    fake = FakeEmbeddingModel()
    meter = EmbeddingMeter(fake)
    before = meter.usage
    await meter.embed(["one two", "three"], "document")
    await meter.embed([], "document")
    fake.fail_next(RateLimited("slow down"))
    with pytest.raises(RateLimited):
        await meter.embed(["a"], "query")
    assert meter.usage == {
        "document": CallCount(calls=1, texts=2, usage=Usage(5)),
        "query": CallCount(calls=1, failures=1),
    }
    assert before["document"] == CallCount()
