"""Where the tokens of a context go, section by section, and what the budgets cut off.

Rows are cut whole, the last first. What was cut is found by asking again with larger budgets: once for entities and
relations, once for chunks, as the chunks of a result depend on the entities and relations in it. The share above which
more budget is advised, 30 %, is that of seed 000, section 3.4.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from heliograph.analysis.asking import checked_modes
from heliograph.query.context.format import ContextFormat, context_format
from heliograph.query.context.prompt import count_prompt_tokens
from heliograph.query.context.room import fit_budgets, paths_tokens
from heliograph.query.models import Keywords, Mode, QueryParam, Retrieval
from heliograph.query.plan import Plan, make_plan
from heliograph.sync import Heliograph
from heliograph.text.tokens import count_tokens

__all__ = ["Section", "TokenReport", "inspect_tokens"]

_LARGER = 8
_MOST_NAMED = 20
_ADVISED_FROM = 0.3


@dataclass(frozen=True, slots=True)
class Section:
    """One kind of rows in a context.

    Attributes:
        name: `entities`, `relations` or `chunks`.
        found: Found before any cut.
        shown: Left.
        cut_by_count: Chunks cut by `chunk_top_k`; 0 for the others.
        cut_by_budget: Cut by tokens (chunks: or by a reranker's threshold).
        cut_share: `cut_by_budget` over what there was to fit, 0 to 1.
        tokens: o200k_base tokens of the rows shown.
        budget: Tokens they may have: the setting, and for chunks what all else leaves of `max_total_tokens`.
        first_cut: The first of those that were cut by the budget, best first, at most 20: names, `A - B` for a
            relation, sources for chunks. May be shorter than `cut_by_budget`.
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
    """Where tokens go.

    Attributes:
        question: The question.
        mode: The mode.
        prompt_tokens: The system prompt without its context.
        question_tokens: The question.
        frame_tokens: Headings, fences and paths of the context.
        buffer_tokens: Held back, as the settings say.
        max_total_tokens: Budget of all of it.
        total_tokens: What it comes to, the buffer left out and references left out.
        sections: Entities, relations and chunks; chunks only in a mode that uses no graph.
        advice: What to change, in words; empty where nothing much was cut.
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
    """Return where the tokens of a question's context go and what was cut.

    Args:
        kb: The workspace, open.
        question: The question; it is asked up to three times.
        param: How it is asked; None means mode `mix` and the budgets of the settings.

    Raises:
        InvalidRequestError: The question or a parameter cannot be served.
        ModelError: A model failed.
        StoreError: The store failed.
    """
    given = param or QueryParam()
    checked_modes([given.mode])
    asked = make_plan(question, given, kb.settings.query)
    form = context_format(asked.context_format)
    found = kb.retrieve(question, given)
    given = _with_keywords(given, found.keywords)
    fixed = _Fixed(
        count_prompt_tokens(asked),
        count_tokens(asked.question),
        form.frame_tokens(has_graph=asked.uses_graph) + paths_tokens(form, found.context.paths or ()),
    )
    readable = replace(asked, max_total_tokens=found.max_total_tokens)
    plan = fit_budgets(readable, found.max_total_tokens - asked.buffer_tokens - fixed.total)
    graph = _graph_sections(kb, question, _with_larger_budgets(given, asked), plan, form, found)
    left = plan.max_total_tokens - fixed.total - plan.buffer_tokens - sum(section.tokens for section in graph)
    sections = (
        *graph,
        _chunk_section(kb, question, _with_more_room(given, asked, plan), plan, form, found, max(0, left)),
    )
    total = "max_total_tokens" if plan.max_total_tokens == asked.max_total_tokens else "chat.context_tokens"
    return TokenReport(
        question=found.question,
        mode=found.mode,
        prompt_tokens=fixed.prompt,
        question_tokens=fixed.question,
        frame_tokens=fixed.frame,
        buffer_tokens=plan.buffer_tokens,
        max_total_tokens=plan.max_total_tokens,
        total_tokens=fixed.total + sum(section.tokens for section in sections),
        sections=sections,
        advice=tuple(
            _advice(section, total, is_shrunk=plan is not readable)
            for section in sections
            if section.cut_share > _ADVISED_FROM
        ),
    )


@dataclass(frozen=True, slots=True)
class _Fixed:
    """Tokens that no budget changes."""

    prompt: int
    question: int
    frame: int

    @property
    def total(self) -> int:
        return self.prompt + self.question + self.frame


def _with_keywords(param: QueryParam, keywords: Keywords) -> QueryParam:
    """Return the parameters with keywords that are known, so that asking again searches for the very same."""
    return replace(param, hl_keywords=keywords.high_level, ll_keywords=keywords.low_level)


def _with_larger_budgets(param: QueryParam, asked: Plan) -> QueryParam:
    """Return the parameters with room for entities and relations that the budgets cut."""
    return replace(
        param,
        max_entity_tokens=_LARGER * asked.max_entity_tokens,
        max_relation_tokens=_LARGER * asked.max_relation_tokens,
        max_total_tokens=_larger_total(asked),
    )


def _with_more_room(param: QueryParam, asked: Plan, plan: Plan) -> QueryParam:
    """Return the parameters with room for chunks beside the very same entities and relations."""
    return replace(
        param,
        max_entity_tokens=max(1, plan.max_entity_tokens),
        max_relation_tokens=max(1, plan.max_relation_tokens),
        max_total_tokens=_larger_total(asked),
    )


def _larger_total(asked: Plan) -> int:
    return _LARGER * (asked.max_total_tokens + asked.max_entity_tokens + asked.max_relation_tokens)


def _graph_sections(
    kb: Heliograph, question: str, more: QueryParam, plan: Plan, form: ContextFormat, found: Retrieval
) -> list[Section]:
    if not plan.uses_graph:
        return []
    context, info = found.context, found.info
    cut = (
        info.total_entities_found - info.entities_after_truncation,
        info.total_relations_found - info.relations_after_truncation,
    )
    larger = kb.retrieve(question, more, is_bounded=False) if any(cut) else found
    entity_rows = [form.entity_row(place, item.entity) for place, item in enumerate(context.entities, start=1)]
    relation_rows = [
        form.relation_row(place, item.relation, item.degree) for place, item in enumerate(context.relations, start=1)
    ]
    return [
        _section(
            "entities",
            found=info.total_entities_found,
            shown=len(context.entities),
            cut=cut[0],
            rows=entity_rows,
            budget=plan.max_entity_tokens,
            named=_beyond(found, larger, _entities),
        ),
        _section(
            "relations",
            found=info.total_relations_found,
            shown=len(context.relations),
            cut=cut[1],
            rows=relation_rows,
            budget=plan.max_relation_tokens,
            named=_beyond(found, larger, _relations),
        ),
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
    fitting = min(merged, plan.chunk_top_k)
    cut = fitting - len(context.chunks)
    larger = kb.retrieve(question, more, is_bounded=False) if cut else found
    rows = [
        form.chunk_row(place, item.reference_id, form.chunk_body(item.chunk))
        for place, item in enumerate(context.chunks, start=1)
    ]
    section = _section(
        "chunks",
        found=merged,
        shown=len(context.chunks),
        cut=cut,
        rows=rows,
        budget=budget,
        named=_beyond(found, larger, _chunks),
    )
    return replace(section, cut_by_count=merged - fitting, cut_share=cut / fitting if fitting else 0.0)


def _section(
    name: str, *, found: int, shown: int, cut: int, rows: Sequence[str], budget: int, named: tuple[str, ...]
) -> Section:
    return Section(
        name=name,
        found=found,
        shown=shown,
        cut_by_count=0,
        cut_by_budget=cut,
        cut_share=cut / found if found else 0.0,
        tokens=count_tokens("\n".join(rows)),
        budget=budget,
        first_cut=named,
    )


def _beyond(
    found: Retrieval, larger: Retrieval, rows: Callable[[Retrieval], Sequence[tuple[str, str]]]
) -> tuple[str, ...]:
    """Return the names of what only the larger result shows."""
    known = {item for item, _ in rows(found)}
    return tuple(name for item, name in rows(larger) if item not in known)[:_MOST_NAMED]


def _entities(retrieval: Retrieval) -> Sequence[tuple[str, str]]:
    return [(item.entity.id, item.entity.name) for item in retrieval.context.entities]


def _relations(retrieval: Retrieval) -> Sequence[tuple[str, str]]:
    return [
        (item.relation.id, f"{item.relation.source} - {item.relation.target}") for item in retrieval.context.relations
    ]


def _chunks(retrieval: Retrieval) -> Sequence[tuple[str, str]]:
    return [(item.chunk.id, item.source) for item in retrieval.context.chunks]


def _advice(section: Section, total: str, *, is_shrunk: bool) -> str:
    """Say what to raise: the total if the budgets do not fit into it, as a larger one takes from the others there."""
    setting = {
        "entities": "max_entity_tokens",
        "relations": "max_relation_tokens",
        "chunks": f"{total}, or lower max_entity_tokens and max_relation_tokens",
    }[section.name]
    setting = total if is_shrunk else setting
    return f"{section.cut_share:.0%} of the {section.name} did not fit; raise {setting}"
