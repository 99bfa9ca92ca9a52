"""How the tokens of a question are shared out: what is fixed, paths, entities and relations, and chunks.

The budgets of entities and relations are what they may take at the most. Where the total is too small for both, they
shrink in proportion, so that passages, which are what an answer quotes, keep a share. None counts for more than can be
had, so that a very large one leaves the other its part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from heliograph.models import GraphPath
from heliograph.query.context.format import ContextFormat
from heliograph.query.context.prompt import count_prompt_tokens
from heliograph.query.linking.paths import path_row
from heliograph.query.plan import Plan
from heliograph.text.tokens import count_tokens

# Of what is left for rows the share that entities and relations may take together.
_GRAPH_SHARE = 0.75


def room_for_rows(plan: Plan, form: ContextFormat) -> int:
    """Return the tokens that prompt, question and buffer leave for rows; below zero where they do not fit."""
    fixed = count_prompt_tokens(plan) + form.frame_tokens(has_graph=plan.uses_graph) + count_tokens(plan.question)
    return plan.max_total_tokens - plan.buffer_tokens - fixed


def fit_paths(
    form: ContextFormat, paths: tuple[GraphPath, ...] | None, room: int
) -> tuple[tuple[GraphPath, ...] | None, int]:
    """Return the first paths that fit, None where none are looked for, and the room that they leave."""
    while paths and paths_tokens(form, paths) > room:
        paths = paths[:-1]
    return paths, room - paths_tokens(form, paths or ())


def paths_tokens(form: ContextFormat, paths: Sequence[GraphPath]) -> int:
    """Return the tokens of paths, their heading included."""
    return form.paths_tokens([path_row(path) for path in paths])


def fit_budgets(plan: Plan, room: int) -> Plan:
    """Return the plan with budgets of entities and relations that leave chunks a share of the room for rows."""
    allowed = int(_GRAPH_SHARE * max(0, room))
    if plan.max_entity_tokens + plan.max_relation_tokens <= allowed:
        return plan
    entities, relations = min(plan.max_entity_tokens, allowed), min(plan.max_relation_tokens, allowed)
    wanted = max(1, entities + relations)
    return replace(
        plan, max_entity_tokens=entities * allowed // wanted, max_relation_tokens=relations * allowed // wanted
    )
