"""Filters as conditions of PostgreSQL.

A path becomes an SQL/JSON path in lax mode, which steps into lists as a filter does: one level at each key. A list at
the end of a path is looked into by `@>`, which holds between a list and each of its elements and between equal scalars,
types kept apart.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from heliograph.filters import Equals, Exists, In, Range, path_keys
from heliograph.stores.postgres.rows import to_json
from heliograph.stores.rows import COMPARISONS, Condition, Dialect

_NUL, _REPLACEMENT = "\x00", "\ufffd"


class PostgresDialect(Dialect):
    """Lists are JSON; the table is `heliograph_document AS document`."""

    mark, true, false = "%s", "true", "false"

    def one_of(self, column: str, values: Sequence[str]) -> Condition:
        return f"(document.{column} = ANY (ARRAY(SELECT json_array_elements_text(%s))))", [to_json(values)]

    def twin_of(self, document_id: str) -> Condition:
        return "document.twin_of = %s", [document_id]

    def metadata(self, condition: Exists | Equals | In | Range) -> Condition:
        return _metadata(condition)


DIALECT = PostgresDialect()
compile_filter = DIALECT.compile_filter


def _metadata(condition: Exists | Equals | In | Range) -> Condition:
    match condition:
        case Exists(path):
            return "jsonb_path_exists(document.metadata, %s::jsonpath)", [_path(path)]
        case Equals(path, value):
            return _any_of(path, "found @> %s::jsonb", [_json(value)])
        case In(path, values):
            listed = "found @> ANY (SELECT jsonb_array_elements(%s::jsonb))"
            return _any_of(path, listed, [_json(list(values))]) if values else ("false", [])
        case Range(path):
            return _range(path, condition)


def _any_of(path: str, leaf: str, values: list[Any]) -> Condition:
    """Return the condition that something stands at a path, here called `found`, of which `leaf` holds."""
    from_path = "EXISTS (SELECT 1 FROM jsonb_path_query(document.metadata, %s::jsonpath) AS found WHERE"
    return f"{from_path} {leaf})", [_path(path), *values]


def _range(path: str, range_: Range) -> Condition:
    bounds = range_.bounds
    if not bounds:
        return ("false", [])
    is_text = all(isinstance(bound, str) for bound in bounds.values())
    kind, value = ("string", "(item #>> '{}') COLLATE \"C\"") if is_text else ("number", "(item #>> '{}')::numeric")
    cast = "%s" if is_text else "%s::numeric"
    tests = " AND ".join(f"{value} {COMPARISONS[name]} {cast}" for name in bounds)
    # CASE keeps a text from being read as a number.
    leaf = f"""EXISTS (SELECT 1 FROM jsonb_array_elements(
                 CASE jsonb_typeof(found) WHEN 'array' THEN found ELSE jsonb_build_array(found) END) AS item
               WHERE CASE jsonb_typeof(item) WHEN '{kind}' THEN {tests} ELSE false END)"""
    given = [bound.replace(_NUL, _REPLACEMENT) if isinstance(bound, str) else repr(bound) for bound in bounds.values()]
    return _any_of(path, leaf, given)


def _path(path: str) -> str:
    keys = (json.dumps(key.replace(_NUL, _REPLACEMENT), ensure_ascii=False) for key in path_keys(path))
    return "$" + "".join(f".{key}" for key in keys)


def _json(value: object) -> str:
    return to_json([value]).data.decode()[1:-1]
