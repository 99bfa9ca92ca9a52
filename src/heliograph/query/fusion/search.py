"""Fused search: one question in, one ranking of chunks out, every hit with its scores by channel.

The steps: chunks near the question by vector and by words, and entities that it names; from the best chunks over
entities to further ones (`heliograph.query.fusion.bridge`); a walk over the graph of all that was read
(`heliograph.query.fusion.walk`); and the fusion of these lists (`heliograph.query.fusion.combine`). Whatever is read is
read by id or by index and bounded by `FusionParameters`, so only the two searches may cost more in a larger corpus.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil

import numpy as np
from numpy.typing import NDArray

from heliograph.embedding.base import EmbeddingModel
from heliograph.ids import is_subject_rank
from heliograph.models import EntityMention
from heliograph.query.channels.keyword import search_keywords
from heliograph.query.concurrency import run_together
from heliograph.query.fusion.asides import worth_of_mentions
from heliograph.query.fusion.bridge import (
    FollowedBridge,
    Gain,
    Start,
    follow_bridges,
    gains,
    residual_question,
    widen,
)
from heliograph.query.fusion.combine import best, by_rank, by_score, ordered
from heliograph.query.fusion.models import Bridge, FusedHit, FusedHits, SearchLimits
from heliograph.query.fusion.parameters import FusionParameters
from heliograph.query.fusion.walk import walk
from heliograph.query.linking.aliases import alias_spans, find_aliases, find_similar
from heliograph.query.linking.names import (
    Named,
    is_one_word,
    link_entities,
    named_in_passage,
    passage_runs,
    question_spans,
)
from heliograph.query.modes import Channel
from heliograph.stores.base import EntityPlaces, Hit, StoreView
from heliograph.stores.changeset import Collection
from heliograph.text.analysis import terms
from heliograph.text.mention_ids import mention_entity_id

__all__ = ["FusedSearch"]

Vector = NDArray[np.float32]
Scores = dict[str, float]

# How far down the list of cosines the fall is measured that says how well vectors tell chunks apart, and its least.
_FALL_RANK = 10
_LEAST_FALL = 0.02
# Mentions of an entity that are read: enough to hold those of any that is not too common to lead on.
_READ_MENTIONS = 32
# Hits wanted by a question that keeps twenty chunks, before they are reranked.
_USUAL_HITS = 60
# Chunks taken from either index at the most: their vectors are all read.
_MOST_TAKEN = 2_000
_SHORTEST_PHRASE = 4


@dataclass
class _State:
    """What a search has found so far: scores by channel, vectors and mentions read."""

    question: str
    vector: Vector
    channels: dict[str, Scores] = field(default_factory=dict[str, Scores])
    vectors: dict[str, Vector] = field(default_factory=dict[str, Vector])
    cosines: Scores = field(default_factory=dict[str, float])
    mentions: dict[str, Sequence[EntityMention]] = field(default_factory=dict[str, Sequence[EntityMention]])
    worth: dict[str, Mapping[str, float]] = field(default_factory=dict[str, Mapping[str, float]])
    places: dict[str, EntityPlaces] = field(default_factory=dict[str, EntityPlaces])
    named: Named = field(default_factory=Named)
    similar: Mapping[str, EntityPlaces] = field(default_factory=dict[str, EntityPlaces])
    paths: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    entities: Sequence[str] = ()

    def totals(self) -> Scores:
        """Return scores summed over channels; what another channel found counts with its cosine too."""
        near = self.channels.get(Channel.VECTOR)
        if near is not None:
            for scores in list(self.channels.values()):
                near |= {id_: self.cosines[id_] for id_ in scores.keys() - near.keys() if id_ in self.cosines}
        return by_score(self.channels)


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
        state = _State(question, np.ascontiguousarray(vector, np.float32))
        await self._first_hop(state, limits)
        if state.channels and limits.channels & {Channel.BRIDGE, Channel.GRAPH}:
            await self._read_mentions(state, self._best(state, self._parameters.first_hops))
        if state.channels and Channel.BRIDGE in limits.channels:
            gained = await self._cross_bridges(state)
            if gained and limits.rounds > 1:
                await self._cross_again(state, gained)
        if state.channels and Channel.GRAPH in limits.channels:
            await self._read_extracted(state, self._best(state, self._parameters.first_hops))
            self._walk(state)
        return _hits(state, limits)

    async def _first_hop(self, state: _State, limits: SearchLimits) -> None:
        """Find chunks by vector and by words, and entities by name."""
        near, worded, _ = await run_together(
            self._search_vectors(state, limits), self._search_words(state, limits), self._link(state)
        )
        if not (near or worded):
            return
        about = [chunk_id for entity in state.named.linked for chunk_id in entity.chunk_ids]
        about += [chunk_id for places in state.similar.values() for chunk_id in places.about]
        # Of what was found by vector the cosine is known; the vector is read where a bridge leads there.
        state.cosines.update((hit.id, hit.score) for hit in near)
        others = (*(hit.id for hit in worded), *about)
        await self._read_vectors(state, [chunk_id for chunk_id in others if chunk_id not in state.cosines])
        if Channel.VECTOR in limits.channels:
            state.channels[Channel.VECTOR] = dict(state.cosines)
        if worded:
            weight = _keyword_weight(near, self._parameters) / max(worded[0].score, 1e-9)
            state.channels[Channel.KEYWORD] = {hit.id: weight * hit.score for hit in worded}
        state.channels[Channel.ENTITY] = _named_scores(state.named, state.similar, self._parameters)

    async def _search_vectors(self, state: _State, limits: SearchLimits) -> Sequence[Hit]:
        if Channel.VECTOR not in limits.channels:
            return []
        count = _widened(self._parameters.vector_limit, limits)
        return await self._store.vectors.search(Collection.CHUNKS, state.vector, count, -1.0)

    async def _search_words(self, state: _State, limits: SearchLimits) -> Sequence[Hit]:
        if Channel.KEYWORD not in limits.channels:
            return []
        return await search_keywords(self._store, state.question, _widened(self._parameters.keyword_limit, limits))

    async def _link(self, state: _State) -> Sequence[Hit]:
        spans = question_spans(state.question)
        if spans:
            await self._read_places(state, [span.entity_id for span in spans])
            state.named = link_entities(spans, state.places)
            free = alias_spans(state.question, spans, state.named)
            aliases, places = await find_aliases(self._store, free, _READ_MENTIONS)
            if aliases:
                state.places |= places
                state.named = link_entities([*spans, *aliases], state.places)
        if not state.named.linked:
            parameters = self._parameters
            state.similar = await find_similar(
                self._store, state.vector, parameters.similar_limit, parameters.least_similar, _READ_MENTIONS
            )
        return []

    async def _read_vectors(self, state: _State, chunk_ids: Iterable[str]) -> None:
        missing = [chunk_id for chunk_id in dict.fromkeys(chunk_ids) if chunk_id not in state.vectors]
        if missing:
            read = await self._store.vectors.get_vectors(Collection.CHUNKS, missing)
            state.vectors.update(read)
            if read:
                cosines = np.stack(list(read.values())) @ state.vector
                state.cosines.update(zip(read, cosines.tolist(), strict=True))

    async def _read_places(self, state: _State, entity_ids: Sequence[str]) -> None:
        missing = [id_ for id_ in dict.fromkeys(entity_ids) if id_ not in state.places]
        if missing:
            places = await self._store.records.get_mention_places(missing, _READ_MENTIONS)
            state.places.update((item.id, item) for item in places if item.chunk_ids)

    async def _read_extracted(self, state: _State, chunk_ids: Sequence[str]) -> None:
        """Read what an extractor found in chunks from which no bridge starts."""
        missing = [chunk_id for chunk_id in chunk_ids if chunk_id not in state.mentions]
        if missing:
            read = await self._store.records.get_entity_mentions(missing)
            await self._read_places(state, [mention_entity_id(item) for found in read.values() for item in found])
            state.mentions.update(read)

    async def _read_mentions(self, state: _State, chunk_ids: Sequence[str]) -> None:
        """Read what an extractor found in chunks, and what else they name."""
        missing = [chunk_id for chunk_id in chunk_ids if chunk_id not in state.mentions]
        if missing:
            read, chunks = await run_together(
                self._store.records.get_entity_mentions(missing), self._store.records.get_chunks(missing)
            )
            runs = {
                chunk.id: passage_runs(chunk.text, (mention.name for mention in read.get(chunk.id, ())))
                for chunk in chunks
            }
            mentioned = [mention_entity_id(mention) for mentions in read.values() for mention in mentions]
            await self._read_places(state, [*mentioned, *(id_ for found in runs.values() for id_ in found)])
            wanted = frozenset(terms(state.question))
            for chunk in chunks:
                found = named_in_passage(chunk.id, chunk.text, runs[chunk.id], state.places)
                mentions = state.mentions[chunk.id] = (*read.get(chunk.id, ()), *found)
                state.worth[chunk.id] = worth_of_mentions(chunk.text, mentions, wanted, self._parameters.aside)

    async def _cross_bridges(self, state: _State) -> dict[str, Gain]:
        """Go from the best chunks over entities to further ones."""
        parameters = self._parameters
        totals = state.totals()
        first = best(totals, parameters.first_hops)
        top = max(totals[first[0]], 1e-9)
        starts = [
            Start(
                (chunk_id,),
                max(0.0, totals[chunk_id]) / top,
                state.mentions.get(chunk_id, ()),
                worth=state.worth.get(chunk_id, {}),
            )
            for chunk_id in first
        ]
        lead = 1.0 - max(0.0, totals[first[1]]) / top if len(first) > 1 else 0.0
        starts[0] = replace(starts[0], weight=(1.0 + lead) * starts[0].weight)
        gained = await self._follow(state, starts, parameters.bridges, {}, lead)
        state.channels[Channel.BRIDGE] = {chunk_id: gain.value for chunk_id, gain in gained.items()}
        return gained

    async def _cross_again(self, state: _State, gained: Mapping[str, Gain]) -> None:
        """Go on from the best chunks that were found over a bridge."""
        parameters = self._parameters
        totals = state.totals()
        top = max(totals.values())
        reached = sorted(gained, key=lambda chunk_id: (-totals[chunk_id], chunk_id))[: parameters.second_hops]
        await self._read_mentions(state, reached)
        starts = [
            Start(
                (*gained[chunk_id].bridge.path, chunk_id),
                max(0.0, totals[chunk_id]) / top,
                state.mentions.get(chunk_id, ()),
                frozenset({gained[chunk_id].bridge.entity_id}),
                state.worth.get(chunk_id, {}),
            )
            for chunk_id in reached
        ]
        beaten = {chunk_id: gain.cosine for chunk_id, gain in gained.items()}
        scores = state.channels[Channel.BRIDGE]
        for chunk_id, gain in (await self._follow(state, starts, parameters.second_bridges, beaten)).items():
            scores[chunk_id] = max(scores.get(chunk_id, 0.0), gain.value)

    async def _follow(
        self, state: _State, starts: Sequence[Start], limit: int, beaten: Mapping[str, float], lead: float = 0.0
    ) -> dict[str, Gain]:
        parameters = self._parameters.where_led(lead)
        followed = follow_bridges(starts, state.places, state.question, state.named.ids, parameters, limit)
        # What its mentions already show to be common leads only to chunks that are about it.
        phrases = [
            _phrase(item.bridge.name) if item.mention_count <= parameters.most_mentions else [] for item in followed
        ]
        holders = await self._store.text.find_phrases(Collection.CHUNKS, phrases, parameters.most_mentions + 1)
        followed = widen(followed, holders, parameters)
        if not followed:
            return {}
        await self._read_vectors(state, (id_ for item in followed for id_ in (*item.about, *item.mentioning)))
        known = {id_: max(cosine, beaten.get(id_, cosine)) for id_, cosine in state.cosines.items()}
        vectors = await self._embed(state, followed)
        # A chunk that nothing has found yet will count with its cosine once a bridge leads there.
        scores = (state.cosines if Channel.VECTOR in state.channels else {}) | state.totals()
        found = gains(followed, vectors, state.vectors, known, scores, parameters)
        state.paths = {chunk_id: gain.bridge.path for chunk_id, gain in found.items()} | state.paths
        return found

    async def _embed(self, state: _State, followed: Sequence[FollowedBridge]) -> Sequence[Vector]:
        texts = [
            residual_question(state.question, _subjects(state, item.bridge), item.bridge.name) for item in followed
        ]
        embedded = await self._embedding.embed(texts, "query")
        mixed = embedded.vectors + self._parameters.question * state.vector
        return list(mixed / np.linalg.norm(mixed, axis=1, keepdims=True))

    def _best(self, state: _State, count: int) -> list[str]:
        return best(state.totals(), count)

    def _walk(self, state: _State) -> None:
        totals = state.totals()
        reached = walk(totals, state.mentions, state.places, state.named.linked, self._parameters)
        state.entities = ordered(reached.entities)
        scores = {id_: share for id_, share in reached.chunks.items() if id_ in state.cosines or id_ in totals}
        if scores and self._parameters.walk > 0:
            scale = self._parameters.walk / max(scores.values())
            state.channels[Channel.GRAPH] = {id_: scale * share for id_, share in scores.items()}


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


def _subjects(state: _State, bridge: Bridge) -> list[str]:
    """Return the names of what the chunks on the way are about."""
    passed = (mention for chunk_id in bridge.path for mention in state.mentions.get(chunk_id, ()))
    return [mention.name for mention in passed if is_subject_rank(mention.rank)]


def _hits(state: _State, limits: SearchLimits) -> FusedHits:
    sums = state.totals()
    channels = {name: scores for name, scores in state.channels.items() if scores}
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
            state.paths.get(chunk_id, ()),
        )
        for chunk_id in first
    )
    return FusedHits(hits, state.named.linked, entities=tuple(state.entities))
