"""The word lists of `text/words/`: one file each, words between white space, "_" for a space inside a term.

A line that begins with "#" says what the list is for. Lists are read once; all words are in lower case.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

__all__ = ["word_list"]


@cache
def word_list(name: str) -> frozenset[str]:
    """Return the words of `text/words/<name>.txt`."""
    text = (files("heliograph.text") / "words" / f"{name}.txt").read_text(encoding="utf-8")
    lines = (line for line in text.splitlines() if not line.startswith("#"))
    return frozenset(word.replace("_", " ") for line in lines for word in line.split())
