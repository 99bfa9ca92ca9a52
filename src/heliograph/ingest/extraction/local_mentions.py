"""Choosing the entities of a chunk, and what is said of each.

Every entity that is kept costs an embedding, so a chunk keeps the most telling ones: its subjects, what it defines,
what recurs, and long names before short ones. The description of a mention is the sentence of the chunk that says
most of it: a definition first.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from heliograph.ids import mention_rank
from heliograph.ingest.extraction.local_occurrences import Occurrence, ReadChunk
from heliograph.ingest.extraction.local_words import excerpt
from heliograph.models import EntityMention
from heliograph.text.case_prior import is_usually_lower
from heliograph.text.language import HAN
from heliograph.text.name_cues import DEMONYMS

__all__ = ["ChosenEntity", "choose_entities"]

_HAN = re.compile(rf"[{HAN}]")
_SAYS_WHAT = re.compile(
    r"[^.!?。！？]{0,24}?(?:\b(?:is|are|was|were|means?|refers? to|stands for|denotes?|became)\b|[是为指即]|称为|属于)"
)
_ENDS_OPENING = 12
_USUAL_LENGTH = range(30, 260)
_CLEAR_OF_DOUBT = 100.0
# Both forms of an abbreviation are kept where it is introduced, since that is where one is found by the other.
_DEFINED = 50.0


@dataclass(frozen=True, slots=True)
class ChosenEntity:
    """An entity that a chunk keeps.

    Attributes:
        mention: What is stored of it.
        score: How telling it is; comparable within its chunk.
        is_subject: Whether the chunk is about it.
        places: Its occurrences, in order; none when only a title or heading names it.
    """

    mention: EntityMention
    score: float
    is_subject: bool
    places: Sequence[Occurrence]


def choose_entities(read: ReadChunk, limit: int) -> dict[str, ChosenEntity]:
    """Return the `limit` most telling entities by key, best first; ties go to what stands first."""
    places: dict[str, list[Occurrence]] = {key: [] for key in read.subjects}
    for occurrence in read.occurrences:
        places.setdefault(occurrence.key, []).append(occurrence)
    defined = {key for definition in read.definitions for key in (definition.short, definition.long)}
    scores = {
        key: _score(found, read, read.type_of(key)) + (_DEFINED if key in defined else 0.0)
        for key, found in places.items()
    }
    best = sorted(places, key=lambda key: (-scores[key], places[key][0].start if places[key] else -1, key))[:limit]
    others = _entities_per_sentence(read, places)
    return {key: _chosen(key, places[key], scores[key], read, others) for key in best}


def _score(found: Sequence[Occurrence], read: ReadChunk, kind: str) -> float:
    if not found:
        return _CLEAR_OF_DOUBT
    first = found[0]
    score = min(len(found), 4) * 0.5
    score += _CLEAR_OF_DOUBT if first.key in read.subjects else 0.0
    score += 1.0 if _is_long(first.name) else 0.0
    score += 0.5 if kind not in {"unknown", "concept"} else 0.0
    score += 0.5 if first.sentence == 0 else 0.0
    score -= 1.5 if first.is_phrase else 0.0
    score -= 2.0 if first.name.lower() in DEMONYMS else 0.0
    score -= 1.0 if kind == "unknown" and " " not in first.name and is_usually_lower(first.name) else 0.0
    return score


def _is_long(name: str) -> bool:
    return len(name) > 3 if _HAN.match(name) else " " in name or any(character.isdigit() for character in name)


def _entities_per_sentence(read: ReadChunk, places: Mapping[str, Sequence[Occurrence]]) -> list[int]:
    counts = [0] * len(read.sentences)
    for found in places.values():
        for index in {occurrence.sentence for occurrence in found}:
            counts[index] += 1
    return counts


def _chosen(key: str, found: list[Occurrence], score: float, read: ReadChunk, others: Sequence[int]) -> ChosenEntity:
    is_subject = key in read.subjects
    is_phrase = bool(found) and all(occurrence.is_phrase for occurrence in found)
    mention = EntityMention(
        chunk_id=read.chunk.id,
        name=found[0].name if found else read.subjects[key],
        type="concept" if is_phrase else read.type_of(key),
        description=_description(key, found, read, others),
        rank=mention_rank(read.chunk.document_id, read.chunk.position, is_subject=is_subject),
    )
    return ChosenEntity(mention, score, is_subject, found)


def _description(key: str, found: Sequence[Occurrence], read: ReadChunk, others: Sequence[int]) -> str:
    defining = {d.sentence for d in read.definitions if key in (d.short, d.long)}
    if not found:
        return _opening_sentence(read)
    best = max(
        found,
        key=lambda place: (_says(place, read, others) + (4.0 if place.sentence in defining else 0.0), -place.start),
    )
    sentence = read.sentences[best.sentence]
    return excerpt(read.chunk.text[sentence.start : sentence.end], best.start - sentence.start)


def _says(place: Occurrence, read: ReadChunk, others: Sequence[int]) -> float:
    """Return how much the sentence at this place says of its entity."""
    sentence = read.sentences[place.sentence]
    opens = place.start - sentence.start <= _ENDS_OPENING
    defines = opens and _SAYS_WHAT.match(read.chunk.text, place.end, min(sentence.end, place.end + 60)) is not None
    score = (3.0 if defines else 0.0) + (1.0 if opens else 0.0) + 0.3 * min(others[place.sentence], 5)
    return score + (1.0 if sentence.end - sentence.start in _USUAL_LENGTH else 0.0)


def _opening_sentence(read: ReadChunk) -> str:
    """Return the first sentence that is no heading, for an entity that only a title or heading names."""
    text = read.chunk.text
    for sentence in read.sentences:
        if text[sentence.start] != "#":
            return excerpt(text[sentence.start : sentence.end], 0)
    return ""
