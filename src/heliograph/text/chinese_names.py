"""Names and content words in Chinese sentences, from the words and tags of `heliograph.text.chinese`.

The model cuts long names apart ("中国 / 煤炭科工集团 / 重庆设计研究院"), so neighbouring words grow together where they
begin with a proper name and end in a word that closes one ("研究院", "区", "战争"). Persons stand alone. A place with
a general noun ("韩国 政府") stays the place.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from heliograph.text.chinese import TaggedWord
from heliograph.text.language import HAN, stop_words
from heliograph.text.name_cues import COMMON_WORDS
from heliograph.text.name_spans import NameSpan
from heliograph.text.word_lists import word_list

__all__ = ["chinese_names", "chinese_phrases"]

_TYPES = {"PER": "person", "LOC": "location", "ORG": "organization", "nw": "content", "nz": "unknown"}
_GROWING = frozenset({"LOC", "ORG", "nz"})
_PARTS = _GROWING | {"PER", "n", "vn", "an", "f"}
_PHRASE_TAGS = frozenset({"n", "vn", "an", "nz", "ORG", "LOC", "PER", "nw"})
_PREDICATES = frozenset({"v", "a", "vd"})
_LONGEST_PHRASE = 4
_LONGEST_NAME = 40

_CLOSING_TYPES = {
    ending: kind
    for kind in ("artifact", "content", "location", "organization", "event")
    for ending in word_list(f"zh_closing_{kind}")
}
_LONGEST_ENDING = max(map(len, _CLOSING_TYPES))
# After a place these are common nouns, not the end of its name.
_GENERAL_NOUNS = word_list("zh_general_nouns")
_HAN = re.compile(rf"[{HAN}]")
_NO_NAME = re.compile(r"[\d\W_]*")
# The model takes "ESP32芯片和TLS 1.3" for one word.
_JOINS_LATIN = re.compile(r"\s|(?:[和与及、][A-Za-z])|(?:[A-Za-z\d][和与及、])")
_DOTS = frozenset("·・•‧")


def chinese_names(words: Sequence[TaggedWord], offset: int) -> list[NameSpan]:
    """Return the names in one sentence, in order and without overlap.

    Args:
        words: The sentence's words.
        offset: Where the sentence begins in its text; added to every place.
    """
    names: list[NameSpan] = []
    for run in _runs(_with_dots_joined(words), _PARTS | {"nw"}):
        names.extend(_names_in_run(run, offset))
    return names


def chinese_phrases(words: Sequence[TaggedWord], offset: int) -> Iterator[tuple[int, int, bool]]:
    """Yield content phrases as `(start, end, is_predicate)`: runs of nouns, at most four words; verbs, adjectives."""
    for run in _runs(words, _PHRASE_TAGS | _PREDICATES):
        nouns: list[TaggedWord] = []
        for word in run:
            is_noun = word.tag in _PHRASE_TAGS
            if not is_noun or len(nouns) == _LONGEST_PHRASE:
                yield from _phrase(nouns, offset, is_predicate=False)
                nouns = []
            if is_noun:
                nouns.append(word)
            else:
                yield from _phrase([word], offset, is_predicate=True)
        yield from _phrase(nouns, offset, is_predicate=False)


def _phrase(words: list[TaggedWord], offset: int, *, is_predicate: bool) -> Iterator[tuple[int, int, bool]]:
    text = "".join(word.text for word in words)
    if len(text) >= 2 and text not in stop_words("zh") and not _NO_NAME.fullmatch(text):
        yield offset + words[0].start, offset + words[-1].end, is_predicate


def _runs(words: Sequence[TaggedWord], tags: frozenset[str]) -> Iterator[list[TaggedWord]]:
    """Yield the longest runs of neighbouring words that bear these tags."""
    run: list[TaggedWord] = []
    for word in words:
        if word.tag in tags and not word.text.isspace():
            run.append(word)
        elif run:
            yield run
            run = []
    if run:
        yield run


def _with_dots_joined(words: Sequence[TaggedWord]) -> list[TaggedWord]:
    """Join the parts of a foreign name such as "罗伯特 · 艾格" where the model cut it at the dot."""
    joined: list[TaggedWord] = []
    for word in words:
        last = joined[-1] if joined and len(joined[-1].text) < _LONGEST_NAME else None
        if last and word.tag in _PARTS and last.text[-1] in _DOTS:
            joined[-1] = TaggedWord(last.text + word.text, last.start, word.tag if word.tag in _TYPES else last.tag)
        elif last and word.text in _DOTS and last.tag in _PARTS:
            joined[-1] = TaggedWord(last.text + word.text, last.start, last.tag)
        else:
            joined.append(word)
    return joined


def _names_in_run(run: list[TaggedWord], offset: int) -> Iterator[NameSpan]:
    first = 0
    while first < len(run):
        last = _last_part(run, first)
        if last < first:
            first += 1
            continue
        yield from _span(run[first : last + 1], offset)
        first = last + 1


def _last_part(run: list[TaggedWord], first: int) -> int:
    """Return the index of the last word of the name that begins at `first`, or less when none begins there."""
    tag = run[first].tag
    if tag not in _TYPES:
        return first - 1
    if tag == "nw":
        return first
    if tag == "PER":
        closes = first + 1 < len(run) and len(run[first + 1].text) > 2 and _closing_type(run[first + 1].text)
        return first + 1 if closes else first
    last = first
    length = len(run[first].text)
    for index in range(first + 1, len(run)):
        length += len(run[index].text)
        if run[index].tag in {"PER", "nw"} or length > _LONGEST_NAME:
            break
        is_same_place = tag == "LOC" and run[index].tag == "LOC" and last == index - 1
        # "伊朗 东南部" is a part of a place, not a body.
        closes = "" if run[index].tag == "f" else _closing_type(run[index].text)
        # "MQTT 协议" is known as "MQTT".
        is_product = closes == "artifact" and not _HAN.search(run[first].text)
        if is_same_place or (closes and not is_product and not _is_general(run, first, index)):
            last = index
    return last


def _is_general(run: list[TaggedWord], first: int, index: int) -> bool:
    return index == first + 1 and run[first].tag != "nz" and run[index].text in _GENERAL_NOUNS


def _closing_type(word: str) -> str:
    """Return the type that a name gets from its last characters; empty when they close no name."""
    for length in range(min(_LONGEST_ENDING, len(word)), 0, -1):
        if kind := _CLOSING_TYPES.get(word[-length:]):
            return kind
    return ""


def _span(words: list[TaggedWord], offset: int) -> Iterator[NameSpan]:
    text = "".join(word.text for word in words).strip("".join(_DOTS))
    if not 2 <= len(text) <= _LONGEST_NAME or _NO_NAME.fullmatch(text) or text in stop_words("zh"):
        return
    if _JOINS_LATIN.search(text) or (not _HAN.search(text) and not _is_latin_name(text)):
        return
    kind = _TYPES[words[0].tag]
    if len(words) > 1 or kind == "unknown":
        kind = _closing_type(text) or kind
    start = offset + words[0].start
    yield NameSpan(text, start, start + len(text), kind)


def _is_latin_name(text: str) -> bool:
    return len(text) > 2 and text.casefold() not in stop_words("en") and text.casefold() not in COMMON_WORDS
