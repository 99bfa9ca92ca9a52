"""Whole-workspace reads for maintenance: lists of all ids, damage and faults, and the second set of vectors.

`heliograph.stores.base` offers it along with the rest of the contract.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from heliograph.embedding.base import EmbeddingInfo
from heliograph.errors import ConflictError
from heliograph.models import EntityMention, RelationMention
from heliograph.stores.changeset import Collection, VectorBatch


class ScanKind(StrEnum):
    """The kinds of items whose ids can be listed; names of projections say which items they belong to."""

    DOCUMENTS = "documents"
    CHUNKS = "chunks"
    EXTRACTIONS = "extractions"
    MENTIONED_ENTITIES = "mentioned_entities"
    MENTIONED_RELATIONS = "mentioned_relations"
    ENTITY_EVIDENCE = "entity_evidence"
    RELATION_EVIDENCE = "relation_evidence"
    ENTITIES = "entities"
    RELATIONS = "relations"
    CHUNK_VECTORS = "chunk_vectors"
    ENTITY_VECTORS = "entity_vectors"
    RELATION_VECTORS = "relation_vectors"
    NAME_RULES = "name_rules"


@dataclass(frozen=True, slots=True)
class Damage:
    """One damaged item.

    Attributes:
        message: What is damaged, and what to do.
        document_id: The document it belongs to; empty for none or several.
        is_repaired: Whether it was repaired.
    """

    message: str
    document_id: str = ""
    is_repaired: bool = False


class Inspection(ABC):
    """Whole-workspace reads of one store."""

    @abstractmethod
    async def scan(self, kind: ScanKind, after: str, limit: int) -> list[str]:
        """Return the first `limit` ids greater than `after`, ascending; extractions by chunk id."""

    async def pages(self, kind: ScanKind, size: int) -> AsyncIterator[list[str]]:
        """Yield all ids, ascending, in pages of `size`."""
        after = ""
        while ids := await self.scan(kind, after, size):
            yield ids
            after = ids[-1]

    @abstractmethod
    async def get_mentions(
        self, entity_ids: Sequence[str], relation_ids: Sequence[str], offset: int, limit: int
    ) -> tuple[dict[str, list[EntityMention]], dict[str, list[RelationMention]]]:
        """Return, per id that has any, its mentions in canonical order from `offset` on, at most `limit`."""

    @abstractmethod
    async def digest_texts(self, collection: Collection) -> dict[str, int]:
        """Return, per id with full text, the `digest_terms` of its stored terms; reads all of them."""

    async def find_damage(self, *, repair: bool, is_certain: bool = False) -> list[Damage]:
        """Return the damage to the back end's files; none where a server looks after its own files.

        Args:
            repair: Whether to save the undamaged data, so that all can be read again; losses are then reported, too.
            is_certain: Whether unreadable data was already found.
        """
        del repair, is_certain
        return []

    async def find_faults(self) -> list[str]:
        """Return the faults of the back end's own files and counts, one sentence each; empty if there are none."""
        return []

    async def repair(self) -> None:
        """Repair the faults that `find_faults` found, as far as they follow from other data; change nothing else."""
        return


class Reembedding(ABC):
    """The second set of vectors of one workspace, for a change of the embedding."""

    @abstractmethod
    async def begin(self, embedding: EmbeddingInfo) -> None:
        """Start or continue with this embedding; vectors of another one that was started are dropped."""

    @abstractmethod
    async def find_pending(self, collection: Collection, after: str, limit: int) -> list[str]:
        """Return the first ids greater than `after`, ascending, that have a vector but no next one."""

    @abstractmethod
    async def get_next(self, collection: Collection, ids: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        """Return the next vectors stored for these ids, in any order."""

    @abstractmethod
    async def put(self, collection: Collection, batch: VectorBatch) -> None:
        """Store next vectors durably; ids that no longer have a vector are ignored.

        Raises:
            ConflictError: Another embedding was started meanwhile.
        """

    @abstractmethod
    async def finish(self) -> int:
        """Replace the first set by the second in one commit; return the new data version.

        Processes that have the workspace open with the old embedding get `SchemaMismatch` from then on.

        Raises:
            ConflictError: Next vectors are missing, or no change was started; nothing changed.
        """

    @abstractmethod
    async def abandon(self) -> None:
        """Drop the second set; does nothing if there is none."""


def check_begun(stored: tuple[str, int] | None, begun: tuple[str, int] | None) -> None:
    """Compare the embedding that fills the second set with the one that this process started.

    Raises:
        ConflictError: Another process started another one since, or none was started.
    """
    if stored is None or stored != begun:
        raise ConflictError(f"the workspace is not being embedded anew with {begun!r} but with {stored!r}; begin again")
