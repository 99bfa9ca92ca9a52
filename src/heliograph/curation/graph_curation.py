"""The engine's methods to correct the graph, show its history, and find entities that may be one."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from functools import wraps
from sys import maxsize
from typing import Any, Concatenate, ParamSpec, TypeVar

from rapidfuzz import fuzz

from heliograph.arguments import checks_arguments
from heliograph.curation.curator import Curator
from heliograph.errors import ConflictError, InvalidRequestError, NotFoundError
from heliograph.extraction.canonical import UNKNOWN_TYPE
from heliograph.ids import entity_key, mention_entity_id, name_to_entity_id, relation_id
from heliograph.ingest.given import GivenChunk, GivenEntity, GivenGraph, GivenRelation, GraphInserter
from heliograph.ingest.models import DocumentResult
from heliograph.ingest.resolution import RELATION_KINDS, RuleBook, RuleLoader, find_entity_ids, relation_pair
from heliograph.models import Curation, Entity, EntityMention, RelationMention
from heliograph.settings import ResolutionSettings
from heliograph.stores.base import CurationPage, CurationQuery, Store
from heliograph.stores.changeset import Collection

# Says who said what of an entity or a relation: mentions by chunks in canonical order, and curations by people.

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Statement:
    """What one chunk says of an entity, which has a type and no weight, or of a relation, which has both names."""

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
    """Who said what of one thing.

    Attributes:
        id: The entity or relation.
        statements: What chunks say, in canonical order, one page of it.
        statement_count: How many statements there are without the limit.
        curations: What people did, earliest first, undone or not; all of it.
    """

    id: str
    statements: tuple[Statement, ...]
    statement_count: int
    curations: tuple[Curation, ...]


async def read_history(store: Store, entity_ids: Sequence[str], offset: int, limit: int) -> History:
    """Return the history of an entity, or of the relation between two; empty if nothing was ever said of it."""
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


# Finds entities that may be one, by near vectors and like spelling, for a person to merge or for a setting to.
#
# Two entities are a pair if their vectors and the spellings of their names are both alike enough, they are not of
# different known types, and their names hold the same digits.

_ENTITY_PAGE = 500
_NEIGHBOURS = 8
_DIGITS = re.compile(r"\d+")
_AUTHOR = "auto"
# Vectors of names are near where the names are spelled alike, and say less than those of descriptions.
_LEAST_DESCRIBED, _LEAST_NAMED = 0.6, 0.85


@dataclass(frozen=True, slots=True)
class DuplicatePair:
    """Two entities that may be one.

    Attributes:
        score: Mean of the two likenesses below, in [0, 1].
        cosine: Of their vectors.
        similarity: Of the spellings of their names that are most alike, in [0, 1].
        reason: Why they are proposed, for a person to read.
    """

    name: str
    other: str
    score: float
    cosine: float
    similarity: float
    reason: str


class DuplicateFinder:
    """Looks for duplicates in one workspace.

    Args:
        store: The workspace.
        curator: Merges.
        settings: How alike two must be.
        are_described: Whether vectors of entities are those of descriptions, which tell more than names do.
    """

    def __init__(
        self, store: Store, curator: Curator, settings: ResolutionSettings, *, are_described: bool = True
    ) -> None:
        self._store = store
        self._curator = curator
        self._settings = settings
        self._min_cosine = settings.min_duplicate_cosine or (_LEAST_DESCRIBED if are_described else _LEAST_NAMED)

    async def find(self, limit: int, entity_ids: Sequence[str] | None = None) -> list[DuplicatePair]:
        """Return up to `limit` pairs, the most alike first, of these entities and their neighbours, or of all."""
        found: dict[frozenset[str], DuplicatePair] = {}
        if entity_ids is not None:
            await self._find_among(await self._store.graph.get_entities(list(dict.fromkeys(entity_ids))), found)
        else:
            offset = 0
            while page := await self._store.graph.list_entities(offset, _ENTITY_PAGE):
                await self._find_among(page, found)
                offset += _ENTITY_PAGE
        return sorted(found.values(), key=lambda pair: (-pair.score, pair.name, pair.other))[:limit]

    async def merge_new(self, document_ids: Sequence[str]) -> list[Curation]:
        """Merge duplicates of entities in these documents, if the settings say so; return the curations."""
        if not self._settings.merge_duplicates:
            return []
        ids: dict[str, None] = {}
        for document_id in document_ids:
            chunks = await self._store.records.get_document_chunks(document_id)
            for extraction in await self._store.records.get_extractions([chunk.id for chunk in chunks]):
                ids.update(dict.fromkeys(mention_entity_id(mention) for mention in extraction.entities))
        merged: list[Curation] = []
        for pair in await self.find(len(ids), list(ids)):
            try:
                merged.append(await self._curator.merge_entities([pair.other], pair.name, author=_AUTHOR))
            except (ConflictError, InvalidRequestError, NotFoundError):
                # One of them was merged with a third before, or a person was faster.
                continue
        return merged

    async def _find_among(self, entities: Sequence[Entity], found: dict[frozenset[str], DuplicatePair]) -> None:
        vectors = await self._store.vectors.get_vectors(Collection.ENTITIES, [entity.id for entity in entities])
        for entity in entities:
            if entity.id not in vectors:
                continue
            hits = await self._store.vectors.search(
                Collection.ENTITIES, vectors[entity.id], _NEIGHBOURS + 1, self._min_cosine
            )
            cosines = {hit.id: hit.score for hit in hits if hit.id != entity.id}
            for other in await self._store.graph.get_entities(list(cosines)):
                key = frozenset((entity.id, other.id))
                if key not in found and (pair := self._pair(entity, other, cosines[other.id])) is not None:
                    found[key] = pair

    def _pair(self, entity: Entity, other: Entity, cosine: float) -> DuplicatePair | None:
        types = {entity.type, other.type} - {UNKNOWN_TYPE}
        if len(types) > 1:
            return None
        first, second = sorted((entity, other), key=lambda item: (-item.degree, item.name, item.id))
        similarity, name, alias = max(
            (spelling_similarity(name, alias), name, alias)
            for name in (first.name, *first.aliases)
            for alias in (second.name, *second.aliases)
        )
        if similarity < self._settings.min_duplicate_similarity:
            return None
        reason = f"{name!r} and {alias!r} are spelled alike ({similarity:.2f}), their vectors too ({cosine:.2f})"
        return DuplicatePair(first.name, second.name, (cosine + similarity) / 2, cosine, similarity, reason)


def spelling_similarity(name: str, other: str) -> float:
    """Return how alike two names are spelled, in [0, 1]; 0 if they hold different digits."""
    left, right = entity_key(name), entity_key(other)
    if _DIGITS.findall(left) != _DIGITS.findall(right):
        return 0.0
    return fuzz.token_sort_ratio(left, right) / 100


# The methods of an engine by which people correct its graph; `AsyncHeliograph` inherits them.


@dataclass(frozen=True, slots=True)
class CurationParts:
    """What the methods work with."""

    store: Store
    curator: Curator
    duplicates: DuplicateFinder
    inserter: GraphInserter


@checks_arguments
class GraphCuration(ABC):
    """Corrections of the graph by hand.

    Every method that changes something returns the `Curation` it recorded; `undo` takes it back by its id. Curations
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
        """Return one page of curations, by default the earliest first, undone ones included."""
        return await (await self._curation()).store.curations.find_curations(query or CurationQuery())

    async def history(self, name: str, other: str | None = None, *, offset: int = 0, limit: int = 100) -> History:
        """Return which chunk or person said what of an entity, or with `other` of the relation between two.

        `limit` and `offset` are of statements of chunks; curations are all given.
        """
        store = (await self._curation()).store
        names = [name] if other is None else [name, other]
        return await read_history(store, await find_entity_ids(store, names), offset, limit)

    async def find_duplicates(self, *, limit: int = 100, names: Sequence[str] = ()) -> list[DuplicatePair]:
        """Return pairs of entities that may be one, the most alike first; merging them is left to a person.

        Only these entities are looked at, or all if none is named.
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
        """Take in a graph that is made already, as one document: no model reads its chunks.

        A known id or source is an update. It is deleted, and rebuilt, like any document.

        Raises:
            InvalidRequestError: Something does not go together; nothing was written.
            ModelError: It cannot be embedded; nothing was written.
            StoreError: The store failed; nothing was written.
        """
        graph = GivenGraph(tuple(chunks), tuple(entities), tuple(relations), source, id, title, metadata)
        return await (await self._curation()).inserter.insert(graph)
