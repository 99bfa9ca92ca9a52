"""What the cosines of a model mean: measured where it is not known, and read in the usual scale."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.embedding.base import (
    PASSAGES,
    QUESTIONS,
    USUAL_SCALE,
    CosineScale,
    EmbeddingInfo,
    EmbeddingKind,
    EmbeddingModel,
    Embeddings,
    WrapperEmbeddingModel,
    scale_between,
)
from heliograph.errors import ModelUnavailable
from heliograph.models import Usage
from heliograph.testing.fakes import FakeEmbeddingModel

SIZE = len(QUESTIONS)


class _Paired(EmbeddingModel):
    """Gives a question and its passage one cosine, and all others another; fails first as often as told."""

    def __init__(self, scale: CosineScale, failures: int = 0) -> None:
        self._scale, self._failures = scale, failures
        self.calls = 0

    @property
    def info(self) -> EmbeddingInfo:
        return EmbeddingInfo("paired", 2 * SIZE + 1, 512)

    async def embed(self, texts: Sequence[str], kind: EmbeddingKind) -> Embeddings:
        self.calls += 1
        if self._failures:
            self._failures -= 1
            raise ModelUnavailable("down")
        known = QUESTIONS if kind == "query" else PASSAGES
        return Embeddings(_vectors(self._scale, kind)[[known.index(text) for text in texts]], Usage())


def _vectors(scale: CosineScale, kind: EmbeddingKind) -> np.ndarray:
    shared = np.full((SIZE, 1), scale.unrelated**0.5)
    pair = np.eye(SIZE) * (scale.related - scale.unrelated) ** 0.5
    own = np.eye(SIZE) * (1.0 - scale.related) ** 0.5
    return np.concatenate(
        [shared, pair, own if kind == "query" else np.roll(own, SIZE // 2, axis=1)], axis=1, dtype="f4"
    )


async def test_scale_that_is_not_known_is_measured_once() -> None:
    model = _Paired(CosineScale(0.74, 0.88))
    scale = await model.scale()
    assert (scale.unrelated, scale.related) == pytest.approx((0.74, 0.88), abs=1e-3)
    assert await model.scale() is scale
    assert model.calls == 2


async def test_scale_is_measured_again_after_a_failure() -> None:
    model = _Paired(CosineScale(0.05, 0.5), failures=1)
    with pytest.raises(ModelUnavailable):
        await model.scale()
    assert (await model.scale()).related == pytest.approx(0.5, abs=1e-3)


async def test_known_scale_costs_no_call_also_through_wrappers() -> None:
    model = FakeEmbeddingModel()
    assert await WrapperEmbeddingModel(model).scale() == USUAL_SCALE
    assert model.calls == []


async def test_wrapper_measures_through_itself() -> None:
    inner = _Paired(CosineScale(0.4, 0.7))
    assert (await WrapperEmbeddingModel(inner).scale()).unrelated == pytest.approx(0.4, abs=1e-3)


def test_language_that_the_model_does_not_know_does_not_count() -> None:
    vectors = _vectors(CosineScale(0.1, 0.6), "query")
    passages = _vectors(CosineScale(0.1, 0.6), "document")
    vectors[SIZE // 2 :] = passages[SIZE // 2 :] = vectors[0]
    assert scale_between(vectors, passages).related == pytest.approx(0.6, abs=1e-3)


def test_cosines_that_tell_nothing_are_taken_as_they_are() -> None:
    same = np.ones((SIZE, 1), np.float32)
    assert scale_between(same, same) == USUAL_SCALE


@given(st.floats(0, 0.9), st.floats(-1, 1))
def test_band_of_its_own_is_brought_to_the_usual_one(crowding: float, cosine: float) -> None:
    def crowded(value: float) -> float:
        return crowding + (1.0 - crowding) * value

    scale = CosineScale(crowded(USUAL_SCALE.unrelated), crowded(USUAL_SCALE.related))
    assert scale.usual(crowded(cosine)) == pytest.approx(cosine, abs=1e-6)


def test_usual_scale_changes_nothing() -> None:
    assert USUAL_SCALE.usual(0.123456789) == 0.123456789


def test_every_question_has_its_passage_and_each_is_there_once() -> None:
    assert len(QUESTIONS) == len(PASSAGES) == len({*QUESTIONS, *PASSAGES}) / 2
