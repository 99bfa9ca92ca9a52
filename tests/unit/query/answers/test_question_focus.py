from __future__ import annotations

import pytest

from heliograph.query.answers.candidates import find_focus, nearness


@pytest.mark.parametrize(
    ("question", "word"),
    [
        ("Who keeps the light that Anna built?", "Who"),
        ("In which city did the keeper who built the light live?", "which"),
        ("The keeper who built the light was born in what year?", "what"),
        ("Can you tell me where the light stands?", "where"),
        ("灯塔的看守人是谁？", "谁"),
        ("谁能告诉我灯塔的高度是多少？", "多少"),
        ("你知道灯塔的看守人的国籍吗？", ""),
        ("List the lights.", ""),
    ],
)
def test_focus_is_the_word_that_asks(question: str, word: str) -> None:
    focus = find_focus(question)
    assert focus.text[focus.start : focus.end] == word


def test_courtesy_is_left_out_but_not_the_question() -> None:
    assert find_focus("请问灯塔在哪里？").text == "灯塔在哪里"
    assert find_focus("谁是灯塔的看守人？").text == "谁是灯塔的看守人"


@pytest.mark.parametrize(
    ("question", "left"),
    [
        ("灯塔在江边吗？\n", "灯塔在江边"),
        ("灯塔在江边么么。", "灯塔在江边"),
        ("灯塔叫什么？", "灯塔叫什么"),
        ("？？", ""),
    ],
)
def test_closing_words_are_left_out_but_not_the_question(question: str, left: str) -> None:
    assert find_focus(question).text == left


@pytest.mark.parametrize("question", ["x{}y", "please{}x", "can you{}x", "{}x"])
@pytest.mark.parametrize("unit", ["吗", " ", ".么"])
def test_long_question_is_read_in_linear_time(question: str, unit: str) -> None:
    text = question.format(unit * 200_000)
    assert find_focus(text).text.endswith(text[-1])


def test_words_near_the_question_word_count_more() -> None:
    near = nearness(find_focus("Who is the mother of the keeper of the lighthouse?"), "en")
    assert near["mother"] == 1.0 > near["keeper"] > near["lighthous"] > 0.0
    near = nearness(find_focus("灯塔的看守人的国籍是什么？"), "en")
    assert near["国籍"] > near["看守"] > near["灯塔"] > 0.0


def test_without_a_question_word_all_words_are_as_near() -> None:
    assert set(nearness(find_focus("Wer repariert den Leuchtturm?"), "en").values()) == {1.0}
    assert nearness(find_focus(""), "en") == {}
