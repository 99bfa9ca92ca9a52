"""Personalised PageRank on a bounded graph of chunks and the entities that they mention.

Source: Page et al. (1999); on passages and entities: HippoRAG (Gutiérrez et al., 2024). The graph holds only what a
search has read anyway, some hundreds of nodes, so its cost does not grow with the corpus. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

_ROUNDS = 20


def personalised_pagerank(
    edges: Iterable[tuple[str, str, float]], restart: Mapping[str, float], damping: float
) -> dict[str, float]:
    """Return the share of time that a random walk spends at each node; the shares add up to 1.

    Args:
        edges: Undirected, `(node, node, weight)`; weights above 0.
        restart: Where the walk starts anew, in proportion; values below or at 0 are ignored. Without any, the result
            is empty.
        damping: Probability to go on along an edge, in [0, 1); at a node without edges the walk starts anew.
    """
    edges = list(edges)
    places: dict[str, int] = {}
    ends = [places.setdefault(node, len(places)) for edge in edges for node in edge[:2]]
    for node in restart:
        places.setdefault(node, len(places))
    start = np.array([max(0.0, restart.get(node, 0.0)) for node in places])
    if not start.sum() > 0:
        return {}
    start /= start.sum()
    pairs = np.array(ends, np.int64).reshape(-1, 2).T
    sources, targets = pairs.ravel(), pairs[::-1].ravel()
    weights = np.tile(np.array([weight for _, _, weight in edges], float), 2)
    strength = np.bincount(sources, weights, len(places))
    shares = weights / strength[sources] if len(edges) else weights
    at = start
    for _ in range(_ROUNDS):
        moved = np.bincount(targets, at[sources] * shares, len(places)) if len(edges) else np.zeros(len(places))
        moved *= damping
        at = moved + start * (1.0 - moved.sum())
    return dict(zip(places, at.tolist(), strict=True))
