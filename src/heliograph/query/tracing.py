"""What became of everything that was found for a question: kept, or dropped and why; for who asks to have it explained.

Made only on request, since it reads chunks and relations that the question itself has no use for.
"""

from __future__ import annotations

from collections.abc import Sequence

from heliograph.calls.tasks import run_together
from heliograph.models import Chunk
from heliograph.query.context.assembly import KeptChunks
from heliograph.query.context.format import (
    ContextFormat,
    count_prompt_tokens,
    paths_tokens,
    show_prompt,
    system_prompt,
)
from heliograph.query.context.selection import Selection
from heliograph.query.merging import MergedChunks
from heliograph.query.plan import Plan
from heliograph.query.retrieved import Context, Trace, TracedChunk, TracedItem
from heliograph.stores.base import StoreView
from heliograph.text.tokens import count_tokens

# Of what was dropped, the best; the rest is counted only.
_MOST_CHUNKS = 100
_MOST_ITEMS = 40
_OPENING = 240


async def trace_retrieval(
    store: StoreView,
    plan: Plan,
    form: ContextFormat,
    selection: Selection,
    merged: MergedChunks,
    kept: KeptChunks,
    context: Context,
) -> Trace:
    """Return what became of chunks, entities and relations, and where the tokens went.

    Args:
        store: Where chunks that were dropped are read.
        plan: What was asked for.
        form: How rows are written, and so what they cost.
        selection: Entities and relations that fitted, and those that did not.
        merged: All chunks found, best first.
        kept: Chunks that fitted.
        context: What all of it became.

    Raises:
        StoreError: The store failed.
    """
    shown = [item.chunk.id for item in context.chunks]
    kept_ids = frozenset(shown)
    dropped = [id_ for id_ in merged.ids if id_ not in kept_ids][: max(0, _MOST_CHUNKS - len(shown))]
    wanted = [*shown, *dropped]
    cut = selection.relations_cut[:_MOST_ITEMS]
    chunks, sources = await run_together(store.records.get_chunks(wanted), store.records.get_sources(wanted))
    relations = await store.graph.name_ends(
        await store.graph.get_relations(cut), (*selection.entities, *selection.entities_cut)
    )
    entity_rows = [form.entity_row(place, item) for place, item in enumerate(selection.entities, start=1)]
    relation_rows = [
        form.relation_row(place, item.relation, item.degree) for place, item in enumerate(selection.relations, start=1)
    ]
    return Trace(
        chunks=_chunks(plan, form, merged, kept, {chunk.id: chunk for chunk in chunks}, sources, wanted),
        entities=(
            *(TracedItem(item.name, is_kept=True) for item in selection.entities),
            *(TracedItem(item.name, is_kept=False) for item in selection.entities_cut[:_MOST_ITEMS]),
        ),
        relations=(
            *(
                TracedItem(f"{item.relation.source} – {item.relation.target}", is_kept=True)
                for item in selection.relations
            ),
            *(TracedItem(f"{item.source} – {item.target}", is_kept=False) for item in relations),
        ),
        tokens={
            "prompt": count_prompt_tokens(plan),
            "question": count_tokens(plan.question),
            "frame": form.frame_tokens(has_graph=plan.uses_graph) + paths_tokens(form, context.paths or ()),
            "entities": _count(entity_rows),
            "relations": _count(relation_rows),
            "chunks": sum(
                count_tokens(form.chunk_row(place, item.reference_id, form.chunk_body(item.chunk)))
                for place, item in enumerate(context.chunks, start=1)
            ),
            "total": plan.max_total_tokens,
        },
        prompt=show_prompt(plan, system_prompt(plan, context.text)) if plan.is_written else "",
    )


def _chunks(
    plan: Plan,
    form: ContextFormat,
    merged: MergedChunks,
    kept: KeptChunks,
    known: dict[str, Chunk],
    sources: dict[str, str],
    ids: Sequence[str],
) -> tuple[TracedChunk, ...]:
    places = {id_: place for place, id_ in enumerate(merged.ids, start=1)}
    scores = dict(kept.ranked)
    final = {chunk.id for chunk, _ in kept.chunks}
    marks = dict(zip(ids, merged.marks(ids), strict=True))
    order = sorted((id_ for id_ in ids if id_ in known), key=lambda id_: places.get(id_, len(places)))
    return tuple(
        TracedChunk(
            chunk_id=id_,
            document_id=known[id_].document_id,
            source=sources.get(id_, ""),
            page=known[id_].page,
            headings=known[id_].headings,
            start=known[id_].start,
            opening=known[id_].text[:_OPENING],
            tokens=count_tokens(form.chunk_body(known[id_])),
            place=places.get(id_, 0),
            marks=tuple(str(mark) for mark in marks[id_]),
            scores=merged.scores.get(id_, {}),
            rerank_score=scores.get(id_),
            path=merged.paths.get(id_, ()),
            outcome=_outcome(plan, kept, id_, places.get(id_, 0), is_kept=id_ in final),
        )
        for id_ in order
    )


def _outcome(plan: Plan, kept: KeptChunks, id_: str, place: int, *, is_kept: bool) -> str:
    """Return why a chunk is not in the context; `kept` if it is."""
    if is_kept:
        return "kept"
    if any(id_ == ranked for ranked, _ in kept.ranked):
        return "budget"
    # A reranker has seen all chunks; without one only the first few went on.
    return "count" if not kept.is_reranked or place > plan.chunk_top_k else "rerank"


def _count(rows: Sequence[str]) -> int:
    return count_tokens("\n".join(rows))
