"""What a filter may hold: checked once, before anything is searched.

A filter comes from a caller, often from outside the process, and is turned into a statement of a database: its depth,
the number of its conditions and the size of its values are limited, and every value must be of a kind that all back
ends compare alike.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, get_args

from heliograph.errors import InvalidRequestError, shown
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
    SourcePrefix,
    Sources,
    path_keys,
)

__all__ = ["MAX_CONDITIONS", "MAX_DEPTH", "MAX_VALUES", "check_filter", "refusal"]

MAX_DEPTH = 16
MAX_CONDITIONS = 256
MAX_VALUES = 100_000
_MAX_KEYS = 8
_MAX_CHARACTERS = 4096
_LARGEST = 2**63


def check_filter(filter_: object) -> Filter:
    """Return the filter if it can be served.

    Raises:
        InvalidRequestError: It is no filter, is too deep or too large, or holds a value that cannot be compared.
    """
    conditions = list(_conditions(filter_, 1))
    if len(conditions) > MAX_CONDITIONS:
        raise InvalidRequestError(f"the filter has {len(conditions)} conditions; use at most {MAX_CONDITIONS}")
    values = sum(map(_check, conditions))
    if values > MAX_VALUES:
        raise InvalidRequestError(f"the filter lists {values:,} values; use at most {MAX_VALUES:,}")
    return filter_  # pyright: ignore[reportReturnType]


def refusal(place: str, value: object, advice: str) -> InvalidRequestError:
    """Return the error for a value that stands at a place of a filter."""
    return InvalidRequestError(f"{place} is {shown(value, 200)}; {advice}")


def _conditions(filter_: object, depth: int) -> Iterator[object]:
    """Yield the filter and all that is in it, outermost first."""
    if depth > MAX_DEPTH:
        raise InvalidRequestError(f"the filter is nested more than {MAX_DEPTH} deep; make it flatter")
    if not isinstance(filter_, get_args(Filter)):
        raise refusal("filter", filter_, "give a condition of heliograph.filters, or a dict")
    yield filter_
    match filter_:
        case And(parts) | Or(parts):
            for part in parts:
                yield from _conditions(part, depth + 1)
        case Not(part):
            yield from _conditions(part, depth + 1)
        case _:
            pass


def _check(condition: object) -> int:
    """Check one condition by itself and return how many values it lists."""
    match condition:
        case Equals(path, value):
            _check_path(path)
            _check_values(path, (value,), (str, int, float, bool, type(None)))
        case In(path, values):
            _check_path(path)
            _check_values(path, values, (str, int, float, bool, type(None)))
            return len(values)
        case Range(path):
            _check_path(path)
            _check_range(condition)
        case Exists(path):
            _check_path(path)
        case DocumentIds(ids):
            _check_values("document_id", ids, (str,))
            return len(ids)
        case Sources(sources):
            _check_values("source", sources, (str,))
            return len(sources)
        case SourcePrefix(prefix):
            _check_values("source_prefix", (prefix,), (str,))
            if not prefix:
                raise refusal("source_prefix", prefix, "an empty prefix allows everything: leave it out")
        case _:
            pass
    return 1


def _check_path(path: Any) -> None:
    if not isinstance(path, str) or not path or len(path) > _MAX_CHARACTERS or len(path_keys(path)) > _MAX_KEYS:
        raise refusal("a path of the filter", path, f"give up to {_MAX_KEYS} keys of the metadata, joined by dots")
    _check_values("a path of the filter", (path,), (str,))


def _check_values(place: str, values: Any, kinds: tuple[type, ...]) -> None:
    if not isinstance(values, tuple):
        raise refusal(f"the filter on {place!r}", values, "give a tuple")
    for value in values:
        if not isinstance(value, kinds):
            names = ", ".join("null" if kind is type(None) else kind.__name__ for kind in kinds)
            raise refusal(f"the filter on {place!r}", value, f"give one of: {names}")
        if isinstance(value, str):
            _check_text(place, value)
        elif isinstance(value, int) and not -_LARGEST <= value < _LARGEST:
            raise InvalidRequestError(f"the filter on {place!r} holds a whole number of over 64 bits; use a smaller")
        elif isinstance(value, float) and not math.isfinite(value):
            raise refusal(f"the filter on {place!r}", value, "give a finite number")


def _check_text(place: str, text: str) -> None:
    if len(text) > _MAX_CHARACTERS:
        raise refusal(f"the filter on {place!r}", text, f"give at most {_MAX_CHARACTERS:,} characters")
    if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
        raise refusal(f"the filter on {place!r}", text, "leave out NUL and lone surrogates, which no document holds")


def _check_range(range_: Range) -> None:
    bounds = range_.bounds
    _check_values(range_.path, tuple(bounds.values()), (str, int, float))
    kinds = {isinstance(bound, str) for bound in bounds.values()}
    if len(kinds) != 1 or any(isinstance(bound, bool) for bound in bounds.values()):
        raise refusal(f"the filter on {range_.path!r}", bounds, "give gt, gte, lt or lte, all numbers or all strings")
