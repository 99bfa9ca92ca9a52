"""The contract of an embedding model: texts in, unit vectors out.

Vectors that a model returns are ready to compare by cosine: of length 1. What the cosines mean differs from model to
model; `EmbeddingModel.scale` says it, so that weights and thresholds mean about the same for every one.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from heliograph.models import Usage

# What the cosines of a model are worth: models crowd them into bands of their own.
#
# One model gives 0.05 to texts that have nothing to do with each other and 0.5 to a question and its answer; another
# 0.74 and 0.88 to the same texts. Fused retrieval adds cosines to other scores and weighs differences between them, so
# it reads them in one usual scale, which is that of the embedding inside this package. Two points say how to bring a
# model's cosines there: what it gives to a few questions and the passages that answer them, and to questions and
# passages that do not belong together. They belong to the model, not to a corpus, so a growing index keeps its scores.

_T = TypeVar("_T", float, NDArray[np.float32])

# A model that tells a question's answer from any other text by less than this tells nothing by its cosines.
_LEAST_RANGE = 0.02

# Pairs of a question and the passage that answers it, per language.
_PAIRS: dict[str, list[tuple[str, str]]] = json.loads(Path(__file__).with_name("calibration.json").read_text("utf-8"))

QUESTIONS, PASSAGES = zip(*chain.from_iterable(_PAIRS.values()), strict=True)
"""Texts that calibrate a model, as queries and as documents; the n-th passage answers the n-th question."""


@dataclass(frozen=True, slots=True)
class CosineScale:
    """What a model's cosines mean.

    Attributes:
        unrelated: Cosine of a question and a passage that has nothing to do with it.
        related: Cosine of a question and the passage that answers it; above `unrelated`.
    """

    unrelated: float
    related: float

    def usual(self, cosine: _T) -> _T:
        """Return the cosine that says the same in the usual scale; may lie outside of [-1, 1]."""
        if self == USUAL_SCALE:
            return cosine
        usual = USUAL_SCALE
        factor = (usual.related - usual.unrelated) / (self.related - self.unrelated)
        return (cosine - self.unrelated) * factor + usual.unrelated


USUAL_SCALE = CosineScale(0.15, 0.61)
"""That of the embedding inside the package."""


def cosines(vectors: NDArray[np.float32], vector: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the products of rows and a vector; equal rows have equal ones, which a product of matrices does not give.

    Nor does this wake the threads of a linear algebra library, which go on spinning for longer than the product takes.

    Args:
        vectors: `(n, dimension)`.
        vector: `(dimension,)`.
    """
    return np.einsum("ij,j->i", vectors, vector)


def scale_between(questions: NDArray[np.float32], passages: NDArray[np.float32]) -> CosineScale:
    """Return a model's scale, from its vectors of `QUESTIONS` and `PASSAGES`.

    Of the languages the one counts that the model tells most in, since some know one only. A model whose cosines tell
    nothing has the usual scale.

    Args:
        questions: `(n, dimension)`, unit rows.
        passages: The same.
    """
    scales: list[CosineScale] = []
    size = len(questions) // len(_PAIRS)
    for start in range(0, len(questions), size):
        cosines = questions[start : start + size] @ passages[start : start + size].T
        is_pair = np.eye(len(cosines), dtype=bool)
        scales.append(CosineScale(float(np.median(cosines[~is_pair])), float(np.median(cosines[is_pair]))))
    widest = max(scales, key=lambda scale: scale.related - scale.unrelated)
    return widest if widest.related - widest.unrelated >= _LEAST_RANGE else USUAL_SCALE


EmbeddingKind = Literal["query", "document"]

_FOR_QUESTION: ContextVar[bool] = ContextVar("for_question", default=False)


@contextmanager
def for_question() -> Generator[None]:
    """Let all that is embedded within wait as a question does, also what is embedded as a document is.

    Somebody waits for it, as for the sentences of an answer, while documents that are taken in wait by the thousand.
    """
    token = _FOR_QUESTION.set(True)
    try:
        yield
    finally:
        _FOR_QUESTION.reset(token)


def waits_as(kind: EmbeddingKind) -> EmbeddingKind:
    """Return among which of the texts that wait to be embedded a text of a kind waits."""
    return "query" if _FOR_QUESTION.get() else kind


@dataclass(frozen=True, slots=True)
class EmbeddingInfo:
    """What a store must know of the model that filled it.

    Attributes:
        name: Identity of model and post-processing; another name means vectors that cannot be compared.
        dimension: Length of each vector.
        max_input_tokens: Longest text, in the model's own tokens; longer ones are cut or windowed by the model.
        min_score: Cosine below which two texts have nothing to do with each other.
        scale: What its cosines mean; None if that is not known and must be measured.
    """

    name: str
    dimension: int
    max_input_tokens: int
    min_score: float = 0.2
    scale: CosineScale | None = None


@dataclass(frozen=True, slots=True)
class Embeddings:
    """`vectors`: `(n, dimension)` float32, rows of length 1 in the order of the texts; `usage`: what they cost."""

    vectors: NDArray[np.float32]
    usage: Usage


class EmbeddingModel(ABC):
    """Turns texts into vectors. Implementations are safe to call from many tasks at once."""

    _measured: CosineScale | None = None

    @property
    @abstractmethod
    def info(self) -> EmbeddingInfo:
        """What this model is; known without a call over the network."""

    @abstractmethod
    async def embed(self, texts: Sequence[str], kind: EmbeddingKind) -> Embeddings:
        """Embed texts; no text at all gives a `(0, dimension)` array, an empty text a vector like any other.

        Args:
            texts: What to embed; any length, any Unicode, lone surrogates included.
            kind: `query` for questions and keywords, `document` for what is stored.

        Raises:
            ModelError: The model failed; its subclass says how.
        """

    async def scale(self) -> CosineScale:
        """Return what the model's cosines mean. If `info` does not say it, a few texts are embedded, the first time.

        Raises:
            ModelError: The model failed; it is asked again the next time.
        """
        known = self.info.scale or self._measured
        if known is None:
            questions = await self.embed(QUESTIONS, "query")
            passages = await self.embed(PASSAGES, "document")
            known = self._measured = scale_between(questions.vectors, passages.vectors)
        return known

    async def close(self) -> None:  # noqa: B027 (most models hold nothing)
        """Let go of connections and threads; closing twice does nothing."""
