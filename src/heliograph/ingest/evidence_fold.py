"""The fold as a store uses it under a filter: from the mentions that are left to entities and relations.

The counts and folds are those of `heliograph.ingest.merging`, so that under a filter there is what would be there had
nothing else been taken in: without what people say, and with descriptions joined and never summarised, since a stored
summary may tell of more than the filter leaves, and a question must not wait for a model to make another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from heliograph.ingest.merging import (
    FoldLimits,
    apply_entity_delta,
    apply_relation_delta,
    empty_entity_evidence,
    fold_entity,
    fold_relation,
    fragments,
    unmentioned_relation_evidence,
)
from heliograph.ingest.summary import join_fragments
from heliograph.models import Entity, EntityEvidence, EntityMention, Relation, RelationEvidence, RelationMention
from heliograph.settings import IngestSettings
from heliograph.stores.base import Fold
from heliograph.stores.full_text import entity_terms

__all__ = ["EvidenceFold"]


@dataclass(frozen=True, slots=True)
class EvidenceFold(Fold):
    """The fold under given limits.

    Attributes:
        limits: How much of the evidence shows.
        max_description_tokens: o200k_base tokens of a description.
    """

    limits: FoldLimits
    max_description_tokens: int

    @classmethod
    def of(cls, settings: IngestSettings) -> Self:
        """Return the fold with the limits that documents are taken in under."""
        return cls(FoldLimits(settings.max_fragments, settings.max_sources), settings.summary_tokens)

    @property
    def leading(self) -> int:
        """See `Fold`."""
        return self.limits.leading

    def count_entity(self, id_: str, mentions: Sequence[EntityMention], leading: int) -> EntityEvidence:
        """See `Fold`."""
        return apply_entity_delta(empty_entity_evidence(id_), (), mentions, leading)

    def count_relation(
        self, id_: str, ends: tuple[str, str], mentions: Sequence[RelationMention], leading: int
    ) -> RelationEvidence:
        """See `Fold`."""
        return apply_relation_delta(unmentioned_relation_evidence(id_, ends), (), mentions, leading)

    def fold_entity(self, evidence: EntityEvidence) -> Entity:
        """See `Fold`."""
        return fold_entity(evidence, self._description(evidence), self.limits)

    def fold_relation(self, evidence: RelationEvidence) -> Relation:
        """See `Fold`."""
        return fold_relation(evidence, self._description(evidence), self.limits)

    def name_terms(self, entity: Entity) -> Sequence[str]:
        """See `Fold`."""
        return entity_terms(entity).terms

    def _description(self, evidence: EntityEvidence | RelationEvidence) -> str:
        return join_fragments(fragments(evidence.leading, self.limits.max_fragments), self.max_description_tokens)
