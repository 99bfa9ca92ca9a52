"""The vector channel: chunks near the question itself."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from heliograph.query.channels.base import Findings
from heliograph.stores.base import StoreView
from heliograph.stores.changeset import Collection


async def search_chunks(store: StoreView, vector: NDArray[np.float32], top_k: int, min_score: float) -> Findings:
    """Return the `top_k` nearest chunks."""
    hits = await store.vectors.search(Collection.CHUNKS, vector, top_k, min_score)
    return Findings(chunk_ids=[hit.id for hit in hits])
