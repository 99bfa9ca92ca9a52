"""Short names and full names in one chunk: "Weber" is Anna Weber, "the Institute" is the Nordlicht Institute.

All full names of the chunk are known before any short one is looked up. A short name stands for the full name that was
used last, or for the first one to come. What the chunk's context knows comes after what the chunk says itself.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping

from heliograph.text.case_prior import is_usually_lower
from heliograph.text.language import HAN, stop_words
from heliograph.text.name_cues import (
    COMMON_WORDS,
    DEMONYMS,
    EVENT_WORDS,
    GIVEN_NAMES,
    KEPT_TITLES,
    LOCATION_WORDS,
    ORGANIZATION_WORDS,
    PLACES,
)
from heliograph.text.name_spans import NameSpan
from heliograph.text.names import clean_name, entity_key

__all__ = ["NameBook", "cleaned_name", "shorter_names"]

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
    """Return the name to store, without its article; empty when nothing is left that names anything."""
    name = clean_name(text)
    name = (_ARTICLE.sub("", name, count=1) if _ARTICLE.match(name) else name).strip(_MARKS)
    return name if len(name) > 1 and any(character.isalpha() for character in name) else ""


class NameBook:
    """The full names and the types of the names of one chunk."""

    def __init__(self, subjects: Iterable[tuple[str, str]], context: Mapping[str, str]) -> None:
        """Start with what is known before the text is read.

        Args:
            subjects: Names and types of what the chunk is about.
            context: Full names by surname, from elsewhere in the document.
        """
        self._types: dict[str, Counter[str]] = {}
        self._places: dict[str, list[tuple[int, str]]] = {}
        self._context = context
        for name, kind in subjects:
            self._vote(name, kind)
            self._remember(name, kind, -1)

    def learn(self, spans: Iterable[NameSpan]) -> None:
        """Take in the names of the chunk, in order of the text."""
        for span in spans:
            if name := cleaned_name(span.text):
                self._remember(name, span.type, span.start)

    def full_name(self, span: NameSpan, text: str) -> str:
        """Return the name to store for a name in the text; empty when it names nothing. Counts its type, too."""
        name = cleaned_name(span.text)
        if not name:
            return ""
        found = self._stands_for(name, span, text)
        self._vote(found, span.type if found == name or span.type == "person" else "unknown")
        return found

    def type_of(self, key: str) -> str:
        """Return the type that most occurrences speak for."""
        votes = self._types.get(key, Counter())
        return max(sorted(votes), key=lambda kind: votes[kind] if kind != "unknown" else 0, default="unknown")

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
        # "Diocese of Fredericton" gives Fredericton no other meaning.
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
            # With or without a middle name, a person has the name under which the chunk first knows them.
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
        """Return the full name used last before a place, else the first one after it, else `otherwise`."""
        found = self._places.get(short)
        if not found:
            return otherwise
        index = bisect_right(found, place, key=lambda item: item[0])
        name = found[max(index - 1, 0)][1]
        words = name.split()
        first = self._places.get(f"{words[0].lower()} {words[-1].lower()}")
        return first[0][1] if first else name


def shorter_names(name: str) -> list[str]:
    """Return how else a person of several given names is called: "Dick Humbert" for 'Richard Elmer "Dick" Humbert'."""
    words = [word for word in _NICKNAME.sub(" ", name).split() if word.lower().strip(".") not in _SUFFIXES]
    is_person = len(words) > 1 and words[0].lower() not in KEPT_TITLES and words[-1].lower() not in _BODIES
    if not is_person or any(word.islower() for word in words):
        return []
    nickname = _NICKNAME.search(name)
    first = [words[0], nickname[1]] if nickname else [words[0]]
    return [short for given in first if (short := f"{given} {words[-1]}") != name]
