"""Reading a workspace as a whole: for checks, rebuilding, exports.

Everything is read by pages of ids in ascending order, so that memory holds a page however large the workspace is.
A back end also says what only it can know to be wrong with its own files, and puts that right.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from hashlib import blake2b

from heliograph.models import Batch, Document, EntityMention, RelationMention, Usage
from heliograph.stores.changeset import Collection

# How many a `Batch` carries.
SHOWN_ERRORS = 5
_MODULUS = 1 << 63


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
    """One thing that is not what was written.

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

    @abstractmethod
    async def get_mentions(
        self, entity_ids: Sequence[str], relation_ids: Sequence[str], offset: int, limit: int
    ) -> tuple[dict[str, list[EntityMention]], dict[str, list[RelationMention]]]:
        """Return, per id that has any, its mentions in canonical order from `offset` on, at most `limit`."""

    @abstractmethod
    async def digest_texts(self, collection: Collection) -> dict[str, int]:
        """Return, per id with full text, the `digest_terms` of what is stored; reads all of it."""

    @abstractmethod
    async def list_batches(self, offset: int, limit: int) -> list[Batch]:
        """Return batches by the moment of their last change, descending, then by id; documents without one are left."""

    async def find_damage(self, *, repair: bool, is_certain: bool = False) -> list[Damage]:
        """Return what of the back end's files cannot be read, or is not what was written; none if an engine sees to it.

        Args:
            repair: Whether to save what is whole, so that all can be read again; says then also what is lost.
            is_certain: Whether something was found already that cannot be read.
        """
        del repair, is_certain
        return []

    @abstractmethod
    async def find_faults(self) -> list[str]:
        """Return what is wrong with the back end's own files and counts, one sentence each; empty if all is well."""

    @abstractmethod
    async def repair(self) -> None:
        """Put right what `find_faults` found, as far as it follows from the rest; otherwise change nothing."""


def batch_of(track_id: str, documents: Sequence[Document]) -> Batch:
    """Return what the documents of a batch, at least one, add up to."""
    failed = sorted((document.source, document.error) for document in documents if document.error)
    return Batch(
        track_id,
        Counter(document.status for document in documents),
        sum(document.chunk_count for document in documents),
        sum((document.usage for document in documents), Usage()),
        min(document.created_at for document in documents),
        max(document.updated_at for document in documents),
        tuple(failed[:SHOWN_ERRORS]),
    )


def digest_terms(terms: Iterable[str]) -> int:
    """Return a number below 2**63 that is equal for equal terms with equal counts, in whatever order."""
    return sum(map(_hash, terms)) % _MODULUS


@lru_cache(maxsize=200_000)
def _hash(term: str) -> int:
    return int.from_bytes(blake2b(term.encode("utf-8", "surrogatepass"), digest_size=7).digest(), "little")
