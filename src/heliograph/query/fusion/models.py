"""What goes into a fused search and what comes out, frozen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from heliograph.query.linking.models import LinkedEntity, Respelt
from heliograph.query.modes import FUSED_CHANNELS, Channel


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
            names), `bridge`, `graph`. They add up to `score` unless hits were fused by rank. Zeros are left out.
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
    """

    hits: tuple[FusedHit, ...] = ()
    linked: tuple[LinkedEntity, ...] = ()
    leaders: tuple[str, ...] = ()
    entities: tuple[str, ...] = ()
    respelt: Respelt | None = None

    @property
    def chunk_ids(self) -> list[str]:
        """The chunks, best first."""
        return [hit.chunk_id for hit in self.hits]
