"""What one document's mentions do to the entities and relations they touch: the fold, one by one.

Stored evidence and a stored fold come in with the mentions that go and come. First they become a `Touched` thing, with
its new evidence and the fragments of its description; once the description is known, a `Folded` one, which says what
must be written, embedded and indexed, and is empty where nothing shows. Pure functions without I/O.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from heliograph.ingest.index_texts import entity_index_text, entity_terms, relation_index_text
from heliograph.ingest.merging import (
    FoldLimits,
    apply_entity_delta,
    apply_relation_delta,
    empty_entity_evidence,
    empty_relation_evidence,
    end_names,
    entity_name,
    fold_entity,
    fold_relation,
    fragments,
)
from heliograph.models import Entity, EntityEvidence, EntityMention, Relation, RelationEvidence, RelationMention
from heliograph.stores.changeset import TextEntry

__all__ = ["Folded", "Folder", "Touched", "TouchedEntity", "TouchedRelation"]

E = TypeVar("E", EntityEvidence, RelationEvidence)
F = TypeVar("F", Entity, Relation)


@dataclass(frozen=True, slots=True)
class Touched(Generic[E, F]):
    """An entity or relation whose evidence changes.

    Attributes:
        evidence: As it will be; its `version` is that of the evidence before.
        stored: The fold that is stored; None if there is none.
        label: How a summary calls it.
        fragments: What its description is made from.
        description: The stored one, if what it was made from is the same; None if it must be made.
    """

    evidence: E
    stored: F | None
    label: str = ""
    fragments: tuple[str, ...] = ()
    description: str | None = None

    @property
    def is_gone(self) -> bool:
        """Whether nothing mentions it any more."""
        return self.evidence.mention_count == 0


TouchedEntity = Touched[EntityEvidence, Entity]
TouchedRelation = Touched[RelationEvidence, Relation]


@dataclass(frozen=True, slots=True)
class Folded(Generic[F]):
    """What a touched thing changes in the projections.

    Attributes:
        fold: To be written; None if it is gone or folds to what is stored.
        index_text: To be embedded; None if that text has not changed.
        terms: Its full text; None if that has not changed, or is not kept.
    """

    fold: F | None = None
    index_text: str | None = None
    terms: TextEntry | None = None


class Folder:
    """The fold under given limits; may be used from any thread."""

    def __init__(self, limits: FoldLimits, max_index_tokens: int) -> None:
        """Keep the limits.

        Args:
            limits: How much of the evidence shows in a fold.
            max_index_tokens: o200k_base tokens of an entity's or relation's text that are embedded.
        """
        self.limits = limits
        self._max_index_tokens = max_index_tokens

    def touch_entity(
        self,
        id_: str,
        change: tuple[Sequence[EntityMention], Sequence[EntityMention]],
        known: EntityEvidence | None,
        stored: Entity | None,
    ) -> TouchedEntity:
        """Apply the mentions of an entity that go and those that come.

        Args:
            id_: The entity.
            change: Mentions that go, mentions that come.
            known: Its evidence with its first `limits.leading` mentions and as many as go; None if there is none.
            stored: Its stored fold; None if there is none.
        """
        before = known or empty_entity_evidence(id_)
        after = apply_entity_delta(before, *change, self.limits.leading)
        if not after.mention_count:
            return Touched(after, stored)
        name, found = entity_name(after), self._fragments(after)
        is_kept = stored is not None and stored.name == name and self._fragments(before) == found
        return Touched(after, stored, name, found, stored.description if stored and is_kept else None)

    def touch_relation(
        self,
        id_: str,
        change: tuple[Sequence[RelationMention], Sequence[RelationMention]],
        known: RelationEvidence | None,
        stored: Relation | None,
    ) -> TouchedRelation:
        """Apply the mentions of a relation that go and those that come; as `touch_entity`."""
        before = known or empty_relation_evidence(id_, (*change[0], *change[1])[0])
        after = apply_relation_delta(before, *change, self.limits.leading)
        if not after.mention_count:
            return Touched(after, stored)
        names, found = end_names(after), self._fragments(after)
        is_kept = stored is not None and (stored.source, stored.target) == names and self._fragments(before) == found
        return Touched(after, stored, " - ".join(names), found, stored.description if stored and is_kept else None)

    def fold_entity(self, touched: TouchedEntity, description: str) -> Folded[Entity]:
        """Fold an entity of which the description is known."""
        if touched.is_gone:
            return Folded()
        old, new = touched.stored, fold_entity(touched.evidence, description, self.limits, touched.stored)
        if old is None:
            return Folded(new, entity_index_text(new, self._max_index_tokens), entity_terms(new))
        if _is_same_entity(old, new):
            return Folded()
        is_renamed = (old.name, old.aliases) != (new.name, new.aliases)
        terms = entity_terms(new) if is_renamed else None
        if (old.name, old.description) == (new.name, new.description):
            return Folded(new, None, terms)
        before, after = (entity_index_text(item, self._max_index_tokens) for item in (old, new))
        return Folded(new, after if after != before else None, terms)

    def fold_relation(self, touched: TouchedRelation, description: str) -> Folded[Relation]:
        """Fold a relation of which the description is known."""
        if touched.is_gone:
            return Folded()
        old, new = touched.stored, fold_relation(touched.evidence, description, self.limits, touched.stored)
        if old is None:
            return Folded(new, relation_index_text(new, self._max_index_tokens))
        if _is_same_relation(old, new):
            return Folded()
        unchanged = (new.keywords, new.source, new.target, new.description)
        if (old.keywords, old.source, old.target, old.description) == unchanged:
            return Folded(new)
        before, after = (relation_index_text(item, self._max_index_tokens) for item in (old, new))
        return Folded(new, after if after != before else None)

    def _fragments(self, evidence: EntityEvidence | RelationEvidence) -> tuple[str, ...]:
        return fragments(evidence.leading, self.limits.max_fragments)


def _is_same_entity(left: Entity, right: Entity) -> bool:
    """Whether two folds are the same but for what the graph store keeps itself."""
    return (left.name, left.type, left.description, left.aliases, left.chunk_ids) == (
        *(right.name, right.type, right.description, right.aliases, right.chunk_ids),
    )


def _is_same_relation(left: Relation, right: Relation) -> bool:
    """Whether two folds are the same but for what the graph store keeps itself."""
    return (left.source, left.target, left.keywords, left.description, left.weight, left.chunk_ids) == (
        *(right.source, right.target, right.keywords, right.description, right.weight, right.chunk_ids),
    )
