"""The relation channel: relations near the high-level keywords, then the entities at their ends.

Relations keep the order of similarity, entities that of their first appearance as an end. Source: LightRAG's global
retrieval.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from heliograph.models import Entity, Relation
from heliograph.query.channels.base import Findings
from heliograph.stores.base import IncidentRelation, StoreView
from heliograph.stores.changeset import Collection

__all__ = ["search_relations"]


async def search_relations(store: StoreView, vector: NDArray[np.float32], top_k: int, min_score: float) -> Findings:
    """Return the `top_k` nearest relations and their end points."""
    hits = await store.vectors.search(Collection.RELATIONS, vector, top_k, min_score)
    if not hits:
        return Findings()
    relations = await store.graph.get_relations([hit.id for hit in hits])
    ends = dict.fromkeys(end for relation in relations for end in (relation.source_id, relation.target_id))
    entities = await store.graph.get_entities(list(ends))
    return Findings(
        entities=entities,
        relations=_ranked(relations, entities),
        relations_read={relation.id: relation for relation in relations},
    )


def _ranked(relations: Iterable[Relation], entities: Iterable[Entity]) -> list[IncidentRelation]:
    degrees = {entity.id: entity.degree for entity in entities}
    return [
        IncidentRelation(
            relation.id, degrees.get(relation.source_id, 0) + degrees.get(relation.target_id, 0), relation.weight
        )
        for relation in relations
    ]
