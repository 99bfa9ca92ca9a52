"""Which words of a sentence may be part of a name, in scripts with capitals.

A sentence in, `NameToken`s out: its words and marks in order, each judged by itself and its neighbours. A capital that
only marks the start of a sentence counts for nothing unless the texts (`CaseEvidence`) write the word so elsewhere or
no common word is known that looks like it. Months and days that stand for a date are no names, nor are function words.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from heliograph.text.case_prior import is_usually_lower
from heliograph.text.language import HAN, detect_language, stop_words
from heliograph.text.name_cues import (
    CALENDAR,
    CHINESE_FAMILY_NAMES,
    COMMON_WORDS,
    FILE_SUFFIXES,
    GIVEN_NAMES,
    KEPT_TITLES,
    LOCATION_WORDS,
    ORGANIZATION_WORDS,
    PLACES,
    SHOUTED_WORDS,
    STRIPPED_TITLES,
    STRUCTURE_WORDS,
)
from heliograph.text.word_lists import word_list

__all__ = ["CaseEvidence", "NameToken", "is_identifier", "name_tokens"]

_UNCASED = HAN + r"\u0e00-\u0eff\u3041-\u30ff\uac00-\ud7af"
_WORD = rf"[^\W_{_UNCASED}]"
_TOKEN = re.compile(
    rf"[A-Z]{{1,5}}[/&][A-Z]{{1,5}}(?!\w)|_{{0,2}}{_WORD}(?:[^\W{_UNCASED}]|[-'’.+@](?={_WORD}))*(?:\+\+|#(?!\w))?"
    rf"|[{_UNCASED}]+|[^\w\s]"
)
_WORDS = re.compile(rf"{_WORD}(?:[^\W{_UNCASED}]|['’-](?={_WORD}))*")
_INSIDE_SENTENCE = re.compile(rf"(?<=[^\W\d_,;] )({_WORD}+)")
_MIXED = re.compile(r"(?=[^\s]*[A-Za-z])(?=[^\s]*\d)[\w.+-]+")
_QUANTITY = re.compile(r"[\d.]+[-\w]{0,3}|\d+x\d+|\d+-\w+|[a-z]+-\d+\w{0,2}|\d+(?:st|nd|rd|th)\b.*", re.IGNORECASE)
_CAMEL = re.compile(r"[a-z][a-z0-9]*[A-Z]\w*|[A-Z][a-z]+(?:[A-Z][a-z0-9]+)+")
# After these a capital may only mark the start of a sentence, a list item, a quotation or a cell.
_OPENERS = frozenset('"“‘«([*-•·|>#:—–…!?;_`~/=')
_BEFORE_DATE = word_list("before_dates")
_FIRST_IN_NAMES = word_list("first_in_names")
_PERSONS = GIVEN_NAMES | CHINESE_FAMILY_NAMES
_BODIES = LOCATION_WORDS | ORGANIZATION_WORDS
_SURNAMES_TOO = frozenset({"down", "little", "long", "may", "will"})
_NEVER_BESIDE_NAMES = CALENDAR | stop_words("en")
_LONGEST_ACRONYM = 6
_SHOUTED_AT_LEAST = 4
_SAMPLE_LENGTH = 1000


@dataclass(frozen=True, slots=True)
class CaseEvidence:
    """How words are written where nothing forces a capital.

    Attributes:
        lower: Words seen in lower case.
        capitalised: Words seen with a capital after another word.
        function_words: Stop words of English and of the text's own language.
        language: The text's main language.
    """

    lower: frozenset[str]
    capitalised: frozenset[str]
    function_words: frozenset[str]
    language: str = "en"

    @classmethod
    def of(cls, text: str) -> CaseEvidence:
        """Gather the evidence of a text."""
        lower = frozenset(word for word in _WORDS.findall(text) if word.islower())
        capitalised = frozenset(word for word in _INSIDE_SENTENCE.findall(text) if word[0].isupper())
        language = detect_language(text[:_SAMPLE_LENGTH])
        return cls(lower, capitalised, _grammar(language), language)


@cache
def _grammar(language: str) -> frozenset[str]:
    return stop_words("en") | stop_words(language)


@dataclass(slots=True)
class NameToken:
    """A word or a mark; `is_name` says that a name may begin with it or go on with it."""

    text: str
    start: int
    end: int
    is_name: bool = False

    @property
    def lower(self) -> str:
        """The word in lower case."""
        return self.text.lower()


def name_tokens(text: str, start: int, end: int, evidence: CaseEvidence) -> list[NameToken]:
    """Return the words and marks of `text[start:end]`, which is one sentence, in order."""
    tokens = [NameToken(match.group(), match.start(), match.end()) for match in _TOKEN.finditer(text, start, end)]
    is_shouted = _is_shouted(tokens)
    for index, token in enumerate(tokens):
        token.is_name = _may_be_name(tokens, index, evidence) and not (is_shouted and token.text.isupper())
    return tokens


def is_identifier(word: str) -> bool:
    """Return whether a word is made like a name of code or a product: `ESP32-S3`, `mqtt_connect`, `iPhone`, `a.py`."""
    if len(word) < 2 or (word.isalpha() and word[1:].islower()) or _QUANTITY.fullmatch(word):
        return False
    if "_" in word.strip("_") or _CAMEL.fullmatch(word) or word.endswith(("++", "#")):
        return True
    if _MIXED.fullmatch(word):
        return True
    return "." in word and word.rpartition(".")[2].lower() in FILE_SUFFIXES


def _is_shouted(tokens: list[NameToken]) -> bool:
    words = [token.text for token in tokens if len(token.text) > 1 and token.text.isalpha()]
    return len(words) >= _SHOUTED_AT_LEAST and sum(word.isupper() for word in words) * 3 > 2 * len(words)


def _is_initial(tokens: list[NameToken], index: int) -> bool:
    """Return whether a capital here may only mark the start of a sentence, a list item, a quotation or a cell."""
    if index == 0 or tokens[index - 1].text in _OPENERS:
        return True
    return index == 2 and tokens[1].text in {".", ")"} and len(tokens[0].text) <= 2


def _may_be_name(tokens: list[NameToken], index: int, evidence: CaseEvidence) -> bool:
    token = tokens[index]
    word, lower = token.text, token.lower
    if not (word[0].isalpha() or word[0] == "_" or word[0].isdigit()):
        return False
    if is_identifier(word):
        return True
    if not word[0].isupper() or _is_date_part(tokens, index):
        return False
    if len(word) == 1:
        return _is_initial_letter(tokens, index)
    if word.isupper() and len(word) <= _LONGEST_ACRONYM:
        return lower not in SHOUTED_WORDS
    if lower.partition("'")[0].partition("’")[0] in evidence.function_words:
        return index > 0 and tokens[index - 1].is_name and lower in _SURNAMES_TOO
    return not _is_initial(tokens, index) or _is_name_at_start(tokens, index, evidence)


def _is_name_at_start(tokens: list[NameToken], index: int, evidence: CaseEvidence) -> bool:
    """Judge a capital at the start of a sentence, where it proves nothing by itself."""
    word, lower = tokens[index].text, tokens[index].lower
    base = word.removesuffix("'s").removesuffix("’s")
    if lower in STRIPPED_TITLES or lower in KEPT_TITLES or base.lower() in GIVEN_NAMES or base.lower() in PLACES:
        return True
    if lower in COMMON_WORDS or lower in STRUCTURE_WORDS:
        following = tokens[index + 1].text if index + 1 < len(tokens) else ""
        is_known = word in evidence.capitalised or lower in _FIRST_IN_NAMES or following.lower() in COMMON_WORDS
        is_known = is_known or _is_title_case(tokens, index)
        goes_on = following.lower() not in evidence.function_words and following.lower() not in STRIPPED_TITLES
        return is_known and following[:1].isupper() and goes_on
    if lower in evidence.lower or is_usually_lower(base) or lower.endswith(("ly", "ing", "ed")):
        return base in evidence.capitalised or _is_title_case(tokens, index)
    return True


def _is_title_case(tokens: list[NameToken], index: int) -> bool:
    """Return whether the next word makes this one a name: "Human Flow", "Windy Hill"; not "Singer Adele"."""
    if index + 1 >= len(tokens) or tokens[index].end == tokens[index + 1].start:
        return False
    word = tokens[index + 1].text
    if not word[0].isupper() or not word.isalpha() or word.isupper() or len(word) < 3 or word.lower() in _PERSONS:
        return False
    return is_usually_lower(word) or word.lower() in _BODIES


def _is_initial_letter(tokens: list[NameToken], index: int) -> bool:
    """Return whether a single capital is an initial as in "J. Smith", or a label as in "Plan B"."""
    if tokens[index].text in {"I", "A"}:
        if index > 0 and tokens[index - 1].is_name and not _is_lower(tokens, index + 1):
            return True
        return _is_dot(tokens, index + 1) and index + 2 < len(tokens) and tokens[index + 2].text[0].isupper()
    if index > 0 and index + 1 < len(tokens) and tokens[index + 1].text.istitle():
        # "at Y Combinator", but not "B" in "plan B".
        return True
    return _is_dot(tokens, index + 1) or (index > 0 and tokens[index - 1].is_name)


def _is_dot(tokens: list[NameToken], index: int) -> bool:
    return index < len(tokens) and tokens[index].text == "."


def _is_lower(tokens: list[NameToken], index: int) -> bool:
    return index < len(tokens) and tokens[index].text.islower() and tokens[index].lower not in stop_words("en")


def _is_date_part(tokens: list[NameToken], index: int) -> bool:
    """Return whether a month, day or season stands for a date and not for a person or in a longer name."""
    if tokens[index].lower not in CALENDAR:
        return False
    near = tokens[max(0, index - 1) : index] + tokens[index + 1 : index + 2]
    if any(token.text[0].isdigit() for token in near) or (index > 0 and tokens[index - 1].lower in _BEFORE_DATE):
        return True
    return not any(token.text[0].isupper() and token.lower not in _NEVER_BESIDE_NAMES for token in near)
