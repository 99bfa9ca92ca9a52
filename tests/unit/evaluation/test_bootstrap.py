from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heliograph.evaluation.results import paired_difference

SCORES = st.lists(st.floats(0, 1), min_size=2, max_size=40)


@given(SCORES, SCORES)
@settings(max_examples=30)
def test_interval_holds_the_mean_and_turns_with_the_order(one: list[float], two: list[float]) -> None:
    size = min(len(one), len(two))
    forth, back = paired_difference(one[:size], two[:size], 500), paired_difference(two[:size], one[:size], 500)
    assert forth.low <= forth.mean + 1e-9
    assert forth.mean <= forth.high + 1e-9
    assert (back.mean, back.low, back.high) == pytest.approx((-forth.mean, -forth.high, -forth.low))


def test_the_same_scores_differ_by_nothing() -> None:
    found = paired_difference([0.1, 0.5, 0.9], [0.1, 0.5, 0.9])
    assert (found.mean, found.low, found.high, found.is_certain) == (0.0, 0.0, 0.0, False)


def test_a_constant_gain_is_certain_and_exact() -> None:
    found = paired_difference([0.0] * 8, [0.25] * 8)
    assert (found.mean, found.low, found.high, found.is_certain) == (0.25, 0.25, 0.25, True)


def test_interval_is_about_that_of_the_normal_distribution() -> None:
    gains = np.random.default_rng(3).normal(0.1, 0.3, 400)
    found = paired_difference([0.0] * 400, list(gains))
    half = 1.96 * gains.std() / 20
    assert found.low == pytest.approx(gains.mean() - half, abs=0.004)
    assert found.high == pytest.approx(gains.mean() + half, abs=0.004)


def test_interval_is_repeated_exactly_and_for_many_questions() -> None:
    other = [float(number % 3 == 0) for number in range(5_000)]
    found = paired_difference([0.0] * 5_000, other, 2_000)
    assert found == paired_difference([0.0] * 5_000, other, 2_000)
    assert found.questions == 5_000


def test_no_questions_give_zeros_and_unequal_ones_are_refused() -> None:
    assert paired_difference([], []).questions == 0
    with pytest.raises(ValueError, match="cannot be paired"):
        paired_difference([1.0], [])
