"""Fused search: one question in, one ranking of chunks out, every hit with its scores by channel; and mode `auto`.

Mode `auto` is the fused search, adapted to what the question asks for:

| kind | search |
|---|---|
| fact, how-to, reason | the fused search as it is |
| compare | also once for each side; the sides' hits are interleaved |
| aggregate | wider: twice the chunks |
| global | broad: twice the chunks, entities and relations; also once for each aspect, and documents take turns |

The first hits of the plain search keep their places (`_KEPT_FIRST`), but for the best hit of a side that is not among
them; behind them all take turns. So `auto` finds in its first hits what `fusion` finds, and what is misread costs
little. A question of several parts is searched part by part as well, whatever its kind; its parts and the whole take
turns from the first place on. An account of a whole subject is spread over documents, those first that its words, its
meaning and its aspects agree on. `leaders` names the chunks, one for each side or part, that must outlive every cut.
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

# The key of what a chunk gains that is about an entity named in the question. It is written `entity`, as are the
# searches by keywords of `Channel.ENTITY`, which have no part in fused scores.
NAMED_ENTITY = "entity"


@dataclass(frozen=True, slots=True)
class SearchLimits:
    """What a fused search may return and use.

    Attributes:
        hits: Hits at the most.
        channels: Channels used; others than vector, keyword, bridge and graph are ignored.
        by_rank: Fuse by reciprocal rank; else by weighted scores.
        min_cosine: Least cosine of a chunk that no other channel found.
        is_read: Whether misspelt names were read before, so that the question is taken as it is.
        is_account: Whether an account of a whole subject is asked for, though no word at its start says so.
    """

    hits: int = 20
    channels: frozenset[Channel] = frozenset(FUSED_CHANNELS)
    by_rank: bool = False
    min_cosine: float = -1.0
    is_read: bool = False
    is_account: bool = False


@dataclass(frozen=True, slots=True)
class FusedHits:
    """Hits, best first, ties by id; and what they were found over.

    Attributes:
        linked: Entities that the question names, in its order, the longest of overlapping names.
        leaders: Chunks that must outlive every cut, one for each part or side of the question; none for a plain one.
        entities: Entities that the best hits mention or the question names, by how much they hold the hits together,
            the first first.
        respelt: The question as it was searched for, if names in it were misspelt.
        parts: What each part of a question of several found; empty for a question of one.
        sources: Source of each hit's document, by chunk; the id of a document that has no source.
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
class Seen:
    """Bridges from the best chunks, with the vectors of their entities, and how they are weighed."""

    followed: Sequence[FollowedBridge]
    entities: Mapping[str, Vector]
    parameters: FusionParameters


# Mentions of an entity that are read: enough to hold those of any that is not too common to lead on.
READ_MENTIONS = 32


@dataclass
class Found:
    """What a search has found so far, by channel, and all that was read of the store for it, each thing once.

    Attributes:
        scale: What cosines mean; those below are in the usual scale.
        parameters: Weights and bounds, as they are for this question in this corpus.
        share: What names, bridges and the walk count for such a question: 1, or `FusionParameters.account` where an
            account of a subject is asked for; less where the nearest chunks are of few documents.
        channels: Per channel what it found, chunk ids with scores.
        cosines: Of the question and all chunks whose vector was compared.
        mentions: What is named per chunk that was read for it.
        worth: Per such chunk and entity, what a bridge from there is worth.
        paths: Per chunk reached over a bridge the chunks that led there.
        entities: Those that hold the evidence together, the first first.
        respelt: The question as it was read, if it misspells names.
        near: The chunks nearest by vector, by which is seen what all of them say.
        sources: Source, or else id, of the documents of the near chunks and, at the end, of the best ones, by chunk.
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
        """Return scores summed over channels."""
        return by_score(self.channels)

    def set_channel(self, channel: str, scores: Scores) -> None:
        """Replace a channel's scores.

        Chunks that are new to the search get their cosine in the vector channel, too, if that is used.
        """
        self.channels[channel] = scores
        by_vector = self.channels.get(Channel.VECTOR)
        if by_vector is not None and by_vector is not scores:
            by_vector |= {id_: self.cosines[id_] for id_ in scores.keys() - by_vector.keys() if id_ in self.cosines}

    async def read_vectors(self, chunk_ids: Iterable[str]) -> None:
        """Read the vectors of chunks, and compare them with the question."""
        missing = [chunk_id for chunk_id in dict.fromkeys(chunk_ids) if chunk_id not in self.vectors]
        if missing:
            read = await self.store.vectors.get_vectors(Collection.CHUNKS, missing)
            self.vectors.update(read)
            if read:
                found = cosines(np.stack(list(read.values())), self.vector)
                self.cosines.update(zip(read, self.scale.usual(found).tolist(), strict=True))

    def nearness(self, residuals: Vector, share: float, chunk_ids: Iterable[str]) -> Nearness:
        """Compare chunks with residual questions into which a share of the question itself is mixed.

        It is the cosine of each chunk with `normalise(residual + share * question)`, computed from three cosines that
        are known, since cosines are rescaled and vectors are not.

        Args:
            residuals: Embedded residual questions, `(n, dimension)`, unit rows.
            share: How much of the question's vector is added to each.
            chunk_ids: The chunks; one without a vector is left out.
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
        """Return the share of the question's terms under which any of these chunks is found, or which it renders."""
        wanted = frozenset(self.words)
        chunks = await self.store.records.get_chunks(chunk_ids)
        titles = {id_: owner.title for id_, owner in (await self.store.records.get_owners(chunks)).items()}
        passages = (chunk_index_text(titles.get(chunk.document_id, ""), chunk) for chunk in chunks)
        held = frozenset(term for passage in passages for term in passage_terms(passage))
        return len(wanted & (renderings.completed(held) if renderings else held)) / len(wanted)

    async def read_sources(self, chunk_ids: Iterable[str]) -> None:
        """Read the sources of the documents of chunks, and the id of a document that has no source."""
        missing = [chunk_id for chunk_id in dict.fromkeys(chunk_ids) if chunk_id not in self.sources]
        sources = await self.store.records.get_sources(missing)
        nameless = await self.store.records.get_chunks([id_ for id_, source in sources.items() if not source])
        self.sources |= sources | {chunk.id: chunk.document_id for chunk in nameless}

    async def read_places(self, entity_ids: Sequence[str]) -> None:
        """Read where entities are mentioned."""
        missing = [id_ for id_ in dict.fromkeys(entity_ids) if id_ not in self.places]
        if missing:
            places = await self.store.records.get_mention_places(missing, READ_MENTIONS)
            self.places.update((item.id, item) for item in places if item.chunk_ids)

    async def read_extracted(self, chunk_ids: Sequence[str]) -> None:
        """Read what an extractor found in chunks from which no bridge starts."""
        missing = [chunk_id for chunk_id in chunk_ids if chunk_id not in self.mentions]
        if missing:
            read = await self.store.records.get_entity_mentions(missing)
            await self.read_places([mention_entity_id(item) for found in read.values() for item in found])
            self.mentions.update(read)

    async def read_mentions(self, chunk_ids: Sequence[str], aside_worth: float) -> None:
        """Read what an extractor found in chunks, and what else they name.

        Args:
            chunk_ids: The chunks.
            aside_worth: What a mention in a paragraph without any word of the question is worth.
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


# What the entities of a chunk are worth for a question, where its paragraphs speak of different things.
#
# A chunk of several paragraphs is found for what one of them says; what the others name leads elsewhere. A paragraph
# counts by how many of the question's words it holds beside that of the chunk which holds most.


def worth_of_mentions(
    text: str, mentions: Iterable[EntityMention], wanted: AbstractSet[str], aside_worth: float
) -> dict[str, float]:
    """Return, per entity, what the best paragraph that names it is worth; without those that are worth 1.

    Args:
        text: The chunk's text.
        mentions: Entities that it mentions; one whose name is not in the text is worth 1.
        wanted: The question's terms.
        aside_worth: What a paragraph without any of them is worth, if another has some.
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


# How far down the list of cosines the fall is measured that says how well vectors tell chunks apart, and its least.
_FALL_RANK = 10
_LEAST_FALL = 0.02
# How many of the best chunks by words are looked at for the question's words.
_FIRST_WORDED = 3
# Hits wanted by a question that keeps twenty chunks, before they are reranked.
_USUAL_HITS = 60
# Chunks taken from either index at the most: their vectors are all read.
_MOST_TAKEN = 2_000
_SHORTEST_PHRASE = 4
# Near chunks by which is seen whether the corpus has few long documents about one subject, and the range of documents
# per chunk in which it turns from that to many short ones.
_NEAR = 20
_MANY_DOCUMENTS, _FEW_DOCUMENTS = 0.75, 0.25
# Questions that may be a pasted document must not hold up the event loop.
_LONG_QUESTION = 2_000
# How a question wants to be answered says nothing of what it asks about. Few documents hold such words, so full text
# would take them for the rarest and best of the question. The named groups ask for an account of a whole subject.
_REQUEST = compiled(
    r"(?:please |can you |could you )*(?:(?P<verb>summari[sz]e|describe|outline|characteri[sz]e|trace)\b"
    r"|(?P<noun>(?:give|provide|write)(?: me| us)? (?:an?|the) (?:\w+ )?(?:summary|overview|description|account) of)\b"
    r"|(?:explain|discuss|list)\b)(?=.)"
    r"|(?:请|请你|帮我|给我|简要|详细|简单)*(?:(?P<han>总结|概述|概括|归纳|综述|描述)|介绍|说明|阐述|解释|列举)(?:一下|下)?(?=.)",
    re.IGNORECASE,
)


class FusedSearch:
    """Searches a workspace, or a view of one, through several channels at once.

    The embedding is the one that filled it; it embeds the bridges' residual questions in one batch.
    """

    def __init__(self, store: StoreView, embedding: EmbeddingModel, parameters: FusionParameters | None = None) -> None:
        self._store = store
        self._embedding = embedding
        self._parameters = parameters or FusionParameters()

    async def search(self, question: str, vector: Vector, limits: SearchLimits | None = None) -> FusedHits:
        """Return the best chunks for a question, or one part of one, embedded as `(dimension,)` float32 of length 1.

        Returns:
            Hits, best first, ties by id; the entities that the question names, and those of the evidence. All empty
            where nothing is found, and without the vector and the keyword channel there is nothing to start from.

        Raises:
            ModelError: The embedding failed.
            StoreError: The store failed.
        """
        limits = limits or SearchLimits()
        found = await self._found(question, vector, limits)
        seen = await self._store.at_one_moment(lambda: self._look_around(found, limits))
        if found.respelt:
            embedded = await self._embedding.embed([found.respelt.question], "query")
            again = await self._found(found.respelt.question, embedded.vectors[0], limits)
            found = replace(again, respelt=found.respelt)
            seen = await self._store.at_one_moment(lambda: self._look_around(found, replace(limits, is_read=True)))
        if seen is not None:
            await self._cross_bridges(found, seen)
        return await self._store.at_one_moment(lambda: self._conclude(found, limits))

    async def _look_around(self, found: Found, limits: SearchLimits) -> Seen | None:
        """Make the first hop, and see what bridges lead on from the best chunks.

        If the question misspells names, only that is noted.
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
        return await self._see_bridges(found) if Channel.BRIDGE in limits.channels else None

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
        # What `_hits` weighs of the documents has to be read here, for at least as many chunks as it returns.
        await found.read_sources(best(found.totals(), limits.hits))
        return _hits(found, replace(limits, min_cosine=found.scale.usual(limits.min_cosine)))

    async def _weigh_channels(self, found: Found, near: Sequence[Hit]) -> None:
        """Let words and names count less where pages of one site all say them, as the near chunks show."""
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
        # An account of a whole subject is found by what the question means; its words and names stand everywhere in it.
        is_account = limits.is_account or (request is not None and request.lastgroup is not None)
        share = self._parameters.account if is_account else 1.0
        parameters = self._parameters.weighed(share)
        return Found(self._store, question, words or question_terms(question), vector, scale, parameters, share)

    async def _first_hop(self, found: Found, limits: SearchLimits) -> Sequence[Hit]:
        """Find chunks by vector and by words, and entities by name; return the chunks near by vector."""
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
        # Of a question of stop words no share can be held.
        rendered = await search_words(self._store, known.search_terms(words), limit) if known and words else []
        about = [chunk_id for entity in found.named.longest for chunk_id in entity.chunk_ids]
        # Of what was found by vector the cosine is known; the vector is read where a bridge leads there.
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
        """Return what chunks gain by words: their share of the best BM25 score, by how much words count here."""
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
        """Return how the question's words may be said in other languages, those that the first chunks are in."""
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

    async def _see_bridges(self, found: Found) -> Seen:
        """Look from the best chunks over entities to further ones."""
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
        # What its mentions already show to be common leads only to chunks that are about it. A short name is looked
        # for in no text: there it may be any word.
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
        return Seen(followed, entities, parameters)

    async def _cross_bridges(self, found: Found, seen: Seen) -> None:
        """Go over the bridges to further chunks."""
        followed, parameters = seen.followed, seen.parameters
        if not followed:
            found.set_channel(Channel.BRIDGE, {})
            return
        totals = found.totals()
        beyond = [id_ for item in followed for id_ in (*item.about, *item.mentioning)]
        # A chunk that nothing has found yet will count with its cosine once a bridge leads there.
        scores = (found.cosines if Channel.VECTOR in found.channels else {}) | totals
        # What residual questions would find is estimated first, from vectors that are stored.
        unknown = np.zeros_like(found.vector)
        estimates = found.vector + parameters.entity_share * np.stack(
            [seen.entities.get(item.entity_id, unknown) for item in followed]
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
                # What the chunk is about from which it leads.
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
    """Return how many chunks to take, in proportion where more hits are wanted than usual, up to a bound."""
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
    # What depends on a chunk's document, such as its source, age or metadata, is a factor of its total, here: so far
    # how many better chunks its source has. One that is to bring other chunks in stands before the cut by `best`.
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


# First hits that further searches may not push down.
_KEPT_FIRST = 5
# Of a side's or a part's hits the first ones: if one of them is among the first hits already, its evidence is there. Of
# a part that is not understood on its own ("who goes with him?") the very first ones may be anything.
_SEEN = 4
_WIDER = 2
# How an aspect is searched for, and how little the first documents of a list stand out from those behind them.
_PLAIN = (Channel.VECTOR, Channel.KEYWORD)
_DOCUMENT_CONSTANT = 5


def adapt_plan(plan: Plan, understanding: Understanding) -> Plan:
    """Return the plan with the depths that the kind of question asks for; what the caller set stays as it is.

    Where nobody gave keywords, a chat model's understanding is searched by too: its entities and other words. It was
    asked once, and may know names that the question does not say.
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
    """Searches as the kind of question asks for."""

    def __init__(self, embedding: EmbeddingModel, search: FusedSearch) -> None:
        self._embedding = embedding
        self._search = search

    async def search(
        self, question: str, vector: Vector, limits: SearchLimits, understanding: Understanding
    ) -> FusedHits:
        """Return the best chunks, for a plain question exactly what the fused search returns; raises as it does."""
        is_account = understanding.kind is QuestionKind.GLOBAL
        whole = await self._search.search(question, vector, replace(limits, is_account=is_account))
        if is_account and not understanding.parts:
            # For every aspect as well, by vectors and words, which is cheap; and documents take turns.
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
    """Return the whole question's first hits, then everybody's in turn; the best of each piece gets to the front."""
    order = dict.fromkeys(whole.chunk_ids[:_KEPT_FIRST])
    lists = [whole, *pieces]
    for turn in zip_longest(*(hits.chunk_ids for hits in lists)):
        order.update(dict.fromkeys(chunk_id for chunk_id in turn if chunk_id is not None))
    # A piece is led by one of its best that the whole question found too, else by its best.
    head = whole.chunk_ids[:_KEPT_FIRST]
    leaders = [
        next((id_ for id_ in hits.chunk_ids[:_SEEN] if id_ in head), hits.chunk_ids[0]) for hits in pieces if hits.hits
    ]
    hits = _by_place(with_leaders(list(order), leaders, _KEPT_FIRST)[:limit], lists[::-1])
    entities = round_robin([hits.entities for hits in lists], key=str)
    return replace(whole, hits=hits, leaders=tuple(dict.fromkeys(leaders)), entities=tuple(entities))


def _shared_out(whole: FusedHits, parts: Sequence[str], found: Sequence[FusedHits], limit: int) -> FusedHits:
    """Return the parts' hits and the whole question's in turn, so that each part has its share of places and budget."""
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
    """Return the hits of all in turns of documents, the best chunk of each first.

    Documents are ordered by reciprocal rank: among those near by vector and those found by words, which both count for
    the whole question whatever the one weighs beside the other for a chunk, and, as much as these together, by aspect.
    """
    lists = [whole, *aspects]
    sources = {chunk_id: source for hits in lists for chunk_id, source in hits.sources.items()}
    # Not by `hit.score`: that is their sum by what each is worth for a chunk, less what further chunks of a document
    # lose. So a factor for documents, such as `_hits` may have, has to multiply these, too.
    plain = [{hit.chunk_id: hit.scores[name] for hit in whole.hits if name in hit.scores} for name in _PLAIN]
    plain = [scores for scores in plain if scores] or [{hit.chunk_id: hit.score for hit in whole.hits}]
    ranked = [(ordered(scores), 1.0 / len(plain)) for scores in plain]
    ranked += [(hits.chunk_ids, 1.0 / len(aspects)) for hits in aspects]
    # What only names or bridges found comes last.
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
    """Return the hits of these chunks, the last ones found, scored by place.

    Scores of several searches do not compare; within each of the lists that took turns, `hit.score` made the order.
    """
    known: Mapping[str, FusedHit] = {hit.chunk_id: hit for hits in lists for hit in hits.hits}
    return tuple(replace(known[chunk_id], score=score) for chunk_id, score in by_place(chunk_ids).items())
