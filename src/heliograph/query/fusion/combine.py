"""Joining ranked lists into one, by rank or by score: the seam where a new way of fusing would go in.

Both take lists of scores by channel and return one total per id. Reciprocal rank fusion needs no scale and so joins
anything with anything, but drags a good list down to a bad one; summing weighted scores keeps how much better the
first is than the second, and needs scores that mean the same for every question.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence

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
