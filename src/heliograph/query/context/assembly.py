"""Joining what was kept into a `Context`: numbered references, marked chunks, and the text.

References are numbered after the last cut, so that every number stands for a document that is really quoted.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from heliograph.models import Chunk, GraphPath
from heliograph.query.context.format import (
    MAX_SOURCES,
    ContextFormat,
    ContextRows,
    first_reference,
    number_sources,
    sources_of,
)
from heliograph.query.context.selection import Selection, evidence_order
from heliograph.query.linking import path_row
from heliograph.query.merging import MergedChunks
from heliograph.query.plan import Plan
from heliograph.query.retrieved import Context, Reference, RetrievedChunk, RetrievedEntity, RetrievedRelation

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
    """

    chunks: Sequence[tuple[Chunk, float | None]]
    bodies: Sequence[str]
    sources: Mapping[str, str]
    ranked_count: int = 0
    warnings: tuple[str, ...] = ()
    other_sources: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])


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
