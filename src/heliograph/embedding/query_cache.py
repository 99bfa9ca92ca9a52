"""Keeps the vectors of recent questions and keywords in memory.

The same question comes again with another mode, another page or after a follow-up, and several channels embed the same
keywords. Documents pass through: they are embedded once and stored.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from heliograph.embedding.base import EmbeddingKind, EmbeddingModel, Embeddings
from heliograph.embedding.wrapper import WrapperEmbeddingModel
from heliograph.models import Usage
from heliograph.observing import tell_lookup

# Longer texts are no questions that come again, and would hold on to their megabytes.
_MAX_TEXT_CHARACTERS = 2048


class QueryCachedEmbeddingModel(WrapperEmbeddingModel):
    """Embeds only those query texts that were not seen lately; what is kept costs no tokens.

    Args:
        inner: The model to call.
        max_entries: Vectors kept; the one unused for the longest time goes first.
    """

    def __init__(self, inner: EmbeddingModel, max_entries: int = 512) -> None:
        super().__init__(inner)
        self._max_entries = max_entries
        self._vectors: OrderedDict[str, NDArray[np.float32]] = OrderedDict()

    async def embed(self, texts: Sequence[str], kind: EmbeddingKind) -> Embeddings:
        """Return a vector for each text."""
        if kind != "query" or not texts:
            return await self.inner.embed(texts, kind)
        found = {text: self._vectors[text] for text in texts if text in self._vectors}
        missing = [text for text in dict.fromkeys(texts) if text not in found]
        for text in dict.fromkeys(texts):
            tell_lookup("query_embeddings", is_hit=text in found)
        usage = Usage()
        if missing:
            embeddings = await self.inner.embed(missing, kind)
            usage = embeddings.usage
            found.update(zip(missing, embeddings.vectors, strict=True))
        self._keep(found)
        return Embeddings(np.stack([found[text] for text in texts]), usage)

    def clear(self) -> None:
        """Drop all that is kept, so that what comes next is paid for; for measuring."""
        self._vectors.clear()

    def _keep(self, found: dict[str, NDArray[np.float32]]) -> None:
        for text, vector in found.items():
            if len(text) <= _MAX_TEXT_CHARACTERS:
                # A copy: a row of the reply would keep all its rows in memory.
                self._vectors.setdefault(text, vector.copy())
                self._vectors.move_to_end(text)
        while len(self._vectors) > self._max_entries:
            self._vectors.popitem(last=False)
