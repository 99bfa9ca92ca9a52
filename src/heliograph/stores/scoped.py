"""What a filter leaves of a workspace, for stores whose views hold it in memory: ids, ends, degrees, weights, folds."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import OrderedDict, defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from collections.abc import Collection as Some
from dataclasses import dataclass, field, replace
from heapq import nsmallest
from typing import Generic, Protocol, TypeVar
from weakref import WeakValueDictionary

from heliograph.filters import Filter, filter_key
from heliograph.models import (
    Entity,
    EntityEvidence,
    EntityMention,
    GraphPath,
    Relation,
    RelationEvidence,
    RelationMention,
    Subgraph,
)
from heliograph.stores.base import Fold, GraphStore, IncidentRelation
from heliograph.stores.changeset import Collection
from heliograph.stores.paths import PathSearch, join_paths

# What a filter leaves of one data version, and the few that were asked for last.
#
# A `Scope` holds the ids of matching documents, of their chunks, and of the entities and relations with a mention in
# one of these, with degrees and weights counted from such mentions alone. Stores find them as they can.

# Each costs some hundred bytes per chunk, entity and relation that it leaves.
_MOST_SCOPES = 8
_MOST_FOLDS = 16_000
# Weights are summed in whole millionths, as evidence counts them: sums are exact in any order.
MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Tie:
    """A relation in a scope: its two ends, and the sum of the weights of its mentions there."""

    source_id: str
    target_id: str
    weight: float


@dataclass(slots=True, eq=False, kw_only=True)
class Scope:
    """The part of one data version that a filter leaves.

    Attributes:
        version: The data version.
        documents: Documents that match.
        owners: Where the chunks of a matching document are stored under a twin that does not match: the twin's id to
            that of the first of the documents which have them here.
        chunks: The chunks, with the document that stores them.
        entities: Entities that they mention and that there are, with the relations here that touch them.
        relations: Relations that they mention and that there are.
        folded: Folds made so far, by id.
    """

    version: int
    documents: frozenset[str]
    owners: Mapping[str, str]
    chunks: Mapping[str, str]
    entities: Mapping[str, Sequence[str]]
    relations: Mapping[str, Tie]
    folded: dict[str, Entity | Relation] = field(default_factory=dict[str, Entity | Relation])

    def ids_of(self, collection: Collection) -> Some[str]:
        """Return the ids of a collection."""
        some = {
            Collection.CHUNKS: self.chunks,
            Collection.ENTITIES: self.entities,
            Collection.RELATIONS: self.relations,
        }
        return some[collection].keys()

    def touching(self, entity_ids: Iterable[str]) -> list[str]:
        """Return the relations that touch any of these entities, once each."""
        return list(dict.fromkeys(relation for id_ in entity_ids for relation in self.entities.get(id_, ())))

    def remember(self, fold: Entity | Relation) -> None:
        """Keep a fold; when there are too many, all are forgotten."""
        if len(self.folded) >= _MOST_FOLDS:
            self.folded.clear()
        self.folded[fold.id] = fold


S = TypeVar("S", bound=Scope)


class ScopeMemory(Generic[S]):
    """Scopes by filter and fold, the least recently used forgotten first."""

    def __init__(self) -> None:
        self._scopes: OrderedDict[tuple[str, Fold], S] = OrderedDict()
        self._making: WeakValueDictionary[tuple[str, Fold], asyncio.Lock] = WeakValueDictionary()

    async def get(self, filter_: Filter, fold: Fold, version: int, make: Callable[[], Awaitable[S]]) -> S:
        """Return what a filter leaves of a data version; `make` makes it if it is not known."""
        name = filter_key(filter_), fold
        # Two questions under one filter that come at once make its scope once; who waits keeps the lock alive.
        making = self._making.setdefault(name, asyncio.Lock())
        async with making:
            found = self._scopes.get(name)
            if found is None or found.version != version:
                found = await make()
                self._keep(name, found)
            else:
                self._scopes.move_to_end(name)
        return found

    def _keep(self, name: tuple[str, Fold], scope: S) -> None:
        known = self._scopes.get(name)
        if known is not None and known.version > scope.version:
            return  # This reader's moment is older than another's.
        self._scopes[name] = scope
        self._scopes.move_to_end(name)
        while len(self._scopes) > _MOST_SCOPES:
            self._scopes.popitem(last=False)


def find_owners(documents: Iterable[tuple[str, str | None]]) -> dict[str, str]:
    """Return, per document that stores chunks and does not match, the first of its twins that do, by id.

    Args:
        documents: Matching documents by ascending id, each with the one that stores its chunks, if any does.
    """
    listed = list(documents)
    matching = {id_ for id_, _ in listed}
    owners: dict[str, str] = {}
    for id_, holder in listed:
        if holder is not None and holder not in matching:
            owners.setdefault(holder, id_)
    return owners


def touching_relations(entity_ids: Iterable[str], ties: Mapping[str, Tie]) -> dict[str, Sequence[str]]:
    """Return, per entity, the relations that touch it."""
    touching: dict[str, list[str]] = defaultdict(list)
    for id_, tie in ties.items():
        touching[tie.source_id].append(id_)
        touching[tie.target_id].append(id_)
    return {id_: touching.get(id_, ()) for id_ in entity_ids}


# Evidence and folds of what a `Scope` leaves, from the mentions in its chunks alone; what was folded is kept there.

T = TypeVar("T")
# Unix seconds at which the first of the documents was first seen, and what they say, in canonical order.
EntitySaid = tuple[int, list[EntityMention]]
RelationSaid = tuple[int, list[RelationMention]]


@dataclass(frozen=True, slots=True)
class ScopedReading(ABC):
    """What a filter leaves of one moment, how it is folded, and reading as of that moment."""

    scope: Scope
    fold: Fold

    @abstractmethod
    async def read_entity_mentions(self, ids: Sequence[str]) -> Mapping[str, EntitySaid]:
        """Return what the chunks of the scope say of these entities, all of which are in it."""

    @abstractmethod
    async def read_relation_mentions(self, ids: Sequence[str]) -> Mapping[str, RelationSaid]:
        """Return what the chunks of the scope say of these relations, all of which are in it."""

    async def read_entity_evidence(self, ids: Sequence[str], leading: int) -> list[EntityEvidence]:
        """Return, in order, the evidence that the scope has of these entities."""
        said = await self.read_entity_mentions([id_ for id_ in ids if id_ in self.scope.entities])
        counted = (self.fold.count_entity(id_, said[id_][1], leading) for id_ in ids if id_ in said)
        return [replace(evidence, version=self.scope.version) for evidence in counted]

    async def read_relation_evidence(self, ids: Sequence[str], leading: int) -> list[RelationEvidence]:
        """Return, in order, the evidence that the scope has of these relations."""
        said = await self.read_relation_mentions([id_ for id_ in ids if id_ in self.scope.relations])
        counted = (self.fold.count_relation(id_, self._ends(id_), said[id_][1], leading) for id_ in ids if id_ in said)
        return [replace(evidence, version=self.scope.version) for evidence in counted]

    async def fold_entities(self, ids: Iterable[str]) -> dict[str, Entity]:
        """Return those of the entities that are in the scope, as the scope folds them, in order."""
        scope = self.scope
        wanted = [id_ for id_ in dict.fromkeys(ids) if id_ in scope.entities]
        found = {id_: item for id_ in wanted if isinstance(item := scope.folded.get(id_), Entity)}
        missing = [id_ for id_ in wanted if id_ not in found]
        for id_, (moment, mentions) in (await self.read_entity_mentions(missing)).items():
            entity = self.fold.fold_entity(self.fold.count_entity(id_, mentions, self.fold.leading))
            found[id_] = replace(entity, degree=len(scope.entities[id_]), created_at=moment)
            scope.remember(found[id_])
        return {id_: found[id_] for id_ in wanted if id_ in found}

    async def fold_relations(self, ids: Iterable[str]) -> dict[str, Relation]:
        """Return those of the relations that are in the scope, as the scope folds them, in order."""
        scope = self.scope
        wanted = [id_ for id_ in dict.fromkeys(ids) if id_ in scope.relations]
        found = {id_: item for id_ in wanted if isinstance(item := scope.folded.get(id_), Relation)}
        missing = [id_ for id_ in wanted if id_ not in found]
        for id_, (moment, mentions) in (await self.read_relation_mentions(missing)).items():
            counted = self.fold.count_relation(id_, self._ends(id_), mentions, self.fold.leading)
            found[id_] = replace(self.fold.fold_relation(counted), created_at=moment)
            scope.remember(found[id_])
        return {id_: found[id_] for id_ in wanted if id_ in found}

    def _ends(self, relation_id: str) -> tuple[str, str]:
        tie = self.scope.relations[relation_id]
        return tie.source_id, tie.target_id


class ScopedReader(Protocol):
    """Reads under one filter."""

    async def read(self, work: Callable[[ScopedReading], Awaitable[T]]) -> T:
        """Run `work` on what the filter leaves of one moment."""
        ...


# The graph that a filter leaves: folds from `reading`, walks over what the `Scope` holds.


class ScopedGraphStore(GraphStore):
    """Entities and relations as the matching documents tell of them."""

    def __init__(self, reader: ScopedReader) -> None:
        self._reader = reader

    async def get_entities(self, ids: Sequence[str]) -> list[Entity]:

        async def read(reading: ScopedReading) -> list[Entity]:
            found = await reading.fold_entities(ids)
            return [found[id_] for id_ in ids if id_ in found]

        return await self._reader.read(read)

    async def get_relations(self, ids: Sequence[str]) -> list[Relation]:

        async def read(reading: ScopedReading) -> list[Relation]:
            found = await reading.fold_relations(ids)
            return [found[id_] for id_ in ids if id_ in found]

        return await self._reader.read(read)

    async def rank_incident_relations(self, entity_ids: Sequence[str]) -> list[IncidentRelation]:

        async def read(reading: ScopedReading) -> list[IncidentRelation]:
            scope = reading.scope
            ranked = [_ranked(scope, id_) for id_ in scope.touching(entity_ids)]
            return sorted(ranked, key=lambda item: (-item.degree, -item.weight, item.id))

        return await self._reader.read(read)

    async def list_entities(self, offset: int, limit: int) -> list[Entity]:

        async def read(reading: ScopedReading) -> list[Entity]:
            entities = reading.scope.entities
            first = _best_connected(reading.scope, entities, max(offset, 0) + max(limit, 0))
            return (await _in_order(reading, first))[max(offset, 0) :][: max(limit, 0)]

        return await self._reader.read(read)

    async def find_relations_among(self, entity_ids: Sequence[str]) -> list[Relation]:
        return await self._reader.read(lambda reading: _among(reading, entity_ids))

    async def get_neighbourhood(self, entity_id: str, depth: int, max_entities: int) -> Subgraph:

        async def read(reading: ScopedReading) -> Subgraph:
            if entity_id not in reading.scope.entities or max_entities < 1:
                return Subgraph((), (), is_truncated=False)
            return await _walk(reading, entity_id, depth, max_entities)

        return await self._reader.read(read)

    async def find_shortest_paths(
        self, source_id: str, target_id: str, max_length: int, limit: int, most_visited: int = 200_000
    ) -> list[GraphPath]:

        async def read(reading: ScopedReading) -> list[GraphPath]:
            scope = reading.scope
            if source_id not in scope.entities or target_id not in scope.entities:
                return []
            search = PathSearch(source_id, target_id, max_length, limit, most_visited)
            while frontier := search.frontier:
                search.expand(_neighbours(scope, frontier))
            paths = search.paths()
            entities = await reading.fold_entities(id_ for path in paths for id_ in path)
            relations = await _among(reading, entities)
            return join_paths(paths, entities, relations)

        return await self._reader.read(read)


def _ranked(scope: Scope, relation_id: str) -> IncidentRelation:
    tie = scope.relations[relation_id]
    degree = len(scope.entities[tie.source_id]) + len(scope.entities[tie.target_id])
    return IncidentRelation(relation_id, degree, tie.weight)


def _neighbours(scope: Scope, frontier: Sequence[str]) -> list[tuple[str, str, float]]:
    steps: list[tuple[str, str, float]] = []
    for id_ in frontier:
        ties = map(scope.relations.__getitem__, scope.entities[id_])
        steps += ((id_, tie.target_id if tie.source_id == id_ else tie.source_id, tie.weight) for tie in ties)
    return steps


async def _walk(reading: ScopedReading, start: str, depth: int, max_entities: int) -> Subgraph:
    scope = reading.scope
    found = await reading.fold_entities([start])
    frontier: list[str] = [start]
    is_truncated = False
    for _ in range(depth):
        level = {other for _, other, _ in _neighbours(scope, frontier)} - found.keys()
        room = max_entities - len(found)
        nearest = (await _in_order(reading, _best_connected(scope, level, room)))[:room]
        found.update((entity.id, entity) for entity in nearest)
        frontier = [entity.id for entity in nearest]
        is_truncated = len(level) > room
        if is_truncated or not frontier:
            break
    return Subgraph(tuple(found.values()), tuple(await _among(reading, found)), is_truncated)


def _best_connected(scope: Scope, ids: Iterable[str], limit: int) -> list[str]:
    """Return those with most relations: at least `limit`, and all that have as many as the last of these."""
    falling = [(-len(scope.entities[id_]), id_) for id_ in ids]
    first = nsmallest(limit, falling)
    return [id_ for degree, id_ in falling if first and degree <= first[-1][0]]


async def _in_order(reading: ScopedReading, ids: Iterable[str]) -> list[Entity]:
    """Return entities by degree (descending), then name."""
    found = await reading.fold_entities(ids)
    return sorted(found.values(), key=lambda entity: (-entity.degree, entity.name, entity.id))


async def _among(reading: ScopedReading, ids: Iterable[str]) -> list[Relation]:
    """Return the relations whose two ends are both among these, heaviest first, then by id."""
    wanted = set(ids)
    ties = reading.scope.relations
    inside = (id_ for id_ in reading.scope.touching(wanted) if {ties[id_].source_id, ties[id_].target_id} <= wanted)
    found = await reading.fold_relations(inside)
    return sorted(found.values(), key=lambda relation: (-relation.weight, relation.id))
