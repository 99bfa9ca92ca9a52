"""The contract of stores that stand beside the one with the truth and serve one role of it.

What opens one reads its address and need not reach the engine, so that a workspace opens while the engine is away;
`prepare` reaches it. A projection takes in changes by its cursor, the data version up to which it is up to date.
Changes are idempotent: the same one may come again after a crash. What it keeps can be made anew from the truth at any
time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from heliograph.models import Chunk, Document, Entity, Relation
from heliograph.stores.base import GraphStore, ReplyCache, TextStore, VectorStore
from heliograph.stores.changeset import Collection, TextEntry
from heliograph.stores.outbox import OutboxKind

__all__ = [
    "CacheProjection",
    "GraphProjection",
    "Projection",
    "ProjectionChange",
    "TextProjection",
    "VectorProjection",
]


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
    """One role of one workspace in another engine.

    Attributes:
        name: Which, for cursors, messages and metrics: the role, and where it is; no secrets.
        kinds: What it takes in.
        needs_vectors: Whether it takes vectors in.
        needs_texts: Whether it takes full text in.
        needs_origins: Whether it wants to know the documents of chunks and entities.
    """

    name: str
    kinds: frozenset[OutboxKind]
    needs_vectors: bool = False
    needs_texts: bool = False
    needs_origins: bool = False

    async def prepare(self) -> None:
        """Reach the engine and make what is missing there; comes before all else, and again until it succeeds.

        An engine that is reached in the function that opens it need not do anything here; a workspace then does not
        open while it is away.

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
    async def close(self) -> None:
        """Let go of connections; closing twice does nothing."""

    @abstractmethod
    def describe(self) -> Mapping[str, str]:
        """Return what is opened where, for `doctor`; no secrets."""


class GraphProjection(Projection, GraphStore):
    """Folded entities and relations in another engine."""

    kinds = frozenset({OutboxKind.ENTITIES, OutboxKind.RELATIONS})


class VectorProjection(Projection, VectorStore):
    """Vectors in another engine, with what its own users want to see beside them."""

    kinds = frozenset({OutboxKind.DOCUMENTS, OutboxKind.CHUNKS, OutboxKind.ENTITIES, OutboxKind.RELATIONS})
    needs_vectors = True


class TextProjection(Projection, TextStore):
    """Full text in another engine, of chunks and of entities."""

    kinds = frozenset({OutboxKind.CHUNKS, OutboxKind.ENTITIES})
    needs_texts = True


class CacheProjection(Projection, ReplyCache):
    """Cached replies in another engine; it takes in of what they must no longer speak."""

    kinds = frozenset({OutboxKind.SUBJECTS})
