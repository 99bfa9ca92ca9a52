"""Fusion: bounds and rules that hold for any lists."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.query.plain_search import RANK_CONSTANT, best, by_rank, by_score, fuse_lists, ordered

IDS = st.sampled_from("abcdefgh")
SCORES = st.dictionaries(IDS, st.floats(-10, 10))
CHANNELS = st.dictionaries(st.sampled_from(["vector", "keyword", "bridge"]), SCORES)


def test_first_of_two_lists_beats_first_of_one() -> None:
    totals = fuse_lists([["a", "b"], ["a", "c"]])
    assert ordered(totals) == ["a", "b", "c"]
    assert totals["a"] == pytest.approx(2 / (RANK_CONSTANT + 1))
    assert totals["b"] == pytest.approx(1 / (RANK_CONSTANT + 2))


@given(CHANNELS)
def test_rank_fusion_holds_every_id_within_its_bounds(channels: dict[str, dict[str, float]]) -> None:
    totals = by_rank(channels)
    assert totals.keys() == set[str]().union(*channels.values())
    assert all(0 < total <= len(channels) / (RANK_CONSTANT + 1) + 1e-12 for total in totals.values())


@given(CHANNELS, st.floats(0.1, 10))
def test_rank_fusion_depends_on_order_only(channels: dict[str, dict[str, float]], factor: float) -> None:
    ranks = {
        name: {id_: factor * -place for place, id_ in enumerate(ordered(scores))} for name, scores in channels.items()
    }
    assert by_rank(ranks) == by_rank(channels)


@given(CHANNELS)
def test_score_fusion_adds_up(channels: dict[str, dict[str, float]]) -> None:
    totals = by_score(channels)
    for id_, total in totals.items():
        assert total == pytest.approx(sum(scores.get(id_, 0.0) for scores in channels.values()))


@given(CHANNELS, IDS, st.floats(0.001, 5))
def test_more_in_one_channel_never_ranks_lower(channels: dict[str, dict[str, float]], id_: str, more: float) -> None:
    raised = {name: dict(scores) for name, scores in channels.items()} | {"graph": {id_: more}}
    before, after = ordered(by_score(channels)), ordered(by_score(raised))
    if id_ in before:
        assert after.index(id_) <= before.index(id_)


@given(SCORES)
def test_order_is_by_score_then_id(scores: dict[str, float]) -> None:
    assert ordered(scores) == [id_ for id_, _ in sorted(scores.items(), key=lambda item: (-item[1], item[0]))]


@given(st.dictionaries(st.text(max_size=3), st.sampled_from([-1.0, 0.0, 0.5, 2.0])), st.integers(-1, 12))
def test_best_are_the_first_in_order(scores: dict[str, float], count: int) -> None:
    assert best(scores, count) == ordered(scores)[: max(0, count)]
