"""Modes side by side for one question: how much each finds, how much of it they share, what it costs.

Likeness of two modes is the Jaccard index of what they show: shared over all, 1 where both show nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from heliograph.analysis.asking import SEARCHING_MODES, retrieve_in_modes
from heliograph.models import Usage
from heliograph.query.models import Mode, QueryParam, Retrieval
from heliograph.sync import Heliograph
from heliograph.text.tokens import count_tokens

__all__ = ["ChunkPlaces", "ComparedMode", "Comparison", "Overlap", "compare_modes", "comparison_of"]


@dataclass(frozen=True, slots=True)
class ComparedMode:
    """One mode's result in figures.

    Attributes:
        mode: The mode.
        status: `success`, or `failure` where nothing was found.
        entities: Entities shown.
        relations: Relations shown.
        chunks: Chunks shown.
        documents: Documents shown.
        context_tokens: o200k_base tokens of the text that a chat model would read.
        seconds: Wall time; the first mode asked may also pay for loading models.
        timings: Seconds of the stages.
        usage: Tokens that a chat model spent on keywords.
        only_here: Chunks that no other mode shows.
        warnings: What did not go as one would expect.
    """

    mode: Mode
    status: str
    entities: int
    relations: int
    chunks: int
    documents: int
    context_tokens: int
    seconds: float
    timings: Mapping[str, float]
    usage: Usage
    only_here: int
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Overlap:
    """How alike the results of two modes are, 0 to 1 per kind."""

    mode: Mode
    other: Mode
    entities: float
    relations: float
    chunks: float
    documents: float


@dataclass(frozen=True, slots=True)
class ChunkPlaces:
    """A chunk and its place, from 1, in each mode that shows it."""

    chunk_id: str
    source: str
    places: Mapping[Mode, int]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Modes side by side.

    Attributes:
        question: The question.
        modes: A row a mode.
        overlaps: A row a pair of modes.
        chunks: Every chunk that a mode shows; those that most modes show first, then by their best place.
    """

    question: str
    modes: tuple[ComparedMode, ...]
    overlaps: tuple[Overlap, ...]
    chunks: tuple[ChunkPlaces, ...]


def compare_modes(
    kb: Heliograph, question: str, modes: Iterable[Mode | str] = SEARCHING_MODES, param: QueryParam | None = None
) -> Comparison:
    """Ask a question in each mode and set the results side by side; raises as `retrieve_in_modes` does."""
    return comparison_of(retrieve_in_modes(kb, question, modes, param))


def comparison_of(retrievals: Sequence[Retrieval]) -> Comparison:
    """Set retrievals of one question side by side; of none there is an empty comparison."""
    chunks = _places(retrievals)
    return Comparison(
        question=retrievals[0].question if retrievals else "",
        modes=tuple(_compared(retrieval, chunks) for retrieval in retrievals),
        overlaps=tuple(_overlap(one, other) for one, other in combinations(retrievals, 2)),
        chunks=tuple(sorted(chunks, key=lambda item: (-len(item.places), min(item.places.values()), item.chunk_id))),
    )


def _compared(retrieval: Retrieval, chunks: Sequence[ChunkPlaces]) -> ComparedMode:
    context = retrieval.context
    return ComparedMode(
        mode=retrieval.mode,
        status=retrieval.status,
        entities=len(context.entities),
        relations=len(context.relations),
        chunks=len(context.chunks),
        documents=len(context.references),
        context_tokens=count_tokens(context.text),
        seconds=retrieval.timings.get("total", 0.0),
        timings=dict(retrieval.timings),
        usage=retrieval.usage,
        only_here=sum(list(item.places) == [retrieval.mode] for item in chunks),
        warnings=retrieval.warnings,
    )


def _overlap(one: Retrieval, other: Retrieval) -> Overlap:
    ids = [_shown_ids(one), _shown_ids(other)]
    entities, relations, chunks, documents = (_jaccard(*pair) for pair in zip(*ids, strict=True))
    return Overlap(one.mode, other.mode, entities, relations, chunks, documents)


def _shown_ids(retrieval: Retrieval) -> tuple[set[str], ...]:
    context = retrieval.context
    return (
        {item.entity.id for item in context.entities},
        {item.relation.id for item in context.relations},
        {item.chunk.id for item in context.chunks},
        {reference.source for reference in context.references},
    )


def _jaccard(one: set[str], other: set[str]) -> float:
    return len(one & other) / len(one | other) if one | other else 1.0


def _places(retrievals: Sequence[Retrieval]) -> list[ChunkPlaces]:
    places: dict[str, dict[Mode, int]] = {}
    sources: dict[str, str] = {}
    for retrieval in retrievals:
        for place, item in enumerate(retrieval.context.chunks, start=1):
            places.setdefault(item.chunk.id, {})[retrieval.mode] = place
            sources[item.chunk.id] = item.source
    return [ChunkPlaces(chunk_id, sources[chunk_id], found) for chunk_id, found in places.items()]
