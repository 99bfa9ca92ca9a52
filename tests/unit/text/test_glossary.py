from __future__ import annotations

from importlib.resources import files

import pytest

from heliograph.text.analysis import terms, terms_in
from heliograph.text.glossary import GLOSSARY_LANGUAGES, Renderings

_LINES = [
    line
    for line in (files("heliograph.text") / "words" / "glossary.txt").read_text(encoding="utf-8").splitlines()
    if not line.startswith("#")
]


def test_every_meaning_has_words_in_every_language() -> None:
    for line in _LINES:
        parts = line.split("|")
        assert len(parts) == len(GLOSSARY_LANGUAGES), line
        assert all(part.strip() for part in parts), line
        assert len(set(parts[0].split())) == len(parts[0].split()), line


@pytest.mark.parametrize(
    ("question", "language", "text"),
    [
        ("默认的端口是多少？", "zh", "The server listens on this port by default."),
        ("預設的連接埠", "zh", "The default."),
        ("Where is the password stored?", "en", "密码保存在数据库里。"),
        ("Which option deletes a directory?", "en", "Mit dieser Option löscht man ein Verzeichnis."),
        ("Wie wird das Passwort gespeichert?", "de", "The password is stored as a hash."),
        ("How do I remove a file?", "en", "Delete it."),
        # Of a compound both parts are known.
        ("Wo steht die Fortschrittsanzeige?", "de", "Progress is displayed below."),
    ],
)
def test_text_has_what_it_renders(question: str, language: str, text: str) -> None:
    held = frozenset(terms(text))
    rendered = Renderings(question, language, GLOSSARY_LANGUAGES).completed(held) - held
    assert rendered
    assert rendered <= frozenset(terms_in(question, language))


def test_no_term_means_one_thing_in_one_language_and_another_in_another() -> None:
    places: dict[str, dict[str, set[int]]] = {}
    for place, line in enumerate(_LINES):
        english, _, german = line.split("|")
        for language, words in (("en", english), ("de", german)):
            for form in (terms(word.replace("_", " ")) for word in words.split()):
                if len(form) == 1:
                    places.setdefault(form[0], {}).setdefault(language, set()).add(place)
    assert [term for term, of in places.items() if len(of) == 2 and of["en"].isdisjoint(of["de"])] == []


@pytest.mark.parametrize(
    ("question", "is_known"),
    [("如何进行？", False), ("第三行", True), ("哪位？", False), ("停留几天？", True), ("湖的名字", True)],
)
def test_one_chinese_character_counts_where_it_is_no_part_of_another_word(question: str, is_known: bool) -> None:
    wanted = {"line", "day", "lake", "bit"}
    assert bool(wanted.intersection(Renderings(question, "zh", ["en"]).search_terms([]))) == is_known


def test_longest_word_counts() -> None:
    assert Renderings("操作系统", "zh", ["en"]).search_terms([]) == ["oper", "system"]


def test_word_is_looked_for_as_it_is_called_and_not_as_it_was_asked() -> None:
    question = "Celery 默认"
    assert Renderings(question, "zh", ["en"]).search_terms(terms(question)) == ["celeri", "default"]


def test_part_of_a_word_in_several_terms_renders_nothing() -> None:
    known = Renderings("操作系统", "zh", ["en"])
    assert known.completed(frozenset({"system"})) == {"system"}


@pytest.mark.parametrize(
    ("question", "language", "into"),
    [
        ("Où est le mot de passe ?", "fr", ["en"]),
        ("Where is the password?", "en", ["fr"]),
        ("Zyxomma petiolatum", "en", ["zh", "en"]),
        ("", "zh", ["en"]),
    ],
)
def test_nothing_is_rendered_where_nothing_is_known(question: str, language: str, into: list[str]) -> None:
    known = Renderings(question, language, into)
    assert not known
    assert known.completed(frozenset({"a"})) == {"a"}
