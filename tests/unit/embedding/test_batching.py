from __future__ import annotations

import asyncio

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.embedding.base import BatchingEmbeddingModel, DeduplicatingEmbeddingModel, plan_batches
from heliograph.errors import ModelTimeout
from heliograph.models import Usage
from heliograph.testing.fakes import FakeEmbeddingModel

any_texts = st.lists(st.text(st.characters(exclude_categories=()), max_size=40), max_size=30)


@given(texts=any_texts, max_tokens=st.integers(1, 30), max_texts=st.integers(1, 5))
def test_batches_keep_order_and_bounds(texts: list[str], max_tokens: int, max_texts: int) -> None:
    batches = plan_batches(texts, max_tokens, max_texts)
    assert [text for batch in batches for text in batch] == texts
    for batch in batches:
        assert 1 <= len(batch) <= max_texts
        assert len(batch) == 1 or sum(len(text.encode("utf-8", "surrogatepass")) for text in batch) <= 3 * max_tokens


async def test_batches_come_back_as_one_reply_in_order() -> None:
    fake = FakeEmbeddingModel()
    texts = [f"text {number}" for number in range(10)]
    whole = await fake.embed(texts, "document")
    parts = await BatchingEmbeddingModel(fake, 1000, 3).embed(texts, "document")
    assert np.array_equal(parts.vectors, whole.vectors)
    assert parts.usage == whole.usage
    assert [len(call) for _, call in fake.calls] == [10, 3, 3, 3, 1]


async def test_one_batch_and_no_text_pass_through() -> None:
    fake = FakeEmbeddingModel()
    batching = BatchingEmbeddingModel(fake, 1000, 3)
    assert (await batching.embed([], "query")).vectors.shape == (0, 64)
    assert (await batching.embed(["a"], "query")).vectors.shape == (1, 64)


async def test_first_failure_ends_all_batches_and_comes_as_it_is() -> None:
    fake = FakeEmbeddingModel(delay_seconds=0.01)
    fake.fail_next(ModelTimeout("late"), ModelTimeout("late"))
    with pytest.raises(ModelTimeout, match="late"):
        await BatchingEmbeddingModel(fake, 1000, 1).embed(["a", "b", "c"], "document")


async def test_cancellation_reaches_the_batches() -> None:
    fake = FakeEmbeddingModel(delay_seconds=60)
    call = asyncio.create_task(BatchingEmbeddingModel(fake, 1000, 1).embed(["a", "b"], "document"))
    await asyncio.sleep(0.01)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call


@given(texts=st.lists(st.sampled_from(["a", "b b", "c", ""]), max_size=12))
async def test_equal_texts_are_embedded_once(texts: list[str]) -> None:
    fake = FakeEmbeddingModel()
    expected = await fake.embed(texts, "document")
    found = await DeduplicatingEmbeddingModel(fake).embed(texts, "document")
    assert np.array_equal(found.vectors, expected.vectors)
    assert fake.calls[1][1] == tuple(dict.fromkeys(texts))


async def test_equal_texts_cost_tokens_once() -> None:
    deduplicating = DeduplicatingEmbeddingModel(FakeEmbeddingModel())
    assert (await deduplicating.embed(["a"] * 5, "query")).usage == Usage(2)
