"""From a plan to a `Retrieval`: keywords, channels, merging, budgets, chunks, references, context text.

The order of the steps is the order of the file; they are joined with as few calls to the stores as they need. What mode
`auto` makes of an understanding stands at the end. Nothing here knows of answers.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest

import numpy as np
from numpy.typing import NDArray

from heliograph.calls.tasks import run_together
from heliograph.chat.base import ChatModel
from heliograph.embedding.base import EmbeddingModel
from heliograph.models import Mode
from heliograph.observing import Progress, StageClock
from heliograph.query.channels import (
    ChunkPicks,
    Findings,
    MergedChunks,
    find_evidence,
    fuse_lists,
    merge_chunks,
    ordered,
    round_robin,
    search_chunks,
    search_entities,
    search_relations,
)
from heliograph.query.context.assembly import (
    ChunkKeeper,
    Selection,
    build_context,
    find_related_chunks,
    select,
    trace_retrieval,
    with_leaders,
)
from heliograph.query.context.format import context_format, fit_budgets, fit_paths, room_for_rows
from heliograph.query.fusion import FusedHit, FusedHits, FusedSearch, SearchLimits
from heliograph.query.linking import find_paths
from heliograph.query.models import Failure, FoundPart, Keywords, ProcessingInfo, Retrieval
from heliograph.query.plan import FUSED_CHANNELS, MAX_TOP_K, Channel, Plan, find_keywords
from heliograph.query.understanding import QuestionKind, Understanding, find_aspects, find_understanding, side_question
from heliograph.rerank.base import Reranker
from heliograph.settings import RerankSettings
from heliograph.stores.base import StoreView

logger = logging.getLogger(__name__)

Vector = NDArray[np.float32]

_STAGES = {
    Channel.ENTITY: "retrieving_entities",
    Channel.RELATION: "retrieving_relations",
    Channel.VECTOR: "retrieving_chunks",
}
_SEARCHES = {
    Channel.ENTITY: search_entities,
    Channel.RELATION: search_relations,
    Channel.VECTOR: search_chunks,
}
# Fused hits per chunk kept, so that a reranker has something to choose from.
_HITS_PER_CHUNK = 3


class Retriever:
    """Finds what bears on a question.

    Args:
        store: The knowledge.
        embedding: Embeds questions and keywords; must be the model that filled the store.
        reranker: Orders chunks, if there is one.
        rerank_settings: Its time and its threshold.
    """

    def __init__(
        self, store: StoreView, embedding: EmbeddingModel, reranker: Reranker | None, rerank_settings: RerankSettings
    ) -> None:
        self._store = store
        self._embedding = embedding
        self._keeper = ChunkKeeper(store.records, reranker, rerank_settings)

    async def retrieve(self, plan: Plan, chat: ChatModel | None, progress: Progress) -> Retrieval:
        """Retrieve for a plan; `failure` says why nothing was found.

        Raises:
            ModelError: A model that is needed failed. A failing reranker is only a warning.
            StoreError: The store failed.
        """
        retrieval = Retrieval(plan.question, plan.mode, max_total_tokens=plan.max_total_tokens)
        clock = StageClock()
        if plan.mode is Mode.AUTO:
            progress("understanding_question")
            with clock.measure("understanding"):
                understood = await find_understanding(plan.question, chat, plan.keyword_language)
            plan = adapt_plan(plan, understood.understanding)
            retrieval = replace(
                retrieval,
                understanding=understood.understanding,
                warnings=understood.warnings,
                usage=understood.usage,
            )
        if plan.needs_keywords:
            progress("extracting_keywords")
            with clock.measure("keywords"):
                found = await find_keywords(plan, chat)
            retrieval = replace(
                retrieval,
                keywords=found.keywords or Keywords(),
                failure=Failure.NO_KEYWORDS if found.keywords is None and not plan.is_fused else None,
                warnings=(*retrieval.warnings, *found.warnings),
                usage=retrieval.usage + found.usage,
            )
        if plan.channels and retrieval.failure is None:
            retrieval = await self._search_and_build(plan, retrieval, progress, clock)
        for warning in retrieval.warnings:
            logger.info("%s", warning)
        return replace(retrieval, timings=clock.read() if plan.channels else {})

    async def _search_and_build(
        self, plan: Plan, retrieval: Retrieval, progress: Progress, clock: StageClock
    ) -> Retrieval:
        with clock.measure("embed"):
            vectors = await self._embed(plan, retrieval.keywords)
        searched = [
            channel
            for channel in plan.channels
            if channel in vectors and channel in _SEARCHES and not (channel is Channel.VECTOR and plan.is_all_fused)
        ]
        for channel in searched:
            progress(_STAGES[channel])
        with clock.measure("search"):
            fused = await self._search_fused(plan, vectors, progress, retrieval.understanding)

        async def build() -> Retrieval:
            return await self._build(plan, retrieval, vectors, searched, fused, progress, clock)

        # A reranker is waited for elsewhere than where the store is read.
        return await (build() if self._keeper.reranks(plan) else self._store.at_one_moment(build))

    async def _build(
        self,
        plan: Plan,
        retrieval: Retrieval,
        vectors: Mapping[Channel, Vector],
        searched: Sequence[Channel],
        fused: FusedHits,
        progress: Progress,
        clock: StageClock,
    ) -> Retrieval:
        with clock.measure("search"):
            findings = await self._search(plan, vectors, searched)
            graph = self._store.graph
            evidence = await find_evidence(graph, fused.entities[: plan.top_k] if plan.is_all_fused else ())
            # None where the plan does not look for any.
            paths = None
            if Channel.GRAPH in plan.channels:
                paths = await find_paths(graph, [entity.id for entity in fused.linked])
        retrieval = replace(retrieval, parts=fused.parts)
        if fused.respelt:
            changes = ((item.written, item.read) for item in fused.respelt.changes)
            read = (f"{old!r} stands in no document that was searched and is read as {new!r}" for old, new in changes)
            warnings = (*retrieval.warnings, *read)
            retrieval = replace(retrieval, respelt=fused.respelt.question, warnings=warnings)
        if not plan.needs_keywords:
            names = tuple(dict.fromkeys(entity.name for entity in fused.linked))
            retrieval = replace(retrieval, keywords=Keywords(low_level=names))
        form = context_format(plan.context_format)
        with clock.measure("select"):
            paths, room = fit_paths(form, paths, room_for_rows(plan, form))
            selection = await select(self._store.graph, [*findings, evidence], form, fit_budgets(plan, room))
            merged = await self._merge_chunks(plan, findings, selection, vectors.get(Channel.VECTOR), fused)
        info = ProcessingInfo(
            total_entities_found=selection.entities_found,
            total_relations_found=selection.relations_found,
            entities_after_truncation=len(selection.entities),
            relations_after_truncation=len(selection.relations),
            merged_chunks_count=len(merged.ids),
        )
        retrieval = replace(retrieval, info=info)
        if not (selection.entities_found or selection.relations_found or merged.ids):
            return replace(retrieval, failure=Failure.NO_RESULTS)
        with clock.measure("chunks"):
            kept = await self._keeper.keep(plan, form, selection, merged, room, progress, clock)
        context = build_context(plan, form, selection, merged, kept, paths)
        trace = None
        if plan.param.explain:
            trace = await trace_retrieval(self._store, plan, form, selection, merged, kept, context)
        return replace(
            retrieval,
            context=context,
            trace=trace,
            info=replace(info, final_chunks_count=len(context.chunks), ranked_chunks_count=kept.ranked_count),
            failure=Failure.EMPTY_CONTEXT if context.is_empty else None,
            warnings=(*retrieval.warnings, *kept.warnings),
        )

    async def _embed(self, plan: Plan, keywords: Keywords) -> dict[Channel, Vector]:
        """Embed what the channels search with, in one call; the question also where chunks are picked by vector."""
        texts: dict[Channel, str] = {}
        if Channel.VECTOR in plan.channels or plan.is_fused or plan.chunk_picking == "vector":
            texts[Channel.VECTOR] = plan.question
        if Channel.ENTITY in plan.channels and keywords.low_level:
            texts[Channel.ENTITY] = ", ".join(keywords.low_level)
        if Channel.RELATION in plan.channels and keywords.high_level:
            texts[Channel.RELATION] = ", ".join(keywords.high_level)
        if not (plan.is_fused or any(channel in texts for channel in plan.channels)):
            return {}
        embeddings = await self._embedding.embed(list(texts.values()), "query")
        return dict(zip(texts, embeddings.vectors, strict=True))

    async def _search(
        self, plan: Plan, vectors: Mapping[Channel, Vector], searched: Sequence[Channel]
    ) -> tuple[Findings, ...]:
        min_score = self._embedding.info.min_score if plan.min_score is None else plan.min_score
        limits = {Channel.VECTOR: plan.chunk_top_k}
        return await run_together(
            *(
                _SEARCHES[channel](self._store, vectors[channel], limits.get(channel, plan.top_k), min_score)
                for channel in searched
            )
        )

    async def _search_fused(
        self, plan: Plan, vectors: dict[Channel, Vector], progress: Progress, understanding: Understanding | None
    ) -> FusedHits:
        if not plan.is_fused:
            return FusedHits()
        progress(_STAGES[Channel.VECTOR])
        channels = frozenset(FUSED_CHANNELS).intersection(plan.channels)
        if not channels & {Channel.VECTOR, Channel.KEYWORD}:
            # The others would have nothing to start from.
            channels |= {Channel.VECTOR}
        limits = SearchLimits(
            hits=_HITS_PER_CHUNK * plan.chunk_top_k,
            channels=channels,
            by_rank=plan.fusion == "rank",
            min_score=self._embedding.info.min_score if plan.min_score is None else plan.min_score,
        )
        search = FusedSearch(self._store, self._embedding)
        if understanding is not None:
            auto = AutoSearch(self._embedding, search)
            return await auto.search(plan.question, vectors[Channel.VECTOR], limits, understanding)
        return await search.search(plan.question, vectors[Channel.VECTOR], limits)

    async def _merge_chunks(
        self,
        plan: Plan,
        findings: Sequence[Findings],
        selection: Selection,
        question: Vector | None,
        fused: FusedHits,
    ) -> MergedChunks:
        scores = {hit.chunk_id: hit.scores for hit in fused.hits}
        if plan.is_all_fused:
            paths = {hit.chunk_id: hit.path for hit in fused.hits if hit.path}
            return MergedChunks(fused.chunk_ids, [ChunkPicks("C", fused.chunk_ids)], scores, fused.leaders, paths)
        picks = [ChunkPicks("C", round_robin([found.chunk_ids for found in findings], key=str))]
        if selection.entities or selection.relations:
            picks += await find_related_chunks(self._store, plan, selection, question)
        merged = merge_chunks(picks)
        if not plan.added_channels:
            return merged
        ids = ordered(fuse_lists([merged.ids, fused.chunk_ids]))
        # The fused list stands in place of, or after, that of the chunks' own vectors.
        own = [chunk_id for pick in merged.picks if pick.origin == "C" for chunk_id in pick.ids]
        joined = ChunkPicks("C", list(dict.fromkeys([*own, *fused.chunk_ids])))
        others = (pick for pick in merged.picks if pick.origin != "C")
        return replace(merged, ids=ids, picks=[joined, *others], scores=scores)


# What mode `auto` does differently from `fusion`, and why.
#
# | kind | search |
# |---|---|
# | fact, how-to | the fused search as it is |
# | compare | also once for each side; the sides' hits are interleaved |
# | reason | two rounds of bridges in place of one: the second goes on from what the first led to |
# | aggregate | wider: twice the chunks |
# | global | broad: twice the chunks, entities and relations; also once for each aspect, and documents take turns |
#
# The first hits of the plain search keep their places (`_KEPT_FIRST`), but for the best hit of a side that is not among
# them; behind them all take turns. So `auto` finds in its first hits what `fusion` finds, and what is misread costs
# little. A question of several parts is searched part by part as well, whatever its kind; its parts and the whole take
# turns from the first place on. An account of a whole subject is spread over documents, those first that its words, its
# meaning and its aspects agree on. `leaders` names the chunks, one for each side or part, that must outlive every cut.

# First hits that further searches may not push down.
_KEPT_FIRST = 5
# Of a side's or a part's hits the first ones: if one of them is among the first hits already, its evidence is there. Of
# a part that is not understood on its own ("who goes with him?") the very first ones may be anything.
_SEEN = 4
# Rounds of bridges for a chain of reasoning: the second finds the third hop.
_ROUNDS = 2
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
        embedding: The model that filled the store.
        search: The fused search of it.
    """

    def __init__(self, embedding: EmbeddingModel, search: FusedSearch) -> None:
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
        is_account = understanding.kind is QuestionKind.GLOBAL
        whole = await self._search.search(question, vector, replace(limits, rounds=rounds, is_account=is_account))
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
    """Return the hits of these chunks, the last ones found, scored by place: scores of searches do not compare."""
    known: Mapping[str, FusedHit] = {hit.chunk_id: hit for hits in lists for hit in hits.hits}
    return tuple(replace(known[chunk_id], score=1.0 / place) for place, chunk_id in enumerate(chunk_ids, start=1))
