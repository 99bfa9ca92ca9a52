"""Linking: names found in questions and passages, by the ids that names have."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.ids import entity_key, mention_rank, name_to_entity_id
from heliograph.models import EntityEvidence, EntityMention
from heliograph.query.linking import (
    _SPACE,
    _key,
    link_entities,
    named_in_passage,
    passage_runs,
    question_spans,
)
from heliograph.stores.base import EntityPlaces, places_of


def _places(*names: str, about: str = "chunk-1") -> dict[str, EntityPlaces]:
    rank = mention_rank("doc-1", 0, is_subject=True)
    return {
        (id_ := name_to_entity_id(name)): places_of(
            EntityEvidence(id_, {name: 1}, {}, 1, (EntityMention(about, name, "thing", "", rank),), 1), 1
        )
        for name in names
    }


def test_longest_name_counts_and_the_inner_ones_are_known() -> None:
    places = _places("University of Vienna", "Vienna")
    named = link_entities(question_spans("Who founded the university of vienna?"), places)
    assert [entity.name for entity in named.longest] == ["university of vienna"]
    assert named.all_ids == places.keys()
    assert named.longest[0].chunk_ids == ("chunk-1",)


def test_chinese_names_are_found_without_spaces() -> None:
    named = link_entities(question_spans("上海艺术家的编辑单位是什么？"), _places("上海艺术家"))
    assert [entity.name for entity in named.longest] == ["上海艺术家"]


def test_identifiers_are_found_whole() -> None:
    named = link_entities(question_spans("Does the ESP32-S3 speak MQTT?"), _places("ESP32-S3", "MQTT", "ESP32"))
    assert [entity.name for entity in named.longest] == ["ESP32-S3", "MQTT"]


@given(st.text(max_size=60))
def test_span_ids_are_those_of_their_texts(text: str) -> None:
    for span in question_spans(text):
        assert span.text == text[span.start : span.end]
        assert span.entity_id == name_to_entity_id(" ".join(span.text.split()))
    for entity_id, (start, end) in passage_runs(text).items():
        assert entity_id == name_to_entity_id(" ".join(text[start:end].split()))


def test_of_runs_with_equal_names_the_longest_counts_and_of_these_the_first() -> None:
    text = """Vienna, 'Vienna' and "Vienna Woods" near Vienna Woods"""
    runs = {text[start:end]: start for start, end in passage_runs(text).values()}
    assert runs["Vienna"] == 0
    assert runs["Vienna Woods"] == text.index("Vienna Woods")


def test_passage_names_what_other_passages_are_about() -> None:
    text = "The film was directed by Priyadarshan and written by Nobody Known."
    places = _places("Priyadarshan") | _places("Film", about="chunk-9")
    found = named_in_passage("chunk-2", text, passage_runs(text), places)
    assert [mention.name for mention in found] == ["Priyadarshan"]
    assert "directed by Priyadarshan" in found[0].description
    assert named_in_passage("chunk-1", text, passage_runs(text), places) == []


def test_long_texts_give_a_bounded_number_of_runs() -> None:
    assert len(question_spans("word " * 5000)) <= 96 * 12
    assert len(passage_runs("上海艺术家" * 5000)) <= 480


@pytest.mark.parametrize(
    ("text", "name", "is_tried"),
    [
        ("Anna went. Lund was far.", "Anna went. Lund", False),
        ("He met Dr. Lund there.", "Dr. Lund", True),
        ("Warner Bros. Pictures made it.", "Warner Bros. Pictures", True),
        ("He met J. K. Lund there.", "J. K. Lund", True),
        ("The Bank of New\nYork Mellon", "Bank of New\nYork Mellon", True),
        ("Anna\n\nLund", "Anna\n\nLund", False),
        ("Anna\n- Lund", "Anna\n- Lund", False),
        ("The firm Yahoo! Japan grew.", "Yahoo! Japan", True),
        ("上海。北京", "上海。北京", False),
        ("上海北京", "上海北京", True),
    ],
)
def test_no_name_in_a_passage_goes_over_the_end_of_a_sentence(text: str, name: str, is_tried: bool) -> None:
    assert (name in [text[start:end] for start, end in passage_runs(text).values()]) is is_tried


@pytest.mark.parametrize(
    ("question", "name", "is_tried"),
    [
        ("Who wrote The Lord of the Seven Green Rings for Anna?", "The Lord of the Seven Green Rings", True),
        ("who wrote the lord of the seven green rings for anna?", "the lord of the seven green rings", True),
        ("In 1994, should I read the lord of the seven green rings?", "the lord of the seven green rings", True),
        ("Did Anna like the lord of the rings?", "the lord of the rings", True),
        ("Did Anna like the lord of all the rings?", "the lord of all the rings", False),
    ],
)
def test_long_names_in_small_letters_are_tried_in_questions_without_capitals(
    question: str, name: str, is_tried: bool
) -> None:
    assert (name in [span.text for span in question_spans(question)]) is is_tried


def test_runs_within_extracted_names_are_left_out_and_longer_ones_are_not() -> None:
    text = "Anna Lund met Karin Berg of Anna Lund Hall, and Berg left. Lund stayed."
    runs = [text[start:end] for start, end in passage_runs(text, ["Anna Lund", "Karin Berg", "Nobody", ""]).values()]
    assert {"Anna Lund Hall", "Lund Hall", "Hall"} <= set(runs)
    assert not {"Anna", "Anna Lund", "Karin", "Karin Berg"} & set(runs)
    # Elsewhere in the passage the last name stands alone.
    assert {"Berg", "Lund"} <= set(runs)


def test_parts_of_numbers_are_no_names() -> None:
    text = "at 192.168.0.1 since 2010"
    texts = [text[start:end] for start, end in passage_runs(text).values()]
    assert "192.168.0.1" in texts
    assert "2010" in texts
    assert "168.0" not in texts


@given(st.text(alphabet="aB3 '\"`-.,\t\n\x00\x1f\x7f_/é“", max_size=20))
def test_key_of_a_run_is_that_of_the_cleaned_name(run: str) -> None:
    assert _key(run) == entity_key(_SPACE.sub(" ", unicodedata.normalize("NFKC", run)))
