"""The keyword channel: chunks that hold the question's words, by BM25."""

from __future__ import annotations

from collections.abc import Sequence

from heliograph.stores.base import Hit, StoreView
from heliograph.stores.changeset import Collection


async def search_keywords(store: StoreView, words: Sequence[str], limit: int) -> Sequence[Hit]:
    """Return the `limit` best chunks by BM25 for a question's terms; a question of stop words has none."""
    return await store.text.search(Collection.CHUNKS, words, limit) if words else []
