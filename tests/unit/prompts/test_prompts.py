"""Prompts are read from the package by name."""

from __future__ import annotations

from importlib.resources import files
from string import Template

import pytest

from heliograph.errors import InvalidRequestError
from heliograph.prompts import load_prompt

NAMES = sorted(entry.name[:-4] for entry in files("heliograph.prompts").iterdir() if entry.name.endswith(".txt"))


@pytest.mark.parametrize("name", NAMES)
def test_prompt_is_a_template_that_can_be_filled(name: str) -> None:
    text = load_prompt(name)
    assert text.strip()
    assert Template(text).is_valid(), "every $ is a placeholder, or written $$"


def test_prompt_is_read_once() -> None:
    for name in NAMES[:1]:
        assert load_prompt(name) is load_prompt(name)


@pytest.mark.parametrize("name", ["", "no_such_prompt", "../settings", "Answer", "a.b", "\0"])
def test_prompt_that_is_not_there_is_refused(name: str) -> None:
    with pytest.raises(InvalidRequestError, match="there is no prompt"):
        load_prompt(name)
