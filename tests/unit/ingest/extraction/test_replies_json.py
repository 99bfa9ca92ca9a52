"""The lenient JSON reader."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.extraction.reply_readers import read_json

A = {"name": "A", "description": "x"}
B = {"name": "B", "description": "y"}

REPAIRS = {
    "trailing commas": '[{"name": "A", "description": "x",}, {"name": "B", "description": "y"},]',
    "missing commas": '[{"name": "A" "description": "x"} {"name": "B" "description": "y"}]',
    "single quotes": "[{'name': 'A', 'description': 'x'}, {'name': 'B', 'description': 'y'}]",
    "typographic quotes": "[{“name”: “A”, “description”: “x”}, {“name”: “B”, “description”: “y”}]",
    "full-width marks": '[{"name"："A"，"description"："x"}，{"name"："B"，"description"："y"}]',
    "bare words": "[{name: A, description: x}, {name: B, description: y}]",
    "missing closing quote": '[{"name": "A", "description": "x}, {"name": "B", "description": "y"}]',
    "missing quote before a key": '[{"name": "A,\n "description": "x"}, {"name": "B", "description": "y"}]',
    "missing brackets": '{"name": "A", "description": "x"}, {"name": "B", "description": "y"}]',
    "missing closing brace": '[{"name": "A", "description": "x", {"name": "B", "description": "y"}]',
    "run together": '[{"name": "A", "description": "x", "name": "B", "description": "y"}]',
    "never closed": '{"list": [{"name": "A", "description": "x"}, {"name": "B", "description": "y"}, {"name": "C"',
    "wrong bracket": '[{"name": "A", "description": "x"}, {"name": "B", "description": "y"]',
}


def found(text: str) -> list[dict[str, object]]:
    return [dict(item.fields) for value in read_json(text) for item in value.objects if "name" in item.fields]


@pytest.mark.parametrize("text", REPAIRS.values(), ids=REPAIRS.keys())
def test_damage_is_repaired(text: str) -> None:
    assert found(text) == [A, B]


def test_quotes_within_a_value_are_kept() -> None:
    assert found('{"name": "A", "description": "said "hi", and left"}')[0]["description"] == 'said "hi", and left'
    assert found("{'name': 'O'Brien', 'description': 'It's his'}") == [{"name": "O'Brien", "description": "It's his"}]


def test_stray_quote_costs_one_value_not_the_rest() -> None:
    text = '[{"name": A", "description": "x"}, {"name": "B", "description": "y"}]'
    assert B in found(text)


def test_escapes_are_decoded() -> None:
    text = r'{"name": "\u4e2d \ud83d\ude00 \"q\" \\ \/ \alpha \ud800", "description": "a\nb"}'
    assert found(text) == [{"name": '中 😀 "q" \\ / \\alpha �', "description": "a\nb"}]


def test_labels_tell_what_holds_an_object() -> None:
    value = read_json('{"entities": {"ESP32": {"type": "chip"}}, "relations": [["a", "b", "c"]]}')[0]
    assert [(item.label, item.key, item.items) for item in value.objects[:2]] == [
        ("entities", "ESP32", ()),
        ("relations", "", ("a", "b", "c")),
    ]


def test_cut_value_is_marked_and_reaches_the_end() -> None:
    text = 'x {"a": [{"name": "A", "description": "x"}, {"na'
    value = read_json(text)[0]
    assert (value.start, value.end, value.is_cut) == (2, len(text), True)
    assert len(value.objects) == 1


def test_brackets_in_rows_and_prose_are_not_objects() -> None:
    assert not found('entity<|#|>{"name": "A", "description": "x"}')
    assert found('[see note] {not json} {"name": "A", "description": "x"}') == [A]


def test_deep_nesting_is_no_error() -> None:
    assert read_json("[" * 50_000)[0].is_cut
    assert read_json('{"a":' * 20_000 + '{"name": "A"}')[0].objects


LEAVES = st.text(max_size=20).filter(lambda text: text not in ("null", "None"))
KEYS = st.text("abcdefghij_ ", min_size=1, max_size=8).filter(str.strip)


@given(st.lists(st.dictionaries(KEYS, LEAVES, min_size=1, max_size=4), max_size=5))
def test_valid_json_is_read_exactly(objects: list[dict[str, str]]) -> None:
    values = read_json(json.dumps(objects, ensure_ascii=True))
    assert [item.fields for value in values for item in value.objects] == objects
