"""The graph that a filter leaves: folds from `scoped_evidence`, walks over the arrays of the `Scope`."""

from __future__ import annotations

import collections.abc
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

import apsw
import numpy as np
from numpy.typing import NDArray

from heliograph.models import Entity, GraphPath, Relation, Subgraph
from heliograph.stores.base import Fold, GraphStore, IncidentRelation
from heliograph.stores.paths import PathSearch
from heliograph.stores.sqlite.identity import find_ids
from heliograph.stores.sqlite.scope import Scope
from heliograph.stores.sqlite.scoped import ScopedReader
from heliograph.stores.sqlite.scoped_evidence import fold_entities, fold_relations, keys_within

Places = NDArray[np.int64]


class ScopedGraphStore(GraphStore):
    """Entities and relations as the matching documents tell of them."""

    def __init__(self, reader: ScopedReader) -> None:
        self._reader = reader
        self._fold = reader.fold

    async def get_entities(self, ids: Sequence[str]) -> list[Entity]:

        def read(connection: apsw.Connection, scope: Scope) -> list[Entity]:
            keys = keys_within(connection, ids, scope.entities)
            found = fold_entities(connection, scope, self._fold, list(keys.values()))
            return [found[keys[id_]] for id_ in ids if id_ in keys]

        return await self._reader.read(read)

    async def get_relations(self, ids: Sequence[str]) -> list[Relation]:

        def read(connection: apsw.Connection, scope: Scope) -> list[Relation]:
            keys = keys_within(connection, ids, scope.relations)
            found = fold_relations(connection, scope, self._fold, list(keys.values()))
            return [found[keys[id_]] for id_ in ids if id_ in keys]

        return await self._reader.read(read)

    async def rank_incident_relations(self, entity_ids: Sequence[str]) -> list[IncidentRelation]:

        def read(connection: apsw.Connection, scope: Scope) -> list[IncidentRelation]:
            keys = keys_within(connection, entity_ids, scope.entities)
            places = scope.touching(scope.entities.places(np.array(list(keys.values()), np.int64)))
            relations = scope.relations.keys[places].tolist()
            ids = find_ids(connection, relations)
            degrees = scope.degrees[scope.ends[places]].sum(axis=1).tolist()
            weights = scope.weights[places].tolist()
            ranked = [IncidentRelation(ids[key], *rank) for key, *rank in zip(relations, degrees, weights, strict=True)]
            return sorted(ranked, key=lambda item: (-item.degree, -item.weight, item.id))

        return await self._reader.read(read)

    async def list_entities(self, offset: int, limit: int) -> list[Entity]:

        def read(connection: apsw.Connection, scope: Scope) -> list[Entity]:
            order = np.argsort(-scope.degrees, kind="stable")
            falling = -scope.degrees[order]
            page = falling[max(offset, 0) : max(offset, 0) + max(limit, 0)]
            if not len(page):
                return []
            # Names decide among equals, so all that are equal to the first or the last of the page are read.
            start, end = np.searchsorted(falling, page[0]), np.searchsorted(falling, page[-1], "right")
            ranked = self._ranked(connection, scope, order[start:end])
            return ranked[offset - int(start) :][: len(page)]

        return await self._reader.read(read)

    async def find_relations_among(self, entity_ids: Sequence[str]) -> list[Relation]:

        def read(connection: apsw.Connection, scope: Scope) -> list[Relation]:
            keys = keys_within(connection, entity_ids, scope.entities)
            places = scope.entities.places(np.array(list(keys.values()), np.int64))
            return _relations_among(connection, scope, self._fold, places)

        return await self._reader.read(read)

    async def get_neighbourhood(self, entity_id: str, depth: int, max_entities: int) -> Subgraph:

        def read(connection: apsw.Connection, scope: Scope) -> Subgraph:
            keys = keys_within(connection, [entity_id], scope.entities)
            if not keys or max_entities < 1:
                return Subgraph((), (), is_truncated=False)
            return self._walk(connection, scope, keys[entity_id], depth, max_entities)

        return await self._reader.read(read)

    async def find_shortest_paths(
        self, source_id: str, target_id: str, max_length: int, limit: int, most_visited: int = 200_000
    ) -> list[GraphPath]:

        def read(connection: apsw.Connection, scope: Scope) -> list[GraphPath]:
            keys = keys_within(connection, [source_id, target_id], scope.entities)
            if len(keys) < len({source_id, target_id}) or limit < 1:
                return []
            ends = keys[source_id], keys[target_id]
            paths = _find_paths(connection, scope, *ends, max_length, limit, most_visited)
            entities = fold_entities(connection, scope, self._fold, list({key for path in paths for key in path}))
            places = scope.entities.places(np.array(list(entities), np.int64))
            between = {
                frozenset((relation.source_id, relation.target_id)): relation
                for relation in _relations_among(connection, scope, self._fold, places)
            }
            return [_path([entities[key] for key in path], between) for path in paths]

        return await self._reader.read(read)

    def _ranked(self, connection: apsw.Connection, scope: Scope, places: Places) -> list[Entity]:
        """Return the entities at these places by degree (descending), then name."""
        found = fold_entities(connection, scope, self._fold, scope.entities.keys[places].tolist())
        return sorted(found.values(), key=lambda entity: (-entity.degree, entity.name, entity.id))

    def _walk(self, connection: apsw.Connection, scope: Scope, start: int, depth: int, max_entities: int) -> Subgraph:
        frontier = scope.entities.places(np.array([start], np.int64))
        seen = frontier
        found = self._ranked(connection, scope, frontier)
        is_truncated = False
        for _ in range(depth):
            level = np.setdiff1d(scope.ends[scope.touching(frontier)], seen)
            room = max_entities - len(found)
            is_truncated = len(level) > room
            nearest = self._ranked(connection, scope, _best_connected(scope, level, room))[:room]
            found += nearest
            frontier = _places(connection, scope, nearest)
            seen = np.union1d(seen, frontier)
            if is_truncated or not len(frontier):
                break
        relations = _relations_among(connection, scope, self._fold, seen)
        return Subgraph(tuple(found), tuple(relations), is_truncated)


def _best_connected(scope: Scope, places: Places, limit: int) -> Places:
    """Return those with most relations: at least `limit`, and all that have as many as the last of these."""
    if limit <= 0 or len(places) <= limit:
        return places[: max(limit, 0)]
    degrees = scope.degrees[places]
    least = np.partition(degrees, len(degrees) - limit)[len(degrees) - limit]
    return places[degrees >= least]


def _places(connection: apsw.Connection, scope: Scope, entities: Iterable[Entity]) -> Places:
    keys = keys_within(connection, (entity.id for entity in entities), scope.entities)
    return scope.entities.places(np.array(list(keys.values()), np.int64))


def _relations_among(connection: apsw.Connection, scope: Scope, fold: Fold, places: Places) -> list[Relation]:
    """Return the relations whose two ends are both at these places, heaviest first, then by id."""
    touching = scope.touching(places)
    inside = touching[np.isin(scope.ends[touching], places).all(axis=1)]
    found = fold_relations(connection, scope, fold, scope.relations.keys[inside].tolist())
    return sorted(found.values(), key=lambda relation: (-relation.weight, relation.id))


def _find_paths(
    connection: apsw.Connection,
    scope: Scope,
    source: int,
    target: int,
    max_length: int,
    limit: int,
    most_visited: int,
) -> list[list[int]]:
    search = PathSearch(source, target, max_length, limit, most_visited)
    while frontier := search.frontier:
        search.expand(list(_steps(scope, frontier)))
    return search.paths(lambda found: find_ids(connection, found))


def _steps(scope: Scope, frontier: collections.abc.Collection[int]) -> Iterator[tuple[int, int, float]]:
    """Yield the relations that touch these: the key of one of them, of the other end, weight."""
    wanted = set(frontier)
    touching = scope.touching(scope.entities.places(np.array(list(frontier), np.int64)))
    ends = scope.entities.keys[scope.ends[touching]].tolist()
    for (left, right), weight in zip(ends, scope.weights[touching].tolist(), strict=True):
        if left in wanted:
            yield left, right, weight
        if right in wanted:
            yield right, left, weight


def _path(entities: list[Entity], relations: Mapping[frozenset[str], Relation]) -> GraphPath:
    steps = pairwise(entities)
    return GraphPath(tuple(entities), tuple(relations[frozenset((left.id, right.id))] for left, right in steps))
