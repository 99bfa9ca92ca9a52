"""From a plan to a `Retrieval`: keywords, channels, merging, budgets, chunks, references, context text.

The order of the steps is the order of the file. Each step is a module of its own; here they are only joined, with as
few calls to the stores as they need. Nothing here knows of answers.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from heliograph.chat.base import ChatModel
from heliograph.embedding.base import EmbeddingModel
from heliograph.models import Chunk
from heliograph.query.budget import fit_rows
from heliograph.query.channels.base import Findings
from heliograph.query.channels.entity import search_entities
from heliograph.query.channels.relation import search_relations
from heliograph.query.channels.vector import search_chunks
from heliograph.query.concurrency import run_together
from heliograph.query.context import KeptChunks, build_context, chunks_to_name
from heliograph.query.context_format import ContextFormat, context_format
from heliograph.query.keywords import find_keywords
from heliograph.query.merging import ChunkPicks, MergedChunks, merge_chunks, round_robin
from heliograph.query.modes import Channel
from heliograph.query.plan import Plan
from heliograph.query.prompt import count_prompt_tokens
from heliograph.query.related_chunks import find_related_chunks
from heliograph.query.reranking import rerank_chunks
from heliograph.query.retrieved import Failure, Keywords, ProcessingInfo, Retrieval
from heliograph.query.selection import Selection, select
from heliograph.rerank.base import Reranker
from heliograph.settings import RerankSettings
from heliograph.stores.base import Store
from heliograph.text.tokens import count_tokens

__all__ = ["Progress", "Retriever"]

logger = logging.getLogger(__name__)

Progress = Callable[[str], None]
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


class Retriever:
    """Finds what bears on a question.

    Args:
        store: The knowledge.
        embedding: Embeds questions and keywords; must be the model that filled the store.
        reranker: Orders chunks, if there is one.
        rerank_settings: Its time and its threshold.
    """

    def __init__(
        self, store: Store, embedding: EmbeddingModel, reranker: Reranker | None, rerank_settings: RerankSettings
    ) -> None:
        self._store = store
        self._embedding = embedding
        self._reranker = reranker
        self._rerank_settings = rerank_settings

    async def retrieve(self, plan: Plan, chat: ChatModel | None, progress: Progress) -> Retrieval:
        """Return what was found; `failure` says why, if that is nothing.

        Raises:
            ModelError: A model that is needed failed. A failing reranker is only a warning.
            StoreError: The store failed.
        """
        retrieval = Retrieval(plan.question, plan.mode)
        if plan.uses_graph:
            progress("extracting_keywords")
            found = await find_keywords(plan, chat)
            retrieval = replace(
                retrieval,
                keywords=found.keywords or Keywords(),
                failure=Failure.NO_KEYWORDS if found.keywords is None else None,
                warnings=found.warnings,
                usage=found.usage,
            )
        if plan.channels and retrieval.failure is None:
            retrieval = await self._search_and_build(plan, retrieval, progress)
        for warning in retrieval.warnings:
            logger.warning("%s", warning)
        return retrieval

    async def _search_and_build(self, plan: Plan, retrieval: Retrieval, progress: Progress) -> Retrieval:
        vectors = await self._embed(plan, retrieval.keywords)
        findings = await self._search(plan, vectors, progress)
        form = context_format(plan.context_format)
        selection = await select(self._store.graph, findings, form, plan)
        merged = await self._merge_chunks(plan, findings, selection, vectors.get(Channel.VECTOR))
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
        kept = await self._keep_chunks(plan, form, selection, merged, progress)
        context = build_context(plan, form, selection, merged, kept)
        return replace(
            retrieval,
            context=context,
            info=replace(info, final_chunks_count=len(context.chunks)),
            failure=None if context.text else Failure.EMPTY_CONTEXT,
            warnings=(*retrieval.warnings, *kept.warnings),
        )

    async def _embed(self, plan: Plan, keywords: Keywords) -> dict[Channel, Vector]:
        """Embed what the channels search with, in one call; the question also where chunks are picked by vector."""
        texts: dict[Channel, str] = {}
        if Channel.VECTOR in plan.channels or plan.chunk_picking == "vector":
            texts[Channel.VECTOR] = plan.question
        if Channel.ENTITY in plan.channels and keywords.low_level:
            texts[Channel.ENTITY] = ", ".join(keywords.low_level)
        if Channel.RELATION in plan.channels and keywords.high_level:
            texts[Channel.RELATION] = ", ".join(keywords.high_level)
        if not any(channel in texts for channel in plan.channels):
            return {}
        embeddings = await self._embedding.embed(list(texts.values()), "query")
        return dict(zip(texts, embeddings.vectors, strict=True))

    async def _search(self, plan: Plan, vectors: dict[Channel, Vector], progress: Progress) -> tuple[Findings, ...]:
        min_score = self._embedding.info.min_score if plan.min_score is None else plan.min_score
        searched = [channel for channel in plan.channels if channel in vectors]
        for channel in searched:
            progress(_STAGES[channel])
        limits = {Channel.VECTOR: plan.chunk_top_k}
        return await run_together(
            *(
                _SEARCHES[channel](self._store, vectors[channel], limits.get(channel, plan.top_k), min_score)
                for channel in searched
            )
        )

    async def _merge_chunks(
        self, plan: Plan, findings: Sequence[Findings], selection: Selection, question: Vector | None
    ) -> MergedChunks:
        by_vector = ChunkPicks("C", round_robin([found.chunk_ids for found in findings], key=str))
        if not (selection.entities or selection.relations):
            return merge_chunks([by_vector])
        return merge_chunks([by_vector, *await find_related_chunks(self._store, plan, selection, question)])

    async def _keep_chunks(
        self, plan: Plan, form: ContextFormat, selection: Selection, merged: MergedChunks, progress: Progress
    ) -> KeptChunks:
        """Read, rerank and cut the chunks."""
        is_reranked = plan.enable_rerank and self._reranker is not None and bool(merged.ids)
        wanted = merged.ids if is_reranked else merged.ids[: plan.chunk_top_k]
        chunks, sources = await run_together(
            self._store.records.get_chunks(wanted), self._store.records.get_sources(chunks_to_name(selection, wanted))
        )
        ranked: Sequence[tuple[Chunk, float | None]] = [(chunk, None) for chunk in chunks[: plan.chunk_top_k]]
        warnings: list[str] = []
        if is_reranked and self._reranker is not None:
            progress("reranking")
            result = await rerank_chunks(self._reranker, self._rerank_settings, plan.question, chunks, plan.chunk_top_k)
            ranked = result.chunks
            warnings += [result.warning] if result.warning else []
        bodies = [form.chunk_body(chunk) for chunk, _ in ranked]
        count = await _fit_chunks(plan, form, selection, [chunk for chunk, _ in ranked], bodies)
        if ranked and not count:
            warnings.append(
                f"no passage fits max_total_tokens={plan.max_total_tokens:,} beside the prompt, the question, the "
                "entities and the relations; raise it, or lower max_entity_tokens and max_relation_tokens"
            )
        return KeptChunks(ranked[:count], bodies[:count], sources, tuple(warnings))


async def _fit_chunks(
    plan: Plan, form: ContextFormat, selection: Selection, chunks: Sequence[Chunk], bodies: Sequence[str]
) -> int:
    """Return how many chunks fit into what prompt, question, entities, relations and buffer leave."""
    fixed = count_prompt_tokens(plan) + form.frame_tokens(has_graph=plan.uses_graph) + selection.tokens
    limit = plan.max_total_tokens - (fixed + count_tokens(plan.question) + plan.buffer_tokens)
    # References are numbered after this cut; no number will have more digits than this one.
    widest = str(len(chunks))
    rows = [form.chunk_row(place, widest, body) for place, body in enumerate(bodies, start=1)]
    bounds = [form.chunk_bound(chunk, row) for chunk, row in zip(chunks, rows, strict=True)]
    return await fit_rows(rows, bounds, limit)
