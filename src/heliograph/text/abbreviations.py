"""Abbreviations that a text introduces: "Message Queuing Telemetry Transport (MQTT)", "MQTT（消息队列遥测传输）".

In Latin letters the initials of all words of the long form but small ones must stand in the short form in order, and
nothing else may, but for letters from inside these words. That is stricter than matching letters backwards (Schwartz
and Hearst, "A simple algorithm for identifying abbreviation definitions in biomedical text", 2003), which takes
"Management and Budget" for OMB. Chinese has no initials to match, so there the long form is the name or noun phrase
that touches the bracket.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from heliograph.text.language import HAN
from heliograph.text.phrases import NameSpan, Phrase, SentenceReading
from heliograph.text.word_lists import word_list

__all__ = ["Abbreviation", "find_abbreviations"]

_SHORT = r"[A-Z][A-Za-z0-9&/.-]{1,11}"
_SHORT_IN_BRACKETS = re.compile(rf"[ ]?[(（]({_SHORT})(?:s)?[)）]")
_LONG_IN_BRACKETS = re.compile(rf"(?<![\w-])({_SHORT})[ ]?[(（]([^()（）\n]{{4,80}})[)）]")
_WORD = re.compile(r"[^\s]+")
_PART = re.compile(r"[^\W_]+")
# No name goes on across these: other brackets, ends of clauses, addresses.
_NOT_IN_NAMES = re.compile(r"[()\[\]{}|;:=<>\n\"“”]|[,.!?](?=\s)|https?|\S*/\S*/\S*")
_SMALL = word_list("small_words")
_HAN_NAME = re.compile(rf"[{HAN}][{HAN}\w]{{1,19}}")
_LOOK_BACK = 160
_MOST_WORDS = 10
_SHORTEST_HAN_FORM = 4
_LONGEST_HAN_FORM = 20
_FIRST_HAN = 0x3400

_Part = NameSpan | Phrase


@dataclass(frozen=True, slots=True)
class Abbreviation:
    """A short form and its long form, each as `(start, end)` in the text."""

    short: tuple[int, int]
    long: tuple[int, int]


def find_abbreviations(text: str, sentences: Sequence[SentenceReading]) -> list[Abbreviation]:
    """Return the abbreviations that are introduced in brackets, in order.

    Args:
        text: The text.
        sentences: Its reading, which bounds the search and knows the Chinese phrases.
    """
    return [found for sentence in sentences for found in _in_sentence(text, sentence)]


def _in_sentence(text: str, sentence: SentenceReading) -> Iterator[Abbreviation]:
    parts = {part.end: part for part in (*sentence.phrases, *sentence.names)}
    for match in _SHORT_IN_BRACKETS.finditer(text, sentence.start, sentence.end):
        start = _long_form_start(text, sentence.start, match, parts)
        if start >= 0 and _is_short_form(match.group(1)):
            is_possessive = text.endswith(("'s", "’s"), start, match.start())
            yield Abbreviation(match.span(1), (start, match.start() - 2 * is_possessive))
    for match in _LONG_IN_BRACKETS.finditer(text, sentence.start, sentence.end):
        long = match.group(2)
        is_long = _HAN_NAME.fullmatch(long) or _matched_start(match.group(1), long) == 0
        if is_long and _is_short_form(match.group(1)):
            yield Abbreviation(match.span(1), match.span(2))


def _is_short_form(short: str) -> bool:
    return sum(character.isupper() for character in short) >= 2


def _long_form_start(text: str, sentence_start: int, bracket: re.Match[str], parts: Mapping[int, _Part]) -> int:
    """Return where the long form before the bracket begins, or -1.

    Args:
        text: The text.
        sentence_start: Where the sentence begins.
        bracket: The bracket with the short form.
        parts: Names and phrases of the sentence by their ends.
    """
    end = bracket.start()
    chinese = _chinese_form_start(parts, end)
    if chinese < end:
        return chinese if _HAN_NAME.fullmatch(text, chinese, end) and end - chinese >= _SHORTEST_HAN_FORM else -1
    first = max(sentence_start, end - _LOOK_BACK)
    short = bracket.group(1)
    words = [match.start() for match in _WORD.finditer(text, first, end)]
    words = words[-min(len(short) + 5, 2 * len(short), _MOST_WORDS) :]
    if not words:
        return -1
    start = _matched_start(short, text[words[0] : end])
    return words[0] + start if start >= 0 else -1


def _chinese_form_start(parts: Mapping[int, _Part], end: int) -> int:
    """Return where the Chinese words that touch `end` begin, verbs before them left out; `end` if there are none."""
    run: list[_Part] = []
    start = end
    while (part := parts.get(start)) and end - part.start <= _LONGEST_HAN_FORM and ord(part.text[-1]) >= _FIRST_HAN:
        run.append(part)
        start = part.start
    while len(run) > 1 and isinstance(run[-1], Phrase) and run[-1].is_predicate:
        run.pop()
    return run[-1].start if run else end


def _matched_start(short: str, long: str) -> int:
    """Return where in `long` the words begin that `short` stands for, or -1.

    They are the fewest words at its end whose initials spell the short form; failing that, the fewest whose initials
    all stand in it in order, with letters from inside the words between them ("CARICOM", "TWh").
    """
    blank = max((match.end() for match in _NOT_IN_NAMES.finditer(long)), default=0)
    long = " " * blank + long[blank:]
    letters = "".join(character.lower() for character in short if character.isalnum())
    words = [(match.start(), match.group().lower()) for match in _PART.finditer(long)]
    if not letters or short.lower() in {word for _, word in words}:
        return -1
    for inner in (False, True):
        for first in range(len(words) - 1, -1, -1):
            start, word = words[first]
            is_whole = start == 0 or not (long[start - 1].isalnum() or long[start - 1] in "-'’")
            is_start = is_whole and word[0] == letters[0] and (word not in _SMALL or first == 0)
            if is_start and _spells(letters, [word for _, word in words[first:]], inner=inner):
                is_longer = len(long) - start > len(short)
                return start if is_longer and _has_enough_words(long[start:]) else -1
    return -1


def _spells(letters: str, words: Sequence[str], *, inner: bool) -> bool:
    """Return whether the words' initials make up the letters; small words may be passed over.

    Args:
        letters: What is to be spelled, in lower case.
        words: At most about ten words, in lower case.
        inner: Whether letters from inside a word may follow its initial.
    """
    reached = {0}
    for word in words:
        after = {end for place in reached if place < len(letters) for end in _ends(letters, place, word, inner=inner)}
        reached = after | reached if word in _SMALL else after
        if not reached:
            return False
    return len(letters) in reached


def _ends(letters: str, place: int, word: str, *, inner: bool) -> list[int]:
    """Return up to where the letters from `place` on can be taken from the word, its initial first."""
    if letters[place] != word[0]:
        return []
    ends = [place + 1]
    at = 1
    while inner and ends[-1] < len(letters) and (at := word.find(letters[ends[-1]], at) + 1):
        ends.append(ends[-1] + 1)
    return ends


def _has_enough_words(long: str) -> bool:
    return len(long.split()) > 1 or "-" in long
