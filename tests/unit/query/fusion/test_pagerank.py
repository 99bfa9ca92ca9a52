"""Personalised PageRank: what holds on any graph, and what is near comes first."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.query.bridges import personalised_pagerank

NODES = st.sampled_from("abcdefg")
EDGES = st.lists(st.tuples(NODES, NODES, st.floats(0.1, 5)), max_size=20)
RESTART = st.dictionaries(NODES, st.floats(0.1, 3), min_size=1)


@given(EDGES, RESTART, st.floats(0, 0.95))
def test_shares_are_a_distribution(
    edges: list[tuple[str, str, float]], restart: dict[str, float], damping: float
) -> None:
    reached = personalised_pagerank(edges, restart, damping)
    assert sum(reached.values()) == pytest.approx(1.0)
    assert all(0 <= share <= 1 + 1e-9 for share in reached.values())
    assert reached.keys() == {node for edge in edges for node in edge[:2]} | restart.keys()


@given(EDGES, RESTART, st.floats(0, 0.95))
def test_start_keeps_its_share_of_restarts(
    edges: list[tuple[str, str, float]], restart: dict[str, float], damping: float
) -> None:
    reached = personalised_pagerank(edges, restart, damping)
    total = sum(restart.values())
    assert all(reached[node] >= (1 - damping) * value / total - 1e-9 for node, value in restart.items())


@given(EDGES, RESTART)
def test_what_the_start_does_not_reach_has_no_share(
    edges: list[tuple[str, str, float]], restart: dict[str, float]
) -> None:
    reached = personalised_pagerank([*edges, ("x", "y", 1.0)], restart, 0.5)
    assert reached["x"] == reached["y"] == 0.0


def test_near_nodes_have_more_than_far_ones() -> None:
    chain = [("a", "b", 1.0), ("b", "c", 1.0), ("c", "d", 1.0)]
    reached = personalised_pagerank(chain, {"a": 1.0}, 0.5)
    assert reached["b"] > reached["c"] > reached["d"] > 0


def test_walk_without_a_start_goes_nowhere() -> None:
    assert personalised_pagerank([("a", "b", 1.0)], {}, 0.5) == {}
    assert personalised_pagerank([("a", "b", 1.0)], {"a": 0.0}, 0.5) == {}
