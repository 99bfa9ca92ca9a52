"""The engine's methods to correct the graph and to show its history: statements of documents and edits by people."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from functools import wraps
from sys import maxsize
from typing import Any, Concatenate, ParamSpec, TypeVar

from heliograph.arguments import checks_arguments
from heliograph.curation.curator import Curator
from heliograph.curation.duplicates import DuplicateFinder, DuplicatePair
from heliograph.ids import name_to_entity_id, relation_id
from heliograph.ingest.given import GivenChunk, GivenEntity, GivenGraph, GivenRelation, insert_graph
from heliograph.ingest.models import DocumentResult
from heliograph.ingest.pipeline import IngestPipeline
from heliograph.ingest.resolution import RELATION_KINDS, RuleBook, RuleLoader, find_entity_ids, relation_pair
from heliograph.models import Curation, EntityMention, RelationMention
from heliograph.stores.base import CurationPage, CurationQuery, Store

# The history of an entity or a relation: mentions by chunks in canonical order, and curations by people.

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Statement:
    """One chunk's statement about an entity (with a type, without weight) or about a relation (with both names).

    It is a mention, shown with its place; `description` is the mention's.
    """

    chunk_id: str
    document_id: str
    source: str
    position: int
    names: tuple[str, ...]
    type: str
    description: str
    keywords: tuple[str, ...] = ()
    weight: float = 0.0


@dataclass(frozen=True, slots=True)
class History:
    """The statements and curations about one entity or relation.

    Attributes:
        id: The entity or relation.
        statements: Statements of chunks, in canonical order, one page of them.
        statement_count: How many statements there are without the limit.
        curations: All curations, earliest first, including undone ones.
    """

    id: str
    statements: tuple[Statement, ...]
    statement_count: int
    curations: tuple[Curation, ...]


async def read_history(store: Store, entity_ids: Sequence[str], offset: int, limit: int) -> History:
    """Return the history of an entity, or of the relation between two; empty if there never was any."""
    book, curations = await _curations(store, entity_ids)
    if len(entity_ids) == 1:
        (id_,) = entity_ids
        evidence, _ = await store.records.get_evidence([id_], [], offset + limit)
        subjects = book.subjects(id_) | book.previous_ids(id_) | book.predecessors(id_)
        about = [item for item in curations if not subjects.isdisjoint(item.entity_ids)]
    else:
        id_, pair = relation_id(*entity_ids), tuple(sorted(entity_ids))
        _, evidence = await store.records.get_evidence([], [id_], offset + limit)
        about = [item for item in curations if item.kind in RELATION_KINDS and relation_pair(book, item) == pair]
    count = evidence[0].mention_count if evidence else 0
    mentions = evidence[0].leading[offset : offset + limit] if evidence else ()
    return History(id_, await _statements(store, mentions), count, tuple(about))


async def _curations(store: Store, entity_ids: Sequence[str]) -> tuple[RuleBook, list[Curation]]:
    loader = RuleLoader(store)
    await loader.load(entity_ids)
    makers = (item for id_ in entity_ids if id_ in loader.rules for item in loader.rules[id_].curations)
    await loader.load_bearers({name_to_entity_id(name) for item in makers for name in item.names})
    book = loader.book
    found: dict[str, Curation] = {}
    for id_ in sorted(set[str]().union(*(book.sources(id_) | book.predecessors(id_) for id_ in entity_ids))):
        page = await store.curations.find_curations(CurationQuery(entity_id=id_, limit=maxsize))
        found.update((item.id, item) for item in page.curations)
    await loader.load(id_ for item in found.values() for id_ in item.entity_ids)
    return loader.book, sorted(found.values(), key=lambda item: item.sequence)


async def _statements(
    store: Store, mentions: Sequence[EntityMention] | Sequence[RelationMention]
) -> tuple[Statement, ...]:
    ids = list(dict.fromkeys(mention.chunk_id for mention in mentions))
    chunks = {chunk.id: chunk for chunk in await store.records.get_chunks(ids)}
    sources = await store.records.get_sources(ids)
    statements: list[Statement] = []
    for mention in mentions:
        if (chunk := chunks.get(mention.chunk_id)) is None:
            continue
        place = chunk.id, chunk.document_id, sources.get(chunk.id, ""), chunk.position
        if isinstance(mention, EntityMention):
            statements.append(Statement(*place, (mention.name,), mention.type, mention.description))
        else:
            names, weight = (mention.source, mention.target), mention.weight
            statements.append(Statement(*place, names, "", mention.description, mention.keywords, weight))
    return tuple(statements)


# The methods of an engine by which people correct its graph; `AsyncHeliograph` inherits them.


@dataclass(frozen=True, slots=True)
class CurationParts:
    """The parts of an engine that the methods use."""

    store: Store
    curator: Curator
    duplicates: DuplicateFinder
    ingest: IngestPipeline


@checks_arguments
class GraphCuration(ABC):
    """Corrections of the graph by hand.

    Every method that changes something returns the `Curation` it recorded; `undo` reverts it by its id. Curations
    survive update, deletion and rebuild of the documents around them. A name may be any spelling or alias.
    """

    @abstractmethod
    async def _curation(self) -> CurationParts: ...

    @staticmethod
    def _corrected(
        method: Callable[Concatenate[Curator, P], Awaitable[T]],
    ) -> Callable[Concatenate[GraphCuration, P], Coroutine[Any, Any, T]]:
        """Return a method that the workspace's curator carries out, with its signature and documentation."""

        @wraps(method)
        async def call(self: GraphCuration, *args: P.args, **keywords: P.kwargs) -> T:
            return await method((await self._curation()).curator, *args, **keywords)

        return call

    create_entity = _corrected(Curator.create_entity)
    edit_entity = _corrected(Curator.edit_entity)
    rename_entity = _corrected(Curator.rename_entity)
    revise_entity = _corrected(Curator.revise_entity)
    merge_entities = _corrected(Curator.merge_entities)
    split_entity = _corrected(Curator.split_entity)
    delete_entity = _corrected(Curator.delete_entity)
    create_relation = _corrected(Curator.create_relation)
    edit_relation = _corrected(Curator.edit_relation)
    delete_relation = _corrected(Curator.delete_relation)
    undo = _corrected(Curator.undo)

    async def curations(self, query: CurationQuery | None = None) -> CurationPage:
        """Return one page of curations, by default the earliest first, including undone ones."""
        return await (await self._curation()).store.curations.find_curations(query or CurationQuery())

    async def history(self, name: str, other: str | None = None, *, offset: int = 0, limit: int = 100) -> History:
        """Return the statements and curations about an entity, or with `other` about the relation between two.

        `limit` and `offset` apply to statements of chunks; all curations are returned.
        """
        store = (await self._curation()).store
        names = [name] if other is None else [name, other]
        return await read_history(store, await find_entity_ids(store, names), offset, limit)

    async def find_duplicates(self, *, limit: int = 100, names: Sequence[str] = ()) -> list[DuplicatePair]:
        """Return pairs of entities that may be one, the most similar first; people decide whether to merge them.

        Only pairs with the named entities are returned, or all if none is named.
        """
        parts = await self._curation()
        ids = await find_entity_ids(parts.store, names) if names else None
        return await parts.duplicates.find(limit, ids)

    async def insert_graph(
        self,
        chunks: Sequence[GivenChunk],
        entities: Sequence[GivenEntity] = (),
        relations: Sequence[GivenRelation] = (),
        *,
        source: str = "",
        id: str = "",
        title: str = "",
        metadata: dict[str, object] | None = None,
    ) -> DocumentResult:
        """Insert a ready-made graph as one document: no model reads its chunks.

        A known id or source is an update. It is deleted, and rebuilt, like any document.

        Raises:
            InvalidRequestError: Parts do not fit together; nothing was written.
            ModelError: It cannot be embedded; nothing was written.
            StoreError: The store failed; nothing was written.
        """
        graph = GivenGraph(tuple(chunks), tuple(entities), tuple(relations), source, id, title, metadata)
        return await insert_graph((await self._curation()).ingest, graph)
