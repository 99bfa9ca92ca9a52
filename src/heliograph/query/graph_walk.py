"""Personalised PageRank on a bounded graph of chunks and the entities that they mention.

Source: Page et al. (1999); on passages and entities: HippoRAG (Gutiérrez et al., 2024). The graph holds only what a
search has read anyway, some hundreds of nodes, so its cost does not grow with the corpus. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

__all__ = ["personalised_pagerank"]

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
    nodes = dict.fromkeys(node for edge in edges for node in edge[:2]) | dict.fromkeys(restart)
    places = {node: place for place, node in enumerate(nodes)}
    start = np.array([max(0.0, restart.get(node, 0.0)) for node in nodes])
    if not start.sum() > 0:
        return {}
    start /= start.sum()
    left = np.array([places[node] for node, _, _ in edges], np.int64)
    right = np.array([places[node] for _, node, _ in edges], np.int64)
    sources, targets = np.concatenate((left, right)), np.concatenate((right, left))
    weights = np.tile(np.array([weight for _, _, weight in edges], float), 2)
    strength = np.bincount(sources, weights, len(nodes))
    shares = weights / strength[sources] if len(edges) else weights
    at = start
    for _ in range(_ROUNDS):
        moved = np.bincount(targets, at[sources] * shares, len(nodes)) if len(edges) else np.zeros(len(nodes))
        moved *= damping
        at = moved + start * (1.0 - moved.sum())
    return dict(zip(nodes, at.tolist(), strict=True))
