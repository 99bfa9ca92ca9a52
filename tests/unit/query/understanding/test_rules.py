"""The kind of a question is told by rules, in two languages; half of the labelled questions judged the rules only."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.query import understanding as parts_room
from heliograph.query.understanding import QuestionKind, understand_by_rules

ROWS = [tuple(line.split("\t")) for line in Path(__file__).with_name("labelled.tsv").read_text("utf-8").splitlines()]


def halves() -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Return every other question of each kind and language: those the rules were written with, and the others."""
    seen: Counter[tuple[str, bool]] = Counter()
    written_with: list[tuple[str, str]] = []
    held_out: list[tuple[str, str]] = []
    for kind, question in ROWS:
        place = kind, question.isascii()
        (held_out if seen[place] % 2 else written_with).append((kind, question))
        seen[place] += 1
    return written_with, held_out


@pytest.mark.parametrize("half", [0, 1], ids=["written-with", "held-out"])
def test_kinds_are_told_by_rules(half: int) -> None:
    rows = halves()[half]
    wrong = [(kind, question) for kind, question in rows if understand_by_rules(question).kind != kind]
    assert len(rows) >= 40
    assert len(wrong) <= len(rows) // 10, wrong


def test_labels_are_kinds() -> None:
    assert {kind for kind, _ in ROWS} == set(QuestionKind)


def test_names_and_other_words_are_told_apart() -> None:
    found = understand_by_rules("How does the ESP32 connect to an MQTT broker?")
    assert found.entities == ("ESP32", "MQTT")
    assert found.expansions == ("connect", "broker")
    assert (found.language, found.by_model) == ("en", False)
    assert understand_by_rules("ESP32 怎么连接 MQTT 服务器？").language == "zh"


def test_weak_cues_count_only_where_nothing_is_named() -> None:
    assert understand_by_rules("What are the main topics that speakers discuss?").kind is QuestionKind.GLOBAL
    assert understand_by_rules("What did Daniel Okafor say about the Lantern?").kind is QuestionKind.FACT


@pytest.mark.parametrize(
    ("question", "aspects"),
    [
        ("Describe the reef, covering its age and the fish that live there.",
         ("the reef", "the reef: its age", "the reef: the fish that live there")),
        ("What were the key political and social changes in Bergen, including its trade?",
         ("key political and social changes in Bergen", "key political and social changes in Bergen: its trade")),
        ("Trace the development of mills, mines, and forges.", ()),
        ("总结北港的历史，包括航运、渔业以及灯塔的变迁。",
         ("北港的历史", "北港的历史: 航运", "北港的历史: 渔业", "北港的历史: 灯塔的变迁")),
    ],
)  # fmt: skip
def test_aspects_of_an_account(question: str, aspects: tuple[str, ...]) -> None:
    assert understand_by_rules(question).kind is QuestionKind.GLOBAL
    assert parts_room.find_aspects(question) == aspects


@pytest.mark.parametrize(
    "question",
    [
        "Describe the port that the broker listens on.",
        "Explain how to renew a certificate and its key.",
        "What are the main components of the pump?",
        "Explain why the reef and its fish are dying.",
    ],
)
def test_one_thing_is_no_account(question: str) -> None:
    assert understand_by_rules(question).kind is not QuestionKind.GLOBAL


@pytest.mark.parametrize(
    ("question", "sides"),
    [
        ("What is the difference between MQTT and HTTP?", ("MQTT", "HTTP")),
        ("PostgreSQL vs. MySQL for time series data", ("PostgreSQL", "MySQL")),
        ("Which film came out first, Confessions of an Opium Eater or The Prairie King?",
         ("Confessions of an Opium Eater", "The Prairie King")),
        ("Who is the oldest, Ann Ray, Bob Lee or Cy Dow?", ("Ann Ray", "Bob Lee", "Cy Dow")),
        ("Do both the Danube and the Rhine have locks?", ("the Danube", "the Rhine")),
        ("How do local and global search differ?", ("local", "global search")),
        ("What are the advantages of Rust over C++?", ("Rust", "C++")),
        ("长江和黄河哪个更长？", ("长江", "黄河")),
        ("蓝色型号比红色型号重吗？", ("蓝色型号", "红色型号")),
        ("相比旧版本，新版本有哪些改进？", ("旧版本", "新版本")),
        ("比较一下本地检索与全局检索的优缺点。", ("本地检索", "全局检索")),
        ("Compare the buoy and the lighthouse: how far is each of them seen?", ("the buoy", "the lighthouse")),
        ("Worin unterscheiden sich Boje und Turm?", ("Boje", "Turm")),
        ("Was ist der Unterschied zwischen Boje und Turm bei Nebel?", ("Boje", "Turm")),
        ("Was haben Boje und Turm gemeinsam?", ("Boje", "Turm")),
        ("Quelle est la différence entre la bouée et le phare ?", ("la bouée", "le phare")),
    ],
)  # fmt: skip
def test_sides_of_a_comparison(question: str, sides: tuple[str, ...]) -> None:
    found = understand_by_rules(question)
    assert found.kind is QuestionKind.COMPARE
    assert found.sides == sides
    assert not found.parts


@pytest.mark.parametrize(
    ("question", "parts"),
    [
        (
            "From which harbour does the keeper fetch the oil, and from which the bread?",
            ("From which harbour does the keeper fetch the oil", "From which harbour does the keeper fetch the bread?"),
        ),
        (
            "In welchem Raum lagert der Wärter das Öl, und in welchem die Dochte?",
            ("In welchem Raum lagert der Wärter das Öl", "In welchem Raum lagert der Wärter die Dochte?"),
        ),
        ("Who founded Acme and when did it close?", ("Who founded Acme", "when did Acme close?")),
        ("Who runs the Lantern team? Where is error E-113 explained?",
         ("Who runs the Lantern team?", "Where is error E-113 explained?")),
        ("红十字会是谁创立的，什么时候成立的？", ("红十字会是谁创立的", "红十字会什么时候成立的？")),
        ("网关监听哪个端口？证书多久更换一次？", ("网关监听哪个端口？", "证书多久更换一次？")),
        ("Why did it close??? Who owns the Lantern??", ("Why did it close?", "Who owns the Lantern?")),
        ("Li Hua asked for bread. What did Adam say?", ()),
        ("What is the channel of the Lantern team? What about the one after that?", ()),
        ("网关监听哪个端口？那信标呢？", ("网关监听哪个端口？", "信标监听哪个端口?")),
        ("哪个命令查看网关的状态，哪个工具签署文件？", ("哪个命令查看网关的状态", "哪个工具签署文件？")),
        ("请问网关监听哪个端口，它的日志写在哪里？", ("请问网关监听哪个端口", "网关的日志写在哪里？")),
        ("Redis 和 Squid 的默认端口分别是多少？", ("Redis 的默认端口是多少？", "Squid 的默认端口是多少？")),
        ("Redis、Squid 和 Varnish 的端口分别是多少？",
         ("Redis 的端口是多少？", "Squid 的端口是多少？", "Varnish 的端口是多少？")),
        ("编辑配额用什么命令？创建账号用什么命令？", ("编辑配额用什么命令？", "创建账号用什么命令？")),
        ("如何切换引用的形式，用哪个键？", ()),
        ("Which option makes a clone shallow, and after how many days is it pruned?",
         ("Which option makes a clone shallow", "after how many days is it pruned?")),
        ("What key opens the door, and which key closes it?",
         ("What key opens the door", "which key closes it?")),
        ("Which tool finds leaks in a pipe, and which closes a valve?",
         ("Which tool finds leaks in a pipe", "which tool closes a valve?")),
        ("Where does the keeper keep oil and which lever frees the lamp?",
         ("Where does the keeper keep oil", "which lever frees the lamp?")),
        ("Which tool finds leaks, and what is the longest pipe?",
         ("Which tool finds leaks", "what is the longest pipe?")),
        ("怎样输入分数？怎样让整数显示零？", ("怎样输入分数？", "怎样让整数显示零？")),
        ("What is the default port of Redis and of Squid?",
         ("What is the default port of Redis?", "What is the default port of Squid?")),
        ("What are the ports of Redis, Squid and Varnish?",
         ("What are the ports of Redis?", "What are the ports of Squid?", "What are the ports of Varnish?")),
        ("Was ist der Port von Redis und von Squid?", ("Was ist der Port von Redis?", "Was ist der Port von Squid?")),
        ("How far is the light seen in clear weather, and in which months is it lit?",
         ("How far is the light seen in clear weather", "in which months is the light lit?")),
        ("List the port of Redis and the log file of Squid.", ("the port of Redis", "the log file of Squid")),
        ("Who founded Acme, and when?", ("Who founded Acme", "when founded Acme?")),
        ("Which port does Redis use, and what about Squid?",
         ("Which port does Redis use", "Which port does Squid use?")),
        ("Wann wurde die Brücke gebaut, und wer war der Architekt?",
         ("Wann wurde die Brücke gebaut", "wer war der Architekt?")),
        ("Mit welchem Befehl schläft der Turm? Mit welchem Befehl wacht er auf?",
         ("Mit welchem Befehl schläft der Turm?", "Mit welchem Befehl wacht er auf?")),
        ("How big is the buffer and where is its log?", ("How big is the buffer", "where is the buffer’s log?")),
        ("When was the tower built, and who painted it?", ("When was the tower built", "who painted the tower?")),
        ("What does the keeper do at night, and where does he sleep?",
         ("What does the keeper do at night", "where does the keeper sleep?")),
        ("Where does the service write, and how often is it renewed?",
         ("Where does the service write", "how often is the service renewed?")),
        ("What is the channel of the CEO? And of the next one?", ()),
        ("Which country is the film Who Is This That I Love? from?", ()),
        ("What is the capital of France and its population?", ()),
        ("若游戏中离，则多少分钟内不得进行配对？", ()),
        ("編輯配額用什麼命令？設定檔放在哪裡？", ("編輯配額用什麼命令？", "設定檔放在哪裡？")),
        ("網關監聽哪個端口，它的日誌寫在哪裡？", ("網關監聽哪個端口", "網關的日誌寫在哪裡？")),
        ("燈塔是哪年建的？它会不会发出声音？", ("燈塔是哪年建的？", "燈塔会不会发出声音？")),
        ("好几盏灯亮着，怎样关掉？", ()),
        ("Which signals can the lighthouse send, and does the keeper see the ships?",
         ("Which signals can the lighthouse send", "does the keeper see the ships?")),
        ("Who lives in the tower, and is the author of the log?", ()),
        ("Woran erkennt man die Boje, an der Schiffe liegen, und wie heißt die Glocke?",
         ("Woran erkennt man die Boje, an der Schiffe liegen", "wie heißt die Glocke?")),
        ("Who is the wife of Bob and the mother of Alice?", ()),
    ],
)  # fmt: skip
def test_parts_of_a_question(question: str, parts: tuple[str, ...]) -> None:
    assert understand_by_rules(question).parts == parts


@pytest.mark.parametrize(
    ("question", "kind"),
    [
        ("請總結這些文件的主要內容", QuestionKind.GLOBAL),
        ("為什麼網關會斷線？", QuestionKind.REASON),
        ("燈塔和浮標有什麼區別？", QuestionKind.COMPARE),
        ("如何設定網關？", QuestionKind.HOW_TO),
    ],
)
def test_questions_in_traditional_characters_are_read_as_those_in_simplified_ones(
    question: str, kind: QuestionKind
) -> None:
    assert understand_by_rules(question).kind is kind


@given(st.text(max_size=300))
def test_any_text_is_understood_somehow(text: str) -> None:
    found = understand_by_rules(text)
    assert found == understand_by_rules(text)
    assert len(found.parts) != 1
    assert len(found.sides) != 1
    assert not (found.sides and found.kind is not QuestionKind.COMPARE)


@pytest.mark.parametrize("question", ["?" * 4_000, "a? " * 1_333, "那? " * 1_333])
def test_pieces_that_ask_nothing_are_not_searched_again_for_each(
    question: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    searched = list[str]()
    has_interrogative = parts_room._has_interrogative  # pyright: ignore[reportPrivateUsage]

    def counted(piece: str, chinese: bool, *, is_first: bool) -> bool:
        searched.append(piece)
        return has_interrogative(piece, chinese, is_first=is_first)

    monkeypatch.setattr(parts_room, "_has_interrogative", counted)
    assert parts_room.find_parts(question, ()) == ()
    assert sum(map(len, searched)) <= len(question)


def test_long_question_is_read_in_part() -> None:
    found = understand_by_rules("Why, " + "and what, " * 20_000)
    assert found.kind is QuestionKind.REASON
    assert len(found.parts) <= 4
