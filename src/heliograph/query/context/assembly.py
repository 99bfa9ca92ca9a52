"""Which of the chunks found are kept, and how all that was kept becomes a `Context`.

Chunks are put into a reranker's order if there is one, then cut to number and tokens; references are numbered, and the
text is written.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from heliograph.calls.tasks import run_together
from heliograph.errors import ModelError
from heliograph.models import Chunk, GraphPath
from heliograph.query.context.format import (
    MAX_SOURCES,
    ContextFormat,
    ContextRows,
    first_reference,
    fit_rows,
    number_sources,
    sources_of,
)
from heliograph.query.context.selection import Selection, evidence_order, needed_chunks, with_leaders
from heliograph.query.linking import path_row
from heliograph.query.merging import MergedChunks
from heliograph.query.plan import Plan
from heliograph.query.retrieved import Context, Reference, RetrievedChunk, RetrievedEntity, RetrievedRelation
from heliograph.query.timing import Progress, StageClock
from heliograph.rerank.base import Reranker
from heliograph.settings import RerankSettings
from heliograph.stores.base import RecordsStore

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class KeptChunks:
    """Chunks that fit.

    Attributes:
        chunks: Each with the reranker's score, None without one.
        bodies: Per chunk what `ContextFormat.chunk_body` gave.
        sources: Source per chunk id, also for the chunks of entities and relations.
        ranked_count: How many they were before the cut to tokens.
        warnings: Why there are fewer than one would expect.
        other_sources: Per source those of documents with the same text.
        ranked: Ids with the reranker's scores, None without one, before the cut to tokens.
        is_reranked: Whether a reranker put them into their order.
    """

    chunks: Sequence[tuple[Chunk, float | None]]
    bodies: Sequence[str]
    sources: Mapping[str, str]
    ranked_count: int = 0
    warnings: tuple[str, ...] = ()
    other_sources: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    ranked: Sequence[tuple[str, float | None]] = ()
    is_reranked: bool = False


def chunks_to_name(selection: Selection, chunk_ids: Sequence[str]) -> list[str]:
    """Return all chunks whose source will be shown: the chunks themselves, and those of entities and relations."""
    ids = set(chunk_ids)
    for entity in selection.entities:
        ids.update(entity.chunk_ids[:MAX_SOURCES])
    for item in selection.relations:
        ids.update(item.relation.chunk_ids[:MAX_SOURCES])
    return list(ids)


def build_context(
    plan: Plan,
    form: ContextFormat,
    selection: Selection,
    merged: MergedChunks,
    kept: KeptChunks,
    paths: tuple[GraphPath, ...] | None = None,
) -> Context:
    """Return the context; without entities, relations and chunks an empty one."""
    references = number_sources((kept.sources.get(chunk.id, "") for chunk, _ in kept.chunks), kept.other_sources)
    numbers = {reference.source: number for number, reference in enumerate(references, start=1)}
    chunks = _retrieved_chunks(merged, kept, numbers)
    if not (selection.entities or selection.relations or chunks):
        return Context()
    _log_marks(chunks)
    named_entities = [(entity, sources_of(entity.chunk_ids, kept.sources)) for entity in selection.entities]
    named_relations = [(item, sources_of(item.relation.chunk_ids, kept.sources)) for item in selection.relations]
    return Context(
        text=form.render(_rows(plan, form, selection, chunks, merged, kept, references, paths))
        if plan.is_written
        else "",
        entities=tuple(
            RetrievedEntity(entity, sources, first_reference(sources, numbers)) for entity, sources in named_entities
        ),
        relations=tuple(
            RetrievedRelation(item.relation, item.degree, sources, first_reference(sources, numbers))
            for item, sources in named_relations
        ),
        chunks=chunks,
        references=references,
        paths=paths,
    )


def _retrieved_chunks(merged: MergedChunks, kept: KeptChunks, numbers: Mapping[str, int]) -> tuple[RetrievedChunk, ...]:
    found: list[RetrievedChunk] = []
    all_marks = merged.marks([chunk.id for chunk, _ in kept.chunks])
    for (chunk, score), marks in zip(kept.chunks, all_marks, strict=True):
        source = kept.sources.get(chunk.id, "")
        reference_id = str(numbers[source]) if source else ""
        found.append(RetrievedChunk(chunk, source, reference_id, marks, score, merged.scores.get(chunk.id, {})))
    return tuple(found)


def _for_reading(
    plan: Plan, chunks: Sequence[RetrievedChunk], bodies: Sequence[str], merged: MergedChunks
) -> tuple[Sequence[RetrievedChunk], Sequence[str]]:
    """Return chunks and bodies in the order in which they are written; only fused ones are moved."""
    if not plan.is_fused or plan.added_channels:
        return chunks, bodies
    order = evidence_order([item.chunk for item in chunks], merged.paths)
    return [chunks[place] for place in order], [bodies[place] for place in order]


def _rows(
    plan: Plan,
    form: ContextFormat,
    selection: Selection,
    chunks: Sequence[RetrievedChunk],
    merged: MergedChunks,
    kept: KeptChunks,
    references: Sequence[Reference],
    paths: tuple[GraphPath, ...] | None,
) -> ContextRows:
    chunks, bodies = _for_reading(plan, chunks, kept.bodies, merged)
    return ContextRows(
        has_graph=plan.uses_graph,
        entities=[form.entity_row(place, entity) for place, entity in enumerate(selection.entities, start=1)],
        relations=[
            form.relation_row(place, item.relation, item.degree)
            for place, item in enumerate(selection.relations, start=1)
        ],
        chunks=[
            form.chunk_row(place, item.reference_id, body)
            for place, (item, body) in enumerate(zip(chunks, bodies, strict=True), start=1)
        ],
        references=references,
        paths=[path_row(path) for path in paths or ()],
    )


def _log_marks(chunks: Sequence[RetrievedChunk]) -> None:
    """Log how each final chunk was found, like `E5/2 R2/1 C1/1`; of several marks the last, as LightRAG does."""
    if logger.isEnabledFor(logging.INFO):
        logger.info("final chunks: %s", " ".join(str(item.marks[-1]) for item in chunks))


# Which of the chunks found are kept: put into a reranker's order if there is one, then cut to number and tokens.

# Putting chunks into the order of a reranker, if there is one and it answers.
#
# Only chunks are reranked. A reranker that fails does not fail the question: the merged order stands, and a warning
# says why.


@dataclass(frozen=True, slots=True)
class RankedChunks:
    """Chunks in their new order with the reranker's score, None where it gave none; and why it failed, if it did."""

    chunks: Sequence[tuple[Chunk, float | None]]
    warning: str = ""


async def rerank_chunks(
    reranker: Reranker, settings: RerankSettings, question: str, chunks: Sequence[Chunk], top_n: int
) -> RankedChunks:
    """Return the `top_n` best chunks that score at least `settings.min_score`; a minimum of 0 keeps all."""
    try:
        async with asyncio.timeout(settings.timeout_seconds):
            hits = await reranker.rerank(question, [chunk.text for chunk in chunks], top_n)
    except (ModelError, TimeoutError) as error:
        reason = str(error) or f"no reply within {settings.timeout_seconds:g} seconds"
        warning = f"the reranker {reranker.name!r} failed, so chunks keep the order of the search: {reason}"
        return RankedChunks([(chunk, None) for chunk in chunks[:top_n]], warning)
    # Services have been seen to repeat an index, or to name one that was not sent.
    scores: dict[int, float] = {}
    for hit in hits:
        if 0 <= hit.index < len(chunks):
            scores.setdefault(hit.index, hit.score)
    if not scores:
        warning = f"the reranker {reranker.name!r} ranked nothing, so chunks keep the order of the search"
        return RankedChunks([(chunk, None) for chunk in chunks[:top_n]], warning)
    least = settings.min_score if settings.min_score > 0 else -math.inf
    return RankedChunks([(chunks[index], score) for index, score in scores.items() if score >= least][:top_n])


_Ranked = Sequence[tuple[Chunk, float | None]]


class ChunkKeeper:
    """Reads, reranks and cuts chunks.

    Args:
        records: Where they are.
        reranker: Orders them, if there is one.
        rerank_settings: Its time and its threshold.
    """

    def __init__(self, records: RecordsStore, reranker: Reranker | None, rerank_settings: RerankSettings) -> None:
        self._records = records
        self._reranker = reranker
        self._rerank_settings = rerank_settings

    async def keep(
        self,
        plan: Plan,
        form: ContextFormat,
        selection: Selection,
        merged: MergedChunks,
        room: int,
        progress: Progress,
        clock: StageClock,
    ) -> KeptChunks:
        """Return the chunks that go into the context.

        Args:
            plan: What was asked for, with its budgets.
            form: How a row is written, and so what it costs.
            selection: Entities and relations, which have spent their part.
            merged: All chunks found, best first.
            room: Tokens for entities, relations and chunks.
            progress: Told of reranking.
            clock: Times it.

        Raises:
            StoreError: The store failed.
        """
        reranker = self._reranker if plan.enable_rerank and merged.ids else None
        wanted = merged.ids if reranker else merged.ids[: plan.chunk_top_k]
        chunks, sources = await run_together(
            self._records.get_chunks(wanted), self._records.get_sources(chunks_to_name(selection, wanted))
        )
        ranked: _Ranked = [(chunk, None) for chunk in chunks[: plan.chunk_top_k]]
        warnings: list[str] = []
        if reranker:
            progress("reranking")
            with clock.measure("rerank"):
                result = await rerank_chunks(reranker, self._rerank_settings, plan.question, chunks, plan.chunk_top_k)
            ranked = _keep_leaders(result.chunks, chunks, merged.leaders)
            warnings += [result.warning] if result.warning else []
        bodies = {chunk.id: form.chunk_body(chunk) for chunk, _ in ranked}
        kept = await _fit(form, room - selection.tokens, ranked, bodies, merged)
        if not kept:
            warnings += _tell_what_did_not_fit(plan, selection, ranked)
        twins = await self._records.get_twin_sources([chunk.id for chunk, _ in kept])
        others = {sources[id_]: found for id_, found in twins.items() if id_ in sources}
        kept_bodies = [bodies[chunk.id] for chunk, _ in kept]
        order = [(chunk.id, score) for chunk, score in ranked]
        return KeptChunks(
            kept, kept_bodies, sources, len(ranked), tuple(warnings), others, order, is_reranked=reranker is not None
        )


def _tell_what_did_not_fit(plan: Plan, selection: Selection, ranked: _Ranked) -> list[str]:
    """Return the warning of a context without passages: that none of them fits, or nothing at all."""
    total = f"max_total_tokens={plan.max_total_tokens:,}"
    if ranked:
        return [
            f"no passage fits {total} beside the prompt, the question, the entities and the relations; raise it "
            "(chat.context_tokens bounds it), or lower max_entity_tokens and max_relation_tokens"
        ]
    is_cut = (selection.entities_found or selection.relations_found) and not (selection.entities or selection.relations)
    if not is_cut:
        return []
    return [
        f"no entity and no relation fits max_entity_tokens={plan.max_entity_tokens:,}, "
        f"max_relation_tokens={plan.max_relation_tokens:,} and {total} beside the prompt and the question; raise them "
        "(chat.context_tokens bounds the last)"
    ]


def _keep_leaders(ranked: _Ranked, chunks: Sequence[Chunk], leaders: Sequence[str]) -> _Ranked:
    """Return reranked chunks with the leaders among them that the reranker, which knows one question only, left out."""
    if not leaders or not ranked:
        return ranked
    scores = {chunk.id: score for chunk, score in ranked}
    known = {chunk.id: chunk for chunk in chunks}
    order = with_leaders(list(scores), [leader for leader in leaders if leader in known], len(ranked))
    return [(known[chunk_id], scores.get(chunk_id)) for chunk_id in order[: len(ranked)]]


async def _fit(
    form: ContextFormat, limit: int, ranked: _Ranked, bodies: Mapping[str, str], merged: MergedChunks
) -> _Ranked:
    """Return the first chunks that fit; those that are needed first, if the budget would cut one of them."""
    count = await _count_fitting(form, limit, ranked, bodies)
    needed = {*merged.leaders, *needed_chunks([chunk.id for chunk, _ in ranked], merged.paths)}
    if any(chunk.id in needed for chunk, _ in ranked[count:]):
        ranked = sorted(ranked, key=lambda item: item[0].id not in needed)
        count = await _count_fitting(form, limit, ranked, bodies)
    return ranked[:count]


async def _count_fitting(form: ContextFormat, limit: int, ranked: _Ranked, bodies: Mapping[str, str]) -> int:
    """Return how many chunks have at most `limit` tokens as rows."""
    # References are numbered after this cut; no number will have more digits than this one.
    widest = str(len(ranked))
    rows = [form.chunk_row(place, widest, bodies[chunk.id]) for place, (chunk, _) in enumerate(ranked, start=1)]
    bounds = [form.chunk_bound(chunk, row) for (chunk, _), row in zip(ranked, rows, strict=True)]
    return await fit_rows(rows, bounds, limit)
