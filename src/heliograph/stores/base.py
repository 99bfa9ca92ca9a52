"""The contracts of the stores of one workspace.

Five roles read: records and curations (truth), graph, vectors, text; a reply cache stands beside them. One `Store`
holds a set of them and applies a `Changeset` to all. Every method takes and returns lists in the given order; what is
missing is absent from the result, and deleting what is missing does nothing. No call reaches into another workspace.
Implementations translate their driver's exceptions into `StoreError`s.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from heliograph.errors import InvalidRequestError
from heliograph.filters import Filter, check_filter
from heliograph.models import (
    AliasMention,
    Chunk,
    Curation,
    Document,
    DocumentStatus,
    Entity,
    EntityEvidence,
    EntityMention,
    Extraction,
    GraphPath,
    NameRules,
    Relation,
    RelationEvidence,
    RelationMention,
    Stats,
    Subgraph,
    Usage,
)
from heliograph.stores.changeset import Changeset, Collection
from heliograph.stores.inspection import Inspection
from heliograph.stores.reembedding import Reembedding

__all__ = [
    "CachedReply",
    "CurationPage",
    "CurationQuery",
    "CurationStore",
    "DocumentPage",
    "DocumentQuery",
    "DocumentSort",
    "Fold",
    "GraphStore",
    "Hit",
    "IncidentRelation",
    "RecordsStore",
    "ReplyCache",
    "Store",
    "StoreView",
    "TextStore",
    "VectorStore",
]


DocumentSort = Literal["created_at", "updated_at", "source", "id"]


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
        filter: Which match it.
        content_hashes: Whose text has any of these hashes; empty means any text.
        twin_of: Which are twins of this document.
        sort: Field to sort by; ties by id.
        descending: Largest first.
        offset: Documents to skip.
        limit: Documents to return at the most.

    Raises:
        InvalidRequestError: The filter is none, there is no such field to sort by, or a number is negative.
    """

    statuses: tuple[DocumentStatus, ...] = ()
    track_id: str | None = None
    source_prefix: str | None = None
    filter: Filter | None = None
    content_hashes: tuple[str, ...] = ()
    twin_of: str | None = None
    sort: DocumentSort = "created_at"
    descending: bool = False
    offset: int = 0
    limit: int = 100

    def __post_init__(self) -> None:
        # What is no filter must not pass for none: what matches may be about to be deleted.
        if isinstance(self.filter, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidRequestError(f"filter is {self.filter!r:.200}; read it with heliograph.filters.parse_filter")
        if self.filter is not None:
            check_filter(self.filter)
        if self.source_prefix is not None and not isinstance(self.source_prefix, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidRequestError(f"source_prefix is {self.source_prefix!r}; give a string")
        if self.sort not in get_args(DocumentSort):
            raise InvalidRequestError(f"sort is {self.sort!r}; choose one of {', '.join(get_args(DocumentSort))}")
        if self.offset < 0 or self.limit < 0:
            raise InvalidRequestError(f"offset is {self.offset} and limit {self.limit}; neither may be negative")


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
        subject_id: The chunk, entity or relation it was asked about, if any; a commit that removes that chunk, or
            anything said of that entity or relation, drops it.
        created_at: When it came, UTC.
    """

    key: str
    text: str
    model: str
    usage: Usage
    created_at: datetime
    subject_id: str = ""


@dataclass(frozen=True, slots=True)
class CurationQuery:
    """Which curations to list; every condition given must hold.

    Attributes:
        entity_id: That names this entity, alone or as an end of a relation.
        includes_undone: Whether to list those that were taken back, too.
        descending: Latest first.
        offset: Curations to skip.
        limit: Curations to return at the most.
    """

    entity_id: str | None = None
    includes_undone: bool = True
    descending: bool = False
    offset: int = 0
    limit: int = 100


@dataclass(frozen=True, slots=True)
class CurationPage:
    """Curations that answer a `CurationQuery`, and how many there are without its limit."""

    curations: tuple[Curation, ...]
    total: int


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
    async def get_twin_sources(self, chunk_ids: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """Return, per chunk id, the sources of other documents with the text of its document, by their ids, if any."""

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
    async def find_shortest_paths(
        self, source_id: str, target_id: str, max_length: int, limit: int, most_visited: int = 200_000
    ) -> list[GraphPath]:
        """Return up to `limit` paths of the least length, at most `max_length` relations; empty if there is none.

        Among equally short paths, those with the larger sum of weights come first, then by entity ids. A back end whose
        cost follows the entities met on the way gives up, with no path, where they or their relations are more than
        `most_visited`; two entities so far apart are as good as unrelated.
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


class CurationStore(ABC):
    """What decides which entity a name counts for, and what people corrected by hand."""

    @abstractmethod
    async def get_rules(self, ids: Sequence[str]) -> list[NameRules]:
        """Return the rules of names, per entity id of a name, all of one moment; most names have none."""

    @abstractmethod
    async def get_curations(self, ids: Sequence[str]) -> list[Curation]:
        """Return the curations with these ids, undone ones too."""

    @abstractmethod
    async def find_curations(self, query: CurationQuery) -> CurationPage:
        """Return one page of curations by sequence."""

    @abstractmethod
    async def find_mentioning_chunks(self, ids: Sequence[str]) -> dict[str, str]:
        """Return chunks with an entity mention that is about one of these ids, with the id of their document.

        About it is what counts for this entity, and what is written with a name that alone stands for it.
        """

    @abstractmethod
    async def get_document_aliases(self, document_ids: Sequence[str]) -> dict[str, list[AliasMention]]:
        """Return, per document that has any, the alias mentions of all its chunks."""


class TextStore(ABC):
    """Full text over terms, in the collections of chunks and of entities."""

    @abstractmethod
    async def search(self, collection: Collection, terms: Sequence[str], limit: int) -> list[Hit]:
        """Return what holds any of the terms by BM25 (k1 1.2, b 0.75), best first, ties by id.

        In a large collection a back end may estimate how often frequent terms occur, and leave out what holds only
        such terms where enough holds rarer ones, so that time does not grow with the collection.
        """

    @abstractmethod
    async def find_phrases(
        self, collection: Collection, phrases: Sequence[Sequence[str]], limit: int
    ) -> list[list[str]]:
        """Return, per phrase, ids of what holds its terms one after the other, `limit` at the most.

        Which ones, where more hold them, does not change while the collection does not; ask for one more than is
        wanted to see whether there are more. An empty phrase is held by nothing.
        """


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


class Fold(ABC):
    """How mentions become what is shown: given to `Store.view`, which has mentions of its own to count and fold.

    Pure, equal to others of the same settings, and hashable.
    """

    @property
    @abstractmethod
    def leading(self) -> int:
        """Mentions, first in canonical order, that a fold reads."""

    @abstractmethod
    def count_entity(self, id_: str, mentions: Sequence[EntityMention], leading: int) -> EntityEvidence:
        """Return what an entity's mentions, in canonical order, add up to; at least one."""

    @abstractmethod
    def count_relation(
        self, id_: str, ends: tuple[str, str], mentions: Sequence[RelationMention], leading: int
    ) -> RelationEvidence:
        """Return what a relation's mentions add up to; `ends` are its entities' ids, in the order of the evidence."""

    @abstractmethod
    def fold_entity(self, evidence: EntityEvidence) -> Entity:
        """Return the entity that the evidence adds up to; its degree and moment are left to the store."""

    @abstractmethod
    def fold_relation(self, evidence: RelationEvidence) -> Relation:
        """Return the relation that the evidence adds up to; its moment is left to the store."""

    @abstractmethod
    def name_terms(self, entity: Entity) -> Sequence[str]:
        """Return the terms by which an entity is found in full text."""


class StoreView(ABC):
    """What can be read of one workspace: all of it, or what a filter leaves of it."""

    records: RecordsStore
    graph: GraphStore
    vectors: VectorStore
    text: TextStore


class Store(StoreView):
    """The stores of one workspace, opened together."""

    curations: CurationStore
    replies: ReplyCache
    inspection: Inspection
    reembedding: Reembedding

    @abstractmethod
    async def apply(self, changeset: Changeset) -> int:
        """Apply a changeset to every role, all or nothing, durably; return the new data version.

        Cached answers (type `query`) of earlier versions are dropped in the same commit.

        Raises:
            StaleChangesetError: Something that the changeset expects no longer holds; nothing changed.
            StoreUnavailable: It cannot be written; nothing changed.
        """

    @abstractmethod
    def view(self, filter_: Filter, fold: Fold) -> StoreView:
        """Return the workspace as if no document existed but those that match the filter.

        Entities and relations are folded anew from the mentions in matching documents: nothing else shows in a name,
        an alias, a type, a description, keywords, a weight, a degree, chunks or moments. There is no entity without
        such a mention, and corrections made by hand do not show, but for which names are one entity. Only the order
        of hits among entities and relations, and the scores of hits, may depend on what does not match, as vectors
        and the frequency of terms do.

        Nothing is read yet; every call sees the documents that match at its own moment. A view is not closed.
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
    async def clear(self) -> int:
        """Delete all of this workspace's contents in one commit; return the new data version.

        Raises:
            StoreUnavailable: It cannot be written; nothing changed.
        """

    @abstractmethod
    async def vacuum(self) -> None:
        """Give back the room of what was deleted: afterwards no file of this workspace holds a byte of it."""

    @abstractmethod
    async def backup(self, path: Path) -> None:
        """Write all of this workspace, as of one moment, into one new file; reading and writing go on meanwhile.

        Raises:
            ConflictError: There is such a file.
            InvalidRequestError: This back end has no backup of its own; its operators have.
            StoreUnavailable: It cannot be read, or the file not be written; nothing is left of it.
        """

    @abstractmethod
    async def close(self) -> None:
        """Finish what is under way and let go of files and connections; closing twice does nothing."""

    @abstractmethod
    def describe(self) -> Mapping[str, str]:
        """Return what is opened where, for `doctor`; no secrets."""
