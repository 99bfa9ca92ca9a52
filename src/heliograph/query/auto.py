"""Mode `auto`: what it does differently from `fusion`, and why.

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

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest

from heliograph.calls.tasks import run_together
from heliograph.embedding.base import EmbeddingModel
from heliograph.query.context.assembly import with_leaders
from heliograph.query.fusion import FusedHits, FusedSearch, SearchLimits
from heliograph.query.models import FoundPart, FusedHit, Keywords
from heliograph.query.plain_search import Vector, by_place, ordered, round_robin
from heliograph.query.plan import Channel, Plan
from heliograph.query.understanding import QuestionKind, Understanding, find_aspects, side_question
from heliograph.settings import MAX_TOP_K

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
    # lose. So a factor for documents, such as `_hits` of `fusion` may have, has to multiply these, too.
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
