"""Tells which words with a capital are common ones, as buttons and menus are called, by how a text has them."""

from __future__ import annotations

import re
from collections import Counter

from heliograph.text.analysis import HAN
from heliograph.text.german import KNOWN_NAMES
from heliograph.text.tokens import is_hardly_capitalised, is_usually_capitalised, is_usually_lower

# A word behind another one, where nothing forces a capital.
INSIDE_SENTENCE = re.compile(rf"(?<=[^\W\d_,;] )([^\W_{HAN}\u0e00-\u0eff\u3041-\u30ff\uac00-\ud7af]+)")
_ARGUMENT = re.compile(r"(?<!\w)([^\W\d_]{3,})\s?\]?(?:\.\.\.|…)")
# So often a word that usually has none may have a capital, to one time without, and be a label.
_USUAL_SHARE = 3
# So often a text must write a word with a capital that the world hardly ever does.
_SURELY_MEANT = 4
# Longer words in capitals may be common ones, too.
_LONGEST_SURE = 5


def labels_of(text: str, language: str) -> frozenset[str]:
    """Return the words with a capital that are common words: what buttons, menus and sections are called.

    A text writes them without a capital, too, or, in other languages than English, the world hardly ever writes them
    with one. Only what follows another word counts, where nothing forces a capital and no code stands. In these
    languages also what a usage line has in capitals in place of arguments ("[PLIK]...").
    """
    inside = Counter(INSIDE_SENTENCE.findall(text))
    arguments = _ARGUMENT.findall(text) if language != "en" else ()
    return frozenset(word for word in arguments if word.isupper()).union(
        word
        for word, count in inside.items()
        if word[0].isupper() and _is_label_word(word, count, inside[word.lower()], is_english=language == "en")
    )


def _is_label_word(word: str, count: int, small: int, *, is_english: bool) -> bool:
    lower = word.lower()
    if word.isupper() and len(word) > _LONGEST_SURE:
        # "ARCHIVO", where "archivo" is spoken of, stands for any.
        return not is_english and small >= count
    if is_usually_capitalised(word) or lower in KNOWN_NAMES or not word[1:].islower():
        return False
    return small * (_USUAL_SHARE if is_usually_lower(word) else 1) >= max(count, 1) or (
        not is_english and count < _SURELY_MEANT and is_hardly_capitalised(word)
    )
