"""The walk over what a search has read: chunks, the entities that they mention, and the chunks that mention those.

It starts at the best chunks and at the entities that the question names. Its shares settle what the other channels
leave open among chunks, and say which entities the found chunks have in common: those are the entities to show.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from heliograph.models import EntityMention
from heliograph.query.fusion.combine import best
from heliograph.query.fusion.pagerank import personalised_pagerank
from heliograph.query.fusion.parameters import FusionParameters
from heliograph.query.linking.models import LinkedEntity
from heliograph.stores.base import EntityPlaces
from heliograph.text.names import mention_entity_id

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
