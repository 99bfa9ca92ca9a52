"""Reads passages with `LocalExtractor`; compares with the set's own annotation, and asks what questions need of it.

*Entities*: recall and precision, any alias counts; in part means that one name's words stand in the other's. *Pairs*:
annotated pairs that a relation joins. *Bridges*: questions whose gold passages hang together by entities that two of
them mention, comparisons left out; hubs (entities of more than 30 passages) do not join. *Subjects*: passages whose
title is an entity that the passage is said to be about, with the title given and without. Speed is CPU time of one
passage after another, the slowest way; figures without bounds show what the bounds cost, and so do bridges between
passages that were joined into chunks of three.

`python -m benchmarks.local_extraction [SET ...]` prints a table; SET is a folder or a name in `../shared/bench`.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.extraction_sets import Annotation, Passage, folder_of, key, passages, questions, read_annotations
from benchmarks.measure import Stopwatch
from benchmarks.registry import Options
from benchmarks.report import Figure, Findings, format_table
from heliograph.extraction.local import DEFAULT_ENTITIES_PER_1000_TOKENS, LocalExtractor
from heliograph.ids import content_hash
from heliograph.models import Chunk, Document, Extraction
from heliograph.text.tokens import count_tokens

__all__ = ["TITLE", "run"]

TITLE = "Extraction without a chat model"

_DEFAULT = ("redocred_gold_kg", "musique_train100", "hotpotqa_train100", "2wiki_train500", "nlpcc_mh_zh")
_UNBOUNDED = 1_000_000.0
_MOST_QUESTIONS = 300
_JOINED = 3
_BOUNDS = (22.0, DEFAULT_ENTITIES_PER_1000_TOKENS, _UNBOUNDED)
_MOST_IN_HUB = 30
# A mention's rank without its highest bit says that the chunk is about the entity (`ids.mention_rank`).
_SUBJECT_BELOW = 1 << 62


@dataclass(frozen=True, slots=True)
class _Reading:
    """What was read in one passage."""

    entities: frozenset[str]
    subjects: frozenset[str]
    pairs: frozenset[frozenset[str]]
    tokens: int


@dataclass(slots=True)
class _Share:
    """A part of a whole, counted."""

    part: int = 0
    whole: int = 0

    def add(self, found: Iterable[bool]) -> None:
        for is_found in found:
            self.part += is_found
            self.whole += 1

    def figure(self, name: str) -> Figure:
        return Figure(name, 100 * self.part / max(self.whole, 1), "%", note=f"of {self.whole:,}")


def run(options: Options) -> Findings:
    """Measure each set: its annotation where it has one, its questions where they have several gold passages."""
    figures: list[Figure] = []
    for name in options.arguments or _DEFAULT:
        folder = folder_of(name)
        texts = passages(folder)
        wanted = [gold for kind, gold in questions(folder) if "comparison" not in kind]
        wanted = wanted[: 10 if options.quick else None if options.everything else _MOST_QUESTIONS]
        notes = dict(list(read_annotations(folder).items())[: 20 if options.quick else 1000])
        figures += _measure_annotated(name, texts, notes) if notes else ()
        figures += _measure_bridges(name, texts, wanted) if wanted else ()
    return Findings(tuple(figures))


def _measure_annotated(name: str, texts: Mapping[str, Passage], notes: Mapping[str, Annotation]) -> Iterator[Figure]:
    chosen = [texts[id_] for id_ in notes]
    watch = Stopwatch()
    bounded = _read_all(chosen, LocalExtractor(), watch)
    yield from _agreement(name, notes, bounded)
    tokens = sum(reading.tokens for reading in bounded.values())
    yield Figure(f"{name}: entities per 1000 tokens", 1000 * sum(len(r.entities) for r in bounded.values()) / tokens)
    yield Figure(f"{name}: relations per 1000 tokens", 1000 * sum(len(r.pairs) for r in bounded.values()) / tokens)
    yield Figure(f"{name}: CPU per 1000 tokens", 1000 * sum(watch.laps) / tokens, "ms")
    unbounded = _read_all(chosen, LocalExtractor(_UNBOUNDED, _UNBOUNDED))
    yield from list(_agreement(f"{name}, unbounded", notes, unbounded))


def _agreement(name: str, notes: Mapping[str, Annotation], readings: Mapping[str, _Reading]) -> Iterator[Figure]:
    recall, partial, precision, pairs = _Share(), _Share(), _Share(), _Share()
    for id_, note in notes.items():
        found = readings[id_].entities
        every = frozenset().union(*note.entities)
        recall.add(not keys.isdisjoint(found) for keys in note.entities)
        partial.add(any(_overlap(one, other) for one in keys for other in found) for keys in note.entities)
        precision.add(one in every for one in found - note.uncounted)
        pairs.add(_is_joined(note.entities[a], note.entities[b], readings[id_].pairs) for a, b in note.pairs)
    yield recall.figure(f"{name}: recall of entities")
    yield partial.figure(f"{name}: recall of entities, in part")
    yield precision.figure(f"{name}: precision of entities")
    yield pairs.figure(f"{name}: recall of pairs")


def _overlap(one: str, other: str) -> bool:
    if not one.isascii() and len(min(one, other, key=len)) > 1:
        return one in other or other in one
    return f" {one} " in f" {other} " or f" {other} " in f" {one} "


def _is_joined(one: frozenset[str], other: frozenset[str], pairs: frozenset[frozenset[str]]) -> bool:
    return any(frozenset((a, b)) in pairs for a in one for b in other)


def _measure_bridges(name: str, texts: Mapping[str, Passage], wanted: Sequence[Sequence[str]]) -> Iterator[Figure]:
    ids = list(dict.fromkeys(id_ for gold in wanted for id_ in gold))
    chosen = [texts[id_] for id_ in ids]
    untitled = [Passage(passage.id, "", passage.text) for passage in chosen]
    for label, given in (("titles", chosen), ("no titles", untitled)):
        readings = _read_all(given, LocalExtractor())
        entities = {id_: reading.entities for id_, reading in readings.items()}
        yield _bridges(entities, wanted).figure(f"{name}, {label}: questions with a bridge")
        subjects = _Share()
        subjects.add(texts[id_].title_key in reading.subjects for id_, reading in readings.items())
        yield subjects.figure(f"{name}, {label}: subjects known")
        about = _Share()
        about.add(_leads_to_subject(gold, readings) for gold in wanted)
        yield about.figure(f"{name}, {label}: questions with a bridge to a subject")
    for per_1000 in _BOUNDS:
        entities = _joined_entities(chosen, LocalExtractor(per_1000, 0))
        yield _bridges(entities, wanted).figure(
            f"{name}, three joined, {per_1000:,.0f} entities per 1000 tokens: questions with a bridge"
        )
    notes = read_annotations(folder_of(name))
    if notes:
        entities = {
            id_: frozenset().union(*notes[id_].entities) | {texts[id_].title_key} for id_ in ids if id_ in notes
        }
        yield _bridges(entities, wanted).figure(f"{name}, its own entities: questions with a bridge")


def _joined_entities(chosen: Sequence[Passage], extractor: LocalExtractor) -> dict[str, frozenset[str]]:
    """Return what is found in chunks of three passages, for each passage that part which it names itself."""
    mixed = sorted(chosen, key=lambda passage: content_hash(passage.id))
    entities: dict[str, frozenset[str]] = {}
    for first in range(0, len(mixed), _JOINED):
        group = mixed[first : first + _JOINED]
        text = "\n\n".join(f"{passage.title}\n\n{passage.text}" for passage in group)
        found = _read_all([Passage("", "", text)], extractor)[""].entities
        for passage in group:
            own = key(f"{passage.title} {passage.text}")
            entities[passage.id] = frozenset(one for one in found if one in own)
    return entities


def _bridges(entities: Mapping[str, frozenset[str]], wanted: Sequence[Sequence[str]]) -> _Share:
    """Count the questions whose gold passages are one piece when joined by shared entities."""
    counts = Counter(one for found in entities.values() for one in found)
    share = _Share()
    for gold in wanted:
        parts = [{one for one in entities.get(id_, ()) if counts[one] <= _MOST_IN_HUB} for id_ in gold]
        share.add([_is_one_piece(parts)])
    return share


def _is_one_piece(parts: Sequence[set[str]]) -> bool:
    reached, rest = set(parts[0]), list(parts[1:])
    while rest:
        joined = [part for part in rest if not part.isdisjoint(reached)]
        if not joined:
            return False
        reached = reached.union(*joined)
        rest = [part for part in rest if part not in joined]
    return True


def _leads_to_subject(gold: Sequence[str], readings: Mapping[str, _Reading]) -> bool:
    """Return whether every gold passage names another's subject or is about what another names."""
    return all(
        any(
            not readings[one].subjects.isdisjoint(readings[other].entities)
            or not readings[other].subjects.isdisjoint(readings[one].entities)
            for other in gold
            if other != one
        )
        for one in gold
    )


def _read_all(
    chosen: Sequence[Passage], extractor: LocalExtractor, watch: Stopwatch | None = None
) -> dict[str, _Reading]:
    watch = watch or Stopwatch()
    readings: dict[str, _Reading] = {}
    for passage in chosen:
        chunk = Chunk("chunk-0", "doc-0", 0, passage.text, count_tokens(passage.text), 0, len(passage.text))
        with watch.lap():
            extraction = asyncio.run(extractor.extract(Document("doc-0", "", title=passage.title), [chunk]))[0]
        readings[passage.id] = _reading(extraction, chunk.token_count)
    return readings


def _reading(extraction: Extraction, tokens: int) -> _Reading:
    return _Reading(
        entities=frozenset(key(mention.name) for mention in extraction.entities),
        subjects=frozenset(key(mention.name) for mention in extraction.entities if mention.rank < _SUBJECT_BELOW),
        pairs=frozenset(frozenset((key(one.source), key(one.target))) for one in extraction.relations),
        tokens=tokens,
    )


if __name__ == "__main__":
    rows = (figure.row()[:2] for figure in run(Options(arguments=tuple(sys.argv[1:]))).figures)
    print(format_table(("figure", "value"), rows))
