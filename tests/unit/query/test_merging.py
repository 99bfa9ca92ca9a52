from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from heliograph.query.plain_search import ChunkPicks, MergedChunks, by_place, round_robin

LISTS = st.lists(st.lists(st.integers(0, 30), unique=True, max_size=12), max_size=4)


def test_round_robin_takes_one_of_each_in_turn() -> None:
    assert round_robin([[1, 2, 3, 4], [9, 2, 8]], key=int) == [1, 9, 2, 3, 8, 4]
    assert round_robin([["a"], ["b", "c"], ["d", "a", "e"]], key=str) == ["a", "b", "d", "c", "e"]
    assert round_robin([], key=str) == []


def test_round_robin_keeps_the_first_of_equal_keys() -> None:
    assert round_robin([["A"], ["a", "b"]], key=str.lower) == ["A", "b"]


@given(LISTS)
def test_round_robin_equals_the_rule_restated(lists: list[list[int]]) -> None:
    expected: list[int] = []
    for place in range(max(map(len, lists), default=0)):
        for items in lists:
            if place < len(items) and items[place] not in expected:
                expected.append(items[place])
    assert round_robin(lists, key=int) == expected
    assert set(expected) == {item for items in lists for item in items}


def test_merged_chunks_carry_every_mark() -> None:
    picks = [
        ChunkPicks("C", ["x", "y"]),
        ChunkPicks("E", ["z", "x"], {"z": 1, "x": 5}),
        ChunkPicks("R", ["w"], {"w": 2}),
    ]
    merged = MergedChunks(by_place(round_robin([pick.ids for pick in picks], key=str)), picks)
    assert merged.ids == ["x", "z", "w", "y"]
    shown = [" ".join(map(str, marks)) for marks in merged.marks(["x", "z", "w", "y"])]
    assert shown == ["C1/1 E5/2", "E1/1", "R2/1", "C1/2"]
