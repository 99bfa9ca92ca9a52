"""The sections of a workspace that follow from its truth and are moved as they are: evidence, entities, relations."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from heliograph.maintenance.migration.digests import Tally, digest_item, digest_vector
from heliograph.maintenance.migration.records import batch_vectors
from heliograph.maintenance.migration.section import Section, scan_pages
from heliograph.models import Entity, EntityEvidence, Relation, RelationEvidence
from heliograph.stores.base import Store
from heliograph.stores.changeset import Changeset, Collection
from heliograph.stores.full_text import entity_terms
from heliograph.stores.inspection import ScanKind

__all__ = ["EntityEvidenceSection", "EntitySection", "RelationEvidenceSection", "RelationSection"]


class EntityEvidenceSection(Section[EntityEvidence]):
    """Counts over the mentions of entities."""

    name = "entity evidence"
    is_removable = True

    def pages(self, store: Store) -> AsyncIterator[list[str]]:
        """See `Section`."""
        return scan_pages(store, ScanKind.ENTITY_EVIDENCE)

    async def read(self, store: Store, ids: Sequence[str]) -> dict[str, EntityEvidence]:
        """See `Section`."""
        return {item.id: item for item in (await store.records.get_evidence(ids, [], 0))[0]}

    def tally(self, item: EntityEvidence) -> Mapping[str, Tally]:
        """See `Section`."""
        return {self.name: Tally(1, digest_item(item))}

    async def write(self, source: Store, target: Store, items: Mapping[str, EntityEvidence]) -> None:  # noqa: ARG002
        """See `Section`."""
        await target.apply(Changeset(entity_evidence=tuple(items.values())))

    async def find_removal(self, target: Store, ids: Sequence[str]) -> Changeset:
        """See `Section`; an entity goes with its evidence, and is copied again if people made it."""
        found = (await self.read(target, ids)).values()
        gone = tuple(replace(item, mention_count=0) for item in found)
        return Changeset(entity_evidence=gone, removed_entities=tuple(ids))


class RelationEvidenceSection(Section[RelationEvidence]):
    """Counts over the mentions of relations."""

    name = "relation evidence"
    is_removable = True

    def pages(self, store: Store) -> AsyncIterator[list[str]]:
        """See `Section`."""
        return scan_pages(store, ScanKind.RELATION_EVIDENCE)

    async def read(self, store: Store, ids: Sequence[str]) -> dict[str, RelationEvidence]:
        """See `Section`."""
        return {item.id: item for item in (await store.records.get_evidence([], ids, 0))[1]}

    def tally(self, item: RelationEvidence) -> Mapping[str, Tally]:
        """See `Section`."""
        return {self.name: Tally(1, digest_item(item))}

    async def write(self, source: Store, target: Store, items: Mapping[str, RelationEvidence]) -> None:  # noqa: ARG002
        """See `Section`."""
        await target.apply(Changeset(relation_evidence=tuple(items.values())))

    async def find_removal(self, target: Store, ids: Sequence[str]) -> Changeset:
        """See `Section`; a relation goes with its evidence, and is copied again if people made it."""
        found = (await self.read(target, ids)).values()
        gone = tuple(replace(item, mention_count=0) for item in found)
        return Changeset(relation_evidence=gone, removed_relations=tuple(ids))


@dataclass(frozen=True, slots=True)
class _Placed:
    """An entity or a relation, with its vector."""

    fold: Entity | Relation
    vector: NDArray[np.float32] | None


class EntitySection(Section[_Placed]):
    """Entities with their vectors, their names in full text, and when they first appeared.

    Degrees are counted by the target as relations come, and so are no part of what is compared here.
    """

    name = "entities"
    is_removable = True

    def pages(self, store: Store) -> AsyncIterator[list[str]]:
        """See `Section`."""
        return scan_pages(store, ScanKind.ENTITIES)

    async def read(self, store: Store, ids: Sequence[str]) -> dict[str, _Placed]:
        """See `Section`."""
        vectors = await store.vectors.get_vectors(Collection.ENTITIES, ids)
        entities = await store.graph.get_entities(ids)
        return {item.id: _Placed(replace(item, degree=0), vectors.get(item.id)) for item in entities}

    def tally(self, item: _Placed) -> Mapping[str, Tally]:
        """See `Section`."""
        return {"entities": Tally(1, digest_item(item.fold)), **_vector_tally("entity vectors", item)}

    async def write(self, source: Store, target: Store, items: Mapping[str, _Placed]) -> None:  # noqa: ARG002
        """See `Section`."""
        entities = [item.fold for item in items.values() if isinstance(item.fold, Entity)]
        await target.apply(
            Changeset(
                entities=tuple(entities),
                vectors=batch_vectors(Collection.ENTITIES, {id_: item.vector for id_, item in items.items()}),
                texts={Collection.ENTITIES: tuple(map(entity_terms, entities))},
                moments={item.id: item.created_at for item in entities},
            )
        )

    async def find_removal(self, target: Store, ids: Sequence[str]) -> Changeset:
        """See `Section`; the evidence of what people deleted stays."""
        evidence, _ = await target.records.get_evidence(ids, [], 0)
        return Changeset(removed_entities=tuple(ids), entity_evidence=tuple(evidence))


class RelationSection(Section[_Placed]):
    """Relations with their vectors and when they first appeared; entities must be there."""

    name = "relations"
    is_removable = True

    def pages(self, store: Store) -> AsyncIterator[list[str]]:
        """See `Section`."""
        return scan_pages(store, ScanKind.RELATIONS)

    async def read(self, store: Store, ids: Sequence[str]) -> dict[str, _Placed]:
        """See `Section`."""
        vectors = await store.vectors.get_vectors(Collection.RELATIONS, ids)
        return {item.id: _Placed(item, vectors.get(item.id)) for item in await store.graph.get_relations(ids)}

    def tally(self, item: _Placed) -> Mapping[str, Tally]:
        """See `Section`."""
        return {"relations": Tally(1, digest_item(item.fold)), **_vector_tally("relation vectors", item)}

    async def write(self, source: Store, target: Store, items: Mapping[str, _Placed]) -> None:  # noqa: ARG002
        """See `Section`."""
        relations = [item.fold for item in items.values() if isinstance(item.fold, Relation)]
        await target.apply(
            Changeset(
                relations=tuple(relations),
                vectors=batch_vectors(Collection.RELATIONS, {id_: item.vector for id_, item in items.items()}),
                moments={item.id: item.created_at for item in relations},
            )
        )

    async def find_removal(self, target: Store, ids: Sequence[str]) -> Changeset:
        """See `Section`; the evidence of what people deleted stays."""
        _, evidence = await target.records.get_evidence([], ids, 0)
        return Changeset(removed_relations=tuple(ids), relation_evidence=tuple(evidence))


def _vector_tally(kind: str, item: _Placed) -> dict[str, Tally]:
    return {} if item.vector is None else {kind: Tally(1, digest_vector(item.vector))}
