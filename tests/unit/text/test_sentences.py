"""Sentence ends."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.text.sentences import row_cells, sentence_spans, table_head


def split(text: str) -> list[str]:
    return [text[start:end] for start, end in sentence_spans(text)]


@pytest.mark.parametrize(
    "sentences",
    [
        ["One ends here.", "Another begins."],
        ["Dr. Anna Weber met J. K. Rowling.", "She left."],
        ["He lived in the U.S. Army barracks.", "The U.S.", "The end."],
        ["Apple Inc. bought it.", "Acme Inc.", "The end."],
        ["It costs 3.14 dollars, e.g. twice.", "See No. 5 and Fig. 2."],
        ["He said no.", "Then he left."],
        ['"Stop!" she said.', "“Why?”", "He left."],
        ['"Stop!" he cried.', "It was 5 p.m. on Monday."],
        ["Wait... what?", "Really?!", "Yes."],
        ["Version 2.0 is out.", "Use v1.2.3."],
    ],
)
def test_english_sentences_are_split(sentences: list[str]) -> None:
    assert split(" ".join(sentences)) == sentences


@pytest.mark.parametrize(
    "sentences",
    [
        ["网关很小。", "它支持MQTT！", "真的吗？"],
        ["不能执行。", "`nosuid` 是一个选项。", "用 `a。`", "完了。"],
        ["他说：“你好。”", "然后走了。"],
        ["“好！”，他说。", "完了。"],
        ["价格是3.5元。", "笔名S.G. Tallentyre写作。"],
        ["《书》完.", "下一步?", "走吧"],
    ],
)
def test_chinese_sentences_are_split(sentences: list[str]) -> None:
    assert split("".join(sentences)) == sentences


def test_markdown_lines_stand_alone() -> None:
    lines = [
        "# A title. Not two",
        "1. First item.",
        "2. Second",
        "- bullet",
        "| a. B | c |",
        "```python",
        "x = 1. ",
        "y = 2",
        "```",
        "Anna: hello there",
        "张三：你好",
    ]
    assert split("\n".join(lines)) == [line.strip() for line in lines]


def test_line_ends_inside_a_paragraph_end_nothing() -> None:
    assert split("A paragraph that is\nhard-wrapped. It goes\non.") == [
        "A paragraph that is\nhard-wrapped.",
        "It goes\non.",
    ]


def test_blank_lines_end_a_sentence() -> None:
    assert split("no mark\n\nhere either") == ["no mark", "here either"]


@pytest.mark.parametrize("unit", [".", "a.", ". ", "a. ", '."', "Ab. B ", "。", " ", "\n", "# ", "-", "(", ".\n", "“"])
def test_long_line_is_split_in_linear_time(unit: str) -> None:
    text = unit * (200_000 // len(unit))
    spans = sentence_spans(text)
    assert sum(end - start for start, end in spans) <= len(text)


@given(st.text(alphabet='.!?。！？ \n\t\r"”)#-|`*1aA中，、e.g', max_size=200))
def test_spans_cover_everything_but_white_space_in_order(text: str) -> None:
    spans = sentence_spans(text)
    previous = 0
    for start, end in spans:
        assert previous <= start < end
        assert not text[previous:start].strip()
        assert text[start:end] == text[start:end].strip()
        previous = end
    assert not text[previous:].strip()


@pytest.mark.parametrize("time", ["[2024-03-04 09:13]", "[09:13:20]", "2024-03-04, 09:13 -", "(9:13)"])
def test_messages_of_a_chat_log_are_parted_by_their_times(time: str) -> None:
    said = [f"{time} anna: see you at five", f"{time} ben: yes"]
    assert split("\n".join(said)) == said


@pytest.mark.parametrize(
    ("row", "cells"),
    [
        (r"| a \| b | c |", ["a | b", "c"]),
        ("a | b", ["a", "b"]),
        ("||b|", ["", "b"]),
        ("| a | |", ["a", ""]),
        (r"| a \|", ["a |"]),
        ("|||", ["", ""]),
        ("no row", ["no row"]),
    ],
)
def test_cells_of_a_row_keep_their_places(row: str, cells: list[str]) -> None:
    assert row_cells(row) == cells


def test_head_of_a_table_is_read_as_it_is_written() -> None:
    names = ["Part", "Price | net", ""]
    assert row_cells(table_head(names).partition("\n")[0]) == names
    assert table_head(()) == ""


@pytest.mark.parametrize(
    "text",
    [
        "Das Angebot 17 gilt bis 15. April und kostet 40 Euro.",
        "Am 3. Dez. 2024 tagt der Rat.",
        "Die 2. Sitzung war im 4. Stock, vom 3. bis zum 5. Juni.",
        "Nach Abs. 2 und Kap. 7 gilt es ggf. Montags nicht.",
    ],
)
def test_numbers_that_count_in_german_end_no_sentence(text: str) -> None:
    assert sentence_spans(text) == [(0, len(text))]


@pytest.mark.parametrize(
    "text", ["Es waren 15. Danach kamen mehr.", "Er kam am 15. Das war ein Montag.", "It has 5. It works."]
)
def test_numbers_at_the_end_of_a_sentence_end_it(text: str) -> None:
    assert sentence_spans(text)[0] == (0, text.index(". ") + 1)
