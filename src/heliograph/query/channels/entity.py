"""The entity channel: entities near the low-level keywords, then the relations that touch them.

Entities keep the order of similarity; their incident relations, all of them, are ranked by (sum of the two ends'
degrees, weight). Source: LightRAG's local retrieval.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from heliograph.calls.together import run_together
from heliograph.query.channels.base import Findings
from heliograph.stores.base import StoreView
from heliograph.stores.changeset import Collection


async def search_entities(store: StoreView, vector: NDArray[np.float32], top_k: int, min_score: float) -> Findings:
    """Return the `top_k` nearest entities and every relation that touches one of them."""
    hits = await store.vectors.search(Collection.ENTITIES, vector, top_k, min_score)
    if not hits:
        return Findings()
    ids = [hit.id for hit in hits]
    entities, relations = await run_together(store.graph.get_entities(ids), store.graph.rank_incident_relations(ids))
    return Findings(entities=entities, relations=relations)
