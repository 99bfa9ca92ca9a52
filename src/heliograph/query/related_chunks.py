"""The chunks that the selected entities and relations bring, by the rule that the question asks for.

Reads what each rule needs in as few calls as it can: nothing for WEIGHT, one batch of vectors for VECTOR (whose
fallback is WEIGHT), the neighbours for the rule of seed 001. `heliograph.query.chunk_picking` holds the rules.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from heliograph.models import Entity
from heliograph.query.chunk_picking import (
    OwnedChunks,
    assign_chunks,
    pick_by_shared_relations,
    pick_by_vector,
    pick_by_weight,
)
from heliograph.query.context.selection import Selection
from heliograph.query.merging import ChunkPicks
from heliograph.query.plan import Plan
from heliograph.stores.base import GraphStore, StoreView
from heliograph.stores.changeset import Collection

logger = logging.getLogger(__name__)

Vector = NDArray[np.float32]

# Shared relations are counted over this many relations of all entities together, the best ranked.
MAX_COUNTED_RELATIONS = 5000


async def find_related_chunks(
    store: StoreView, plan: Plan, selection: Selection, question: Vector | None
) -> tuple[ChunkPicks, ChunkPicks]:
    """Return the chunks of the entities and those of the relations; the latter leave out the former.

    Args:
        store: Where vectors and neighbours are read.
        plan: Says how chunks are picked, and how many.
        selection: The entities and relations.
        question: The question's vector, needed for VECTOR.
    """
    of_entities = [entity.chunk_ids for entity in selection.entities]
    of_relations = [item.relation.chunk_ids for item in selection.relations]
    owned = assign_chunks(of_entities, keep_empty=True)
    vectors = await _read_vectors(store, plan, owned, of_relations)
    if plan.chunk_picking == "shared_relations":
        picked = await _pick_shared(store.graph, plan, selection.entities, owned)
    else:
        picked = _pick(plan, owned, vectors, question)
    entity_picks = ChunkPicks("E", picked, owned.frequencies)
    rest = assign_chunks(of_relations, set(picked), keep_empty=False)
    if plan.chunk_picking == "shared_relations":
        picked = rest.candidates()[: plan.related_chunks * len(rest.groups)]
    else:
        picked = _pick(plan, rest, vectors, question)
    return entity_picks, ChunkPicks("R", picked, rest.frequencies)


def _pick(plan: Plan, owned: OwnedChunks, vectors: Mapping[str, Vector], question: Vector | None) -> list[str]:
    if plan.chunk_picking == "vector" and question is not None and owned.groups:
        limit = int(plan.related_chunks * len(owned.groups) / 2)
        picked = pick_by_vector(owned, vectors, question, limit)
        if picked is not None:
            return picked
        logger.warning("chunks are picked by weight: there are chunks without a vector, or too few to pick from")
    return pick_by_weight(owned, plan.related_chunks)


async def _read_vectors(
    store: StoreView, plan: Plan, owned: OwnedChunks, of_relations: Sequence[Sequence[str]]
) -> Mapping[str, Vector]:
    if plan.chunk_picking != "vector":
        return {}
    ids = dict.fromkeys(owned.frequencies)
    ids.update(dict.fromkeys(chunk_id for chunk_ids in of_relations for chunk_id in chunk_ids))
    return await store.vectors.get_vectors(Collection.CHUNKS, list(ids)) if ids else {}


async def _pick_shared(graph: GraphStore, plan: Plan, entities: Sequence[Entity], owned: OwnedChunks) -> list[str]:
    listed = [entity for entity in entities if entity.chunk_ids]
    neighbours = await _neighbour_chunks(graph, listed)
    return pick_by_shared_relations(owned, neighbours, plan.related_chunks * len(owned.groups))


async def _neighbour_chunks(graph: GraphStore, entities: Sequence[Entity]) -> list[list[Sequence[str]]]:
    """Return, per entity, the chunk ids of every entity at the other end of one of its relations."""
    ranked = await graph.rank_incident_relations([entity.id for entity in entities])
    relations = await graph.get_relations([item.id for item in ranked[:MAX_COUNTED_RELATIONS]])
    others: dict[str, list[str]] = {entity.id: [] for entity in entities}
    for relation in relations:
        for end, other in ((relation.source_id, relation.target_id), (relation.target_id, relation.source_id)):
            if end in others:
                others[end].append(other)
    known = {entity.id: entity for entity in entities}
    unread = dict.fromkeys(other for ends in others.values() for other in ends if other not in known)
    known |= {entity.id: entity for entity in await graph.get_entities(list(unread))}
    return [[known[other].chunk_ids for other in others[entity.id] if other in known] for entity in entities]
