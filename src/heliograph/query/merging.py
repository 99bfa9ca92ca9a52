"""Joining the lists of several channels fairly: one from each in turn, each thing once.

Source: the round-robin merge of LightRAG. Chunks also keep how each channel found them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count, zip_longest
from typing import Literal, TypeVar

from heliograph.query.retrieved import SourceMark

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ChunkPicks:
    """Chunks that one channel brings, best first, with how often each was listed (1 where it is not told)."""

    channel: Literal["C", "E", "R"]
    ids: Sequence[str] = ()
    frequencies: Mapping[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True, slots=True)
class MergedChunks:
    """Chunk ids in merged order, the lists that they were merged from, and, of fused ones, scores by channel.

    `leaders` are the ids that must outlive every cut; `paths` say, per chunk that was reached over others, over which.
    """

    ids: Sequence[str]
    picks: Sequence[ChunkPicks]
    scores: Mapping[str, Mapping[str, float]] = field(default_factory=dict[str, Mapping[str, float]])
    leaders: Sequence[str] = ()
    paths: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])

    def marks(self, chunk_ids: Sequence[str]) -> list[tuple[SourceMark, ...]]:
        """Return how each of these chunks was found: `C`, `E`, `R`, those that apply."""
        orders = [dict(zip(pick.ids, count(1), strict=False)) for pick in self.picks]
        return [
            tuple(
                SourceMark(pick.channel, pick.frequencies.get(chunk_id, 1), order[chunk_id])
                for pick, order in zip(self.picks, orders, strict=True)
                if chunk_id in order
            )
            for chunk_id in chunk_ids
        ]


def round_robin(lists: Sequence[Sequence[T]], key: Callable[[T], Hashable]) -> list[T]:
    """Return the first of each list, then the second of each, and so on; of equal keys only the first met."""
    merged: dict[Hashable, T] = {}
    for items in zip_longest(*lists):
        for item in items:
            if item is not None:
                merged.setdefault(key(item), item)
    return list(merged.values())


def merge_chunks(picks: Sequence[ChunkPicks]) -> MergedChunks:
    """Merge the chunks of all channels round robin, in the order C, E, R."""
    return MergedChunks(round_robin([pick.ids for pick in picks], key=str), picks)
