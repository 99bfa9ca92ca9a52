"""Fused search: one question in, one ranking of chunks out, every hit with its scores by channel.

The steps: chunks near the question by vector and by words, and entities that it names; from the best chunks over
entities to further ones (`heliograph.query.fusion.bridge`); a walk over the graph of all that was read
(`heliograph.query.fusion.walk`); and the fusion of these lists (`heliograph.query.fusion.combine`). Whatever is read is
read by id or by index and bounded by `FusionParameters`, so only the two searches may cost more in a larger corpus.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import ceil

import numpy as np
from numpy.typing import NDArray

from heliograph.calls.together import run_together
from heliograph.embedding.base import EmbeddingModel
from heliograph.ids import is_subject_rank
from heliograph.query.channels.keyword import search_keywords
from heliograph.query.fusion.bridge import (
    FollowedBridge,
    Gain,
    Nearness,
    Start,
    Wanted,
    follow_bridges,
    gains,
    residual_question,
    widen,
)
from heliograph.query.fusion.combine import best, by_rank, ordered
from heliograph.query.fusion.found import READ_MENTIONS, Found
from heliograph.query.fusion.models import Bridge, FusedHit, FusedHits, SearchLimits
from heliograph.query.fusion.parameters import FusionParameters
from heliograph.query.fusion.walk import walk
from heliograph.query.linking.aliases import alias_spans, find_aliases, find_similar
from heliograph.query.linking.names import (
    Named,
    is_one_word,
    link_entities,
    question_spans,
)
from heliograph.query.linking.spelling import respell
from heliograph.query.modes import Channel
from heliograph.stores.base import EntityPlaces, Hit, StoreView
from heliograph.stores.changeset import Collection
from heliograph.text.analysis import terms
from heliograph.text.names import mention_entity_id

Vector = NDArray[np.float32]
Scores = dict[str, float]

# How far down the list of cosines the fall is measured that says how well vectors tell chunks apart, and its least.
_FALL_RANK = 10
_LEAST_FALL = 0.02
# Hits wanted by a question that keeps twenty chunks, before they are reranked.
_USUAL_HITS = 60
# Chunks taken from either index at the most: their vectors are all read.
_MOST_TAKEN = 2_000
_SHORTEST_PHRASE = 4
# Questions that may be a pasted document must not hold up the event loop.
_LONG_QUESTION = 2_000


class FusedSearch:
    """Searches a workspace, or a view of one, through several channels at once.

    Args:
        store: Where to search.
        embedding: The model that filled it; embeds the bridges' residual questions, one batch a round.
        parameters: Weights and bounds.
    """

    def __init__(self, store: StoreView, embedding: EmbeddingModel, parameters: FusionParameters | None = None) -> None:
        self._store = store
        self._embedding = embedding
        self._parameters = parameters or FusionParameters()

    async def search(self, question: str, vector: Vector, limits: SearchLimits | None = None) -> FusedHits:
        """Return the best chunks for a question.

        Args:
            question: The question, or one part of one.
            vector: Its embedding as a query, `(dimension,)` float32 of length 1.
            limits: How many hits, through which channels, fused how.

        Returns:
            Hits, best first, ties by id; the entities that the question names, and those of the evidence. All empty
            where nothing is found, and without the vector and the keyword channel there is nothing to start from.

        Raises:
            ModelError: The embedding failed.
            StoreError: The store failed.
        """
        limits = limits or SearchLimits()
        found = await self._begin(question, vector, limits)
        if found.channels and limits.channels & {Channel.BRIDGE, Channel.GRAPH}:
            await found.read_mentions(self._best(found, self._parameters.first_hops), self._parameters.aside)
            if not found.named.linked:
                await self._link_similar(found)
        if found.channels and Channel.BRIDGE in limits.channels:
            gained = await self._cross_bridges(found)
            if gained and limits.rounds > 1:
                await self._cross_again(found, gained)
        if found.channels and Channel.GRAPH in limits.channels:
            await found.read_extracted(self._best(found, self._parameters.first_hops))
            self._walk(found)
        return _hits(found, replace(limits, min_score=found.scale.usual(limits.min_score)))

    async def _begin(self, question: str, vector: Vector, limits: SearchLimits) -> Found:
        """Make the first hop; again with the names that the question may mean, if it misspells some."""
        found = await self._found(question, vector)
        near = await self._first_hop(found, limits)
        if limits.is_read:
            return found
        respelt = await respell(self._store, question, found.named, [hit.id for hit in near])
        if respelt.changes:
            embedded = await self._embedding.embed([respelt.question], "query")
            found = replace(await self._found(respelt.question, embedded.vectors[0]), respelt=respelt)
            await self._first_hop(found, limits)
        return found

    async def _found(self, question: str, vector: Vector) -> Found:
        words = await asyncio.to_thread(terms, question) if len(question) > _LONG_QUESTION else terms(question)
        scale = await self._embedding.scale()
        return Found(self._store, question, words, np.ascontiguousarray(vector, np.float32), scale)

    async def _first_hop(self, found: Found, limits: SearchLimits) -> Sequence[Hit]:
        """Find chunks by vector and by words, and entities by name; return the chunks near by vector."""
        near, worded, _ = await run_together(
            self._search_vectors(found, limits), self._search_words(found, limits), self._link(found)
        )
        if not (near or worded):
            return []
        about = [chunk_id for entity in found.named.linked for chunk_id in entity.chunk_ids]
        # Of what was found by vector the cosine is known; the vector is read where a bridge leads there.
        found.cosines.update((hit.id, hit.score) for hit in near)
        others = (*(hit.id for hit in worded), *about)
        await found.read_vectors([chunk_id for chunk_id in others if chunk_id not in found.cosines])
        if Channel.VECTOR in limits.channels:
            found.add(Channel.VECTOR, dict(found.cosines))
        if worded:
            weight = _keyword_weight(near, self._parameters) / max(worded[0].score, 1e-9)
            found.add(Channel.KEYWORD, {hit.id: weight * hit.score for hit in worded})
        found.add(Channel.ENTITY, _named_scores(found.named, found.similar, self._parameters))
        return near

    async def _search_vectors(self, found: Found, limits: SearchLimits) -> Sequence[Hit]:
        if Channel.VECTOR not in limits.channels:
            return []
        count = _widened(self._parameters.vector_limit, limits)
        hits = await self._store.vectors.search(Collection.CHUNKS, found.vector, count, -1.0)
        return [Hit(hit.id, found.scale.usual(hit.score)) for hit in hits]

    async def _search_words(self, found: Found, limits: SearchLimits) -> Sequence[Hit]:
        if Channel.KEYWORD not in limits.channels:
            return []
        return await search_keywords(self._store, found.words, _widened(self._parameters.keyword_limit, limits))

    async def _link(self, found: Found) -> Sequence[Hit]:
        spans = question_spans(found.question)
        if spans:
            await found.read_places([span.entity_id for span in spans])
            found.named = link_entities(spans, found.places)
            free = alias_spans(found.question, spans, found.named)
            aliases, places = await find_aliases(self._store, free, READ_MENTIONS)
            if aliases:
                found.places |= places
                found.named = link_entities([*spans, *aliases], found.places)
        return []

    async def _link_similar(self, found: Found) -> None:
        """Let entities of the best chunks that the question resembles stand in for names, of which it has none."""
        parameters = self._parameters
        mentioned = [mention_entity_id(mention) for mentions in found.mentions.values() for mention in mentions]
        candidates = [id_ for id_ in dict.fromkeys(mentioned) if id_ in found.places]
        limit, least = parameters.similar_limit, parameters.least_similar
        similar = await find_similar(self._store, found.vector, candidates, limit, least, found.scale)
        found.similar = {id_: found.places[id_] for id_ in similar}
        await found.read_vectors(chunk_id for places in found.similar.values() for chunk_id in places.about)
        found.add(Channel.ENTITY, _named_scores(found.named, found.similar, parameters))

    async def _cross_bridges(self, found: Found) -> dict[str, Gain]:
        """Go from the best chunks over entities to further ones."""
        parameters = self._parameters
        totals = found.totals()
        first = best(totals, parameters.first_hops)
        top = max(totals[first[0]], 1e-9)
        starts = [
            Start(
                (chunk_id,),
                max(0.0, totals[chunk_id]) / top,
                found.mentions.get(chunk_id, ()),
                worth=found.worth.get(chunk_id, {}),
            )
            for chunk_id in first
        ]
        lead = 1.0 - max(0.0, totals[first[1]]) / top if len(first) > 1 else 0.0
        starts[0] = replace(starts[0], weight=(1.0 + lead) * starts[0].weight)
        gained = await self._follow(found, starts, parameters.bridges, {}, lead)
        found.add(Channel.BRIDGE, {chunk_id: gain.value for chunk_id, gain in gained.items()})
        return gained

    async def _cross_again(self, found: Found, gained: Mapping[str, Gain]) -> None:
        """Go on from the best chunks that were found over a bridge."""
        parameters = self._parameters
        totals = found.totals()
        top = max(totals.values())
        reached = sorted(gained, key=lambda chunk_id: (-totals[chunk_id], chunk_id))[: parameters.second_hops]
        await found.read_mentions(reached, parameters.aside)
        starts = [
            Start(
                (*gained[chunk_id].bridge.path, chunk_id),
                max(0.0, totals[chunk_id]) / top,
                found.mentions.get(chunk_id, ()),
                frozenset({gained[chunk_id].bridge.entity_id}),
                found.worth.get(chunk_id, {}),
            )
            for chunk_id in reached
        ]
        beaten = {chunk_id: gain.cosine for chunk_id, gain in gained.items()}
        scores = dict(found.channels[Channel.BRIDGE])
        for chunk_id, gain in (await self._follow(found, starts, parameters.second_bridges, beaten)).items():
            scores[chunk_id] = max(scores.get(chunk_id, 0.0), gain.value)
        found.add(Channel.BRIDGE, scores)

    async def _follow(
        self, found: Found, starts: Sequence[Start], limit: int, beaten: Mapping[str, float], lead: float = 0.0
    ) -> dict[str, Gain]:
        parameters = self._parameters.where_led(lead)
        wanted = Wanted(found.question.casefold(), frozenset(found.words), found.named.ids)
        followed = follow_bridges(starts, found.places, wanted, parameters, limit)
        # What its mentions already show to be common leads only to chunks that are about it.
        phrases = [
            _phrase(item.bridge.name) if item.mention_count <= parameters.most_mentions else [] for item in followed
        ]
        holders = await self._store.text.find_phrases(Collection.CHUNKS, phrases, parameters.most_mentions + 1)
        followed = widen(followed, holders, parameters)
        if not followed:
            return {}
        await found.read_vectors(id_ for item in followed for id_ in (*item.about, *item.mentioning))
        known = {id_: max(cosine, beaten.get(id_, cosine)) for id_, cosine in found.cosines.items()}
        nearness = await self._compare(found, followed)
        # A chunk that nothing has found yet will count with its cosine once a bridge leads there.
        scores = (found.cosines if Channel.VECTOR in found.channels else {}) | found.totals()
        reached = gains(followed, nearness, known, scores, parameters)
        found.paths = {chunk_id: gain.bridge.path for chunk_id, gain in reached.items()} | found.paths
        return reached

    async def _compare(self, found: Found, followed: Sequence[FollowedBridge]) -> Nearness:
        texts = [
            residual_question(found.question, _subjects(found, item.bridge), item.bridge.name) for item in followed
        ]
        embedded = await self._embedding.embed(texts, "query")
        reached = (id_ for item in followed for id_ in (*item.about, *item.mentioning))
        return found.nearness(embedded.vectors, self._parameters.question, reached)

    def _best(self, found: Found, count: int) -> list[str]:
        return best(found.totals(), count)

    def _walk(self, found: Found) -> None:
        totals = found.totals()
        reached = walk(totals, found.mentions, found.places, found.named.linked, self._parameters)
        found.entities = ordered(reached.entities)
        scores = {id_: share for id_, share in reached.chunks.items() if id_ in found.cosines or id_ in totals}
        if scores and self._parameters.walk > 0:
            scale = self._parameters.walk / max(scores.values())
            found.add(Channel.GRAPH, {id_: scale * share for id_, share in scores.items()})


def _widened(limit: int, limits: SearchLimits) -> int:
    """Return how many chunks to take, in proportion where more hits are wanted than usual, up to a bound."""
    return min(ceil(limit * max(1.0, limits.hits / _USUAL_HITS)), _MOST_TAKEN)


def _phrase(name: str) -> list[str]:
    """Return the terms by which chunks are found whose text holds a name; a short one holds no name but any word."""
    return terms(name) if len(name) >= _SHORTEST_PHRASE or not name.isascii() else []


def _keyword_weight(near: Sequence[Hit], parameters: FusionParameters) -> float:
    if not near:
        return parameters.most_keyword
    fall = near[0].score - near[min(_FALL_RANK, len(near)) - 1].score
    return min(parameters.most_keyword, parameters.keyword_spread / max(fall, _LEAST_FALL))


def _named_scores(named: Named, similar: Mapping[str, EntityPlaces], parameters: FusionParameters) -> Scores:
    worth = [
        (entity.chunk_ids, parameters.named * (parameters.one_word if is_one_word(entity.name) else 1.0))
        for entity in named.linked
    ]
    worth += [(places.about, parameters.named * parameters.similar) for places in similar.values()]
    scores: Scores = {}
    for chunk_ids, value in worth:
        for chunk_id in chunk_ids:
            scores[chunk_id] = max(scores.get(chunk_id, 0.0), value / len(chunk_ids) ** 0.5)
    return scores


def _subjects(found: Found, bridge: Bridge) -> list[str]:
    """Return the names of what the chunks on the way are about."""
    passed = (mention for chunk_id in bridge.path for mention in found.mentions.get(chunk_id, ()))
    return [mention.name for mention in passed if is_subject_rank(mention.rank)]


def _hits(found: Found, limits: SearchLimits) -> FusedHits:
    sums = found.totals()
    channels = {name: scores for name, scores in found.channels.items() if scores}
    totals = by_rank(channels) if limits.by_rank else sums
    cosines = channels.get(Channel.VECTOR, {})
    others = set[str]().union(*(scores for name, scores in channels.items() if name is not Channel.VECTOR))
    near_or_found = {id_ for id_, cosine in cosines.items() if cosine >= limits.min_score} | others
    first = best({id_: total for id_, total in totals.items() if id_ in near_or_found}, limits.hits)
    hits = tuple(
        FusedHit(
            chunk_id,
            totals[chunk_id],
            {str(name): scores[chunk_id] for name, scores in channels.items() if scores.get(chunk_id)},
            found.paths.get(chunk_id, ()),
        )
        for chunk_id in first
    )
    return FusedHits(hits, found.named.linked, entities=tuple(found.entities), respelt=found.respelt)
