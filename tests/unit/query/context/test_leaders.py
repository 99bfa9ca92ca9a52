"""Leaders get to the front, and as little else moves as that takes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.query.context.assembly import with_leaders

IDS = st.lists(st.sampled_from("abcdefghijkl"), unique=True)


@pytest.mark.parametrize(
    ("leaders", "head", "expected"),
    [
        ("", 3, "abcdef"),
        ("a", 3, "abcdef"),
        ("f", 3, "abfcde"),
        ("fe", 3, "afebcd"),
        ("cf", 3, "acfbde"),
        ("fed", 2, "feabcd"),
        ("x", 3, "abxcdef"),
    ],
)
def test_leaders_take_the_last_places_of_the_head(leaders: str, head: int, expected: str) -> None:
    assert "".join(with_leaders("abcdef", leaders, head)) == expected


@given(IDS, IDS, st.integers(1, 8))
def test_leaders_are_in_the_head_and_nothing_is_lost(order: list[str], leaders: list[str], head: int) -> None:
    result = with_leaders(order, leaders, head)
    assert set(leaders[:head]) <= set(result[:head])
    assert len(result) == len(set(result))
    assert set(result) == set(order) | set(leaders[:head])
    moved = set(leaders)
    kept = [item for item in result[:head] if item not in moved]
    assert kept == [item for item in order[:head] if item not in moved][: len(kept)]
