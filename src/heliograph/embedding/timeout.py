"""A bound on how long an embedding request may take."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from heliograph.embedding.base import EmbeddingKind, EmbeddingModel, Embeddings
from heliograph.embedding.wrapper import WrapperEmbeddingModel
from heliograph.errors import ModelTimeout


class TimedEmbeddingModel(WrapperEmbeddingModel):
    """Cancels a request that takes too long.

    Args:
        inner: The model to call.
        timeout_seconds: Longest wait.
    """

    def __init__(self, inner: EmbeddingModel, timeout_seconds: float) -> None:
        super().__init__(inner)
        self._timeout_seconds = timeout_seconds

    async def embed(self, texts: Sequence[str], kind: EmbeddingKind) -> Embeddings:
        """Return the inner model's vectors.

        Raises:
            ModelTimeout: They did not come in time.
        """
        try:
            async with asyncio.timeout(self._timeout_seconds):
                return await self.inner.embed(texts, kind)
        except TimeoutError:
            raise ModelTimeout(
                f"embedding model {self.info.name!r} gave no vectors for {len(texts)} texts within "
                f"{self._timeout_seconds:g} seconds; try again, or raise `timeout_seconds`"
            ) from None
