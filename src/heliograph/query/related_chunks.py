"""The chunks that the selected entities and relations bring, by the rule that the question asks for."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from heliograph.models import Entity
from heliograph.query.context.selection import Selection
from heliograph.query.merging import ChunkPicks
from heliograph.query.plan import Plan
from heliograph.stores.base import GraphStore, StoreView
from heliograph.stores.changeset import Collection

# Which chunks the selected entities and relations bring.
#
# Each item (an entity or a relation, best first) lists chunks. A chunk belongs to the first item that lists it; an
# item's chunks are ordered by how many items list them. Then one of three rules picks: WEIGHT gives each item a quota
# that falls linearly with its place, VECTOR takes the chunks nearest to the question (both as LightRAG 1.5.7 does),
# and otherwise they come by entity and by number of shared relations. Pure: nothing here reads a store.


@dataclass(frozen=True, slots=True)
class OwnedChunks:
    """Chunks of items.

    Attributes:
        groups: Per item the chunks that belong to it, most listed first, ties in the item's order.
        frequencies: Per chunk the items that list it.
    """

    groups: Sequence[Sequence[str]]
    frequencies: Mapping[str, int]

    def candidates(self) -> list[str]:
        """Return all chunks, by item."""
        return list(chain.from_iterable(self.groups))


def assign_chunks(items: Sequence[Sequence[str]], taken: Container[str] = (), *, keep_empty: bool) -> OwnedChunks:
    """Give every chunk to the first item that lists it.

    Args:
        items: Chunk ids per item, best item first; items without any are left out.
        taken: Chunks to leave out, uncounted.
        keep_empty: Whether an item all of whose chunks belong to others keeps its place. It does among entities and
            does not among relations; it matters to the quotas.
    """
    frequencies: dict[str, int] = {}
    groups: list[list[str]] = []
    for chunk_ids in items:
        group: list[str] = []
        for chunk_id in chunk_ids:
            if chunk_id not in taken:
                known = frequencies.get(chunk_id, 0)
                frequencies[chunk_id] = known + 1
                if not known:
                    group.append(chunk_id)
        if group or (keep_empty and chunk_ids):
            groups.append(group)
    for group in groups:
        group.sort(key=frequencies.__getitem__, reverse=True)
    return OwnedChunks(groups, frequencies)


def pick_by_weight(owned: OwnedChunks, most: int, least: int = 1) -> list[str]:
    """Pick by quotas that fall in a straight line from `most` for the first item to `least` for the last.

    Quotas are rounded half to even. What items cannot fill is handed out one by one, each to the first item that
    still has a chunk.
    """
    groups = owned.groups
    if len(groups) <= 1:
        return list(chain.from_iterable(groups))[:most]
    quotas = [round(most - place / (len(groups) - 1) * (most - least)) for place in range(len(groups))]
    picked = [chunk_id for group, quota in zip(groups, quotas, strict=True) for chunk_id in group[:quota]]
    unfilled = sum(quotas) - len(picked)
    leftovers = chain.from_iterable(group[quota:] for group, quota in zip(groups, quotas, strict=True))
    picked.extend(chunk_id for _, chunk_id in zip(range(unfilled), leftovers, strict=False))
    return picked


def pick_by_vector(
    owned: OwnedChunks, vectors: Mapping[str, NDArray[np.float32]], question: NDArray[np.float32], limit: int
) -> list[str] | None:
    """Return the `limit` chunks nearest to the question by cosine, or None if this rule cannot serve.

    It cannot when a candidate has no vector or there is nothing to pick; ties keep the order of the items.
    """
    candidates = owned.candidates()
    rows = [vectors[chunk_id] for chunk_id in candidates if chunk_id in vectors]
    if limit <= 0 or not rows or len(rows) < len(candidates):
        return None
    matrix = np.concatenate(rows).reshape(len(rows), -1)
    scores = matrix @ question
    return [candidates[index] for index in np.argsort(-scores, kind="stable")[:limit]]


def pick_by_shared_relations(
    owned: OwnedChunks, neighbours: Sequence[Sequence[Iterable[str]]], limit: int
) -> list[str]:
    """Pick in the order of the items, within one item by how many of its neighbours list the chunk too.

    Args:
        owned: The chunks, one group per item.
        neighbours: Per item the chunk ids of each entity at the other end of one of its relations.
        limit: Chunks to pick at the most.
    """
    picked: list[str] = []
    for group, others in zip(owned.groups, neighbours, strict=True):
        shared = Counter(chain.from_iterable(others))
        picked.extend(sorted(group, key=shared.__getitem__, reverse=True))
    return picked[:limit]


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
