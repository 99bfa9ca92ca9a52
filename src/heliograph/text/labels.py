"""Finds capitalised common words, such as the names of buttons and menus, by how a text uses them."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable

from heliograph.text.analysis import HAN, LATIN_LANGUAGES
from heliograph.text.german import KNOWN_NAMES
from heliograph.text.tokens import is_acronym, is_hardly_capitalised, is_usually_capitalised, is_usually_lower

# A word after another one, where nothing forces a capital.
INSIDE_SENTENCE = re.compile(rf"(?<=[^\W\d_,;] )([^\W_{HAN}\u0e00-\u0eff\u3041-\u30ff\uac00-\ud7af]+)")
_CAPITALISED = re.compile(rf"(?<![^\W{HAN}])[^\W\d_a-zß-öø-ÿ{HAN}][^\W\d_{HAN}]+(?!\w)")
_ARGUMENT = re.compile(r"(?<!\w)([^\W\d_]{3,})\s?\]?(?:\.\.\.|…)")
_VALUE = re.compile(r"(?<!\w)-[\w-]*\w\[?=<?([^\W\d_]{3,})(?!\w)")
# A word that usually has no capital is a label if it has one at most this many times as often as none.
_USUAL_SHARE = 3
# A word that running text hardly ever capitalises is no label once the text capitalises it this often.
_SURELY_MEANT = 4
# Least log ratio of lower case to capitalised in running text; the second where the text has the word at most once.
_SMALL, _RATHER_SMALL = 4.0, 2.0
# Only longer words in capitals can be labels; shorter ones are acronyms.
_LONGEST_SURE = 5


def _smallness(word: str) -> float:
    return math.inf if is_hardly_capitalised(word) else 0.0


def labels_of(text: str, language: str, smallness: Callable[[str], float] = _smallness) -> frozenset[str]:
    """Return the capitalised words that are common words: names of buttons, menus and sections.

    The text also has them without a capital, or, in languages other than English, running text hardly ever capitalises
    them. Only words after another word count, where nothing forces a capital and no code stands. In these languages,
    words that open a sentence count as well if running text usually has them in lower case, and so do placeholders in
    capitals in a usage line ("[PLIK]..."). In all languages, the placeholder value of an option counts
    ("--format=FORMAT"), unless it is usually written in capitals ("--format=JSON").

    Args:
        text: The text.
        language: Its language.
        smallness: Returns the log ratio of a word's frequencies in lower case and capitalised.
    """
    inside = Counter(INSIDE_SENTENCE.findall(text))
    values = frozenset(word for word in _VALUE.findall(text) if word.isupper() and not is_acronym(word))
    if language == "en":
        return values.union(word for word in inside if _is_label_word(word, inside[word], inside[word.lower()]))
    labels = {*values, *(word for word in _ARGUMENT.findall(text) if word.isupper())}
    for word in inside.keys() | set(_CAPITALISED.findall(text)):
        count, small = inside[word], inside[word.lower()]
        least = _SMALL if count > 1 else _RATHER_SMALL
        # In a text of another script, words in Latin letters are names.
        is_own = word[0].isupper() and (language in LATIN_LANGUAGES or not word.isascii())
        is_small = is_own and count < _SURELY_MEANT and smallness(word) >= least
        if word.isupper():
            # "ARCHIVO", in a text with "archivo", is a placeholder.
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
