"""What one document's mentions do to the entities and relations they touch: the fold, one by one.

Stored evidence and a stored fold come in with the mentions that go and come. First they become a `Touched` thing, with
its new evidence and the fragments of its description; once the description is known, a `Folded` one, which says what
must be written, embedded and indexed, and is empty where nothing shows. Pure functions without I/O.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from heliograph.ingest.index_texts import IndexLimits, entity_index_text, relation_index_text
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
    shown_evidence,
    unmentioned_relation_evidence,
)
from heliograph.ingest.overrides import (
    NO_ENTITY_OVERRIDES,
    NO_RELATION_OVERRIDES,
    EntityOverrides,
    RelationOverrides,
)
from heliograph.models import Entity, EntityEvidence, EntityMention, Relation, RelationEvidence, RelationMention
from heliograph.stores.changeset import TextEntry
from heliograph.stores.full_text import entity_terms

__all__ = ["Folded", "Folder", "Touched", "TouchedEntity", "TouchedRelation", "is_same_entity", "is_same_relation"]

E = TypeVar("E", EntityEvidence, RelationEvidence)
F = TypeVar("F", Entity, Relation)
S = TypeVar("S", EntityOverrides, RelationOverrides)


@dataclass(frozen=True, slots=True)
class Touched(Generic[E, F, S]):
    """An entity or relation whose evidence changes, or what people say of it.

    Attributes:
        evidence: As it will be; its `version` is that of the evidence before.
        stored: The fold that is stored; None if there is none.
        overrides: What people say of it.
        label: How a summary calls it.
        fragments: What its description is made from.
        description: What people say, or the stored one, if what it was made from is the same; None if it must be made.
    """

    evidence: E
    stored: F | None
    overrides: S
    label: str = ""
    fragments: tuple[str, ...] = ()
    description: str | None = None

    @property
    def is_gone(self) -> bool:
        """Whether nothing mentions it any more and nobody keeps it, or somebody deleted it."""
        return self.overrides.is_hidden or not (self.evidence.mention_count or self.overrides.is_kept)

    @property
    def growth(self) -> int:
        """How many more things of its kind there will be: 1, 0 or -1."""
        return (not self.is_gone) - (self.stored is not None)


TouchedEntity = Touched[EntityEvidence, Entity, EntityOverrides]
TouchedRelation = Touched[RelationEvidence, Relation, RelationOverrides]


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

    def __init__(self, limits: FoldLimits, index_limits: IndexLimits) -> None:
        """Keep the limits.

        Args:
            limits: How much of the evidence shows in a fold.
            index_limits: How much of an entity's or relation's text is embedded.
        """
        self.limits = limits
        self._index_limits = index_limits

    def touch_entity(
        self,
        id_: str,
        change: tuple[Sequence[EntityMention], Sequence[EntityMention]],
        known: EntityEvidence | None,
        stored: Entity | None,
        overrides: EntityOverrides = NO_ENTITY_OVERRIDES,
        *,
        is_reshaped: bool = False,
    ) -> TouchedEntity:
        """Apply the mentions of an entity that go and those that come.

        Args:
            id_: The entity.
            change: Mentions that go, mentions that come.
            known: Its evidence with its first `limits.leading` mentions and as many as go; None if there is none.
            stored: Its stored fold; None if there is none.
            overrides: What people say of it.
            is_reshaped: Whether they said something else when it was stored.
        """
        before = known or empty_entity_evidence(id_)
        after = apply_entity_delta(before, *change, self.limits.leading)
        touched = Touched(after, stored, overrides)
        if touched.is_gone:
            return touched
        name, found = entity_name(after, overrides), self._fragments(after)
        is_kept = stored is not None and stored.name == name and not is_reshaped and self._fragments(before) == found
        description = stored.description if stored and is_kept else overrides.description
        return Touched(after, stored, overrides, name, _with(overrides.statements, found), description)

    def touch_relation(
        self,
        id_: str,
        change: tuple[Sequence[RelationMention], Sequence[RelationMention]],
        known: RelationEvidence | None,
        stored: Relation | None,
        overrides: RelationOverrides = NO_RELATION_OVERRIDES,
        *,
        is_reshaped: bool = False,
        ends: tuple[str, str] | None = None,
    ) -> TouchedRelation:
        """Apply the mentions of a relation that go and those that come; as `touch_entity`.

        Args:
            id_: The relation.
            change: Mentions that go, mentions that come.
            known: Its evidence; None if there is none.
            stored: Its stored fold; None if there is none.
            overrides: What people say of it, its ends in ascending order of their ids.
            is_reshaped: Whether they said something else when it was stored.
            ends: Its two entity ids, where it may have neither evidence nor mentions.
        """
        before = known or _first_evidence(id_, change, ends)
        after = apply_relation_delta(before, *change, self.limits.leading)
        touched = Touched(after, stored, overrides)
        if touched.is_gone:
            return touched
        shown = shown_evidence(after, overrides)
        (source, _), (target, _) = end_names(shown, overrides)
        found = self._fragments(shown)
        is_same = stored is not None and (stored.source, stored.target) == (source, target)
        is_kept = is_same and not is_reshaped and self._fragments(shown_evidence(before, overrides)) == found
        description = stored.description if stored and is_kept else overrides.description
        said = _with(overrides.statements, found)
        return Touched(after, stored, overrides, f"{source} - {target}", said, description)

    def fold_entity(self, touched: TouchedEntity, description: str) -> Folded[Entity]:
        """Fold an entity of which the description is known."""
        if touched.is_gone:
            return Folded()
        old, new = (
            touched.stored,
            fold_entity(touched.evidence, description, self.limits, touched.stored, touched.overrides),
        )
        if old is None:
            return Folded(new, entity_index_text(new, self._index_limits.entity_tokens), entity_terms(new))
        if is_same_entity(old, new):
            return Folded()
        is_renamed = (old.name, old.aliases) != (new.name, new.aliases)
        terms = entity_terms(new) if is_renamed else None
        if (old.name, old.description) == (new.name, new.description):
            return Folded(new, None, terms)
        before, after = (entity_index_text(item, self._index_limits.entity_tokens) for item in (old, new))
        return Folded(new, after if after != before else None, terms)

    def fold_relation(self, touched: TouchedRelation, description: str) -> Folded[Relation]:
        """Fold a relation of which the description is known."""
        if touched.is_gone:
            return Folded()
        old, new = (
            touched.stored,
            fold_relation(touched.evidence, description, self.limits, touched.stored, touched.overrides),
        )
        if old is None:
            return Folded(new, relation_index_text(new, self._index_limits.relation_tokens))
        if is_same_relation(old, new):
            return Folded()
        unchanged = (new.keywords, new.source, new.target, new.description)
        if (old.keywords, old.source, old.target, old.description) == unchanged:
            return Folded(new)
        before, after = (relation_index_text(item, self._index_limits.relation_tokens) for item in (old, new))
        return Folded(new, after if after != before else None)

    def _fragments(self, evidence: EntityEvidence | RelationEvidence) -> tuple[str, ...]:
        return fragments(evidence.leading, self.limits.max_fragments)


def _with(statements: tuple[str, ...], found: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*statements, *found))) if statements else found


def _first_evidence(
    id_: str,
    change: tuple[Sequence[RelationMention], Sequence[RelationMention]],
    ends: tuple[str, str] | None,
) -> RelationEvidence:
    if ends is not None:
        return unmentioned_relation_evidence(id_, ends)
    return empty_relation_evidence(id_, (*change[0], *change[1])[0])


def is_same_entity(left: Entity, right: Entity) -> bool:
    """Whether two folds are the same but for what the graph store keeps itself."""
    return (left.name, left.type, left.description, left.aliases, left.chunk_ids) == (
        *(right.name, right.type, right.description, right.aliases, right.chunk_ids),
    )


def is_same_relation(left: Relation, right: Relation) -> bool:
    """Whether two folds are the same but for what the graph store keeps itself."""
    return (left.source, left.target, left.keywords, left.description, left.weight, left.chunk_ids) == (
        *(right.source, right.target, right.keywords, right.description, right.weight, right.chunk_ids),
    )
