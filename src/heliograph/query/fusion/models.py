"""What goes into a fused search and what comes out, and the few numbers that steer it, each with its reason."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from heliograph.query.linking import LinkedEntity, Respelt
from heliograph.query.models import FoundPart
from heliograph.query.plan import FUSED_CHANNELS, Channel

# The few numbers of fused retrieval, each with its reason; `docs/retrieval.md` says what they do.
#
# Cosines are in the usual scale (`heliograph.embedding.base`), so the same numbers serve every model and language.
# None of them depends on the size of the corpus: an index that grows keeps the scores of what was in it.


@dataclass(frozen=True, slots=True)
class FusionParameters:
    """Weights and bounds.

    Attributes:
        vector_limit: Chunks taken from the vector index, for up to 60 hits; for more, in proportion.
        keyword_limit: Chunks taken from the full-text index, likewise.
        keyword_spread: The keyword weight is this over the fall of the cosine from the first to the tenth chunk: the
            less the vectors tell chunks apart, the more the words decide.
        most_keyword: The keyword weight at the most.
        named: What a chunk gains that is about an entity named in the question; shared among such chunks (by the root
            of their number), since a name that many chunks are about says little of any.
        one_word: Of it what a name of one word is worth, which may as well be a common word.
        similar: Of it what an entity is worth that is only near a question which names none.
        least_similar: Least cosine of such an entity.
        similar_limit: Such entities at the most.
        first_hops: Best chunks whose entities may lead on.
        bridges: Pairs of a chunk and an entity followed from them.
        residuals: Residual questions embedded for them at the most: of those pairs that promise most.
        estimate: Share of an entity's vector in the estimate of a residual question's, beside 1 for the question's.
        estimated: What a gain by such an estimate is worth beside one by an embedded residual question.
        bridge: Weight of what a bridge gains.
        question: Share of the question's own vector in a bridge's, which keeps it from drifting away.
        mentioned: What a chunk that only mentions the bridge's entity is worth beside one that is about it.
        least_gain: Of the difference of two cosines what is taken for chance.
        clear_lead: From this lead of the first chunk on, as a share of its score, nothing is: those behind it resemble
            it and say the same of something else, so what it leads to counts more.
        most_mentions: An entity mentioned more often than this leads only to chunks that are about it.
        common_mentions: Mentions from which on a name says nothing at all.
        known: What a bridge over an entity that the question names is worth: it leads back, not on.
        aside: What a bridge is worth from a paragraph without any word of the question, beside one from that paragraph
            of the chunk that holds most of them.
        second_hops: Chunks found over a bridge from which a second one is tried.
        second_bridges: Pairs followed from these, with as many residual questions at the most.
        walk: Weight of the walk over the graph around what was found; small, it settles what the others leave open.
        walk_starts: Best chunks from which the walk starts.
        within_pages: Share of what all channels but vectors count where the near chunks are of few documents.
        again: What each further chunk of a document is worth beside the one before: a page of hundreds of chunks
            otherwise takes the places of all others.
        damping: Probability that the walk goes on and does not start anew.
    """

    vector_limit: int = 40
    keyword_limit: int = 100
    keyword_spread: float = 0.025
    most_keyword: float = 0.6
    named: float = 0.2
    one_word: float = 0.6
    similar: float = 0.3
    least_similar: float = 0.5
    similar_limit: int = 3
    first_hops: int = 5
    bridges: int = 16
    residuals: int = 4
    estimate: float = 0.8
    estimated: float = 0.8
    bridge: float = 3.0
    question: float = 0.3
    mentioned: float = 0.6
    least_gain: float = 0.03
    clear_lead: float = 0.4
    most_mentions: int = 30
    common_mentions: int = 1000
    known: float = 0.5
    aside: float = 0.25
    second_hops: int = 5
    second_bridges: int = 8
    walk: float = 0.1
    within_pages: float = 0.3
    again: float = 0.97
    walk_starts: int = 10
    damping: float = 0.5

    def where_led(self, lead: float) -> FusionParameters:
        """Return what holds where the first chunk leads the second by this share of its score, from 0 to 1."""
        return replace(self, least_gain=self.least_gain * max(0.0, 1.0 - lead / self.clear_lead))

    def rarity(self, mention_count: int) -> float:
        """Return 1 for an entity mentioned once, 0 for one mentioned by all, and logarithmically in between."""
        return max(0.0, 1.0 - math.log(max(1, mention_count)) / math.log(self.common_mentions))


@dataclass(frozen=True, slots=True)
class SearchLimits:
    """What a fused search may return and use.

    Attributes:
        hits: Hits at the most.
        channels: Channels used; others than vector, keyword, bridge and graph are ignored.
        by_rank: Fuse by reciprocal rank; else by weighted scores.
        rounds: Bridges one after the other: 1 finds the second hop and costs one batch of embeddings; 2 goes on from
            there to the third and costs another; more is 2.
        min_score: Least cosine of a chunk that no other channel found.
        is_read: Whether misspelt names were read before, so that the question is taken as it is.
    """

    hits: int = 20
    channels: frozenset[Channel] = frozenset(FUSED_CHANNELS)
    by_rank: bool = False
    rounds: int = 1
    min_score: float = -1.0
    is_read: bool = False


@dataclass(frozen=True, slots=True)
class FusedHit:
    """A chunk and why it stands where it stands.

    Attributes:
        chunk_id: The chunk.
        score: What it is ranked by, higher is better; comparable within one search only.
        scores: Per channel what it adds: `vector` (cosine), `keyword`, `entity` (about an entity that the question
            names), `bridge`, `graph`. They add up to `score`, but for what
            a further chunk of a document counts less, unless hits were fused by rank. Zeros are left out.
        path: Chunks from which bridges led to it, the first hit first; empty if none did.
    """

    chunk_id: str
    score: float
    scores: Mapping[str, float] = field(default_factory=dict[str, float])
    path: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Bridge:
    """A step from one chunk to others over an entity that both hold.

    Attributes:
        chunk_id: Where it starts.
        entity_id: What it goes over.
        name: That entity's name.
        path: Chunks it passed, the first hit first, `chunk_id` last.
    """

    chunk_id: str
    entity_id: str
    name: str
    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FusedHits:
    """Hits, best first, ties by id; and what they were found over.

    Attributes:
        hits: The hits.
        linked: Entities that the question names, in its order, the longest of overlapping names.
        leaders: Chunks that must outlive every cut, one for each part or side of the question; none for a plain one.
        entities: Entities that the best hits mention or the question names, by how much they hold the hits together,
            the first first.
        respelt: The question as it was searched for, if names in it were misspelt.
        parts: What each part of a question of several found; empty for a question of one.
    """

    hits: tuple[FusedHit, ...] = ()
    linked: tuple[LinkedEntity, ...] = ()
    leaders: tuple[str, ...] = ()
    entities: tuple[str, ...] = ()
    respelt: Respelt | None = None
    parts: tuple[FoundPart, ...] = ()

    @property
    def chunk_ids(self) -> list[str]:
        """The chunks, best first."""
        return [hit.chunk_id for hit in self.hits]
