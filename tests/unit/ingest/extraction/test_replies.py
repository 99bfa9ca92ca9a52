"""Extraction replies in every form that models give them, and in many that they should not."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.extraction.replies import (
    MAX_DESCRIPTION_LENGTH,
    MAX_RECORDS,
    ParsedEntity,
    ParsedExtraction,
    ParsedRelation,
    parse_extraction,
)

ALICE = ParsedEntity("Alice", "person", "A miller (retired).")
BOB = ParsedEntity("Bob", "person", "Her son.")
KIN = ParsedRelation("Alice", "Bob", ("family", "mill"), "Alice raised Bob.", 1.6)

FORMS = {
    "json": """{"entities": [{"name": "Alice", "type": "person", "description": "A miller (retired)."},
        {"name": "Bob", "type": "person", "description": "Her son."}],
        "relations": [{"source": "Alice", "target": "Bob", "keywords": "family, mill",
                       "description": "Alice raised Bob.", "strength": 8}]}""",
    "json of other keys": """{"nodes": [
        {"entity_name": "Alice", "entity_type": "Person", "entity_description": "A miller (retired)."},
        {"Entity Name": "Bob", "category": "PERSON", "desc": "Her son."}],
        "relationships": [{"head": "Alice", "tail": "Bob", "relationship_keywords": ["family", "mill"],
                           "relationship_description": "Alice raised Bob.", "score": "8/10"}]}""",
    "json fenced in prose": """Here you go:\n```json\n[{"name": "Alice", "type": "person",
        "description": "A miller (retired)."}, {"name": "Bob", "type": "person", "description": "Her son."},
        {"src_id": "Alice", "tgt_id": "Bob", "keywords": "family; mill", "description": "Alice raised Bob.",
        "strength": 8.0}]\n```\nTell me if you need more.""",
    "json lines": """{"type": "entity", "name": "Alice", "entity_type": "person", "description": "A miller (retired)."}
        {"type": "entity", "name": "Bob", "entity_type": "person", "description": "Her son."}
        {"type": "relation", "from": "Alice", "to": "Bob", "keywords": ["family", "mill"],
         "description": "Alice raised Bob.", "strength": 8}""",
    "json by name": """{"entities": {"Alice": {"type": "person", "description": "A miller (retired)."},
        "Bob": {"type": "person", "description": "Her son."}}, "relations": [{"source": {"name": "Alice"},
        "target": {"name": "Bob"}, "keywords": "family, mill", "description": "Alice raised Bob.", "strength": 8}]}""",
    "lists": """[["entity", "Alice", "person", "A miller (retired)."], ["entity", "Bob", "person", "Her son."],
        ["relationship", "Alice", "Bob", "Alice raised Bob.", "family, mill", "8"]]""",
    "hash rows": """entity<|#|>Alice<|#|>person<|#|>A miller (retired).
entity<|#|>Bob<|#|>person<|#|>Her son.
relation<|#|>Alice<|#|>Bob<|#|>family, mill<|#|>Alice raised Bob.<|#|>8
<|COMPLETE|>""",
    "hash rows without line breaks": "entity<|#|>Alice<|#|>person<|#|>A miller (retired).<|#|>entity<|#|>Bob<|#|>person"
    "<|#|>Her son.<|#|>relation<|#|>Alice<|#|>Bob<|#|>family, mill<|#|>Alice raised Bob.<|#|>8<|COMPLETE|>",
    "tuples": """("entity"<|>"Alice"<|>"PERSON"<|>"A miller (retired).")##
("entity"<|>"Bob"<|>"PERSON"<|>"Her son.")##
("relationship"<|>"Alice"<|>"Bob"<|>"Alice raised Bob."<|>"family, mill"<|>8)##
("content_keywords"<|>"country life, kin")<|COMPLETE|>""",
    "tuples in one line": '("entity"<|>"Alice"<|>"person"<|>"A miller (retired).")##("entity"<|>"Bob"<|>"person"<|>'
    '"Her son.")##("relationship"<|>"Alice"<|>"Bob"<|>"Alice raised Bob."<|>"family, mill"<|>8)',
    "tuples with sloppy ends": """**Entities:**
1. ("Entity"<|>"Alice"<|>"Person"<|>"A miller (retired)."" ),
- "entity"<|>"Bob"<|>"Person"<|>"Her son."
(“relationship”<|>“Alice”<|>">Bob"<|>"Alice raised Bob."|<|"family, mill"<|>8))
I hope this helps!""",
    "damaged delimiters": """entity<|>Alice<||>person<|#>A miller (retired).
entity|#|Bob<#>person<|#Her son.
relation<|#|>Alice<|#|>Bob<|##|>family, mill<|#|>Alice raised Bob.<|\\#|>8""",
    "full-width bars": "entity<｜#｜>Alice<｜#｜>person<｜#｜>A miller (retired).\n"
    "entity｜Bob｜person｜Her son.\nrelation<|#|>Alice<|#|>Bob<|#|>family、mill<|#|>Alice raised Bob.<|#|>8",
    "wrong kinds": """entity<|#|>Alice<|#|>person<|#|>A miller (retired).
relation<|#|>Bob<|#|>person<|#|>Her son.
entity<|#|>Alice<|#|>Bob<|#|>family, mill<|#|>Alice raised Bob.<|#|>8""",
    "doubled and missing kinds": """entity<|#|>entity<|#|>Alice<|#|>person<|#|>A miller (retired).
Bob<|#|>person<|#|>Her son.
relation<|#|>relation<|#|>Alice<|#|>Bob<|#|>family, mill<|#|>Alice raised Bob.<|#|>8""",
    "rows and json": """entity<|#|>Alice<|#|>person<|#|>A miller (retired).
entity<|#|>Bob<|#|>person<|#|>Her son.
{"relations": [{"source": "Alice", "target": "Bob", "keywords": "family,mill", "description": "Alice raised Bob.",
"strength": 8}]}""",
    "after reasoning": """<think>
entity<|#|>Mallory<|#|>person<|#|>A draft.
</think>
entity<|#|>Alice<|#|>person<|#|>A miller (retired).
entity<|#|>Bob<|#|>person<|#|>Her son.
relation<|#|>Alice<|#|>Bob<|#|>family,mill<|#|>Alice raised Bob.<|#|>8""",
}


@pytest.mark.parametrize("text", FORMS.values(), ids=FORMS.keys())
def test_form_is_read(text: str) -> None:
    parsed = parse_extraction(text)
    assert set(parsed.entities) == {ALICE, BOB}
    assert parsed.relations == (KIN,)
    assert parsed.is_usable
    assert not parsed.says_empty


def test_bare_triple_is_its_own_description() -> None:
    text = '{"entities": [], "relations": [{"source": "ESP32", "relation": "使用", "target": "MQTT"}]}'
    assert parse_extraction(text).relations == (ParsedRelation("ESP32", "MQTT", ("使用",), "ESP32 使用 MQTT", 1.0),)
    assert parse_extraction('{"triples": [["ESP32", "使用", "MQTT"]]}').relations == parse_extraction(text).relations


def test_entity_with_a_beginning_and_an_end_is_no_relation() -> None:
    text = '{"entities": [{"name": "The war", "type": "event", "from": "1939", "to": "1945", "description": "A war."}]}'
    assert parse_extraction(text).entities == (ParsedEntity("The war", "event", "A war."),)
    assert not parse_extraction(text).relations


def test_row_order_without_strength_follows_the_delimiter() -> None:
    hashes = parse_extraction("relation<|#|>A1x<|#|>B2x<|#|>themes<|#|>A1x knows B2x.")
    tuples = parse_extraction('("relationship"<|>"A1x"<|>"B2x"<|>"A1x knows B2x."<|>"themes")')
    assert hashes.relations == tuples.relations == (ParsedRelation("A1x", "B2x", ("themes",), "A1x knows B2x.", 1.0),)


def test_oldest_rows_have_no_keywords() -> None:
    parsed = parse_extraction('("relationship"<|>"A1x"<|>"B2x"<|>"A1x knows B2x."<|>5)')
    assert parsed.relations == (ParsedRelation("A1x", "B2x", (), "A1x knows B2x.", 1.0),)


@pytest.mark.parametrize(
    "text",
    [
        '{"entities": [], "relations": []}',
        '```json\n{"entities": []}\n```',
        "<|COMPLETE|>",
        '("<|COMPLETE|>")',
        "<think>Nothing here.</think>\n<|COMPLETE|>\n",
    ],
)
def test_empty_reply_is_usable(text: str) -> None:
    assert parse_extraction(text) == ParsedExtraction(says_empty=True)
    assert parse_extraction(text).is_usable


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        "I cannot help with that.",
        '{"high_level_keywords": ["trade"], "low_level_keywords": ["mill"]}',
        '{"title": "The mill", "summary": "S", "findings": [{"summary": "A", "explanation": "B"}]}',
        '{"entities": [], "relations": [{"source": "A1x", "tar',
        '{"entities": [{"name": "42", "type": "number"}]}',
        "<think>entity<|#|>Alice<|#|>person<|#|>A draft that was never",
        "The format is entity|name|type and so on.",
    ],
)
def test_reply_without_records_is_not_usable(text: str) -> None:
    parsed = parse_extraction(text)
    assert not parsed.entities
    assert not parsed.relations
    assert not parsed.is_usable


def test_cut_json_keeps_whole_records() -> None:
    text = FORMS["json"]
    for length in range(len(text)):
        parsed = parse_extraction(text[:length], is_complete=False)
        assert set(parsed.entities) <= {ALICE, BOB}
        assert set(parsed.relations) <= {KIN}
    assert parse_extraction(text[:200]).entities == (ALICE, BOB)


@pytest.mark.parametrize("form", ["hash rows", "tuples"])
def test_cut_rows_keep_whole_records(form: str) -> None:
    text = FORMS[form]
    for length in range(len(text)):
        parsed = parse_extraction(text[:length], is_complete=False)
        assert set(parsed.entities) <= {ALICE, BOB}
        assert all(relation.source == "Alice" and relation.target == "Bob" for relation in parsed.relations)


def test_row_that_breaks_off_within_quotes_is_dropped_even_from_a_complete_reply() -> None:
    parsed = parse_extraction('("entity"<|>"Alice"<|>"person"<|>"A miller (retired).")##\n("entity"<|>"Bob"<|>"per')
    assert parsed.entities == (ALICE,)
    assert parsed.problems == ("a record that breaks off was dropped",)


def test_looping_reply_is_read_once() -> None:
    assert parse_extraction("entity<|#|>Alice<|#|>person<|#|>A miller (retired).\n" * 500).entities == (ALICE,)
    record = json.dumps({"name": "Alice", "type": "person", "description": "A miller (retired)."})
    assert parse_extraction('{"entities": [' + f"{record}, " * 500).entities == (ALICE,)


def test_reply_that_counts_up_is_bounded() -> None:
    records = [{"name": f"Room {number}", "type": "place", "description": "A room."} for number in range(1000)]
    parsed = parse_extraction(json.dumps({"entities": records}))
    assert len(parsed.entities) == MAX_RECORDS
    assert any(f"after the first {MAX_RECORDS}" in problem for problem in parsed.problems)


def test_description_is_one_clean_line_of_bounded_length() -> None:
    parsed = parse_extraction('{"entities": [{"name": "A1x", "description": "a\x00\n\tb<SEP>c\ud800 d"}]}')
    assert parsed.entities[0].description == "a b c d"
    endless = parse_extraction(json.dumps({"entities": [{"name": "A1x", "description": "very " * 5000}]}))
    assert len(endless.entities[0].description) <= MAX_DESCRIPTION_LENGTH


def test_description_over_several_lines_is_kept_whole() -> None:
    text = (
        '("entity"<|>"Alice"<|>"person"<|>"One\ntwo\nthree")##\nSome prose.\n("entity"<|>"Bob"<|>"person"<|>"Her son.")'
    )
    assert [entity.description for entity in parse_extraction(text).entities] == ["One two three", "Her son."]


def test_quote_that_never_closes_does_not_swallow_prose() -> None:
    text = '("entity"<|>"Bob"<|>"person"<|>"Her son.)\nI hope that this helps.\n\nBye.'
    assert parse_extraction(text).entities == (BOB,)


def test_marks_of_code_stay_in_names_and_descriptions() -> None:
    parsed = parse_extraction(
        "entity<|#|>C#<|#|>language<|#|>Has `a || b` and a|b.\nentity<|#|>list<int><|#|>type<|#|>#1."
    )
    assert parsed.entities == (
        ParsedEntity("C#", "language", "Has `a || b` and a|b."),
        ParsedEntity("list<int>", "type", "#1."),
    )


def test_rows_may_speak_of_json_and_json_of_rows() -> None:
    row = 'entity<|#|>Config<|#|>data<|#|>Holds {"name": "x", "type": "y"}'
    assert parse_extraction(row).entities == (ParsedEntity("Config", "data", 'Holds {"name": "x", "type": "y"}'),)
    text = json.dumps({"entities": [{"name": "Row", "type": "data", "description": "entity<|#|>a<|#|>b<|#|>c"}]})
    assert parse_extraction(text).entities == (ParsedEntity("Row", "data", "entity<|#|>a<|#|>b<|#|>c"),)


def test_type_named_like_a_kind_is_a_type() -> None:
    assert parse_extraction("entity<|#|>Alice<|#|>entity<|#|>A miller.").entities[0].type == "entity"


def test_prose_that_ends_in_a_kind_starts_no_row() -> None:
    parsed = parse_extraction('("relationship"<|>"A1x"<|>"B2x"<|>"A1x is no entity<|>8)')
    assert parsed.relations == (ParsedRelation("A1x", "B2x", (), "A1x is no entity", 1.6),)


@given(st.text(max_size=400))
def test_any_text_is_read_without_error(text: str) -> None:
    parse_extraction(text)


PIECES = st.sampled_from(
    [
        *("{", "}", "[", "]", '"', "'", "“", ":", ",", "\\", "\n", " ", "##", "(", ")", "|", "<", ">", "｜"),
        *("<|#|>", "<|>", "<|COMPLETE|>", "entity", "relationship", '("entity"<|>', '{"name": "A1x",', '"type": "t"'),
        *(
            '"entities": [',
            '{"source": "A1x", "target": "B2x"}',
            "<think>",
            "</think>",
            "```json",
            "Alice",
            "8",
            "\ud800",
        ),
    ]
)


@given(st.lists(PIECES, max_size=60).map("".join), st.booleans())
def test_any_mixture_of_marks_gives_clean_distinct_records(text: str, is_complete: bool) -> None:
    parsed = parse_extraction(text, is_complete=is_complete)
    assert len({(entity.name, entity.description) for entity in parsed.entities}) == len(parsed.entities)
    assert all(entity.name == entity.name.strip() != "" for entity in parsed.entities)
    assert all(relation.source.casefold() != relation.target.casefold() for relation in parsed.relations)
    assert all(0 < relation.strength <= 10 for relation in parsed.relations)


NAMES = st.text("abcdef XYZ中文é", min_size=3, max_size=12).map(lambda name: f"N{name.strip()}")
SENTENCES = st.text("abc ,.()'中文。\"{}[]:\n", max_size=40)
RECORDS = st.fixed_dictionaries({"name": NAMES, "type": st.just("thing"), "description": SENTENCES})


@given(st.lists(RECORDS, max_size=8))
def test_valid_json_is_read_as_it_is(records: list[dict[str, str]]) -> None:
    parsed = parse_extraction(json.dumps({"entities": records, "relations": []}, ensure_ascii=False))
    expected = parse_extraction(json.dumps({"entities": records, "relations": []}, indent=1))
    assert parsed.entities == expected.entities
    assert {" ".join(r["description"].split()) for r in records} == {entity.description for entity in parsed.entities}


@given(st.lists(RECORDS, max_size=6))
def test_repeating_a_reply_adds_nothing(records: list[dict[str, str]]) -> None:
    text = json.dumps({"entities": records})
    assert parse_extraction(f"{text}\n{text}").entities == parse_extraction(text).entities


def test_aliases_are_read_and_those_that_name_nothing_are_left_out() -> None:
    reply = (
        '{"entities": [{"name": "Ann Smith", "type": "person", "description": "d", '
        '"aliases": ["Smith", "she", "the boss", "manager", "A. S.", "Ann Smith", "\u5b89"]}], "relations": []}'
    )
    (entity,) = parse_extraction(reply).entities
    assert entity.aliases == ("A. S.", "\u5b89")
