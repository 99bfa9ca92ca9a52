"""Other names of what a passage is about, as its first sentence tells them: "better known as X", "又称X".

The first sentence with its entities in, those that are but another name of the subject out; and shorter forms of a
person's full name. The chunk is about each of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from heliograph.ingest.extraction.local_names import shorter_names
from heliograph.ingest.extraction.local_occurrences import Occurrence
from heliograph.text.names import entity_key

__all__ = ["other_names"]

_SAID_TO_BE = (
    r"\b(?:known|referred to|called|billed|credited|styled|spelled|spelt|abbreviated|released|titled|translated)\b"
    r"[^.;()]{0,40}?\b(?:as|simply|by (?:his|her|its|their|the) [\w ]{0,20}?names?)"
)
_IS_CALLED = r"\bn[ée]e|\bborn|\b(?:pen|stage|birth|real) name|\baka|a\.k\.a\.|\bsimply|\bEnglish(?: title)?:"
_HAN_IS_CALLED = "又称|又名|别名|也称|也叫|简称|俗称|原名|本名|全称|英文名?[:：]?"
_CUE = re.compile(rf"(?:{_SAID_TO_BE}|{_IS_CALLED}|{_HAN_IS_CALLED})[\s\"'“‘(（「《:：]*$")
_REACH = 90
_OR = re.compile(r"[\s,\"”’]*(?:or|或)[\s\"'“‘「《]*")
_AND = re.compile(r"[\s,、\"”’」》]*(?:and|or|和|或|、)[\s\"'“‘「《]*")


def other_names(
    text: str, subject: tuple[str, str], occurrences: Sequence[Occurrence], *, is_person: bool
) -> Iterator[tuple[str, str]]:
    """Yield keys and names of what else the subject is called.

    Args:
        text: The chunk's text.
        subject: Key and name of what its first sentence is about.
        occurrences: The entities in that sentence, in order.
        is_person: Whether it is a person.
    """
    joined_by: re.Pattern[str] | None = None
    end = -1
    for occurrence in occurrences:
        if occurrence.key == subject[0]:
            joined_by, end = _OR, occurrence.end
            continue
        goes_on = joined_by and joined_by.fullmatch(text, end, occurrence.start) is not None
        before = text[max(0, occurrence.start - _REACH) : occurrence.start]
        if end >= 0 and not occurrence.is_phrase and (goes_on or _CUE.search(before)):
            yield occurrence.key, occurrence.name
            joined_by, end = _AND, occurrence.end
        else:
            joined_by = None
    if is_person:
        yield from ((entity_key(name), name) for name in shorter_names(subject[1]))
