"""The system prompt of an answer, and how the tokens of a question are shared out between it and what is found."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from string import Formatter, Template

from heliograph.models import GraphPath
from heliograph.prompts import load_prompt
from heliograph.query.context.format import ContextFormat
from heliograph.query.linking import path_row
from heliograph.query.plan import Channel, Plan
from heliograph.text.tokens import count_tokens

_NO_INSTRUCTIONS = "None."
# LightRAG's prompt for mode naive says `content_data`.
_CONTEXT_NAMES = ("context_data", "content_data")
_NAMES = (*_CONTEXT_NAMES, "history", "response_type", "user_prompt")
_NAME = "|".join(_NAMES)
_DOLLAR_MARK = re.compile(rf"\$\{{?(?:{_NAME})\b")
_MARK = re.compile(rf"\$?\{{({_NAME})\}}|\$({_NAME})\b")


def builtin_prompt(plan: Plan) -> str:
    """Return the template that a mode uses when the caller brings none."""
    return load_prompt("answer_naive" if plan.channels == (Channel.VECTOR,) else "answer")


def system_prompt(plan: Plan, context: str) -> str:
    """Return the system prompt of a question; one without a place for the context gets it at its end."""
    values = dict.fromkeys(_CONTEXT_NAMES, context)
    values |= {
        "history": "\n".join(f"{message.role}: {message.content}" for message in plan.history),
        "response_type": plan.response_type,
        "user_prompt": plan.user_prompt or _NO_INSTRUCTIONS,
    }
    if not plan.system_prompt:
        return Template(builtin_prompt(plan)).substitute(values)
    filled = _fill(plan.system_prompt, values)
    return filled if _marks(plan.system_prompt).intersection(_CONTEXT_NAMES) else f"{filled}\n\n{context}"


def count_prompt_tokens(plan: Plan) -> int:
    """Return the tokens of a question's system prompt without its context."""
    return _count(system_prompt(plan, ""))


def drops_user_prompt(plan: Plan) -> bool:
    """Return whether the caller's prompt has no place for the instructions that were given."""
    return bool(plan.system_prompt and plan.user_prompt) and "user_prompt" not in _marks(plan.system_prompt)


def show_prompt(plan: Plan, prompt: str) -> str:
    """Return prompt and question as one text, for `only_need_prompt`."""
    return f"{prompt}\n\n---User Query---\n\n{plan.question}"


@lru_cache(maxsize=64)
def _count(text: str) -> int:
    return count_tokens(text)


def _fill(template: str, values: dict[str, str]) -> str:
    if _is_format_string(template):
        return template.format(**values)
    return _MARK.sub(lambda match: values[match[match.lastindex or 0]], template)


def _marks(template: str) -> set[str]:
    return {match[match.lastindex or 0] for match in _MARK.finditer(template)}


def _is_format_string(template: str) -> bool:
    """Return whether `str.format` would fill it in: our names only, nothing after a dollar, other braces doubled."""
    if _DOLLAR_MARK.search(template):
        return False
    try:
        fields = [field for field in Formatter().parse(template) if field[1] is not None]
    except ValueError:
        return False
    return bool(fields) and all(name in _NAMES and not spec and not convert for _, name, spec, convert in fields)


# How the tokens of a question are shared out: what is fixed, paths, entities and relations, and chunks.
#
# The budgets of entities and relations are what they may take at the most. Where the total is too small for both,
# they shrink in proportion, so that passages, which are what an answer quotes, keep a share. None counts for more
# than can be had, so that a very large one leaves the other its part.

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
