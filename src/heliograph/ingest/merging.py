"""The fold: from mentions to entities and relations. Pure functions; what they read comes in, nothing is stored.

`EntityEvidence` and `RelationEvidence` are counts over all mentions and the first few mentions in canonical order.
They are kept by differences (`apply_entity_delta`, `apply_relation_delta`), and whatever the order in which mentions
came and went, equal mentions give equal evidence and `fold_entity` and `fold_relation` equal results. The counts must
be of all mentions; the leading ones must be `FoldLimits.leading` plus as many as are taken away, or all there are.
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
from heliograph.models import (
    Entity,
    EntityEvidence,
    EntityMention,
    Relation,
    RelationEvidence,
    RelationMention,
)
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
    "split_keywords",
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
    first, second = sorted((mention.source, mention.target), key=entity_key)
    return RelationEvidence(id_, name_to_entity_id(first), name_to_entity_id(second), {}, 0, 0, ())


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


def entity_name(evidence: EntityEvidence) -> str:
    """Return the commonest spelling of an entity's name, of equals the first in the order of characters."""
    return _most_frequent(evidence.names)


def end_names(evidence: RelationEvidence) -> tuple[str, str]:
    """Return the commonest spelling of each end among the leading mentions, the end whose key sorts first in front."""
    first: dict[str, int] = {}
    second: dict[str, int] = {}
    for mention in evidence.leading:
        name, other = mention.source, mention.target
        if entity_key(name) > entity_key(other):
            name, other = other, name
        first[name] = first.get(name, 0) + 1
        second[other] = second.get(other, 0) + 1
    return _most_frequent(first), _most_frequent(second)


def fragments(leading: Sequence[EntityMention] | Sequence[RelationMention], max_fragments: int) -> tuple[str, ...]:
    """Return the distinct descriptions of the first mentions, in canonical order, without empty ones."""
    return tuple(dict.fromkeys(mention.description for mention in leading[:max_fragments] if mention.description))


def fold_entity(evidence: EntityEvidence, description: str, limits: FoldLimits, stored: Entity | None = None) -> Entity:
    """Return the entity that the evidence adds up to.

    Args:
        evidence: At least one mention.
        description: Made from its `fragments`.
        limits: The limits under which the evidence was kept.
        stored: An earlier fold; its token count is taken over where the counted line is the same.
    """
    name, type_ = entity_name(evidence), _type(evidence.types)
    if stored is not None and (stored.name, stored.type, stored.description) == (name, type_, description):
        token_count = stored.token_count
    else:
        token_count = count_tokens(entity_row(name, type_, description))
    return Entity(
        id=evidence.id,
        name=name,
        type=type_,
        description=description,
        aliases=tuple(sorted(alias for alias in evidence.names if alias != name)),
        chunk_ids=_chunk_ids(evidence.leading, limits.max_sources),
        token_count=token_count,
    )


def fold_relation(
    evidence: RelationEvidence, description: str, limits: FoldLimits, stored: Relation | None = None
) -> Relation:
    """Return the relation that the evidence adds up to; as `fold_entity`.

    Its ends are named as most of its leading mentions spell them, so that it depends on its own mentions alone.
    """
    source, target = end_names(evidence)
    if stored is not None and (stored.source, stored.target, stored.description) == (source, target, description):
        token_count = stored.token_count
    else:
        token_count = count_tokens(relation_row(source, target, description))
    return Relation(
        id=evidence.id,
        source=source,
        target=target,
        source_id=evidence.source_id,
        target_id=evidence.target_id,
        keywords=_shown_keywords(evidence.keywords),
        description=description,
        weight=evidence.weight_millionths / _MILLION,
        chunk_ids=_chunk_ids(evidence.leading, limits.max_sources),
        token_count=token_count,
    )


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
