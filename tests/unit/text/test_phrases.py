"""Names and phrases in mixed text."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from heliograph.text.phrases import find_names, read_texts
from heliograph.text.sentences import NameSpan, spans_within, without_overlaps


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('the film "Star Wars: A New Hope" ran', [("Star Wars: A New Hope", "content")]),
        ("set the **access token** now", [("access token", "concept")]),
        ("run `mqtt_connect()` or `true`", [("mqtt_connect", "artifact")]),
        ("an object of `Type` is a `Data` or a `Zorb`", [("Zorb", "artifact")]),
        ("“Stop right there!” he said", []),
        ("基于《泡泡堂》开发", [("泡泡堂", "content")]),
        ("所谓“踢爆”是什么", [("踢爆", "concept")]),
        ("他喊：“快跑，别回头。”", []),
        ("東京タワーは「日本電波塔」です", [("日本電波塔", "concept")]),
        ("the Route Army (路军)", [("Route Army", "organization"), ("路军", "unknown")]),
        ("文档见https://example.com/Guide。", []),
    ],
)
def test_marked_terms_are_names(text: str, expected: list[tuple[str, str]]) -> None:
    assert [(name.text, name.type) for name in find_names(text)] == expected


def test_mixed_chinese_gives_latin_identifiers_and_chinese_names() -> None:
    found = {name.text: name.type for name in find_names("北京大学的张三用ESP32通过TLS 1.3连接broker。")}
    assert found["北京大学"] == "organization"
    assert found["张三"] == "person"
    assert "ESP32" in found
    assert "TLS 1.3" in found


def _content_phrases(text: str) -> list[str]:
    return [phrase.text for sentence in read_texts([text])[0] for phrase in sentence.phrases]


def test_content_phrases_are_what_is_left() -> None:
    question = "Did Adam Smith send a message to Li Hua about the upcoming building maintenance schedule?"
    assert _content_phrases(question) == ["send", "message", "upcoming building maintenance schedule"]
    assert _content_phrases("北京大学的研究方法是什么？") == ["研究方法"]
    assert _content_phrases("the of and 的是") == []


def test_verb_between_articles_belongs_to_no_phrase() -> None:
    [sentence] = read_texts(["This option defines the list, and it gives the users the choice."])[0]
    assert [phrase.text for phrase in sentence.phrases] == ["option", "list", "users", "choice"]


def test_text_reads_the_same_in_any_company() -> None:
    texts = ["Apple grew, as apple does.", "They buy from Apple.", "李四毕业于北京大学。"]
    assert read_texts(texts) == [read_texts([text])[0] for text in texts]


def test_title_line_is_a_sentence_of_its_own() -> None:
    text = "Demon Dice\nDemon Dice is a dice game that was made by Lester Smith and by others."
    first, second = read_texts([text])[0]
    assert text[first.start : first.end] == "Demon Dice"
    assert text[second.start : second.end].startswith("Demon Dice is")
    wrapped = "This line is long enough to be full so that it had to be\nwrapped here."
    assert len(read_texts([wrapped])[0]) == 1


def test_bold_inside_words_is_no_term() -> None:
    assert find_names("We are **S**hort **Te**rm **C**ritical.") == []
    assert [(name.text, name.type) for name in find_names("- **Next Steps** are said.")] == [("Next Steps", "concept")]


def test_no_text_gives_no_sentence() -> None:
    assert read_texts([]) == []
    assert read_texts(["", " \n"]) == [[], []]


ANY = st.text(alphabet=st.characters(), max_size=120) | st.text(
    alphabet="Aa B.中国北京市\"“”《》*`()（）[]_-1,'’&/\n\ud800", max_size=120
)


@settings(max_examples=150)
@given(ANY)
@example("·𠀀@")
@example("《 》")
def test_names_stand_where_they_say(text: str) -> None:
    end = 0
    for name in find_names(text):
        assert end <= name.start < name.end <= len(text)
        assert text[name.start : name.end] == name.text
        end = name.end


@settings(max_examples=50)
@given(ANY)
def test_phrases_touch_no_name(text: str) -> None:
    for sentence in read_texts([text])[0]:
        for phrase in sentence.phrases:
            assert text[phrase.start : phrase.end].strip()
            assert not any(phrase.start < name.end and name.start < phrase.end for name in sentence.names)


@pytest.mark.parametrize(
    "unit", ["Aa ", "Bank of ", "Ab cd (AC) ", '"a', "**", "`a", "](a", "<a", "_", "a@", "A. ", "A/", "x《", "\ud800a"]
)
def test_long_line_is_read_in_linear_time(unit: str) -> None:
    assert read_texts([unit * (60_000 // len(unit))])


def test_overlaps_are_settled_for_the_first_given() -> None:
    spans = [NameSpan("bc", 1, 3, "x"), NameSpan("ab", 0, 2, "x"), NameSpan("d", 3, 4, "x")]
    assert [span.text for span in without_overlaps(spans)] == ["bc", "d"]


def test_spans_across_an_end_are_within_nothing() -> None:
    spans = [NameSpan("ef", 4, 6, "x"), NameSpan("ab", 0, 2, "x"), NameSpan("bc", 1, 3, "x")]
    assert [[span.text for span in inside] for inside in spans_within(spans, [(0, 2), (2, 4), (4, 9)])] == [
        ["ab"],
        [],
        ["ef"],
    ]
