"""The contract of an embedding model: texts in, unit vectors out.

Vectors that a model returns are ready to compare by cosine: of length 1. What the cosines mean differs from model to
model; `EmbeddingModel.scale` says it, so that weights and thresholds mean about the same for every one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from heliograph.embedding.scale import PASSAGES, QUESTIONS, CosineScale, scale_between
from heliograph.models import Usage

EmbeddingKind = Literal["query", "document"]


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
