"""Shortest paths between two entities, from both ends at once, without reading anything itself.

    search = PathSearch(source, target, max_length, limit, most_visited)
    while frontier := search.frontier:
        search.expand(relations that touch any of the frontier)
    paths = search.paths()

The caller reads relations as it can: in a thread, over a network, from arrays. The smaller frontier always goes first.
An entity keeps only its best partial paths, which is exact because weights add up.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class PathSearch(Generic[K]):
    """One search, over entities known by ids or by a back end's own keys.

    Args:
        source: One end.
        target: The other; may be the same.
        max_length: Relations of a path at the most.
        limit: Paths at the most.
        most_visited: Relations of one step, and entities met before one, beyond which there is no path.
    """

    def __init__(self, source: K, target: K, max_length: int, limit: int, most_visited: int) -> None:
        self._sides = _Side[K](source), _Side[K](target)
        self._left = max_length
        self._limit = limit
        self._most_visited = most_visited
        self._has_failed = max_length < 0 or limit < 1

    @property
    def frontier(self) -> Sequence[K]:
        """Entities whose relations are wanted next; empty when the search has ended."""
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
            relations: All that touch the frontier: the entity of it, the other one, weight. One that touches it with
                both ends comes twice.
        """
        if len(relations) > self._most_visited:
            self._has_failed = True
            return
        min(self._sides, key=lambda candidate: len(candidate.frontier)).expand(relations)
        self._left -= 1

    def paths(self, name: Callable[[Collection[K]], Mapping[K, str]] | None = None) -> list[list[K]]:
        """Return what lies along each path, by the sum of weights (descending), then by ids; empty if there is none.

        Args:
            name: Gives the ids of entities; None if what they are known by are ids.
        """
        if self._has_failed or not self._meeting:
            return []
        left, right = self._sides
        ids: Mapping[K, Any] = name(left.seen | right.seen) if name else {key: key for key in left.seen | right.seen}
        ways, back = left.best(ids, self._limit), right.best(ids, self._limit)
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
    """One end: the levels reached so far, and how each entity was reached from the level before."""

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

    def best(self, ids: Mapping[K, Any], limit: int) -> Mapping[K, list[tuple[float, tuple[K, ...]]]]:
        """Return, per entity of the last level, its best ways from the start: minus the sum of weights, steps."""
        ways: dict[K, list[tuple[float, tuple[K, ...]]]] = {self.start: [(0.0, (self.start,))]}
        for steps in self._levels:
            ways = {key: _best(_extended(key, origins, ways), ids, limit) for key, origins in steps.items()}
        return ways


def _extended(
    key: K, origins: Sequence[tuple[K, float]], ways: Mapping[K, list[tuple[float, tuple[K, ...]]]]
) -> list[tuple[float, tuple[K, ...]]]:
    return [(cost - weight, (*path, key)) for origin, weight in origins for cost, path in ways.get(origin, ())]


def _best(
    ways: list[tuple[float, tuple[K, ...]]], ids: Mapping[K, Any], limit: int
) -> list[tuple[float, tuple[K, ...]]]:
    return sorted(ways, key=lambda way: (way[0], [ids[step] for step in way[1]]))[:limit]
