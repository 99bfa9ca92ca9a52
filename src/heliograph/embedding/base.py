"""The contract of an embedding model: texts in, unit vectors out.

Vectors that a model returns are ready to compare by cosine: of length 1, and centred where the model's raw cosines
crowd together, so that thresholds and fusion weights mean about the same for every model.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from heliograph.models import Usage

__all__ = ["EmbeddingInfo", "EmbeddingKind", "EmbeddingModel", "Embeddings"]

EmbeddingKind = Literal["query", "document"]


@dataclass(frozen=True, slots=True)
class EmbeddingInfo:
    """What a store must know of the model that filled it.

    Attributes:
        name: Identity of model and post-processing; another name means vectors that cannot be compared.
        dimension: Length of each vector.
        max_input_tokens: Longest text, in the model's own tokens; longer ones are cut or windowed by the model.
        min_score: Cosine below which two texts have nothing to do with each other.
    """

    name: str
    dimension: int
    max_input_tokens: int
    min_score: float = 0.2


@dataclass(frozen=True, slots=True)
class Embeddings:
    """`vectors`: `(n, dimension)` float32, rows of length 1 in the order of the texts; `usage`: what they cost."""

    vectors: NDArray[np.float32]
    usage: Usage


class EmbeddingModel(ABC):
    """Turns texts into vectors. Implementations are safe to call from many tasks at once."""

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

    async def close(self) -> None:  # noqa: B027 (most models hold nothing)
        """Let go of connections and threads; closing twice does nothing."""
