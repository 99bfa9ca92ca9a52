"""Nouns and names in German."""

from __future__ import annotations

import pytest

from heliograph.text.name_spans import type_of_name
from heliograph.text.phrases import find_names


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Die Verarbeitung der Daten erfolgt in Hamburg und nicht auf dem Gerät.", ["Hamburg"]),
        ("Der Hund bellt, und Anna Weber aus Mölln nimmt die Leine mit.", ["Anna Weber", "Mölln"]),
        ("Das Gerät spricht MQTT mit dem ESP32-S3 und nicht mit Strom.", ["MQTT", "ESP32-S3"]),
        (
            "Die Liste von Optionen und der Stil von Befehlen stehen hier, sagt Otto von Bismarck.",
            ["Otto von Bismarck"],
        ),
        ("Herr Zorblatt ist nicht im Haus, er wird mit Sicherheit kommen.", ["Zorblatt"]),
        ("Der Aufruf des Befehls ist nicht mehr so schwer, wie er es auch hier war.", []),
        ("Verwandte Themen sind auch hier zu finden, wenn sie nicht schon dort stehen.", []),
        (
            "Die Pakete kommen aus Debian und nicht aus der Auswahl, und wer mit Debian arbeitet, kennt die Auswahl.",
            ["Debian", "Debian"],
        ),
        ("Das Amt sucht auch in Archiven und in Mölln, und die Stadtarchive sind nicht mehr zu finden.", ["Mölln"]),
        ("Das gibt Ihnen das Programm, und die Grenzen Ihres Systems sind auch nicht zu sehen.", []),
        ("Hier bietet Zorblatt.Net das Programm, wie es auch der Leser nicht kennt.", ["Zorblatt.Net"]),
        ("Das beruht auf Anna Webers Auflistung und ist auch im Buch nicht zu finden.", ["Anna Weber"]),
        (
            "Wer auch Anna Weber kennt, weiß nicht, was in Anna Webers „Buch“ steht.",
            ["Anna Weber", "Anna Weber"],
        ),
        ("Man kann es auch mit der `QUOTAUSER`-Variablen der Datei tun, die nicht leer ist.", ["QUOTAUSER"]),
        ("Durch Klicken auf den Knopf wird die Datei auch dann geladen, wenn sie nicht neu ist.", []),
        ("Das steht in Kapitel 4 und auch im Abschnitt 12, wie es zum Beispiel Papier und auch der Stift tun.", []),
    ],
)
def test_nouns_are_left_out_in_german(text: str, expected: list[str]) -> None:
    assert [name.text for name in find_names(text)] == expected


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("Paketquellen von Dritten", "unknown"),
        ("Neustart des Systems", "unknown"),
        ("Gruppe von Dritten", "unknown"),
        ("Otto von Bismarck", "person"),
        ("Vincent van Gogh", "person"),
        ("University of Zorblatt", "organization"),
    ],
)
def test_nouns_tied_by_german_words_are_neither_persons_nor_what_their_last_word_is(name: str, kind: str) -> None:
    assert type_of_name(name, "", "") == kind


def test_german_sentences_of_a_half_translated_page_are_read_as_german() -> None:
    english = (
        "The daemon of Falcot reads the table that was written by the kernel, and it is used by all of them. " * 12
    )
    german = "Diese Datei wird von dem Befehl gelesen, wenn sie nicht schon durch einen anderen Befehl gelesen wurde."
    assert {name.text for name in find_names(f"{english}\n\n{german}")} == {"Falcot"}


def test_abbreviation_is_no_initial() -> None:
    text = "Legen Sie z. B. Konten für Ausgaben an, d. h. auch solche, die nicht mehr da sind, und u. U. Karten."
    assert [name.text for name in find_names(text) if name.type == "person" or "." in name.text] == []


@pytest.mark.parametrize(
    "name", ["Otto von den Hagen", "Peter von den Driesch", "Karl-Theodor zu Guttenberg", "Fürst zu Hohenlohe"]
)
def test_noble_name_stays_whole(name: str) -> None:
    text = f"Das Haus gehörte {name} und ist nicht mehr auf der Karte zu finden, wie auch der Garten."
    assert any(found.text.endswith(name.split()[-1]) and " " in found.text for found in find_names(text))


def test_article_ends_a_name() -> None:
    text = "So wird auch mit Zorblatt das Programm nicht mehr gestartet, und die Programme sind nicht zu finden."
    assert "Zorblatt das Programm" not in {name.text for name in find_names(text)}


def test_name_that_ends_in_s_keeps_it() -> None:
    text = "Das Buch stammt von Hans Jonas Weber aus Hamburg und ist nicht mehr zu haben."
    assert [name.text for name in find_names(text)] == ["Hans Jonas Weber", "Hamburg"]


@pytest.mark.parametrize(
    "text",
    [
        "Das finden Sie auch im Menü unter Fenster → Andockbare Dialoge → Bilder, wenn es nicht schon zu sehen ist.",
        "Das wird auch im Abschnitt 2.1, „Gemeinsame Merkmale“ beschrieben, und nicht mehr im Handbuch.",
        "Wie im Abschnitt davor gilt auch „Gemeinsame Merkmale“ nicht mehr als ein Name.",
    ],
)
def test_menus_and_references_to_sections_name_nothing(text: str) -> None:
    assert find_names(text) == []
