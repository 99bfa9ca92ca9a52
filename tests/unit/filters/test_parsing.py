from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import pytest

from heliograph.errors import InvalidRequestError
from heliograph.filters import (
    MAX_CONDITIONS,
    MAX_DEPTH,
    MAX_VALUES,
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
    parse_expression,
    parse_filter,
)


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ({"team": "red"}, Equals("team", "red")),
        ({"team": None}, Equals("team", None)),
        ({"team": ["red", 1, True]}, In("team", ("red", 1, True))),
        ({"team": []}, In("team", ())),
        ({"author.name": {"eq": "Ann"}}, Equals("author.name", "Ann")),
        ({"team": {"ne": "red"}}, Not(Equals("team", "red"))),
        ({"team": {"in": ["red"]}}, In("team", ("red",))),
        ({"year": {"gte": 2020, "lt": 2025}}, Range("year", gte=2020, lt=2025)),
        ({"year": {"gt": 1, "ne": 3}}, And((Not(Equals("year", 3)), Range("year", gt=1)))),
        ({"day": {"lte": date(2024, 5, 1)}}, Range("day", lte="2024-05-01")),
        ({"day": datetime(2024, 5, 1, 6, tzinfo=UTC)}, Equals("day", "2024-05-01T06:00:00+00:00")),
        ({"team": {"exists": True}}, Exists("team")),
        ({"team": {"exists": False}}, Not(Exists("team"))),
        ({"document_id": "doc-1"}, DocumentIds(("doc-1",))),
        ({"document_id": []}, DocumentIds(())),
        ({"source": ["a", "b"]}, Sources(("a", "b"))),
        ({"source_prefix": "docs/"}, SourcePrefix("docs/")),
        ({"source_prefix": ["a/", "b/"]}, Or((SourcePrefix("a/"), SourcePrefix("b/")))),
        ({"metadata.source": "a"}, Equals("source", "a")),
        ({"metadata.or": 1}, Equals("or", 1)),
        ({"not": {"a": 1, "b": 2}}, Not(And((Equals("a", 1), Equals("b", 2))))),
        ({"or": [{"a": 1}, {"and": [{"b": 2}]}]}, Or((Equals("a", 1), And((Equals("b", 2),))))),
        ({"chunk": {"page": {"gte": 3}}}, HasChunk(Range("page", gte=3))),
        ({"chunk": {"headings": ["a", "b"]}, "x": 1}, And((HasChunk(In("headings", ("a", "b"))), Equals("x", 1)))),
        ({"chunk": {"not": {"page": None}}}, HasChunk(Not(Equals("page", None)))),
        ({"chunk": {"eq": 1}}, Equals("chunk", 1)),
        (Equals("a", 1), Equals("a", 1)),
    ],
    ids=repr,
)
def test_object_is_read(given: object, meant: Filter) -> None:
    assert parse_filter(given) == meant


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "filter is {}"),
        ("team=red", "filter is 'team=red'"),
        (None, "filter is None"),
        ({"and": []}, "filter.and is []"),
        ({"or": {"a": 1}}, "filter.or is"),
        ({"or": [{"a": 1}, 7]}, "filter.or[1] is 7"),
        ({"not": {}}, "filter.not is {}"),
        ({"not": [{"a": 1}]}, "filter.not is"),
        ({"a": {"b": 1}}, "'a.name'"),
        ({"a": {}}, "filter.a is {}"),
        ({"a": {"$gte": 1}}, "filter.a is"),
        ({"a": {"gte": None}}, "filter.a.gte is None"),
        ({"a": {"gte": True}}, "filter.a.gte is True"),
        ({"a": {"gte": 1, "lt": "x"}}, "all numbers or all strings"),
        ({"a": {"in": "red"}}, "filter.a.in is 'red'"),
        ({"a": {"exists": 1}}, "filter.a.exists is 1"),
        ({"a": [[1]]}, "filter.a[0] is [1]"),
        ({"a": float("inf")}, "finite"),
        ({"a": 2**63}, "64 bits"),
        ({"a": "x\0"}, "NUL"),
        ({"a": "\ud800"}, "surrogates"),
        ({"a": "x" * 5000}, "4,096"),
        ({"": 1}, "a path of the filter is ''"),
        ({".".join("abcdefghi"): 1}, "up to 8 keys"),
        ({1: 2}, "string"),
        ({"source": [1]}, "filter.source is [1]"),
        ({"source_prefix": ""}, "empty prefix"),
        ({"document_id": None}, "filter.document_id is None"),
        ({"chunk": {"team": "red"}}, "use headings or page"),
        ({"chunk": {"source": "a"}}, "use conditions on headings or page"),
        ({"not": {"chunk": {"page": 1}}}, "state it beside the conditions on documents"),
        ({"chunk": {"chunk": {"page": 1}}}, "state it beside"),
        (And((Equals("a", 1), "b")), "filter is 'b'"),  # pyright: ignore[reportArgumentType]
        (Range("a"), "'a'"),
        (In("a", [1]), "tuple"),  # pyright: ignore[reportArgumentType]
    ],
    ids=repr,
)
def test_what_is_not_understood_is_refused_with_its_place(given: object, words: str) -> None:
    with pytest.raises(InvalidRequestError) as error:
        parse_filter(given)
    assert words in str(error.value)


def test_filter_is_limited_in_depth_and_size() -> None:
    deep: Any = {"a": 1}
    for _ in range(MAX_DEPTH):
        deep = {"not": deep}
    for large in (deep, {"or": [{"a": 1}] * MAX_CONDITIONS}, {"a": ["x"] * (MAX_VALUES + 1)}):
        with pytest.raises(InvalidRequestError):
            parse_filter(large)
    nested: Filter = Equals("a", 1)
    for _ in range(5000):
        nested = Not(nested)
    with pytest.raises(InvalidRequestError):
        parse_filter(nested)
    assert parse_filter({"a": ["x"] * 1000})


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("team=red", Equals("team", "red")),
        (" team = red fox ", Equals("team", "red fox")),
        ("a.b=x=y", Equals("a.b", "x=y")),
        ("team==red", Equals("team", "red")),
        ("year=2024", Or((Equals("year", "2024"), Equals("year", 2024)))),
        ('year="2024"', Equals("year", "2024")),
        ("draft=true", Or((Equals("draft", "true"), Equals("draft", True)))),
        ("draft!=true", And((Not(Equals("draft", "true")), Not(Equals("draft", True))))),
        ("year>=2020", Or((Range("year", gte="2020"), Range("year", gte=2020)))),
        ("day<2024-05-01", Range("day", lt="2024-05-01")),
        ("reviewed", Exists("reviewed")),
        ("!draft", Not(Exists("draft"))),
        ("metadata.source=x", Equals("source", "x")),
        ("note=", Equals("note", "")),
    ],
)
def test_expression_is_read(text: str, meant: Filter) -> None:
    assert parse_expression(text) == meant


@pytest.mark.parametrize(
    ("text", "place"),
    [
        *(("", 1), ("!", 1), ("=red", 1), (" > 3", 2), ("a!", 2), ("!a=b", 3), ("!!draft", 2), ("year!2024", 5)),
        *(("year>>2024", 6), ("year><2024", 6), ("year=<2024", 6), ("year=>2024", 6), ("year===2024", 7)),
        *(("year<>2024", 6), ("year != =1", 9), ("year>", 6), ("year<= ", 8), ("year>true", 6), ("year>2020<2025", 10)),
        *(("year >= 2024 and team=red", 13), ("team=red and year=2024", 9), ("team=red&&year>1", 9), ("team red", 5)),
        *(("team=red && year>1", 10), ("team=red ||year>1", 10)),
        *(("team:red", 5), ("team~red", 5), ("not draft", 4), ("(a=b)", 1), ('"team"=red', 1), ('{"a":"b"}', 1)),
        *(('team="red', 6), ('team="a" b', 6), ("team='red'", 6), ("tags=[1,2]", 6), ("a=null", 3), ("a..b=c", 2)),
        *((".a=b", 1), ("a.=b", 2), ("a\nb=c", 2), ("metadata.=x", 1), ("a=b or c=d", 4)),
    ],
)
def test_expression_that_is_not_understood_is_refused_with_its_place(text: str, place: int) -> None:
    with pytest.raises(InvalidRequestError) as error:
        parse_expression(text)
    assert f"the filter {text!r} is wrong at character {place}:" in str(error.value)
    assert "such as year>=2024" in str(error.value)


@pytest.mark.parametrize("text", ["a..b=c", "(a=b)", "team:red", "!field (x)"])
def test_refused_name_of_a_field_can_be_given_in_an_object(text: str) -> None:
    with pytest.raises(InvalidRequestError, match=r"no name of a field.*--filter-json \(`filter` in JSON\)"):
        parse_expression(text)


@pytest.mark.parametrize("unit", [" ", "&", "a ", " and", " and ", ".", "&& "])
def test_long_value_is_read_in_linear_time(unit: str) -> None:
    with pytest.raises(InvalidRequestError, match="4,096"):
        parse_expression(f"a=b{unit * (500_000 // len(unit))}c")


def test_number_beyond_all_bounds_is_refused() -> None:
    with pytest.raises(InvalidRequestError, match="finite"):
        parse_expression("n>1e999")


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ('year>">2024"', Range("year", gt=">2024")),
        ("team=\"'red'\"", Equals("team", "'red'")),
        ('a="null"', Equals("a", "null")),
        ('a="x and y=z"', Equals("a", "x and y=z")),
        ("dc:title=x and y", Equals("dc:title", "x and y")),
        ("url=https://example.org/?a=b&c=d", Equals("url", "https://example.org/?a=b&c=d")),
        ("first name=Ann", Equals("first name", "Ann")),
        (r"a\.b=1.5 mm", Equals(r"a\.b", "1.5 mm")),
        ("who='Twas", Equals("who", "'Twas")),
    ],
)
def test_what_could_be_a_slip_can_be_said(text: str, meant: Filter) -> None:
    assert parse_expression(text) == meant


def test_value_nested_too_deep_to_be_shown_is_refused_without_it() -> None:
    value: list[object] = []
    for _ in range(100_000):
        value = [value]
    with pytest.raises(InvalidRequestError, match=r"filter\.team.* is a list that is too large or nested too deep"):
        parse_filter({"team": {"in": value, "eq": value}})


@pytest.mark.parametrize(
    "given",
    [
        {"$and": [{"team": "red"}]},
        {"$bogus": 1},
        {"$or": ["red"]},
        {"team": {"$eq": "red"}},
        {"field": "meta.team", "operator": "==", "value": "red"},
        {"operator": "AND", "conditions": [{"field": "team", "operator": "==", "value": "red"}]},
        {"key": "team", "value": "red"},
        {"key": "team", "match": {"value": "red"}},
        {"filters": [{"key": "team", "value": "red"}], "condition": "and"},
        {"path": ["team"], "operator": "Equal", "valueText": "red"},
        {"or": [{"team": "red"}, {"$not": {"team": "blue"}}]},
    ],
)
def test_form_of_another_library_is_refused_and_ours_is_shown(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequestError, match=r"write \{\"team\"|use eq, ne"):
        parse_filter(given)


def test_fields_with_such_names_are_reached_by_metadata() -> None:
    assert parse_filter({"metadata.$id": 1}) == Equals("$id", 1)
    assert parse_filter({"metadata.key": "a", "metadata.value": "b"}) == And((Equals("key", "a"), Equals("value", "b")))
