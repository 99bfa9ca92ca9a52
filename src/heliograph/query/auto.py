"""From an understanding to a search: what mode `auto` does differently from `fusion`, and why.

| kind | search |
|---|---|
| fact, how-to | the fused search as it is |
| compare | also once for each side; the sides' hits are interleaved |
| reason | two rounds of bridges in place of one: the second goes on from what the first led to |
| aggregate | wider: twice the chunks |
| global | broad: twice the chunks, entities and relations, chunks from as many documents as there are |

The first hits of the plain search keep their places (`_HEAD`), but for the best hit of a side that is not among them;
behind them all take turns. So `auto` finds in its first hits what `fusion` finds, and what is misread costs little. A
question of several parts is searched part by part as well, whatever its kind; its parts and the whole take turns from
the first place on. `leaders` names the chunks, one for each side or part, that must outlive every cut.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest

import numpy as np
from numpy.typing import NDArray

from heliograph.calls.tasks import run_together
from heliograph.embedding.base import EmbeddingModel
from heliograph.query.context.assembly import with_leaders
from heliograph.query.fusion.models import FusedHit, FusedHits, SearchLimits
from heliograph.query.fusion.search import FusedSearch
from heliograph.query.merging import round_robin
from heliograph.query.models import FoundPart, Keywords
from heliograph.query.plan import MAX_TOP_K, Plan
from heliograph.query.understanding import QuestionKind, Understanding, side_question
from heliograph.stores.base import StoreView

Vector = NDArray[np.float32]

# First hits that further searches may not push down.
_HEAD = 5
# Of a side's or a part's hits the first ones: if one of them is among the first hits already, its evidence is there. Of
# a part that is not understood on its own ("who goes with him?") the very first ones may be anything.
_SEEN = 4
# Rounds of bridges for a chain of reasoning: the second finds the third hop.
_ROUNDS = 2
_WIDER = 2


def adapt_plan(plan: Plan, understanding: Understanding) -> Plan:
    """Return the plan with the depths that the kind of question asks for; what the caller set stays as it is.

    Where nobody gave keywords, a chat model's understanding is searched by too: its entities and other words. It was
    asked once, and may know names that the question does not say.
    """
    kind, param = understanding.kind, plan.param
    changes: dict[str, object] = {}
    if kind in (QuestionKind.AGGREGATE, QuestionKind.GLOBAL) and param.chunk_top_k is None:
        changes["chunk_top_k"] = min(_WIDER * plan.chunk_top_k, MAX_TOP_K)
    if kind is QuestionKind.GLOBAL and param.top_k is None:
        changes["top_k"] = min(_WIDER * plan.top_k, MAX_TOP_K)
    if plan.keywords is None and understanding.by_model and (understanding.entities or understanding.expansions):
        names = understanding.entities
        words = tuple(word for word in understanding.expansions if word not in names)
        changes["keywords"] = Keywords(words or names, names or words)
    return replace(plan, **changes)  # pyright: ignore[reportArgumentType]


class AutoSearch:
    """Searches as the kind of question asks for.

    Args:
        store: Where to search.
        embedding: The model that filled it.
        search: The fused search of the same store.
    """

    def __init__(self, store: StoreView, embedding: EmbeddingModel, search: FusedSearch) -> None:
        self._store = store
        self._embedding = embedding
        self._search = search

    async def search(
        self, question: str, vector: Vector, limits: SearchLimits, understanding: Understanding
    ) -> FusedHits:
        """Return the best chunks; for a plain question exactly what the fused search returns.

        Args:
            question: The question.
            vector: Its embedding as a query.
            limits: As for the fused search.
            understanding: What the question asks for.

        Raises:
            ModelError: The embedding failed.
            StoreError: The store failed.
        """
        rounds = _ROUNDS if understanding.kind is QuestionKind.REASON else limits.rounds
        whole = await self._search.search(question, vector, replace(limits, rounds=rounds))
        sides = [side_question(question, understanding.sides, side) for side in understanding.sides]
        pieces = sides or list(understanding.parts)
        if pieces:
            if whole.respelt:
                pieces = [whole.respelt.read(piece) for piece in pieces]
            found = await self._search_all(pieces, replace(limits, is_read=True))
            return _merged(whole, found, limits.hits) if sides else _shared_out(whole, pieces, found, limits.hits)
        return await self._spread(whole) if understanding.kind is QuestionKind.GLOBAL else whole

    async def _search_all(self, questions: Sequence[str], limits: SearchLimits) -> Sequence[FusedHits]:
        embedded = await self._embedding.embed(questions, "query")
        return await run_together(
            *(
                self._search.search(question, vector, limits)
                for question, vector in zip(questions, embedded.vectors, strict=True)
            )
        )

    async def _spread(self, whole: FusedHits) -> FusedHits:
        """Take turns among documents, the best chunk of each first, documents in the order of their best chunk."""
        chunks = await self._store.records.get_chunks(whole.chunk_ids)
        documents = {chunk.id: chunk.document_id for chunk in chunks}
        groups: dict[str, list[FusedHit]] = {}
        for hit in whole.hits:
            groups.setdefault(documents.get(hit.chunk_id, hit.chunk_id), []).append(hit)
        turns = zip_longest(*groups.values())
        return replace(whole, hits=_by_place([hit for turn in turns for hit in turn if hit is not None]))


def _merged(whole: FusedHits, pieces: Sequence[FusedHits], limit: int) -> FusedHits:
    """Return the whole question's first hits, then everybody's in turn; the best of each piece gets to the front."""
    order = dict.fromkeys(whole.chunk_ids[:_HEAD])
    lists = [whole, *pieces]
    for turn in zip_longest(*(hits.chunk_ids for hits in lists)):
        order.update(dict.fromkeys(chunk_id for chunk_id in turn if chunk_id is not None))
    leaders = [_leader(hits, whole) for hits in pieces if hits.hits]
    known: Mapping[str, FusedHit] = {hit.chunk_id: hit for hits in reversed(lists) for hit in hits.hits}
    hits = _by_place([known[chunk_id] for chunk_id in with_leaders(list(order), leaders, _HEAD)[:limit]])
    entities = round_robin([hits.entities for hits in lists], key=str)
    return replace(whole, hits=hits, leaders=tuple(dict.fromkeys(leaders)), entities=tuple(entities))


def _shared_out(whole: FusedHits, parts: Sequence[str], found: Sequence[FusedHits], limit: int) -> FusedHits:
    """Return the parts' hits and the whole question's in turn, so that each part has its share of places and budget."""
    lists = [*found, whole]
    order = list(dict.fromkeys(id_ for turn in zip_longest(*(hits.chunk_ids for hits in lists)) for id_ in turn if id_))
    known: Mapping[str, FusedHit] = {hit.chunk_id: hit for hits in (*found, whole) for hit in hits.hits}
    entities = round_robin([hits.entities for hits in (whole, *found)], key=str)
    return replace(
        whole,
        hits=_by_place([known[chunk_id] for chunk_id in order[:limit]]),
        leaders=tuple(dict.fromkeys(hits.chunk_ids[0] for hits in found if hits.hits)),
        entities=tuple(entities),
        parts=tuple(
            FoundPart(part, {hit.chunk_id: hit.scores for hit in hits.hits})
            for part, hits in zip(parts, found, strict=True)
        ),
    )


def _leader(piece: FusedHits, whole: FusedHits) -> str:
    """Return the chunk that speaks for a piece: one of its best that the whole question found too, else its best."""
    head = whole.chunk_ids[:_HEAD]
    best = piece.chunk_ids[:_SEEN]
    return next((chunk_id for chunk_id in best if chunk_id in head), best[0])


def _by_place(hits: Sequence[FusedHit]) -> tuple[FusedHit, ...]:
    """Return hits scored by their place, since scores of different searches do not compare."""
    return tuple(replace(hit, score=1.0 / place) for place, hit in enumerate(hits, start=1))
