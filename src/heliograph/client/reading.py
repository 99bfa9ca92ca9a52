"""JSON into frozen dataclasses, by their annotations.

Fields that a dataclass does not have are left out, so that a newer service can say more; one that is missing takes its
default. A list becomes a tuple, an ISO 8601 text a datetime. Nothing else is converted: a value of another type is
an error that names the field.
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from datetime import datetime
from functools import cache
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from heliograph.errors import ServiceUnavailable

__all__ = ["read_as"]

T = TypeVar("T")


def read_as(kind: type[T], value: Any, where: str = "reply") -> T:
    """Return a JSON value as an object of a dataclass or of a plain type.

    Args:
        kind: A dataclass, `str`, `int`, `float`, `bool`, `datetime`, `Any`, or a union, tuple or mapping of these.
        value: What `json.loads` gave.
        where: What the value is called if it does not fit.

    Raises:
        ServiceUnavailable: It is of another shape: whatever answers is no service that this client knows.
    """
    return cast("T", _read(kind, value, where))


def _read(kind: Any, value: Any, where: str) -> Any:
    if kind is Any:
        return value
    if is_dataclass(kind):
        return _read_object(cast("type[Any]", kind), value, where)
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        return _read_union(kind, value, where)
    if origin is tuple and isinstance(value, list):
        item = get_args(kind)[0]
        return tuple(_read(item, part, f"{where}[{place}]") for place, part in enumerate(cast("list[Any]", value)))
    if origin is Mapping and isinstance(value, dict):
        item = get_args(kind)[1]
        return {key: _read(item, part, f"{where}.{key}") for key, part in cast("dict[str, Any]", value).items()}
    return _read_plain(kind, value, where)


def _read_object(kind: type[Any], value: Any, where: str) -> Any:
    if not isinstance(value, dict):
        raise _misfit(where, "an object", value)
    given = cast("dict[str, Any]", value)
    found: dict[str, Any] = {}
    for name, hint, is_needed in _fields(kind):
        if name in given:
            found[name] = _read(hint, given[name], f"{where}.{name}")
        elif is_needed:
            raise _misfit(f"{where}.{name}", "a value", None)
    return kind(**found)


@cache
def _fields(kind: type[Any]) -> tuple[tuple[str, Any, bool], ...]:
    hints = get_type_hints(kind)
    return tuple(
        (field.name, hints[field.name], field.default is MISSING and field.default_factory is MISSING)
        for field in fields(kind)
    )


def _read_union(kind: Any, value: Any, where: str) -> Any:
    kinds = get_args(kind)
    if value is None and type(None) in kinds:
        return None
    others = [one for one in kinds if one is not type(None)]
    return _read(others[0], value, where)


def _read_plain(kind: Any, value: Any, where: str) -> Any:
    if kind is datetime and isinstance(value, str):
        try:
            return datetime.fromisoformat(value)
        except ValueError:
            raise _misfit(where, "an ISO 8601 time", value) from None
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if isinstance(kind, type) and isinstance(value, kind) and (kind is bool or not isinstance(value, bool)):
        return value
    raise _misfit(where, getattr(kind, "__name__", str(kind)), value)


def _misfit(where: str, wanted: str, value: Any) -> ServiceUnavailable:
    return ServiceUnavailable(
        f"{where} is not {wanted} but {value!r:.100}; is the address that of a Heliograph service of this version?"
    )
