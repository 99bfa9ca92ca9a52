"""Whether a word is usually written in lower case."""

from __future__ import annotations

import pytest

from heliograph.text.tokens import is_usually_lower


@pytest.mark.parametrize("word", ["During", "average", "FORMED", "Football", "Maison"])
def test_common_word_is_usually_lower(word: str) -> None:
    assert is_usually_lower(word)


@pytest.mark.parametrize("word", ["London", "Smith", "amazon", "Zorblatt", "", "张三"])
def test_name_or_unknown_word_is_not(word: str) -> None:
    assert not is_usually_lower(word)
