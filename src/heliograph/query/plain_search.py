"""Plain search by vectors, words, entities and relations; and merging of ranked lists."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count, zip_longest
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from heliograph.calls.tasks import run_together
from heliograph.models import Entity, Relation
from heliograph.query.models import FusedHit, SourceMark
from heliograph.stores.base import GraphStore, Hit, IncidentRelation, StoreView
from heliograph.stores.changeset import Collection

Vector = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Findings:
    """Results of one channel: lists, each best first and without repeats.

    Attributes:
        relations: Ranked relations; there may be very many, so few are read in full.
        relations_read: Relations that were read in full anyway, by id.
        chunks: Chunk ids with their cosines.
    """

    entities: Sequence[Entity] = ()
    relations: Sequence[IncidentRelation] = ()
    relations_read: Mapping[str, Relation] = field(default_factory=dict[str, Relation])
    chunks: Mapping[str, float] = field(default_factory=dict[str, float])


def with_degrees(relations: Iterable[Relation], entities: Iterable[Entity]) -> list[IncidentRelation]:
    """Return relations in the same order with the degrees of their ends, which are `entities`."""
    degrees = {entity.id: entity.degree for entity in entities}
    return [
        IncidentRelation(
            relation.id, degrees.get(relation.source_id, 0) + degrees.get(relation.target_id, 0), relation.weight
        )
        for relation in relations
    ]


async def search_chunks(store: StoreView, vector: Vector, top_k: int, min_cosine: float) -> Findings:
    """Return the `top_k` nearest chunks."""
    hits = await store.vectors.search(Collection.CHUNKS, vector, top_k, min_cosine)
    return Findings(chunks={hit.id: hit.score for hit in hits})


async def search_words(store: StoreView, words: Sequence[str], limit: int) -> Sequence[Hit]:
    """Return the `limit` best chunks by BM25 for a question's terms; none if there are no terms."""
    return await store.text.search(Collection.CHUNKS, words, limit) if words else []


# The entity channel: entities near the low-level keywords, then the relations that touch them.
#
# Entities are ordered by similarity; all their incident relations are ranked by (sum of the two ends' degrees,
# weight). Source: LightRAG's local retrieval.


async def search_entities(store: StoreView, vector: Vector, top_k: int, min_cosine: float) -> Findings:
    """Return the `top_k` nearest entities and every relation that touches one of them."""
    hits = await store.vectors.search(Collection.ENTITIES, vector, top_k, min_cosine)
    if not hits:
        return Findings()
    ids = [hit.id for hit in hits]
    entities, relations = await run_together(store.graph.get_entities(ids), store.graph.rank_incident_relations(ids))
    return Findings(entities=entities, relations=relations)


# The relation channel: relations near the high-level keywords, then the entities at their ends.
#
# Relations are ordered by similarity, entities by first appearance as an end. Source: LightRAG's global retrieval.


async def search_relations(store: StoreView, vector: Vector, top_k: int, min_cosine: float) -> Findings:
    """Return the `top_k` nearest relations and their end points."""
    hits = await store.vectors.search(Collection.RELATIONS, vector, top_k, min_cosine)
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
# They come from the chunks found, so their descriptions fit the chunks, and finding them costs the same in a graph of
# any size.


async def find_evidence(graph: GraphStore, entity_ids: Sequence[str]) -> Findings:
    """Return these entities in order, and the relations between any two of them, those of the first entities first."""
    if not entity_ids:
        return Findings()
    entities, relations = await run_together(graph.get_entities(entity_ids), graph.find_relations_among(entity_ids))
    places = {id_: place for place, id_ in enumerate(entity_ids)}
    # The sort is stable: among equally ranked pairs the heavier relation, which comes first, stays first.
    ranked = sorted(relations, key=lambda relation: places[relation.source_id] + places[relation.target_id])
    return Findings(
        entities=entities,
        relations=with_degrees(ranked, entities),
        relations_read={relation.id: relation for relation in relations},
    )


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ChunkPicks:
    """Chunks of one origin, as in `SourceMark`, best first, with how often each was listed (1 if missing)."""

    origin: Literal["C", "E", "R"]
    ids: Sequence[str] = ()
    frequencies: Mapping[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True, slots=True)
class MergedChunks:
    """Chunks of all lists in one order.

    Attributes:
        totals: Ids, best first, each with the score that orders it. In the modes `fusion` and `auto` this is
            `FusedHit.score`: the sum of the channels' weighted scores, lowered for further chunks of a document, or of
            their reciprocal ranks; for an `auto` question searched part by part, whose parts are interleaved, 1 /
            place. In mode `naive` it is the cosine; in the other modes of LightRAG, which merge round robin, 1 /
            place; and with channels added to one of these, the sum of the reciprocal ranks in both lists.
        hits: The hits of a fused search, by id.
        leaders: Ids of chunks that no cut may drop.
    """

    totals: Mapping[str, float]
    picks: Sequence[ChunkPicks]
    hits: Mapping[str, FusedHit] = field(default_factory=dict[str, FusedHit])
    leaders: Sequence[str] = ()

    @property
    def ids(self) -> list[str]:
        """The chunks, best first."""
        return list(self.totals)

    @property
    def paths(self) -> dict[str, tuple[str, ...]]:
        """The chunks passed on the way to each chunk that was reached over bridges."""
        return {id_: hit.path for id_, hit in self.hits.items() if hit.path}

    def hit(self, chunk_id: str) -> FusedHit:
        """Return the fused search's hit for a chunk; one of score 0 if the search did not find it."""
        return self.hits.get(chunk_id, FusedHit(chunk_id, 0.0))

    def marks(self, chunk_ids: Sequence[str]) -> list[tuple[SourceMark, ...]]:
        """Return how each of these chunks was found: those of `C`, `E` and `R` that apply."""
        orders = [dict(zip(pick.ids, count(1), strict=False)) for pick in self.picks]
        return [
            tuple(
                SourceMark(pick.origin, pick.frequencies.get(chunk_id, 1), order[chunk_id])
                for pick, order in zip(self.picks, orders, strict=True)
                if chunk_id in order
            )
            for chunk_id in chunk_ids
        ]


def round_robin(lists: Sequence[Sequence[T]], key: Callable[[T], Hashable]) -> list[T]:
    """Return the first item of each list, then the second of each, and so on, deduplicated by key."""
    merged: dict[Hashable, T] = {}
    for items in zip_longest(*lists):
        for item in items:
            if item is not None:
                merged.setdefault(key(item), item)
    return list(merged.values())


# Fusion of ranked lists by rank or by score; a new fusion method belongs here.
#
# Both take scores by id, by channel, and return one total per id. Reciprocal rank fusion needs no common scale, so it
# fuses any lists, but a bad list drags a good one down. Summing weighted scores keeps how much better the first is than
# the second, but needs scores that mean the same for every question.

# Source: Cormack, Clarke, Buettcher, "Reciprocal rank fusion outperforms Condorcet" (SIGIR 2009).
RANK_CONSTANT = 60

Scores = Mapping[str, Mapping[str, float]]


def by_rank(channels: Scores) -> dict[str, float]:
    """Return, per id, the sum over channels of `1 / (RANK_CONSTANT + rank)`; ranks start at 1, ties are broken by id.

    `channels` are scores by id, by channel; a channel adds nothing to an id that it does not hold.
    """
    return fuse_lists([ordered(scores) for scores in channels.values()])


def fuse_lists(lists: Iterable[Sequence[str]]) -> dict[str, float]:
    """Return the same sums as `by_rank` for lists of ids, each best first and without repeats."""
    totals: dict[str, float] = {}
    for ids in lists:
        for rank, id_ in enumerate(ids, start=1):
            totals[id_] = totals.get(id_, 0.0) + 1.0 / (RANK_CONSTANT + rank)
    return totals


def by_place(ids: Iterable[str]) -> dict[str, float]:
    """Return 1 / place for each id, as the score in an interleaved list whose original scores are not comparable."""
    return {id_: 1.0 / place for place, id_ in enumerate(ids, start=1)}


def by_score(channels: Scores) -> dict[str, float]:
    """Return, per id, the sum of its already weighted scores."""
    first, *others = channels.values() if channels else ({},)
    totals = dict(first)
    for scores in others:
        for id_, score in scores.items():
            totals[id_] = totals.get(id_, 0.0) + score
    return totals


def ordered(scores: Mapping[str, float]) -> list[str]:
    """Return the ids sorted by score, best first, ties by id."""
    return sorted(scores, key=lambda id_: (-scores[id_], id_))


def best(scores: Mapping[str, float], count: int) -> list[str]:
    """Return the first `count` ids of `ordered`, without sorting the rest."""
    if not 0 < count < len(scores):
        return ordered(scores)[: max(0, count)]
    least = heapq.nlargest(count, scores.values())[-1]
    return ordered({id_: score for id_, score in scores.items() if score >= least})[:count]
