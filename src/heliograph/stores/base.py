"""The contracts of the stores of one workspace.

Four roles read: records (truth), graph, vectors, text; a reply cache stands beside them. One `Store` holds a set of
them and applies a `Changeset` to all. Every method takes and returns lists in the given order; what is missing is
absent from the result, and deleting what is missing does nothing. No call reaches into another workspace.
Implementations translate their driver's exceptions into `StoreError`s.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from heliograph.models import (
    Chunk,
    Document,
    DocumentStatus,
    Entity,
    EntityEvidence,
    Extraction,
    GraphPath,
    Relation,
    RelationEvidence,
    Stats,
    Subgraph,
    Usage,
)
from heliograph.stores.changeset import Changeset, Collection

__all__ = [
    "CachedReply",
    "DocumentPage",
    "DocumentQuery",
    "GraphStore",
    "Hit",
    "IncidentRelation",
    "RecordsStore",
    "ReplyCache",
    "Store",
    "TextStore",
    "VectorStore",
]


@dataclass(frozen=True, slots=True)
class Hit:
    """One search result: an id and its score, higher is better."""

    id: str
    score: float


@dataclass(frozen=True, slots=True)
class DocumentQuery:
    """Which documents to list; every condition given must hold.

    Attributes:
        statuses: Any of these; empty means all.
        track_id: Of this batch.
        source_prefix: Whose source starts so.
        sort: Field to sort by; ties by id.
        descending: Largest first.
        offset: Documents to skip.
        limit: Documents to return at the most.
    """

    statuses: tuple[DocumentStatus, ...] = ()
    track_id: str | None = None
    source_prefix: str | None = None
    sort: Literal["created_at", "updated_at", "source", "id"] = "created_at"
    descending: bool = False
    offset: int = 0
    limit: int = 100


@dataclass(frozen=True, slots=True)
class DocumentPage:
    """Documents that answer a `DocumentQuery`, and how many there are without its limit."""

    documents: tuple[Document, ...]
    total: int


@dataclass(frozen=True, slots=True)
class IncidentRelation:
    """A relation that touches a given entity, with what ranks it.

    Attributes:
        id: The relation's id.
        degree: Degree of one end plus degree of the other.
        weight: The relation's weight.
    """

    id: str
    degree: int
    weight: float


@dataclass(frozen=True, slots=True)
class CachedReply:
    """A finished model call.

    Attributes:
        key: `{mode}:{cache_type}:{args_hash}`.
        text: The reply.
        model: Name of the model that gave it.
        usage: What it cost.
        chunk_id: The chunk it was asked about, if any; it is dropped with the chunk.
        created_at: When it came, UTC.
    """

    key: str
    text: str
    model: str
    usage: Usage
    created_at: datetime
    chunk_id: str = ""


class RecordsStore(ABC):
    """Truth: documents, chunks, extractions, and the evidence counted from them."""

    @abstractmethod
    async def get_documents(self, ids: Sequence[str]) -> list[Document]:
        """Return the documents with these ids."""

    @abstractmethod
    async def find_documents(self, query: DocumentQuery) -> DocumentPage:
        """Return one page of documents."""

    @abstractmethod
    async def get_document_text(self, document_id: str) -> str | None:
        """Return a document's whole text, or None if there is no such document."""

    @abstractmethod
    async def get_chunks(self, ids: Sequence[str]) -> list[Chunk]:
        """Return the chunks with these ids."""

    @abstractmethod
    async def get_document_chunks(self, document_id: str) -> list[Chunk]:
        """Return a document's chunks by position; empty if there is no such document."""

    @abstractmethod
    async def get_sources(self, chunk_ids: Sequence[str]) -> dict[str, str]:
        """Return, per chunk id, the source of its document."""

    @abstractmethod
    async def get_extractions(self, chunk_ids: Sequence[str]) -> list[Extraction]:
        """Return what was read in these chunks, mentions in the order they were written."""

    @abstractmethod
    async def get_evidence(
        self, entity_ids: Sequence[str], relation_ids: Sequence[str], leading: int
    ) -> tuple[list[EntityEvidence], list[RelationEvidence]]:
        """Return the evidence for these, each with its first `leading` mentions in canonical order.

        Both lists and all versions are of one moment.
        """


class GraphStore(ABC):
    """Folded entities and relations, their degrees and neighbourhoods."""

    @abstractmethod
    async def get_entities(self, ids: Sequence[str]) -> list[Entity]:
        """Return the entities with these ids."""

    @abstractmethod
    async def get_relations(self, ids: Sequence[str]) -> list[Relation]:
        """Return the relations with these ids."""

    @abstractmethod
    async def rank_incident_relations(self, entity_ids: Sequence[str]) -> list[IncidentRelation]:
        """Return every relation that touches any of these, once, by (degree, weight) descending, then id.

        Cheap in what it returns per relation, so that a hub's relations can all be ranked and few be read.
        """

    @abstractmethod
    async def list_entities(self, offset: int, limit: int) -> list[Entity]:
        """Return entities by degree (descending), then name."""

    @abstractmethod
    async def get_neighbourhood(self, entity_id: str, depth: int, max_entities: int) -> Subgraph:
        """Return what lies within `depth` relations of an entity; empty if there is no such entity."""

    @abstractmethod
    async def find_shortest_paths(self, source_id: str, target_id: str, max_length: int, limit: int) -> list[GraphPath]:
        """Return up to `limit` paths of the least length, at most `max_length` relations; empty if there is none.

        Among equally short paths, those with the larger sum of weights come first, then by entity ids.
        """


class VectorStore(ABC):
    """Unit vectors in three collections, searched by cosine."""

    @abstractmethod
    async def search(
        self, collection: Collection, vector: NDArray[np.float32], limit: int, min_score: float
    ) -> list[Hit]:
        """Return the nearest ids by cosine, scores at least `min_score`, best first, ties by id.

        Args:
            collection: Where to look.
            vector: `(dimension,)` float32 of length 1.
            limit: Hits at the most.
            min_score: The least cosine, in [-1, 1].
        """

    @abstractmethod
    async def get_vectors(self, collection: Collection, ids: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        """Return the stored vectors, exact, per id."""


class TextStore(ABC):
    """Full text over terms, in the collections of chunks and of entities."""

    @abstractmethod
    async def search(self, collection: Collection, terms: Sequence[str], limit: int) -> list[Hit]:
        """Return what holds any of the terms by BM25 (k1 1.2, b 0.75), best first, ties by id."""


class ReplyCache(ABC):
    """Finished model calls, so that none is paid for twice."""

    @abstractmethod
    async def get_reply(self, key: str) -> CachedReply | None:
        """Return the reply under this key, or None."""

    @abstractmethod
    async def put_reply(self, reply: CachedReply) -> None:
        """Keep a reply, durably, in place of any under its key."""

    @abstractmethod
    async def delete_replies(self, cache_type: str | None = None) -> int:
        """Drop all replies, or those of one type (the middle part of their key); return how many."""


class Store(ABC):
    """The stores of one workspace, opened together."""

    records: RecordsStore
    graph: GraphStore
    vectors: VectorStore
    text: TextStore
    replies: ReplyCache

    @abstractmethod
    async def apply(self, changeset: Changeset) -> int:
        """Apply a changeset to every role, all or nothing, durably; return the new data version.

        Cached answers (type `query`) of earlier versions are dropped in the same commit.

        Raises:
            StaleChangesetError: Something in `expected` or `expected_documents` no longer holds; nothing changed.
            StoreUnavailable: It cannot be written; nothing changed.
        """

    @abstractmethod
    def ingest_lock(self) -> AbstractAsyncContextManager[None]:
        """Return a lock that one ingest at a time, of all processes, holds on this workspace.

        Entering waits up to `store.write_timeout_seconds`; a holder that dies lets go.

        Raises:
            StoreUnavailable: On entering, when another process still holds it.
        """

    @abstractmethod
    async def get_data_version(self) -> int:
        """Return the number that every commit raises."""

    @abstractmethod
    async def get_stats(self) -> Stats:
        """Return the counts of this workspace, all of one moment."""

    @abstractmethod
    async def close(self) -> None:
        """Finish what is under way and let go of files and connections; closing twice does nothing."""

    @abstractmethod
    def describe(self) -> Mapping[str, str]:
        """Return what is opened where, for `doctor`; no secrets."""
