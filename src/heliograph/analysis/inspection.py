"""Look into one question: coverage, what each keyword finds alone, where tokens go, and how modes differ.

`inspect_coverage` counts entities, relations, chunks and documents per mode and over all modes. `inspect_keywords`
searches each keyword alone, to reveal those that find nothing. `inspect_tokens` returns the cost of each section of the
context and what the budgets cut off, by repeating the query with larger budgets. Reports are frozen; nothing is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Literal

from heliograph.errors import InvalidRequestError
from heliograph.models import Mode, Usage
from heliograph.query.context.format import (
    ContextFormat,
    context_format,
    count_prompt_tokens,
    fit_budgets,
    paths_tokens,
)
from heliograph.query.models import Context, Keywords, QueryParam, Retrieval
from heliograph.query.plan import Plan, make_plan
from heliograph.sync import Heliograph
from heliograph.text.tokens import count_tokens

# One question asked in several modes with the same parameters, side by side: how much each finds, how much they share,
# and the cost. The similarity of two modes is the Jaccard index of what they show: shared over all, 1 if both show
# nothing.

SEARCHING_MODES = tuple(mode for mode in Mode if mode is not Mode.BYPASS)


def checked_modes(modes: Iterable[Mode | str]) -> tuple[Mode, ...]:
    """Return the modes, each once, in order.

    Raises:
        InvalidRequestError: There is none, one is unknown, or one is `bypass`, which searches nothing.
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
    """Return the results of each mode for a question, in order; the mode of `param` does not count.

    Raises:
        InvalidRequestError: A mode, the question or a parameter is invalid.
        ModelError: A model failed.
        StoreError: The store failed.
    """
    given = param or QueryParam()
    return [kb.retrieve(question, replace(given, mode=mode)) for mode in checked_modes(modes)]


@dataclass(frozen=True, slots=True)
class ComparedMode:
    """One mode's result in figures; tokens are o200k_base, and the first mode's time may include loading models."""

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
class ModeOverlap:
    """The similarity of two modes' results, 0 to 1 per kind."""

    mode: Mode
    other: Mode
    entities: float
    relations: float
    chunks: float
    documents: float


@dataclass(frozen=True, slots=True)
class ChunkPlaces:
    """A chunk and its rank, from 1, in each mode that shows it."""

    chunk_id: str
    source: str
    places: Mapping[Mode, int]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Modes side by side, and the chunks that any shows: those that most modes show first, then by best place."""

    question: str
    modes: tuple[ComparedMode, ...]
    overlaps: tuple[ModeOverlap, ...]
    chunks: tuple[ChunkPlaces, ...]


def compare_modes(
    kb: Heliograph, question: str, modes: Iterable[Mode | str] = SEARCHING_MODES, param: QueryParam | None = None
) -> Comparison:
    """Ask a question in each mode and compare the results; raises as `retrieve_in_modes` does."""
    return comparison_of(retrieve_in_modes(kb, question, modes, param))


def comparison_of(retrievals: Sequence[Retrieval]) -> Comparison:
    """Compare retrievals of one question; none give an empty comparison."""
    places: dict[str, dict[Mode, int]] = {}
    sources: dict[str, str] = {}
    for retrieval in retrievals:
        for place, item in enumerate(retrieval.context.chunks, start=1):
            places.setdefault(item.chunk.id, {})[retrieval.mode] = place
            sources[item.chunk.id] = item.source
    chunks = [ChunkPlaces(chunk_id, sources[chunk_id], found) for chunk_id, found in places.items()]
    return Comparison(
        question=retrievals[0].question if retrievals else "",
        modes=tuple(
            ComparedMode(
                *(retrieval.mode, retrieval.status, *shown_counts(retrieval)),
                context_tokens=count_tokens(retrieval.context.text),
                seconds=retrieval.timings.get("total", 0.0),
                timings=dict(retrieval.timings),
                usage=retrieval.usage,
                only_here=sum(list(item.places) == [retrieval.mode] for item in chunks),
                warnings=retrieval.warnings,
            )
            for retrieval in retrievals
        ),
        overlaps=tuple(_overlap(one, other) for one, other in combinations(retrievals, 2)),
        chunks=tuple(sorted(chunks, key=lambda item: (-len(item.places), min(item.places.values()), item.chunk_id))),
    )


def _overlap(one: Retrieval, other: Retrieval) -> ModeOverlap:
    # Jaccard index; two empty sets are equal.
    entities, relations, chunks, documents = (
        len(first & second) / len(first | second) if first | second else 1.0
        for first, second in zip(_shown_ids(one), _shown_ids(other), strict=True)
    )
    return ModeOverlap(one.mode, other.mode, entities, relations, chunks, documents)


def shown_counts(retrieval: Retrieval) -> tuple[int, int, int, int]:
    """Return how many entities, relations, chunks and documents are shown."""
    context = retrieval.context
    return len(context.entities), len(context.relations), len(context.chunks), len(context.references)


def _shown_ids(retrieval: Retrieval) -> tuple[set[str], ...]:
    """Return the ids of entities, relations and chunks that are shown, and the sources of documents."""
    context = retrieval.context
    return (
        {item.entity.id for item in context.entities},
        {item.relation.id for item in context.relations},
        {item.chunk.id for item in context.chunks},
        {reference.source for reference in context.references},
    )


# What a question's result covers: entities, relations, chunks and documents, per mode and over all modes.
#
# Two shares are reported. `kept` is the share of a mode's findings that the budgets left; `share` is a mode's share of
# all that any of the modes shows, which says whether another mode would have shown more.


@dataclass(frozen=True, slots=True)
class CoveredChunk:
    """A chunk of a result: its id, the source of its document, and how it was found (`C1/1 E2/3`)."""

    id: str
    source: str
    found_by: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Coverage:
    """How many items of one kind a mode found and shows.

    `kept` is `shown / found`, `share` is `shown` over all that any mode shows; 1 if there are none.
    """

    found: int
    shown: int
    kept: float
    share: float


@dataclass(frozen=True, slots=True)
class ModeCoverage:
    """What the result of one mode covers; names and sources are those shown, best or most quoted first."""

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
    """What a question covers in several modes; counts are of distinct things that any mode shows."""

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
    """Return the coverage of retrievals of one question; none give an empty report."""
    shown = [_shown_ids(retrieval) for retrieval in retrievals]
    unions = [len(set[str]().union(*kind)) for kind in zip(*shown, strict=True)] or [0, 0, 0, 0]
    modes = tuple(_mode_coverage(retrieval, unions) for retrieval in retrievals)
    return CoverageReport(retrievals[0].question if retrievals else "", *unions, modes=modes)


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
        sources=tuple(reference.source for reference in context.references),
    )


def _counts(found: int, shown: int, union: int) -> Coverage:
    return Coverage(found, shown, shown / found if found else 1.0, shown / union if union else 1.0)


# Keywords of a question and what each of them finds on its own.
#
# Modes search with all keywords of a level together; here each is searched alone, a low-level one among the entities
# (mode `local`) and a high-level one among the relations (mode `global`), to reveal one that finds nothing, or other
# things. A list counts as long from about twice as many keywords as a question needs.

_MANY_HIGH_LEVEL = 5
_MANY_LOW_LEVEL = 10

Level = Literal["high_level", "low_level"]


@dataclass(frozen=True, slots=True)
class KeywordFinding:
    """The findings of one keyword alone.

    `in_result` is the share, 0 to 1, of its entities (low) or relations (high) that the whole question shows too.
    """

    keyword: str
    level: Level
    entities: tuple[str, ...]
    relations: tuple[tuple[str, str], ...]
    chunks: int
    in_result: float


@dataclass(frozen=True, slots=True)
class KeywordReport:
    """The keywords of a question, with warnings; `in_result` refers to the result in `mode`."""

    question: str
    mode: Mode
    keywords: Keywords
    findings: tuple[KeywordFinding, ...]
    warnings: tuple[str, ...]


def inspect_keywords(kb: Heliograph, question: str, param: QueryParam | None = None) -> KeywordReport:
    """Return the keywords of a question and what each finds, by default in mode `hybrid`; some modes have none.

    Raises as `retrieve_in_modes` does.
    """
    given = param or QueryParam(mode=Mode.HYBRID)
    checked_modes([given.mode])
    whole = kb.retrieve(question, given)
    findings = (
        *(_find(kb, question, given, whole, "high_level", keyword) for keyword in whole.keywords.high_level),
        *(_find(kb, question, given, whole, "low_level", keyword) for keyword in whole.keywords.low_level),
    )
    high, low = whole.keywords.high_level, whole.keywords.low_level
    said: list[str] = []
    if not (high or low):
        said.append("there are no keywords: entities and relations are not searched; give some, or use mode naive")
    if len(high) > _MANY_HIGH_LEVEL:
        said.append(f"{len(high)} high-level keywords are many: the result may wander off")
    if len(low) > _MANY_LOW_LEVEL:
        said.append(f"{len(low)} low-level keywords are many: they may fill the token budgets")
    said += [f"keyword {item.keyword!r} finds nothing" for item in findings if not (item.entities or item.relations)]
    return KeywordReport(whole.question, whole.mode, whole.keywords, findings, (*said, *whole.warnings))


def _find(
    kb: Heliograph, question: str, param: QueryParam, whole: Retrieval, level: Level, keyword: str
) -> KeywordFinding:
    is_low = level == "low_level"
    alone = kb.retrieve(
        question,
        replace(
            param,
            mode=Mode.LOCAL if is_low else Mode.GLOBAL,
            channels=(),
            ll_keywords=(keyword,) if is_low else (),
            hl_keywords=() if is_low else (keyword,),
            enable_rerank=False,
        ),
    )
    kind = 0 if is_low else 1
    ids, known = _shown_ids(alone)[kind], _shown_ids(whole)[kind]
    return KeywordFinding(
        keyword=keyword,
        level=level,
        entities=tuple(item.entity.name for item in alone.context.entities),
        relations=tuple((item.relation.source, item.relation.target) for item in alone.context.relations),
        chunks=len(alone.context.chunks),
        in_result=len(ids & known) / len(ids) if ids else 0.0,
    )


# The tokens of a context by section, and what the budgets cut off.
#
# Rows are cut whole, the last first. The cut rows are found by repeating the query with larger budgets: once for
# entities and relations, once for chunks, as the chunks of a result depend on the entities and relations in it. More
# budget is advised if more than 30 % is cut: below that, it is mostly the tail of the ranking.

_LARGER = 8
_MOST_NAMED = 20
_ADVISED_FROM = 0.3


@dataclass(frozen=True, slots=True)
class Section:
    """One kind of rows in a context.

    Attributes:
        found: How many were found before any cut.
        cut_by_budget: How many were cut by tokens (chunks: or by a reranker's threshold).
        cut_share: `cut_by_budget` over the number before the cut, 0 to 1.
        tokens: o200k_base tokens of the rows shown.
        budget: Their token budget: the setting, and for chunks the remainder of `max_total_tokens`.
        first_cut: The first rows that the budget cut, best first, at most 20: names, `A - B` for a relation, sources
            for chunks. May be shorter than `cut_by_budget`.
    """

    name: str
    found: int
    shown: int
    cut_by_count: int
    cut_by_budget: int
    cut_share: float
    tokens: int
    budget: int
    first_cut: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TokenReport:
    """Tokens by part of the prompt.

    Attributes:
        prompt_tokens: The system prompt without its context.
        frame_tokens: Headings, fences and paths of the context.
        total_tokens: The total, without the buffer and without references.
        advice: What to change, in words; empty if little was cut.
    """

    question: str
    mode: Mode
    prompt_tokens: int
    question_tokens: int
    frame_tokens: int
    buffer_tokens: int
    max_total_tokens: int
    total_tokens: int
    sections: tuple[Section, ...]
    advice: tuple[str, ...]


def inspect_tokens(kb: Heliograph, question: str, param: QueryParam | None = None) -> TokenReport:
    """Return the tokens of each part of a question's context, and the items cut; takes up to three searches.

    Raises as `retrieve_in_modes` does.
    """
    given = param or QueryParam()
    checked_modes([given.mode])
    asked = make_plan(question, given, kb.settings.query)
    wanted = asked.settings
    form = context_format(wanted.context_format)
    found = kb.retrieve(question, given)
    prompt_tokens, question_tokens = count_prompt_tokens(asked), count_tokens(asked.question)
    frame_tokens = form.frame_tokens(has_graph=asked.uses_graph) + paths_tokens(form, found.context.paths or ())
    # Independent of the budgets.
    fixed_tokens = prompt_tokens + question_tokens + frame_tokens
    readable = asked.with_settings(max_total_tokens=found.max_total_tokens)
    plan = fit_budgets(readable, found.max_total_tokens - wanted.buffer_tokens - fixed_tokens)
    budgets = plan.settings
    # Repeated with the same keywords, for the same search: first with room for the entities and relations that the
    # budgets cut, then with room for chunks beside the entities and relations that are shown.
    again = replace(
        given,
        hl_keywords=found.keywords.high_level,
        ll_keywords=found.keywords.low_level,
        max_total_tokens=_LARGER * (wanted.max_total_tokens + wanted.max_entity_tokens + wanted.max_relation_tokens),
    )
    more_graph = replace(
        again,
        max_entity_tokens=_LARGER * wanted.max_entity_tokens,
        max_relation_tokens=_LARGER * wanted.max_relation_tokens,
    )
    more_chunks = replace(
        again,
        max_entity_tokens=max(1, budgets.max_entity_tokens),
        max_relation_tokens=max(1, budgets.max_relation_tokens),
    )
    graph = _graph_sections(kb, question, more_graph, plan, form, found)
    left = budgets.max_total_tokens - fixed_tokens - budgets.buffer_tokens - sum(section.tokens for section in graph)
    sections = (*graph, _chunk_section(kb, question, more_chunks, plan, form, found, max(0, left)))
    # Advise raising the total if the budgets do not fit into it, because a larger one would take from the others there.
    total = "max_total_tokens" if budgets.max_total_tokens == wanted.max_total_tokens else "chat.context_tokens"
    raised = {
        "entities": "max_entity_tokens",
        "relations": "max_relation_tokens",
        "chunks": f"{total}, or lower max_entity_tokens and max_relation_tokens",
    }
    return TokenReport(
        question=found.question,
        mode=found.mode,
        prompt_tokens=prompt_tokens,
        question_tokens=question_tokens,
        frame_tokens=frame_tokens,
        buffer_tokens=budgets.buffer_tokens,
        max_total_tokens=budgets.max_total_tokens,
        total_tokens=fixed_tokens + sum(section.tokens for section in sections),
        sections=sections,
        advice=tuple(
            f"{section.cut_share:.0%} of the {section.name} did not fit; "
            f"raise {raised[section.name] if plan is readable else total}"
            for section in sections
            if section.cut_share > _ADVISED_FROM
        ),
    )


def _graph_sections(
    kb: Heliograph, question: str, more: QueryParam, plan: Plan, form: ContextFormat, found: Retrieval
) -> list[Section]:
    if not plan.uses_graph:
        return []
    entities, relations, info = found.context.entities, found.context.relations, found.info
    # Per kind: how many were found, how many are left, the rows shown and their budget.
    kinds = {
        "entities": (
            (info.total_entities_found, info.entities_after_truncation),
            [form.entity_row(place, item.entity) for place, item in enumerate(entities, start=1)],
            plan.settings.max_entity_tokens,
        ),
        "relations": (
            (info.total_relations_found, info.relations_after_truncation),
            [form.relation_row(place, item.relation, item.degree) for place, item in enumerate(relations, start=1)],
            plan.settings.max_relation_tokens,
        ),
    }
    is_cut = any(before != left for (before, left), _, _ in kinds.values())
    results = found, kb.retrieve(question, more, is_bounded=False) if is_cut else found
    return [
        _section(name, results, found=before, cut=before - left, rows=rows, budget=budget)
        for name, ((before, left), rows, budget) in kinds.items()
    ]


def _chunk_section(
    kb: Heliograph,
    question: str,
    more: QueryParam,
    plan: Plan,
    form: ContextFormat,
    found: Retrieval,
    budget: int,
) -> Section:
    context, merged = found.context, found.info.merged_chunks_count
    fitting = min(merged, plan.settings.chunk_top_k)
    cut = fitting - len(context.chunks)
    larger = kb.retrieve(question, more, is_bounded=False) if cut else found
    rows = [
        form.chunk_row(place, item.reference_id, form.chunk_body(item.chunk))
        for place, item in enumerate(context.chunks, start=1)
    ]
    section = _section("chunks", (found, larger), found=merged, cut=cut, rows=rows, budget=budget)
    return replace(section, cut_by_count=merged - fitting, cut_share=cut / fitting if fitting else 0.0)


# The shown items, by id, under names that people know.
_NAMES: Mapping[str, Callable[[Context], Sequence[tuple[str, str]]]] = {
    "entities": lambda context: [(item.entity.id, item.entity.name) for item in context.entities],
    "relations": lambda context: [
        (item.relation.id, f"{item.relation.source} - {item.relation.target}") for item in context.relations
    ],
    "chunks": lambda context: [(item.chunk.id, item.source) for item in context.chunks],
}


def _section(
    name: str, results: tuple[Retrieval, Retrieval], *, found: int, cut: int, rows: Sequence[str], budget: int
) -> Section:
    """Return a section; `results` are the result, and the result with a larger budget."""
    shown, larger = (_NAMES[name](result.context) for result in results)
    known = {id_ for id_, _ in shown}
    named = tuple(label for id_, label in larger if id_ not in known)[:_MOST_NAMED]
    return Section(
        name=name,
        found=found,
        shown=len(shown),
        cut_by_count=0,
        cut_by_budget=cut,
        cut_share=cut / found if found else 0.0,
        tokens=count_tokens("\n".join(rows)),
        budget=budget,
        first_cut=named,
    )
