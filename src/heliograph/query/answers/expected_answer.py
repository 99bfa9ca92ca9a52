"""What kind of thing a question asks for, and whether a sentence holds one.

Read off the question word in English or Chinese: a person, a date, a number, a place, or nothing certain. A sentence
that holds a name of the right kind which the question does not say itself is likelier to hold the answer.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum

from heliograph.text.name_spans import NameSpan

__all__ = ["AnswerType", "expected_type", "type_match"]


class AnswerType(StrEnum):
    """What is asked for."""

    PERSON = "person"
    DATE = "date"
    NUMBER = "number"
    LOCATION = "location"
    OTHER = "other"


_UNITS = "个名位人次条种类部间座家所岁"
_CUES = (
    (AnswerType.PERSON, re.compile(r"\b(?:who|whose|whom)\b|谁|哪位|什么人|哪个人", re.IGNORECASE)),
    (
        AnswerType.DATE,
        re.compile(
            r"\bwhen\b|\b(?:what|which) (?:year|date|day|time|month|century)\b"
            r"|\b(?:date|year|time) of (?:\w+ )?(?:birth|death)\b"
            r"|何时|什么时[候间]|哪一?年|哪一?天|几月|几点|几号|日期|时间是",
            re.IGNORECASE,
        ),
    ),
    (
        AnswerType.NUMBER,
        re.compile(
            r"\bhow (?:many|much|long|old|far|tall|high|large|big|often|fast|deep|heavy)\b"
            rf"|\bwhat (?:percent|number|amount|percentage)\b|多少|几[{_UNITS}]|多[大长远高久]|第几|人口是",
            re.IGNORECASE,
        ),
    ),
    (
        AnswerType.LOCATION,
        re.compile(
            r"\bwhere\b|\b(?:what|which) (?:\w+ )?"
            r"(?:city|country|state|place|town|county|village|province|region|continent|nation|district)\b"
            r"|哪里|哪儿|何处|何地|什么地方|哪个(?:国家|城市|省|市|县|地方|地区)|在哪|地点",
            re.IGNORECASE,
        ),
    ),
)
_DATE = re.compile(
    r"\b(?:1\d{3}|20\d\d)\b|\b(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.? \d|\b\d{1,2}:\d\d"
    r"|\b\d{1,2} ?[ap]m\b|\b(?:mon|tues|wednes|thurs|fri|satur|sun)day|\b(?:tomorrow|tonight|evening|morning|noon)\b"
    r"|[0-9一二三四五六七八九十〇○]+(?:年|月|日|世纪|点)|周[一二三四五六日末]|星期",
    re.IGNORECASE,
)
_NUMBER = re.compile(
    r"\d|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|twenty|thirty|forty|fifty|hundred|thousand"
    r"|million|billion|dozen|half|once|twice|daily|weekly|monthly)\b"
    rf"|[一二两三四五六七八九十百千万亿]+[{_UNITS}米元年天月]",
    re.IGNORECASE,
)
_UNTYPED = "unknown"
_MAYBE = 0.6
_ANY_NAME = 0.5


def expected_type(question: str) -> AnswerType:
    """Return what the first question word asks for."""
    found = [(match.start(), kind) for kind, cue in _CUES if (match := cue.search(question))]
    return min(found)[1] if found else AnswerType.OTHER


def type_match(expected: AnswerType, sentence: str, new_names: Sequence[NameSpan]) -> float:
    """Return how well a sentence fits, from 0 to 1.

    Args:
        expected: What is asked for.
        sentence: The sentence.
        new_names: Names in it that the question does not say.
    """
    types = {name.type for name in new_names}
    match expected:
        case AnswerType.DATE:
            return float(_DATE.search(sentence) is not None)
        case AnswerType.NUMBER:
            return float(_NUMBER.search(sentence) is not None)
        case AnswerType.PERSON | AnswerType.LOCATION:
            return 1.0 if expected.value in types else _MAYBE * (_UNTYPED in types)
        case AnswerType.OTHER:
            return _ANY_NAME * bool(types)
