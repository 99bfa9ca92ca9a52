"""What embedding wrappers share: passing everything through."""

from __future__ import annotations

from collections.abc import Sequence

from heliograph.embedding.base import EmbeddingInfo, EmbeddingKind, EmbeddingModel, Embeddings


class WrapperEmbeddingModel(EmbeddingModel):
    """Passes everything to the model inside; subclasses change what they are about and nothing else.

    Args:
        inner: The model inside; it is closed with its wrapper.
    """

    def __init__(self, inner: EmbeddingModel) -> None:
        self.inner = inner

    @property
    def info(self) -> EmbeddingInfo:
        """The inner model's: a wrapper does not change vectors."""
        return self.inner.info

    async def embed(self, texts: Sequence[str], kind: EmbeddingKind) -> Embeddings:
        """Return the inner model's vectors."""
        return await self.inner.embed(texts, kind)

    async def close(self) -> None:
        """Close the inner model."""
        await self.inner.close()
