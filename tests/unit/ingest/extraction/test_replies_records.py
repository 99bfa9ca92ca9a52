"""The fields of a record: names, types, keywords, strengths."""

from __future__ import annotations

import pytest

from heliograph.extraction.replies import RecordCollector, clean_type, strength_weight


def names_kept(*names: str) -> list[str]:
    collector = RecordCollector()
    for name in names:
        collector.add_entity(name, "thing", "")
    return [entity.name for entity in collector.finish(says_empty=False).entities]


def test_names_that_name_something_are_kept_as_written() -> None:
    names = ["1984", "192.168.0.1", "C++", "A*", "5G", "《红楼梦》", '"Quoted"', "**Bold**", "Li  Wei"]
    assert names_kept(*names) == ["1984", "192.168.0.1", "C++", "A*", "5G", "红楼梦", "Quoted", "Bold", "Li Wei"]


def test_names_that_name_nothing_are_dropped() -> None:
    assert names_kept("", " ", "...", "7", "42", "1.5", '""', "-", "entity_name", "SOURCE_ENTITY") == []


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ("Natural Object", "natural_object"),
        ("natural-object", "natural_object"),
        ("Person, Author", "person"),
        (", author", "author"),
        ("人物，作者", "人物"),
        ("(Techno/logy|'x')", "technologyx"),
        ('"ORGANIZATION"', "organization"),
        ("", "unknown"),
        ("N/A", "unknown"),
        ("<>", "unknown"),
        ("ＧＥＯ", "geo"),
    ],
)
def test_type_is_lower_case_with_underscores(written: str, kept: str) -> None:
    assert clean_type(written) == kept


@pytest.mark.parametrize(
    ("written", "weight"),
    [
        ("", 1.0),
        ("high", 1.0),
        ("5", 1.0),
        ("10", 2.0),
        ("8/10", 1.6),
        ("1", 0.2),
        ("95", 2.0),
        ("0", 0.2),
        ("-3", 0.2),
        ("0.5", 1.0),
        ("9" * 400, 2.0),
    ],
)
def test_strength_is_a_weight_around_one(written: str, weight: float) -> None:
    assert strength_weight(written) == pytest.approx(weight)


def test_relation_of_an_entity_with_itself_is_dropped_and_noted() -> None:
    collector = RecordCollector()
    collector.add_relation("MQTT", "mqtt", "x", "y", 1.0)
    collector.add_relation("MQTT", "7", "x", "y", 1.0)
    parsed = collector.finish(says_empty=True)
    assert not parsed.relations
    assert len(parsed.problems) == 2
    assert not parsed.says_empty


def test_keywords_are_parted_and_distinct() -> None:
    collector = RecordCollector()
    collector.add_relation("A1x", "B2x", "trade, mill；trade、 'kin'\n", "", 1.0)
    collector.add_relation("A1x", "C3x", ["trade, mill", "kin"], "", 1.0)
    assert [relation.keywords for relation in collector.finish(says_empty=False).relations] == [
        ("trade", "mill", "kin"),
        ("trade", "mill", "kin"),
    ]


def test_pair_is_undirected_when_repeats_are_dropped() -> None:
    collector = RecordCollector()
    collector.add_relation("A1x", "B2x", "", "They met.", 1.0)
    collector.add_relation("b2x", "a1x", "", "They met.", 1.0)
    collector.add_relation("B2x", "A1x", "", "They parted.", 1.0)
    assert len(collector.finish(says_empty=False).relations) == 2
