"""Persons and places are told by their names where no text says what they are, and nothing else is."""

from __future__ import annotations

import asyncio

import pytest

from heliograph.embedding.e5 import model as e5
from heliograph.errors import ModelUnavailable
from heliograph.extraction import local_names
from heliograph.extraction.local import LocalExtractor
from heliograph.extraction.local_names import smallness, type_by_name
from heliograph.models import Chunk, Document


@pytest.mark.parametrize("name", ["Max Tegmark", "Anthony Aveni", "Kylie Minogue", "François Pinard", "Rob Pike"])
def test_persons_are_told(name: str) -> None:
    assert type_by_name(name) == "person"


@pytest.mark.parametrize("name", ["Arizona", "Kraków", "West Bengal", "Dhaka", "South Australia"])
def test_places_are_told(name: str) -> None:
    assert type_by_name(name) == "location"


@pytest.mark.parametrize(
    "name",
    [
        *("Web IDE", "growth hormone", "Long Count", "Merge Request", "PostgreSQL", "core.autocrlf", "git-rebase"),
        # Words that are mostly written small, Chinese, and what is no name.
        *("Valley", "Park", "U-boats", "天津", "", " ", "\ud800", "x" * 10_000, "5.1.2"),
    ],
)
def test_what_leaves_doubt_stays_open(name: str) -> None:
    assert type_by_name(name) == "unknown"


def test_words_that_the_world_writes_small_are_no_places() -> None:
    assert [type_by_name(word) for word in ("Użytkownicy", "Wybór", "Poprzednia", "Pomáhat")] == ["unknown"] * 4


def test_what_buttons_and_sections_are_called_is_written_small_in_any_language() -> None:
    labels = ("Dostępne", "Obrázky", "Prohlížeč", "Помощник", "Attività", "ZAKOŃCZENIA", "ОТВЕТСТВЕННОСТИ", "FICHIER")
    assert [word for word in labels if smallness(word) < 4] == []
    names = ("Olsztyn", "Gdańsk", "Москва", "Иванов", "Git", "Firefox", "UNESCO", "POSIX", "x", "", "a-b", "\ud800")
    assert [word for word in names if smallness(word) >= 2] == []


def _types(text: str) -> dict[str, str]:
    chunk = Chunk("chunk-0", "doc-0", 0, text, 50, 0, len(text))
    extraction = asyncio.run(LocalExtractor().extract(Document("doc-0", ""), [chunk]))[0]
    return {mention.name: mention.type for mention in extraction.entities}


def test_what_the_text_says_comes_first() -> None:
    types = _types("The company Max Tegmark Ltd was founded by Rob Pike in Arizona. Arizona Ltd. is a rival.")

    assert types["Max Tegmark Ltd"] == types["Arizona Ltd."] == "organization"
    assert (types["Rob Pike"], types["Arizona"]) == ("person", "location")


def test_without_the_offline_model_types_stay_open(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise ModelUnavailable("the package is not there")

    monkeypatch.setattr(e5, "find_weights", missing)
    local_names._words.cache_clear()
    type_by_name.cache_clear()
    try:
        assert type_by_name("Max Tegmark") == "unknown"
    finally:
        local_names._words.cache_clear()
        type_by_name.cache_clear()
