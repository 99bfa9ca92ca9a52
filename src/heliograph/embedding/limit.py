"""A bound on embedding requests under way, in which queries go before indexing."""

from __future__ import annotations

from collections.abc import Sequence

from heliograph.calls.limit import PriorityLimiter
from heliograph.embedding.base import EmbeddingKind, EmbeddingModel, Embeddings
from heliograph.embedding.wrapper import WrapperEmbeddingModel

_PRIORITIES: dict[EmbeddingKind, int] = {"query": 0, "document": 10}


class LimitedEmbeddingModel(WrapperEmbeddingModel):
    """Lets at most so many requests run at once.

    Args:
        inner: The model to call.
        max_concurrency: Requests at once; at least 1.
    """

    def __init__(self, inner: EmbeddingModel, max_concurrency: int) -> None:
        super().__init__(inner)
        self._limiter = PriorityLimiter(max_concurrency)

    async def embed(self, texts: Sequence[str], kind: EmbeddingKind) -> Embeddings:
        """Return the inner model's vectors, after waiting for a slot."""
        async with self._limiter.slot(_PRIORITIES[kind]):
            return await self.inner.embed(texts, kind)
