"""The keyword channel: chunks that hold the question's words, by BM25."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from heliograph.stores.base import Hit, StoreView
from heliograph.stores.changeset import Collection
from heliograph.text.analysis import terms

__all__ = ["search_keywords"]


async def search_keywords(store: StoreView, question: str, limit: int) -> Sequence[Hit]:
    """Return the `limit` best chunks by BM25; a question of stop words has none."""
    words = await asyncio.to_thread(terms, question) if len(question) > _LONG else terms(question)
    return await store.text.search(Collection.CHUNKS, words, limit) if words else []


# Questions that may be a pasted document must not hold up the event loop.
_LONG = 2000
