from __future__ import annotations

import asyncio

import numpy as np
import pytest

from heliograph.embedding.base import QueryCachedEmbeddingModel
from heliograph.errors import ModelTimeout
from heliograph.models import Usage
from heliograph.testing.fakes import FakeEmbeddingModel


async def test_only_new_questions_reach_the_model() -> None:
    fake = FakeEmbeddingModel()
    cached = QueryCachedEmbeddingModel(fake)
    first = await cached.embed(["a", "b", "a"], "query")
    second = await cached.embed(["b", "c", "a"], "query")
    assert [texts for _, texts in fake.calls] == [("a", "b"), ("c",)]
    assert np.array_equal(first.vectors[[1, 0]], second.vectors[[0, 2]])
    assert (await cached.embed(["a"], "query")).usage == Usage()


async def test_reply_may_be_changed_by_its_reader() -> None:
    cached = QueryCachedEmbeddingModel(FakeEmbeddingModel())
    first = await cached.embed(["a"], "query")
    kept = first.vectors.copy()
    first.vectors[:] = 0
    assert np.array_equal((await cached.embed(["a"], "query")).vectors, kept)


async def test_documents_and_empty_calls_pass_through() -> None:
    fake = FakeEmbeddingModel()
    cached = QueryCachedEmbeddingModel(fake)
    for _ in range(2):
        await cached.embed(["a"], "document")
    assert (await cached.embed([], "query")).vectors.shape == (0, 64)
    assert len(fake.calls) == 3


async def test_oldest_questions_and_huge_ones_are_dropped() -> None:
    fake = FakeEmbeddingModel()
    cached = QueryCachedEmbeddingModel(fake, max_entries=2)
    for text in ("a", "b", "a", "c", "a", "b", "x" * 5000, "x" * 5000):
        await cached.embed([text], "query")
    assert [texts[0][0] for _, texts in fake.calls] == ["a", "b", "c", "b", "x", "x"]


async def test_failure_is_not_kept() -> None:
    fake = FakeEmbeddingModel()
    cached = QueryCachedEmbeddingModel(fake)
    fake.fail_next(ModelTimeout("late"))
    with pytest.raises(ModelTimeout):
        await cached.embed(["a"], "query")
    replies = await asyncio.gather(*(cached.embed(["a"], "query") for _ in range(3)))
    assert all(np.array_equal(reply.vectors, replies[0].vectors) for reply in replies)


async def test_what_was_cleared_is_asked_again() -> None:
    fake = FakeEmbeddingModel()
    cached = QueryCachedEmbeddingModel(fake)
    await cached.embed(["a"], "query")
    cached.clear()
    await cached.embed(["a"], "query")
    assert [texts for _, texts in fake.calls] == [("a",), ("a",)]
