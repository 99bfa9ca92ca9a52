"""What kind of thing a question asks for, and whether a sentence holds one.

Read off the question word and the noun that it asks for in English or Chinese ("which city", "what is the population",
"哪个省", "面积是多少"). A sentence that holds a name of the right kind which the question does not say itself is the
likelier to hold the answer.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum

from heliograph.query.answers.question_focus import Focus
from heliograph.text.language import word_list
from heliograph.text.name_spans import (
    DEMONYMS,
    EVENT_WORDS,
    KEPT_TITLES,
    LOCATION_WORDS,
    ORGANIZATION_WORDS,
    STRIPPED_TITLES,
    WORK_WORDS,
    NameSpan,
)


class AnswerType(StrEnum):
    """What is asked for; all but dates, numbers and the rest are types of names."""

    PERSON = "person"
    DATE = "date"
    NUMBER = "number"
    LOCATION = "location"
    ORGANIZATION = "organization"
    WORK = "content"
    EVENT = "event"
    OTHER = "other"


_UNITS = "个名位人次条种类部间座家所岁"
_QUESTION_WORDS = {
    "who": AnswerType.PERSON,
    "whom": AnswerType.PERSON,
    "when": AnswerType.DATE,
    "where": AnswerType.LOCATION,
}
_MEASURED = re.compile(r"\s+(?:many|much|long|old|far|tall|high|large|big|often|fast|deep|heavy)\b", re.IGNORECASE)
# The first that holds the noun asked for decides.
_NOUNS = (
    (AnswerType.PERSON, word_list("asked_persons") | STRIPPED_TITLES | KEPT_TITLES),
    (AnswerType.DATE, word_list("asked_dates")),
    (AnswerType.NUMBER, word_list("asked_numbers")),
    (AnswerType.LOCATION, word_list("asked_places") | LOCATION_WORDS),
    (AnswerType.ORGANIZATION, ORGANIZATION_WORDS),
    (AnswerType.WORK, WORK_WORDS),
    (AnswerType.EVENT, EVENT_WORDS),
)
_WORD = re.compile(r"[A-Za-z][\w'’-]*|[,;:?]")
# Between the question word and the noun; behind the noun.
_BEFORE_NOUN = word_list("before_asked_nouns")
_AFTER_NOUN = word_list("after_asked_nouns")
_LONGEST_RUN = 4

_BODIES = "(?:公司|机构|大学|学校|单位|组织|部门|医院|球队|企业|院校)"
_IS = r"(?:[是为在叫有达]|名字|名称)*"
_CHINESE = (
    (AnswerType.PERSON, re.compile(r"谁|哪位|什么人|哪[个些](?:人|名人|人物)")),
    (
        AnswerType.DATE,
        re.compile(rf"何时|什么时[候间]|哪一?[年天]|几[月点号]|(?:时间|日期|年份|生日){_IS}(?:什么|哪|$)"),
    ),
    (
        AnswerType.NUMBER,
        re.compile(rf"多少|几[{_UNITS}]|多[大长远高久重]|第几|(?:面积|人口|数量|高度|长度){_IS}(?:什么|$)"),
    ),
    (
        AnswerType.LOCATION,
        re.compile(
            r"哪[里儿]|何[处地]|什么地[方区]|在哪|(?:什么|哪一?[个些座]?)(?:国家|国|城市|省|市|县|地方|地区|州|洲|镇|村|区)"
            rf"|(?:地点|地区|地址|国籍|首都|位置|籍贯|出生地|发源地){_IS}(?:什么|哪|$)"
        ),
    ),
    (
        AnswerType.ORGANIZATION,
        re.compile(rf"(?:什么|哪一?[个所家些支]?){_BODIES}|{_BODIES}{_IS}(?:什么|哪|$)"),
    ),
    (
        AnswerType.WORK,
        re.compile(
            r"(?:什么|哪一?[部首张本个]?)(?:电影|电视剧|歌|专辑|书|小说|作品|游戏)|(?:歌曲|专辑|作品)(?:是|叫)什么"
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
_PEOPLE = re.compile(rf"\b(?:{'|'.join(sorted(DEMONYMS))})\b", re.IGNORECASE)
_UNTYPED = "unknown"
_MAYBE = 0.6
_PLACE_OF_PEOPLE = 0.8
_ANY_NAME = 0.5


def expected_type(focus: Focus) -> AnswerType:
    """Return what the question word and its noun ask for."""
    return _chinese_type(focus) if focus.is_chinese else _english_type(focus)


def _chinese_type(focus: Focus) -> AnswerType:
    """Return the type of the last cue; of cues that end together, the one that begins first."""
    found = [(match.end(), -match.start(), kind) for kind, cue in _CHINESE for match in cue.finditer(focus.text)]
    return max(found)[2] if found else AnswerType.OTHER


def _english_type(focus: Focus) -> AnswerType:
    word = focus.text[focus.start : focus.end].lower()
    if word in _QUESTION_WORDS:
        return _QUESTION_WORDS[word]
    if word == "how":
        return AnswerType.NUMBER if _MEASURED.match(focus.text, focus.end) else AnswerType.OTHER
    for noun in reversed(_asked_noun(focus.text[focus.end :]) if word in {"what", "which", "whose"} else ()):
        for kind, nouns in _NOUNS:
            if noun in nouns or noun.removesuffix("s") in nouns:
                return kind
    return AnswerType.OTHER


def _asked_noun(text: str) -> Sequence[str]:
    """Return the words that a question asks for, the noun last: of "is the name of the first city in" `city`."""
    run: list[str] = []
    for word in map(str.lower, _WORD.findall(text)):
        if word in _BEFORE_NOUN and not run:
            continue
        if word in _AFTER_NOUN or not word[0].isalpha() or len(run) == _LONGEST_RUN:
            break
        run.append(word)
    return run


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
        case AnswerType.OTHER:
            return _ANY_NAME * bool(types)
        case AnswerType.LOCATION if _PEOPLE.search(sentence):
            return 1.0 if expected.value in types else _PLACE_OF_PEOPLE
        case _:
            return 1.0 if expected.value in types else _MAYBE * (_UNTYPED in types)
