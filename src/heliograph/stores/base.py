"""The contract of a store: its roles, their queries and their results.

Five roles read: records and curations (the truth), graph, vectors, text. Beside them stand the name index, the reply
cache, whole-workspace reads (`Inspection`) and the change of the embedding (`Reembedding`). One `Store` holds a set of
them and applies a `Changeset` to all. Every method takes and returns lists in the given order; a missing item is absent
from the result, and deleting a missing item does nothing. No call reaches into another workspace. Implementations
translate their driver's exceptions into `StoreError`s.

A back end must implement the abstract methods. All other methods are written once on top of these; a back end
overrides those that it can serve at less cost.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from sys import maxsize
from typing import Any, NamedTuple, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from heliograph.arguments import check_count, check_limit
from heliograph.embedding.base import cosines
from heliograph.errors import InvalidRequestError
from heliograph.filters import MOST_CHARACTERS, DocumentIds, Filter, check_filter
from heliograph.ids import is_storable, is_subject_rank
from heliograph.models import (
    COMMITTED_STATUSES,
    AliasMention,
    Batch,
    Chunk,
    Curation,
    Document,
    DocumentSort,
    DocumentStatus,
    Entity,
    EntityEvidence,
    EntityMention,
    Extraction,
    NameRules,
    Relation,
    RelationEvidence,
    RelationMention,
    Stats,
    Usage,
)
from heliograph.stores.changeset import Changeset, Collection, Outbox
from heliograph.stores.graph import EveryName, GraphStore, IncidentRelation, NameIndex
from heliograph.stores.inspection import Damage, Inspection, Reembedding, ScanKind, check_begun

__all__ = [
    "ANSWERS",
    "CachedReply",
    "CurationPage",
    "CurationQuery",
    "CurationStore",
    "Damage",
    "DocumentPage",
    "DocumentQuery",
    "DocumentSort",
    "EntityPlaces",
    "EveryName",
    "Fold",
    "Follower",
    "GraphStore",
    "Hit",
    "IncidentRelation",
    "Inspection",
    "NameIndex",
    "NoReplyCache",
    "RecordsStore",
    "Reembedding",
    "ReplyCache",
    "ScanKind",
    "Store",
    "StoreView",
    "TextStore",
    "VectorStore",
    "batch_of",
    "check_begun",
    "places_of",
]

T = TypeVar("T")

# How many errors a `Batch` carries.
SHOWN_ERRORS = 5
# Documents read per page where all are wanted: each page skips the earlier ones, and counts all that match.
_PAGE = 10_000


class Hit(NamedTuple):
    """One search result: an id and its score, higher is better."""

    id: str
    score: float


@dataclass(frozen=True, slots=True)
class DocumentQuery:
    """Which documents to list; a document must meet every condition given.

    Attributes:
        statuses: Documents in any of these statuses; empty means all.
        track_id: Documents of the batch with this id.
        source_prefix: Documents whose source starts with this text.
        filter: Documents that match this filter.
        content_hashes: Documents whose text has any of these hashes; empty means any text.
        twin_of: Documents that are twins of the document with this id.
        sort: Field of `Document` to sort by, not of its metadata; ties by id.
        descending: Largest first.
        offset: Documents to skip.
        limit: Documents to return at the most; `sys.maxsize` for all.

    Raises:
        InvalidRequestError: `filter` is not a filter, there is no such field to sort by, or a number is negative or
            `offset` above `LARGEST_COUNT`.
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
        # A wrong type must not pass for "no filter": the caller may be about to delete the documents that match.
        if isinstance(self.filter, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidRequestError(f"filter is {self.filter!r:.200}; read it with heliograph.filters.parse_filter")
        if self.filter is not None:
            check_filter(self.filter)
        if self.source_prefix is not None and not isinstance(self.source_prefix, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidRequestError(f"source_prefix is {self.source_prefix!r}; give a string")
        if self.sort not in get_args(DocumentSort):
            raise InvalidRequestError(f"sort is {self.sort!r}; choose one of {', '.join(get_args(DocumentSort))}")
        object.__setattr__(self, "offset", check_count("offset", self.offset))
        object.__setattr__(self, "limit", check_limit("limit", self.limit))

    @property
    def can_match(self) -> bool:
        """Whether a store can hold all texts of the query; if it cannot, no document matches."""
        texts = (self.track_id, self.source_prefix, self.twin_of, *self.content_hashes)
        return all(text is None or is_storable(text) for text in texts)


@dataclass(frozen=True, slots=True)
class DocumentPage:
    """Documents that match a `DocumentQuery`, and how many there are without its limit."""

    documents: tuple[Document, ...]
    total: int


@dataclass(frozen=True, slots=True)
class EntityPlaces:
    """Where an entity is mentioned: the part of its evidence that is needed to go from chunk to chunk.

    Attributes:
        id: The entity's id.
        mention_count: Number of mentions.
        chunk_ids: Distinct chunks of its mentions in canonical order; for an entity with more mentions than were
            requested, the first of the chunks that are about it.
        subjects: How many of these chunks, the first ones, are about it.
    """

    id: str
    mention_count: int
    chunk_ids: tuple[str, ...]
    subjects: int

    @property
    def about(self) -> tuple[str, ...]:
        """Distinct chunks that are about the entity, in canonical order, up to the number requested."""
        return tuple(dict.fromkeys(self.chunk_ids[: self.subjects]))


def places_of(evidence: EntityEvidence, most: int) -> EntityPlaces:
    """Return where an entity is mentioned, given its evidence with its first `most` mentions."""
    leading = evidence.leading
    subjects = sum(is_subject_rank(mention.rank) for mention in leading)
    read = leading if evidence.mention_count <= most else leading[:subjects]
    return EntityPlaces(evidence.id, evidence.mention_count, tuple(mention.chunk_id for mention in read), subjects)


class RecordsStore(ABC):
    """Truth: documents, chunks, extractions, and the evidence counted from them."""

    async def get_documents(self, ids: Sequence[str]) -> list[Document]:
        """Return the documents with these ids."""
        # Callers pass on what they are given: leave out texts that cannot be ids of documents.
        wanted = tuple(id_ for id_ in dict.fromkeys(ids) if is_storable(id_) and len(id_) <= MOST_CHARACTERS)
        found = await self.find_documents(DocumentQuery(filter=DocumentIds(wanted), limit=max(1, len(wanted))))
        documents = {document.id: document for document in found.documents}
        return [documents[id_] for id_ in ids if id_ in documents]

    @abstractmethod
    async def find_documents(self, query: DocumentQuery) -> DocumentPage:
        """Return one page of documents."""

    async def all_documents(self, query: DocumentQuery) -> AsyncIterator[Document]:
        """Yield every document that matches a query, ignoring its offset and limit; each page is read at one moment."""
        start = 0
        while query.can_match:
            page = (await self.find_documents(replace(query, offset=start, limit=_PAGE))).documents
            for document in page:
                yield document
            if len(page) < _PAGE:
                break
            start += _PAGE

    @abstractmethod
    async def get_document_text(self, document_id: str) -> str | None:
        """Return a document's whole text, or None if there is no such document.

        A twin without a text of its own has that of its original.
        """

    async def list_batches(self, offset: int, limit: int) -> list[Batch]:
        """Return batches by their last change, latest first, then by id; documents without a batch are left out."""
        batches: dict[str, list[Document]] = {}
        async for document in self.all_documents(DocumentQuery(sort="id")):
            if document.track_id:
                batches.setdefault(document.track_id, []).append(document)
        listed = [batch_of(track_id, documents) for track_id, documents in batches.items()]
        listed.sort(key=lambda batch: (-batch.updated_at.timestamp(), batch.track_id))
        return listed[offset : offset + limit]

    async def get_openings(self, document_ids: Sequence[str], length: int) -> dict[str, str]:
        """Return the first `length` characters per document that has a text; back ends need not read all of it."""
        texts = {id_: await self.get_document_text(id_) for id_ in document_ids}
        return {id_: text[:length] for id_, text in texts.items() if text is not None}

    @abstractmethod
    async def get_chunks(self, ids: Sequence[str]) -> list[Chunk]:
        """Return the chunks with these ids."""

    @abstractmethod
    async def get_document_chunks(self, document_id: str) -> list[Chunk]:
        """Return a document's chunks by position; empty if there is no such document."""

    async def get_owners(self, chunks: Iterable[Chunk]) -> dict[str, Document]:
        """Return the documents that these chunks belong to, by id."""
        documents = await self.get_documents(list(dict.fromkeys(chunk.document_id for chunk in chunks)))
        return {document.id: document for document in documents}

    async def get_document_ids(self, chunk_ids: Sequence[str]) -> dict[str, str]:
        """Return, per chunk id, the id of its document; a back end need not read the chunks."""
        return {chunk.id: chunk.document_id for chunk in await self.get_chunks(chunk_ids)}

    async def get_languages(self, chunk_ids: Sequence[str]) -> dict[str, str]:
        """Return, per chunk id, the language in the metadata of its document; chunks without one are left out."""
        chunks = await self.get_chunks(chunk_ids)
        owners = await self.get_owners(chunks)
        stated = {id_: owner.metadata.get("language") for id_, owner in owners.items()}
        return {chunk.id: str(code) for chunk in chunks if (code := stated.get(chunk.document_id)) is not None}

    async def get_sources(self, chunk_ids: Sequence[str]) -> dict[str, str]:
        """Return, per chunk id, the source of its document."""
        chunks = await self.get_chunks(chunk_ids)
        owners = await self.get_owners(chunks)
        return {chunk.id: owners[chunk.document_id].source for chunk in chunks if chunk.document_id in owners}

    async def get_twins(self, chunk_ids: Sequence[str]) -> dict[str, tuple[tuple[str, str], ...]]:
        """Return, per chunk id, ids and sources of other documents with the text of its document, by id, if any.

        Only documents in use (`COMMITTED_STATUSES`) count.
        """
        chunks = await self.get_chunks(chunk_ids)
        twins: dict[str, tuple[tuple[str, str], ...]] = {}
        for holder in dict.fromkeys(chunk.document_id for chunk in chunks):
            query = DocumentQuery(twin_of=holder, statuses=tuple(COMMITTED_STATUSES), sort="id", limit=maxsize)
            twins[holder] = tuple((item.id, item.source) for item in (await self.find_documents(query)).documents)
        return {chunk.id: twins[chunk.document_id] for chunk in chunks if twins[chunk.document_id]}

    async def get_twin_sources(self, chunk_ids: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """Return, per chunk id, the sources of other documents with the text of its document, by their ids, if any."""
        twins = await self.get_twins(chunk_ids)
        return {id_: tuple(source for _, source in others) for id_, others in twins.items()}

    @abstractmethod
    async def get_extractions(self, chunk_ids: Sequence[str]) -> list[Extraction]:
        """Return the extractions of these chunks, mentions in the order they were written."""

    async def get_entity_mentions(self, chunk_ids: Sequence[str]) -> dict[str, tuple[EntityMention, ...]]:
        """Return the entity mentions of these chunks, in the order they were written, per chunk that was read.

        A back end may read less for it than for whole extractions.
        """
        return {item.chunk_id: item.entities for item in await self.get_extractions(chunk_ids)}

    @abstractmethod
    async def get_evidence(
        self, entity_ids: Sequence[str], relation_ids: Sequence[str], leading: int
    ) -> tuple[list[EntityEvidence], list[RelationEvidence]]:
        """Return the evidence for these ids, each with its first `leading` mentions in canonical order.

        Both lists and all versions are read at one moment.
        """

    async def get_document_aliases(self, document_ids: Sequence[str]) -> dict[str, list[AliasMention]]:
        """Return, per document that has any, the alias mentions of all its chunks."""
        found: dict[str, list[AliasMention]] = {}
        for id_ in dict.fromkeys(document_ids):
            chunks = await self.get_document_chunks(id_)
            extractions = await self.get_extractions([chunk.id for chunk in chunks])
            if aliases := [alias for item in extractions for alias in item.aliases]:
                found[id_] = aliases
        return found

    async def get_mention_places(self, entity_ids: Sequence[str], most: int) -> list[EntityPlaces]:
        """Return where these entities are mentioned, up to `most` places of each in canonical order.

        For an entity with more mentions, only the mentions that are about it count. A back end may read less for this
        than for evidence.
        """
        entities, _ = await self.get_evidence(entity_ids, [], most)
        return [places_of(evidence, most) for evidence in entities]


class VectorStore(ABC):
    """Unit vectors in three collections, searched by cosine."""

    @abstractmethod
    async def search(
        self, collection: Collection, vector: NDArray[np.float32], limit: int, min_cosine: float
    ) -> list[Hit]:
        """Return the nearest ids by cosine, scores at least `min_cosine`, best first; ties by id, also at the limit.

        Args:
            collection: Where to look.
            vector: `(dimension,)` float32 of length 1.
            limit: Hits at the most.
            min_cosine: The least cosine, in [-1, 1].
        """

    @abstractmethod
    async def get_vectors(self, collection: Collection, ids: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        """Return the stored vectors, exact, per id."""

    async def rank(
        self, collection: Collection, vector: NDArray[np.float32], ids: Sequence[str], limit: int
    ) -> list[Hit]:
        """Return the nearest of these ids by cosine, best first, ties by id; ids without a vector are left out.

        A back end that can rank them without reading every vector overrides this.

        Args:
            collection: Where they are.
            vector: `(dimension,)` float32 of length 1.
            ids: Distinct ids.
            limit: Hits at the most.
        """
        stored = await self.get_vectors(collection, ids) if limit > 0 else {}
        if not stored:
            return []
        scores = cosines(np.stack(list(stored.values())), vector)
        hits = map(Hit, stored, scores.tolist())
        return sorted(hits, key=lambda hit: (-hit.score, hit.id))[:limit]


class TextStore(ABC):
    """Full text over terms, in the collections of chunks and of entities."""

    @abstractmethod
    async def search(self, collection: Collection, terms: Sequence[str], limit: int) -> list[Hit]:
        """Return items with any of the terms by BM25 (k1 1.2, b 0.75), best first; ties by id, also at the limit.

        In a large collection a back end may estimate how often frequent terms occur, and leave out items with only
        such terms where enough items have rarer ones, so that the time does not grow with the collection.
        """

    @abstractmethod
    async def find_phrases(
        self, collection: Collection, phrases: Sequence[Sequence[str]], limit: int
    ) -> list[list[str]]:
        """Return, per phrase, up to `limit` ids of items that hold its terms one after the other.

        If more items hold them, those with the first ids are returned; if very many do, a back end may choose among a
        part of them, always the same part while the collection does not change. To see whether there are more, request
        one more than wanted. No item holds an empty phrase.
        """

    async def hold_phrases(self, collection: Collection, phrases: Sequence[Sequence[str]]) -> list[bool]:
        """Return, per phrase, whether any item holds its terms one after the other."""
        return [bool(ids) for ids in await self.find_phrases(collection, phrases, 1)]


@dataclass(frozen=True, slots=True)
class CurationQuery:
    """Which curations to list; a curation must meet every condition given.

    Attributes:
        entity_id: Curations that name this entity, alone or as an end of a relation.
        ids: Curations with any of these ids; None means all.
        includes_undone: Whether to list undone curations, too.
        descending: Latest first.
        offset: Curations to skip.
        limit: Curations to return at the most; `sys.maxsize` for all.

    Raises:
        InvalidRequestError: A number is negative, or `offset` above `LARGEST_COUNT`.
    """

    entity_id: str | None = None
    ids: tuple[str, ...] | None = None
    includes_undone: bool = True
    descending: bool = False
    offset: int = 0
    limit: int = 100

    def __post_init__(self) -> None:
        object.__setattr__(self, "offset", check_count("offset", self.offset))
        object.__setattr__(self, "limit", check_limit("limit", self.limit))


@dataclass(frozen=True, slots=True)
class CurationPage:
    """Curations that match a `CurationQuery`, and how many there are without its limit."""

    curations: tuple[Curation, ...]
    total: int


class CurationStore(ABC):
    """Rules that decide which entity a name stands for, and corrections that people made by hand."""

    @abstractmethod
    async def get_rules(self, ids: Sequence[str]) -> list[NameRules]:
        """Return the rules of names, per entity id of a name, read at one moment; most names have none."""

    async def get_curations(self, ids: Sequence[str]) -> list[Curation]:
        """Return the curations with these ids, including undone ones."""
        if not ids:
            return []
        page = await self.find_curations(CurationQuery(ids=tuple(ids), limit=len(ids)))
        found = {curation.id: curation for curation in page.curations}
        return [found[id_] for id_ in ids if id_ in found]

    @abstractmethod
    async def find_curations(self, query: CurationQuery) -> CurationPage:
        """Return one page of curations by sequence."""

    async def pages(self, size: int) -> AsyncIterator[tuple[Curation, ...]]:
        """Yield all curations by sequence, including undone ones, in pages of `size`."""
        offset = 0
        while page := (await self.find_curations(CurationQuery(offset=offset, limit=size))).curations:
            yield page
            offset += len(page)

    @abstractmethod
    async def find_mentioning_chunks(self, ids: Sequence[str]) -> dict[str, str]:
        """Return chunks with an entity mention that is about one of these ids, with the id of their document.

        A mention is about an id if it counts for that entity, or if its written name alone stands for that id.
        """


@dataclass(frozen=True, slots=True)
class CachedReply:
    """The reply of a finished model call.

    Attributes:
        key: `{mode}:{cache_type}:{args_hash}`.
        text: The reply.
        model: Name of the model that gave it.
        usage: What it cost.
        subject_id: The chunk, entity or relation that the call was about, if any; a commit that removes that chunk,
            or any mention of that entity or relation, drops the reply.
        created_at: When it was received, UTC.
    """

    key: str
    text: str
    model: str
    usage: Usage
    created_at: datetime
    subject_id: str = ""

    @property
    def cache_type(self) -> str:
        """The middle part of the key; empty if it has no such part."""
        parts = self.key.split(":", 2)
        return parts[1] if len(parts) == 3 else ""


# Cache type of replies that are whole answers: each holds for one data version only.
ANSWERS = "query"


class ReplyCache(ABC):
    """Finished model calls, so that none is paid for twice."""

    @abstractmethod
    async def get_reply(self, key: str) -> CachedReply | None:
        """Return the reply under this key, or None."""

    @abstractmethod
    async def put_reply(self, reply: CachedReply) -> None:
        """Store a reply durably, replacing any reply under its key."""

    @abstractmethod
    async def delete_replies(self, cache_type: str | None = None) -> int:
        """Drop all replies, or those of one type (the middle part of their key); return how many."""

    async def list_replies(self, after: str, limit: int) -> list[CachedReply]:  # noqa: ARG002 (of those that can)
        """Return replies after the key `after` by ascending key; an empty list means that there are no more.

        For export. A cache that cannot list its replies returns an empty list, and its replies are not exported.
        """
        return []

    async def lasting_pages(self, size: int) -> AsyncIterator[list[CachedReply]]:
        """Yield all replies except answers, by key, in pages of at most `size`."""
        after = ""
        while page := await self.list_replies(after, size):
            yield [reply for reply in page if reply.cache_type != ANSWERS]
            after = page[-1].key


class NoReplyCache(ReplyCache):
    """A reply cache that stores nothing, for back ends without one: every model call is made again."""

    async def get_reply(self, key: str) -> CachedReply | None:  # noqa: ARG002
        return None

    async def put_reply(self, reply: CachedReply) -> None:  # noqa: ARG002
        return

    async def delete_replies(self, cache_type: str | None = None) -> int:  # noqa: ARG002
        return 0


def batch_of(track_id: str, documents: Sequence[Document]) -> Batch:
    """Return the summary of a batch, given its documents, at least one."""
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


class Fold(ABC):
    """Folds mentions into entities and relations; `Store.view` counts and folds those of matching documents with it.

    Pure, hashable, and equal to other folds with the same settings.
    """

    @property
    @abstractmethod
    def leading(self) -> int:
        """The number of mentions, first in canonical order, that a fold reads."""

    @abstractmethod
    def count_entity(self, id_: str, mentions: Sequence[EntityMention], leading: int) -> EntityEvidence:
        """Return the evidence of an entity, given its mentions, at least one, in canonical order."""

    @abstractmethod
    def count_relation(
        self, id_: str, ends: tuple[str, str], mentions: Sequence[RelationMention], leading: int
    ) -> RelationEvidence:
        """Return the evidence of a relation; `ends` are its entities' ids, in the order of the evidence."""

    @abstractmethod
    def fold_entity(self, evidence: EntityEvidence) -> Entity:
        """Return the entity folded from the evidence; the store sets its degree and moment."""

    @abstractmethod
    def fold_relation(self, evidence: RelationEvidence) -> Relation:
        """Return the relation folded from the evidence; the store sets its moment."""

    @abstractmethod
    def name_terms(self, entity: Entity) -> Sequence[str]:
        """Return the terms by which full text finds an entity."""


class StoreView(ABC):
    """The readable part of one workspace: all of it, or what a filter leaves."""

    records: RecordsStore
    graph: GraphStore
    vectors: VectorStore
    text: TextStore

    async def at_one_moment(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run `work`, which reads this view and awaits nothing else; if the store can, at one moment and in a thread.

        That thread has no event loop, so `work` must not suspend: calls of `calls.tasks` do not.
        """
        return await work()


class Follower(ABC):
    """Keeps an external store, which serves one role of a workspace, in step with the store that holds the truth.

    Attributes:
        name: Its name; begins with its role.
        role: `graph`, `vectors`, `text` or `cache`.
    """

    name: str
    role: str

    @property
    def trouble(self) -> str:
        """Why questions that need the external store fail now: it is away or being rebuilt; empty while it serves."""
        return ""

    @abstractmethod
    async def measure_lag(self) -> int:
        """Return how many commits the external store is behind, as far as the store with the truth knows."""

    @abstractmethod
    async def find_differences(self) -> list[str]:
        """Return in words, per kind, how ids and contents differ from what they should be, and other faults.

        The external store is brought up to date first.

        Raises:
            StoreUnavailable: Either store is out of reach.
        """

    @abstractmethod
    async def finish(self) -> None:
        """Bring the external store up to date, however long that takes.

        Raises:
            StoreUnavailable: Either store is out of reach.
        """

    @abstractmethod
    async def rebuild(self) -> None:
        """Rebuild the external store now; a cache is emptied.

        Raises:
            StoreUnavailable: Either store is out of reach; the rebuild follows when both are back.
        """


class Store(StoreView):
    """The stores of one workspace, opened together.

    Attributes:
        names: The name index; `EveryName(graph)` where the back end keeps no index.
        replies: The cache of model replies, so that no call is paid for twice.
        reembedding: The second set of vectors; None where the embedding cannot be changed in place.
        outbox: The log of changes for external stores; None where the back end keeps none, and no external store can be
            used.
        followers: External stores that serve roles beside this store; usually empty.
        embedding: Name and dimension of the embedding that fills it; None where the back end does not know.
    """

    names: NameIndex
    curations: CurationStore
    inspection: Inspection
    replies: ReplyCache = NoReplyCache()
    reembedding: Reembedding | None = None
    outbox: Outbox | None = None
    followers: Sequence[Follower] = ()
    embedding: tuple[str, int] | None = None

    @property
    def truth(self) -> Store:
        """This store with all roles read from the primary store, to compute or check changes.

        It needs no closing; it ends with this store.
        """
        return self

    async def get_lags(self) -> Mapping[str, int]:
        """Return, per follower, how many commits it is behind."""
        return {item.name: await item.measure_lag() for item in self.followers}

    def get_troubles(self) -> Mapping[str, str]:
        """Return, per follower that cannot serve questions now, the reason."""
        return {item.name: item.trouble for item in self.followers if item.trouble}

    @abstractmethod
    async def apply(self, changeset: Changeset) -> int:
        """Apply a changeset to every role, all or nothing, durably; return the new data version.

        Cached answers (type `query`) of earlier versions are dropped in the same commit.

        Raises:
            StaleChangesetError: Something that the changeset expects no longer holds; nothing changed.
            StoreUnavailable: It cannot be written; nothing changed.
        """

    async def read_written(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run `work`, which only reads this store, at one moment and, if the store can, near where it is written.

        For reads that a commit is computed from: most of that data was written lately. `work` awaits only reads of this
        store.
        """
        return await work()

    @abstractmethod
    def view(self, filter_: Filter, fold: Fold) -> StoreView:
        """Return the workspace as if only the documents that match the filter existed.

        Entities and relations are folded again from the mentions in matching documents: no other document affects a
        name, an alias, a type, a description, keywords, a weight, a degree, chunks or moments. An entity without such a
        mention does not exist, and corrections made by hand do not show, except for which names are one entity. Only
        the order of hits among entities and relations, and the scores of hits, may depend on other documents, as
        vectors and the frequency of terms do.

        This call reads nothing; every later call sees the documents that match at its own moment. A view is not closed.
        """

    @abstractmethod
    def ingest_lock(self) -> AbstractAsyncContextManager[None]:
        """Return the lock that only one ingest, over all processes, can hold on this workspace.

        Entering waits up to `store.write_timeout_seconds`; if a holder dies, the lock is released.

        Raises:
            StoreUnavailable: On entering, when another process still holds it.
        """

    @abstractmethod
    async def get_stats(self) -> Stats:
        """Return the counts of this workspace, all read at one moment."""

    async def get_data_version(self) -> int:
        """Return the data version, a number that every commit raises."""
        return (await self.get_stats()).data_version

    @abstractmethod
    async def clear(self) -> int:
        """Delete all of this workspace's contents in one commit; return the new data version.

        Raises:
            StoreUnavailable: It cannot be written; nothing changed.
        """

    async def vacuum(self) -> None:
        """Free the space of deleted data: afterwards no file of this workspace holds a byte of it.

        A back end that never leaves deleted data behind need not do anything.
        """
        return

    async def backup(self, path: Path) -> None:
        """Write all of this workspace, as of one moment, into one new file; reads and writes go on meanwhile.

        Raises:
            ConflictError: The file exists already.
            InvalidRequestError: This back end has no backup of its own; its server's tools make them.
            StoreUnavailable: The store cannot be read, or the file cannot be written; no partial file is left.
        """
        raise InvalidRequestError(
            f"this store writes no backup to {str(path)!r}: back it up with its own tools, or write an archive with "
            "'heliograph export'"
        )

    async def close(self) -> None:
        """Finish pending work and release files and connections; closing twice does nothing."""
        return

    def describe(self) -> Mapping[str, str]:
        """Return the back end and its address, for `doctor`; no secrets."""
        return {"back end": type(self).__name__}
