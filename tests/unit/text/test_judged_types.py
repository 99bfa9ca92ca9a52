"""Types that a name alone gives, held against entities of real documents that were judged by hand."""

from __future__ import annotations

import json
from pathlib import Path

from heliograph.text.name_spans import type_of_name
from heliograph.text.phrases import find_names

JUDGED = Path(__file__).parents[2] / "data" / "judged_entities.jsonl"
KINDS = {"persons": "person", "locations": "location"}


def test_most_judged_entities_are_right() -> None:
    found = [json.loads(line) for line in JUDGED.read_text("utf-8").splitlines()]
    for list_ in ("persons", "locations"):
        judged = [item["ok"] for item in found if item["list"] == list_]
        assert sum(judged) >= 0.85 * len(judged)


def test_names_have_their_types_where_they_stand() -> None:
    found = [json.loads(line) for line in JUDGED.read_text("utf-8").splitlines()]
    right = [_has_type(item) for item in found if item["ok"] and "text" in item]
    assert len(right) > 100
    assert sum(right) >= 0.8 * len(right)


def _has_type(item: dict[str, str]) -> bool:
    return any(name.text == item["name"] and name.type == KINDS[item["list"]] for name in find_names(item["text"]))


def test_a_name_alone_does_not_make_a_person_or_place_of_what_is_none() -> None:
    found = [json.loads(line) for line in JUDGED.read_text("utf-8").splitlines()]
    wrong = [
        item["name"]
        for item in found
        if not item["ok"]
        and "text" not in item
        and item["name"].isascii()
        and type_of_name(item["name"], "", "") == KINDS.get(item["list"])
    ]
    # Limits: a given name that is a state's, too; one that begins a command; what is called after a drive or a street.
    limits = {"Allen Lane", "Victoria", "Mark Save AutoRecovery", "10.x.x.x RFC1918 range", "Google Drive"}
    assert set(wrong) <= {*limits, "Wall Street Oasis Finance Dictionary"}, wrong
