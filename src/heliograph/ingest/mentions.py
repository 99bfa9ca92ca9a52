"""What a chunk says, in one canonical form, and what an ingest changes of it.

Extractions come in from an extractor or from the store. `canonical_extraction` makes them safe to fold: mentions
without repeats, in an order of their own, with both ends of every relation present. `mention_delta` compares what is
taken away with what is added and groups the rest by the entity or relation it counts for.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from heliograph.documents.cleaning import clean_text
from heliograph.ids import is_subject_rank, mention_rank, moved_rank
from heliograph.models import AliasMention, EntityMention, Extraction, RelationMention
from heliograph.text.mention_ids import mention_entity_id, mention_relation_id
from heliograph.text.names import clean_name, entity_key

__all__ = [
    "UNKNOWN_TYPE",
    "MentionDelta",
    "canonical_aliases",
    "canonical_extraction",
    "entity_mention_order",
    "mention_delta",
    "moved_extraction",
    "placed_extraction",
    "relation_mention_order",
]

# Casts no vote against any other type.
UNKNOWN_TYPE = "unknown"
_MAX_WEIGHT = 1_000_000.0

EntityOrder = tuple[int, str, str, str, str]
RelationOrder = tuple[int, str, str, str, tuple[str, ...], str, float]


@dataclass(frozen=True, slots=True)
class MentionDelta:
    """Mentions taken away and added, per id of the entity or relation; an id without any is absent."""

    removed_entities: dict[str, list[EntityMention]] = field(default_factory=dict[str, list[EntityMention]])
    added_entities: dict[str, list[EntityMention]] = field(default_factory=dict[str, list[EntityMention]])
    removed_relations: dict[str, list[RelationMention]] = field(default_factory=dict[str, list[RelationMention]])
    added_relations: dict[str, list[RelationMention]] = field(default_factory=dict[str, list[RelationMention]])

    @property
    def entity_ids(self) -> list[str]:
        """The entities that change."""
        return list(self.removed_entities | self.added_entities)

    @property
    def relation_ids(self) -> list[str]:
        """The relations that change."""
        return list(self.removed_relations | self.added_relations)

    @property
    def most_removed(self) -> int:
        """The largest number of mentions that any one of them loses."""
        removed = (*self.removed_entities.values(), *self.removed_relations.values())
        return max(map(len, removed), default=0)


def entity_mention_order(mention: EntityMention) -> EntityOrder:
    """Return what an entity's mentions are sorted by: rank, chunk, then content."""
    return (mention.rank, mention.chunk_id, mention.name, mention.type, mention.description)


def relation_mention_order(mention: RelationMention) -> RelationOrder:
    """Return what a relation's mentions are sorted by: rank, chunk, then content."""
    return (
        *(mention.rank, mention.chunk_id, mention.source, mention.target),
        *(mention.keywords, mention.description, mention.weight),
    )


def canonical_extraction(extraction: Extraction) -> Extraction:
    """Return an extraction whose mentions are clean, distinct, sorted, and complete.

    Mentions without a name and relations of an entity with itself are dropped; an end of a relation that the chunk
    does not list becomes a mention of unknown type; a weight that is no positive number counts as 1.
    """
    entities = {clean for mention in extraction.entities if (clean := _clean_entity(mention)).name}
    relations = {
        clean
        for mention in extraction.relations
        if entity_key((clean := _clean_relation(mention)).source) != entity_key(clean.target)
        if clean.source and clean.target
    }
    in_order = sorted(relations, key=relation_mention_order)
    return Extraction(
        chunk_id=extraction.chunk_id,
        extractor=extraction.extractor,
        entities=tuple(sorted(entities | _missing_ends(entities, in_order), key=entity_mention_order)),
        relations=tuple(in_order),
        error=extraction.error,
        reply_keys=extraction.reply_keys,
        usage=extraction.usage,
        aliases=canonical_aliases(extraction.aliases),
    )


def canonical_aliases(aliases: Iterable[AliasMention]) -> tuple[AliasMention, ...]:
    """Return alias mentions clean, distinct and sorted, without those whose two names are spellings of one."""
    if not aliases:
        return ()
    clean = {AliasMention(m.chunk_id, clean_name(m.name), clean_name(m.alias)) for m in aliases}
    kept = (m for m in clean if m.name and m.alias and entity_key(m.name) != entity_key(m.alias))
    return tuple(sorted(kept, key=lambda m: (m.chunk_id, m.name, m.alias)))


def moved_extraction(extraction: Extraction, position: int) -> Extraction:
    """Return the extraction of a chunk that now stands at another position of its document."""
    return Extraction(
        chunk_id=extraction.chunk_id,
        extractor=extraction.extractor,
        entities=tuple(
            EntityMention(m.chunk_id, m.name, m.type, m.description, moved_rank(m.rank, position), m.entity_id)
            for m in extraction.entities
        ),
        relations=tuple(
            RelationMention(
                *(m.chunk_id, m.source, m.target, m.keywords, m.description, m.weight),
                *(moved_rank(m.rank, position), m.source_id, m.target_id),
            )
            for m in extraction.relations
        ),
        error=extraction.error,
        reply_keys=extraction.reply_keys,
        usage=extraction.usage,
        aliases=extraction.aliases,
    )


def placed_extraction(extraction: Extraction, chunk_id: str, document_id: str, position: int) -> Extraction:
    """Return an extraction as if it had been read in a chunk of this id, at this position of this document.

    What its mentions count for is left open again: it follows from the rules where they are committed.
    """
    ranks = {flag: mention_rank(document_id, position, is_subject=flag) for flag in (True, False)}
    return replace(
        extraction,
        chunk_id=chunk_id,
        entities=tuple(
            replace(m, chunk_id=chunk_id, rank=ranks[is_subject_rank(m.rank)], entity_id="")
            for m in extraction.entities
        ),
        relations=tuple(
            replace(m, chunk_id=chunk_id, rank=ranks[is_subject_rank(m.rank)], source_id="", target_id="")
            for m in extraction.relations
        ),
        aliases=tuple(replace(m, chunk_id=chunk_id) for m in extraction.aliases),
    )


def mention_delta(removed: Sequence[Extraction], added: Sequence[Extraction]) -> MentionDelta:
    """Return what changes when some extractions take the place of others; both canonical.

    A mention that is in both changes nothing and is left out.
    """
    old_entities, new_entities = ({m for e in side for m in e.entities} for side in (removed, added))
    old_relations, new_relations = ({m for e in side for m in e.relations} for side in (removed, added))
    return MentionDelta(
        _by_entity(old_entities - new_entities),
        _by_entity(new_entities - old_entities),
        _by_relation(old_relations - new_relations),
        _by_relation(new_relations - old_relations),
    )


def _by_entity(mentions: Iterable[EntityMention]) -> dict[str, list[EntityMention]]:
    grouped: dict[str, list[EntityMention]] = {}
    for mention in mentions:
        grouped.setdefault(mention_entity_id(mention), []).append(mention)
    return grouped


def _by_relation(mentions: Iterable[RelationMention]) -> dict[str, list[RelationMention]]:
    grouped: dict[str, list[RelationMention]] = {}
    for mention in mentions:
        id_ = mention_relation_id(mention)
        # The two names of one entity are not related.
        if id_ not in (mention.source_id, mention.target_id):
            grouped.setdefault(id_, []).append(mention)
    return grouped


def _clean_entity(mention: EntityMention) -> EntityMention:
    name, kind, description = (
        clean_name(mention.name),
        clean_text(mention.type),
        _clean_description(mention.description),
    )
    if (name, kind, description) == (mention.name, mention.type, mention.description):
        return mention
    return EntityMention(mention.chunk_id, name, kind, description, mention.rank)


def _clean_relation(mention: RelationMention) -> RelationMention:
    source, target, description = (
        clean_name(mention.source),
        clean_name(mention.target),
        clean_text(mention.description),
    )
    keywords = tuple(map(clean_text, mention.keywords))
    weight = min(mention.weight, _MAX_WEIGHT) if math.isfinite(mention.weight) and mention.weight > 0 else 1.0
    clean = (source, target, keywords, description, weight)
    if clean == (mention.source, mention.target, mention.keywords, mention.description, mention.weight):
        return mention
    return RelationMention(mention.chunk_id, *clean, mention.rank)


def _clean_description(description: str) -> str:
    return clean_text(description).strip()


def _missing_ends(entities: Iterable[EntityMention], relations: Iterable[RelationMention]) -> set[EntityMention]:
    present = {entity_key(mention.name) for mention in entities}
    missing: dict[str, EntityMention] = {}
    for relation in relations:
        for name in (relation.source, relation.target):
            if (key := entity_key(name)) not in present:
                missing.setdefault(key, EntityMention(relation.chunk_id, name, UNKNOWN_TYPE, "", relation.rank))
    return set(missing.values())
