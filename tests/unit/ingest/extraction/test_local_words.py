"""Excerpts, singulars and subjects of the local extractor."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.extraction.local import EXCERPT_LENGTH, HAN_EXCERPT_LENGTH, excerpt
from heliograph.extraction.local_subjects import singular, subjects_of
from heliograph.text.phrases import find_names


@pytest.mark.parametrize(
    ("phrase", "expected"),
    [
        ("access tokens", "access token"),
        ("policies", "policy"),
        ("boxes", "box"),
        ("status", "status"),
        ("class", "class"),
        ("analysis", "analysis"),
        ("batches", "batch"),
        ("keys", "key"),
        ("消息", "消息"),
        ("", ""),
    ],
)
def test_singular_is(phrase: str, expected: str) -> None:
    assert singular(phrase) == expected


def test_excerpt_is_without_markup() -> None:
    sentence = "- See **the** [GitLab\nDuo](https://x.example/a_b) and `code`."
    assert excerpt(sentence, sentence.index("GitLab")) == "See the GitLab Duo and code."
    assert excerpt(sentence, 0) == "See the GitLab Duo and code."


def test_excerpt_of_a_long_sentence_shows_the_place() -> None:
    sentence = "word " * 200 + "Mosquitto " + "word " * 200
    short = excerpt(sentence, sentence.index("Mosquitto"))
    assert "Mosquitto" in short
    assert len(short) <= EXCERPT_LENGTH
    assert short.startswith("…word ")
    assert short.endswith("word…")


def test_excerpt_in_chinese_is_shorter() -> None:
    assert len(excerpt("中文句子，" * 100, 250)) <= HAN_EXCERPT_LENGTH


@given(st.text(max_size=600), st.integers(0, 600))
def test_excerpt_of_any_text_is_bounded(text: str, at: int) -> None:
    assert len(excerpt(text, min(at, len(text)))) <= EXCERPT_LENGTH


@pytest.mark.parametrize(
    ("heading", "names"),
    [
        ("Willi Schneider (skeleton racer)", ["Willi Schneider"]),
        ("## 2.1 MQTT broker", ["MQTT broker"]),
        ("第一章 网关与云", ["网关与云"]),
        ("第一章 概述", []),
        ("Chapter 3: The Lighthouse", ["The Lighthouse"]),
        ("The Keeper, Chapter 3: The Lighthouse", ["The Lighthouse"]),
        ("The Keeper, Chapter 3", ["The Keeper"]),
        ("望江钟 第二章：大水", ["大水"]),
        ("中华人民共和国宪法 第一章", ["中华人民共和国宪法"]),
        ("How to use GitLab Duo", ["GitLab Duo"]),
        ("Use the Web IDE to edit the handbook", ["Web IDE"]),
        ("Overview", []),
        ("Getting Started", []),
        ("notes/index.md", []),
        ("2024-05-01", []),
        ("Chat 20260503", []),
        ("为什么选择它？", []),
        ("", []),
    ],
)
def test_heading_stands_for(heading: str, names: list[str]) -> None:
    assert [name for name, _ in subjects_of(heading)] == names


@pytest.mark.parametrize(
    "heading",
    [
        "Opciones",
        "Véase también",
        "Opzioni",
        "Vedi anche",
        "Zie ook",
        "Se även",
        "Paramètres",
        "Résumé",
        "Параметры",
        "Смотрите также",
        "Оглавление",
        "Visão geral",
        "Sección 4",
        "Раздел 2",
        "Paragraaf 3.1",
        "Avsnitt 8.1.1",
        "Step 3: ",
        "Figure IV",
    ],
)
def test_heading_of_every_other_document_is_no_subject_in_any_language(heading: str) -> None:
    assert subjects_of(heading) == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Consulte Zorblatt para más detalles. La puerta está en el manual de Mölln.", ["Zorblatt", "Mölln"]),
        ("Pour la suite, voyez la section. Consultez Zorblatt dans la salle et pas les autres.", ["Zorblatt"]),
        ("См. Раздел 2 и Таблица 7 о том, как это сделано в Москве.", ["Москве"]),
    ],
)
def test_word_that_points_elsewhere_is_no_name_in_any_language(text: str, expected: list[str]) -> None:
    assert [span.text for span in find_names(text)] == expected


@given(st.text(max_size=400))
def test_subjects_of_any_heading_are_names(heading: str) -> None:
    for name, kind in subjects_of(heading):
        assert name.strip() == name != ""
        assert kind


@pytest.mark.parametrize(
    "text",
    [
        "It calls super().__init__() and reads __name__ of snake_case_name.",
        "Pass f(*args, **kwargs) or 2*3*4 to a ** b.",
        "Copy *.md and src/**/*.py to $HOME/__pycache__ for $5.",
        "A List<T> holds Map<K, V> & handlers[key](event), or arr[0](x).",
        "Write _private, __dunder, PATH_ and a|b.",
        "\u91cd\u70b9\u662f __init__ \u65b9\u6cd5\u3002",
    ],
)
def test_identifiers_and_operators_are_no_marks(text: str) -> None:
    assert excerpt(text, 0) == text
    assert excerpt(text.replace("It calls ", "It **calls** "), len(text) // 2) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Use `super().__init__(*args)` and `**`.", "Use super().__init__(*args) and **."),
        ("``a `b` c`` is code.", "a `b` c is code."),
        ("This is **bold**, *slanted*, ***both*** and __bold too__.", "This is bold, slanted, both and bold too."),
        ("**Bold with *slanted* words** and [a **link**](http://x/__y__).", "Bold with slanted words and a link."),
        ("\u8fd9\u662f**\u91cd\u70b9**\u5185\u5bb9\u3002", "\u8fd9\u662f\u91cd\u70b9\u5185\u5bb9\u3002"),
        ("**Note: the other mark stands in the next sentence.", "Note: the other mark stands in the next sentence."),
        ("The first mark stood in the last sentence.**", "The first mark stood in the last sentence."),
        ("- [`__main__`](main.md) starts it.", "__main__ starts it."),
    ],
)
def test_marks_of_markdown_go(text: str, expected: str) -> None:
    assert excerpt(text, len(text) // 2) == expected


@given(st.from_regex(r"[A-Za-z_][A-Za-z_0-9]{1,12}", fullmatch=True), st.integers(0, 40))
def test_code_is_taken_as_it_stands(name: str, at: int) -> None:
    for code in (name, f"__{name.lower()}__", f"{name}(*args, **kwargs)", f"{name}<T>", f"a*{name}*b", f"${name} & 1"):
        assert excerpt(f"The call `{code}` is made.", at) == f"The call {code} is made."


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("| Module Identifier: | deflate_module |", "Module Identifier: deflate_module"),
        ("| `maithili` | | |", "maithili"),
        ("| 启用新的签发 CA | 何立群与林知远共同签字 | 每年 |", "启用新的签发 CA: 何立群与林知远共同签字; 每年"),
        (r"| (r1\|r2) | either of them |", "(r1|r2): either of them"),
        ("| | |", ""),
    ],
)
def test_excerpt_of_a_row_has_no_bars(row: str, said: str) -> None:
    assert excerpt(row, 3) == said
