"""Relations of a chunk: sentences in which two of its entities meet.

The sentence is the description, the words between the two names are the keywords. A sentence with one entity relates
it to what the section is about. Neighbours in a sentence count more than distant ones, and of all candidates a bounded
number is kept: first those that tie in an entity not yet related, then the best of the rest.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from heliograph.ids import mention_rank
from heliograph.ingest.extraction.local_mentions import ChosenEntity
from heliograph.ingest.extraction.local_occurrences import Occurrence, ReadChunk
from heliograph.ingest.extraction.local_words import excerpt, keywords_between
from heliograph.models import RelationMention
from heliograph.text.language import is_chinese

__all__ = ["choose_relations"]

_LISTED = re.compile(r"(?:\s|[,、，&/;；()（）和与及或]|and|or)*")
_NEAR = 100
_MOST_IN_SENTENCE = 8
_FAR_WEIGHT = 0.5


@dataclass(frozen=True, slots=True)
class _Candidate:
    source: str
    target: str
    sentence: int
    start: int
    end: int
    weight: float
    score: float
    keywords: tuple[str, ...] = ()


def choose_relations(read: ReadChunk, entities: Mapping[str, ChosenEntity], limit: int) -> list[RelationMention]:
    """Return at most `limit` relations between the chosen entities, each pair once, in order of the text."""
    best: dict[frozenset[str], _Candidate] = {}
    for candidate in _candidates(read, entities):
        pair = frozenset((candidate.source, candidate.target))
        if len(pair) == 2 and (pair not in best or candidate.score > best[pair].score):
            best[pair] = candidate
    ranked = sorted(best.values(), key=lambda candidate: (-candidate.score, candidate.start, candidate.target))
    kept = sorted(_covering(ranked)[:limit], key=lambda candidate: (candidate.sentence, candidate.start, candidate.end))
    return [_mention(candidate, read, entities) for candidate in kept]


def _covering(ranked: Sequence[_Candidate]) -> list[_Candidate]:
    """Return the candidates, those first that relate an entity which no better one does."""
    covered: set[str] = set()
    first: list[_Candidate] = []
    rest: list[_Candidate] = []
    for candidate in ranked:
        pair = {candidate.source, candidate.target}
        (rest if pair <= covered else first).append(candidate)
        covered |= pair
    return first + rest


def _candidates(read: ReadChunk, entities: Mapping[str, ChosenEntity]) -> Iterator[_Candidate]:
    for definition in read.definitions:
        if definition.short in entities and definition.long in entities:
            yield _definition(read, definition.short, definition.long, definition.sentence)
    for index, places in _places_by_sentence(read, entities).items():
        yield from _meetings(read, entities, index, places[:_MOST_IN_SENTENCE])
        subject = read.topics[index].key
        if subject in entities and all(place.key != subject for place in places):
            yield _about(read, entities, subject, places[0])


def _places_by_sentence(read: ReadChunk, entities: Mapping[str, ChosenEntity]) -> dict[int, list[Occurrence]]:
    """Return, per sentence, the first place of each entity, named or referred to, in order of the text."""
    first = {(place.sentence, place.key): place for place in read.references if place.key in entities}
    for entity in entities.values():
        for place in entity.places:
            first.setdefault((place.sentence, place.key), place)
    by_sentence: dict[int, list[Occurrence]] = {}
    for place in sorted(first.values(), key=lambda place: (place.start, place.key)):
        by_sentence.setdefault(place.sentence, []).append(place)
    return by_sentence


def _definition(read: ReadChunk, short: str, long: str, sentence: int) -> _Candidate:
    span = read.sentences[sentence]
    keyword = "缩写" if is_chinese(read.chunk.text[span.start : span.end]) else "abbreviation"
    return _Candidate(short, long, sentence, span.start, span.end, 1.0, 10.0, (keyword,))


def _meetings(
    read: ReadChunk, entities: Mapping[str, ChosenEntity], index: int, places: Sequence[Occurrence]
) -> Iterator[_Candidate]:
    """Yield neighbours, and the first entity of the sentence with each further one."""
    for left, right in pairwise(places):
        yield _meeting(read, entities, index, left, right)
    for right in places[2:]:
        yield _meeting(read, entities, index, places[0], right)


def _meeting(
    read: ReadChunk, entities: Mapping[str, ChosenEntity], index: int, left: Occurrence, right: Occurrence
) -> _Candidate:
    gap = read.chunk.text[left.end : right.start]
    is_near = len(gap) <= _NEAR
    is_listed = _LISTED.fullmatch(gap[:_NEAR]) is not None
    about_subject = entities[left.key].is_subject or entities[right.key].is_subject
    score = 2.0 + (1.0 if is_near else 0.0) + (1.0 if about_subject else 0.0) - (1.5 if is_listed else 0.0)
    score += 0.1 * min(entities[left.key].score + entities[right.key].score, 10.0)
    weight = 1.0 if is_near and not is_listed else _FAR_WEIGHT
    return _Candidate(left.key, right.key, index, left.end, right.start, weight, score)


def _about(read: ReadChunk, entities: Mapping[str, ChosenEntity], subject: str, place: Occurrence) -> _Candidate:
    """Relate the first entity of a sentence that does not name the chunk's subject to that subject."""
    start = read.sentences[place.sentence].start
    score = 1.5 + 0.1 * min(entities[place.key].score, 10.0)
    return _Candidate(subject, place.key, place.sentence, start, place.start, _FAR_WEIGHT, score)


def _mention(candidate: _Candidate, read: ReadChunk, entities: Mapping[str, ChosenEntity]) -> RelationMention:
    sentence = read.sentences[candidate.sentence]
    source, target = entities[candidate.source], entities[candidate.target]
    chunk = read.chunk
    return RelationMention(
        chunk_id=chunk.id,
        source=source.mention.name,
        target=target.mention.name,
        keywords=candidate.keywords or keywords_between(sentence, candidate.start, candidate.end),
        description=excerpt(chunk.text[sentence.start : sentence.end], candidate.start - sentence.start),
        weight=candidate.weight,
        rank=mention_rank(chunk.document_id, chunk.position, is_subject=source.is_subject or target.is_subject),
    )
