r"""The conditions of a filter, frozen.

A metadata path names keys from the outside in, joined by dots: `team`, `author.name`; a dot within a key is written
`\.`. Where a list stands, any of its elements may answer: `tags` is each tag, `authors.name` the name of each author.
A field that is missing answers no condition, so `Not(Equals("team", "red"))` holds for documents without a team.
Types are kept apart: `1` is neither `"1"` nor `True`, but equals `1.0`. Strings are compared character by character,
case included; dates as strings, which is their order in time when all are ISO 8601 of one form.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = [
    "And",
    "DocumentIds",
    "Equals",
    "Exists",
    "Filter",
    "In",
    "Not",
    "Or",
    "Range",
    "Scalar",
    "SourcePrefix",
    "Sources",
    "filter_key",
    "path_keys",
]

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
    """Return a text that only equal filters share; `1`, `1.0` and `True`, equal to Python, are told apart."""
    return repr(filter_)


def path_keys(path: str) -> tuple[str, ...]:
    """Return the keys that a path names, outermost first."""
    return tuple(key.replace("\\.", ".") for key in _SEPARATOR.split(path))
