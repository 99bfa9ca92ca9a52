"""Resolves the names in a chunk: the name to store, the full name behind a short one, and its type.

The type comes from the text; where the text gives none, the name alone may reveal a person or a place.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache, lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from heliograph.embedding.e5.model import E5Words
from heliograph.errors import ModelUnavailable
from heliograph.ids import clean_name, entity_key, prevailing_type
from heliograph.settings import user_cache_dir
from heliograph.text.analysis import HAN, is_chinese, stop_words
from heliograph.text.name_spans import (
    COMMON_WORDS,
    DEMONYMS,
    EVENT_WORDS,
    GIVEN_NAMES,
    KEPT_TITLES,
    LOCATION_WORDS,
    ORGANIZATION_WORDS,
    PLACES,
)
from heliograph.text.sentences import NameSpan
from heliograph.text.tokens import encode, is_hardly_capitalised, is_usually_lower

# Short names and full names in one chunk: "Weber" is Anna Weber, "the Institute" is the Nordlicht Institute.
#
# All full names of the chunk are known before any short one is resolved. A short name stands for the matching full name
# used last before it, or else the first one after it. The chunk's own names take precedence over those of its context.

_HAN = re.compile(rf"[{HAN}]")
_ARTICLE = re.compile(r"(?:the|an?) (?=[^\W_])(?!hague|gambia)", re.IGNORECASE)
_FULL_NAME = re.compile(r"[^\W\d_][^\W\d_.'’-]*(?:[ .'’-]+[^\W\d_]+){1,3}")
_NOT_FIRST_NAMES = DEMONYMS | {"new", "north", "south", "east", "west", "great", "san", "santa", "saint", "st"}
_BODIES = ORGANIZATION_WORDS | LOCATION_WORDS | EVENT_WORDS
_NICKNAME = re.compile(r"\s*[\"“]\s*([^\W\d_]+)\s*[\"”]\s*")
_SUFFIXES = frozenset({"jr", "sr", "ii", "iii", "iv"})
_MARKS = "。，；：、！？,;:*` "
_PERSONS = frozenset({"person", "unknown"})


def cleaned_name(text: str) -> str:
    """Return the name to store, without its article; empty if it has no letter, or is one character long."""
    name = clean_name(text)
    name = (_ARTICLE.sub("", name, count=1) if _ARTICLE.match(name) else name).strip(_MARKS)
    return name if len(name) > 1 and any(character.isalpha() for character in name) else ""


class NameBook:
    """The full names and the types of the names of one chunk."""

    def __init__(self, subjects: Iterable[tuple[str, str]], context: Mapping[str, str]) -> None:
        """Start with the names known before the text is read.

        Args:
            subjects: Names and types of the chunk's subjects.
            context: Full names by surname, from elsewhere in the document.
        """
        self._types: dict[str, Counter[str]] = {}
        self._places: dict[str, list[tuple[int, str]]] = {}
        self._context = context
        for name, kind in subjects:
            self._vote(name, kind)
            self._remember(name, kind, -1)

    def learn(self, spans: Iterable[NameSpan]) -> None:
        """Add the names of the chunk, in order of the text."""
        for span in spans:
            if name := cleaned_name(span.text):
                self._remember(name, span.type, span.start)

    def full_name(self, span: NameSpan, text: str) -> str:
        """Return the name to store for a name in the text, and count its type; empty if it names nothing."""
        name = cleaned_name(span.text)
        if not name:
            return ""
        found = self._stands_for(name, span, text)
        if found == name or span.type == "person":
            self._vote(found, span.type)
        return found

    def type_of(self, key: str) -> str:
        """Return the type that most occurrences support."""
        return prevailing_type(self._types.get(key, {}))

    def _vote(self, name: str, kind: str) -> None:
        self._types.setdefault(entity_key(name), Counter())[kind] += 1

    def _remember(self, name: str, kind: str, place: int) -> None:
        if " " not in name or _HAN.search(name):
            return
        words = name.split()
        last = words[-1].lower()
        if last in _BODIES and kind not in {"person", "content"}:
            self._add(f"the {last}", name, place)
        is_full_name = _FULL_NAME.fullmatch(name) and words[0].lower() not in _NOT_FIRST_NAMES
        # "Diocese of Fredericton" does not change the type of Fredericton.
        if kind not in _PERSONS or not is_full_name or not stop_words("en").isdisjoint(words):
            return
        is_surname = words[-1][0].isupper() and last not in COMMON_WORDS and last not in PLACES
        if is_surname and (kind == "person" or not is_usually_lower(last)):
            self._add(last, name, place)
        if kind == "person":
            if words[0].lower() in GIVEN_NAMES:
                self._add(words[0].lower(), name, place)
            self._add(f"{words[0].lower()} {last}", name, place)

    def _add(self, short: str, name: str, place: int) -> None:
        self._places.setdefault(short, []).append((place, name))

    def _stands_for(self, name: str, span: NameSpan, text: str) -> str:
        if span.type not in _PERSONS and name.lower() not in _BODIES:
            return name
        words = name.split()
        if len(words) > 1:
            # With or without a middle name, a person keeps the first name form in the chunk.
            found = self._places.get(f"{words[0].lower()} {words[-1].lower()}") if span.type == "person" else None
            return found[0][1] if found else name
        lower = name.lower()
        if lower in _BODIES:
            is_definite = text[max(0, span.start - 4) : span.start].lower() == "the " or span.text[:4].lower() == "the "
            return self._nearest(f"the {lower}", span.start, name) if is_definite else name
        if not name[0].isupper() or name.isupper() or lower in PLACES or _HAN.search(name):
            return name
        return self._nearest(lower, span.start, self._context.get(lower, name))

    def _nearest(self, short: str, place: int, otherwise: str) -> str:
        """Return the full name used last before a position, else the first one after it, else `otherwise`."""
        found = self._places.get(short)
        if not found:
            return otherwise
        index = bisect_right(found, place, key=lambda item: item[0])
        name = found[max(index - 1, 0)][1]
        words = name.split()
        first = self._places.get(f"{words[0].lower()} {words[-1].lower()}")
        return first[0][1] if first else name


def shorter_names(name: str) -> list[str]:
    """Return shorter forms of a person's several given names: "Dick Humbert" for 'Richard Elmer "Dick" Humbert'."""
    words = [word for word in _NICKNAME.sub(" ", name).split() if word.lower().strip(".") not in _SUFFIXES]
    is_person = len(words) > 1 and words[0].lower() not in KEPT_TITLES and words[-1].lower() not in _BODIES
    if not is_person or any(word.islower() for word in words):
        return []
    nickname = _NICKNAME.search(name)
    first = [words[0], nickname[1]] if nickname else [words[0]]
    return [short for given in first if (short := f"{given} {words[-1]}") != name]


# Persons and places recognised by the name alone, where no text gives the type.
#
# A linear classifier over the word table of the offline embedding: "Max Tegmark" lies near given names, "Olsztyn" near
# places, in any language. `benchmarks/name_types.py` fits it to types that texts state.

CLASSES = ("person", "location", "organization", "other")
"""The classes of names, in the order of the weights' columns."""
WEIGHTS_PATH = Path(__file__).parent / "name_types.npy"

# Least margin of the best class over the next. At these, 98 of 100 persons and 96 of 100 places are right; of the names
# with a margin of about 0.25, some 85 and 75 of 100. For organizations no margin is good enough.
_MARGINS = {"person": 0.4, "location": 0.4}
# The word table's values are about an eighth of the other features.
_SCALE = 8.0
_LONGEST = 80
_SMALL_BEHIND_HYPHEN = re.compile(r"-[a-z]")


@lru_cache(maxsize=65_536)
def type_by_name(name: str) -> str:
    """Return `person` or `location` if a name leaves no doubt, else `unknown`.

    Chinese names are left to the tagger, which reads them in their sentence. A word for a kind of place ("Valley") is
    no name, nor is a word that is mostly in lower case or has a lower-case part ("U-boats").
    """
    words = _words() if _may_be_name(name) else None
    if words is None:
        return "unknown"
    kind = decide(name, features(words, name).astype(np.float64) @ _weights())
    return kind if kind != "location" or _is_place_written(name) else "unknown"


def decide(name: str, scores: NDArray[np.float64]) -> str:
    """Return the class of a name by the scores of the classes, `(4,)`; see `type_by_name`."""
    first, second = np.argsort(scores)[:-3:-1]
    kind = CLASSES[first]
    is_clear = _may_be_name(name) and scores[first] - scores[second] >= _MARGINS.get(kind, np.inf)
    return kind if is_clear else "unknown"


def _may_be_name(name: str) -> bool:
    if " " not in name and (
        is_usually_lower(name) or name.lower() in LOCATION_WORDS or _SMALL_BEHIND_HYPHEN.search(name)
    ):
        return False
    return len(name) <= _LONGEST and not is_chinese(name)


# From the first on, a word is no sure name of a place. From the second on, capitals are emphasis or a placeholder
# ("ZAKOŃCZENIA"), not an acronym.
_UNSURE, _SHOUTED = 2.0, 10.0


@lru_cache(maxsize=65_536)
def smallness(word: str) -> float:
    """Return the log of how much more often running text has a word in lower case than as it is written here.

    It is estimated from the tokens of the offline embedding, which know more of each language than `text.tokens`: high
    for "помощник", below zero for "Olsztyn". It is zero for words that those tokens know capitalised ("Git"), and for
    words that are in capitals like an acronym.
    """
    if is_hardly_capitalised(word):
        return math.inf
    words = _words() if word.isalpha() and len(word) <= _LONGEST else None
    if words is None:
        return 0.0
    small, capitalised, written = (words.log_likelihood(form) for form in (word.lower(), word.capitalize(), word))
    if word.isupper():
        return small - written if small - written >= _SHOUTED and capitalised - small < _UNSURE else 0.0
    return small - capitalised if len(encode(f" {word}")) > 1 else 0.0


def _is_place_written(name: str) -> bool:
    """Return whether a name may be that of a place, that is, not a word usually in lower case."""
    return " " in name or smallness(name) < _UNSURE


def features(words: E5Words, name: str) -> NDArray[np.float32]:
    """Return the features of a name, `(n,)`: the mean, first and last of its tokens, its spelling, and 1."""
    vectors = words.vectors(name) * np.float32(_SCALE)
    parts = name.split()
    written = (
        *(len(parts) == count for count in (1, 2, 3)),
        all(part[:1].isupper() for part in parts),
        name.isupper(),
        name.isascii(),
        any(character.isdigit() for character in name),
        "." in name,
        "'" in name,
        True,
    )
    return np.concatenate([vectors.mean(axis=0), vectors[0], vectors[-1], np.array(written, np.float32)])


@cache
def _words() -> E5Words | None:
    try:
        return E5Words(user_cache_dir())
    except ModelUnavailable:
        # The workspace uses another embedding and the offline one is not installed: types stay open.
        return None


@cache
def _weights() -> NDArray[np.float64]:
    return np.load(WEIGHTS_PATH).astype(np.float64)
