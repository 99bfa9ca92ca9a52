from __future__ import annotations

from typing import Any, get_args

import pytest

import heliograph
from heliograph.filters import (
    And,
    DocumentIds,
    Equals,
    Exists,
    Filter,
    HasChunk,
    In,
    Not,
    Or,
    Range,
    SourcePrefix,
    Sources,
    chunk_condition,
    filter_key,
    matches,
    matches_chunk,
    path_keys,
)
from heliograph.models import Chunk, Document

METADATA: dict[str, Any] = {
    "team": "red",
    "year": 2024,
    "share": 0.5,
    "draft": False,
    "editor": None,
    "tags": ["tide", "lamp"],
    "empty": [],
    "author": {"name": "Ann", "age": 40},
    "places": [{"name": "Bonn"}, {"name": "Leith"}, "nowhere"],
    "date": "2024-05-01",
    "a.b": 1,
}
DOCUMENT = Document("doc-1", "docs/a.md", "A Manual", metadata=METADATA)


@pytest.mark.parametrize(
    "condition",
    [
        Equals("team", "red"),
        Equals("year", 2024.0),
        Equals("draft", False),
        Equals("editor", None),
        Equals("tags", "lamp"),
        Equals("author.name", "Ann"),
        Equals("places.name", "Leith"),
        Equals("a\\.b", 1),
        Equals("title", "A Manual"),
        In("team", ("blue", "red")),
        In("tags", ("x", "tide")),
        Range("year", gte=2024, lt=2025),
        Range("share", gt=0, lte=0.5),
        Range("date", gte="2024-01-01", lt="2025"),
        Exists("editor"),
        Exists("empty"),
        Exists("author.age"),
        DocumentIds(("doc-0", "doc-1")),
        Sources(("docs/a.md",)),
        SourcePrefix("docs/"),
        And(()),
        And((Equals("team", "red"), Equals("year", 2024))),
        Or((Equals("team", "blue"), Equals("year", 2024))),
        Not(Equals("team", "blue")),
        Not(Equals("missing", "red")),
    ],
    ids=repr,
)
def test_condition_holds_and_its_negation_does_not(condition: Filter) -> None:
    assert matches(condition, DOCUMENT)
    assert not matches(Not(condition), DOCUMENT)


@pytest.mark.parametrize(
    "condition",
    [
        Equals("team", "Red"),
        Equals("year", "2024"),
        Equals("draft", 0),
        Equals("draft", None),
        Equals("missing", None),
        Equals("editor", "None"),
        Equals("author", "Ann"),
        Equals("a.b", 1),
        Equals("title", "a manual"),
        Equals("tags", "tid"),
        In("team", ()),
        Range("team", gte=0),
        Range("year", gte="2024"),
        Range("draft", gte=0),
        Range("editor", gte=0),
        Range("year", gt=2024),
        Range("year"),
        Exists("author.email"),
        DocumentIds(()),
        Sources(("docs/",)),
        SourcePrefix("Docs/"),
        Or(()),
    ],
    ids=repr,
)
def test_condition_does_not_hold(condition: Filter) -> None:
    assert not matches(condition, DOCUMENT)


def test_field_of_the_metadata_counts_before_the_detail_of_its_name() -> None:
    document = Document("doc-1", "docs/a.md", "A Manual", metadata={"title": "Of the file"})
    assert matches(Equals("title", "Of the file"), document)
    assert not matches(Equals("title", "A Manual"), document)


def test_range_is_met_by_one_element_as_a_whole() -> None:
    document = Document("doc-1", "a", metadata={"years": [1990, 2030]})
    assert not matches(Range("years", gt=2000, lt=2020), document)
    assert matches(Range("years", gt=2000), document)


def test_key_tells_equal_looking_values_apart() -> None:
    keys = {filter_key(Equals("a", value)) for value in (1, 1.0, True, "1", "True", None, "None")}
    assert len(keys) == 7


def test_path_names_keys() -> None:
    assert path_keys("a.b") == ("a", "b")
    assert path_keys("a\\.b.c") == ("a.b", "c")


def test_chunks_are_matched_by_their_details() -> None:
    chunks = [Chunk(f"c{n}", "doc-1", n, "", 0, 0, 0, ("Top", f"Part {n}"), n or None) for n in range(3)]
    later = And((SourcePrefix("docs/"), HasChunk(Range("page", gte=1)), And((HasChunk(Equals("headings", "Top")),))))
    assert [chunk.position for chunk in chunks if matches_chunk(chunk_condition(later), chunk)] == [1, 2]
    assert matches(later, DOCUMENT, lambda _: chunks)
    assert not matches(later, DOCUMENT, lambda _: chunks[:1])
    assert matches(later, DOCUMENT)
    assert not matches(later, Document("doc-2", "other"))
    assert matches_chunk(chunk_condition(SourcePrefix("docs/")), chunks[0])


def test_every_condition_is_exported() -> None:
    assert {condition.__name__ for condition in get_args(Filter)} <= set(heliograph.__all__)
