"""Sentences for a question that compares: one for each side, the side that wins first where dates decide it.

Which came first, who is older, who died later: the years are read off the sentences about each side, or, where a person
behind it is asked about ("which film has the director who was born first"), off those about the persons it names. What
no year decides stays in the order in which it was found.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import Enum, auto

from heliograph.query.answers.candidates import AskedQuestion, Candidate, plain_name, says
from heliograph.query.understanding.models import Understanding
from heliograph.query.understanding.rules import sides_by_rules

_EARLY = re.compile(
    r"\b(?:first|earlier|earliest|older|oldest|eldest|before)\b|更早|较早|最早|先|年长|[年岁][纪龄数]更?[大老]"
)
_LATE = re.compile(
    r"\b(?:later|latest|last|younger|youngest|newer|newest|more recent(?:ly)?|most recent(?:ly)?)\b"
    r"|更晚|较晚|最晚|后|年轻|[年岁][纪龄数]更?小"
)
_DEATH = re.compile(r"\b(?:died|die|dies|death)\b|去世|逝世|死")
_BIRTH = re.compile(
    r"\b(?:born|birth|birthday|older|oldest|elder|eldest|younger|youngest)\b|出生|生于|年长|年轻|[年岁][纪龄数]"
)
# Questions that let choose between their sides or hold them against each other.
_CHOICE = re.compile(
    r"\bor\b|^(?:is|are|was|were|do|does|did|has|have)\b|还是|更|比|先|相同|一样|都|同一", re.IGNORECASE
)
_YEAR = re.compile(r"(?<!\d)(1\d{3}|20\d\d)(?!\d)")
_LIFE = re.compile(r"[(（][^()（）]*?(?<!\d)(\d{4})(?!\d)[^()（）–—－-]*[–—－-][^()（）]*?(?<!\d)(\d{4})(?!\d)")
_BORN = re.compile(
    r"\bborn\b[^.;()]{0,60}?(?<!\d)(\d{4})(?!\d)|(?<!\d)(\d{4})年[^，。；]{0,12}(?:出生|生)", re.IGNORECASE
)
_DIED = re.compile(
    r"\bdied\b[^.;()]{0,60}?(?<!\d)(\d{4})(?!\d)|(?<!\d)(\d{4})年[^，。；]{0,12}(?:去世|逝世|病逝)", re.IGNORECASE
)


class _Event(Enum):
    """What the years compared are years of."""

    BIRTH = auto()
    DEATH = auto()
    ANY = auto()


def compared_sides(question: str, understanding: Understanding | None) -> tuple[str, ...]:
    """Return what a question holds against each other, as plain names; empty where it compares nothing.

    Args:
        question: The question.
        understanding: What it asks for, if it is known; else rules say so.
    """
    if not _CHOICE.search(question):
        return ()
    written = understanding.sides if understanding is not None else sides_by_rules(question)
    sides = tuple(filter(None, map(plain_name, written)))
    return sides if len(sides) > 1 else ()


def side_sentences(asked: AskedQuestion, ranked: Sequence[Candidate]) -> list[Candidate]:
    """Return the best sentence about each side of a comparison; empty unless every side has one of its own.

    Args:
        asked: The question.
        ranked: Sentences, best first.
    """
    found: dict[str, Candidate] = {}
    for side in asked.sides:
        about = [item for item in _about(side, ranked) if item not in found.values()]
        if not about:
            return []
        found[side] = max(about, key=lambda item: says(item.sentence.shown.casefold(), side))
    winner = _winner(asked, ranked)
    return sorted(found.values(), key=lambda item: item is not found.get(winner or ""))


def _about(side: str, ranked: Sequence[Candidate]) -> list[Candidate]:
    """Return the sentences of documents that bear a side's name, then those that say it."""
    titled = [item for item in ranked if item.title == side]
    return titled or [item for item in ranked if says(item.sentence.shown.casefold(), side)]


def _winner(asked: AskedQuestion, ranked: Sequence[Candidate]) -> str | None:
    is_early = _EARLY.search(asked.folded) is not None
    if is_early == (_LATE.search(asked.folded) is not None):
        return None
    event = _Event.DEATH if _DEATH.search(asked.folded) else _Event.ANY
    event = _Event.BIRTH if event is _Event.ANY and _BIRTH.search(asked.folded) else event
    years = {side: _year_of(side, event, ranked) for side in asked.sides}
    known = [year for year in years.values() if year is not None]
    if len(known) < len(years) or len(set(known)) < len(known):
        return None
    return min(years, key=lambda side: (years[side] or 0) * (1 if is_early else -1))


def _year_of(side: str, event: _Event, ranked: Sequence[Candidate]) -> int | None:
    """Return the year of a side's event, or of that of the first person named with it whose years are known."""
    about = _about(side, ranked)
    year = _first_year(about, event)
    if year is not None or event is _Event.ANY:
        return year
    for name in [name.text for item in about for name in item.new]:
        year = _first_year([item for item in ranked if item.title == plain_name(name)], event)
        if year is not None:
            return year
    return None


def _first_year(sentences: Sequence[Candidate], event: _Event) -> int | None:
    years = (_year_in(item.sentence.shown, event) for item in sentences)
    return next((year for year in years if year is not None), None)


def _year_in(text: str, event: _Event) -> int | None:
    match event:
        case _Event.ANY:
            found = _YEAR.search(text)
            return int(found[1]) if found else None
        case _Event.BIRTH:
            found, life, place = _BORN.search(text), _LIFE.search(text), 1
        case _Event.DEATH:
            found, life, place = _DIED.search(text), _LIFE.search(text), 2
    if life:
        return int(life[place])
    return int(found[1] or found[2]) if found else None
