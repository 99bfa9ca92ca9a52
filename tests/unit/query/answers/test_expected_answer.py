from __future__ import annotations

import pytest

from heliograph.query.answers.candidates import AnswerType, expected_forms, expected_type, find_focus, type_match
from heliograph.text.sentences import NameSpan


@pytest.mark.parametrize(
    ("question", "kind"),
    [
        ("Who keeps the light?", AnswerType.PERSON),
        ("What is the name of the keeper's husband?", AnswerType.PERSON),
        ("What is the name of the group that the keepers who left formed?", AnswerType.ORGANIZATION),
        ("What is the date of birth of the keeper?", AnswerType.DATE),
        ("What year was the light lit?", AnswerType.DATE),
        ("How tall is the lighthouse?", AnswerType.NUMBER),
        ("What is the population of the island?", AnswerType.NUMBER),
        ("How does the lens turn?", AnswerType.OTHER),
        ("What is the place of birth of the keeper?", AnswerType.LOCATION),
        ("In which port cities is it sold?", AnswerType.LOCATION),
        ("Which film shows the light?", AnswerType.WORK),
        ("What kind of lens is it?", AnswerType.OTHER),
        ("What did the keeper lose?", AnswerType.OTHER),
        ("灯塔的看守人是谁？", AnswerType.PERSON),
        ("谁能告诉我灯塔的高度是多少？", AnswerType.NUMBER),
        ("灯塔是哪一年建成的？", AnswerType.DATE),
        ("看守人的国籍是什么？", AnswerType.LOCATION),
        ("哪个公司修了透镜？", AnswerType.ORGANIZATION),
        ("透镜有什么用处？", AnswerType.OTHER),
        ("燈塔的看守人是誰？", AnswerType.PERSON),
        ("燈塔是哪一年建成的？什麼時候？", AnswerType.DATE),
        ("Wer hütet das Licht?", AnswerType.PERSON),
        ("Wann wurde es gebaut?", AnswerType.DATE),
        ("Wie viele Stufen hat der Turm?", AnswerType.NUMBER),
        ("Mit welchem Befehl dreht man die Linse?", AnswerType.CODE),
        ("Quel est le nom du phare ?", AnswerType.OTHER),
    ],
)
def test_type_is_read_off_the_question_word_and_its_noun(question: str, kind: AnswerType) -> None:
    assert expected_type(find_focus(question)) is kind


def test_sentence_fits_by_new_names_and_dates_and_numbers() -> None:
    person, unknown = NameSpan("Anna Berg", 0, 9, "person"), NameSpan("Berg", 0, 4, "unknown")
    assert type_match(AnswerType.PERSON, "Anna Berg keeps it.", [person]) == 1.0
    assert 0.0 < type_match(AnswerType.PERSON, "Berg keeps it.", [unknown]) < 1.0
    assert type_match(AnswerType.LOCATION, "Anna Berg keeps it.", [person]) == 0.0
    assert 0.0 < type_match(AnswerType.LOCATION, "She was a Norwegian keeper.", []) < 1.0
    assert type_match(AnswerType.DATE, "It was lit in 1921.", []) == 1.0
    assert type_match(AnswerType.NUMBER, "It was lit twice.", []) == 1.0
    assert type_match(AnswerType.DATE, "It was lit.", []) == 0.0


@pytest.mark.parametrize(
    ("question", "answers", "others"),
    [
        ("How long is the light on?", ["for 30 seconds", "one minute", "every day"], ["30 steps", "three"]),
        ("灯亮多久？", ["亮30秒", "三 分钟"], ["30级台阶"]),
        ("Wie lange brennt das Licht?", ["zwei Stunden"], ["zwei Lampen"]),
        ("How large is the file by default?", ["128 megabytes", "2 KB"], ["128 files"]),
        (
            "Which key opens the window?",
            ["Press Shift and drag", "the A key", "F4"],
            ["Choose Tools", "A window opens"],
        ),
        ("Which option signs a tag?", ["-s, --sign"], ["a well-known tag"]),
        ("Where are the rules kept?", ["in /etc/rules.d/", "see my.conf"], ["in the house", "and/or"]),
        ("配置文件在哪里？", ["/etc/inetd.conf"], ["软件包"]),
        ("設定檔放在哪裡？", ["/etc/inetd.conf"], ["套件"]),
        ("預設的連接埠是多少？", ["預設的連接埠為 8080"], ["連接埠"]),
        ("Welcher Modus ist voreingestellt?", ["Der voreingestellte Modus ist »rot«"], ["Der Modus ist rot"]),
        ("In which unit is the rate given?", ["in KiB/s", "seconds"], ["the rate"]),
        (
            "How many seconds is it kept?",
            ["for 30 seconds", "Number of seconds to keep it (default: 900)"],
            ["30 times"],
        ),
        ("What is the default mode?", ["By default, the keeper will set the mode to red"], ["The mode is red"]),
        ("How many messages fit by default?", ["By default, at most 20 messages"], ["One message at a time"]),
        ("Where does the count appear?", ["It is shown in the status bar"], ["See the counts"]),
        ("计数显示在什么地方？", ["显示在状态栏中"], ["计数很快"]),
        ("服务由哪个软件包提供？", ["the isc-dhcp-server package"], ["dpkg 安装软件包"]),
        ("On which port does it listen?", ["port 9418"], ["2 hosts"]),
    ],
)
def test_form_of_the_answer_is_read_off_the_question(question: str, answers: list[str], others: list[str]) -> None:
    forms = expected_forms(question)
    assert [any(form.search(text) for form in forms) for text in answers] == [True] * len(answers)
    assert [any(form.search(text) for form in forms) for text in others] == [False] * len(others)


def test_a_question_that_asks_for_no_form_has_none() -> None:
    assert expected_forms("Who keeps the light?") == ()
