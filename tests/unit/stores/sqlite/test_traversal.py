"""Shortest paths over plain keys: what is found, and when the search gives up."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from heliograph.stores.sqlite.traversal import best_paths

# 1 - 2 - 3, and a hundred others that touch 2 too.
RELATIONS = [(1, 2, 1.0), (2, 3, 1.0), *((2, other, 1.0) for other in range(10, 110))]


def _paths(most_visited: int) -> list[list[int]]:
    def neighbours(frontier: Collection[int]) -> Iterable[tuple[int, int, float]]:
        both = [*RELATIONS, *((right, left, weight) for left, right, weight in RELATIONS)]
        return [relation for relation in both if relation[0] in frontier]

    return best_paths(1, 10, 3, 2, neighbours, lambda keys: {key: str(key) for key in keys}, most_visited)


def test_path_over_a_hub_is_found() -> None:
    assert _paths(200) == [[1, 2, 10]]


def test_search_gives_up_where_a_step_has_too_many_relations() -> None:
    assert _paths(50) == []
