"""The system prompt of an answer: the built-in one or the caller's, with context and instructions filled in.

A caller's prompt may mark places like LightRAG does (`{context_data}`, `{response_type}`, `{user_prompt}` and the
older `{history}`, for `str.format`) or after a `$`. What is filled in is never read as a template again. Braces and
dollar signs that mark nothing stay as they are.
"""

from __future__ import annotations

import re
from functools import lru_cache
from string import Formatter, Template

from heliograph.prompts import load_prompt
from heliograph.query.modes import Channel
from heliograph.query.plan import Plan
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
