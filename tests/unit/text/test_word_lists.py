"""The word lists."""

from __future__ import annotations

from importlib.resources import files

import pytest

from heliograph.text.analysis import word_list

LISTS = sorted(path.name.removesuffix(".txt") for path in (files("heliograph.text") / "words").iterdir())


@pytest.mark.parametrize("name", LISTS)
def test_list_says_what_it_is_for_and_holds_lower_case_words(name: str) -> None:
    text = (files("heliograph.text") / "words" / f"{name}.txt").read_text(encoding="utf-8")
    assert text.startswith("# ")
    assert word_list(name)
    assert all(word == word.lower() for word in word_list(name))
