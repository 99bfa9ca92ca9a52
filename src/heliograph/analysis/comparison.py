"""One question asked in several modes, side by side: how much each finds, how much they share, what it costs.

`retrieve_in_modes` asks an open `Heliograph` with the same parameters in each mode. The likeness of two modes is the
Jaccard index of what they show: shared over all, 1 where both show nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from heliograph.errors import InvalidRequestError
from heliograph.models import Usage
from heliograph.query.models import Mode, QueryParam, Retrieval
from heliograph.sync import Heliograph
from heliograph.text.tokens import count_tokens

# How analyses ask: one question in several modes, with the same parameters, and what a list of modes may hold.

SEARCHING_MODES = tuple(mode for mode in Mode if mode is not Mode.BYPASS)


def checked_modes(modes: Iterable[Mode | str]) -> tuple[Mode, ...]:
    """Return the modes, each once, in their order.

    Raises:
        InvalidRequestError: There is none, one is not known, or one is `bypass`, which searches nothing.
    """
    known = {mode.value: mode for mode in SEARCHING_MODES}
    names = [str(mode) for mode in modes]
    for name in names:
        if name not in known:
            raise InvalidRequestError(f"mode {name!r} searches nothing or is not known; use one of {', '.join(known)}")
    if not names:
        raise InvalidRequestError(f"no mode is given; use one or more of {', '.join(known)}")
    return tuple(dict.fromkeys(known[name] for name in names))


def retrieve_in_modes(
    kb: Heliograph, question: str, modes: Iterable[Mode | str] = SEARCHING_MODES, param: QueryParam | None = None
) -> Sequence[Retrieval]:
    """Return what each mode finds for a question, in the order of the modes.

    Args:
        kb: The workspace, open.
        question: The question.
        modes: The modes; each is asked once.
        param: What else the question asks for; its own mode is not looked at.

    Raises:
        InvalidRequestError: A mode, the question or a parameter cannot be served.
        ModelError: A model failed.
        StoreError: The store failed.
    """
    given = param or QueryParam()
    return [kb.retrieve(question, replace(given, mode=mode)) for mode in checked_modes(modes)]


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
    # Jaccard's measure; nothing and nothing are the same.
    entities, relations, chunks, documents = (
        len(first & second) / len(first | second) if first | second else 1.0 for first, second in zip(*ids, strict=True)
    )
    return Overlap(one.mode, other.mode, entities, relations, chunks, documents)


def _shown_ids(retrieval: Retrieval) -> tuple[set[str], ...]:
    context = retrieval.context
    return (
        {item.entity.id for item in context.entities},
        {item.relation.id for item in context.relations},
        {item.chunk.id for item in context.chunks},
        {reference.source for reference in context.references},
    )


def _places(retrievals: Sequence[Retrieval]) -> list[ChunkPlaces]:
    places: dict[str, dict[Mode, int]] = {}
    sources: dict[str, str] = {}
    for retrieval in retrievals:
        for place, item in enumerate(retrieval.context.chunks, start=1):
            places.setdefault(item.chunk.id, {})[retrieval.mode] = place
            sources[item.chunk.id] = item.source
    return [ChunkPlaces(chunk_id, sources[chunk_id], found) for chunk_id, found in places.items()]
