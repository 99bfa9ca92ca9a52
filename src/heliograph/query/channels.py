"""The plain ways of searching: by vectors, by words, by entities, by relations; and the chunks that these bring."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from heliograph.calls.tasks import run_together
from heliograph.models import Entity, Relation
from heliograph.stores.base import GraphStore, Hit, IncidentRelation, StoreView
from heliograph.stores.changeset import Collection

# What one channel finds for a question, the same shape for every channel.


@dataclass(frozen=True, slots=True)
class Findings:
    """Lists of one channel, each best first and without repeats.

    Attributes:
        entities: Entities, read.
        relations: Relations, ranked; there may be very many, so few are read.
        relations_read: Those that were read anyway, by id.
        chunk_ids: Chunks, by id.
    """

    entities: Sequence[Entity] = ()
    relations: Sequence[IncidentRelation] = ()
    relations_read: Mapping[str, Relation] = field(default_factory=dict[str, Relation])
    chunk_ids: Sequence[str] = ()


def with_degrees(relations: Iterable[Relation], entities: Iterable[Entity]) -> list[IncidentRelation]:
    """Return relations that were read, in order, as ranked ones; `entities` are their ends."""
    degrees = {entity.id: entity.degree for entity in entities}
    return [
        IncidentRelation(
            relation.id, degrees.get(relation.source_id, 0) + degrees.get(relation.target_id, 0), relation.weight
        )
        for relation in relations
    ]


# The vector channel: chunks near the question itself.


async def search_chunks(store: StoreView, vector: NDArray[np.float32], top_k: int, min_score: float) -> Findings:
    """Return the `top_k` nearest chunks."""
    hits = await store.vectors.search(Collection.CHUNKS, vector, top_k, min_score)
    return Findings(chunk_ids=[hit.id for hit in hits])


# The keyword channel: chunks that hold the question's words, by BM25.


async def search_keywords(store: StoreView, words: Sequence[str], limit: int) -> Sequence[Hit]:
    """Return the `limit` best chunks by BM25 for a question's terms; a question of stop words has none."""
    return await store.text.search(Collection.CHUNKS, words, limit) if words else []


# The entity channel: entities near the low-level keywords, then the relations that touch them.
#
# Entities keep the order of similarity; their incident relations, all of them, are ranked by (sum of the two ends'
# degrees, weight). Source: LightRAG's local retrieval.


async def search_entities(store: StoreView, vector: NDArray[np.float32], top_k: int, min_score: float) -> Findings:
    """Return the `top_k` nearest entities and every relation that touches one of them."""
    hits = await store.vectors.search(Collection.ENTITIES, vector, top_k, min_score)
    if not hits:
        return Findings()
    ids = [hit.id for hit in hits]
    entities, relations = await run_together(store.graph.get_entities(ids), store.graph.rank_incident_relations(ids))
    return Findings(entities=entities, relations=relations)


# The relation channel: relations near the high-level keywords, then the entities at their ends.
#
# Relations keep the order of similarity, entities that of their first appearance as an end. Source: LightRAG's global
# retrieval.


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


# Entities and relations of a fused search: those of its evidence, not those nearest to a keyword.
#
# They come from the chunks that were found, so what they say belongs to what the chunks say, and finding them costs
# the same in a graph of any size.


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
