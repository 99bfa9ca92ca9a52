"""Whether one document matches a filter: the meaning of every condition, in Python.

A store may decide the same in its own language; the property test of the embedded store compares the two.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from heliograph.filters.conditions import (
    And,
    DocumentIds,
    Equals,
    Exists,
    Filter,
    In,
    Not,
    Or,
    Range,
    Scalar,
    SourcePrefix,
    Sources,
    path_keys,
)
from heliograph.models import Document

__all__ = ["matches"]

_COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "gt": operator.gt,
    "gte": operator.ge,
    "lt": operator.lt,
    "lte": operator.le,
}


def matches(filter_: Filter, document: Document) -> bool:
    """Return whether a document matches."""
    match filter_:
        case And(parts):
            return all(matches(part, document) for part in parts)
        case Or(parts):
            return any(matches(part, document) for part in parts)
        case Not(part):
            return not matches(part, document)
        case DocumentIds(ids):
            return document.id in ids
        case Sources(sources):
            return document.source in sources
        case SourcePrefix(prefix):
            return document.source.startswith(prefix)
        case _:
            return _says(document.metadata, filter_)


def _says(metadata: Mapping[str, Any], condition: Equals | In | Range | Exists) -> bool:
    """Return whether metadata answers a condition on it."""
    match condition:
        case Exists(path):
            return bool(_found(metadata, path))
        case Equals(path, value):
            return any(_is_same(found, value) for found in _values(metadata, path))
        case In(path, values):
            return any(_is_same(found, value) for found in _values(metadata, path) for value in values)
        case Range(path):
            return any(_is_within(found, condition) for found in _values(metadata, path))


def _found(metadata: Mapping[str, Any], path: str) -> list[Any]:
    """Return what stands at the path; more than one value where the path leads through a list."""
    found: list[Any] = [metadata]
    for key in path_keys(path):
        holders = (holder for value in found for holder in (value if isinstance(value, list | tuple) else (value,)))
        found = [holder[key] for holder in holders if isinstance(holder, Mapping) and key in holder]
    return found


def _values(metadata: Mapping[str, Any], path: str) -> Iterator[Any]:
    """Yield what stands at the path, and the elements of what is a list."""
    for value in _found(metadata, path):
        yield value
        if isinstance(value, list | tuple):
            yield from value


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_same(found: Any, value: Scalar) -> bool:
    if _is_number(value):
        return _is_number(found) and found == value
    return type(found) is type(value) and found == value


def _is_within(found: Any, range_: Range) -> bool:
    for name, bound in range_.bounds.items():
        is_comparable = isinstance(found, str) if isinstance(bound, str) else _is_number(found)
        if not is_comparable or not _COMPARISONS[name](found, bound):
            return False
    return bool(range_.bounds)
