"""Changing the embedding of a workspace while the old one still answers.

A second set of vectors is filled beside the first, in any number of sittings; when it is whole, one commit puts it in
the first one's place. What is committed meanwhile is embedded by the old model and takes its next vector away again, so
the second set is never out of date.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from heliograph.embedding.base import EmbeddingInfo
from heliograph.stores.changeset import Collection, VectorBatch


class Reembedding(ABC):
    """The second set of vectors of one workspace."""

    @abstractmethod
    async def begin(self, embedding: EmbeddingInfo) -> None:
        """Begin, or go on, with this embedding; what another one had begun is dropped."""

    @abstractmethod
    async def find_pending(self, collection: Collection, after: str, limit: int) -> list[str]:
        """Return the first ids greater than `after`, ascending, that have a vector but no next one."""

    @abstractmethod
    async def put(self, collection: Collection, batch: VectorBatch) -> None:
        """Keep next vectors, durably; ids that have no vector any more are passed over.

        Raises:
            ConflictError: Another embedding was begun meanwhile.
        """

    @abstractmethod
    async def finish(self) -> int:
        """Put the second set in the first one's place in one commit; return the new data version.

        Whoever has the workspace open with the old embedding gets `SchemaMismatch` from then on.

        Raises:
            ConflictError: Next vectors are missing, or nothing was begun; nothing changed.
        """

    @abstractmethod
    async def abandon(self) -> None:
        """Drop the second set; does nothing if there is none."""
