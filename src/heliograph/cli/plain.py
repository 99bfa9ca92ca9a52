"""The engine's models as plain data for `--json`: every field under its own name, nothing shortened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import Any

from pydantic import BaseModel, SecretStr

__all__ = ["to_plain"]


def to_plain(value: object) -> Any:
    """Return a value as `json.dumps` takes it.

    Dataclasses and tables of settings become objects, enumerations their value, times ISO 8601, paths and errors text;
    secrets stay masked.
    """
    if isinstance(value, Enum):
        return value.value
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Exception | Path | SecretStr):
        return str(value)
    if isinstance(value, BaseModel):
        return {name: to_plain(getattr(value, name)) for name in type(value).model_fields}
    if is_dataclass(value):
        return {field.name: to_plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(to_plain(key)): to_plain(item) for key, item in value.items()}
    if isinstance(value, Sequence | set | frozenset):
        return [to_plain(item) for item in value]
    raise TypeError(f"{value!r} has no plain form")
