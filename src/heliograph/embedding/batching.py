"""From a caller's many texts to requests of a size that a model likes: each text once, so many at a time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from heliograph.calls.together import run_together
from heliograph.embedding.base import EmbeddingKind, EmbeddingModel, Embeddings
from heliograph.embedding.wrapper import WrapperEmbeddingModel
from heliograph.models import Usage

# English has 4 to 5 bytes of UTF-8 a token, Chinese 3 to 4, so this is seldom too few.
_BYTES_PER_TOKEN = 3


class DeduplicatingEmbeddingModel(WrapperEmbeddingModel):
    """Embeds equal texts of one call once."""

    async def embed(self, texts: Sequence[str], kind: EmbeddingKind) -> Embeddings:
        """Return a vector for each text; equal texts get equal vectors."""
        rows = {text: row for row, text in enumerate(dict.fromkeys(texts))}
        if len(rows) == len(texts):
            return await self.inner.embed(texts, kind)
        embeddings = await self.inner.embed(tuple(rows), kind)
        return Embeddings(embeddings.vectors[[rows[text] for text in texts]], embeddings.usage)


class BatchingEmbeddingModel(WrapperEmbeddingModel):
    """Splits a call into requests, which run at once as far as a limit inside lets them.

    Args:
        inner: The model to call.
        max_batch_tokens: Tokens of one request, by estimate; a longer text goes alone.
        max_batch_texts: Texts of one request; at least 1.
    """

    def __init__(self, inner: EmbeddingModel, max_batch_tokens: int, max_batch_texts: int) -> None:
        super().__init__(inner)
        self._max_batch_tokens = max_batch_tokens
        self._max_batch_texts = max_batch_texts

    async def embed(self, texts: Sequence[str], kind: EmbeddingKind) -> Embeddings:
        """Return the vectors of all requests in the order of the texts; the first failure ends all of them."""
        batches = plan_batches(texts, self._max_batch_tokens, self._max_batch_texts)
        if len(batches) <= 1:
            return await self.inner.embed(texts, kind)
        parts = await run_together(*(self.inner.embed(batch, kind) for batch in batches))
        return Embeddings(np.concatenate([part.vectors for part in parts]), sum((p.usage for p in parts), Usage()))


def plan_batches(texts: Sequence[str], max_tokens: int, max_texts: int) -> list[list[str]]:
    """Cut a sequence of texts into batches, in order.

    Args:
        texts: What to share out.
        max_tokens: Tokens of a batch, estimated by its length in UTF-8; a text with more gets its own batch.
        max_texts: Texts of a batch.
    """
    batches: list[list[str]] = []
    tokens = 0
    for text in texts:
        more = len(text.encode("utf-8", "surrogatepass")) // _BYTES_PER_TOKEN + 1
        if batches and len(batches[-1]) < max_texts and tokens + more <= max_tokens:
            batches[-1].append(text)
            tokens += more
        else:
            batches.append([text])
            tokens = more
    return batches
