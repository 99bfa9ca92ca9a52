"""The contract of a graph, the walks through it that are the same for every back end, and name lookup.

A back end reads entities and relations; neighbourhoods and shortest paths are walked level by level, one round trip a
level, over the back end's own node keys.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Collection, Coroutine, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from sys import maxsize
from typing import Any, Generic, NamedTuple, TypeVar

from heliograph.ids import entity_key
from heliograph.models import Entity, GraphPath, Relation, Subgraph
from heliograph.text.tokens import count_tokens, relation_row

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")
# A back end's key of an entity while it walks: the id, or an internal key that is looked up faster.
Node = Any
# Entities of all types read in the first page when listing those of one type.
_FIRST_LISTED = 1_000
# How often a path search is repeated when the graph changes during it.
_ATTEMPTS = 3


class IncidentRelation(NamedTuple):
    """A relation that touches a given entity, with the values that rank it.

    Attributes:
        id: The relation's id.
        degree: Degree of one end plus degree of the other.
        weight: The relation's weight.
    """

    id: str
    degree: int
    weight: float


class GraphStore(ABC):
    """Folded entities and relations, their degrees and neighbourhoods.

    A back end implements four methods. The others are built on them, reading one relation after the other; a back end
    overrides those that it can serve at less cost.
    """

    @abstractmethod
    async def get_entities(self, ids: Sequence[str]) -> list[Entity]:
        """Return the entities with these ids."""

    async def get_entity_names(self, ids: Sequence[str]) -> Mapping[str, str]:
        """Return the names of entities by id; missing ones are absent."""
        return {entity.id: entity.name for entity in await self.get_entities(ids)}

    @abstractmethod
    async def get_relations(self, ids: Sequence[str]) -> list[Relation]:
        """Return the relations with these ids."""

    @abstractmethod
    async def rank_incident_relations(self, entity_ids: Sequence[str]) -> list[IncidentRelation]:
        """Return every relation that touches any of these, once, by (degree, weight) descending, then id.

        Each row is small, so that all relations of a hub can be ranked and only a few of them read.
        """

    @abstractmethod
    async def list_entities(self, offset: int, limit: int) -> list[Entity]:
        """Return entities by degree (descending), then name."""

    async def list_entities_of_type(self, type_: str, offset: int, limit: int) -> list[Entity]:
        """Return entities of exactly this type, in the order of `list_entities`, which is read until it suffices."""
        found: list[Entity] = []
        start, size = 0, _FIRST_LISTED
        while limit > 0 and len(found) < offset + limit:
            listed = await self.list_entities(start, size)
            found += (entity for entity in listed if entity.type == type_)
            if len(listed) < size:
                break
            # Some external stores read all entities for any page, so read few pages.
            start, size = start + size, 2 * size
        return found[offset : offset + max(limit, 0)]

    async def find_relations_among(self, entity_ids: Sequence[str]) -> list[Relation]:
        """Return the relations whose two ends are both among these, heaviest first, then by id."""
        wanted = set(entity_ids)
        relations = await self._incident_relations(list(wanted))
        inside = [relation for relation in relations if {relation.source_id, relation.target_id} <= wanted]
        return sorted(inside, key=lambda relation: (-relation.weight, relation.id))

    async def name_ends(self, relations: Sequence[Relation], entities: Iterable[Entity] = ()) -> list[Relation]:
        """Return relations with the current names of the entities at their ends, for display.

        A stored relation names its ends as its own mentions do, so that renaming a hub rewrites none of its relations.

        Args:
            relations: As they were read.
            entities: Entities already at hand; the others are read. A missing end keeps its name.
        """
        names = {entity.id: entity.name for entity in entities}
        ends = dict.fromkeys(end for relation in relations for end in (relation.source_id, relation.target_id))
        if unread := [end for end in ends if end not in names]:
            names |= await self.get_entity_names(unread)
        named: list[Relation] = []
        for relation in relations:
            source = names.get(relation.source_id, relation.source)
            target = names.get(relation.target_id, relation.target)
            if (source, target) != (relation.source, relation.target):
                token_count = count_tokens(relation_row(source, target, relation.description))
                relation = replace(relation, source=source, target=target, token_count=token_count)
            named.append(relation)
        return named

    async def get_neighbourhood(self, entity_id: str, depth: int, max_entities: int) -> Subgraph:
        """Return the subgraph within `depth` relations of an entity; empty if there is no such entity."""

        async def read(graph: GraphStore) -> Subgraph:
            found, is_truncated = await _walk(graph, entity_id, depth, max_entities)
            ids = await graph.name_nodes(found)
            entities = await graph.get_entities([ids[node] for node in found])
            relations = await graph.find_relations_among([entity.id for entity in entities]) if entities else []
            return Subgraph(tuple(entities), tuple(relations), is_truncated)

        return await self.at_one_moment(read)

    async def find_shortest_paths(
        self, source_id: str, target_id: str, max_hops: int, limit: int, most_visited: int = 200_000
    ) -> list[GraphPath]:
        """Return up to `limit` paths of the least length, at most `max_hops` relations; empty if there is none.

        Among equally short paths, those with the larger sum of weights come first, then by entity ids. A back end whose
        cost grows with the entities met gives up and returns no path when they or their relations exceed
        `most_visited`; two entities so far apart are as good as unrelated.
        """
        ends = source_id, target_id
        return await self.at_one_moment(lambda graph: _read_paths(graph, *ends, max_hops, limit, most_visited))

    # The steps that walks are built from.

    async def at_one_moment(self, work: Callable[[GraphStore], Coroutine[Any, Any, T]]) -> T:
        """Run several reads on a graph at one moment, where the back end can provide one."""
        return await work(self)

    async def find_nodes(self, entity_ids: Sequence[str]) -> Mapping[str, Node]:
        """Return, per stored entity, its node key for walks."""
        return {entity.id: entity.id for entity in await self.get_entities(entity_ids)}

    async def name_nodes(self, nodes: Collection[Node]) -> Mapping[Node, str]:
        """Return the ids of nodes."""
        return {node: node for node in nodes}

    async def find_steps(self, nodes: Collection[Node], limit: int | None) -> list[tuple[Node, Node, float]]:
        """Return all relations that touch these: the node, the other end, weight; twice if both ends are among them.

        Args:
            nodes: Where to step from.
            limit: Number of relations after which the rest need not be read; None reads all.
        """
        relations = await self._incident_relations(list(nodes))
        ends = [(item.source_id, item.target_id, item.weight) for item in relations]
        both = [*ends, *((target, source, weight) for source, target, weight in ends)]
        return [step for step in both if step[0] in nodes][:limit]

    async def order_nodes(self, nodes: Collection[Node], limit: int) -> list[Node]:
        """Return the first `limit` of these that are stored, by degree (descending), then name, then id."""
        entities = await self.get_entities(list(nodes))
        entities.sort(key=lambda entity: (-entity.degree, entity.name, entity.id))
        return [entity.id for entity in entities[: max(0, limit)]]

    async def find_next_level(self, frontier: Sequence[Node], behind: Collection[Node], limit: int) -> list[Node]:
        """Return the first nodes that are one step from the frontier and not behind, ordered as by `order_nodes`."""
        level = {far for _, far, _ in await self.find_steps(frontier, None)} - set(behind)
        return await self.order_nodes(level, limit) if level else []

    async def _incident_relations(self, entity_ids: Sequence[str]) -> list[Relation]:
        return await self.get_relations([item.id for item in await self.rank_incident_relations(entity_ids)])


async def _walk(graph: GraphStore, entity_id: str, depth: int, max_entities: int) -> tuple[list[Node], bool]:
    nodes = await graph.find_nodes([entity_id]) if max_entities > 0 else {}
    frontier: Sequence[Node] = list(nodes.values())
    found = dict.fromkeys(frontier)
    for _ in range(depth if found else 0):
        room = max_entities - len(found)
        frontier = await graph.find_next_level(frontier, found, room + 1)
        if not frontier:
            break
        found.update(dict.fromkeys(frontier[:room]))
        if len(frontier) > room:
            return list(found), True
    return list(found), False


async def _read_paths(
    graph: GraphStore, source_id: str, target_id: str, max_hops: int, limit: int, most_visited: int
) -> list[GraphPath]:
    nodes = await graph.find_nodes(list(dict.fromkeys((source_id, target_id))))
    if source_id not in nodes or target_id not in nodes:
        return []
    # Without one moment, steps, entities and relations are read one after the other while others write.
    whole: list[GraphPath] = []
    for _ in range(_ATTEMPTS):
        search = PathSearch[Node](nodes[source_id], nodes[target_id], max_hops, limit, most_visited)
        while frontier := search.frontier:
            # Reading one more than the limit shows that there are too many.
            search.expand(await graph.find_steps(frontier, most_visited + 1))
        ids = await graph.name_nodes(search.reached)
        paths = [[ids[node] for node in path] for path in search.paths(ids)]
        on_path = list(dict.fromkeys(id_ for path in paths for id_ in path))
        entities = {entity.id: entity for entity in await graph.get_entities(on_path)}
        relations = await graph.find_relations_among(on_path) if on_path else []
        # Keep paths that are still whole: each entity exists and is related to the next.
        between = {frozenset((relation.source_id, relation.target_id)): relation for relation in relations}
        whole = []
        for path in paths:
            steps = [between.get(frozenset(step)) for step in pairwise(path)]
            if all(id_ in entities for id_ in path) and None not in steps:
                whole.append(GraphPath(tuple(entities[id_] for id_ in path), tuple(filter(None, steps))))
        if len(whole) == len(paths):
            break
    return whole


class PathSearch(Generic[K]):
    """One path search, over entities known by ids or by a back end's own keys.

    Args:
        source: One end.
        target: The other end; may be the same.
        max_hops: Relations of a path at the most.
        limit: Paths at the most.
        most_visited: Limit on relations of one step, and on entities met before it, beyond which there is no path.
    """

    def __init__(self, source: K, target: K, max_hops: int, limit: int, most_visited: int) -> None:
        self._sides = _Side[K](source), _Side[K](target)
        self._left = max_hops
        self._limit = limit
        self._most_visited = most_visited
        self._has_failed = max_hops < 0 or limit < 1

    @property
    def frontier(self) -> Sequence[K]:
        """Entities whose relations to read next; empty when the search has ended."""
        if self._has_failed or self._meeting:
            return ()
        side = min(self._sides, key=lambda candidate: len(candidate.frontier))
        visited = sum(len(one.seen) for one in self._sides)
        if not self._left or not side.frontier or visited > self._most_visited:
            return ()
        return tuple(side.frontier)

    def expand(self, relations: Sequence[tuple[K, K, float]]) -> None:
        """Go one step further.

        Args:
            relations: All that touch the frontier: the frontier's entity, the other one, weight. A relation with both
                ends in the frontier comes twice.
        """
        if len(relations) > self._most_visited:
            self._has_failed = True
            return
        min(self._sides, key=lambda candidate: len(candidate.frontier)).expand(relations)
        self._left -= 1

    @property
    def reached(self) -> set[K]:
        """The entities on any path, to be named for `paths`; empty if there is no path."""
        met = set[K]() if self._has_failed else self._meeting
        return met.union(*(level for side in self._sides for level in side.leading_to(met)))

    def paths(self, names: Mapping[K, str] | None = None) -> list[list[K]]:
        """Return the entities along each path, by the sum of weights (descending), then by ids; empty if there is none.

        Args:
            names: The ids of the entities in `reached`; None if keys are ids.
        """
        reached = self.reached
        if not reached:
            return []
        ids: Mapping[K, Any] = {key: key for key in reached} if names is None else names
        left, right = self._sides
        ways, back = (side.best(self._meeting, ids, self._limit) for side in (left, right))
        whole = [
            (cost + rest, (*path, *reversed(tail[:-1])))
            for met in self._meeting
            for cost, path in ways[met]
            for rest, tail in back[met]
        ]
        return [list(path) for _, path in _best(whole, ids, self._limit)]

    @property
    def _meeting(self) -> set[K]:
        return self._sides[0].frontier & self._sides[1].frontier


class _Side(Generic[K]):
    """One end of the search: the levels reached so far, and how each entity was reached from the level before."""

    def __init__(self, start: K) -> None:
        self.start = start
        self.seen = {start}
        self.frontier = {start}
        self._levels: list[dict[K, list[tuple[K, float]]]] = []

    def expand(self, relations: Iterable[tuple[K, K, float]]) -> None:
        """Reach one level further, along the relations of the frontier."""
        steps: dict[K, list[tuple[K, float]]] = defaultdict(list)
        for origin, other, weight in relations:
            if other not in self.seen:
                steps[other].append((origin, weight))
        self._levels.append(steps)
        self.frontier = set(steps)
        self.seen |= self.frontier

    def leading_to(self, ends: set[K]) -> list[set[K]]:
        """Return the entities on ways to `ends`, which are in the last level, level by level from the start on."""
        levels = [ends]
        for steps in reversed(self._levels):
            levels.append({origin for key in levels[-1] for origin, _ in steps[key]})
        return levels[::-1]

    def best(self, ends: set[K], ids: Mapping[K, Any], limit: int) -> Mapping[K, list[tuple[float, tuple[K, ...]]]]:
        """Return, per entity of the last level in `ends`, its best ways from the start: negated weights, steps."""
        ways: dict[K, list[tuple[float, tuple[K, ...]]]] = {self.start: [(0.0, (self.start,))]}
        for steps, passed in zip(self._levels, self.leading_to(ends)[1:], strict=True):
            longer: dict[K, list[tuple[float, tuple[K, ...]]]] = {}
            for key in passed:
                origins = steps[key]
                reached = ((path, cost - weight) for origin, weight in origins for cost, path in ways.get(origin, ()))
                longer[key] = _best([(cost, (*path, key)) for path, cost in reached], ids, limit)
            ways = longer
        return ways


def _best(
    ways: list[tuple[float, tuple[K, ...]]], ids: Mapping[K, Any], limit: int
) -> list[tuple[float, tuple[K, ...]]]:
    return sorted(ways, key=lambda way: (way[0], [ids[step] for step in way[1]]))[:limit]


# Name lookup: finding entities while a user types, by names and aliases that equal, begin with or contain the text.


class NameIndex(ABC):
    """Names and aliases of the entities of one workspace."""

    @abstractmethod
    async def find_names(self, text: str, limit: int) -> list[str]:
        """Return ids of entities with a name or alias that matches, best first; a text without a key matches nothing.

        Names equal to the text come first, then those that begin with it, then those that contain it (`name_match`);
        among equals the better connected first, then by name and id. Texts of one or two letters need only be found at
        the beginning of a name and as a word, except for CJK characters, of which two suffice. If very many match, a
        back end may rank only the first few thousand of each sort.
        """


class KeyedNameIndex(NameIndex):
    """Finds candidates by keys of names and pieces of them, then compares the candidates' names."""

    async def find_names(self, text: str, limit: int) -> list[str]:
        """Ranks up to `MOST_CANDIDATES` names that begin with the text, and as many that contain it."""
        key = entity_key(text)
        rows = await self.find_candidates(key, limit) if key and limit > 0 else []
        return rank_names(((id_, name, lines.split("\n"), degree) for id_, name, lines, degree in rows), text, limit)

    @abstractmethod
    async def find_candidates(self, key: str, limit: int) -> Sequence[Sequence[Any]]:
        """Return id, name, aliases as lines and degree of entities that may have a name matching this key."""


class EveryName(NameIndex):
    """Scans the names of all entities, for stores without a name index.

    Args:
        graph: The graph whose entities are searched.
    """

    def __init__(self, graph: GraphStore) -> None:
        self._graph = graph

    async def find_names(self, text: str, limit: int) -> list[str]:
        entities = await self._graph.list_entities(0, maxsize)
        return rank_names(((item.id, item.name, item.aliases, item.degree) for item in entities), text, limit)


# Prefixes as ranges: all strings with a common prefix are adjacent in the order of code points.

_LAST_CHARACTER = 0x10FFFF
_SURROGATES = 0xD800, 0xE000


def end_of_prefix(prefix: str) -> str:
    """Return the least string greater than all strings with a prefix; empty if there is none.

    A half-open range can use an index, unlike LIKE with its wildcards.
    """
    stem = prefix.rstrip(chr(_LAST_CHARACTER))
    if not stem:
        return ""
    following = ord(stem[-1]) + 1
    return stem[:-1] + chr(_SURROGATES[1] if following == _SURROGATES[0] else following)


# Pieces of names (n-grams), by which an entity is found whose name contains a text.
#
# Pieces are all three consecutive characters of a word, or two if one of them is CJK, and shorter words as they are.
# They are written in hexadecimal, since the set of letters that a tokenizer knows changes with Unicode's versions.

_MOST_PIECES = 16
# Candidates among names that begin with a text, and as many among those that contain it.
MOST_CANDIDATES = 2_000
LAST_CHARACTER = chr(_LAST_CHARACTER)
_FIRST_CJK = "\u2e80"


def name_keys_json(*row: Any) -> str:
    """Return, as a JSON list, the keys of a row's name and of its aliases, which are stored one a line."""
    return json.dumps(sorted(_row_keys(row)))


def name_terms(*row: Any) -> str:
    """Return the pieces of a row's name and aliases, as `names_terms` holds them."""
    return terms_of(_row_keys(row))


def _row_keys(row: Sequence[Any]) -> set[str]:
    name, aliases = map(str, row)
    return keys_of((name, *aliases.split("\n")))


def keys_of(names: Iterable[str]) -> set[str]:
    """Return the keys of names; those without one are left out."""
    return {entity_key(name) for name in names} - {""}


def terms_of(keys: Iterable[str]) -> str:
    """Return the pieces of names with these keys, separated by spaces."""
    return " ".join(sorted({piece for key in keys for word in key.split() for piece in _encoded_pieces(word)}))


@lru_cache(maxsize=16_384)
def _encoded_pieces(word: str) -> tuple[str, ...]:
    """Return a word's pieces as they are stored; cached, since most words stand in many names."""
    if word.isascii():
        # Two hexadecimal digits per byte, so the pieces are cut from the encoded word.
        digits = _encode(word)
        return tuple([digits[at : at + 6] for at in range(0, len(digits) - 4, 2)]) or (digits,)
    return tuple(map(_encode, _pieces(word) or [word]))


def pieces_within(key: str) -> list[str]:
    """Return pieces that every name containing the key has; a name's words may extend beyond the key's ends."""
    words = key.split()
    pieces = [piece for word in words for piece in _pieces(word)]
    # Inner words are whole, so one without pieces is itself a piece; a lone short word is found as a word.
    certain = pieces + [word for word in words[1:-1] if not _pieces(word)] or words[:1]
    return [_encode(piece) for piece in list(dict.fromkeys(certain))[:_MOST_PIECES]]


def _pieces(word: str) -> list[str]:
    pairs = [word[at : at + 2] for at in range(len(word) - 1) if max(word[at : at + 2]) >= _FIRST_CJK]
    triples = [word[at : at + 3] for at in range(len(word) - 2) if max(word[at : at + 3]) < _FIRST_CJK]
    return pairs + triples


def _encode(piece: str) -> str:
    return piece.encode("utf-8", "surrogatepass").hex()


def rank_names(entities: Iterable[tuple[str, str, Iterable[str], int]], text: str, limit: int) -> list[str]:
    """Return the ids of the entities that match, in the order of `NameIndex`, given ids, names, aliases and degrees."""
    ranked = [
        (match, -degree, name, id_)
        for id_, name, aliases, degree in entities
        if (match := name_match((name, *aliases), text)) is not None
    ]
    return [id_ for *_, id_ in sorted(ranked)[: max(0, limit)]]


def name_match(names: Iterable[str], text: str) -> int | None:
    """Return how well the best of these names matches: 0 equals, 1 begins with, 2 contains the text; None otherwise."""
    wanted = entity_key(text)
    keys = [key for name in names if wanted and wanted in (key := entity_key(name))]
    return min((0 if key == wanted else 1 if key.startswith(wanted) else 2 for key in keys), default=None)
