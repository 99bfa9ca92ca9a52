"""Which entities a text names: every run of words in it that is the name of one.

Runs are looked up by the id that a name has, so case, width and quotation marks do not matter and nothing is searched.
In a question every run of up to twelve words (of Chinese: characters) is tried, one of more than five only if it begins
and ends in a capital or a digit, unless the question has none. In a passage only runs within a sentence are tried that
begin and end so, and of Chinese those near its start: what an extractor left out of a passage is found again here, if
some other passage is about it. Of names inside one another the longest counts.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from string import ascii_lowercase, ascii_uppercase
from typing import NamedTuple

from heliograph.ids import entity_id
from heliograph.models import EntityMention
from heliograph.query.linking.models import LinkedEntity
from heliograph.stores.base import EntityPlaces
from heliograph.text.language import HAN
from heliograph.text.names import MAX_NAME_LENGTH, entity_key

_UNIT = re.compile(rf"[{HAN}]|[^\W{HAN}]+")
_HAN = re.compile(rf"[{HAN}]")
_SPACE = re.compile(r"\s+")
# Where a sentence may end; at the first two it does where the word before begins with a small letter.
# A line may end within a name, but a paragraph does not, nor a line before a heading or an item of a list.
_STOP = re.compile(r"[.;。！？；，、：]|\n(?=[ \t]*\n|[ \t]*(?:[-*+#>|•]|\d{1,3}[.)][ \t]))")
_UNSURE_STOPS = ".;"
# A number's last digit and the sign between it and another that belongs to it.
_NUMBERS_JOINED = re.compile(r"\d[-.:/](?=\d)")
_ASCII_QUOTES = "\"'`"
_WITHOUT_QUOTES = str.maketrans("", "", _ASCII_QUOTES)
# Where a name is more than letters to be lowered: what is not plain ASCII, quotation marks, the first of two spaces.
_UNEVEN = re.compile(rf"[^ -~]|[{_ASCII_QUOTES}]| (?= )")
_ASCII_LOWER = str.maketrans(ascii_uppercase, ascii_lowercase)
_LONGEST = 12
_LONGEST_IN_SMALL_LETTERS = 5
_LONGEST_IN_PASSAGE = 6
# A question has some twenty words; what is asked about a pasted text stands at its start or is not short.
_MOST_UNITS = 96
# Runs tried in one passage: all of an English one of 300 words, the first 40 characters of a Chinese one.
_MOST_RUNS = 480
_AROUND = 100
_NOT_ABOUT = (1 << 63) - 1


class NameSpan(NamedTuple):
    """A run of words that may be a name: its text, where it stands, and the id of the entity of that name.

    A tuple, since a question makes hundreds of them.
    """

    text: str
    start: int
    end: int
    entity_id: str


@dataclass(frozen=True, slots=True)
class Named:
    """Entities that a question names.

    Attributes:
        linked: The longest ones, in the order of the question.
        ids: Ids of all, also of those inside longer names.
    """

    linked: tuple[LinkedEntity, ...] = ()
    ids: frozenset[str] = frozenset()


def question_spans(question: str) -> list[NameSpan]:
    """Return every run of words that may be a name, each id once."""
    units = [match.span() for _, match in zip(range(_MOST_UNITS), _UNIT.finditer(question), strict=False)]
    # Who writes capitals, other than at the start and in "I", writes them in long names too.
    has_capitals = any(question[start].isupper() and end - start > 1 for start, end in units[1:])
    longest = _LONGEST_IN_SMALL_LETTERS if has_capitals else _LONGEST
    begins = [_begins_name(question[start]) for start, _ in units]
    runs = [
        (start, end)
        for first, (start, _) in enumerate(units)
        for last, (_, end) in enumerate(units[first : first + _LONGEST], start=first)
        if last - first < longest or (begins[first] and begins[last])
    ]
    return [NameSpan(question[start:end], start, end, id_) for id_, (start, end) in _by_id(question, runs).items()]


def passage_runs(text: str, extracted: Iterable[str] = ()) -> dict[str, tuple[int, int]]:
    """Return where in a passage stands what looks like a name: start and end by the id of the entity of that name.

    Args:
        text: The passage.
        extracted: Names that an extractor found in it; runs within them are left out.
    """
    return _by_id(text, _name_runs(text, _NamedParts(text, extracted))[:_MOST_RUNS])


class _NamedParts:
    """Where names stand in a text."""

    def __init__(self, text: str, names: Iterable[str]) -> None:
        ends: dict[int, int] = {}
        for name in set(names):
            start = text.find(name) if name else -1
            while start >= 0:
                ends[start] = max(ends.get(start, 0), start + len(name))
                start = text.find(name, start + 1)
        self._starts = sorted(ends)
        # What begins earlier may reach further.
        self._reached = list(accumulate((ends[start] for start in self._starts), max))

    def reach(self, place: int) -> int:
        """Return the end of the name in which a place lies, 0 if it is in none."""
        order = bisect_right(self._starts, place)
        return self._reached[order - 1] if order else 0


def _name_runs(text: str, extracted: _NamedParts) -> list[tuple[int, int]]:
    """Return the runs in order; some more than are tried, where a text has so many."""
    units = [match.span() for match in _UNIT.finditer(text)]
    inner = _inner_numbers(text)
    ends = _sentence_ends(text, units)
    runs: list[tuple[int, int]] = []
    bounds = [place for place, (start, _) in enumerate(units) if text[start] <= "Z" or _begins_name(text[start])]
    for order, first in enumerate(bounds):
        start = units[first][0]
        if start in inner:
            continue
        longest = _LONGEST if text[start] > "~" and _HAN.match(text[start]) else _LONGEST_IN_PASSAGE
        sentence_end = ends[bisect_left(ends, start)]
        named_end = extracted.reach(start)
        for last in bounds[order : order + longest]:
            end = units[last][1]
            if last - first >= longest or end > sentence_end:
                break
            if end > named_end and end not in inner:
                runs.append((start, end))
        if len(runs) >= _MOST_RUNS:
            break
    return runs


def _sentence_ends(text: str, units: Iterable[tuple[int, int]]) -> list[int]:
    """Return where sentences surely end, and where the text does; after an initial or "Bros." a name may go on."""
    begins = {end: start for start, end in units}
    ends: list[int] = []
    for match in _STOP.finditer(text):
        stop = match.start()
        begin = begins.get(stop)
        is_small = begin is not None and text[begin].islower() and text[stop + 1 : stop + 2].isspace()
        if is_small or text[stop] not in _UNSURE_STOPS:
            ends.append(stop)
    return [*ends, len(text)]


def _begins_name(sign: str) -> bool:
    return sign.isupper() or sign.isdigit() or (sign > "~" and _HAN.match(sign) is not None)


def _inner_numbers(text: str) -> set[int]:
    """Return where numbers start and end within longer ones, such as 192.168.0.1: these parts are no names."""
    return {place for match in _NUMBERS_JOINED.finditer(text) for place in (match.start() + 1, match.end())}


def _by_id(text: str, runs: Sequence[tuple[int, int]]) -> dict[str, tuple[int, int]]:
    """Return runs, given in order, by the id of the entity of that name: of equal names the longest, the first."""
    found: dict[str, tuple[int, int]] = {}
    lowered = text.lower() if text.isascii() else _ascii_lowered(text)
    uneven = [] if _is_plain(text) else [match.start() for match in _UNEVEN.finditer(text)]
    for run in runs:
        start, end = run
        place = bisect_left(uneven, start)
        is_even = (place == len(uneven) or uneven[place] >= end) and end - start <= MAX_NAME_LENGTH
        key = lowered[start:end] if is_even else _key(text[start:end])
        known = found.setdefault(key, run)
        if known is not run and known[1] - known[0] < end - start:
            found[key] = run
    return {entity_id(key): run for key, run in found.items() if len(key) > 1}


def _is_plain(text: str) -> bool:
    """Return whether nothing in a text is `_UNEVEN`, as is quickly seen of most questions."""
    return text.isascii() and text.isprintable() and not any(sign in text for sign in (*_ASCII_QUOTES, "  "))


def _ascii_lowered(text: str) -> str:
    """Return a text with its ASCII letters in lower case, every character where it was."""
    return text.translate(_ASCII_LOWER)


def _key(run: str) -> str:
    """Return the key of a name; of a run of plain ASCII without the full cleaning, which changes nothing else in it."""
    if run.isascii() and len(run) <= MAX_NAME_LENGTH:
        text = " ".join(run.split())
        if text.isprintable():
            return text.strip(_ASCII_QUOTES + " ").lower().translate(_WITHOUT_QUOTES)
    return entity_key(_SPACE.sub(" ", unicodedata.normalize("NFKC", run)))


def link_entities(spans: Sequence[NameSpan], places: Mapping[str, EntityPlaces]) -> Named:
    """Return the entities among the runs of a question, given where those that exist are mentioned."""
    known = [span for span in spans if span.entity_id in places]
    linked = tuple(_linked(span, places[span.entity_id]) for span in sorted(_longest(known), key=_start))
    return Named(linked, frozenset(span.entity_id for span in known))


def named_in_passage(
    chunk_id: str, text: str, runs: Mapping[str, tuple[int, int]], places: Mapping[str, EntityPlaces]
) -> list[EntityMention]:
    """Return mentions of the entities that a passage names and that other passages are about, in order.

    Args:
        chunk_id: The passage.
        text: Its text.
        runs: What `passage_runs` gave for it.
        places: Where those that exist are mentioned.
    """
    known = [
        NameSpan(text[start:end], start, end, id_)
        for id_, (start, end) in runs.items()
        if _is_told_elsewhere(chunk_id, places.get(id_))
    ]
    return [
        EntityMention(chunk_id, span.text, "unknown", _around(text, span), _NOT_ABOUT, span.entity_id)
        for span in sorted(_longest(known), key=_start)
    ]


def is_name_like(run: str) -> bool:
    """Return whether a run of words begins and ends in one with a capital or a digit first, or is Chinese."""
    if "a" <= run[:1] <= "z":
        return False
    units: list[str] = _UNIT.findall(run)
    return bool(units) and _begins_name(units[0][0]) and _begins_name(units[-1][0])


def is_one_word(name: str) -> bool:
    """Return whether a name is a single word, or two Chinese characters at the most."""
    return len(name) <= 2 if _HAN.search(name) else len(name.split()) == 1


def _start(span: NameSpan) -> int:
    return span.start


def _longest(spans: Sequence[NameSpan]) -> list[NameSpan]:
    return [span for span in spans if not any(_is_within(span, other) for other in spans)]


def _is_within(span: NameSpan, other: NameSpan) -> bool:
    return other.start <= span.start and span.end <= other.end and other.end - other.start > span.end - span.start


def _linked(span: NameSpan, places: EntityPlaces) -> LinkedEntity:
    return LinkedEntity(span.entity_id, span.text, span.start, span.end, places.about)


def _is_told_elsewhere(chunk_id: str, places: EntityPlaces | None) -> bool:
    return places is not None and any(about != chunk_id for about in places.chunk_ids[: places.subjects])


def _around(text: str, span: NameSpan) -> str:
    return text[max(0, span.start - _AROUND) : span.end + _AROUND]
