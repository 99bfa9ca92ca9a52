"""The walk over what a search has read: chunks, the entities they mention, and the chunks that mention those.

The weights come from personalised PageRank on that bounded graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from heliograph.models import EntityMention
from heliograph.query.fusion.models import FusionParameters
from heliograph.query.linking import LinkedEntity
from heliograph.query.merging import best
from heliograph.stores.base import EntityPlaces
from heliograph.text.names import mention_entity_id

# Personalised PageRank on a bounded graph of chunks and the entities that they mention.
#
# Source: Page et al. (1999); on passages and entities: HippoRAG (Gutiérrez et al., 2024). The graph holds only what a
# search has read anyway, some hundreds of nodes, so its cost does not grow with the corpus. Pure.

_ROUNDS = 20


def personalised_pagerank(
    edges: Iterable[tuple[str, str, float]], restart: Mapping[str, float], damping: float
) -> dict[str, float]:
    """Return the share of time that a random walk spends at each node; the shares add up to 1.

    Args:
        edges: Undirected, `(node, node, weight)`; weights above 0.
        restart: Where the walk starts anew, in proportion; values below or at 0 are ignored. Without any, the result
            is empty.
        damping: Probability to go on along an edge, in [0, 1); at a node without edges the walk starts anew.
    """
    edges = list(edges)
    places: dict[str, int] = {}
    ends = [places.setdefault(node, len(places)) for edge in edges for node in edge[:2]]
    for node in restart:
        places.setdefault(node, len(places))
    start = np.array([max(0.0, restart.get(node, 0.0)) for node in places])
    if not start.sum() > 0:
        return {}
    start /= start.sum()
    pairs = np.array(ends, np.int64).reshape(-1, 2).T
    sources, targets = pairs.ravel(), pairs[::-1].ravel()
    weights = np.tile(np.array([weight for _, _, weight in edges], float), 2)
    strength = np.bincount(sources, weights, len(places))
    shares = weights / strength[sources] if len(edges) else weights
    at = start
    for _ in range(_ROUNDS):
        moved = np.bincount(targets, at[sources] * shares, len(places)) if len(edges) else np.zeros(len(places))
        moved *= damping
        at = moved + start * (1.0 - moved.sum())
    return dict(zip(places, at.tolist(), strict=True))


# What an edge to the most common entity weighs beside one to a rare entity, which weighs about 1.
_LEAST_EDGE = 0.05
# How often the walk starts anew at an entity that the question names, beside 1 for the best chunk.
_NAMED_RESTART = 0.5


@dataclass(frozen=True, slots=True)
class Reached:
    """Where the walk spends its time.

    Attributes:
        chunks: Share per chunk.
        entities: Share per entity.
    """

    chunks: Mapping[str, float] = field(default_factory=dict[str, float])
    entities: Mapping[str, float] = field(default_factory=dict[str, float])


def walk(
    totals: Mapping[str, float],
    mentions: Mapping[str, Sequence[EntityMention]],
    places: Mapping[str, EntityPlaces],
    linked: Iterable[LinkedEntity],
    parameters: FusionParameters,
) -> Reached:
    """Return the shares of chunks and entities around the best chunks and the named entities.

    Args:
        totals: Score per chunk, at least one.
        mentions: Per chunk that was read, what it mentions.
        places: Where entities are mentioned; others are left out.
        linked: Entities that the question names.
        parameters: How far and how widely.
    """
    starts = best(totals, parameters.walk_starts)
    named = list(linked)
    ids = {mention_entity_id(mention) for id_ in starts for mention in mentions.get(id_, ())}
    ids.update(entity.id for entity in named)
    known = {id_: places[id_] for id_ in sorted(ids) if id_ in places}
    edges = [
        (chunk_id, id_, parameters.rarity(item.mention_count) + _LEAST_EDGE)
        for id_, item in known.items()
        for chunk_id in _led_to(item, parameters)
    ]
    top = totals[starts[0]]
    restart = {id_: max(0.0, totals[id_] / top) ** 2 for id_ in starts} if top > 0 else {}
    restart |= {entity.id: _NAMED_RESTART / max(1, len(entity.chunk_ids)) for entity in named}
    shares = personalised_pagerank(edges, restart, parameters.damping)
    entities = {id_: shares[id_] for id_ in ids if id_ in shares}
    return Reached({id_: share for id_, share in shares.items() if id_ not in entities}, entities)


def _led_to(places: EntityPlaces, parameters: FusionParameters) -> Sequence[str]:
    """Return the chunks, by mention, to which an entity leads: of a common one those that are about it."""
    is_rare = places.mention_count <= parameters.most_mentions
    return places.chunk_ids if is_rare else places.chunk_ids[: places.subjects]
