from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from heliograph.query.context.assembly import (
    OwnedChunks,
    assign_chunks,
    pick_by_shared_relations,
    pick_by_weight,
)

GROUPS = st.lists(st.integers(0, 9), max_size=12).map(
    lambda sizes: [[f"{place}.{number}" for number in range(size)] for place, size in enumerate(sizes)]
)
ITEMS = st.lists(st.lists(st.sampled_from("abcdefgh"), max_size=6), max_size=6)


def owned(groups: list[list[str]]) -> OwnedChunks:
    return OwnedChunks(groups, {})


def test_chunk_belongs_to_the_first_item_and_counts_for_all() -> None:
    made = assign_chunks(["abc", "cb", "c", ""], keep_empty=True)
    assert made.groups == [["c", "b", "a"], [], []]
    assert made.frequencies == {"a": 1, "b": 2, "c": 3}


def test_taken_chunks_are_neither_given_nor_counted() -> None:
    made = assign_chunks(["ab", "b", "bc"], {"b"}, keep_empty=False)
    assert made.groups == [["a"], ["c"]]
    assert made.frequencies == {"a": 1, "c": 1}


@given(ITEMS)
def test_every_chunk_has_one_owner(items: list[list[str]]) -> None:
    made = assign_chunks(items, keep_empty=True)
    assert sorted(made.candidates()) == sorted({chunk for item in items for chunk in item})
    assert sum(made.frequencies.values()) == sum(map(len, items))
    for group in made.groups:
        counts = [made.frequencies[chunk] for chunk in group]
        assert counts == sorted(counts, reverse=True)


def test_weight_of_one_item_takes_its_first_chunks() -> None:
    assert pick_by_weight(owned([list("abcdefg")]), 5) == list("abcde")
    assert pick_by_weight(owned([]), 5) == []


def test_weight_quotas_fall_in_a_line_and_round_half_to_even() -> None:
    # Five items from 5 to 1: quotas 5 4 3 2 1; nine items: 5 4.5 4 3.5 3 2.5 2 1.5 1 become 5 4 4 4 3 2 2 2 1.
    full = [[f"{place}{number}" for number in range(9)] for place in range(9)]
    assert _quotas(full[:5], 5) == [5, 4, 3, 2, 1]
    assert _quotas(full, 5) == [5, 4, 4, 4, 3, 2, 2, 2, 1]
    assert _quotas(full[:2], 5) == [5, 1]
    assert _quotas(full[:3], 1) == [1, 1, 1]


def test_weight_hands_unused_quota_to_the_first_items_with_chunks_left() -> None:
    # Quotas 5 3 1; the second item has none, so its three go to the first item's sixth chunk and the third item's.
    groups = [list("abcdef"), [], list("xyz")]
    assert pick_by_weight(owned(groups), 5) == [*"abcde", "x", "f", "y", "z"]


@given(GROUPS, st.integers(1, 7))
def test_weight_equals_the_rule_restated(groups: list[list[str]], most: int) -> None:
    assert pick_by_weight(owned(groups), most) == _polled(groups, most, 1)


def _polled(groups: list[list[str]], most: int, least: int) -> list[str]:
    """The rule as prose says it: two rounds, one chunk at a time."""
    if len(groups) == 1:
        return groups[0][:most]
    expected = [round(most - (place / (len(groups) - 1)) * (most - least)) for place in range(len(groups))]
    picked: list[str] = []
    used = [0] * len(groups)
    remaining = 0
    for place, group in enumerate(groups):
        while used[place] < expected[place]:
            if used[place] == len(group):
                remaining += expected[place] - used[place]
                break
            picked.append(group[used[place]])
            used[place] += 1
    for _ in range(remaining):
        open_places = [place for place, group in enumerate(groups) if used[place] < len(group)]
        if not open_places:
            break
        picked.append(groups[open_places[0]][used[open_places[0]]])
        used[open_places[0]] += 1
    return picked


def _quotas(groups: list[list[str]], most: int) -> list[int]:
    picked = pick_by_weight(owned(groups), most)
    return [sum(chunk in group for chunk in picked) for group in groups]


def test_shared_relations_order_by_item_then_by_neighbours_that_list_the_chunk() -> None:
    neighbours = [[{"b"}, {"b", "c"}, {"z"}], [{"d"}]]
    assert pick_by_shared_relations(owned([list("abc"), list("de")]), neighbours, 9) == list("bcade")
    assert pick_by_shared_relations(owned([list("abc"), list("de")]), neighbours, 2) == list("bc")
