"""Full-text terms."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.text.analysis import MAX_TERM_LENGTH, passage_terms, question_terms, terms, terms_in


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The sensors are connected.", ["sensor", "connect"]),
        ("Café CAFÉ cafe\u0301", ["cafe"] * 3),
        ("Ｆｕｌｌ width", ["full", "width"]),
        ("消息队列", ["消息", "息队", "队列"]),
        ("猫", ["猫"]),
        ("的", []),
        ("支持ESP32芯片", ["支持", "esp32", "芯片"]),
        ("서울은", ["서울", "울은"]),
        ("языки", ["язык"]),
        ("όταν ίδια", ["όταν", "ίδια"]),
        ("1,000,000 devices", ["1000000", "devic"]),
        ("pi is 3.14", ["pi", "3.14"]),
        ("C++ and C#", ["c++", "c#"]),
        ("don't", []),
        ("Anna's", ["anna"]),
        ("U.S. troops", ["us", "troop"]),
        ("the US and us", ["us"]),
        ("", []),
        ("  .,;!  ", []),
        ("exam\u00adple", ["exampl"]),
    ],
)
def test_terms_are(text: str, expected: list[str]) -> None:
    assert terms(text) == expected


@pytest.mark.parametrize(
    ("document", "questions"),
    [
        ("the ESP32-S3 board", ["ESP32-S3", "esp32", "s3"]),
        ("call mqtt_connect() first", ["mqtt_connect()", "mqtt_connect", "connect"]),
        ("release v1.2.3", ["v1.2.3", "1.2.3"]),
        ("over TLS 1.3", ["TLS 1.3", "TLS1.3", "TLSv1.3", "tls", "1.3"]),
        ("mail user@host.example", ["user@host.example", "user", "host.example"]),
        ("see /etc/ssl/certs.pem", ["etc/ssl/certs.pem", "certs.pem", "ssl"]),
        ("O'Brien wrote", ["O’Brien", "obrien", "brien"]),
        ("ESP-IDF 5.1", ["esp-idf 5.1", "idf"]),
        ("https://docs.example.org/guide", ["docs.example.org", "guide"]),
    ],
)
def test_identifier_is_found_whole_and_by_its_parts(document: str, questions: list[str]) -> None:
    found = set(terms(document))
    for question in questions:
        assert found & set(terms(question)), question
    assert terms(questions[0])[0] in found


def test_identifier_with_another_suffix_is_another_term() -> None:
    assert "esp32-s3" not in terms("ESP32-C3")


def test_a_version_belongs_to_the_word_before_it_also_with_a_comma() -> None:
    assert terms("TLS 1.3") == terms("TLS1.3")
    assert terms("including 3,180.13 miles") == terms("including3180.13 miles")
    assert terms("over 1,200 miles") == ["1200", "mile"]


def test_sentences_of_languages_without_spaces_fill_no_memory() -> None:
    signs = "".join(map(chr, range(0x4E00, 0x4E00 + 2024)))
    tracemalloc.start()
    try:
        for start in range(2000):
            assert len(terms(signs[start : start + 24])) == 23
        assert tracemalloc.get_traced_memory()[0] < 500_000
    finally:
        tracemalloc.stop()


def test_terms_of_a_long_token_are_cut() -> None:
    assert terms("a" * 500) == ["a" * MAX_TERM_LENGTH]
    assert max(map(len, terms("/".join(["segment"] * 100)))) <= MAX_TERM_LENGTH


@given(st.text())
def test_terms_are_clean_and_stable(text: str) -> None:
    found = terms(text)
    assert found == terms(text)
    for term in found:
        assert 0 < len(term) <= MAX_TERM_LENGTH
        assert not any(character.isspace() or ord(character) < 32 for character in term)


@given(st.text(alphabet="aé中猫-_. ESP32v'@/", max_size=60))
def test_terms_ignore_letter_case(text: str) -> None:
    assert [t for t in terms(text) if t not in {"us", "it", "who"}] == [
        t for t in terms(text.lower()) if t not in {"us", "it", "who"}
    ]


def test_terms_in_a_language_are_stemmed_by_its_rules_and_without_its_stop_words() -> None:
    assert terms_in("Welche Lampen werden vom Turm geprüft?", "de") == terms_in("Lampe Turm geprüfte", "de")
    assert terms_in("les lampes", "fr") == terms_in("Lampe", "fr")
    assert terms_in("lamps of the tower", "en") == terms("lamps of the tower")
    assert terms_in("灯塔的灯", "zh") == terms("灯塔的灯")


@pytest.mark.parametrize(
    ("question", "passage"),
    [
        ("Jak zmienić ustawienie drukarki?", "W oknie można określić ustawień wiele, także drukarkę i kolejność."),
        ("Yazıcının ayarları nerede?", "Yazıcıyı seçin; ayarlardan kâğıdı değiştirin."),
        ("Jak nastavit tiskárnu?", "Nastavení tiskárny najdete v této části příručky."),
    ],
)
def test_an_inflected_word_is_found_by_its_beginning(question: str, passage: str) -> None:
    assert set(terms(question)).isdisjoint(terms(passage))
    assert len(set(question_terms(question)).intersection(passage_terms(passage))) > 0


def test_words_stand_side_by_side_before_the_beginnings() -> None:
    assert passage_terms("Zażółć gęślą jaźń")[:3] == terms("Zażółć gęślą jaźń")


@pytest.mark.parametrize(
    "text",
    [
        "The configuration of every printer is described by Łukasz in the second chapter of the handbook, which has a "
        "list of all the drivers that were tested as well; none of them needs any further configuration.",
        "Die Größe der Flächen wird für jede Änderung geprüft.",
        "L'élément sélectionné a été déplacé à côté.",
        "消息队列的配置",
    ],
)
def test_other_languages_have_no_beginnings(text: str) -> None:
    assert passage_terms(text) == terms(text)
