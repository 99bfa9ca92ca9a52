"""Terms that are no names: recurring phrases, Chinese noun phrases, and values that Chinese sentences state.

Phrases of a sentence (`heliograph.text.phrases`) in, terms with their places out.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from heliograph.ingest.extraction.local_words import singular
from heliograph.text.language import HAN
from heliograph.text.name_spans import NameSpan
from heliograph.text.names import clean_name, entity_key
from heliograph.text.phrases import Phrase, SentenceReading

__all__ = ["Term", "kept_terms", "repeated_terms", "sentence_terms", "stated_values"]

_HAN = re.compile(rf"[{HAN}]")
_WORD = re.compile(r"\S+")
_LEAST_REPEATS = 3
_LEAST_REPEATS_HAN = 2
_SHORTEST_HAN_PHRASE = 3
_LONGEST_PHRASE = 80
# "柳江的主要支流是寨蒿河。": what is said to be the attribute of something.
_STATED = re.compile(
    rf"的[{HAN}A-Za-z]{{1,12}}?(?:是|叫做?|名为)(?P<value>[^，。；：！？、的是了在与和及或\s\d][^，。；：！？、的是了在与和及或]{{1,11}})(?=[。；，]|$)"
)


@dataclass(frozen=True, slots=True)
class Term:
    """A term that a phrase may name, and where it stands; `is_lone` if it may be one even if it stands there once."""

    key: str
    name: str
    start: int
    end: int
    is_lone: bool = False


def sentence_terms(sentence: SentenceReading) -> list[Term]:
    """Return the terms that the phrases of a sentence may name, in order, longer ones first."""
    terms = [term for phrase in sentence.phrases for term in _terms(phrase)]
    return sorted(terms, key=lambda term: (term.start, -term.end))


def repeated_terms(sentences: Iterable[Sequence[Term]]) -> dict[str, str]:
    """Return the terms that recur in the sentences, name by key."""
    counts: Counter[str] = Counter()
    names: dict[str, str] = {}
    for terms in sentences:
        for term in terms:
            counts[term.key] += 1
            names.setdefault(term.key, term.name)
    return {key: name for key, name in names.items() if counts[key] >= _repeats_needed(name)}


def kept_terms(text: str, terms: Iterable[Term], repeated: dict[str, str]) -> Iterator[Term]:
    """Yield the recurring terms of a sentence, and Chinese noun phrases even if they stand there once."""
    free_from = 0
    for term in terms:
        if term.start >= free_from and (term.key in repeated or (term.is_lone and not _is_attribute(text, term))):
            yield Term(term.key, repeated.get(term.key, term.name), term.start, term.end)
            free_from = term.end


def stated_values(text: str, sentence: SentenceReading) -> Iterator[NameSpan]:
    """Yield what a Chinese sentence states as the value of an attribute, however the word model cuts it."""
    for match in _STATED.finditer(text, sentence.start, sentence.end):
        yield NameSpan(match["value"], match.start("value"), match.end("value"), "unknown")


def _terms(phrase: Phrase) -> Iterator[Term]:
    """Yield the concepts that a phrase may name.

    In English these are its runs of three and of two words, in the singular; in Chinese it is the whole phrase.
    """
    if phrase.is_predicate or not _SHORTEST_HAN_PHRASE <= len(phrase.text) <= _LONGEST_PHRASE:
        return
    if _HAN.match(phrase.text):
        name = clean_name(phrase.text)
        yield Term(entity_key(name), name, phrase.start, phrase.end, is_lone=True)
        return
    if " " not in phrase.text and "\n" not in phrase.text:
        return
    words = [match.span() for match in _WORD.finditer(phrase.text)]
    for length in (3, 2):
        for first in range(len(words) - length + 1):
            start, end = words[first][0], words[first + length - 1][1]
            name = singular(clean_name(phrase.text[start:end]).lower())
            yield Term(entity_key(name), name, phrase.start + start, phrase.start + end)


def _repeats_needed(name: str) -> int:
    return _LEAST_REPEATS_HAN if _HAN.match(name) else _LEAST_REPEATS


def _is_attribute(text: str, term: Term) -> bool:
    """Return whether a Chinese phrase only says which property of a thing is told: "X 的 官方语言 是 Y"."""
    return text[term.start - 1 : term.start] == "的" and text[term.end : term.end + 1] in set("是为有在由")
