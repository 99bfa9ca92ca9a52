"""The contract of stores that stand beside the one with the truth and serve one role of it.

What opens one reads its address and need not reach the external store, so that a workspace opens while that is away;
`prepare` reaches it. A projection takes in changes by its cursor, the data version up to which it is up to date.
Changes are idempotent: the same one may come again after a crash. What it keeps can be made anew from the truth at any
time.
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

# External stores keep float32, or numbers of 15 digits; what people or damage change is more than this.
_VECTOR_TOLERANCE = 1e-5
_NUMBER_TOLERANCE = 1e-12
# Entities read at once where all are looked through.
_PAGE = 1_000
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class ProjectionChange:
    """What a projection has to take in; fields it has no use for are empty.

    Attributes:
        documents: Documents that are there now, upserts.
        chunks: Likewise.
        entities: Likewise.
        relations: Likewise. Their ends may come in another change.
        vectors: Vectors per collection and id, `(dimension,)` float32 of length 1.
        texts: Full text of `chunks` and `entities`, an entry for each.
        owners: The documents of `chunks`, per document id.
        owner_ids: Id of its document per chunk id, of `chunks` and of the chunks that `entities` name.
        names: Names of the entities that each of `chunks` mentions.
        chunk_ids: Ids of the chunks of `documents`, by position, per document id.
        removed: Ids that are not there any more, per kind.
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
        role: Which it serves, as `store.<role>_url` names it.
        name: Which, for cursors, messages and metrics: the role, and where it is; no secrets.
        kinds: What it takes in.
        needs_vectors: Whether it takes vectors in.
        needs_texts: Whether it takes full text in.
        needs_origins: Whether it wants to know the documents of chunks and entities.
    """

    role: str = ""
    name: str
    kinds: frozenset[OutboxKind]
    needs_vectors: bool = False
    needs_texts: bool = False
    needs_origins: bool = False

    async def prepare(self) -> None:
        """Reach the external store and create what it lacks; called first, and again until it succeeds.

        An external store that is reached in the function that opens it need not do anything here; a workspace then does
        not open while it is away.

        Raises:
            StoreUnavailable: It is out of reach, which may pass.
            StoreAccessDenied: It refuses who asks.
            SchemaMismatch: It holds what does not fit, such as vectors of another length.
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
        """Take a change in, durably; taking it in again changes nothing.

        Raises:
            StoreUnavailable: It is out of reach; part of the change may have been taken in.
        """

    @abstractmethod
    async def set_cursor(self, version: int) -> None:
        """Note, durably, up to which data version it is up to date; a cache drops its answers, all of earlier versions.

        Raises:
            StoreUnavailable: It is out of reach.
        """

    @abstractmethod
    async def clear(self) -> None:
        """Remove all of this workspace and set the cursor to -1, the cursor first, so that half of it shows as none.

        Raises:
            StoreUnavailable: It is out of reach.
        """

    @abstractmethod
    async def scan(self, kind: OutboxKind, after: str, limit: int) -> list[str]:
        """Return the first ids it keeps of this kind that are greater than `after`, ascending."""

    @abstractmethod
    async def compare(self, expected: ProjectionChange) -> set[str]:
        """Return the ids of what it keeps otherwise than taking in `expected` would leave it, absent ones too.

        An external store that can compare where its data is need not send it. Whatever the external store cannot hold,
        such as a NUL in a text or the last digits of a number, makes no difference.
        """

    async def find_faults(self) -> list[str]:
        """Return faults of counts and orders that follow from its own contents, one sentence each."""
        return []

    async def close(self) -> None:
        """Let go of connections; closing twice does nothing."""
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
    """Vectors in an external store, with what its own users want to see beside them."""

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
    """Cached replies in an external store; it takes in of what they must no longer speak."""

    role = "cache"
    kinds = frozenset({OutboxKind.SUBJECTS})

    async def compare(self, expected: ProjectionChange) -> set[str]:  # noqa: ARG002 (replies follow from nothing)
        """Replies have no other truth than the cache."""
        return set()


def first_keyword(relation: Relation) -> str:
    """Return what a relation is called where it has one name."""
    return relation.keywords[0] if relation.keywords else "related"


def is_same_vector(wanted: NDArray[np.float32], kept: NDArray[np.float32] | None) -> bool:
    """Whether a vector is kept as given, within the error of an external store that normalises it again."""
    return kept is not None and kept.shape == wanted.shape and bool(np.abs(kept - wanted).max() < _VECTOR_TOLERANCE)


def is_alike(wanted: object, kept: object) -> bool:
    """Whether two values are equal, but for what some stores cannot hold: NUL, lone surrogates, last digits of numbers.

    Records are compared by their fields, mappings and sequences by what is in them.
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
