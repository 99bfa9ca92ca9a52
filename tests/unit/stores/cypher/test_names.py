"""Names of labels and types are safe in a statement, and not too many."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from heliograph.stores.cypher import RELATED, TypeNames, label_name, workspace_label


@given(st.text())
def test_label_can_stand_between_backticks(text: str) -> None:
    for name in (label_name(text), workspace_label(text), TypeNames((), 9).name(text)):
        assert name
        assert all(char == "_" or char.isalnum() or not char.isascii() for char in name)
        assert "`" not in name
        assert "\0" not in name


@given(st.text(), st.text())
def test_label_of_a_type_is_never_that_of_a_workspace(entity_type: str, workspace: str) -> None:
    assert label_name(entity_type) not in {workspace_label(workspace), "Entity", "RelationEnds"}


def test_label_is_in_capitals() -> None:
    assert [label_name(text) for text in ("person", "Research group", "人物", "--")] == [
        *("PERSON", "RESEARCH_GROUP", "人物", "UNKNOWN"),
    ]


def test_known_types_stay_when_there_are_enough() -> None:
    types = TypeNames(["KNOWS"], 2)
    assert [types.name(word) for word in ("likes", "hates", "knows", "Likes!", "")] == [
        *("LIKES", RELATED, "KNOWS", "LIKES", RELATED),
    ]
