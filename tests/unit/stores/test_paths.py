"""Shortest paths from both ends are those that looking at every path finds."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from heliograph.stores.graph import PathSearch

NODES = "abcdefg"
RELATIONS = st.dictionaries(
    st.tuples(st.sampled_from(NODES), st.sampled_from(NODES)).filter(lambda ends: ends[0] < ends[1]),
    st.sampled_from([0.5, 1.0, 2.0]),
    max_size=14,
)
Graph = dict[tuple[str, str], float]


def search(graph: Graph, source: str, target: str, max_hops: int, limit: int, most: int = 1000) -> list[list[str]]:
    found = PathSearch(source, target, max_hops, limit, most)
    while frontier := found.frontier:
        steps = [(a, b, weight) for (a, b), weight in graph.items() if a in frontier]
        steps += [(b, a, weight) for (a, b), weight in graph.items() if b in frontier]
        found.expand(steps)
    return found.paths()


def all_paths(graph: Graph, source: str, target: str, max_hops: int) -> list[list[str]]:
    """All paths of the least length, in order."""
    level = [[source]]
    for _ in range(max_hops + 1):
        if found := [path for path in level if path[-1] == target]:
            return sorted(found, key=lambda path: (-_weight(graph, path), path))
        neighbours = [*graph, *((b, a) for a, b in graph)]
        level = [[*path, b] for path in level for a, b in neighbours if a == path[-1] and b not in path]
    return []


def _weight(graph: Graph, path: list[str]) -> float:
    return sum(graph[min(step), max(step)] for step in pairwise(path))


@given(RELATIONS, st.sampled_from(NODES), st.sampled_from(NODES), st.integers(0, 6), st.integers(1, 5))
def test_paths_are_those_that_brute_force_finds(
    graph: Graph, source: str, target: str, max_hops: int, limit: int
) -> None:
    assert search(graph, source, target, max_hops, limit) == all_paths(graph, source, target, max_hops)[:limit]


def test_search_gives_up_where_too_much_is_met() -> None:
    graph = {("a", node): 1.0 for node in NODES[1:]}
    assert search(graph, "b", "c", 4, 5) == [["b", "a", "c"]]
    assert search(graph, "b", "c", 4, 5, most=3) == []
    assert search(graph, "b", "c", 4, 0) == []


# 1 - 2 - 3, and a hundred others that touch 2 too, known by keys of a back end.
HUB = [(1, 2, 1.0), (2, 3, 1.0), *((2, other, 1.0) for other in range(10, 110))]


def search_hub(most_visited: int) -> list[list[int]]:
    found = PathSearch(1, 10, 3, 2, most_visited)
    both = [*HUB, *((right, left, weight) for left, right, weight in HUB)]
    while frontier := found.frontier:
        found.expand([step for step in both if step[0] in frontier])
    return found.paths({key: str(key) for key in found.reached})


def test_path_over_a_hub_is_found() -> None:
    assert search_hub(200) == [[1, 2, 10]]


def test_search_gives_up_where_a_step_has_too_many_relations() -> None:
    assert search_hub(50) == []
