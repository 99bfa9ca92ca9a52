"""Checks of callers' arguments against the annotated types of a method.

`checks_arguments` decorates a class whose public methods users call. These methods then accept only values of the
annotated types: anything else raises an `InvalidRequestError`, before any work, that says what was given and what to
give. `checked_fields` checks a dataclass against the types of its fields, and the bounds of a `pydantic.Field`.
Whole numbers are counts from 0 to `LARGEST_COUNT`; a larger number that is only a limit means all.
Integers of other libraries, such as NumPy's, are converted to `int`.
The contents of mappings and of other non-lists are checked by the packages that read them. A one-shot iterator is read
into a list first.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, fields, replace
from functools import lru_cache, wraps
from inspect import Signature, iscoroutinefunction, isfunction, signature
from numbers import Integral, Real
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from pydantic.fields import FieldInfo

from heliograph.errors import InvalidRequestError, shown

C = TypeVar("C")
Item = TypeVar("Item", bound=Any)

# The largest offset or limit that every store accepts.
LARGEST_COUNT = 2**31 - 1
# Integer arguments that are positions; all others are limits on the things read or returned.
_PLACES = frozenset({"offset"})

_WORDS: Mapping[Any, tuple[str, str]] = {
    str: ("a text", "texts"),
    bool: ("True or False", "True or False"),
    int: ("a whole number", "whole numbers"),
    float: ("a number", "numbers"),
    Path: ("a path", "paths"),
    Mapping: ("a mapping", "mappings"),
    dict: ("a mapping", "mappings"),
    Callable: ("a function", "functions"),
    NoneType: ("None", "None"),
}
_WIDER: Mapping[Any, Any] = {int: Integral, float: Real, Path: os.PathLike, dict: Mapping}
_LISTS = (Sequence, Iterable, list, tuple)
_BOUNDS: Mapping[str, tuple[Callable[[Any, Any], bool], str]] = {
    "ge": (operator.ge, "at least"),
    "gt": (operator.gt, "more than"),
    "le": (operator.le, "at most"),
    "lt": (operator.lt, "less than"),
}


def checks_arguments(cls: type[C]) -> type[C]:
    """Make the public methods that a class itself defines refuse arguments that do not match their annotations."""
    for name, member in list(vars(cls).items()):
        if isfunction(member) and not name.startswith("_"):
            setattr(cls, name, _checked(member))
    return cls


@lru_cache(maxsize=64)
def _stated_fields(kind: type) -> list[tuple[str, Any, Any]]:
    """Return the name and type of each field, and its default if that has the type and need not be checked again."""
    types, stated = get_type_hints(kind, include_extras=True), list[tuple[str, Any, Any]]()
    for field in fields(kind):
        is_sure = isinstance(field.default, str | int | None) and _is_of(field.default, types[field.name])
        stated.append((field.name, types[field.name], field.default if is_sure else MISSING))
    return stated


def checked_fields(item: Item, prefix: str = "") -> Item:
    """Return the dataclass after checking its fields against their types, with whole numbers as `int`.

    Raises:
        InvalidRequestError: A field has the wrong type or is out of bounds; the message has its name after `prefix`.
    """
    numbers: dict[str, int] = {}
    for name, kind, default in _stated_fields(type(item)):
        value = getattr(item, name)
        if value is default:
            continue
        _check(prefix + name, value, kind)
        if isinstance(value, Integral) and not isinstance(value, int):
            numbers[name] = operator.index(value)
    return replace(item, **numbers) if numbers else item


def bounds_of(field: FieldInfo) -> list[tuple[Callable[[Any, Any], bool], Any, str]]:
    """Return the bounds of a number: comparison function, limit, and both in words."""
    return [
        (compare, getattr(item, sign), f"{words} {getattr(item, sign):,}")
        for item in field.metadata
        for sign, (compare, words) in _BOUNDS.items()
        if hasattr(item, sign)
    ]


def _checked(method: Callable[..., Any]) -> Callable[..., Any]:
    if iscoroutinefunction(method):

        @wraps(method)
        async def work(*args: Any, **keywords: Any) -> Any:
            args, keywords = _read(method, args, keywords)
            return await method(*args, **keywords)

        return work

    @wraps(method)
    def call(*args: Any, **keywords: Any) -> Any:
        args, keywords = _read(method, args, keywords)
        return method(*args, **keywords)

    return call


@lru_cache(maxsize=256)
def _stated(method: Callable[..., Any]) -> tuple[Signature, Mapping[str, Any]]:
    # Resolved on the first call, when all names in annotations are defined.
    return signature(method), get_type_hints(method)


def _read(
    method: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments with iterators read into lists; refuse an argument that does not match its annotation."""
    form, types = _stated(method)
    bound = form.bind(*args, **keywords)
    for name, value in bound.arguments.items():
        if name in types:
            options, given = _options(types[name]), value
            if isinstance(value, Iterator) and any(get_origin(option) is Iterable for option in options):
                given = list(value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
            _check(name, given, types[name])
            if int in options:
                if given is not None:
                    given = check_count(name, given) if name in _PLACES else check_limit(name, given)
            elif Path in options:
                for path in given if _is_list(given) else (given,):
                    _check_path(name, path)
            bound.arguments[name] = given
    return bound.args, bound.kwargs


def check_count(name: str, value: Any) -> int:
    """Return a count, such as an offset, as `int`.

    Raises:
        InvalidRequestError: It is no whole number, or below 0 or above `LARGEST_COUNT`.
    """
    if (number := check_limit(name, value)) != value:
        raise _no_count(name, value)
    return number


def check_limit(name: str, value: Any) -> int:
    """Return a limit as `int`, capped at `LARGEST_COUNT`; `sys.maxsize`, say, means that.

    Raises:
        InvalidRequestError: It is no whole number, or below 0.
    """
    if isinstance(value, bool) or not isinstance(value, Integral) or (number := operator.index(value)) < 0:
        raise _no_count(name, value)
    return min(number, LARGEST_COUNT)


def _no_count(name: str, value: Any) -> InvalidRequestError:
    return InvalidRequestError(f"{name} is {shown(value, 80)}; give a whole number from 0 to {LARGEST_COUNT:,}")


def _check_path(name: str, value: Any) -> None:
    if value is not None and "\0" in os.fsdecode(value):
        raise InvalidRequestError(f"{name} is {shown(value, 200)}; no path holds NUL, leave it out")


def _check(name: str, value: Any, kind: Any) -> None:
    if _is_of(value, kind):
        return
    for option in _options(kind):
        if get_origin(option) in _LISTS and _is_list(value):
            for place, item in enumerate(value):
                _check(f"{name}[{place}]", item, get_args(option)[0])
    raise InvalidRequestError(f"{name} must be {_described(kind)}, got {type(value).__name__}: {shown(value, 80)}")


def _is_of(value: Any, kind: Any) -> bool:
    if get_origin(kind) is Annotated:
        plain, field = get_args(kind)
        bounds = () if value is None else bounds_of(field)
        return _is_of(value, plain) and all(compare(value, limit) for compare, limit, _ in bounds)
    options = _options(kind)
    if len(options) > 1:
        return any(_is_of(value, option) for option in options)
    plain = get_origin(kind) or kind
    if plain in _LISTS:
        item = (get_args(kind) or (Any,))[0]
        return isinstance(value, plain) and _is_list(value) and all(_is_of(part, item) for part in value)
    if plain is Literal:
        return isinstance(value, str) and value in get_args(kind)
    if isinstance(value, bool) and plain in (int, float):
        return False
    plain = _WIDER.get(plain, plain)
    return plain is Any or not isinstance(plain, type) or isinstance(value, plain)


def _is_list(value: Any) -> bool:
    """Return whether a value is an iterable of items: not a text, whose items are its characters, nor a mapping."""
    return isinstance(value, Iterable) and not isinstance(value, str | bytes | bytearray | Mapping)


def _options(kind: Any) -> tuple[Any, ...]:
    if get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    return get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)


def _described(kind: Any, *, is_plural: bool = False) -> str:
    options = [_name(option, is_plural=is_plural) for option in _options(kind)]
    described = " or ".join((", ".join(options[:-1]), options[-1])) if len(options) > 1 else options[0]
    bounds = bounds_of(get_args(kind)[1]) if get_origin(kind) is Annotated else ()
    return ", ".join((described, *(words for _, _, words in bounds)))


def _name(kind: Any, *, is_plural: bool) -> str:
    plain = get_origin(kind) or kind
    if plain in _LISTS:
        items = _described((get_args(kind) or (str,))[0], is_plural=True)
        return f"lists of {items}" if is_plural else f"a list of {items}"
    if plain is Literal:
        return f"{'any' if is_plural else 'one'} of {', '.join(get_args(kind))}"
    if plain in _WORDS:
        return _WORDS[plain][is_plural]
    name = getattr(plain, "__name__", str(plain))
    return f"{name}s" if is_plural else f"{'an' if name[0] in 'AEIOU' else 'a'} {name}"
