from __future__ import annotations

import numpy as np
import pytest

from heliograph.errors import ModelTimeout, RateLimited
from heliograph.testing.fakes import FakeEmbeddingModel


async def test_shared_words_bring_texts_near() -> None:
    fake = FakeEmbeddingModel()
    texts = ["Alice met Bob in Paris", "bob, alice!", "entirely other words here", "天气很好", "今天天气", "", "\ud800"]
    vectors = (await fake.embed(texts, "document")).vectors
    scores = vectors @ vectors.T
    assert vectors.dtype == np.float32
    assert np.allclose(np.diag(scores), 1, atol=1e-6)
    assert scores[0, 1] > 0.5 > 0.3 > scores[0, 2]
    assert scores[3, 4] > 0.5 > 0.3 > scores[3, 0]


async def test_same_text_has_the_same_vector_everywhere() -> None:
    one, other = FakeEmbeddingModel(16), FakeEmbeddingModel(16)
    alone = (await one.embed(["some text"], "query")).vectors
    together = (await other.embed(["", "some text", "more"], "document")).vectors
    assert np.allclose(alone[0], together[1], atol=1e-6)
    assert (await one.embed([], "query")).vectors.shape == (0, 16)


async def test_calls_are_kept_and_failures_come_as_told() -> None:
    fake = FakeEmbeddingModel(name="n", delay_seconds=0.001)
    fake.fail_next(RateLimited("one"), ModelTimeout("two"))
    for error in (RateLimited, ModelTimeout):
        with pytest.raises(error):
            await fake.embed(["a"], "query")
    await fake.embed(["b"], "document")
    assert fake.calls == [("query", ("a",)), ("query", ("a",)), ("document", ("b",))]
    await fake.close()
    assert fake.is_closed
    assert fake.info.name == "n"


async def test_recording_can_be_left_out() -> None:
    fake = FakeEmbeddingModel(record=False)
    await fake.embed(["a"], "query")
    assert fake.calls == []
