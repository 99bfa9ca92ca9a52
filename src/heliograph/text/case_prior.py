"""Whether a word is usually written in lower case, by the tokenizer's own count of what the world writes.

The tokens of `o200k_base` are numbered in the order in which byte pairs were merged, so of two spellings that are one
token each the more frequent has the smaller number, and a spelling that is one token is more frequent than one that
is not. So "During" is usually "during" and "london" usually "London", in every language the tokenizer was made from.
Rare words are not decided. No list of words is needed, and no text but the word.
"""

from __future__ import annotations

from functools import lru_cache

from heliograph.text.tokens import encode

__all__ = ["is_usually_lower"]


@lru_cache(maxsize=65_536)
def is_usually_lower(word: str) -> bool:
    """Return whether running text has a word in lower case more often than with a capital; False if not known."""
    lower = encode(" " + word.lower())
    capitalised = encode(" " + word.capitalize())
    return len(lower) == 1 and (len(capitalised) > 1 or lower[0] < capitalised[0])
