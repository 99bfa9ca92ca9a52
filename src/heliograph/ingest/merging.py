"""The fold: from mentions to entities and relations. Pure functions; what they read comes in, nothing is stored.

`EntityEvidence` and `RelationEvidence` are counts over all mentions and the first few mentions in canonical order.
They are kept by differences (`apply_entity_delta`, `apply_relation_delta`), and whatever the order in which mentions
came and went, equal mentions give equal evidence and `fold_entity` and `fold_relation` equal results. The counts must
be of all mentions; the leading ones must be `FoldLimits.leading` plus as many as are taken away, or all there are.
What people say goes over what mentions say (`heliograph.ingest.overrides`).
"""

from __future__ import annotations

import re
from bisect import insort
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar

from heliograph.errors import StoreError
from heliograph.ingest.mentions import UNKNOWN_TYPE, entity_mention_order, relation_mention_order
from heliograph.ingest.overrides import (
    NO_ENTITY_OVERRIDES,
    NO_RELATION_OVERRIDES,
    EntityOverrides,
    RelationOverrides,
)
from heliograph.models import (
    Entity,
    EntityEvidence,
    EntityMention,
    Relation,
    RelationEvidence,
    RelationMention,
)
from heliograph.text.mention_ids import end_ids
from heliograph.text.names import entity_key, name_to_entity_id
from heliograph.text.rows import entity_row, relation_row
from heliograph.text.tokens import count_tokens

__all__ = [
    "FoldLimits",
    "apply_entity_delta",
    "apply_relation_delta",
    "empty_entity_evidence",
    "empty_relation_evidence",
    "end_names",
    "entity_name",
    "fold_entity",
    "fold_relation",
    "fragments",
    "shown_evidence",
    "split_keywords",
    "unmentioned_relation_evidence",
]

_MILLION = 1_000_000
_KEYWORD_ENDS = re.compile(r"[,;、，；\n\t]+")
_MAX_KEYWORD_LENGTH = 100
_MAX_KEYWORDS = 50

M = TypeVar("M", EntityMention, RelationMention)


@dataclass(frozen=True, slots=True)
class FoldLimits:
    """How much of the evidence shows in a fold.

    Attributes:
        max_fragments: Mentions, first in canonical order, whose descriptions are used.
        max_sources: Chunks kept.
    """

    max_fragments: int
    max_sources: int

    @property
    def leading(self) -> int:
        """Mentions, first in canonical order, that a fold reads."""
        return max(self.max_fragments, self.max_sources)


def empty_entity_evidence(id_: str) -> EntityEvidence:
    """Return the evidence of an entity that nothing mentions yet."""
    return EntityEvidence(id_, {}, {}, 0, ())


def empty_relation_evidence(id_: str, mention: RelationMention) -> RelationEvidence:
    """Return the evidence of a relation before its first mention; the mention only tells its two ends."""
    return unmentioned_relation_evidence(id_, end_ids(mention))


def unmentioned_relation_evidence(id_: str, ends: tuple[str, str]) -> RelationEvidence:
    """Return the evidence of a relation that nothing mentions, between these two entity ids."""
    first, second = sorted(ends)
    return RelationEvidence(id_, first, second, {}, 0, 0, ())


def apply_entity_delta(
    evidence: EntityEvidence, removed: Collection[EntityMention], added: Collection[EntityMention], leading: int
) -> EntityEvidence:
    """Return the evidence after some mentions went and others came.

    Args:
        evidence: With its first `leading + len(removed)` mentions at least, or all.
        removed: Mentions that it counts.
        added: Mentions that it does not count.
        leading: Mentions to keep.

    Raises:
        StoreError: A removed mention was never counted.
    """
    return EntityEvidence(
        id=evidence.id,
        names=_recount(evidence.id, evidence.names, [m.name for m in removed], [m.name for m in added]),
        types=_recount(evidence.id, evidence.types, [m.type for m in removed], [m.type for m in added]),
        mention_count=evidence.mention_count - len(removed) + len(added),
        leading=_leading(evidence.leading, removed, added, entity_mention_order, leading),
        version=evidence.version,
    )


def apply_relation_delta(
    evidence: RelationEvidence, removed: Collection[RelationMention], added: Collection[RelationMention], leading: int
) -> RelationEvidence:
    """Return the evidence after some mentions went and others came; as `apply_entity_delta`."""
    fewer = [keyword for mention in removed for keyword in split_keywords(mention.keywords)]
    more = [keyword for mention in added for keyword in split_keywords(mention.keywords)]
    weight = evidence.weight_millionths + sum(map(_millionths, added)) - sum(map(_millionths, removed))
    return RelationEvidence(
        id=evidence.id,
        source_id=evidence.source_id,
        target_id=evidence.target_id,
        keywords=_recount(evidence.id, evidence.keywords, fewer, more),
        weight_millionths=weight,
        mention_count=evidence.mention_count - len(removed) + len(added),
        leading=_leading(evidence.leading, removed, added, relation_mention_order, leading),
        version=evidence.version,
    )


def entity_name(evidence: EntityEvidence, overrides: EntityOverrides = NO_ENTITY_OVERRIDES) -> str:
    """Return an entity's name: the one that people gave it, else its commonest spelling.

    Spellings of the name that its id stands for go before other names of it; of equals the first in the order of
    characters is taken.
    """
    if overrides.name:
        return overrides.name
    counts = evidence.names or dict.fromkeys(overrides.aliases, 1)
    return _spelling(counts, evidence.id, overrides.merged_name)


def end_names(
    evidence: RelationEvidence, overrides: RelationOverrides = NO_RELATION_OVERRIDES
) -> tuple[tuple[str, str], tuple[str, str]]:
    """Return name and entity id of both ends, the one whose key sorts first in front.

    An end is named as people name it, else by its commonest spelling among the leading mentions, as `entity_name`.
    """
    first: dict[str, int] = {}
    second: dict[str, int] = {}
    for mention in evidence.leading:
        name, other = mention.source, mention.target
        if (mention.source_id or name_to_entity_id(name)) != evidence.source_id:
            name, other = other, name
        first[name] = first.get(name, 0) + 1
        second[other] = second.get(other, 0) + 1
    source = overrides.source or _spelling(first, evidence.source_id, overrides.other_names[0])
    target = overrides.target or _spelling(second, evidence.target_id, overrides.other_names[1])
    ends = (source, evidence.source_id), (target, evidence.target_id)
    return ends if entity_key(source) <= entity_key(target) else (ends[1], ends[0])


def fragments(leading: Sequence[EntityMention] | Sequence[RelationMention], max_fragments: int) -> tuple[str, ...]:
    """Return the distinct descriptions of the first mentions, in canonical order, without empty ones."""
    return tuple(dict.fromkeys(mention.description for mention in leading[:max_fragments] if mention.description))


def fold_entity(
    evidence: EntityEvidence,
    description: str,
    limits: FoldLimits,
    stored: Entity | None = None,
    overrides: EntityOverrides = NO_ENTITY_OVERRIDES,
) -> Entity:
    """Return the entity that the evidence adds up to.

    Args:
        evidence: At least one mention, unless people keep the entity.
        description: Made from its `fragments`, or what people put in their place.
        limits: The limits under which the evidence was kept.
        stored: An earlier fold; its token count is taken over where the counted line is the same.
        overrides: What people say of it.
    """
    name, type_ = entity_name(evidence, overrides), overrides.type or _type(evidence.types)
    names = {*evidence.names, *overrides.aliases} if overrides.aliases else evidence.names
    if stored is not None and (stored.name, stored.type, stored.description) == (name, type_, description):
        token_count = stored.token_count
    else:
        token_count = count_tokens(entity_row(name, type_, description))
    return Entity(
        id=evidence.id,
        name=name,
        type=type_,
        description=description,
        aliases=tuple(sorted(alias for alias in names if alias != name)),
        chunk_ids=_chunk_ids(evidence.leading, limits.max_sources),
        token_count=token_count,
    )


def fold_relation(
    evidence: RelationEvidence,
    description: str,
    limits: FoldLimits,
    stored: Relation | None = None,
    overrides: RelationOverrides = NO_RELATION_OVERRIDES,
) -> Relation:
    """Return the relation that the evidence adds up to; as `fold_entity`.

    Its ends are named by people or as most of its leading mentions spell them, so that it depends on its own mentions
    alone.
    """
    evidence = shown_evidence(evidence, overrides)
    (source, source_id), (target, target_id) = end_names(evidence, overrides)
    weight = evidence.weight_millionths / _MILLION + overrides.more_weight
    if stored is not None and (stored.source, stored.target, stored.description) == (source, target, description):
        token_count = stored.token_count
    else:
        token_count = count_tokens(relation_row(source, target, description))
    return Relation(
        id=evidence.id,
        source=source,
        target=target,
        source_id=source_id,
        target_id=target_id,
        keywords=_relation_keywords(evidence, overrides),
        description=description,
        weight=weight if overrides.weight is None else overrides.weight,
        chunk_ids=_chunk_ids(evidence.leading, limits.max_sources),
        token_count=token_count,
    )


def shown_evidence(evidence: RelationEvidence, overrides: RelationOverrides) -> RelationEvidence:
    """Return what of the evidence shows in a fold: nothing of a relation that was made anew after it was deleted."""
    if not overrides.is_anew:
        return evidence
    return unmentioned_relation_evidence(evidence.id, (evidence.source_id, evidence.target_id))


def split_keywords(keywords: Iterable[str]) -> tuple[str, ...]:
    """Return the single keywords in what was written: split at commas and semicolons, trimmed, distinct, sorted."""
    return _split_keywords(tuple(keywords))


@lru_cache(maxsize=8_192)
def _split_keywords(keywords: tuple[str, ...]) -> tuple[str, ...]:
    parts = (part.strip()[:_MAX_KEYWORD_LENGTH].rstrip() for text in keywords for part in _KEYWORD_ENDS.split(text))
    return tuple(sorted({part for part in parts if part}))


def _millionths(mention: RelationMention) -> int:
    return round(mention.weight * _MILLION)


def _recount(id_: str, counts: Mapping[str, int], fewer: Iterable[str], more: Iterable[str]) -> dict[str, int]:
    new = dict(counts)
    for key in more:
        new[key] = new.get(key, 0) + 1
    for key in fewer:
        left = new.get(key, 0) - 1
        if left < 0:
            raise StoreError(f"the evidence of {id_!r} does not count its mentions; restore the store from a backup")
        new[key] = left
        if not left:
            del new[key]
    return new


def _leading(
    leading: tuple[M, ...],
    removed: Collection[M],
    added: Collection[M],
    order: Callable[[M], tuple[Any, ...]],
    limit: int,
) -> tuple[M, ...]:
    gone = set(removed)
    kept = [mention for mention in leading if mention not in gone] if gone else list(leading)
    for mention in added:
        insort(kept, mention, key=order)
    return tuple(kept[:limit])


def _most_frequent(counts: Mapping[str, int]) -> str:
    if len(counts) == 1:
        return next(iter(counts))
    return min(counts, key=lambda key: (-counts[key], key))


def _spelling(counts: Mapping[str, int], id_: str, other_name: str) -> str:
    """Return the commonest name of those whose id this is, else `other_name`, else the commonest of all."""
    if len(counts) > 1 or other_name:
        own = {name: count for name, count in counts.items() if name_to_entity_id(name) == id_}
        counts = own or ({other_name: 1} if other_name else counts)
    return _most_frequent(counts)


def _relation_keywords(evidence: RelationEvidence, overrides: RelationOverrides) -> tuple[str, ...]:
    if overrides.keywords is not None:
        return split_keywords(overrides.keywords)
    shown = _shown_keywords(evidence.keywords)
    return tuple(sorted({*shown, *split_keywords(overrides.more_keywords)})) if overrides.more_keywords else shown


def _type(counts: Mapping[str, int]) -> str:
    known = {type_: count for type_, count in counts.items() if type_ and type_ != UNKNOWN_TYPE}
    return _most_frequent(known) if known else UNKNOWN_TYPE


def _chunk_ids(leading: Sequence[EntityMention] | Sequence[RelationMention], max_sources: int) -> tuple[str, ...]:
    return tuple(dict.fromkeys(mention.chunk_id for mention in leading))[:max_sources]


def _shown_keywords(counts: Mapping[str, int]) -> tuple[str, ...]:
    if len(counts) <= _MAX_KEYWORDS:
        return tuple(sorted(counts))
    commonest = sorted(counts, key=lambda keyword: (-counts[keyword], keyword))[:_MAX_KEYWORDS]
    return tuple(sorted(commonest))
