"""Whether a word is usually written in lower case."""

from __future__ import annotations

import pytest

from heliograph.text.tokens import is_everyday, is_usually_lower


@pytest.mark.parametrize("word", ["During", "average", "FORMED", "Football", "Maison"])
def test_common_word_is_usually_lower(word: str) -> None:
    assert is_usually_lower(word)


@pytest.mark.parametrize("word", ["London", "Smith", "amazon", "Zorblatt", "", "张三"])
def test_name_or_unknown_word_is_not(word: str) -> None:
    assert not is_usually_lower(word)


@pytest.mark.parametrize("word", ["dialog", "files"])
def test_everyday_word_stands_in_every_text(word: str) -> None:
    assert is_everyday(word)


@pytest.mark.parametrize("word", ["mitochondria", "zorblatt", "configuración"])
def test_rare_or_foreign_word_is_not_everyday(word: str) -> None:
    assert not is_everyday(word)


def test_word_of_another_language_is_everyday_if_it_is_one_token() -> None:
    assert is_everyday("configuración", is_english=False)
