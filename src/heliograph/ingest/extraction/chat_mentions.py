"""From what was read in a chunk's replies to its mentions.

`ReadRecords` gathers the records of all passes over one chunk; `to_mentions` gives them types as configured, ranks,
and the entities that relations speak of without anyone having listed them.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import TypeVar

from heliograph.ids import mention_rank
from heliograph.ingest.extraction.chunk_subjects import subject_keys
from heliograph.ingest.extraction.replies import ParsedEntity, ParsedExtraction, ParsedRelation
from heliograph.ingest.extraction.replies_records import UNKNOWN_TYPE
from heliograph.models import AliasMention, Chunk, Document, EntityMention, RelationMention
from heliograph.text.names import entity_key

__all__ = ["ReadRecords", "to_aliases", "to_mentions"]

K = TypeVar("K")
R = TypeVar("R", ParsedEntity, ParsedRelation)


class ReadRecords:
    """The records of one chunk, gathered over passes: per entity and pair, the pass that says more counts."""

    def __init__(self) -> None:
        self._entities: dict[str, list[ParsedEntity]] = {}
        self._relations: dict[tuple[str, str], list[ParsedRelation]] = {}

    @property
    def entities(self) -> list[ParsedEntity]:
        """Entity records in the order in which their entities were first read."""
        return [record for records in self._entities.values() for record in records]

    @property
    def relations(self) -> list[ParsedRelation]:
        """Relation records, likewise."""
        return [record for records in self._relations.values() for record in records]

    def add(self, parsed: ParsedExtraction) -> bool:
        """Take the records of one pass; return whether it said anything new."""
        entities: dict[str, list[ParsedEntity]] = {}
        for entity in parsed.entities:
            entities.setdefault(entity_key(entity.name), []).append(entity)
        relations: dict[tuple[str, str], list[ParsedRelation]] = {}
        for relation in parsed.relations:
            relations.setdefault(_pair(relation), []).append(relation)
        changed = [_merge(self._entities, key, records) for key, records in entities.items()]
        changed += [_merge(self._relations, key, records) for key, records in relations.items()]
        return any(changed)


def to_mentions(
    records: ReadRecords, document: Document, chunk: Chunk, types: Sequence[str]
) -> tuple[tuple[EntityMention, ...], tuple[RelationMention, ...]]:
    """Return the mentions of a chunk.

    A mention is ranked as a subject if its entity, or one end of its relation, is what the chunk is about
    (`chunk_subjects`).

    Args:
        records: What was read in it.
        document: The document that holds it.
        chunk: The chunk.
        types: Types as configured; one that differs only in case, spaces or dashes is spelled as here.
    """
    subjects = subject_keys(document.title, chunk, [entity.name for entity in records.entities])

    def rank(*names: str) -> int:
        is_subject = not subjects.isdisjoint(map(entity_key, names))
        return mention_rank(document.id, chunk.position, is_subject=is_subject)

    spellings = {_squash(kind): kind for kind in types}
    entities = [
        EntityMention(chunk.id, e.name, spellings.get(_squash(e.type), e.type), e.description, rank(e.name))
        for e in records.entities
    ]
    relations = [
        RelationMention(
            *(chunk.id, r.source, r.target, r.keywords, r.description, r.strength), rank(r.source, r.target)
        )
        for r in records.relations
    ]
    implied = [
        EntityMention(chunk.id, name, UNKNOWN_TYPE, description, rank(name))
        for name, description in _implied(records).items()
    ]
    return (*entities, *implied), tuple(relations)


def to_aliases(records: ReadRecords, chunk: Chunk) -> tuple[AliasMention, ...]:
    """Return the aliases that were read in a chunk and stand in it."""
    text = _folded(chunk.text)
    return tuple(
        AliasMention(chunk.id, entity.name, alias)
        for entity in records.entities
        for alias in entity.aliases
        if _folded(alias) in text
    )


def _folded(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def _pair(relation: ParsedRelation) -> tuple[str, str]:
    source, target = entity_key(relation.source), entity_key(relation.target)
    return (source, target) if source < target else (target, source)


def _merge(known: dict[K, list[R]], key: K, records: list[R]) -> bool:
    """Put a pass's records of one thing in the place of what is known if they say more; return whether they do."""
    if key in known and _length(records) <= _length(known[key]):
        return False
    known[key] = records
    return True


def _length(records: Iterable[ParsedEntity | ParsedRelation]) -> int:
    return sum(len(record.description) for record in records)


def _implied(records: ReadRecords) -> dict[str, str]:
    """Return the end points that no entity record names, each with the description of its first relation."""
    present = {entity_key(entity.name) for entity in records.entities}
    implied: dict[str, str] = {}
    for relation in records.relations:
        for name in (relation.source, relation.target):
            if (key := entity_key(name)) not in present:
                present.add(key)
                implied[name] = relation.description
    return implied


def _squash(kind: str) -> str:
    return re.sub(r"[\W_]+", "", kind).casefold()
