"""The relation channel: relations near the high-level keywords, then the entities at their ends.

Relations keep the order of similarity, entities that of their first appearance as an end. Source: LightRAG's global
retrieval.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from heliograph.query.channels.base import Findings, with_degrees
from heliograph.stores.base import StoreView
from heliograph.stores.changeset import Collection


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
        relations=with_degrees(relations, entities),
        relations_read={relation.id: relation for relation in relations},
    )
