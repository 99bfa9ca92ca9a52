"""What looks after a whole workspace asks of its store: lists of all ids, damage and faults, and other vectors.

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
    """What ids can be listed of; names of projections say what they are of."""

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
    """One damaged thing.

    Attributes:
        message: What, and what to do.
        document_id: Whose it is; empty for none or several.
        is_repaired: Whether it was put right.
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
        """Yield all ids, ascending, so many at a time."""
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
            repair: Whether to save what is whole, so that all can be read again; says then also what is lost.
            is_certain: Whether something was found already that cannot be read.
        """
        del repair, is_certain
        return []

    async def find_faults(self) -> list[str]:
        """Return the faults of the back end's own files and counts, one sentence each; empty if there are none."""
        return []

    async def repair(self) -> None:
        """Put right what `find_faults` found, as far as it follows from the rest; otherwise change nothing."""
        return


class Reembedding(ABC):
    """The second set of vectors of one workspace."""

    @abstractmethod
    async def begin(self, embedding: EmbeddingInfo) -> None:
        """Begin, or go on, with this embedding; what another one had begun is dropped."""

    @abstractmethod
    async def find_pending(self, collection: Collection, after: str, limit: int) -> list[str]:
        """Return the first ids greater than `after`, ascending, that have a vector but no next one."""

    @abstractmethod
    async def get_next(self, collection: Collection, ids: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        """Return the next vectors that are kept of these ids, in any order."""

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


def check_begun(stored: tuple[str, int] | None, begun: tuple[str, int] | None) -> None:
    """Compare the embedding that fills the second set with the one that this process has begun.

    Raises:
        ConflictError: Another process began another one since, or nothing was begun.
    """
    if stored is None or stored != begun:
        raise ConflictError(f"the workspace is not being embedded anew with {begun!r} but with {stored!r}; begin again")
