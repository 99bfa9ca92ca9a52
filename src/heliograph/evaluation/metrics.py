"""Scores of one ranking: recall, nDCG, reciprocal rank, and whether everything wanted is near the top.

A ranking is a list of *places*, best first; a place holds the ids that one hit brings and that no hit before it
brought. Where a chunk belongs to one passage every place holds one id. Chunks that span several passages bring them
together: a reader gets them in one place, so they share it. `recall_flat` gives every passage a place of its own
instead, in the order of the text.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import chain

__all__ = ["CUTS", "METRICS", "Places", "RankingScores", "score_ranking"]

Places = Sequence[Sequence[str]]
RankingScores = dict[str, float]

CUTS = (2, 5, 10, 20)
METRICS = (*(f"recall@{cut}" for cut in CUTS), "recall_flat@5", "ndcg@10", "mrr", "all_gold@5")


def score_ranking(places: Places, gold: Mapping[str, float]) -> RankingScores:
    """Return every score of `METRICS`, each in [0, 1].

    Args:
        places: The ranking; an id counts where it first appears.
        gold: Grade per wanted id; at least one.
    """
    ranks = _first_ranks(places)
    found = {id_: ranks[id_] for id_ in gold if id_ in ranks}
    flat = _first_ranks([[id_] for id_ in chain.from_iterable(places)])
    scores = {f"recall@{cut}": sum(rank <= cut for rank in found.values()) / len(gold) for cut in CUTS}
    scores["recall_flat@5"] = sum(flat.get(id_, 6) <= 5 for id_ in gold) / len(gold)
    scores["ndcg@10"] = _ndcg(found, gold, 10)
    scores["mrr"] = 1 / min(found.values()) if found else 0.0
    scores["all_gold@5"] = float(len(found) == len(gold) and max(found.values()) <= 5)
    return scores


def _first_ranks(places: Places) -> dict[str, int]:
    ranks: dict[str, int] = {}
    for rank, ids in enumerate(places, 1):
        for id_ in ids:
            ranks.setdefault(id_, rank)
    return ranks


def _ndcg(found: Mapping[str, int], gold: Mapping[str, float], cut: int) -> float:
    """Return the discounted gain with linear grades over the best possible, as trec_eval has it.

    The best possible is that of one passage a place; passages that share places can do no better than 1.
    """
    gain = sum(gold[id_] / math.log2(rank + 1) for id_, rank in found.items() if rank <= cut)
    best = sorted(gold.values(), reverse=True)[:cut]
    return min(1.0, gain / sum(grade / math.log2(rank + 1) for rank, grade in enumerate(best, 1)))
