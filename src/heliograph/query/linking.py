"""Links the words of a question to the entities that they name, and finds the paths between these.

Names are matched exactly first, then as aliases, misspelt names and near matches.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, combinations, islice
from operator import attrgetter
from string import ascii_lowercase, ascii_uppercase
from typing import NamedTuple

from rapidfuzz.distance import OSA
from rapidfuzz.process import extractOne

from heliograph.calls.tasks import run_together
from heliograph.ids import MAX_NAME_LENGTH, entity_id, entity_key, name_to_entity_id
from heliograph.models import Entity, EntityEvidence, EntityMention, GraphPath
from heliograph.stores.base import EntityPlaces, GraphStore, Store, StoreView, places_of
from heliograph.stores.changeset import Collection
from heliograph.text.analysis import HAN, terms
from heliograph.text.patterns import late_pattern


@dataclass(frozen=True, slots=True)
class LinkedEntity:
    """An entity that the question names.

    Attributes:
        start: Offset of its first character in the question.
        end: Offset one past its last character.
        chunk_ids: Chunks that are about it, in canonical order, as far as they were read.
    """

    id: str
    name: str
    start: int
    end: int
    chunk_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Respelt:
    """A question with its misspelt names corrected, and the `(written, corrected)` pair of each such word."""

    question: str
    changes: tuple[tuple[str, str], ...] = ()

    def read(self, part: str) -> str:
        """Return a part or a rewriting of the question with the same corrections."""
        for written, read in self.changes:
            part = re.sub(rf"\b{re.escape(written)}\b", lambda _, read=read: read, part)
        return part


# The entities that a text names: every run of words that is the name of one.
#
# Runs are looked up by the id that a name maps to, so case, width and quotation marks do not matter and no index is
# searched. In a question every run of up to twelve words (in Chinese: characters) is tried, but one of more than five
# only if its first and last word begin with a capital or a digit, unless the question has no capitals. In a passage
# only such runs within a sentence are tried, in Chinese only those near its start. This finds entities that an
# extractor missed in the passage, if another passage is about them. Of nested names the longest counts.

_UNIT = late_pattern(rf"[{HAN}]|[^\W{HAN}]+")
_HAN = late_pattern(rf"[{HAN}]")
_SPACE = late_pattern(r"\s+")
# Possible ends of a sentence; the first two signs end one only if the word before begins with a lower-case letter.
# A name may continue after a line break, but not into another paragraph, a heading or a list item.
_STOP = late_pattern(r"[.;。！？；，、：]|\n(?=[ \t]*\n|[ \t]*(?:[-*+#>|•]|\d{1,3}[.)][ \t]))")
_UNSURE_STOPS = ".;"
# The last digit of a number and the sign that joins the next number to it.
_NUMBERS_JOINED = late_pattern(r"\d[-.:/](?=\d)")
_ASCII_QUOTES = "\"'`"
_WITHOUT_QUOTES = str.maketrans("", "", _ASCII_QUOTES)
# Characters for which lower-casing alone does not give the key of a name: non-ASCII, quotation marks, double spaces.
_UNEVEN = late_pattern(rf"[^ -~]|[{_ASCII_QUOTES}]| (?= )")
_ASCII_LOWER = str.maketrans(ascii_uppercase, ascii_lowercase)
_LONGEST = 12
_LONGEST_IN_SMALL_LETTERS = 5
_LONGEST_IN_PASSAGE = 6
# A question has some twenty words; in a pasted text only the start is read.
_MOST_UNITS = 96
# Runs tried in one passage: all of an English one of 300 words, the first 40 characters of a Chinese one.
_MOST_RUNS = 480
_AROUND = 100
_NOT_ABOUT = (1 << 63) - 1


class QuestionSpan(NamedTuple):
    """A run of words that may be a name: its text, its span, and the id of the entity of that name.

    It is a tuple because a question has hundreds of them.
    """

    text: str
    start: int
    end: int
    entity_id: str


@dataclass(frozen=True, slots=True)
class Named:
    """Entities that a question names: in order those not nested in a longer name, and the ids of all of them."""

    longest: tuple[LinkedEntity, ...] = ()
    all_ids: frozenset[str] = frozenset()


def question_spans(question: str) -> list[QuestionSpan]:
    """Return every run of words that may be a name, deduplicated by entity id."""
    units = [match.span() for _, match in zip(range(_MOST_UNITS), _UNIT.finditer(question), strict=False)]
    # A question with capitals, other than at the start and in "I", has them in long names too.
    has_capitals = any(question[start].isupper() and end - start > 1 for start, end in units[1:])
    longest = _LONGEST_IN_SMALL_LETTERS if has_capitals else _LONGEST
    begins = [_begins_name(question[start]) for start, _ in units]
    runs = [
        (start, end)
        for first, (start, _) in enumerate(units)
        for last, (_, end) in enumerate(units[first : first + _LONGEST], start=first)
        if last - first < longest or (begins[first] and begins[last])
    ]
    return [QuestionSpan(question[start:end], start, end, id_) for id_, (start, end) in _by_id(question, runs).items()]


def passage_runs(text: str, extracted: Iterable[str] = ()) -> dict[str, tuple[int, int]]:
    """Return the spans in a passage that look like names, by the id of the entity of that name.

    Runs within names that an extractor found in the passage are left out.
    """
    return _by_id(text, _name_runs(text, _NamedParts(text, extracted))[:_MOST_RUNS])


class _NamedParts:
    """The spans of known names in a text."""

    def __init__(self, text: str, names: Iterable[str]) -> None:
        ends: dict[int, int] = {}
        for name in set(names):
            start = text.find(name) if name else -1
            while start >= 0:
                ends[start] = max(ends.get(start, 0), start + len(name))
                start = text.find(name, start + 1)
        self._starts = sorted(ends)
        # A name that begins earlier may reach further.
        self._reached = list(accumulate((ends[start] for start in self._starts), max))

    def reach(self, place: int) -> int:
        """Return the furthest end of the names that begin at or before a position, 0 if there are none."""
        order = bisect_right(self._starts, place)
        return self._reached[order - 1] if order else 0


def _name_runs(text: str, extracted: _NamedParts) -> list[tuple[int, int]]:
    """Return the runs in order; a long text may yield some more than `_MOST_RUNS`."""
    units = [match.span() for match in _UNIT.finditer(text)]
    # Starts and ends of numbers within longer ones, such as 192.168.0.1: these parts are no names.
    inner = {place for match in _NUMBERS_JOINED.finditer(text) for place in (match.start() + 1, match.end())}
    # Certain ends of sentences, and the end of the text; after an initial or "Bros." a name may continue.
    ends: list[int] = []
    for match in _STOP.finditer(text):
        stop = match.start()
        is_sure = text[stop] not in _UNSURE_STOPS
        if not is_sure and text[stop + 1 : stop + 2].isspace() and (before := bisect_left(units, (stop, 0))):
            begin, end = units[before - 1]
            is_sure = end == stop and text[begin].islower()
        if is_sure:
            ends.append(stop)
    ends.append(len(text))
    runs: list[tuple[int, int]] = []
    # Among ASCII word characters, digits and capitals sort before all others.
    bounds = [
        place
        for place, (start, _) in enumerate(units)
        if (sign := text[start]) <= "Z" or (sign > "~" and _begins_name(sign))
    ]
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


def _begins_name(sign: str) -> bool:
    return sign.isupper() or sign.isdigit() or (sign > "~" and _HAN.match(sign) is not None)


def _by_id(text: str, runs: Sequence[tuple[int, int]]) -> dict[str, tuple[int, int]]:
    """Map entity ids to the runs with that name; of equal names the longest run wins, then the first."""
    found: dict[str, tuple[int, int]] = {}
    lowered = text.lower() if text.isascii() else text.translate(_ASCII_LOWER)
    # Most questions contain nothing `_UNEVEN`, which this check finds quickly.
    is_plain = text.isascii() and text.isprintable() and not any(sign in text for sign in (*_ASCII_QUOTES, "  "))
    uneven = [] if is_plain else [match.start() for match in _UNEVEN.finditer(text)]
    for run in runs:
        start, end = run
        place = bisect_left(uneven, start)
        is_even = (place == len(uneven) or uneven[place] >= end) and end - start <= MAX_NAME_LENGTH
        key = lowered[start:end] if is_even else _key(text[start:end])
        known = found.setdefault(key, run)
        if known is not run and known[1] - known[0] < end - start:
            found[key] = run
    return {entity_id(key): run for key, run in found.items() if len(key) > 1}


def _key(run: str) -> str:
    """Return the key of a name; plain ASCII skips the full normalisation, which would not change it further."""
    if run.isascii() and len(run) <= MAX_NAME_LENGTH:
        text = " ".join(run.split())
        if text.isprintable():
            return text.strip(_ASCII_QUOTES + " ").lower().translate(_WITHOUT_QUOTES)
    return entity_key(_SPACE.sub(" ", unicodedata.normalize("NFKC", run)))


def link_entities(spans: Sequence[QuestionSpan], places: Mapping[str, EntityPlaces]) -> Named:
    """Return the entities that a question's runs name, given the mention places of the entities that exist."""
    known = [span for span in spans if span.entity_id in places]
    linked = tuple(
        LinkedEntity(span.entity_id, span.text, span.start, span.end, places[span.entity_id].about)
        for span in sorted(_longest(known), key=attrgetter("start"))
    )
    return Named(linked, frozenset(span.entity_id for span in known))


def named_in_passage(
    chunk_id: str, text: str, runs: Mapping[str, tuple[int, int]], places: Mapping[str, EntityPlaces]
) -> list[EntityMention]:
    """Return mentions, in order, of the entities that a passage names and that other passages are about."""
    known = [
        QuestionSpan(text[start:end], start, end, id_)
        for id_, (start, end) in runs.items()
        if (told := places.get(id_)) is not None and any(about != chunk_id for about in told.chunk_ids[: told.subjects])
    ]
    return [
        EntityMention(
            *(chunk_id, span.text, "unknown", text[max(0, span.start - _AROUND) : span.end + _AROUND]),
            *(_NOT_ABOUT, span.entity_id),
        )
        for span in sorted(_longest(known), key=attrgetter("start"))
    ]


def is_name_like(run: str) -> bool:
    """Return whether the first and last word of a run each begin with a capital, a digit or a Chinese character."""
    if "a" <= run[:1] <= "z":
        return False
    units: list[str] = _UNIT.findall(run)
    return bool(units) and _begins_name(units[0][0]) and _begins_name(units[-1][0])


def _longest(spans: Sequence[QuestionSpan]) -> list[QuestionSpan]:
    """Return the spans that are not nested in a longer one."""
    return [
        span
        for span in spans
        if not any(
            other.start <= span.start and span.end <= other.end and other.end - other.start > span.end - span.start
            for other in spans
        )
    ]


# Misspelt names in a question: words in no document, corrected to a similar word that is in one.
#
# Only a word in no document is corrected, so an existing name is never replaced by another. Corrections come only from
# the chunks nearest to the question by vector, which a typing error hardly affects. Scripts without letter case, such
# as Chinese, have no such words.

# Letters of scripts that put spaces between words, unlike Chinese, Thai and Japanese; Korean is left out too.
_LETTER = rf"[^\W\d_{HAN}\u0e00-\u0eff\u1100-\u11ff\u3041-\u30ff\uac00-\ud7af]"
# Whole words of letters; a word with digits or hyphens is an identifier, in which every character counts.
_WORD = late_pattern(rf"(?<![\d_-])(?<!{_LETTER}){_LETTER}{{5,}}(?![\d_-])(?!{_LETTER})")
# Edits: a letter omitted, inserted, changed or swapped with the next; with two it may be another name (Australia,
# Austria).
_MOST_SLIPS = 1
_MOST_WORDS = 8
_CHUNKS_READ = 20


async def respell(store: StoreView, question: str, named: Named, near: Sequence[str]) -> Respelt:
    """Return the question with its misspelt names corrected where a similar word is found.

    Args:
        store: Queried once for words, and once for chunks if a word is in no document.
        question: The question.
        named: The entities it names; their names are not corrected.
        near: Ids of chunks near it by vector, nearest first.
    """
    # Words outside known names that may be names: the capitalised ones or, in a question without capitals, all.
    has_capitals = any(character.isupper() for character in question[1:])
    free = (
        word
        for word in _WORD.finditer(question)
        if not any(entity.start < word.end() and word.start() < entity.end for entity in named.longest)
    )
    cased = (word for word in free if (word[0][0].isupper() if has_capitals else word[0].lower() != word[0].upper()))
    words = list(islice(cased, _MOST_WORDS))
    phrases = [terms(word.group()) for word in words]
    if not near or not any(phrases):
        return Respelt(question)
    are_held = await store.text.hold_phrases(Collection.CHUNKS, phrases)
    unknown = [word for word, phrase, is_held in zip(words, phrases, are_held, strict=True) if phrase and not is_held]
    if not unknown:
        return Respelt(question)
    chunks = await store.records.get_chunks(near[:_CHUNKS_READ])
    # Each unknown word is corrected to the most similar word of these chunks, if one is similar enough.
    spelt: dict[str, str] = {}
    for chunk in chunks:
        for found in _WORD.findall(chunk.text):
            spelt.setdefault(found.lower(), found)
    pieces: list[str] = []
    changes: list[tuple[str, str]] = []
    end = 0
    for word in unknown:
        written = word.group()
        # The first letter is hardly ever misspelt, and names that differ in it are different names.
        same_start = [key for key in spelt if key[0] == written[0].lower()]
        if nearest := extractOne(written.lower(), same_start, scorer=OSA.distance, score_cutoff=_MOST_SLIPS):
            pieces += question[end : word.start()], spelt[nearest[0]]
            changes.append((written, spelt[nearest[0]]))
            end = word.end()
    return Respelt("".join((*pieces, question[end:])), tuple(changes))


# Entities that a question names by an alias.
#
# An alias (an acronym, a name before a merge or a rename) has no entity of its own: its mentions count for another
# one. So runs that may be names but match no entity are searched as phrases in the names of entities; a run is an alias
# if it equals a whole name in that entity's mentions. Under a filter only names in matching documents count.

# Aliases are short: in a question of twenty words this covers nearly all runs of capitalised words.
_LONGEST_ALIAS = 48
_MOST_PHRASES = 32
# Entities read per phrase; a word in more names than this is seldom an alias.
_PER_PHRASE = 8


def alias_spans(question: str, spans: Sequence[QuestionSpan], named: Named) -> list[QuestionSpan]:
    """Return the runs of a question that may be aliases: name-like, short, and not within a name already found.

    In a question without capitals every run may be an alias.
    """
    has_capitals = any(character.isupper() for character in question[1:])
    free = [
        span
        for span in spans
        if span.end - span.start <= _LONGEST_ALIAS
        and (not has_capitals or is_name_like(span.text))
        and span.entity_id not in named.all_ids
        and not any(entity.start <= span.start and span.end <= entity.end for entity in named.longest)
    ]
    return sorted(free, key=lambda span: (span.end - span.start, span.start))


async def find_aliases(
    store: StoreView, spans: Sequence[QuestionSpan], mentions: int
) -> tuple[list[QuestionSpan], dict[str, EntityPlaces]]:
    """Return the runs that are aliases, each with its entity's id, and the mention places of these entities.

    Args:
        store: Queried once each for phrases, for entities with them in their names, and for evidence of matching ones.
        spans: The result of `alias_spans`.
        mentions: Number of mentions to read per entity.
    """
    phrases: dict[tuple[str, ...], list[QuestionSpan]] = {}
    for span in spans:
        words = tuple(terms(span.text))
        if words and (words in phrases or len(phrases) < _MOST_PHRASES):
            phrases.setdefault(words, []).append(span)
    if not phrases:
        return [], {}
    holders = await store.text.find_phrases(Collection.ENTITIES, list(phrases), _PER_PHRASE)
    tried = [span for group in phrases.values() for span in group]
    names = {span.entity_id for span in tried}
    entities = await store.graph.get_entities(list(dict.fromkeys(id_ for ids in holders for id_ in ids)))
    # Most hold the phrase only within a longer name. They are dropped because evidence of a common entity is large.
    wanted = [item.id for item in entities if not names.isdisjoint(map(name_to_entity_id, (item.name, *item.aliases)))]
    if not wanted:
        return [], {}
    evidence, _ = await store.records.get_evidence(wanted, [], mentions)
    # Per id of a name, the entity with most mentions under this name; ties by id.
    counted: dict[str, tuple[int, str, EntityEvidence]] = {}
    for item in evidence:
        for name, count in item.names.items():
            id_ = name_to_entity_id(name)
            if item.leading and (id_ not in counted or (-count, item.id) < counted[id_][:2]):
                counted[id_] = (-count, item.id, item)
    aliases = {id_: item for id_, (_, _, item) in counted.items()}
    found = [span._replace(entity_id=aliases[span.entity_id].id) for span in tried if span.entity_id in aliases]
    return found, {item.id: places_of(item, mentions) for item in aliases.values()}


# Entities with a name similar to a given one, as suggestions where no entity has that name.
#
# With one edit per four characters, at most two, a part of the name is unchanged; entities are looked up by such parts
# (`NameIndex`) and their names compared. These are suggestions only, never applied automatically: identifiers that
# differ in one digit are different.

_MOST_SLIPS_OF_NAMES = 2
_CHARACTERS_PER_SLIP = 4
_CANDIDATES = 200
# From this length a third of a name is long enough to look up.
_LONG = 12


async def near_entities(store: Store, name: str, view: StoreView | None = None) -> list[Entity]:
    """Return entities with a name or alias similar to `name`, the nearest first; none for short names.

    Without a view all entities of the store count.
    """
    key = entity_key(name)
    slips = min(_MOST_SLIPS_OF_NAMES, len(key) // _CHARACTERS_PER_SLIP)
    if not slips:
        return []
    # Nearly every name within that many edits contains at least one of these parts.
    size = -(-len(key) // (slips + 1))
    parts = [key[start : start + size] for start in range(0, len(key), size)]
    if len(key) < _LONG:
        parts = [key[:2], *(key[start : start + 3] for start in range(len(key) - 2))]
    ids: dict[str, None] = {}
    for part in parts:
        ids |= dict.fromkeys(await store.names.find_names(part, _CANDIDATES))
    entities = await (view or store).graph.get_entities(list(ids))
    ranked: list[tuple[int, Entity]] = []
    for entity in entities:
        # Edit distance (letters omitted, inserted, changed or swapped) to the nearest of its names.
        names = map(entity_key, (entity.name, *entity.aliases))
        ranked.append((min(OSA.distance(key, other, score_cutoff=slips) for other in names), entity))
    ranked.sort(key=lambda item: (item[0], -item[1].degree, item[1].name))
    return [entity for distance, entity in ranked if distance <= slips]


# A question that asks for a connection names two or three things; more are a list.
_MOST_ENTITIES = 3
_MOST_RELATIONS = 3
_PATHS_PER_PAIR = 2
# A hub that everything is related to explains no connection, so the search for paths is bounded.
_MOST_VISITED = 4000


async def find_paths(graph: GraphStore, entity_ids: Sequence[str]) -> tuple[GraphPath, ...]:
    """Return the shortest paths between these entities, at most two per pair and three relations long.

    Only the first three entities count; pairs without a path are left out, and equal paths are deduplicated.
    """
    pairs = list(combinations(list(dict.fromkeys(entity_ids))[:_MOST_ENTITIES], 2))
    if not pairs:
        return ()
    found = await run_together(
        *(
            graph.find_shortest_paths(source, target, _MOST_RELATIONS, _PATHS_PER_PAIR, _MOST_VISITED)
            for source, target in pairs
        )
    )
    paths = {tuple(entity.id for entity in path.entities): path for paths in found for path in paths}
    return tuple(paths.values())


def path_row(path: GraphPath) -> str:
    """Return a path on one line: names joined by arrows."""
    return " -> ".join(entity.name for entity in path.entities)
