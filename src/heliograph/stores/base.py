"""The contracts of the stores of one workspace.

Five roles read: records and curations (truth), graph, vectors, text; a reply cache stands beside them. One `Store`
holds a set of them and applies a `Changeset` to all. Every method takes and returns lists in the given order; what is
missing is absent from the result, and deleting what is missing does nothing. No call reaches into another workspace.
Implementations translate their driver's exceptions into `StoreError`s.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from heliograph.filters import Filter
from heliograph.models import (
    AliasMention,
    Chunk,
    Curation,
    Document,
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
)
from heliograph.stores.changeset import Changeset, Collection
from heliograph.stores.inspection import Inspection
from heliograph.stores.listing import (
    CurationPage,
    CurationQuery,
    DocumentPage,
    DocumentQuery,
    DocumentSort,
    EntityPlaces,
    Hit,
    IncidentRelation,
    places_of,
)
from heliograph.stores.names import NameIndex
from heliograph.stores.outbox import Outbox
from heliograph.stores.reembedding import Reembedding
from heliograph.stores.replies import CachedReply, ReplyCache
from heliograph.text.tokens import count_tokens, relation_row

__all__ = [
    "CachedReply",
    "CurationPage",
    "CurationQuery",
    "CurationStore",
    "DocumentPage",
    "DocumentQuery",
    "DocumentSort",
    "EntityPlaces",
    "Fold",
    "Follower",
    "FollowerDifference",
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

    async def get_openings(self, document_ids: Sequence[str], length: int) -> dict[str, str]:
        """Return, per document with a text, its first `length` characters; back ends need not read all of it."""
        texts = {id_: await self.get_document_text(id_) for id_ in document_ids}
        return {id_: text[:length] for id_, text in texts.items() if text is not None}

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

    async def get_entity_mentions(self, chunk_ids: Sequence[str]) -> dict[str, tuple[EntityMention, ...]]:
        """Return the entity mentions of these chunks alone, in the order they were written, per chunk that was read.

        A back end may read less for it than for whole extractions.
        """
        return {item.chunk_id: item.entities for item in await self.get_extractions(chunk_ids)}

    @abstractmethod
    async def get_evidence(
        self, entity_ids: Sequence[str], relation_ids: Sequence[str], leading: int
    ) -> tuple[list[EntityEvidence], list[RelationEvidence]]:
        """Return the evidence for these, each with its first `leading` mentions in canonical order.

        Both lists and all versions are of one moment.
        """

    async def get_mention_places(self, entity_ids: Sequence[str], most: int) -> list[EntityPlaces]:
        """Return where these entities are mentioned, up to `most` places of each in canonical order.

        Of one that has more mentions only those are counted in that are about it. A back end may read less for it than
        for evidence.
        """
        entities, _ = await self.get_evidence(entity_ids, [], most)
        return [places_of(evidence, most) for evidence in entities]


class GraphStore(ABC):
    """Folded entities and relations, their degrees and neighbourhoods."""

    @abstractmethod
    async def get_entities(self, ids: Sequence[str]) -> list[Entity]:
        """Return the entities with these ids."""

    @abstractmethod
    async def get_relations(self, ids: Sequence[str]) -> list[Relation]:
        """Return the relations with these ids."""

    async def name_ends(self, relations: Sequence[Relation], entities: Iterable[Entity] = ()) -> list[Relation]:
        """Return relations whose ends are called as their entities are, for whoever shows them.

        A stored relation calls its ends as its own mentions do, so that renaming a hub rewrites none of its relations.

        Args:
            relations: As they were read.
            entities: Those that are at hand; the others are read. An end that is not there keeps its name.
        """
        names = {entity.id: entity.name for entity in entities}
        ends = dict.fromkeys(end for relation in relations for end in (relation.source_id, relation.target_id))
        if unread := [end for end in ends if end not in names]:
            names |= {entity.id: entity.name for entity in await self.get_entities(unread)}
        return [_with_ends(relation, names) for relation in relations]

    @abstractmethod
    async def rank_incident_relations(self, entity_ids: Sequence[str]) -> list[IncidentRelation]:
        """Return every relation that touches any of these, once, by (degree, weight) descending, then id.

        Cheap in what it returns per relation, so that a hub's relations can all be ranked and few be read.
        """

    @abstractmethod
    async def list_entities(self, offset: int, limit: int) -> list[Entity]:
        """Return entities by degree (descending), then name."""

    @abstractmethod
    async def find_relations_among(self, entity_ids: Sequence[str]) -> list[Relation]:
        """Return the relations whose two ends are both among these, heaviest first, then by id."""

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
        """Return the nearest ids by cosine, scores at least `min_score`, best first, ties by id, at the cut too.

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
        """Return what holds any of the terms by BM25 (k1 1.2, b 0.75), best first, ties by id, at the cut too.

        In a large collection a back end may estimate how often frequent terms occur, and leave out what holds only
        such terms where enough holds rarer ones, so that time does not grow with the collection.
        """

    @abstractmethod
    async def find_phrases(
        self, collection: Collection, phrases: Sequence[Sequence[str]], limit: int
    ) -> list[list[str]]:
        """Return, per phrase, ids of what holds its terms one after the other, `limit` at the most.

        Where more hold them, those with the first ids are returned; where very many do, a back end may choose among a
        part of them, always the same while the collection does not change. Ask for one more than is wanted to see
        whether there are more. An empty phrase is held by nothing.
        """


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


@dataclass(frozen=True, slots=True)
class FollowerDifference:
    """What another engine holds of one kind, against what it should.

    Attributes:
        follower: Name of the engine, as `Follower` has it.
        kind: Of what, such as `entities` or `chunk vectors`.
        missing: How many ids it has not.
        stray: How many it should not have.
        changed: How many it has with other contents than they should have.
        examples: A few of any of them.
        fault: What is wrong with its own counts and orders, in words; then nothing is counted.
    """

    follower: str
    kind: str
    missing: int = 0
    stray: int = 0
    changed: int = 0
    examples: tuple[str, ...] = ()
    fault: str = ""


class Follower(ABC):
    """Another engine that serves one role of a workspace, kept in step with the store that holds the truth.

    Attributes:
        name: Which; begins with its role.
        role: `graph`, `vectors`, `text` or `cache`.
    """

    name: str
    role: str

    @property
    def trouble(self) -> str:
        """Why questions that need it fail now: it is away, or is being made anew; empty while it serves."""
        return ""

    @abstractmethod
    async def measure_lag(self) -> int:
        """Return how many commits it is behind, as far as the store with the truth knows."""

    @abstractmethod
    async def find_differences(self) -> list[FollowerDifference]:
        """Return, per kind with any, how ids and contents differ from what they should be, and what else is wrong.

        It is brought up to date first.

        Raises:
            StoreUnavailable: Either is out of reach.
        """

    @abstractmethod
    async def finish(self) -> None:
        """Bring it up to date, however long that takes.

        Raises:
            StoreUnavailable: Either is out of reach.
        """

    @abstractmethod
    async def rebuild(self) -> None:
        """Make it anew, now; a cache is emptied.

        Raises:
            StoreUnavailable: Either is out of reach; it is done when they are back.
        """


class Store(StoreView):
    """The stores of one workspace, opened together.

    Attributes:
        outbox: What changed, for other engines; None where the back end keeps none.
        followers: Other engines that serve roles beside this store; most have none.
        embedding: Name and dimension of what fills it; None where the back end does not tell.
    """

    names: NameIndex
    curations: CurationStore
    replies: ReplyCache
    inspection: Inspection
    reembedding: Reembedding
    outbox: Outbox | None = None
    followers: Sequence[Follower] = ()
    embedding: tuple[str, int] | None = None

    @property
    def truth(self) -> Store:
        """This store with all roles read where the truth is held: for whoever computes a change, or checks.

        Nothing of it is closed; it ends with this store.
        """
        return self

    async def get_lags(self) -> Mapping[str, int]:
        """Return, per follower, how many commits it is behind."""
        return {item.name: await item.measure_lag() for item in self.followers}

    def get_troubles(self) -> Mapping[str, str]:
        """Return, per follower that questions cannot be put to now, why."""
        return {item.name: item.trouble for item in self.followers if item.trouble}

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


def _with_ends(relation: Relation, names: Mapping[str, str]) -> Relation:
    source = names.get(relation.source_id, relation.source)
    target = names.get(relation.target_id, relation.target)
    if (source, target) == (relation.source, relation.target):
        return relation
    token_count = count_tokens(relation_row(source, target, relation.description))
    return replace(relation, source=source, target=target, token_count=token_count)
