"""Names in scripts with capitals: English above all, and any other by the same rule.

A sentence in, `NameSpan`s out. Words that may be names (`heliograph.text.name_words`) grow into longer ones across
particles, initials and numbers ("University of Toronto", "Ludwig van Beethoven", "J. K. Rowling", "TLS 1.3"). Titles
and roles are taken off, and what is left is judged once more: "Chapter 3", "July 2012" and "Prime Minister" are no
names. In German, which gives every noun a capital, a single word needs more than that (`german_names`).
"""

from __future__ import annotations

import re

from heliograph.text.german_names import is_german_noun
from heliograph.text.language import function_words, stop_words
from heliograph.text.lines import is_own_line
from heliograph.text.name_cues import (
    CALENDAR,
    COMMON_WORDS,
    DEMONYMS,
    EVENT_WORDS,
    GIVEN_NAMES,
    INNER_PARTICLES,
    JOINED_AFTER_POSSESSIVE,
    LOCATION_WORDS,
    OF_WORDS,
    ORGANIZATION_WORDS,
    PLACES,
    ROMAN_NUMERALS,
    STRIPPED_TITLES,
    STRUCTURE_WORDS,
)
from heliograph.text.name_spans import NameSpan
from heliograph.text.name_types import type_of_name
from heliograph.text.name_words import CaseEvidence, NameToken, is_identifier, name_tokens
from heliograph.text.word_lists import word_list

__all__ = ["latin_names"]

_YEAR = re.compile(r"1\d{3}|20\d{2}")
_SMALL_NUMBER = re.compile(r"\d{1,3}(?:\.\d+)*|\d+(?:\.\d+)+")
_DOTTED = re.compile(r"[^\W\d_](?:\.[^\W\d_])*")
_QUOTES = frozenset('"“”')
_ABBREVIATED = word_list("abbreviations_in_names")
_SUFFIXES = frozenset({"jr", "sr", "inc", "ltd", "llc", "corp", "co", "plc", "gmbh"})
_ROLE_WORDS = STRIPPED_TITLES | {"prime", "vice", "deputy", "general", "chief", "executive", "officer", "assistant"}
_BEFORE_GIVEN_NAME = _ROLE_WORDS | DEMONYMS | {"major", "brigadier", "captain", "admiral", "marshal", "private"}
_PEOPLES = PLACES | DEMONYMS
_JOINED_BY_AND = frozenset(
    {"department", "ministry", "institute", "office", "bureau", "committee", "faculty", "school"}
)
_BODIES = ORGANIZATION_WORDS | LOCATION_WORDS | EVENT_WORDS | {"expedition", "church", "act"}
_AGREEMENTS = frozenset({"convention", "treaty", "agreement", "protocol", "declaration", "accord", "pact", "summit"})
_BEFORE_ARTICLES = frozenset({"of", "for", "on", "de", "von", "van"})
_INNER_ARTICLES = frozenset({"the", "la", "las", "los", "der", "den"})
_NEVER_ALONE = STRUCTURE_WORDS | ROMAN_NUMERALS | CALENDAR | function_words()
_ACRONYMS = frozenset({"US", "IT", "WHO"})
_MONARCH_NUMBERS = ROMAN_NUMERALS | {"i", "v", "x"}
_MOST_WORDS = 8
_MOST_TOKENS = 24
_LONGEST_NAME = 100


def latin_names(text: str, start: int, end: int, evidence: CaseEvidence) -> list[NameSpan]:
    """Return the names in `text[start:end]`, which is one sentence, in order and without overlap."""
    tokens = name_tokens(text, start, end, evidence)
    names: list[NameSpan] = []
    index = 0
    while index < len(tokens):
        if not tokens[index].is_name:
            index += 1
            continue
        last = _grow(text, tokens, index)
        is_noun = evidence.language == "de" and is_german_noun([token.text for token in tokens], index, last)
        if not is_noun and (name := _named(text, tokens, index, last, evidence)):
            names.append(name)
        index = last + 1
    return names


def _continues(tokens: list[NameToken], index: int) -> bool:
    return index < len(tokens) and tokens[index].is_name


def _grow(text: str, tokens: list[NameToken], first: int) -> int:
    """Return the index of the last token of the name that begins at `first`."""
    last = first
    while last - first < _MOST_TOKENS and (following := _next_part(tokens, first, last)) > last:
        line_end = text.find("\n", tokens[last].end, tokens[following].start)
        if line_end >= 0 and is_own_line(text, line_end):
            break
        last = following
    return last


def _next_part(tokens: list[NameToken], first: int, last: int) -> int:
    """Return the index of the name's next word, or `last` when it ends here."""
    token, after = tokens[last], last + 1
    if _ends_possessive(token.text):
        joins = _continues(tokens, after) and tokens[after].lower in JOINED_AFTER_POSSESSIVE
        return after if joins else last
    if _continues(tokens, after):
        return after
    if after >= len(tokens):
        return last
    return _across_mark(tokens, last) or _across_particle(tokens, first, last) or _with_number(tokens, last) or last


def _across_mark(tokens: list[NameToken], last: int) -> int:
    """Return the index of the word after a mark that belongs to the name, or 0."""
    mark, word = tokens[last + 1].text, tokens[last].lower
    if not _continues(tokens, last + 2):
        return 0
    if mark in _QUOTES:
        return last + 4 if _is_nickname_end(tokens, last + 3) else 0
    belongs = (
        (mark == "&" and tokens[last + 2].lower not in GIVEN_NAMES)
        or (mark == "." and (word in _ABBREVIATED or _DOTTED.fullmatch(word) is not None))
        or (mark == "," and tokens[last + 2].lower in _SUFFIXES)
    )
    return last + 2 if belongs else 0


def _is_nickname_end(tokens: list[NameToken], index: int) -> bool:
    """Return whether a quoted nickname ends here and the name goes on: Wilfried "Willi" Schneider."""
    return index < len(tokens) and tokens[index].text in _QUOTES and _continues(tokens, index + 1)


def _across_particle(tokens: list[NameToken], first: int, last: int) -> int:
    """Return the index of the word after a particle that belongs to the name, or 0."""
    particle = tokens[last + 1].text
    following = last + 2
    if particle in _BEFORE_ARTICLES and following < len(tokens):
        following += tokens[following].text in _INNER_ARTICLES
    if not _continues(tokens, following):
        return 0
    if particle in INNER_PARTICLES:
        return following
    if is_identifier(tokens[last].text):
        return 0
    if particle == "and" and last == first and _is_one_body(tokens, first, following):
        return following
    return following if _joins(particle, [token.lower for token in tokens[first : last + 1]]) else 0


def _is_one_body(tokens: list[NameToken], first: int, second: int) -> bool:
    """Return whether "and" joins two words to one name: "the Lewis and Clark Expedition"."""
    if first == 0 or tokens[first - 1].lower != "the" or tokens[first].lower in _BODIES or tokens[first].text.isupper():
        return False
    last = second
    while _continues(tokens, last + 1) and last - second < _MOST_WORDS:
        last += 1
    return last > second and tokens[last].lower in _BODIES


def _joins(particle: str, words: list[str]) -> bool:
    """Return whether a name of these words goes on across "of", "for", "on" or "and"."""
    if particle == "of":
        is_plain_word = len(words) == 1 and words[0] not in _PEOPLES and words[0] not in GIVEN_NAMES
        return is_plain_word or words[-1] in OF_WORDS or words[-1] in _MONARCH_NUMBERS
    if particle in {"for", "on"}:
        return words[-1] in ORGANIZATION_WORDS or words[-1] in _AGREEMENTS
    return particle == "and" and not _JOINED_BY_AND.isdisjoint(words) and ("of" in words or "for" in words)


def _with_number(tokens: list[NameToken], last: int) -> int:
    """Take in a number as in "TLS 1.3" or "Apollo 11", but not a year, nor a count as in "Paris 300 people"."""
    number = tokens[last + 1].text
    if not _SMALL_NUMBER.fullmatch(number) or tokens[last].lower in STRUCTURE_WORDS:
        return 0
    following = tokens[last + 2] if last + 2 < len(tokens) else None
    is_version = "." in number or tokens[last].text.isupper() or is_identifier(tokens[last].text)
    is_count = following is not None and (following.text in {"%", "-", "–", "/"} or following.text[0].isdigit())
    is_counted = following is not None and following.lower not in stop_words("en") and following.text[0].islower()
    return last + 1 if not is_count and (is_version or not is_counted) else 0


def _ends_possessive(word: str) -> bool:
    return word.endswith(("'s", "’s"))


def _named(text: str, tokens: list[NameToken], first: int, last: int, evidence: CaseEvidence) -> NameSpan | None:
    """Return the name made of tokens `first` to `last`, or None when it is none after all."""
    after_title = _after_titles(tokens, first, last)
    if after_title > last:
        return None
    is_titled = after_title > first
    first = _with_year(tokens, after_title, last)
    start, end = tokens[first].start, tokens[last].end
    if _ends_possessive(tokens[last].text):
        end -= 2
    elif text[end : end + 1] == "." and _keeps_dot(tokens[last].text):
        end += 1
    name = text[start:end]
    if not _is_acceptable(name, evidence):
        return None
    before, after = text[max(0, start - 40) : start], text[end : end + 40]
    is_product = not is_titled and is_identifier(name.split()[0])
    kind = "artifact" if is_product else type_of_name(name, before, after, is_titled=is_titled)
    return NameSpan(name, start, end, kind)


def _keeps_dot(word: str) -> bool:
    """Return whether a dot after the last word is part of the name, as in "U.S." and "Acme Inc."."""
    return ("." in word and _DOTTED.fullmatch(word) is not None) or word.lower() in _SUFFIXES


def _after_titles(tokens: list[NameToken], first: int, last: int) -> int:
    """Return where the name goes on after titles such as "Vice President"; past `last` when it is only a role."""
    named = tokens[first + (tokens[first].lower in _PEOPLES) : last + 1]
    if named and all(token.lower in _ROLE_WORDS or token.text == "." for token in named):
        return last + 1
    start, are_roles = first, True
    for index in range(first, last):
        word, following = tokens[index].lower, tokens[index + 1]
        are_roles = are_roles and (word in _BEFORE_GIVEN_NAME or (index == 0 and _is_profession(word)))
        if are_roles and following.lower in GIVEN_NAMES:
            return index + 1
        if word in STRIPPED_TITLES and (following.is_name or following.text == "."):
            start = min(index + (1 if following.is_name else 2), last)
    return start


def _is_profession(word: str) -> bool:
    """Return whether a word says what somebody does, by its ending: "Keyboardist Boom Gaspar", "Drummers Jack ..."."""
    return word not in GIVEN_NAMES and word.removesuffix("s").endswith(("ist", "ician", "er", "or"))


def _with_year(tokens: list[NameToken], first: int, last: int) -> int:
    """Return where the name begins when the year before an event is part of it: "2002 Winter Olympics"."""
    is_event = tokens[last].lower in EVENT_WORDS
    return first - 1 if is_event and first > 0 and _YEAR.fullmatch(tokens[first - 1].text) else first


def _is_acceptable(name: str, evidence: CaseEvidence) -> bool:
    words = name.lower().split()
    if len(words) > _MOST_WORDS or not 2 <= len(name) <= _LONGEST_NAME:
        return False
    if words[0] in STRUCTURE_WORDS and words[-1][0].isdigit():
        return False
    if all(word in CALENDAR or word[0].isdigit() for word in words):
        return False
    if len(words) > 1:
        return True
    if words[0] in _NEVER_ALONE or words[0] in evidence.function_words:
        return name in _ACRONYMS
    return words[0] not in COMMON_WORDS or name.isupper() or is_identifier(name)
