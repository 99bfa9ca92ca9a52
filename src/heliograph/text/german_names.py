"""Which capitals of a German sentence are only nouns.

German gives every noun a capital, so a capital alone proves nothing there. A single word is taken for a name when it
is known for one, when it is made like an acronym or identifier, after "Herr" and the like, or after a preposition
without an article ("in Mölln", "von Zorblatt") unless it ends as nouns do. Several capitals in a row are a name.
"""

from __future__ import annotations

from collections.abc import Sequence

from heliograph.text.name_cues import DEMONYMS, GIVEN_NAMES, PLACES, STRIPPED_TITLES
from heliograph.text.tokens import encode
from heliograph.text.word_lists import word_list

__all__ = ["is_german_noun"]

_PREPOSITIONS = word_list("de_prepositions")
_NOUN_ENDINGS = tuple(sorted(word_list("de_noun_endings")))
_KNOWN = PLACES | GIVEN_NAMES | DEMONYMS
# Longer words are put together from others, as only nouns are.
_LONGEST_SIMPLE_WORD = 12


def is_german_noun(words: Sequence[str], first: int, last: int) -> bool:
    """Return whether the word or words from `first` to `last` are common nouns.

    Args:
        words: Words and marks of a German sentence.
        first: Index of the first word with a capital.
        last: Index of the last one.
    """
    word = words[first]
    lower = word.lower().removesuffix("s") if word.lower() not in _KNOWN else word.lower()
    if lower in _KNOWN or not word[1:].islower():
        return False
    if last > first:
        # "Verarbeitung der Daten" against "Deutsche Bahn".
        return word.endswith(_NOUN_ENDINGS) and any(inner.islower() for inner in words[first:last])
    before = words[first - 1].lower() if first else ""
    if before in STRIPPED_TITLES or (before == "." and first > 1 and words[first - 2].lower() in STRIPPED_TITLES):
        return False
    if before not in _PREPOSITIONS:
        return True
    return word.endswith(_NOUN_ENDINGS) or len(word) > _LONGEST_SIMPLE_WORD or _is_frequent(word)


def _is_frequent(word: str) -> bool:
    """Return whether a word is frequent enough to be one token; names that frequent are among the known ones."""
    return len(encode(" " + word)) == 1
