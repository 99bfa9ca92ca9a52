"""Names by capitals."""

from __future__ import annotations

import pytest

from heliograph.text.name_spans import type_of_name
from heliograph.text.phrases import find_names


def names(text: str) -> list[str]:
    return [name.text for name in find_names(text)]


def types(text: str) -> dict[str, str]:
    return {name.text: name.type for name in find_names(text)}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Yesterday Dr. Anna Weber met J. K. Rowling.", ["Anna Weber", "J. K. Rowling"]),
        ("He studied at the University of Toronto.", ["University of Toronto"]),
        ("the music of Ludwig van Beethoven", ["Ludwig van Beethoven"]),
        ("the Department of Health and Human Services", ["Department of Health and Human Services"]),
        ("shares of Procter & Gamble and Apple, Inc. fell", ["Procter & Gamble", "Apple, Inc."]),
        ("He won at the 2002 Winter Olympics.", ["2002 Winter Olympics"]),
        ("the U.S. Army and the U.S. itself", ["U.S. Army", "U.S."]),
        ("during World War II was", ["World War II"]),
        ("German Chancellor Angela Merkel visited Theresa May.", ["Angela Merkel", "Theresa May"]),
        ("Alger's house in Calgary", ["Alger", "Calgary"]),
        ("a student of King's College London", ["King's College London"]),
        ('Wilfried "Willi" Schneider raced', ['Wilfried "Willi" Schneider']),
        ("born in Paris, Texas", ["Paris", "Texas"]),
        ("by 500 B.C. in Rome, at 5 P.M., Anna Weber, Ph.D., left the U.S.", ["Rome", "Anna Weber", "U.S."]),
        ("as Supplemental Fig, Supplementary Table 2, Table S1 and Sect 4 of the ESP32 show", ["ESP32"]),
        ("by CAS under 1:STN:528:ab", ["CAS"]),
        ("over TLS 1.3 with an ESP32-S3 and mqtt_connect()", ["TLS 1.3", "ESP32-S3", "mqtt_connect"]),
        ("both TCP/IP and Wi-Fi", ["TCP/IP", "Wi-Fi"]),
        ("Анна Вебер живёт в Москве.", ["Анна Вебер", "Москве"]),
        ("the Lewis and Clark Expedition", ["Lewis and Clark Expedition"]),
        ("Lynsey de Paul & Mike Moran sang", ["Lynsey de Paul", "Mike Moran"]),
        ("King Philip V of Spain signed", ["King Philip V of Spain"]),
        ("the UN Convention on the Law of the Sea", ["UN Convention on the Law of the Sea"]),
        ("Drummers Jack Irons and Dave Krusen left.", ["Jack Irons", "Dave Krusen"]),
        ("Human Flow was shown.", ["Human Flow"]),
        ("He was at Y Combinator.", ["Y Combinator"]),
        ("Windy Hill has many turbines.", ["Windy Hill"]),
        ("asked GitLab of the FOIA", ["GitLab", "FOIA"]),
        ("Average snowfall is high in Kiel.", ["Kiel"]),
        ("Li Wei tested it.", ["Li Wei"]),
        ("Dr. Li Wei tested it.", ["Li Wei"]),
        ("Sun Yang swam in Rome.", ["Sun Yang", "Rome"]),
        ("Lu Xun wrote it.", ["Lu Xun"]),
        ("Ada Lovelace worked in London.", ["Ada Lovelace", "London"]),
        ("Nell Tarrant had her father's impatience.", ["Nell Tarrant"]),
        ("Sun Microsystems made it, and Ma Bell was split.", ["Microsystems", "Ma Bell"]),
    ],
)
def test_names_are_found(text: str, expected: list[str]) -> None:
    assert names(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "In July 2012 it rained.",
        "On Monday, March 3, nothing happened.",
        "The Prime Minister resigned.",
        "Chapter 3 and Figure 2 say so.",
        "Political parties grow. Merge requests are good.",
        "However, I think so. Perhaps. Yes.",
        "DO NOT TOUCH THIS EVER AGAIN",
        "the 19th century and 5km or 3-4 days",
        "See https://Example.com/Path and [x](Target.md) or <Tag Name>.",
        "write to Anna.Weber@Example.com",
        "E.g., when this is used. I.e. never.",
        "It took 82 kB at 2.4 GHz.",
        "",
    ],
)
def test_what_is_no_name_is_not_found(text: str) -> None:
    assert names(text) == []


def test_capital_at_the_start_counts_when_the_text_writes_the_word_so_elsewhere() -> None:
    assert names("Apple grew. They like apple pie.") == []
    assert names("Apple grew. They like apple pie and buy from Apple often.") == ["Apple", "Apple"]
    assert names("Zorblatt grew.") == ["Zorblatt"]


def test_count_after_a_name_is_not_taken_in() -> None:
    assert names("In Paris 300 people met.") == ["Paris"]
    assert names("for Windows 11 and later") == ["Windows 11"]


def test_endless_run_of_capitals_gives_no_name() -> None:
    assert names("Aa " * 5000) == []
    assert names("A" * 5000) == []


@pytest.mark.parametrize(
    ("text", "name", "kind"),
    [
        ("She met Prof. Okonkwo.", "Okonkwo", "person"),
        ("Maria Zorblatt left.", "Maria Zorblatt", "person"),
        ("a letter by Okonkwo, who left", "Okonkwo", "person"),
        ("She lives with Li Hua.", "Li Hua", "person"),
        ("at Zorblatt University", "Zorblatt University", "organization"),
        ("near the Zorblatt River", "Zorblatt River", "location"),
        ("she was born in Mediaș", "Mediaș", "location"),
        ("in Canada", "Canada", "location"),
        ("the Battle of Zorb", "Battle of Zorb", "event"),
        ("the novel Zorblatt", "Zorblatt", "content"),
        ("the ESP32-S3", "ESP32-S3", "artifact"),
        ("speaks German", "German", "concept"),
        ("about Zorblatt", "Zorblatt", "unknown"),
    ],
)
def test_type_follows_the_cues(text: str, name: str, kind: str) -> None:
    assert types(text)[name] == kind


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("To search in Firefox, press Ctrl + F.", ["Firefox"]),
        ("Open it through Filters → Artistic → Softglow.", ["Softglow"]),
        ("Programming Note: the list is documented in Octave.", ["Octave"]),
        ("The CEO Shadow is chosen by GitLab.", ["CEO Shadow", "GitLab"]),
        ("Sepa que para esta parte se usa el núcleo de Linux.", ["Linux"]),
        ("C'est aussi pour cela que les paquets de Debian sont dans une archive.", ["Debian"]),
        ("Number   Major   Minor   Zorblatt", ["Zorblatt"]),
        ("See Access lists [Use of them], Generic options for routers, and Zorblatt.", ["Zorblatt"]),
        (
            "The authors are Émile Zola, Guy de Maupassant and Zorblatt.",
            ["Émile Zola", "Guy de Maupassant", "Zorblatt"],
        ),
        ("Then zorb_1.2_i386.deb Created in Zorblatt was read.", ["zorb_1.2_i386.deb", "Zorblatt"]),
        ("We know Debian GNU/Linux and KDE/GNOME.", ["Debian GNU/Linux", "KDE/GNOME"]),
        ("The ACL yields “false” or `Ctrl`.", ["ACL"]),
    ],
)
def test_keys_menus_labels_and_openers_are_no_names(text: str, expected: list[str]) -> None:
    assert names(text) == expected


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("Robin Database", "unknown"),
        ("Debian Jr.", "unknown"),
        ("R. Package Statdata", "unknown"),
        ("U.S. Chiefs", "unknown"),
        ("COUNT", "unknown"),
        ("Laufende Dienste auf Port 443", "unknown"),
        ("Colossal Cave Adventure", "unknown"),
        ("Douglas C. Engelbart", "person"),
        ("King's College London", "organization"),
        ("Handler's State", "unknown"),
        ("Shared States", "unknown"),
        ("ARM EABI Port", "unknown"),
        ("Khyber Pass", "location"),
    ],
)
def test_things_are_neither_persons_nor_places(name: str, kind: str) -> None:
    assert type_of_name(name, "", "") == kind


@pytest.mark.parametrize("text", ["Contributors who", "Buddies was born"])
def test_common_words_are_no_persons_whatever_they_do(text: str) -> None:
    name, _, after = text.partition(" ")
    assert type_of_name(name, "", f" {after}") == "unknown"


@pytest.mark.parametrize(
    "text", ["They use the MX Linux here.", "It runs the Window Manager XFCE.", "See Schematic Editor Preferences."]
)
def test_products_and_settings_bear_no_title(text: str) -> None:
    assert all(name.type != "person" for name in find_names(text))


def test_reference_to_a_section_names_nothing() -> None:
    for text in (
        "This is described in Section 4.1, “Common Features”, for all of them.",
        "Consultez Section 1.2, « Gestion des paquets », pour le noyau et la suite.",
        "参见 第 8.1 节 “语言环境”。",
    ):
        assert [name.text for name in find_names(text)] == []
    assert "Common Features" in {name.text for name in find_names("In 1990 “Common Features” was sung by all of them.")}


def test_word_of_code_that_has_an_article_is_none() -> None:
    text = "The pattern is read first. Write `pattern` or `zorblatt` there, and the pattern is taken."
    assert {name.text for name in find_names(text)} == {"zorblatt"}


def test_first_word_of_a_sentence_is_no_name_in_russian_because_of_its_capital() -> None:
    text = (
        "Копировать можно все файлы. Выделение снимает Зорблатт. Там был Зорблатт. Usa este menú para todo lo que hay."
    )
    assert {name.text for name in find_names(text)} == {"Зорблатт"}
