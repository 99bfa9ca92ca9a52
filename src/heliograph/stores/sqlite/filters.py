"""Filters as conditions of SQLite.

Metadata is read with `json_each` and never with a path of SQLite's own, whose syntax has no place for some keys. Types
are compared too, since to SQLite `true` is 1.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from heliograph.filters import Equals, Exists, In, Range, Scalar, path_keys
from heliograph.stores.rows import COMPARISONS, Condition, Dialect
from heliograph.stores.sqlite.database import array

_NUMBER = "IN ('integer', 'real')"
# Lists are stepped into; an object is treated as a list of itself.
_STEP = """CROSS JOIN json_each(CASE v{0}.type WHEN 'array' THEN v{0}.value WHEN 'object' THEN '[' || v{0}.value || ']'
                               ELSE '[]' END) AS e{0}
           CROSS JOIN json_each(CASE e{0}.type WHEN 'object' THEN e{0}.value ELSE '{{}}' END) AS v{1}"""


class SqliteDialect(Dialect):
    """Parameters are arrays of C, which are read once."""

    mark, true, false = "?", "1", "0"

    def one_of(self, column: str, values: Sequence[str]) -> Condition:
        if column == "id":
            found = "SELECT identity.key FROM carray(?) AS wanted CROSS JOIN identity ON identity.id = wanted.value"
            return f"(document.key IN ({found}))", [array(values)]
        return f"(document.{column} IN (SELECT value FROM carray(?)))", [array(values)]

    def twin_of(self, document_id: str) -> Condition:
        return "document.twin_key = (SELECT key FROM identity WHERE id = ?)", [document_id]

    def metadata(self, condition: Exists | Equals | In | Range) -> Condition:
        return _at(condition.path, ("1", [])) if isinstance(condition, Exists) else _value(condition)


DIALECT = SqliteDialect()
compile_filter = DIALECT.compile_filter


def _value(condition: Equals | In | Range) -> Condition:
    """Return the condition that a value at a path, or an element of a list there, meets a condition."""
    leaf, values = _leaf(condition, "item")
    inside = f"EXISTS (SELECT 1 FROM json_each({{last}}.value) AS item WHERE {leaf})"
    last = f"v{len(path_keys(condition.path)) - 1}"
    itself, own = _leaf(condition, last)
    either = f"({itself} OR ({last}.type = 'array' AND {inside.format(last=last)}))"
    return _at(condition.path, (either, [*own, *values]))


def _at(path: str, leaf: Condition) -> Condition:
    """Return the condition that something stands at a path of which `leaf`, about the last of `v0`, `v1` ..., holds."""
    keys = path_keys(path)
    tables = ["json_each(document.metadata) AS v0"]
    tables += [_STEP.format(place, place + 1) for place in range(len(keys) - 1)]
    names = " AND ".join(f"v{place}.key = ?" for place in range(len(keys)))
    condition, values = leaf
    return f"EXISTS (SELECT 1 FROM {' '.join(tables)} WHERE {names} AND {condition})", [*keys, *values]


def _leaf(condition: Equals | In | Range, name: str) -> Condition:
    match condition:
        case Equals(_, value):
            return _one_of(name, (value,))
        case In(_, values):
            return _one_of(name, values)
        case Range():
            bounds = condition.bounds
            kind = "= 'text'" if all(isinstance(bound, str) for bound in bounds.values()) else _NUMBER
            tests = " AND ".join(f"{name}.value {COMPARISONS[bound]} ?" for bound in bounds)
            return f"({name}.type {kind} AND {tests})", list(bounds.values())


def _one_of(name: str, values: tuple[Scalar, ...]) -> Condition:
    texts = [value for value in values if isinstance(value, str)]
    numbers = [value for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
    kinds = ["null"] if None in values else []
    kinds += [str(value).lower() for value in (True, False) if any(item is value for item in values)]
    conditions: list[str] = []
    arguments: list[Any] = []
    if texts:
        conditions.append(f"({name}.type = 'text' AND {name}.value IN (SELECT value FROM carray(?)))")
        arguments.append(array(texts))
    if numbers:
        conditions.append(f"({name}.type {_NUMBER} AND {name}.value IN (SELECT value FROM json_each(?)))")
        arguments.append(json.dumps(numbers))
    conditions += [f"{name}.type = '{kind}'" for kind in kinds]
    return (f"({' OR '.join(conditions)})", arguments) if conditions else ("0", [])
