"""Entities and relations of a fused search: those of its evidence, not those nearest to a keyword.

They come from the chunks that were found, so what they say belongs to what the chunks say, and finding them costs the
same in a graph of any size.
"""

from __future__ import annotations

from collections.abc import Sequence

from heliograph.calls.together import run_together
from heliograph.query.channels.base import Findings, with_degrees
from heliograph.stores.base import GraphStore


async def find_evidence(graph: GraphStore, entity_ids: Sequence[str]) -> Findings:
    """Return these entities in order, and the relations between any two of them: those of the first ones first."""
    if not entity_ids:
        return Findings()
    entities, relations = await run_together(graph.get_entities(entity_ids), graph.find_relations_among(entity_ids))
    places = {id_: place for place, id_ in enumerate(entity_ids)}
    # Stable: of equally placed pairs the heavier relation, which comes first, stays first.
    ranked = sorted(relations, key=lambda relation: places[relation.source_id] + places[relation.target_id])
    return Findings(
        entities=entities,
        relations=with_degrees(ranked, entities),
        relations_read={relation.id: relation for relation in relations},
    )
