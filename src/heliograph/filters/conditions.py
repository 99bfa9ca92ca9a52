"""The conditions of a filter, frozen, and what each of them means for one document."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from heliograph.models import Document

Scalar = str | int | float | bool | None
Bound = str | int | float | None

_SEPARATOR = re.compile(r"(?<!\\)\.")


@dataclass(frozen=True, slots=True)
class Equals:
    """A value at the path is this one; `None` stands for a null, not for a missing field."""

    path: str
    value: Scalar


@dataclass(frozen=True, slots=True)
class In:
    """A value at the path is one of these; of none, nothing matches."""

    path: str
    values: tuple[Scalar, ...]


@dataclass(frozen=True, slots=True)
class Range:
    """A value at the path lies within all bounds given: all numbers, or all strings."""

    path: str
    gt: Bound = None
    gte: Bound = None
    lt: Bound = None
    lte: Bound = None

    @property
    def bounds(self) -> dict[str, str | int | float]:
        """The bounds that are given, by the name of their comparison."""
        named = {"gt": self.gt, "gte": self.gte, "lt": self.lt, "lte": self.lte}
        return {name: bound for name, bound in named.items() if bound is not None}


@dataclass(frozen=True, slots=True)
class Exists:
    """The path leads to something, be it a null or an empty list."""

    path: str


@dataclass(frozen=True, slots=True)
class DocumentIds:
    """The document's id is one of these; of none, nothing matches."""

    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Sources:
    """The document's source is one of these, to the letter; of none, nothing matches."""

    sources: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SourcePrefix:
    """The document's source begins so. A folder's prefix ends in `/`, or it means its namesakes too."""

    prefix: str


@dataclass(frozen=True, slots=True)
class And:
    """All of these hold; of none, everything matches."""

    parts: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """At least one of these holds; of none, nothing matches."""

    parts: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """This does not hold."""

    part: Filter


Filter = Equals | In | Range | Exists | DocumentIds | Sources | SourcePrefix | And | Or | Not


def filter_key(filter_: Filter) -> str:
    """Return a key that only equal filters share; it distinguishes `1`, `1.0` and `True`, which Python does not."""
    return repr(filter_)


def path_keys(path: str) -> tuple[str, ...]:
    """Return the keys that a path names, outermost first."""
    return tuple(key.replace("\\.", ".") for key in _SEPARATOR.split(path))


# Whether one document matches a filter: the meaning of every condition, in Python.
#
# A store may decide the same in its own language; the property test of the embedded store compares the two.

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
    """Yield the value at the path, and the elements of a list there."""
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
