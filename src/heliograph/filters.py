"""Filters: conditions on documents (metadata, id, source) and on chunks, as data; parsed from JSON or one line.

    from heliograph.filters import And, Equals, Range, parse_filter

    And((Equals("team", "red"), Range("year", gte=2020)))
    parse_filter({"team": "red", "year": {"gte": 2020}})  # the same

This file checks and parses filters, and matches them against one document or one chunk; a store finds all matches. A
match is a document with all its chunks, or, with a `HasChunk`, with those of its chunks that meet the condition.
"""

from __future__ import annotations

import json
import math
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from typing import Any, assert_never, cast, get_args

from heliograph.errors import InvalidRequestError, shown
from heliograph.models import CHUNK_DETAILS, Chunk, Document, chunk_details

Scalar = str | int | float | bool | None
Bound = str | int | float | None

_SEPARATOR = re.compile(r"(?<!\\)\.")


@dataclass(frozen=True, slots=True)
class Equals:
    """A value at the path equals this one; `None` means a null, not a missing field."""

    path: str
    value: Scalar


@dataclass(frozen=True, slots=True)
class In:
    """A value at the path is one of these; an empty tuple matches nothing."""

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
        """The bounds that are not None, by the name of their comparison."""
        named = {"gt": self.gt, "gte": self.gte, "lt": self.lt, "lte": self.lte}
        return {name: bound for name, bound in named.items() if bound is not None}


@dataclass(frozen=True, slots=True)
class Exists:
    """The path exists, even if its value is a null or an empty list."""

    path: str


@dataclass(frozen=True, slots=True)
class DocumentIds:
    """The document's id is one of these; an empty tuple matches nothing."""

    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Sources:
    """The document's source equals one of these exactly; an empty tuple matches nothing."""

    sources: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SourcePrefix:
    """The document's source has this prefix. A folder's prefix should end in `/`, or `docs` matches `docs2/` too."""

    prefix: str


@dataclass(frozen=True, slots=True)
class HasChunk:
    """A chunk of the document meets a condition on details of chunks; a view has only such chunks.

    Allowed at the top level, or within `And`s at the top level.
    """

    part: Filter


@dataclass(frozen=True, slots=True)
class And:
    """All of these hold; an empty tuple matches everything."""

    parts: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """At least one of these holds; an empty tuple matches nothing."""

    parts: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """This does not hold."""

    part: Filter


# Conditions on the value at a path of metadata or details; and conditions that are not made of others. By these unions
# the type checker finds all code that must handle a new condition: in this file, and in the stores on SQL.
OnPath = Equals | In | Range | Exists
SimpleFilter = OnPath | DocumentIds | Sources | SourcePrefix | HasChunk
Filter = SimpleFilter | And | Or | Not


def filter_key(filter_: Filter) -> str:
    """Return a key that only equal filters share; it distinguishes `1`, `1.0` and `True`, which Python does not."""
    return repr(filter_)


def path_keys(path: str) -> tuple[str, ...]:
    """Return the keys that a path names, outermost first."""
    return tuple(key.replace("\\.", ".") for key in _SEPARATOR.split(path))


# Matching one document against a filter: the reference implementation of every condition, in Python.
#
# A store may match in its own query language; the property test of the embedded store compares the two.

_COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "gt": operator.gt,
    "gte": operator.ge,
    "lt": operator.lt,
    "lte": operator.le,
}


def matches(
    filter_: Filter, document: Document, read_chunks: Callable[[Document], Iterable[Chunk]] | None = None
) -> bool:
    """Return whether a document matches; without `read_chunks`, conditions on chunks count as met."""

    def meets(condition: SimpleFilter) -> bool:
        match condition:
            case HasChunk(part):
                return read_chunks is None or any(matches_chunk(part, chunk) for chunk in read_chunks(document))
            case DocumentIds(ids):
                return document.id in ids
            case Sources(sources):
                return document.source in sources
            case SourcePrefix(prefix):
                return document.source.startswith(prefix)
            case _:
                return _meets(document.details | dict(document.metadata), condition)

    return _holds(filter_, meets)


def chunk_condition(filter_: Filter) -> Filter:
    """Return the condition that chunks of matching documents must meet; without one, `And(())`, which all meet."""
    return And(tuple(part.part for part in _conjuncts(filter_) if isinstance(part, HasChunk)))


def matches_chunk(condition: Filter, chunk: Chunk) -> bool:
    """Return whether a chunk meets the condition of a `HasChunk`."""
    return _holds(condition, lambda part: _meets(chunk_details(chunk), part))


def _holds(filter_: Filter, meets: Callable[[SimpleFilter], bool]) -> bool:
    """Return whether a filter holds, given `meets`, which evaluates its simple conditions."""
    match filter_:
        case And(parts):
            return all(_holds(part, meets) for part in parts)
        case Or(parts):
            return any(_holds(part, meets) for part in parts)
        case Not(part):
            return not _holds(part, meets)
        case _:
            return meets(filter_)


def _conjuncts(filter_: Filter) -> Iterator[Filter]:
    """Yield the conditions that must all hold, flattening nested `And`s."""
    if isinstance(filter_, And):
        for part in filter_.parts:
            yield from _conjuncts(part)
    else:
        yield filter_


def _meets(metadata: Mapping[str, Any], condition: SimpleFilter) -> bool:
    """Return whether metadata and details of a document, or the details of a chunk, meet a condition.

    Raises:
        InvalidRequestError: The condition is not one on a path.
    """
    match condition:
        case Exists(path):
            return bool(_found(metadata, path))
        case Equals(path, value):
            return any(_is_same(found, value) for found in _values(metadata, path))
        case In(path, values):
            return any(_is_same(found, value) for found in _values(metadata, path) for value in values)
        case Range(path):
            return any(_is_within(found, condition) for found in _values(metadata, path))
        case DocumentIds() | Sources() | SourcePrefix() | HasChunk():
            raise _misplaced(condition)
        case _:
            assert_never(condition)


def _found(metadata: Mapping[str, Any], path: str) -> list[Any]:
    """Return the values at the path; more than one where the path leads through a list."""
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


# Validation of filters: once, before any search.
#
# A filter comes from a caller, often from outside the process, and becomes a database statement. So its depth, the
# number of its conditions and the size of its values are limited, and every value must have a type that all back ends
# compare alike.

MAX_DEPTH = 16
MAX_CONDITIONS = 256
MAX_VALUES = 100_000
_MAX_KEYS = 8
MOST_CHARACTERS = 4096
_LARGEST = 2**63


def check_filter(filter_: object) -> Filter:
    """Return the filter if it is valid.

    Raises:
        InvalidRequestError: It is no filter, is too deep or too large, or holds a value that cannot be compared.
    """
    conditions = list(_conditions(filter_, 1))
    if len(conditions) > MAX_CONDITIONS:
        raise InvalidRequestError(f"the filter has {len(conditions)} conditions; use at most {MAX_CONDITIONS}")
    values = sum(map(_check, conditions))
    if values > MAX_VALUES:
        raise InvalidRequestError(f"the filter lists {values:,} values; use at most {MAX_VALUES:,}")
    checked = cast("Filter", filter_)
    inner = [item.part for item in _conjuncts(checked) if isinstance(item, HasChunk)]
    if len(inner) < sum(isinstance(item, HasChunk) for item in conditions):
        raise InvalidRequestError(
            "the filter has a condition on chunks within another one; state it beside the conditions on documents"
        )
    for part in inner:
        for condition in _conditions(part, 1):
            match condition:
                case And() | Or() | Not():
                    pass
                case DocumentIds() | Sources() | SourcePrefix() | HasChunk():
                    raise _misplaced(condition)
                case _:
                    if condition.path not in CHUNK_DETAILS:
                        advice = f"use {' or '.join(CHUNK_DETAILS)}"
                        raise refusal("a path of the filter on chunks", condition.path, advice)
    return checked


def _misplaced(condition: SimpleFilter) -> InvalidRequestError:
    return refusal("a condition of the filter on chunks", condition, f"use conditions on {' or '.join(CHUNK_DETAILS)}")


def refusal(place: str, value: object, advice: str) -> InvalidRequestError:
    """Return the error for a wrong value at a place of a filter."""
    return InvalidRequestError(f"{place} is {shown(value, 200)}; {advice}")


def _conditions(filter_: object, depth: int) -> Iterator[Filter]:
    """Yield the filter and all its nested conditions, outermost first."""
    if depth > MAX_DEPTH:
        raise InvalidRequestError(f"the filter is nested more than {MAX_DEPTH} deep; make it flatter")
    if not isinstance(filter_, get_args(Filter)):
        raise refusal("filter", filter_, "give a condition of heliograph.filters, or a dict")
    checked = cast("Filter", filter_)
    yield checked
    match checked:
        case And(parts) | Or(parts):
            for part in parts:
                yield from _conditions(part, depth + 1)
        case Not(part) | HasChunk(part):
            yield from _conditions(part, depth + 1)
        case Equals() | In() | Range() | Exists() | DocumentIds() | Sources() | SourcePrefix():
            pass
        case _:
            assert_never(checked)


def _check(condition: Filter) -> int:
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
            bounds = condition.bounds
            _check_values(condition.path, tuple(bounds.values()), (str, int, float))
            kinds = {isinstance(bound, str) for bound in bounds.values()}
            if len(kinds) != 1 or any(isinstance(bound, bool) for bound in bounds.values()):
                raise refusal(
                    f"the filter on {condition.path!r}", bounds, "give gt, gte, lt or lte, all numbers or all strings"
                )
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
        case HasChunk() | And() | Or() | Not():
            pass
        case _:
            assert_never(condition)
    return 1


def _check_path(path: Any) -> None:
    if not isinstance(path, str) or not path or len(path) > MOST_CHARACTERS or len(path_keys(path)) > _MAX_KEYS:
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
            if len(value) > MOST_CHARACTERS:
                raise refusal(f"the filter on {place!r}", value, f"give at most {MOST_CHARACTERS:,} characters")
            if "\0" in value or any("\ud800" <= character <= "\udfff" for character in value):
                advice = "leave out NUL and lone surrogates, which no document holds"
                raise refusal(f"the filter on {place!r}", value, advice)
        elif isinstance(value, int) and not -_LARGEST <= value < _LARGEST:
            raise InvalidRequestError(f"the filter on {place!r} holds a whole number of over 64 bits; use a smaller")
        elif isinstance(value, float) and not math.isfinite(value):
            raise refusal(f"the filter on {place!r}", value, "give a finite number")


_METADATA = "metadata."
_BOUNDS = tuple(_COMPARISONS)
_OPERATORS = ("eq", "ne", "in", *_BOUNDS, "exists")
# An object with all the keys of one of these sets is a condition in another library's filter language.
_FOREIGN = (
    *({"field", "operator"}, {"field", "value"}, {"key", "value"}, {"key", "match"}, {"key", "range"}),
    *({"path", "operator"}, {"attribute", "value"}, {"operator", "conditions"}, {"filters", "condition"}),
)
_OURS = 'write {"team": "red"}, {"year": {"gte": 2020}}, {"or": [...]}, {"and": [...]} or {"not": {...}}'


def parse_filter(given: object) -> Filter:
    """Parse an object in the form of `_OURS` into a filter; a `Filter` is only checked.

    Dates and times (`datetime.date`, `datetime.datetime`) count as their ISO 8601 strings.

    Raises:
        InvalidRequestError: It is not in this form, too deep or too large; the message has the place and the value.
    """
    return check_filter(_object(given, "filter", 1) if isinstance(given, Mapping) else given)


def metadata_path(name: str) -> str:
    """Return the path of a metadata field without the optional prefix `metadata.`."""
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
        case "chunk" if isinstance(value, Mapping) and not value.keys() <= set(_OPERATORS):
            return HasChunk(_object(value, place, depth + 1))
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
    parts: list[Filter] = []
    bounds: dict[str, Any] = {}
    for name, value in given.items():
        at = f"{place}.{name}"
        if name == "eq":
            parts.append(Equals(path, _scalar(value, at)))
        elif name == "ne":
            parts.append(Not(Equals(path, _scalar(value, at))))
        elif name == "in":
            parts.append(In(path, _scalars(value, at)))
        elif name == "exists":
            if not isinstance(value, bool):
                raise refusal(at, value, "give true or false")
            parts.append(Exists(path) if value else Not(Exists(path)))
        elif name in _BOUNDS:
            bounds[name] = bound = _plain(value)
            if isinstance(bound, bool) or not isinstance(bound, str | int | float):
                raise refusal(at, bound, "give a number or a string")
        else:
            raise NotImplementedError(f"{name!r} is among the operators, and nothing says what it means")
    if bounds:
        parts.append(Range(path, **bounds))
    return parts[0] if len(parts) == 1 else And(tuple(parts))


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


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, date) else value


# Filters in one line, for command lines: `team=red`, `year>=2020`, `tags!=draft`, `reviewed`, `!draft`.
#
# A path, a comparison and a value; a path alone requires that the field exists, and after `!` that it does not. The
# command line writes strings into metadata, files' own metadata may hold numbers, and a shell shows no difference. So
# a value that parses as a number, `true` or `false` matches it and the string; in quotation marks only the string.
#
# A typo must not silently become a filter that matches nothing: text that looks like another language's filter, or
# like two filters, is refused with its position. Quotation marks, or an object (`parse_filter`), can express it still.

_COMPARISON = re.compile(r"(?P<path>[^=<>!]*)(?P<sign>!=|>=|<=|==?|>|<)\s*(?P<value>.*)", re.DOTALL)
_SIGNS = {">": "gt", ">=": "gte", "<": "lt", "<=": "lte"}
_FORMS = "write FIELD=VALUE with =, !=, <, <=, > or >=, such as year>=2024, or FIELD alone, or !FIELD"
_AGAIN = "one condition each: give --filter twice, or an object by --filter-json"
_ODD_NAME = "a field that has such a name can be given in an object by --filter-json (`filter` in JSON)"
_QUOTED = 'put a value that begins so in double quotation marks, as in note="<b>"'
# Few fields have such names, so they count as typos; for those few, pass an object.
_NO_PATH = re.compile(r"[\"'(){}\[\]&|\x00-\x1f\x7f]|(?:^|(?<!\\)\.)(?=\.|$)|^\.")
_NO_PATH_ALONE = re.compile(r"[=<>!:~\s]")
_SECOND = re.compile(r"(?:\s(?:and|or)\s+|(?:&&|\|\|)\s*)!?[\w.]+\s*(?:[=<>]|!=)", re.IGNORECASE)


def parse_expression(text: str) -> Filter:
    """Parse a one-line expression into a filter.

    Raises:
        InvalidRequestError: It has none of these forms; the message says at which character.
    """
    found = _COMPARISON.fullmatch(text)
    if found is not None and found["path"].strip():
        return _comparison(text, found)
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
    if sign in _SIGNS and not value.startswith('"'):
        if not value or value in ("true", "false"):
            raise _refusal(text, found.start("value"), "a number or a string to compare with is missing")
        if slip := re.search("[=<>]", value):
            raise _refusal(text, found.start("value") + slip.start(), "there are two comparisons", _AGAIN)
    if sign == "!=":
        return check_filter(And(tuple(Not(Equals(path, value)) for value in values)))
    parts = tuple(Range(path, **{_SIGNS[sign]: value}) if sign in _SIGNS else Equals(path, value) for value in values)
    return check_filter(parts[0] if len(parts) == 1 else Or(parts))


def _meanings(value: str, text: str, start: int) -> list[Any]:
    """Return the possible values of a text: itself as a string, and the number or boolean that it parses as."""
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


def _refusal(text: str, place: int, wrong: str, advice: str = "") -> InvalidRequestError:
    said = f"the filter {text!r:.200} is wrong at character {place + 1}: {wrong}; {_FORMS}"
    return InvalidRequestError(f"{said}; {advice}" if advice else said)
