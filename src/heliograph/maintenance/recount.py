"""Evidence and folds computed anew from the mentions and the curations, as if nothing had been kept.

Hubs are counted page by page, so memory holds a page of mentions however many there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from heliograph.ingest.curated import entity_overrides, relation_overrides
from heliograph.ingest.folding import Folder, TouchedEntity, TouchedRelation
from heliograph.ingest.merging import (
    apply_entity_delta,
    apply_relation_delta,
    empty_entity_evidence,
    empty_relation_evidence,
    unmentioned_relation_evidence,
)
from heliograph.ingest.resolution import RuleBook
from heliograph.ingest.resolving import RuleLoader
from heliograph.ingest.summary import DescriptionSummarizer
from heliograph.models import Entity, EntityEvidence, Relation, RelationEvidence
from heliograph.stores.base import Store
from heliograph.stores.changeset import TextEntry

__all__ = ["Recounter", "Refolded"]

E = TypeVar("E", EntityEvidence, RelationEvidence)
F = TypeVar("F", Entity, Relation)

_PAGE = 2_000


@dataclass(frozen=True, slots=True)
class Refolded(Generic[E, F]):
    """What the mentions of one thing, and what people say of it, add up to.

    Attributes:
        evidence: Counted anew; empty if nothing mentions it.
        fold: Folded anew; None if it is deleted by hand.
        index_text: What its vector is made from; empty without a fold.
        terms: Its full text; None where none is kept.
    """

    evidence: E
    fold: F | None
    index_text: str = ""
    terms: TextEntry | None = None


class Recounter:
    """Recomputes; reads truth only, but for descriptions that a chat model wrote.

    Args:
        store: Read only.
        folder: Folds as the ingest does.
        summarizer: Makes descriptions as the ingest does.
    """

    def __init__(self, store: Store, folder: Folder, summarizer: DescriptionSummarizer) -> None:
        self._store = store
        self._folder = folder
        self._summarizer = summarizer

    async def entities(self, ids: Sequence[str]) -> dict[str, Refolded[EntityEvidence, Entity]]:
        """Return what these entities should be; what nothing mentions and nobody keeps is absent."""
        counted = await self._entity_evidence(ids)
        stored = {entity.id: entity for entity in await self._store.graph.get_entities(ids)}
        book = await self._load_rules(ids)
        found: dict[str, Refolded[EntityEvidence, Entity]] = {}
        for id_ in ids:
            evidence = counted.get(id_) or empty_entity_evidence(id_)
            touched = self._folder.touch_entity(id_, ((), ()), evidence, None, entity_overrides(book, id_))
            if not touched.is_gone:
                folded = self._folder.fold_entity(touched, await self._description(touched, stored.get(id_)))
                found[id_] = Refolded(evidence, folded.fold, folded.index_text or "", folded.terms)
            elif evidence.mention_count:
                found[id_] = Refolded(evidence, None)
        return found

    async def relations(self, ids: Sequence[str]) -> dict[str, Refolded[RelationEvidence, Relation]]:
        """Return what these relations should be; what nothing mentions and nobody keeps is absent."""
        counted = await self._relation_evidence(ids)
        stored = {relation.id: relation for relation in await self._store.graph.get_relations(ids)}
        ends = {id_: (item.source_id, item.target_id) for id_, item in (*stored.items(), *counted.items())}
        book = await self._load_rules(list({end for pair in ends.values() for end in pair}))
        found: dict[str, Refolded[RelationEvidence, Relation]] = {}
        for id_, pair in ends.items():
            evidence = counted.get(id_) or unmentioned_relation_evidence(id_, pair)
            overrides = relation_overrides(book, *pair)
            touched = self._folder.touch_relation(id_, ((), ()), evidence, None, overrides, ends=pair)
            if not touched.is_gone:
                folded = self._folder.fold_relation(touched, await self._description(touched, stored.get(id_)))
                found[id_] = Refolded(evidence, folded.fold, folded.index_text or "")
            elif evidence.mention_count:
                found[id_] = Refolded(evidence, None)
        return found

    async def _load_rules(self, ids: Sequence[str]) -> RuleBook:
        loader = RuleLoader(self._store)
        await loader.load(ids)
        return RuleBook(loader.rules.values())

    async def _description(self, touched: TouchedEntity | TouchedRelation, stored: Entity | Relation | None) -> str:
        if touched.description is not None:
            return touched.description
        # What a chat model wrote cannot be computed again for nothing, and without that model not at all.
        if stored is not None and stored.description and self._summarizer.is_long(touched.fragments):
            return stored.description
        label, id_ = touched.label, touched.evidence.id
        return (await self._summarizer.summarize(label, touched.fragments, subject_id=id_)).text

    async def _entity_evidence(self, ids: Sequence[str]) -> dict[str, EntityEvidence]:
        counted: dict[str, EntityEvidence] = {}
        pending, offset = list(ids), 0
        while pending:
            pages, _ = await self._store.inspection.get_mentions(pending, [], offset, _PAGE)
            for id_, page in pages.items():
                known = counted.get(id_) or empty_entity_evidence(id_)
                counted[id_] = apply_entity_delta(known, (), page, self._folder.limits.leading)
            pending, offset = [id_ for id_, page in pages.items() if len(page) == _PAGE], offset + _PAGE
        return counted

    async def _relation_evidence(self, ids: Sequence[str]) -> dict[str, RelationEvidence]:
        counted: dict[str, RelationEvidence] = {}
        pending, offset = list(ids), 0
        while pending:
            _, pages = await self._store.inspection.get_mentions([], pending, offset, _PAGE)
            for id_, page in pages.items():
                known = counted.get(id_) or empty_relation_evidence(id_, page[0])
                counted[id_] = apply_relation_delta(known, (), page, self._folder.limits.leading)
            pending, offset = [id_ for id_, page in pages.items() if len(page) == _PAGE], offset + _PAGE
        return counted
