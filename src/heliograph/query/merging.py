"""Joining ranked lists into one: one from each in turn, by rank, or by score."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count, zip_longest
from typing import Literal, TypeVar

from heliograph.query.models import SourceMark

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


# Joining ranked lists into one, by rank or by score: the seam where a new way of fusing would go in.
#
# Both take lists of scores by channel and return one total per id. Reciprocal rank fusion needs no scale and so joins
# anything with anything, but drags a good list down to a bad one; summing weighted scores keeps how much better the
# first is than the second, and needs scores that mean the same for every question.

# Source: Cormack, Clarke, Buettcher, "Reciprocal rank fusion outperforms Condorcet" (SIGIR 2009).
RANK_CONSTANT = 60

Scores = Mapping[str, Mapping[str, float]]


def by_rank(channels: Scores, constant: int = RANK_CONSTANT) -> dict[str, float]:
    """Return, per id, the sum over channels of `1 / (constant + rank)`; ranks start at 1, ties go by id.

    Args:
        channels: Scores by id, by channel; an id that a channel does not hold gets nothing from it.
        constant: How little the first ranks stand out; above 0.
    """
    return fuse_lists([ordered(scores) for scores in channels.values()], constant)


def fuse_lists(lists: Iterable[Sequence[str]], constant: int = RANK_CONSTANT) -> dict[str, float]:
    """Return the same for lists of ids, each best first and without repeats."""
    totals: dict[str, float] = {}
    for ids in lists:
        for rank, id_ in enumerate(ids, start=1):
            totals[id_] = totals.get(id_, 0.0) + 1.0 / (constant + rank)
    return totals


def by_score(channels: Scores) -> dict[str, float]:
    """Return, per id, the sum of its scores, which are weighted already."""
    first, *others = channels.values() if channels else ({},)
    totals = dict(first)
    for scores in others:
        for id_, score in scores.items():
            totals[id_] = totals.get(id_, 0.0) + score
    return totals


def ordered(scores: Mapping[str, float]) -> list[str]:
    """Return ids by score, best first, ties by id."""
    return sorted(scores, key=lambda id_: (-scores[id_], id_))


def best(scores: Mapping[str, float], count: int) -> list[str]:
    """Return the first `count` ids of `ordered`; of hundreds of ids only those are sorted."""
    if not 0 < count < len(scores):
        return ordered(scores)[: max(0, count)]
    least = heapq.nlargest(count, scores.values())[-1]
    return ordered({id_: score for id_, score in scores.items() if score >= least})[:count]
