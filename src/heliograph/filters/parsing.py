"""Filters from JSON: what a request or a command line carries.

    {"team": "red"}                            a value; null, true, numbers and strings
    {"team": ["red", "blue"]}                  one of these
    {"year": {"gte": 2020, "lt": 2025}}        eq, ne, in, gt, gte, lt, lte, exists (true or false); all must hold
    {"author.name": "Ann"}                     a path
    {"source_prefix": "docs/", "source": [...], "document_id": [...]}
    {"team": "red", "or": [{...}, {...}], "not": {...}, "and": [...]}

All entries of one object must hold. `and`, `or`, `not`, `document_id`, `source` and `source_prefix` are words of this
language; a metadata field of such a name is reached as `metadata.source`, and `metadata.` may stand before any path.
Reading is strict: what is not understood is refused, with its place, and an empty object is never taken for "all". So
are the forms of other libraries, which would be conditions on fields that no document has: names with a dollar, and
objects that name field, operator and value. Metadata of such names is reached by `metadata.`, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date
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
    SourcePrefix,
    Sources,
)
from heliograph.filters.limits import MAX_DEPTH, check_filter, refusal

__all__ = ["metadata_path", "parse_filter"]

_METADATA = "metadata."
_BOUNDS = ("gt", "gte", "lt", "lte")
_OPERATORS = ("eq", "ne", "in", *_BOUNDS, "exists")
# An object with these names is a condition in the language of another library, whatever else is in it.
_FOREIGN = (
    *({"field", "operator"}, {"field", "value"}, {"key", "value"}, {"key", "match"}, {"key", "range"}),
    *({"path", "operator"}, {"attribute", "value"}, {"operator", "conditions"}, {"filters", "condition"}),
)
_OURS = 'write {"team": "red"}, {"year": {"gte": 2020}}, {"or": [...]}, {"and": [...]} or {"not": {...}}'


def parse_filter(given: object) -> Filter:
    """Return the filter that an object in the form above means; a filter that is one already is only checked.

    Dates and moments (`datetime.date`, `datetime.datetime`) count as their ISO 8601 strings.

    Raises:
        InvalidRequestError: It is not in this form, too deep or too large; says where and what stands there.
    """
    return check_filter(_object(given, "filter", 1) if isinstance(given, Mapping) else given)


def metadata_path(name: str) -> str:
    """Return the path of a metadata field that may be written with `metadata.` before it."""
    return name.removeprefix(_METADATA)


def _object(given: object, place: str, depth: int) -> Filter:
    if not isinstance(given, Mapping) or not given:
        raise refusal(place, given, "give an object with at least one condition")
    if depth > MAX_DEPTH:
        raise refusal(place, given, f"nest at most {MAX_DEPTH} deep")
    if any(names <= given.keys() for names in _FOREIGN):
        raise refusal(place, given, f"that is the form of another library; {_OURS}")
    parts = [_entry(name, value, f"{place}.{name}", depth) for name, value in given.items()]
    return parts[0] if len(parts) == 1 else And(tuple(parts))


def _entry(name: object, value: Any, place: str, depth: int) -> Filter:
    match name:
        case "and":
            return And(_objects(value, place, depth))
        case "or":
            return Or(_objects(value, place, depth))
        case "not":
            return Not(_object(value, place, depth + 1))
        case "document_id":
            return DocumentIds(_texts(value, place))
        case "source":
            return Sources(_texts(value, place))
        case "source_prefix":
            prefixes = tuple(map(SourcePrefix, _texts(value, place)))
            return prefixes[0] if len(prefixes) == 1 else Or(prefixes)
        case str() if name.startswith("$"):
            raise refusal(place, value, f"operators have no dollar here; {_OURS}")
        case str():
            return _field(metadata_path(name), value, place)
        case _:
            raise refusal(place, value, "name a metadata field by a string")


def _objects(given: Any, place: str, depth: int) -> tuple[Filter, ...]:
    if not isinstance(given, Sequence) or isinstance(given, str | bytes) or not given:
        raise refusal(place, given, "give a list of objects, at least one")
    return tuple(_object(item, f"{place}[{index}]", depth + 1) for index, item in enumerate(given))


def _texts(given: Any, place: str) -> tuple[str, ...]:
    values = (given,) if isinstance(given, str) else given
    if not isinstance(values, Sequence) or isinstance(values, bytes) or not all(isinstance(v, str) for v in values):
        raise refusal(place, given, "give a string or a list of strings")
    return tuple(values)


def _field(path: str, given: Any, place: str) -> Filter:
    if not isinstance(given, Mapping):
        return In(path, _scalars(given, place)) if _is_list(given) else Equals(path, _scalar(given, place))
    unknown = [name for name in given if name not in _OPERATORS]
    if unknown or not given:
        advice = f"use {', '.join(_OPERATORS)}; a field within it is written {f'{path}.name'!r}"
        raise refusal(place, given, advice)
    readers: dict[str, Callable[[Any, str], Filter]] = {
        "eq": lambda value, at: Equals(path, _scalar(value, at)),
        "ne": lambda value, at: Not(Equals(path, _scalar(value, at))),
        "in": lambda value, at: In(path, _scalars(value, at)),
        "exists": lambda value, at: _existence(path, value, at),
    }
    parts = [readers[name](value, f"{place}.{name}") for name, value in given.items() if name in readers]
    bounds = {name: _bound(given[name], f"{place}.{name}") for name in _BOUNDS if name in given}
    if bounds:
        parts.append(Range(path, **bounds))
    return parts[0] if len(parts) == 1 else And(tuple(parts))


def _existence(path: str, value: Any, place: str) -> Filter:
    if not isinstance(value, bool):
        raise refusal(place, value, "give true or false")
    return Exists(path) if value else Not(Exists(path))


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _scalars(given: Any, place: str) -> tuple[Any, ...]:
    if not _is_list(given):
        raise refusal(place, given, "give a list of values")
    return tuple(_scalar(value, f"{place}[{index}]") for index, value in enumerate(given))


def _scalar(value: Any, place: str) -> Any:
    value = _plain(value)
    if value is not None and not isinstance(value, str | int | float | bool):
        raise refusal(place, value, "give a string, a number, true, false or null")
    return value


def _bound(value: Any, place: str) -> Any:
    value = _plain(value)
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise refusal(place, value, "give a number or a string")
    return value


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, date) else value
