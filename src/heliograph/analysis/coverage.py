"""What a question's result covers: entities, relations, chunks and documents, per mode and over all modes.

Two shares are told. `kept` is what was left of what a mode found, after the budgets; `share` is what a mode shows of
all that any of the modes shows, which says whether another mode would have shown more.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from heliograph.analysis.asking import SEARCHING_MODES, retrieve_in_modes
from heliograph.query.models import Mode, QueryParam, Retrieval
from heliograph.sync import Heliograph

__all__ = ["Coverage", "CoverageReport", "CoveredChunk", "ModeCoverage", "coverage_of", "inspect_coverage"]


@dataclass(frozen=True, slots=True)
class CoveredChunk:
    """A chunk of a result: its id, the source of its document, and how it was found (`C1/1 E2/3`)."""

    id: str
    source: str
    found_by: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Coverage:
    """How many of one kind of thing a mode found and shows.

    Attributes:
        found: Found, before any cut.
        shown: Left in the result.
        kept: `shown / found`, 0 to 1; 1 where nothing was found.
        share: `shown` over all of the kind that any of the modes shows, 0 to 1; 1 where none shows any.
    """

    found: int
    shown: int
    kept: float
    share: float


@dataclass(frozen=True, slots=True)
class ModeCoverage:
    """What the result of one mode covers.

    Attributes:
        mode: The mode.
        status: `success`, or `failure` where nothing was found.
        message: The status in words.
        entities: Counts of entities.
        relations: Counts of relations.
        chunks: Counts of chunks.
        documents: Counts of documents; those of the chunks.
        entity_names: Entities shown, best first.
        relation_names: Pairs of entities whose relation is shown, best first.
        covered_chunks: Chunks shown, best first.
        sources: Documents shown, most quoted first.
    """

    mode: Mode
    status: str
    message: str
    entities: Coverage
    relations: Coverage
    chunks: Coverage
    documents: Coverage
    entity_names: tuple[str, ...]
    relation_names: tuple[tuple[str, str], ...]
    covered_chunks: tuple[CoveredChunk, ...]
    sources: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CoverageReport:
    """What a question covers in several modes.

    Attributes:
        question: The question.
        entities: Distinct entities that any mode shows.
        relations: Distinct relations that any mode shows.
        chunks: Distinct chunks that any mode shows.
        documents: Distinct documents that any mode shows.
        modes: One row a mode.
    """

    question: str
    entities: int
    relations: int
    chunks: int
    documents: int
    modes: tuple[ModeCoverage, ...]


def inspect_coverage(
    kb: Heliograph, question: str, modes: Iterable[Mode | str] = SEARCHING_MODES, param: QueryParam | None = None
) -> CoverageReport:
    """Ask a question in each mode and return what the results cover; raises as `retrieve_in_modes` does."""
    return coverage_of(retrieve_in_modes(kb, question, modes, param))


def coverage_of(retrievals: Sequence[Retrieval]) -> CoverageReport:
    """Return what retrievals of one question cover; of none an empty report."""
    unions = [
        len({item for retrieval in retrievals for item in kind(retrieval)})
        for kind in (_entity_ids, _relation_ids, _chunk_ids, _sources)
    ]
    entities, relations, chunks, documents = unions
    return CoverageReport(
        question=retrievals[0].question if retrievals else "",
        entities=entities,
        relations=relations,
        chunks=chunks,
        documents=documents,
        modes=tuple(_mode_coverage(retrieval, unions) for retrieval in retrievals),
    )


def _mode_coverage(retrieval: Retrieval, unions: Sequence[int]) -> ModeCoverage:
    context, info = retrieval.context, retrieval.info
    entities, relations, chunks, documents = unions
    return ModeCoverage(
        mode=retrieval.mode,
        status=retrieval.status,
        message=retrieval.message,
        entities=_counts(info.total_entities_found, len(context.entities), entities),
        relations=_counts(info.total_relations_found, len(context.relations), relations),
        chunks=_counts(info.merged_chunks_count, len(context.chunks), chunks),
        documents=_counts(len(context.references), len(context.references), documents),
        entity_names=tuple(item.entity.name for item in context.entities),
        relation_names=tuple((item.relation.source, item.relation.target) for item in context.relations),
        covered_chunks=tuple(
            CoveredChunk(item.chunk.id, item.source, tuple(str(mark) for mark in item.marks)) for item in context.chunks
        ),
        sources=tuple(_sources(retrieval)),
    )


def _counts(found: int, shown: int, union: int) -> Coverage:
    return Coverage(found, shown, shown / found if found else 1.0, shown / union if union else 1.0)


def _entity_ids(retrieval: Retrieval) -> list[str]:
    return [item.entity.id for item in retrieval.context.entities]


def _relation_ids(retrieval: Retrieval) -> list[str]:
    return [item.relation.id for item in retrieval.context.relations]


def _chunk_ids(retrieval: Retrieval) -> list[str]:
    return [item.chunk.id for item in retrieval.context.chunks]


def _sources(retrieval: Retrieval) -> list[str]:
    return [reference.source for reference in retrieval.context.references]
