"""From a plan to a `Retrieval`: keywords, channels, merging, budgets, chunks, references, context text.

The order of the steps is the order of the file. Each step is a module of its own; here they are only joined, with as
few calls to the stores as they need. Nothing here knows of answers.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from heliograph.calls.tasks import run_together
from heliograph.chat.base import ChatModel
from heliograph.embedding.base import EmbeddingModel
from heliograph.models import GraphPath
from heliograph.observing import Progress, StageClock
from heliograph.query.auto import AutoSearch, adapt_plan
from heliograph.query.channels import Findings, find_evidence, search_chunks, search_entities, search_relations
from heliograph.query.context.assembly import (
    ChunkKeeper,
    Selection,
    build_context,
    find_related_chunks,
    select,
    trace_retrieval,
)
from heliograph.query.context.format import context_format, fit_budgets, fit_paths, room_for_rows
from heliograph.query.fusion.models import FusedHits, SearchLimits
from heliograph.query.fusion.search import FusedSearch
from heliograph.query.linking import find_paths
from heliograph.query.merging import ChunkPicks, MergedChunks, fuse_lists, merge_chunks, ordered, round_robin
from heliograph.query.models import Failure, Keywords, ProcessingInfo, Retrieval
from heliograph.query.plan import FUSED_CHANNELS, Channel, Plan, find_keywords, is_understood
from heliograph.query.understanding import Understanding, find_understanding
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
        """Return what was found; `failure` says why, if that is nothing.

        Raises:
            ModelError: A model that is needed failed. A failing reranker is only a warning.
            StoreError: The store failed.
        """
        retrieval = Retrieval(plan.question, plan.mode, max_total_tokens=plan.max_total_tokens)
        clock = StageClock()
        if is_understood(plan.mode):
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
        with clock.measure("search"):
            findings, fused = await run_together(
                self._search(plan, vectors, progress),
                self._search_fused(plan, vectors, progress, retrieval.understanding),
            )
            paths, evidence = await run_together(self._find_paths(plan, fused), self._find_evidence(plan, fused))
        retrieval = replace(_as_searched(plan, retrieval, fused), parts=fused.parts)
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

    async def _search(self, plan: Plan, vectors: dict[Channel, Vector], progress: Progress) -> tuple[Findings, ...]:
        min_score = self._embedding.info.min_score if plan.min_score is None else plan.min_score
        searched = [
            channel
            for channel in plan.channels
            if channel in vectors and channel in _SEARCHES and not (channel is Channel.VECTOR and plan.is_all_fused)
        ]
        for channel in searched:
            progress(_STAGES[channel])
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
        limits = SearchLimits(
            hits=_HITS_PER_CHUNK * plan.chunk_top_k,
            channels=_fused_channels(plan),
            by_rank=plan.fusion == "rank",
            min_score=self._embedding.info.min_score if plan.min_score is None else plan.min_score,
        )
        search = FusedSearch(self._store, self._embedding)
        if understanding is not None:
            auto = AutoSearch(self._store, self._embedding, search)
            return await auto.search(plan.question, vectors[Channel.VECTOR], limits, understanding)
        return await search.search(plan.question, vectors[Channel.VECTOR], limits)

    async def _find_paths(self, plan: Plan, fused: FusedHits) -> tuple[GraphPath, ...] | None:
        """Return paths between the entities that the question names; None where the plan does not look for any."""
        if Channel.GRAPH not in plan.channels:
            return None
        return await find_paths(self._store.graph, [entity.id for entity in fused.linked])

    async def _find_evidence(self, plan: Plan, fused: FusedHits) -> Findings:
        wanted = fused.entities[: plan.top_k] if plan.is_all_fused else ()
        return await find_evidence(self._store.graph, wanted)

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
        merged = await self._merge_round_robin(plan, findings, selection, question)
        if not plan.added_channels:
            return merged
        ids = ordered(fuse_lists([merged.ids, fused.chunk_ids]))
        return replace(merged, ids=ids, picks=_with_picks(merged.picks, fused.chunk_ids), scores=scores)

    async def _merge_round_robin(
        self, plan: Plan, findings: Sequence[Findings], selection: Selection, question: Vector | None
    ) -> MergedChunks:
        by_vector = ChunkPicks("C", round_robin([found.chunk_ids for found in findings], key=str))
        if not (selection.entities or selection.relations):
            return merge_chunks([by_vector])
        return merge_chunks([by_vector, *await find_related_chunks(self._store, plan, selection, question)])


def _fused_channels(plan: Plan) -> frozenset[Channel]:
    """Return the fused channels of a plan, and the vector channel where the others would have nothing to start from."""
    wanted = frozenset(FUSED_CHANNELS).intersection(plan.channels)
    return wanted if wanted & {Channel.VECTOR, Channel.KEYWORD} else wanted | {Channel.VECTOR}


def _as_searched(plan: Plan, retrieval: Retrieval, fused: FusedHits) -> Retrieval:
    """Return what was found with how misspelt names were read, and linked names as keywords where there were none."""
    if fused.respelt:
        changes = ((item.written, item.read) for item in fused.respelt.changes)
        read = (f"{old!r} stands in no document that was searched and is read as {new!r}" for old, new in changes)
        warnings = (*retrieval.warnings, *read)
        retrieval = replace(retrieval, respelt=fused.respelt.question, warnings=warnings)
    if plan.needs_keywords:
        return retrieval
    names = tuple(dict.fromkeys(entity.name for entity in fused.linked))
    return replace(retrieval, keywords=Keywords(low_level=names))


def _with_picks(picks: Sequence[ChunkPicks], fused: Sequence[str]) -> list[ChunkPicks]:
    """Return the lists of a merge with the fused one in place of, or after, that of the chunks' own vectors."""
    vectors = [pick for pick in picks if pick.channel == "C"]
    own = dict.fromkeys(chunk_id for pick in vectors for chunk_id in pick.ids)
    found = list(dict.fromkeys([*own, *fused]))
    return [ChunkPicks("C", found), *(pick for pick in picks if pick.channel != "C")]
