"""What a title or heading stands for: the names that a section is about.

A title or heading is a name when it is short and says what, not how: "MQTT over TLS" and "Willi Schneider (skeleton
racer)" are; "How to install", "Overview", "notes/index.md" and "2024-05-01" are not. Of a heading that is no name, the
names inside it are taken, if any.
"""

from __future__ import annotations

import re
from functools import lru_cache

from heliograph.ingest.extraction.local_words import plain
from heliograph.text.language import HAN
from heliograph.text.name_types import type_of_name
from heliograph.text.names import clean_name
from heliograph.text.phrases import find_names
from heliograph.text.word_lists import word_list

__all__ = ["subjects_of"]

_HASHES = re.compile(r"^\s*#+\s*")
_NUMBERING = re.compile(
    r"^\s*(?:(?:chapter|part|section|appendix)\s+\w{1,5}\s*[:.–-]?\s+|\d{1,3}(?:\.\d{1,3})*[.)、]?\s+|[IVX]{1,5}\.\s+"
    r"|第[一二三四五六七八九十百\d]{1,4}[章节部篇回讲]\s*[:：、]?\s*|[（(]?[一二三四五六七八九十]{1,3}[)）、]\s*)",
    re.IGNORECASE,
)
_BRACKETED_END = re.compile(r"\s*[(（][^()（）]{1,60}[)）]\s*$")
_FILE_NAME = re.compile(r"[\w.-]*[/\\][^ ]*|[^ ]*\.[A-Za-z]\w{0,4}")
_LONG_NUMBER = re.compile(r"\d{5,}|\d{1,4}[-/.年]\d{1,2}[-/.月]\d{1,4}")
_SENTENCE_MARK = re.compile(r"[。！？?!;；|=]|: |：")
_CAPITAL = r"(?:[A-Z\d][^\s:]*|a|an|and|at|by|for|from|in|of|on|the|to|with)"
_TITLE_CASE = re.compile(rf"{_CAPITAL}(?: {_CAPITAL})*")
# A title with its subtitle, such as: Joust 2, Survival of the Fittest (a colon between them).
_TITLE_WITH_SUBTITLE = re.compile(rf"[A-Z\d]\S*(?<!:)(?: {_CAPITAL}){{0,4}}: {_CAPITAL}(?: {_CAPITAL}){{1,5}}")
_HAN = re.compile(rf"[{HAN}]")
_LONGEST_HEADING = 300
_MOST_WORDS = 6
_MOST_WORDS_IN_TITLE_CASE = 10
_MOST_LETTERS = 60
_MOST_HAN = 24
_MOST_INNER_NAMES = 2
_SAYING_HOW = word_list("headings_saying_how")
# Headings of every other document.
_GENERIC = word_list("generic_headings")


def subjects_of(heading: str) -> tuple[tuple[str, str], ...]:
    """Return the `(name, type)`s that a title or heading stands for, the main one first; often one, maybe none."""
    return _read_heading(heading[:_LONGEST_HEADING])


@lru_cache(maxsize=4096)
def _read_heading(heading: str) -> tuple[tuple[str, str], ...]:
    text = clean_name(_NUMBERING.sub("", plain(_HASHES.sub("", heading))))
    name = clean_name(_BRACKETED_END.sub("", text)) or text
    if not name or name.casefold() in _GENERIC or _FILE_NAME.fullmatch(name):
        return ()
    found = find_names(name)
    if _is_name(name):
        kinds = {clean_name(span.text): span.type for span in found}
        return ((name, kinds.get(name) or _type_of_heading(name)),)
    # A single capital at the start of a heading proves nothing.
    sure = [span for span in found if span.start > 0 or span.type != "unknown" or " " in span.text]
    inner = {clean_name(span.text): span.type for span in sure if not _FILE_NAME.fullmatch(span.text)}
    return tuple((name, kind) for name, kind in inner.items() if name)[:_MOST_INNER_NAMES]


def _type_of_heading(name: str) -> str:
    if _HAN.search(name) or not any(word[0].isupper() for word in name.split()[1:]):
        return "concept"
    return type_of_name(name, "", "")


def _is_name(name: str) -> bool:
    if _LONG_NUMBER.search(name) or not any(letter.isalpha() for letter in name):
        return False
    if _SENTENCE_MARK.search(name) and not _TITLE_WITH_SUBTITLE.fullmatch(name):
        return False
    if _HAN.search(name):
        return 2 <= len(name) <= _MOST_HAN
    words = name.casefold().split()
    most = _MOST_WORDS_IN_TITLE_CASE if _TITLE_CASE.fullmatch(name) else _MOST_WORDS
    return 1 < len(name) <= _MOST_LETTERS and len(words) <= most and _SAYING_HOW.isdisjoint(words)
