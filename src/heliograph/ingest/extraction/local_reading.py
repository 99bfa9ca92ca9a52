"""Which entities occur where in the chunks of one document, before any is chosen.

Chunks in, `ReadChunk`s out: their sentences, and every occurrence of an entity with its place. Names are cleaned, short
names ("Weber") resolved to the full name seen earlier in the document ("Anna Weber"), abbreviations tied to their long
forms, titles and headings found again in the text, and phrases that keep recurring taken for concepts.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from heliograph.ingest.extraction.local_subjects import subjects_of
from heliograph.ingest.extraction.local_words import singular
from heliograph.models import Chunk, Document
from heliograph.text.abbreviations import Abbreviation, find_abbreviations
from heliograph.text.language import HAN
from heliograph.text.name_cues import COMMON_WORDS, DEMONYMS, GIVEN_NAMES, PLACES
from heliograph.text.name_spans import NameSpan, spans_within, without_overlaps
from heliograph.text.name_types import type_of_name
from heliograph.text.names import clean_name, entity_key
from heliograph.text.phrases import Phrase, SentenceReading, phrases_outside, read_texts

__all__ = ["Definition", "DocumentReader", "Occurrence", "ReadChunk"]

_HAN = re.compile(rf"[{HAN}]")
_ARTICLE = re.compile(r"(?:the|an?) (?=[^\W_])(?!hague|gambia)", re.IGNORECASE)
_OPENING = re.compile(r"[\s\"'“‘«(《「*_#>|-]*(?:(?:The|An?) )?")
_FULL_NAME = re.compile(r"[^\W\d_][^\W\d_.'’-]*(?:[ .'’-]+[^\W\d_]+){1,3}")
_NOT_FIRST_NAMES = DEMONYMS | {"new", "north", "south", "east", "west", "great", "san", "santa", "saint", "st"}
_LEAST_REPEATS = 3
_LEAST_REPEATS_HAN = 2
_SHORTEST_HAN_PHRASE = 3
_LONGEST_PHRASE = 80
_WORD = re.compile(r"\S+")


@dataclass(frozen=True, slots=True)
class Occurrence:
    """An entity stands somewhere in a chunk.

    Attributes:
        key: What makes two spellings one entity.
        name: The name to store.
        sentence: Index of the sentence.
        start: First character in the chunk.
        end: One past the last character.
        is_phrase: Whether it is a term found among common words and not a name.
    """

    key: str
    name: str
    sentence: int
    start: int
    end: int
    is_phrase: bool = False


@dataclass(frozen=True, slots=True)
class Definition:
    """A sentence introduces an abbreviation; both forms are keys of entities."""

    short: str
    long: str
    sentence: int


@dataclass(frozen=True, slots=True)
class ReadChunk:
    """A chunk, read.

    Attributes:
        chunk: The chunk.
        sentences: Its sentences.
        occurrences: All occurrences in order.
        definitions: The abbreviations that it introduces.
        subjects: Keys and names of what the chunk is about, the main one first; they need not occur in its text.
    """

    chunk: Chunk
    sentences: Sequence[SentenceReading]
    occurrences: Sequence[Occurrence]
    definitions: Sequence[Definition]
    subjects: dict[str, str]


class DocumentReader:
    """Reads the chunks of one document in order, some at a time, and remembers what it needs of those before.

    Attributes:
        chunk_counts: Per entity key, the chunks read so far that name it.
    """

    def __init__(self, document: Document) -> None:
        self.chunk_counts: Counter[str] = Counter()
        self._title = document.title
        self._full_names: dict[str, str] = {}
        self._types: dict[str, Counter[str]] = {}

    def read(self, chunks: Sequence[Chunk]) -> list[ReadChunk]:
        """Read the next chunks of the document."""
        readings = read_texts([chunk.text for chunk in chunks])
        repeated = _repeated_terms(readings)
        return [self._read_chunk(chunk, found, repeated) for chunk, found in zip(chunks, readings, strict=True)]

    def type_of(self, key: str) -> str:
        """Return the type that most occurrences so far speak for."""
        votes = self._types.get(key, Counter())
        return max(sorted(votes), key=lambda kind: votes[kind] if kind != "unknown" else 0, default="unknown")

    def _read_chunk(self, chunk: Chunk, sentences: list[SentenceReading], repeated: dict[str, str]) -> ReadChunk:
        subjects = self._subjects(chunk)
        abbreviations = find_abbreviations(chunk.text, sentences)
        known = [*_defined_spans(chunk.text, abbreviations), *_find_again(chunk.text, subjects)]
        by_sentence = spans_within(known, [(sentence.start, sentence.end) for sentence in sentences])
        occurrences: list[Occurrence] = []
        settled: list[SentenceReading] = []
        for index, (sentence, inside) in enumerate(zip(sentences, by_sentence, strict=True)):
            settled.append(_without_named(sentence, inside))
            found = list(self._occurrences(without_overlaps([*inside, *sentence.names]), index))
            found.extend(_term_occurrences(chunk.text, settled[index], index, repeated))
            occurrences.extend(sorted(found, key=lambda occurrence: occurrence.start))
        definitions = list(_definitions(abbreviations, occurrences))
        self.chunk_counts.update({occurrence.key for occurrence in occurrences})
        opener = _opener(chunk.text, settled, occurrences)
        keys = {entity_key(name): name for name, _ in subjects} | opener
        return ReadChunk(chunk, settled, occurrences, definitions, keys)

    def _subjects(self, chunk: Chunk) -> list[tuple[str, str]]:
        """Return the names of the nearest heading that has any, and of the title where the chunk has no other."""
        headings = (subjects_of(heading) for heading in reversed(chunk.headings))
        nearest = next((names for names in headings if names), ())
        subjects = [*nearest]
        if not nearest or chunk.position == 0:
            subjects.extend(name for name in subjects_of(self._title) if name not in nearest)
        for name, kind in subjects:
            self._vote(entity_key(name), kind)
            self._full_name(name, kind)
        return subjects

    def _occurrences(self, spans: Iterable[NameSpan], sentence: int) -> Iterator[Occurrence]:
        for span in spans:
            if cleaned := _cleaned(span.text):
                name = self._full_name(cleaned, span.type)
                key = entity_key(name)
                self._vote(key, span.type)
                yield Occurrence(key, name, sentence, span.start, span.end)

    def _vote(self, key: str, kind: str) -> None:
        self._types.setdefault(key, Counter())[kind] += 1

    def _full_name(self, name: str, kind: str) -> str:
        """Return the full name that a short one stands for, and remember full names of persons."""
        if kind not in {"person", "unknown"} or _HAN.search(name):
            return name
        if " " not in name:
            is_word = name[0].isupper() and not name.isupper() and name.lower() not in PLACES
            return self._full_names.get(name.lower(), name) if is_word else name
        words = name.split()
        if not _FULL_NAME.fullmatch(name) or words[0].lower() in _NOT_FIRST_NAMES:
            return name
        return self._remember(words[0].lower(), words[-1], name, kind)

    def _remember(self, first: str, last: str, name: str, kind: str) -> str:
        """Return the name under which a person was first seen, with or without a middle name."""
        if last.lower() not in COMMON_WORDS and last[0].isupper():
            self._full_names.setdefault(last.lower(), name)
        if kind != "person":
            return name
        if first in GIVEN_NAMES:
            self._full_names.setdefault(first, name)
        return self._full_names.setdefault(f"{first} {last.lower()}", name)


def _without_named(sentence: SentenceReading, names: Sequence[NameSpan]) -> SentenceReading:
    """Return the sentence without the phrases that lie within names found by other means."""
    return replace(sentence, phrases=tuple(phrases_outside(sentence.phrases, names))) if names else sentence


def _cleaned(text: str) -> str:
    """Return the name to store, without its article; empty when nothing is left that names anything."""
    name = clean_name(text)
    name = _ARTICLE.sub("", name, count=1) if _ARTICLE.match(name) else name
    return name if len(name) > 1 and any(character.isalpha() for character in name) else ""


def _repeated_terms(readings: Iterable[Iterable[SentenceReading]]) -> dict[str, str]:
    """Return the terms that recur in the phrases of the sentences, name by key."""
    counts: Counter[str] = Counter()
    names: dict[str, str] = {}
    for phrase in (phrase for sentences in readings for sentence in sentences for phrase in sentence.phrases):
        for name, _, _ in _terms(phrase):
            key = entity_key(name)
            counts[key] += 1
            names.setdefault(key, name)
    return {key: name for key, name in names.items() if counts[key] >= _repeats_needed(name)}


def _terms(phrase: Phrase) -> Iterator[tuple[str, int, int]]:
    """Yield the concepts that a phrase may name as `(name, start, end)`, long ones first.

    In English these are its runs of three and of two words, in the singular; in Chinese it is the whole phrase.
    """
    if phrase.is_predicate or not _SHORTEST_HAN_PHRASE <= len(phrase.text) <= _LONGEST_PHRASE:
        return
    if _HAN.match(phrase.text):
        yield clean_name(phrase.text), phrase.start, phrase.end
        return
    words = [match.span() for match in _WORD.finditer(phrase.text)]
    for length in (3, 2):
        for first in range(len(words) - length + 1):
            start, end = words[first][0], words[first + length - 1][1]
            yield singular(clean_name(phrase.text[start:end]).lower()), phrase.start + start, phrase.start + end


def _repeats_needed(name: str) -> int:
    return _LEAST_REPEATS_HAN if _HAN.match(name) else _LEAST_REPEATS


def _term_occurrences(
    text: str, sentence: SentenceReading, index: int, repeated: dict[str, str]
) -> Iterator[Occurrence]:
    """Yield the recurring terms of a sentence, and Chinese noun phrases even if they stand there once."""
    for phrase in sentence.phrases:
        free_from = phrase.start
        for name, start, end in sorted(_terms(phrase), key=lambda term: (term[1], -term[2])):
            key = entity_key(name)
            is_lone = _HAN.match(name) and not _is_attribute(text, phrase)
            if start >= free_from and (key in repeated or is_lone):
                yield Occurrence(key, repeated.get(key, name), index, start, end, is_phrase=True)
                free_from = end


def _is_attribute(text: str, phrase: Phrase) -> bool:
    """Return whether a Chinese phrase only says which property of a thing is told: "X 的 官方语言 是 Y"."""
    return text[phrase.start - 1 : phrase.start] == "的" and text[phrase.end : phrase.end + 1] in set("是为有在由")


def _defined_spans(text: str, abbreviations: Iterable[Abbreviation]) -> Iterator[NameSpan]:
    """Yield both forms of every abbreviation; what the long form is, the short one is too."""
    for abbreviation in abbreviations:
        start, end = abbreviation.long
        long = text[start:end]
        kind = type_of_name(clean_name(long) or "?", "", "") if long[0].isupper() else "concept"
        yield NameSpan(long, start, end, "concept" if kind == "unknown" else kind)
        start, end = abbreviation.short
        yield NameSpan(text[start:end], start, end, "concept" if kind == "unknown" else kind)


def _definitions(abbreviations: Iterable[Abbreviation], occurrences: Iterable[Occurrence]) -> Iterator[Definition]:
    by_span = {(occurrence.start, occurrence.end): occurrence for occurrence in occurrences}
    for abbreviation in abbreviations:
        short, long = by_span.get(abbreviation.short), by_span.get(abbreviation.long)
        if short and long and short.key != long.key:
            yield Definition(short.key, long.key, short.sentence)


def _find_again(text: str, subjects: Sequence[tuple[str, str]]) -> Iterator[NameSpan]:
    """Yield every place where a title's or heading's name stands as a word of its own, in any letter case."""
    for name, kind in subjects:
        pattern = re.escape(name).replace(r"\ ", r"\s+")
        pattern = pattern if _HAN.search(name) else rf"(?<!\w){pattern}(?!\w)"
        for match in re.finditer(pattern, text, re.IGNORECASE):
            yield NameSpan(name, match.start(), match.end(), kind)


def _opener(text: str, sentences: Sequence[SentenceReading], occurrences: Sequence[Occurrence]) -> dict[str, str]:
    """Return the entity with which the chunk opens, if it opens with one."""
    for occurrence in occurrences:
        sentence = sentences[occurrence.sentence]
        if text[sentence.start] == "#":
            continue
        opening = _OPENING.match(text, sentence.start)
        is_first = occurrence.sentence == 0 or text[sentences[occurrence.sentence - 1].start] == "#"
        is_opener = is_first and opening is not None and occurrence.start <= opening.end()
        return {occurrence.key: occurrence.name} if is_opener else {}
    return {}
