"""Fused search: one question in, one ranking of chunks out, every hit with its scores by channel; and mode `auto`.

Mode `auto` is the fused search, adapted to what the question asks for:

| kind | search |
|---|---|
| fact, how-to, reason | the fused search as it is |
| compare | also once for each side; the sides' hits are interleaved |
| aggregate | wider: twice the chunks |
| global | broad: twice the chunks, entities and relations; also once for each aspect, and documents take turns |

The first hits of the plain search keep their places (`_KEPT_FIRST`), unless the best hit of a side has to be moved in
among them; further hits of all searches are interleaved. So the first hits of `auto` are those of `fusion`, and a
misread question costs little. A question of several parts is also searched part by part, whatever its kind; hits of the
parts and of the whole are interleaved from the first place on. Hits for an account of a whole subject are spread over
documents, first those on which its words, its meaning and its aspects agree. `leaders` names the chunks, one for each
side or part, that no cut may drop.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise, zip_longest
from math import ceil

import numpy as np

from heliograph.calls.tasks import in_thread, run_together
from heliograph.embedding.base import CosineScale, EmbeddingModel, cosines
from heliograph.ids import is_subject_rank, mention_entity_id
from heliograph.models import EntityMention
from heliograph.query.bridges import (
    FollowedBridge,
    Nearness,
    Start,
    Wanted,
    best_gains,
    distinction,
    follow_bridges,
    gains,
    promising,
    residual_question,
    walk,
    widen,
)
from heliograph.query.context.assembly import with_leaders
from heliograph.query.linking import (
    LinkedEntity,
    Named,
    Respelt,
    alias_spans,
    find_aliases,
    link_entities,
    named_in_passage,
    passage_runs,
    question_spans,
    respell,
)
from heliograph.query.models import FoundPart, FusedHit, Keywords
from heliograph.query.plain_search import Vector, best, by_place, by_rank, by_score, ordered, round_robin, search_words
from heliograph.query.plan import FUSED_CHANNELS, Channel, FusionParameters, Plan
from heliograph.query.understanding import QuestionKind, Understanding, find_aspects, side_question
from heliograph.settings import MAX_TOP_K
from heliograph.stores.base import EntityPlaces, Hit, StoreView
from heliograph.stores.changeset import Collection
from heliograph.text.analysis import chunk_index_text, passage_terms, question_language, question_terms, terms
from heliograph.text.glossary import GLOSSARY_LANGUAGES, Renderings
from heliograph.text.patterns import compiled
from heliograph.text.sentences import paragraph_starts

# The channel of scores for chunks about an entity that the question names. Its name `entity` is also that of
# `Channel.ENTITY`, the search by keywords, which has no part in fused scores.
NAMED_ENTITY = "entity"


@dataclass(frozen=True, slots=True)
class SearchLimits:
    """Limits and options of a fused search.

    Attributes:
        hits: Maximum number of hits.
        channels: Channels used; others than vector, keyword, bridge and graph are ignored.
        by_rank: Whether to fuse by reciprocal rank instead of weighted scores.
        min_cosine: Minimum cosine of a chunk that no other channel found.
        is_read: Whether misspelt names are corrected already, so that the question is searched unchanged.
        is_account: Whether the question asks for an account of a whole subject, though its first words do not say so.
    """

    hits: int = 20
    channels: frozenset[Channel] = frozenset(FUSED_CHANNELS)
    by_rank: bool = False
    min_cosine: float = -1.0
    is_read: bool = False
    is_account: bool = False


@dataclass(frozen=True, slots=True)
class FusedHits:
    """The hits of a fused search, best first, ties by id, with the entities behind them.

    Attributes:
        linked: Entities that the question names, in its order, the longest of overlapping names.
        leaders: Chunks that no cut may drop, one for each part or side of the question; none for a plain question.
        entities: Entities that the best hits mention or the question names, ordered by how strongly they connect the
            hits.
        respelt: The corrected question that was searched for, if names in it were misspelt.
        parts: Results of each part of a question with several parts; else empty.
        sources: Source of each hit's document, by chunk; the document's id if it has no source.
    """

    hits: tuple[FusedHit, ...] = ()
    linked: tuple[LinkedEntity, ...] = ()
    leaders: tuple[str, ...] = ()
    entities: tuple[str, ...] = ()
    respelt: Respelt | None = None
    parts: tuple[FoundPart, ...] = ()
    sources: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def chunk_ids(self) -> list[str]:
        """The chunks, best first."""
        return [hit.chunk_id for hit in self.hits]


Scores = dict[str, float]


@dataclass(frozen=True, slots=True)
class FollowedBridges:
    """Bridges from the best chunks, with the vectors of their entities and the parameters that weigh them."""

    followed: Sequence[FollowedBridge]
    entities: Mapping[str, Vector]
    parameters: FusionParameters


# Mentions read per entity: enough for all mentions of any entity that is rare enough for bridges.
READ_MENTIONS = 32


@dataclass
class Found:
    """The state of a search: scores so far, by channel, and a cache of everything read from the store for it.

    Attributes:
        scale: Converts cosines to the usual scale, which all values below are in.
        parameters: Weights and bounds for this question in this corpus.
        share: Factor of words, names, bridges and the walk for this question: 1, or `FusionParameters.account` if it
            asks for an account of a subject. `_weigh_channels` applies a smaller one if the nearest chunks come from
            few documents.
        channels: Scores by chunk id, by channel.
        cosines: Cosines of the question with all chunks whose vectors were compared.
        mentions: Entity mentions of each chunk that was read for them.
        worth: Per such chunk and entity, the factor of bridges from there.
        paths: Chunks that led to each chunk reached over a bridge.
        entities: Entities that connect the evidence, the strongest first.
        respelt: The corrected question, if it misspells names.
        near: The chunks nearest by vector, which show what all near chunks have in common.
        sources: By chunk, the source or else id of its document; of the near chunks and, at the end, of the best ones.
    """

    store: StoreView
    question: str
    words: Sequence[str]
    vector: Vector
    scale: CosineScale
    parameters: FusionParameters
    share: float = 1.0
    channels: dict[str, Scores] = field(default_factory=dict[str, Scores])
    vectors: dict[str, Vector] = field(default_factory=dict[str, Vector])
    cosines: Scores = field(default_factory=dict[str, float])
    mentions: dict[str, Sequence[EntityMention]] = field(default_factory=dict[str, Sequence[EntityMention]])
    worth: dict[str, Mapping[str, float]] = field(default_factory=dict[str, Mapping[str, float]])
    places: dict[str, EntityPlaces] = field(default_factory=dict[str, EntityPlaces])
    named: Named = field(default_factory=Named)
    paths: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    entities: Sequence[str] = ()
    respelt: Respelt | None = None
    near: frozenset[str] = frozenset()
    sources: dict[str, str] = field(default_factory=dict[str, str])

    def totals(self) -> Scores:
        """Return the scores summed over the channels."""
        return by_score(self.channels)

    def set_channel(self, channel: str, scores: Scores) -> None:
        """Replace a channel's scores.

        Chunks new to the search also get their cosine as score in the vector channel, if that is used.
        """
        self.channels[channel] = scores
        by_vector = self.channels.get(Channel.VECTOR)
        if by_vector is not None and by_vector is not scores:
            by_vector |= {id_: self.cosines[id_] for id_ in scores.keys() - by_vector.keys() if id_ in self.cosines}

    async def read_vectors(self, chunk_ids: Iterable[str]) -> None:
        """Read the vectors of chunks and compute their cosines with the question."""
        missing = [chunk_id for chunk_id in dict.fromkeys(chunk_ids) if chunk_id not in self.vectors]
        if missing:
            read = await self.store.vectors.get_vectors(Collection.CHUNKS, missing)
            self.vectors.update(read)
            if read:
                found = cosines(np.stack(list(read.values())), self.vector)
                self.cosines.update(zip(read, self.scale.usual(found).tolist(), strict=True))

    def nearness(self, residuals: Vector, share: float, chunk_ids: Iterable[str]) -> Nearness:
        """Compare chunks with residual questions into which a share of the question itself is mixed.

        The result is the cosine of each chunk with `normalise(residual + share * question)`, computed from three
        rescaled cosines, since rescaling applies to cosines and not to vectors.

        Args:
            residuals: Embedded residual questions, `(n, dimension)`, unit rows.
            share: Share of the question's vector that is added to each.
            chunk_ids: The chunks; those without a vector are left out.
        """
        ids = [chunk_id for chunk_id in dict.fromkeys(chunk_ids) if chunk_id in self.vectors]
        chunks = np.stack([self.vectors[chunk_id] for chunk_id in ids]) if ids else residuals[:0]
        question_chunk = np.array([self.cosines[chunk_id] for chunk_id in ids], np.float32)
        question_residual = np.clip(self.scale.usual(residuals @ self.vector), -1.0, 1.0)
        residual_chunk = self.scale.usual(np.stack([cosines(chunks, residual) for residual in residuals]))
        lengths = np.sqrt(1.0 + share * share + 2.0 * share * question_residual)
        mixed = (residual_chunk + share * question_chunk) / lengths[:, np.newaxis]
        return Nearness(mixed.astype(np.float32), {chunk_id: column for column, chunk_id in enumerate(ids)})

    async def held_share(self, chunk_ids: Sequence[str], renderings: Renderings | None = None) -> float:
        """Return the share of the question's terms that any of these chunks is indexed under or translates."""
        wanted = frozenset(self.words)
        chunks = await self.store.records.get_chunks(chunk_ids)
        titles = {id_: owner.title for id_, owner in (await self.store.records.get_owners(chunks)).items()}
        passages = (chunk_index_text(titles.get(chunk.document_id, ""), chunk) for chunk in chunks)
        held = frozenset(term for passage in passages for term in passage_terms(passage))
        return len(wanted & (renderings.completed(held) if renderings else held)) / len(wanted)

    async def read_sources(self, chunk_ids: Iterable[str]) -> None:
        """Read the sources of the chunks' documents, or the ids of documents without a source."""
        missing = [chunk_id for chunk_id in dict.fromkeys(chunk_ids) if chunk_id not in self.sources]
        sources = await self.store.records.get_sources(missing)
        nameless = await self.store.records.get_chunks([id_ for id_, source in sources.items() if not source])
        self.sources |= sources | {chunk.id: chunk.document_id for chunk in nameless}

    async def read_places(self, entity_ids: Sequence[str]) -> None:
        """Read the mention places of entities."""
        missing = [id_ for id_ in dict.fromkeys(entity_ids) if id_ not in self.places]
        if missing:
            places = await self.store.records.get_mention_places(missing, READ_MENTIONS)
            self.places.update((item.id, item) for item in places if item.chunk_ids)

    async def read_extracted(self, chunk_ids: Sequence[str]) -> None:
        """Read the extracted entity mentions of chunks that no bridge starts from."""
        missing = [chunk_id for chunk_id in chunk_ids if chunk_id not in self.mentions]
        if missing:
            read = await self.store.records.get_entity_mentions(missing)
            await self.read_places([mention_entity_id(item) for found in read.values() for item in found])
            self.mentions.update(read)

    async def read_mentions(self, chunk_ids: Sequence[str], aside_worth: float) -> None:
        """Read the extracted entity mentions of chunks, and find further entities that their texts name.

        Args:
            chunk_ids: The chunks.
            aside_worth: Weight of a mention in a paragraph without any word of the question.
        """
        missing = [chunk_id for chunk_id in chunk_ids if chunk_id not in self.mentions]
        if missing:
            read, chunks = await run_together(
                self.store.records.get_entity_mentions(missing), self.store.records.get_chunks(missing)
            )
            runs = {
                chunk.id: passage_runs(chunk.text, (mention.name for mention in read.get(chunk.id, ())))
                for chunk in chunks
            }
            mentioned = [mention_entity_id(mention) for mentions in read.values() for mention in mentions]
            await self.read_places([*mentioned, *(id_ for found in runs.values() for id_ in found)])
            wanted = frozenset(self.words)
            for chunk in chunks:
                found = named_in_passage(chunk.id, chunk.text, runs[chunk.id], self.places)
                mentions = self.mentions[chunk.id] = (*read.get(chunk.id, ()), *found)
                self.worth[chunk.id] = worth_of_mentions(chunk.text, mentions, wanted, aside_worth)


# Weights of a chunk's entities for a question, if its paragraphs speak of different things.
#
# A chunk of several paragraphs is usually found because of one of them; entities in the others lead elsewhere. So the
# number of the question's words in a paragraph, relative to the chunk's best paragraph, decides its weight.


def worth_of_mentions(
    text: str, mentions: Iterable[EntityMention], wanted: AbstractSet[str], aside_worth: float
) -> dict[str, float]:
    """Return, per entity, the weight of the best paragraph that names it; entities of weight 1 are left out.

    Args:
        text: The chunk's text.
        mentions: Entities that it mentions; one whose name is not in the text has weight 1.
        wanted: The question's terms.
        aside_worth: Weight of a paragraph without any of these terms, if another has some.
    """
    parts = [text[start:end] for start, end in pairwise((*paragraph_starts(text), len(text)))]
    shares = [len(set(terms(part)).intersection(wanted)) for part in parts] if len(parts) > 1 else []
    most = max(shares, default=0)
    if min(shares, default=0) == most:
        return {}
    folded = [part.casefold() for part in parts]
    worth: dict[str, float] = {}
    for mention in mentions:
        name, entity_id = mention.name.casefold(), mention_entity_id(mention)
        share = max((share for share, part in zip(shares, folded, strict=True) if name in part), default=most)
        worth[entity_id] = max(worth.get(entity_id, 0.0), aside_worth + (1.0 - aside_worth) * share / most)
    return {entity_id: value for entity_id, value in worth.items() if value < 1.0}


# The rank to which the drop of the cosine is measured, which shows how well vectors separate chunks, and its minimum.
_FALL_RANK = 10
_LEAST_FALL = 0.02
# Number of best keyword hits that are checked for the question's words.
_FIRST_WORDED = 3
# Hits requested for a question that keeps twenty chunks, before reranking.
_USUAL_HITS = 60
# Maximum of chunks taken from either index, since all their vectors are read.
_MOST_TAKEN = 2_000
_SHORTEST_PHRASE = 4
# Number of near chunks that show whether the corpus has few long documents about one subject or many short ones, and
# the ratios of documents to chunks between which the weights change from one case to the other.
_NEAR = 20
_MANY_DOCUMENTS, _FEW_DOCUMENTS = 0.75, 0.25
# Longer questions may be pasted documents; they are tokenized in a thread, so as not to block the event loop.
_LONG_QUESTION = 2_000
# Words that say how to answer, not what the question is about. Few documents hold them, so full-text search would
# weigh them as the rarest words of the question. The named groups ask for an account of a whole subject.
_REQUEST = compiled(
    r"(?:please |can you |could you )*(?:(?P<verb>summari[sz]e|describe|outline|characteri[sz]e|trace)\b"
    r"|(?P<noun>(?:give|provide|write)(?: me| us)? (?:an?|the) (?:\w+ )?(?:summary|overview|description|account) of)\b"
    r"|(?:explain|discuss|list)\b)(?=.)"
    r"|(?:请|请你|帮我|给我|简要|详细|简单)*(?:(?P<han>总结|概述|概括|归纳|综述|描述)|介绍|说明|阐述|解释|列举)(?:一下|下)?(?=.)",
    re.IGNORECASE,
)


class FusedSearch:
    """Searches a workspace, or a view of one, through several channels at once.

    `embedding` must be the model that filled the workspace; it embeds the bridges' residual questions in one batch.
    """

    def __init__(self, store: StoreView, embedding: EmbeddingModel, parameters: FusionParameters | None = None) -> None:
        self._store = store
        self._embedding = embedding
        self._parameters = parameters or FusionParameters()

    async def search(self, question: str, vector: Vector, limits: SearchLimits | None = None) -> FusedHits:
        """Return the best chunks for a question, or a part of one, embedded as `(dimension,)` float32 of length 1.

        Returns:
            Hits, best first, ties by id; the entities that the question names, and those of the evidence. All are empty
            if nothing is found, as without both the vector and the keyword channel, from which the others start.

        Raises:
            ModelError: The embedding failed.
            StoreError: The store failed.
        """
        limits = limits or SearchLimits()
        found = await self._found(question, vector, limits)
        bridges = await self._store.at_one_moment(lambda: self._find_first(found, limits))
        if found.respelt:
            embedded = await self._embedding.embed([found.respelt.question], "query")
            again = await self._found(found.respelt.question, embedded.vectors[0], limits)
            found = replace(again, respelt=found.respelt)
            bridges = await self._store.at_one_moment(lambda: self._find_first(found, replace(limits, is_read=True)))
        if bridges is not None:
            await self._cross_bridges(found, bridges)
        return await self._store.at_one_moment(lambda: self._conclude(found, limits))

    async def _find_first(self, found: Found, limits: SearchLimits) -> FollowedBridges | None:
        """Make the first hop and find the bridges from the best chunks.

        If the question misspells names, only set `found.respelt` and return None.
        """
        near = await self._first_hop(found, limits)
        if not limits.is_read:
            respelt = await respell(self._store, found.question, found.named, [hit.id for hit in near])
            if respelt.changes:
                found.respelt = respelt
                return None
        if not (found.channels and limits.channels & {Channel.BRIDGE, Channel.GRAPH}):
            return None
        first = best(found.totals(), self._parameters.first_hops)
        await found.read_mentions(first, self._parameters.aside_worth)
        return await self._follow_bridges(found) if Channel.BRIDGE in limits.channels else None

    async def _conclude(self, found: Found, limits: SearchLimits) -> FusedHits:
        if found.channels and Channel.GRAPH in limits.channels:
            await found.read_extracted(best(found.totals(), self._parameters.first_hops))
            totals, parameters = found.totals(), found.parameters
            chunks, entities = walk(totals, found.mentions, found.places, found.named.longest, parameters)
            found.entities = ordered(entities)
            scores = {id_: share for id_, share in chunks.items() if id_ in found.cosines or id_ in totals}
            if scores and parameters.walk > 0:
                scale = parameters.walk / max(scores.values())
                found.set_channel(Channel.GRAPH, {id_: scale * share for id_, share in scores.items()})
        # Data of documents that `_hits` weighs must be read here, for at least as many chunks as it returns.
        await found.read_sources(best(found.totals(), limits.hits))
        return _hits(found, replace(limits, min_cosine=found.scale.usual(limits.min_cosine)))

    async def _weigh_channels(self, found: Found, near: Sequence[Hit]) -> None:
        """Lower the weights of words and names if the near chunks come from few documents, which all share them."""
        if len(near) >= _NEAR:
            await found.read_sources(found.near)
            spread = len({found.sources.get(id_, id_) for id_ in found.near}) / len(found.near)
            few = min(1.0, max(0.0, (_MANY_DOCUMENTS - spread) / (_MANY_DOCUMENTS - _FEW_DOCUMENTS)))
            within = 1.0 - few * (1.0 - self._parameters.within_pages)
            found.parameters = self._parameters.weighed(min(within, found.share))

    async def _found(self, question: str, vector: Vector, limits: SearchLimits) -> Found:
        request = _REQUEST.match(question)
        subject = question[request.end() :] if request else question
        words = await in_thread(question_terms, subject) if len(subject) > _LONG_QUESTION else question_terms(subject)
        scale = await self._embedding.scale()
        vector = np.ascontiguousarray(vector, np.float32)
        # An account of a whole subject is found by meaning, since the question's words and names are all over it.
        is_account = limits.is_account or (request is not None and request.lastgroup is not None)
        share = self._parameters.account if is_account else 1.0
        parameters = self._parameters.weighed(share)
        return Found(self._store, question, words or question_terms(question), vector, scale, parameters, share)

    async def _first_hop(self, found: Found, limits: SearchLimits) -> Sequence[Hit]:
        """Find chunks by vector and by words, and entities by name; return the hits by vector."""
        words, limit = found.words, _widened(self._parameters.keyword_limit, limits)
        near, worded, _ = await run_together(
            self._search_vectors(found, limits),
            search_words(self._store, words if Channel.KEYWORD in limits.channels else (), limit),
            self._link(found),
        )
        if not (near or worded):
            return []
        found.near = frozenset(hit.id for hit in near[:_NEAR])
        known = await self._renderings(found, worded) if Channel.KEYWORD in limits.channels else None
        # A question of stop words alone has no terms to share.
        rendered = await search_words(self._store, known.search_terms(words), limit) if known and words else []
        about = [chunk_id for entity in found.named.longest for chunk_id in entity.chunk_ids]
        # Hits by vector come with their cosines; their vectors are read only if a bridge leads to them.
        found.cosines.update((hit.id, hit.score) for hit in near)
        others = (*(hit.id for hit in (*worded, *rendered)), *about)
        await run_together(
            found.read_vectors([chunk_id for chunk_id in others if chunk_id not in found.cosines]),
            self._weigh_channels(found, near),
        )
        if Channel.VECTOR in limits.channels:
            found.set_channel(Channel.VECTOR, dict(found.cosines))
        by_words = await self._weigh_words(found, near, worded)
        for id_, score in (await self._weigh_words(found, near, rendered, known)).items():
            by_words[id_] = max(by_words.get(id_, 0.0), found.parameters.rendered * score)
        if by_words:
            found.set_channel(Channel.KEYWORD, by_words)
        found.set_channel(NAMED_ENTITY, _named_scores(found))
        return near

    async def _weigh_words(
        self, found: Found, near: Sequence[Hit], hits: Sequence[Hit], renderings: Renderings | None = None
    ) -> Scores:
        """Return the keyword scores of chunks: their share of the best BM25 score times the keyword weight."""
        if not hits:
            return {}
        weight = found.parameters.most_keyword
        if near:
            fall = near[0].score - near[min(_FALL_RANK, len(near)) - 1].score
            weight = min(weight, found.parameters.keyword_spread / max(fall, _LEAST_FALL))
        if not renderings and any(len(entity.chunk_ids) == 1 for entity in found.named.longest):
            weight *= found.parameters.known_start
        weight *= await found.held_share([hit.id for hit in hits[:_FIRST_WORDED]], renderings)
        return {hit.id: weight * hit.score / max(hits[0].score, 1e-9) for hit in hits}

    async def _renderings(self, found: Found, worded: Sequence[Hit]) -> Renderings | None:
        """Return translations of the question's words into the languages of the first chunks."""
        language = question_language(found.question)
        if language not in GLOSSARY_LANGUAGES:
            return None
        first = [*found.near, *(hit.id for hit in worded[:_NEAR])]
        stated = await self._store.records.get_languages(list(dict.fromkeys(first)))
        others = {code[:2] for code in stated.values()} - {language}
        read = partial(Renderings, found.question, language, others)
        return await in_thread(read) if len(found.question) > _LONG_QUESTION else read()

    async def _search_vectors(self, found: Found, limits: SearchLimits) -> Sequence[Hit]:
        if Channel.VECTOR not in limits.channels:
            return []
        count = _widened(self._parameters.vector_limit, limits)
        hits = await self._store.vectors.search(Collection.CHUNKS, found.vector, count, -1.0)
        return [Hit(hit.id, found.scale.usual(hit.score)) for hit in hits]

    async def _link(self, found: Found) -> None:
        spans = question_spans(found.question)
        if spans:
            await found.read_places([span.entity_id for span in spans])
            found.named = link_entities(spans, found.places)
            free = alias_spans(found.question, spans, found.named)
            aliases, places = await find_aliases(self._store, free, READ_MENTIONS)
            if aliases:
                found.places |= places
                found.named = link_entities([*spans, *aliases], found.places)

    async def _follow_bridges(self, found: Found) -> FollowedBridges:
        """Find the bridges from the best chunks over their entities to further chunks."""
        totals = found.totals()
        first = best(totals, found.parameters.first_hops)
        top = max(totals[first[0]], 1e-9)
        weights = {chunk_id: max(0.0, totals[chunk_id]) / top for chunk_id in first}
        lead = 1.0 - weights[first[1]] if len(first) > 1 else 0.0
        weights[first[0]] *= 1.0 + lead
        starts = [
            Start(chunk_id, weights[chunk_id], found.mentions.get(chunk_id, ()), found.worth.get(chunk_id, {}))
            for chunk_id in first
        ]
        parameters = found.parameters.where_led(lead)
        wanted = Wanted(found.question.casefold(), frozenset(found.words), found.named.all_ids, found.near)
        followed = follow_bridges(starts, found.places, wanted, parameters)
        # An entity with many mentions leads only to chunks that are about it. Texts are not searched for a short name,
        # which may be any word there.
        phrases: list[list[str]] = []
        for item in followed:
            name, is_rare = item.name, item.mention_count <= parameters.most_mentions
            is_looked_for = is_rare and (len(name) >= _SHORTEST_PHRASE or not name.isascii())
            phrases.append(terms(name) if is_looked_for else [])
        holders = await self._store.text.find_phrases(Collection.CHUNKS, phrases, parameters.most_mentions + 1)
        followed = widen(followed, holders, parameters)
        entity_ids = list(dict.fromkeys(item.entity_id for item in followed))
        _, entities = await run_together(
            found.read_vectors(id_ for item in followed for id_ in (*item.about, *item.mentioning)),
            self._store.vectors.get_vectors(Collection.ENTITIES, entity_ids),
        )
        return FollowedBridges(followed, entities, parameters)

    async def _cross_bridges(self, found: Found, bridges: FollowedBridges) -> None:
        """Score the chunks that the bridges lead to."""
        followed, parameters = bridges.followed, bridges.parameters
        if not followed:
            found.set_channel(Channel.BRIDGE, {})
            return
        totals = found.totals()
        beyond = [id_ for item in followed for id_ in (*item.about, *item.mentioning)]
        # A chunk not found yet will also score its cosine once a bridge leads to it.
        scores = (found.cosines if Channel.VECTOR in found.channels else {}) | totals
        # First estimate the vectors of residual questions from stored vectors.
        unknown = np.zeros_like(found.vector)
        estimates = found.vector + parameters.entity_share * np.stack(
            [bridges.entities.get(item.entity_id, unknown) for item in followed]
        )
        estimates /= np.maximum(np.linalg.norm(estimates, axis=1, keepdims=True), 1e-9)
        nearness = found.nearness(estimates, parameters.question_share, beyond)
        gained = gains(followed, nearness, found.cosines, scores, parameters)
        chosen = promising(gained, scores, parameters)
        gained = [
            {id_: replace(gain, value=parameters.estimate_worth * gain.value) for id_, gain in over.items()}
            for over in gained
        ]
        if chosen:
            embedded = [followed[place] for place in chosen]
            texts: list[str] = []
            for bridge in embedded:
                # The subjects of the chunk that the bridge starts from.
                mentions = found.mentions.get(bridge.chunk_id, ())
                subjects = [mention.name for mention in mentions if is_subject_rank(mention.rank)]
                texts.append(residual_question(found.question, subjects, bridge.name))
            vectors = (await self._embedding.embed(texts, "query")).vectors
            nearness = found.nearness(vectors, parameters.question_share, beyond)
            for place, exact in zip(chosen, gains(embedded, nearness, found.cosines, scores, parameters), strict=True):
                gained[place] = exact
        reached = best_gains(gained)
        found.paths = {chunk_id: (gain.bridge.chunk_id,) for chunk_id, gain in reached.items()}
        found.set_channel(Channel.BRIDGE, {chunk_id: gain.value for chunk_id, gain in reached.items()})


def _widened(limit: int, limits: SearchLimits) -> int:
    """Return how many chunks to take: `limit`, in proportion more if more hits than usual are requested, bounded."""
    return min(ceil(limit * max(1.0, limits.hits / _USUAL_HITS)), _MOST_TAKEN)


def _named_scores(found: Found) -> Scores:
    scores: Scores = {}
    for entity in found.named.longest:
        worth = found.parameters.named * distinction(found.places[entity.id], found.near)
        for chunk_id in entity.chunk_ids:
            scores[chunk_id] = max(scores.get(chunk_id, 0.0), worth / len(entity.chunk_ids) ** 0.5)
    return scores


def _hits(found: Found, limits: SearchLimits) -> FusedHits:
    channels = {name: scores for name, scores in found.channels.items() if scores}
    totals = by_rank(channels) if limits.by_rank else by_score(channels)
    cosines = channels.get(Channel.VECTOR, {})
    others = set[str]().union(*(scores for name, scores in channels.items() if name is not Channel.VECTOR))
    near_or_found = {id_ for id_, cosine in cosines.items() if cosine >= limits.min_cosine} | others
    first = best({id_: total for id_, total in totals.items() if id_ in near_or_found}, limits.hits)
    # Factors that depend on a chunk's document, such as its source, age or metadata, apply to the total here: so far
    # only the number of better chunks of its source. A factor that should bring in other chunks belongs before `best`.
    taken = Counter[str]()
    for chunk_id in first:
        source = found.sources.get(chunk_id, chunk_id)
        totals[chunk_id] *= found.parameters.again ** taken[source]
        taken[source] += 1
    hits = tuple(
        FusedHit(
            chunk_id,
            totals[chunk_id],
            {str(name): scores[chunk_id] for name, scores in channels.items() if scores.get(chunk_id)},
            found.paths.get(chunk_id, ()),
        )
        for chunk_id in sorted(first, key=lambda chunk_id: (-totals[chunk_id], chunk_id))
    )
    return FusedHits(
        hits,
        found.named.longest,
        entities=tuple(found.entities),
        respelt=found.respelt,
        sources={chunk_id: found.sources.get(chunk_id, chunk_id) for chunk_id in first},
    )


# Number of first hits that further searches may not push down.
_KEPT_FIRST = 5
# Number of a side's first hits of which one among the whole question's first hits suffices as its evidence. For a piece
# that cannot be understood alone ("who goes with him?") the very first hits may be anything.
_SEEN = 4
_WIDER = 2
# The channels that search for an aspect, and the rank constant for documents (larger: first ranks count less extra).
_PLAIN = (Channel.VECTOR, Channel.KEYWORD)
_DOCUMENT_CONSTANT = 5


def adapt_plan(plan: Plan, understanding: Understanding) -> Plan:
    """Return the plan with the limits that suit the kind of question; limits set by the caller stay unchanged.

    If the caller gave no keywords, the entities and expansions of a chat model's understanding become the keywords:
    they cost no further call, and the model may know names that the question does not say.
    """
    kind, param = understanding.kind, plan.param
    changes: dict[str, int] = {}
    if kind in (QuestionKind.AGGREGATE, QuestionKind.GLOBAL) and param.chunk_top_k is None:
        changes["chunk_top_k"] = min(_WIDER * plan.settings.chunk_top_k, MAX_TOP_K)
    if kind is QuestionKind.GLOBAL and param.top_k is None:
        changes["top_k"] = min(_WIDER * plan.settings.top_k, MAX_TOP_K)
    if plan.keywords is None and understanding.by_model and (understanding.entities or understanding.expansions):
        names = understanding.entities
        words = tuple(word for word in understanding.expansions if word not in names)
        plan = replace(plan, keywords=Keywords(words or names, names or words))
    return plan.with_settings(**changes)


class AutoSearch:
    """Adapts the fused search to the kind of question."""

    def __init__(self, embedding: EmbeddingModel, search: FusedSearch) -> None:
        self._embedding = embedding
        self._search = search

    async def search(
        self, question: str, vector: Vector, limits: SearchLimits, understanding: Understanding
    ) -> FusedHits:
        """Return the best chunks, for a plain question exactly those of the fused search; raises as it does."""
        is_account = understanding.kind is QuestionKind.GLOBAL
        whole = await self._search.search(question, vector, replace(limits, is_account=is_account))
        if is_account and not understanding.parts:
            # Also search for every aspect, by vectors and words, which is cheap, and interleave documents.
            aspects = find_aspects(whole.respelt.question if whole.respelt else question)
            vectors = (await self._embedding.embed(aspects, "query")).vectors if aspects else ()
            plain = replace(limits, channels=limits.channels.intersection(_PLAIN), is_read=True, is_account=True)
            found = await run_together(
                *(self._search.search(aspect, vector, plain) for aspect, vector in zip(aspects, vectors, strict=True))
            )
            return _spread(whole, found, limits.hits)
        sides = [side_question(question, understanding.sides, side) for side in understanding.sides]
        pieces = sides or list(understanding.parts)
        if pieces:
            if whole.respelt:
                pieces = [whole.respelt.read(piece) for piece in pieces]
            vectors = (await self._embedding.embed(pieces, "query")).vectors
            limits = replace(limits, is_read=True)
            found = await run_together(
                *(self._search.search(piece, vector, limits) for piece, vector in zip(pieces, vectors, strict=True))
            )
            if sides:
                return _merged(whole, found, limits.hits)
            shared = _shared_out(whole, pieces, found, limits.hits)
            return replace(shared, hits=_spread(whole, found, limits.hits).hits) if is_account else shared
        return whole


def _merged(whole: FusedHits, pieces: Sequence[FusedHits], limit: int) -> FusedHits:
    """Interleave all hits behind the whole question's first ones, and move the leader of each piece to the front."""
    order = dict.fromkeys(whole.chunk_ids[:_KEPT_FIRST])
    lists = [whole, *pieces]
    for turn in zip_longest(*(hits.chunk_ids for hits in lists)):
        order.update(dict.fromkeys(chunk_id for chunk_id in turn if chunk_id is not None))
    # The leader of a piece is one of its best hits that is also a first hit of the whole question, else its best hit.
    head = whole.chunk_ids[:_KEPT_FIRST]
    leaders = [
        next((id_ for id_ in hits.chunk_ids[:_SEEN] if id_ in head), hits.chunk_ids[0]) for hits in pieces if hits.hits
    ]
    hits = _by_place(with_leaders(list(order), leaders, _KEPT_FIRST)[:limit], lists[::-1])
    entities = round_robin([hits.entities for hits in lists], key=str)
    return replace(whole, hits=hits, leaders=tuple(dict.fromkeys(leaders)), entities=tuple(entities))


def _shared_out(whole: FusedHits, parts: Sequence[str], found: Sequence[FusedHits], limit: int) -> FusedHits:
    """Interleave the hits of the parts and of the whole question, so that each part gets a share of the budget."""
    lists = [*found, whole]
    order = list(dict.fromkeys(id_ for turn in zip_longest(*(hits.chunk_ids for hits in lists)) for id_ in turn if id_))
    entities = round_robin([hits.entities for hits in (whole, *found)], key=str)
    return replace(
        whole,
        hits=_by_place(order[:limit], lists),
        leaders=tuple(dict.fromkeys(hits.chunk_ids[0] for hits in found if hits.hits)),
        entities=tuple(entities),
        parts=tuple(
            FoundPart(part, {hit.chunk_id: hit.scores for hit in hits.hits})
            for part, hits in zip(parts, found, strict=True)
        ),
    )


def _spread(whole: FusedHits, aspects: Sequence[FusedHits], limit: int) -> FusedHits:
    """Interleave the hits of all searches by document, the best chunk of each document first.

    Documents are ordered by reciprocal rank: in the whole question's lists by vector and by words, which count equally
    here whatever their weights for a chunk, and in the lists of the aspects, which together count as much.
    """
    lists = [whole, *aspects]
    sources = {chunk_id: source for hits in lists for chunk_id, source in hits.sources.items()}
    # `hit.score` is not used: it is a weighted sum of the channels, lowered for further chunks of a document. So a
    # factor for documents, as in `_hits`, must multiply these scores, too.
    plain = [{hit.chunk_id: hit.scores[name] for hit in whole.hits if name in hit.scores} for name in _PLAIN]
    plain = [scores for scores in plain if scores] or [{hit.chunk_id: hit.score for hit in whole.hits}]
    ranked = [(ordered(scores), 1.0 / len(plain)) for scores in plain]
    ranked += [(hits.chunk_ids, 1.0 / len(aspects)) for hits in aspects]
    # Documents found only by names or bridges come last.
    worth = dict.fromkeys(sources.values(), 0.0)
    for chunk_ids, weight in ranked:
        for rank, source in enumerate(dict.fromkeys(sources[id_] for id_ in chunk_ids), start=1):
            worth[source] += weight / (_DOCUMENT_CONSTANT + rank)
    groups: dict[str, list[str]] = {source: [] for source in ordered(worth)}
    for chunk_id in round_robin([hits.chunk_ids for hits in lists], key=str):
        groups[sources[chunk_id]].append(chunk_id)
    order = [chunk_id for turn in zip_longest(*groups.values()) for chunk_id in turn if chunk_id is not None]
    return replace(whole, hits=_by_place(order[:limit], lists[::-1]), sources=sources)


def _by_place(chunk_ids: Sequence[str], lists: Sequence[FusedHits]) -> tuple[FusedHit, ...]:
    """Return the hits of these chunks, each from the last list that has it, scored by place.

    Scores of several searches are not comparable; `hit.score` ordered each of the interleaved lists by itself.
    """
    known: Mapping[str, FusedHit] = {hit.chunk_id: hit for hits in lists for hit in hits.hits}
    return tuple(replace(known[chunk_id], score=score) for chunk_id, score in by_place(chunk_ids).items())
