"""Filters in one line, for command lines: `team=red`, `year>=2020`, `tags!=draft`, `reviewed`, `!draft`.

A path, a comparison and a value; a path alone asks that the field is there, and after `!` that it is not. What the
command line writes into metadata are strings, what files say of themselves may be numbers, and a shell shows no
difference: so a value that reads as a number, `true` or `false` means both. In quotation marks it means the string.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import Any

from heliograph.filters.conditions import And, Equals, Exists, Filter, Not, Or, Range
from heliograph.filters.limits import check_filter, refusal
from heliograph.filters.parsing import metadata_path

__all__ = ["parse_expression"]

_COMPARISON = re.compile(r"(?P<path>[^=<>!]+)(?P<sign>!=|>=|<=|==?|>|<)(?P<value>.*)", re.DOTALL)
_BOUNDS = {">": "gt", ">=": "gte", "<": "lt", "<=": "lte"}
_FORMS = "write FIELD=VALUE with =, !=, <, <=, > or >=, or FIELD alone, or !FIELD"


def parse_expression(text: str) -> Filter:
    """Return the filter that a line means.

    Raises:
        InvalidRequestError: It is in none of these forms.
    """
    found = _COMPARISON.fullmatch(text)
    if found is None:
        path = metadata_path(text.removeprefix("!").strip())
        if not path or re.search("[=<>!]", path):
            raise refusal("the filter", text, _FORMS)
        return check_filter(Not(Exists(path)) if text.startswith("!") else Exists(path))
    path, sign, value = metadata_path(found["path"].strip()), found["sign"], found["value"].strip()
    if not path:
        raise refusal("the filter", text, _FORMS)
    return check_filter(_compare(path, sign, _meanings(value)))


def _compare(path: str, sign: str, values: list[Any]) -> Filter:
    if sign == "!=":
        return And(tuple(Not(Equals(path, value)) for value in values))
    if sign in ("=", "=="):
        return _any([Equals(path, value) for value in values])
    return _any([Range(path, **{_BOUNDS[sign]: value}) for value in values if not isinstance(value, bool)])


def _any(parts: list[Any]) -> Filter:
    return parts[0] if len(parts) == 1 else Or(tuple(parts))


def _meanings(value: str) -> list[Any]:
    """Return what a written value may be: itself as a string, and the number or truth value that it reads as."""
    read: Any = None
    with suppress(ValueError, RecursionError):
        read = json.loads(value, parse_constant=str)
    if isinstance(read, str) and value.startswith('"'):
        return [read]
    return [value, read] if isinstance(read, int | float) else [value]
