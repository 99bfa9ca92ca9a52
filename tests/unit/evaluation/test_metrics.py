from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.evaluation.results import METRICS, score_ranking

PLACES = [["a"], ["x"], ["b"], ["y"], ["z"], ["c"]]


def test_recall_is_the_share_of_gold_within_the_cut() -> None:
    scores = score_ranking(PLACES, {"a": 1, "b": 1, "c": 1, "d": 1})
    assert [scores[f"recall@{cut}"] for cut in (2, 5, 10, 20)] == [0.25, 0.5, 0.75, 0.75]


def test_mean_reciprocal_rank_is_of_the_first_gold() -> None:
    assert score_ranking(PLACES, {"b": 1, "c": 1})["mrr"] == pytest.approx(1 / 3)
    assert score_ranking(PLACES, {"d": 1})["mrr"] == 0.0


def test_all_gold_needs_every_one_in_the_first_five() -> None:
    assert score_ranking(PLACES, {"a": 1, "b": 1})["all_gold@5"] == 1.0
    assert score_ranking(PLACES, {"a": 1, "c": 1})["all_gold@5"] == 0.0
    assert score_ranking(PLACES, {"a": 1, "d": 1})["all_gold@5"] == 0.0


def test_ndcg_by_hand() -> None:
    gained = 1 / math.log2(2) + 1 / math.log2(4)
    best = 1 / math.log2(2) + 1 / math.log2(3) + 1 / math.log2(4)
    assert score_ranking(PLACES, {"a": 1, "b": 1, "d": 1})["ndcg@10"] == pytest.approx(gained / best)


def test_ndcg_counts_grades_linearly_and_forgets_what_is_past_the_tenth_place() -> None:
    gained = 1 / math.log2(2) + 3 / math.log2(4)
    best = 3 / math.log2(2) + 1 / math.log2(3)
    assert score_ranking(PLACES, {"a": 1, "b": 3})["ndcg@10"] == pytest.approx(gained / best)
    late = [[str(number)] for number in range(10)] + [["a"]]
    assert score_ranking(late, {"a": 1})["ndcg@10"] == 0.0


def test_passages_of_one_chunk_share_its_place_but_not_in_the_flat_recall() -> None:
    places = [["x1", "x2", "x3", "a"], ["y1", "b"], ["c"]]
    scores = score_ranking(places, {"a": 1, "b": 1})
    assert scores["recall@2"] == 1.0
    assert scores["recall_flat@5"] == 0.5
    assert scores["mrr"] == 1.0


def test_an_empty_place_takes_room() -> None:
    assert score_ranking([[], [], ["a"]], {"a": 1})["mrr"] == pytest.approx(1 / 3)


def test_nothing_found_scores_nothing() -> None:
    assert set(score_ranking([], {"a": 1}).values()) == {0.0}


@given(
    st.lists(st.lists(st.sampled_from("abcdefgh"), max_size=3), max_size=30),
    st.dictionaries(st.sampled_from("abcdefghij"), st.integers(1, 3).map(float), min_size=1),
)
def test_scores_stay_in_range_and_grow_with_the_cut(places: list[list[str]], gold: dict[str, float]) -> None:
    scores = score_ranking(places, gold)
    assert set(scores) == set(METRICS)
    assert all(0 <= value <= 1 for value in scores.values())
    assert scores["recall@2"] <= scores["recall@5"] <= scores["recall@10"] <= scores["recall@20"]


@given(st.permutations([f"p{number}" for number in range(6)]))
def test_gold_on_top_is_perfect(order: list[str]) -> None:
    scores = score_ranking([[id_] for id_ in order], dict.fromkeys(order[:2], 1.0))
    assert all(value == pytest.approx(1.0) for value in scores.values())
