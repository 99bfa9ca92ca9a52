"""What kind of thing a name in Latin letters stands for, by the words in it and beside it.

A name's words and its neighbours in, one type out (`heliograph.text.name_spans.NameSpan.type`). The rules go from the
surest cue to the weakest and stop at the first that holds; a name without any cue is `unknown`, which outvotes nobody.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from heliograph.text.name_cues import (
    CHINESE_FAMILY_NAMES,
    DEMONYMS,
    EVENT_WORDS,
    GIVEN_NAMES,
    KEPT_TITLES,
    LOCATION_WORDS,
    ORGANIZATION_WORDS,
    PERSON_VERBS,
    PLACES,
    ROMAN_NUMERALS,
    TECHNOLOGY_WORDS,
    WORK_WORDS,
)

__all__ = ["type_of_name"]

_BY_HEAD = (
    ("event", EVENT_WORDS),
    ("organization", ORGANIZATION_WORDS),
    ("location", LOCATION_WORDS),
    ("content", WORK_WORDS),
    ("artifact", TECHNOLOGY_WORDS),
)
_BY_NOUN_BEFORE = (
    ("content", WORK_WORDS),
    ("artifact", TECHNOLOGY_WORDS),
    (
        "organization",
        frozenset({"band", "company", "firm", "club", "label", "startup", "group", "party", "university"}),
    ),
    (
        "location",
        frozenset({"city", "town", "village", "river", "country", "region", "island", "province", "district"}),
    ),
    ("person", frozenset({"wife", "husband", "brother", "sister", "son", "daughter", "father", "mother", "friend"})),
)
_PLACE_BEFORE = re.compile(
    r"(?:born|died|lived?s?|living|located|situated|based|raised|buried|settled|resid\w+|arrived) (?:in|at|near)$"
    r"|(?:moved|travell?ed|returned|emigrated|went|flew|sent) to$|(?:city|town|village|capital|mayor|island) of$|near$"
)
_OF = frozenset({"of", "for"})
_NAME_PARTICLES = frozenset({"van", "von", "bin", "ibn"})
_AFTER_PERSON = re.compile(r"\W*(?:\((?:born|b\.|\d{4}\s?[-–])|,? who\b|(?:was|is) born\b)|, (?:Jr|Sr)\b")
_NEXT_WORD = re.compile(r"\s*(\w+)")
_INITIAL = re.compile(r"[A-Z]\.")


def type_of_name(name: str, before: str, after: str, *, is_titled: bool = False) -> str:
    """Return the type of a name.

    Args:
        name: The name, without titles.
        before: The text up to it, at least its last 40 characters.
        after: The text from its end on, at least 40 characters.
        is_titled: Whether a person's title such as "Dr." stood before it.
    """
    words = [word.strip(".,") or word for word in name.lower().split()]
    if not words:
        return "unknown"
    if is_titled:
        return "person"
    if words[0] in KEPT_TITLES:
        return _by_head(words) or "person"
    by_words = _by_head(words) or _place_or_person(words, name) or _by_inner_word(words)
    if by_words or name.rstrip("s").isupper():
        return by_words or "unknown"
    return _by_surroundings(before, after, len(words)) or "unknown"


def _by_head(words: Sequence[str]) -> str:
    """Judge by the head word: the last one, or the one before "of"."""
    if len(words) < 2:
        return ""
    head = next((words[i - 1] for i, word in enumerate(words) if i and word in _OF), "")
    if not head:
        kept = [word for word in words if not word[0].isdigit() and word not in ROMAN_NUMERALS]
        head = kept[-1] if len(kept) > 1 else ""
    if words[0] in GIVEN_NAMES and len(words) == 2 and head not in ORGANIZATION_WORDS:
        return ""
    return next((kind for kind, heads in _BY_HEAD if head in heads), "")


def _by_inner_word(words: Sequence[str]) -> str:
    """Judge by a word inside the name, as in "King's College London"."""
    inner = words[1:-1]
    return next((kind for kind, heads in _BY_HEAD[1:3] if not heads.isdisjoint(inner)), "")


def _place_or_person(words: Sequence[str], name: str) -> str:
    if " ".join(words) in PLACES:
        return "location"
    if words[0] in DEMONYMS:
        return "concept" if len(words) == 1 else ""
    if len(words) > 4 or any(character.isdigit() for character in name):
        return ""
    if words[0] in GIVEN_NAMES or words[-1] in {"jr", "sr"} or not _NAME_PARTICLES.isdisjoint(words):
        return "person"
    is_chinese = words[0] in CHINESE_FAMILY_NAMES and 2 <= len(words) <= 3 and all(len(word) <= 8 for word in words)
    has_initial = len(words) > 1 and _INITIAL.search(name) and not _INITIAL.fullmatch(name[-2:])
    return "person" if is_chinese or has_initial else ""


def _by_surroundings(before: str, after: str, word_count: int) -> str:
    following = _NEXT_WORD.match(after)
    if word_count <= 4 and (_AFTER_PERSON.match(after) or (following and following.group(1) in PERSON_VERBS)):
        return "person"
    before = before[-40:].rstrip(" \"'“‘*_`").lower()
    if _PLACE_BEFORE.search(before):
        return "location"
    noun = before.rpartition(" ")[2]
    return next((kind for kind, nouns in _BY_NOUN_BEFORE if noun in nouns), "")
