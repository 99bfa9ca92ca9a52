"""The second set of vectors of the store in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from heliograph.embedding.base import EmbeddingInfo
from heliograph.errors import ConflictError
from heliograph.stores.changeset import Changeset, Collection, VectorBatch
from heliograph.stores.reembedding import Reembedding

__all__ = ["MemoryReembedding"]


class MemoryReembedding(Reembedding):
    """Keeps next vectors in memory.

    Args:
        ids: Returns the ids that have a vector.
        upsert: Puts vectors in place.
        commit: Raises the data version and returns it.
    """

    def __init__(
        self,
        ids: Callable[[Collection], list[str]],
        upsert: Callable[[Collection, Sequence[str], NDArray[np.float32]], None],
        commit: Callable[[], int],
    ) -> None:
        self._ids = ids
        self._upsert = upsert
        self._commit = commit
        self._embedding: EmbeddingInfo | None = None
        self._next: dict[Collection, dict[str, NDArray[np.float32]]] = {item: {} for item in Collection}

    def note(self, changeset: Changeset) -> None:
        """Take away the next vectors of what a changeset embeds."""
        for collection, batch in changeset.vectors.items():
            for id_ in batch.ids:
                self._next[collection].pop(id_, None)

    async def begin(self, embedding: EmbeddingInfo) -> None:
        if self._embedding != embedding:
            await self.abandon()
        self._embedding = embedding

    async def find_pending(self, collection: Collection, after: str, limit: int) -> list[str]:
        pending = (id_ for id_ in self._ids(collection) if id_ > after and id_ not in self._next[collection])
        return sorted(pending)[:limit]

    async def put(self, collection: Collection, batch: VectorBatch) -> None:
        if self._embedding is None:
            raise ConflictError("no embedding was begun; begin one first")
        known = set(self._ids(collection))
        rows = zip(batch.ids, batch.vectors, strict=True)
        self._next[collection].update((id_, row) for id_, row in rows if id_ in known)

    async def finish(self) -> int:
        pending = [await self.find_pending(collection, "", 1) for collection in Collection]
        if self._embedding is None or any(pending):
            raise ConflictError("next vectors are missing, or nothing was begun; run reembed again")
        for collection, vectors in self._next.items():
            known = [id_ for id_ in self._ids(collection) if id_ in vectors]
            if known:
                self._upsert(collection, known, np.stack([vectors[id_] for id_ in known]))
        await self.abandon()
        return self._commit()

    async def abandon(self) -> None:
        self._embedding = None
        for vectors in self._next.values():
            vectors.clear()
