"""The contract of stores that stand beside the one with the truth and serve one role of it.

`open` reads a projection's address and need not reach the external store, so that a workspace opens while that is away;
`prepare` reaches it. A projection applies changes up to its cursor, the data version up to which it is up to date.
Changes are idempotent: the same one may come again after a crash. Its data can be rebuilt from the truth at any time.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from heliograph.models import Chunk, Document, Entity, Relation
from heliograph.stores.base import GraphStore, ReplyCache, TextStore, VectorStore
from heliograph.stores.changeset import Collection, OutboxKind, TextEntry

__all__ = [
    "CacheProjection",
    "GraphProjection",
    "Projection",
    "ProjectionChange",
    "TextProjection",
    "VectorProjection",
    "is_alike",
    "is_same_vector",
]

# External stores keep float32, or numbers of 15 digits; edits and damage change more than this.
_VECTOR_TOLERANCE = 1e-5
_NUMBER_TOLERANCE = 1e-12
# Entities read per page when all are scanned.
_PAGE = 1_000
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class ProjectionChange:
    """A change for a projection to apply; fields that it does not need are empty.

    Attributes:
        documents: Current documents to upsert.
        chunks: Likewise.
        entities: Likewise.
        relations: Likewise. Their ends may come in another change.
        vectors: Vectors per collection and id, `(dimension,)` float32 of length 1.
        texts: Full text of `chunks` and `entities`, an entry for each.
        owners: The documents of `chunks`, per document id.
        owner_ids: Id of its document per chunk id, of `chunks` and of the chunks that `entities` name.
        names: Names of the entities that each of `chunks` mentions.
        chunk_ids: Ids of the chunks of `documents`, by position, per document id.
        removed: Removed ids, per kind.
        kept_replies: Keys of replies that outlive their subject.
    """

    documents: tuple[Document, ...] = ()
    chunks: tuple[Chunk, ...] = ()
    entities: tuple[Entity, ...] = ()
    relations: tuple[Relation, ...] = ()
    vectors: Mapping[Collection, Mapping[str, NDArray[np.float32]]] = field(
        default_factory=dict[Collection, Mapping[str, NDArray[np.float32]]]
    )
    texts: Mapping[Collection, tuple[TextEntry, ...]] = field(default_factory=dict[Collection, tuple[TextEntry, ...]])
    owners: Mapping[str, Document] = field(default_factory=dict[str, Document])
    owner_ids: Mapping[str, str] = field(default_factory=dict[str, str])
    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    chunk_ids: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    removed: Mapping[OutboxKind, Sequence[str]] = field(default_factory=dict[OutboxKind, Sequence[str]])
    kept_replies: tuple[str, ...] = ()


class Projection(ABC):
    """One role of one workspace in an external store.

    Attributes:
        role: The role it serves, as `store.<role>_url` names it.
        name: Its name in cursors, messages and metrics: the role and the address; no secrets.
        kinds: The kinds of outbox entries it applies.
        needs_vectors: Whether changes must carry vectors.
        needs_texts: Whether changes must carry full text.
        needs_origins: Whether changes must carry the documents of chunks and entities.
    """

    role: str = ""
    name: str
    kinds: frozenset[OutboxKind]
    needs_vectors: bool = False
    needs_texts: bool = False
    needs_origins: bool = False

    async def prepare(self) -> None:
        """Reach the external store and create what it lacks; called first, and again until it succeeds.

        A projection whose `open` already reaches the external store need not do anything here; a workspace then does
        not open while that is away.

        Raises:
            StoreUnavailable: It is out of reach, which may pass.
            StoreAccessDenied: It refuses the credentials.
            SchemaMismatch: Its data does not fit, such as vectors of another length.
            StoreError: It cannot serve, such as one that is too old.
        """
        return

    @abstractmethod
    async def get_cursor(self) -> int:
        """Return the data version up to which it is up to date; -1 if it never was.

        Raises:
            StoreUnavailable: It is out of reach.
        """

    @abstractmethod
    async def apply(self, change: ProjectionChange) -> None:
        """Apply a change durably; applying it again changes nothing.

        Raises:
            StoreUnavailable: It is out of reach; part of the change may have been applied.
        """

    @abstractmethod
    async def set_cursor(self, version: int) -> None:
        """Store the cursor durably: the data version applied. A cache drops its answers, all of earlier versions.

        Raises:
            StoreUnavailable: It is out of reach.
        """

    @abstractmethod
    async def clear(self) -> None:
        """Remove all data of this workspace, the cursor (-1) first, so that a partial removal shows as no data.

        Raises:
            StoreUnavailable: It is out of reach.
        """

    @abstractmethod
    async def scan(self, kind: OutboxKind, after: str, limit: int) -> list[str]:
        """Return the first stored ids of this kind that are greater than `after`, ascending."""

    @abstractmethod
    async def compare(self, expected: ProjectionChange) -> set[str]:
        """Return the ids whose stored data differs from `expected`, including missing ones.

        An external store that can compare where its data is need not send it. Values that the external store cannot
        hold, such as a NUL in a text or the last digits of a number, count as equal.
        """

    async def find_faults(self) -> list[str]:
        """Return faults of its own derived data, such as counts and orders, one sentence each."""
        return []

    async def close(self) -> None:
        """Close all connections; closing twice does nothing."""
        return

    def describe(self) -> Mapping[str, str]:
        """Return the back end and its address, for `doctor`; no secrets."""
        return {"back end": type(self).__name__}


class GraphProjection(Projection, GraphStore):
    """Folded entities and relations in an external store."""

    role = "graph"
    kinds = frozenset({OutboxKind.ENTITIES, OutboxKind.RELATIONS})

    async def list_entities(self, offset: int, limit: int) -> list[Entity]:
        """Reads all entities, where an external store keeps no order of them."""
        entities: list[Entity] = []
        after = ""
        while ids := await self.scan(OutboxKind.ENTITIES, after, _PAGE):
            entities += await self.get_entities(ids)
            after = ids[-1]
        entities.sort(key=lambda entity: (-entity.degree, entity.name, entity.id))
        return entities[max(0, offset) :][: max(0, limit)]

    async def compare(self, expected: ProjectionChange) -> set[str]:
        """Reads both back."""
        wanted = (*expected.entities, *expected.relations)
        entities = await self.get_entities([item.id for item in expected.entities])
        relations = await self.get_relations([item.id for item in expected.relations])
        kept = {item.id: item for item in (*entities, *relations)}
        return {item.id for item in wanted if item.id not in kept or not is_alike(item, kept[item.id])}


class VectorProjection(Projection, VectorStore):
    """Vectors in an external store, with the fields that its own users want beside them."""

    role = "vectors"
    kinds = frozenset({OutboxKind.DOCUMENTS, OutboxKind.CHUNKS, OutboxKind.ENTITIES, OutboxKind.RELATIONS})
    needs_vectors = True

    async def compare(self, expected: ProjectionChange) -> set[str]:
        """Reads the vectors back."""
        differing: set[str] = set()
        for collection, vectors in expected.vectors.items():
            kept = await self.get_vectors(collection, list(vectors))
            differing.update(id_ for id_, vector in vectors.items() if not is_same_vector(vector, kept.get(id_)))
        return differing


class TextProjection(Projection, TextStore):
    """Full text in an external store, of chunks and of entities."""

    role = "text"
    kinds = frozenset({OutboxKind.CHUNKS, OutboxKind.ENTITIES})
    needs_texts = True


class CacheProjection(Projection, ReplyCache):
    """Cached replies in an external store; it applies entries that drop replies by subject."""

    role = "cache"
    kinds = frozenset({OutboxKind.SUBJECTS})

    async def compare(self, expected: ProjectionChange) -> set[str]:  # noqa: ARG002 (replies follow from nothing)
        """Replies cannot be compared: they exist only in the cache."""
        return set()


def first_keyword(relation: Relation) -> str:
    """Return the keyword that names a relation where it has only one name."""
    return relation.keywords[0] if relation.keywords else "related"


def is_same_vector(wanted: NDArray[np.float32], kept: NDArray[np.float32] | None) -> bool:
    """Whether a vector is stored as given, within the error of an external store that normalises it again."""
    return kept is not None and kept.shape == wanted.shape and bool(np.abs(kept - wanted).max() < _VECTOR_TOLERANCE)


def is_alike(wanted: object, kept: object) -> bool:
    """Whether two values are equal but for what some stores cannot hold: NUL, lone surrogates, last digits.

    Records are compared by their fields, mappings and sequences by their items.
    """
    if wanted == kept:
        return True
    if is_dataclass(wanted) and type(wanted) is type(kept):
        return all(is_alike(getattr(wanted, item.name), getattr(kept, item.name)) for item in fields(wanted))
    match wanted, kept:
        case str(), str():
            return _UNSTORABLE.sub("\N{REPLACEMENT CHARACTER}", wanted) == kept
        case float() | int(), float() | int():
            return math.isclose(wanted, kept, rel_tol=_NUMBER_TOLERANCE)
        case Mapping(), Mapping():
            left, right = cast("Mapping[str, object]", wanted), cast("Mapping[str, object]", kept)
            return left.keys() == right.keys() and all(is_alike(left[name], right[name]) for name in left)
        case list() | tuple(), list() | tuple():
            pair = cast("Sequence[object]", wanted), cast("Sequence[object]", kept)
            return len(pair[0]) == len(pair[1]) and all(map(is_alike, *pair))
        case _:
            return False
