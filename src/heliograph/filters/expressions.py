"""Filters in one line, for command lines: `team=red`, `year>=2020`, `tags!=draft`, `reviewed`, `!draft`.

A path, a comparison and a value; a path alone asks that the field is there, and after `!` that it is not. What the
command line writes into metadata are strings, what files say of themselves may be numbers, and a shell shows no
difference: so a value that reads as a number, `true` or `false` means both. In quotation marks it means the string.

A slip must not become a filter that matches nothing, unnoticed: what looks like another language's filter, or like two
of them, is refused with its place. What is refused can be said by quotation marks, or as an object (`parsing`).
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import Any

from heliograph.errors import InvalidRequestError
from heliograph.filters.conditions import And, Equals, Exists, Filter, Not, Or, Range
from heliograph.filters.limits import check_filter
from heliograph.filters.parsing import metadata_path

__all__ = ["parse_expression"]

_COMPARISON = re.compile(r"(?P<path>[^=<>!]*)(?P<sign>!=|>=|<=|==?|>|<)\s*(?P<value>.*)", re.DOTALL)
_BOUNDS = {">": "gt", ">=": "gte", "<": "lt", "<=": "lte"}
_FORMS = "write FIELD=VALUE with =, !=, <, <=, > or >=, such as year>=2024, or FIELD alone, or !FIELD"
_AGAIN = "one condition each: give --filter twice, or an object by --filter-json"
_ODD_NAME = "a field that has such a name can be given in an object by --filter-json (`filter` in JSON)"
_QUOTED = 'put a value that begins so in double quotation marks, as in note="<b>"'
# Few fields have such names, so they are taken for slips; an object can ask for the few.
_NO_PATH = re.compile(r"[\"'(){}\[\]&|\x00-\x1f\x7f]|(?:^|(?<!\\)\.)(?=\.|$)|^\.")
_NO_PATH_ALONE = re.compile(r"[=<>!:~\s]")
_SECOND = re.compile(r"(?:\s(?:and|or)\s+|(?:&&|\|\|)\s*)!?[\w.]+\s*(?:[=<>]|!=)", re.IGNORECASE)


def parse_expression(text: str) -> Filter:
    """Return the filter that a line means.

    Raises:
        InvalidRequestError: It is in none of these forms; says at which character.
    """
    found = _COMPARISON.fullmatch(text)
    return _existence(text) if found is None or not found["path"].strip() else _comparison(text, found)


def _existence(text: str) -> Filter:
    name = text.strip()
    is_not = name.startswith("!")
    path = metadata_path(name.removeprefix("!").strip())
    if not path:
        raise _refusal(text, 0, "it names no field")
    start = text.index(path)
    for pattern in (_NO_PATH, _NO_PATH_ALONE):
        if slip := pattern.search(path):
            raise _refusal(text, start + slip.start(), "that is no name of a field", _ODD_NAME)
    return check_filter(Not(Exists(path)) if is_not else Exists(path))


def _comparison(text: str, found: re.Match[str]) -> Filter:
    path, sign, value = metadata_path(found["path"].strip()), found["sign"], found["value"].strip()
    if not path:
        raise _refusal(text, 0, "it names no field")
    if slip := _NO_PATH.search(path):
        raise _refusal(text, text.index(path) + slip.start(), "that is no name of a field", _ODD_NAME)
    values = _meanings(value, text, found.start("value"))
    if sign in _BOUNDS and not value.startswith('"'):
        _check_bound(value, text, found.start("value"))
    return check_filter(_compare(path, sign, values))


def _compare(path: str, sign: str, values: list[Any]) -> Filter:
    if sign == "!=":
        return And(tuple(Not(Equals(path, value)) for value in values))
    if sign in ("=", "=="):
        return _any([Equals(path, value) for value in values])
    return _any([Range(path, **{_BOUNDS[sign]: value}) for value in values])


def _any(parts: list[Any]) -> Filter:
    return parts[0] if len(parts) == 1 else Or(tuple(parts))


def _meanings(value: str, text: str, start: int) -> list[Any]:
    """Return what a written value may be: itself as a string, and the number or truth value that it reads as."""
    read: Any = value
    with suppress(ValueError, RecursionError):
        read = json.loads(value, parse_constant=str)
    if value.startswith('"'):
        if not isinstance(read, str) or read is value:
            raise _refusal(text, start, "the quotation marks do not enclose the value")
        return [read]
    if value[:1] in "=<>!" and value:
        raise _refusal(text, start, "there is no such comparison", _QUOTED)
    if len(value) > 1 and value[0] == value[-1] == "'":
        raise _refusal(text, start, "these marks would be part of the value", "use double quotation marks, or none")
    if read is None or isinstance(read, list | dict):
        raise _refusal(text, start, "no list, object or null can stand here", "give an object by --filter-json")
    if slip := _SECOND.search(value):
        raise _refusal(text, start + slip.start(), "there are two conditions", _AGAIN)
    return [value, read] if isinstance(read, int | float) else [value]


def _check_bound(value: str, text: str, start: int) -> None:
    if not value or value in ("true", "false"):
        raise _refusal(text, start, "a number or a string to compare with is missing")
    if slip := re.search("[=<>]", value):
        raise _refusal(text, start + slip.start(), "there are two comparisons", _AGAIN)


def _refusal(text: str, place: int, wrong: str, advice: str = "") -> InvalidRequestError:
    said = f"the filter {text!r:.200} is wrong at character {place + 1}: {wrong}; {_FORMS}"
    return InvalidRequestError(f"{said}; {advice}" if advice else said)
