"""Tells which words with a capital are common ones, as buttons and menus are called, by how a text has them."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable

from heliograph.text.analysis import HAN, LATIN_LANGUAGES
from heliograph.text.german import KNOWN_NAMES
from heliograph.text.tokens import is_acronym, is_hardly_capitalised, is_usually_capitalised, is_usually_lower

# A word behind another one, where nothing forces a capital.
INSIDE_SENTENCE = re.compile(rf"(?<=[^\W\d_,;] )([^\W_{HAN}\u0e00-\u0eff\u3041-\u30ff\uac00-\ud7af]+)")
_CAPITALISED = re.compile(rf"(?<![^\W{HAN}])[^\W\d_a-zß-öø-ÿ{HAN}][^\W\d_{HAN}]+(?!\w)")
_ARGUMENT = re.compile(r"(?<!\w)([^\W\d_]{3,})\s?\]?(?:\.\.\.|…)")
_VALUE = re.compile(r"(?<!\w)-[\w-]*\w\[?=<?([^\W\d_]{3,})(?!\w)")
# So often a word that usually has none may have a capital, to one time without, and be a label.
_USUAL_SHARE = 3
# So often a text must write a word with a capital that the world hardly ever does.
_SURELY_MEANT = 4
# And so much less often, as the log of the ratio; if the text has it but once.
_SMALL, _RATHER_SMALL = 4.0, 2.0
# Longer words in capitals may be common ones, too.
_LONGEST_SURE = 5


def _smallness(word: str) -> float:
    return math.inf if is_hardly_capitalised(word) else 0.0


def labels_of(text: str, language: str, smallness: Callable[[str], float] = _smallness) -> frozenset[str]:
    """Return the words with a capital that are common words: what buttons, menus and sections are called.

    A text writes them without a capital, too, or, in other languages than English, the world hardly ever writes them
    with one. Only what follows another word counts, where nothing forces a capital and no code stands; in these
    languages also what opens a sentence, if the world writes it small, and what a usage line has in capitals in place
    of arguments ("[PLIK]..."). In all of them what an option has in capitals as its value is such a word, too
    ("--format=FORMAT"), unless the world writes it so ("--format=JSON").

    Args:
        text: The text.
        language: Its language.
        smallness: Tells how much more the world writes a word small than with a capital, as the log of the ratio.
    """
    inside = Counter(INSIDE_SENTENCE.findall(text))
    values = frozenset(word for word in _VALUE.findall(text) if word.isupper() and not is_acronym(word))
    if language == "en":
        return values.union(word for word in inside if _is_label_word(word, inside[word], inside[word.lower()]))
    labels = {*values, *(word for word in _ARGUMENT.findall(text) if word.isupper())}
    for word in inside.keys() | set(_CAPITALISED.findall(text)):
        count, small = inside[word], inside[word.lower()]
        least = _SMALL if count > 1 else _RATHER_SMALL
        # In a text of another script what is written in Latin letters is a name.
        is_own = word[0].isupper() and (language in LATIN_LANGUAGES or not word.isascii())
        is_small = is_own and count < _SURELY_MEANT and smallness(word) >= least
        if word.isupper():
            # "ARCHIVO", where "archivo" is spoken of, stands for any.
            is_label = len(word) > _LONGEST_SURE and (is_small or 0 < count <= small)
        else:
            is_label = (is_small and _may_be_label(word)) or (count > 0 and _is_label_word(word, count, small))
        if is_label:
            labels.add(word)
    return frozenset(labels)


def _may_be_label(word: str) -> bool:
    is_known = is_usually_capitalised(word) or word.lower() in KNOWN_NAMES
    return word[0].isupper() and word[1:].islower() and not is_known


def _is_label_word(word: str, count: int, small: int) -> bool:
    share = _USUAL_SHARE if is_usually_lower(word) else 1
    return _may_be_label(word) and small * share >= max(count, 1)
