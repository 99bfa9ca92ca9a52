"""Trying an embedding request again after a failure that may pass."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from heliograph.calls.retry import RetryPolicy, call_with_retry
from heliograph.embedding.base import EmbeddingKind, EmbeddingModel, Embeddings
from heliograph.embedding.wrapper import WrapperEmbeddingModel


class RetryingEmbeddingModel(WrapperEmbeddingModel):
    """Tries again by a policy.

    Args:
        inner: The model to call.
        policy: How often and how long to wait.
        sleep: Waits that many seconds.
    """

    def __init__(
        self, inner: EmbeddingModel, policy: RetryPolicy, *, sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    ) -> None:
        super().__init__(inner)
        self._policy = policy
        self._sleep = sleep

    async def embed(self, texts: Sequence[str], kind: EmbeddingKind) -> Embeddings:
        """Return the inner model's vectors of the first request that succeeds."""
        return await call_with_retry(lambda: self.inner.embed(texts, kind), self._policy, sleep=self._sleep)
