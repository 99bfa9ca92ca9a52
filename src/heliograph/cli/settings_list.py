"""Every setting as a row: its names, what it may be, its default and what it means, read from the settings' models."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args, get_origin

from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

from heliograph.cli.plain import to_plain
from heliograph.settings import Settings, hide_password

__all__ = ["SettingRow", "SettingValue", "list_settings", "list_values", "settings_markdown"]

_TYPES = {
    bool: "true or false",
    int: "whole number",
    float: "number",
    str: "text",
    Path: "path",
    SecretStr: "secret",
}
_BOUNDS = {"ge": "at least", "gt": "more than", "le": "at most", "lt": "less than"}

_HEAD = """\
# Settings

Every setting has a default, and none has to be set. Later wins:

1. the defaults below;
2. `heliograph.toml` in the working directory, one table a room:

   ```toml
   [chat]
   model = "qwen3:8b"
   base_url = "http://127.0.0.1:11434/v1"

   [ingest]
   gleaning_passes = 0
   ```

3. environment variables: `HELIOGRAPH_CHAT__MODEL=qwen3:8b`; lists as JSON, `["person", "place"]`;
4. what a program passes: `Settings.load(chat={"model": "qwen3:8b"})`, and on the command line `--data-dir` and
   `--workspace`.

An unknown name or a value out of range is an error that names it. `heliograph settings` shows what is in force and
where it comes from. This page is the output of `heliograph settings --markdown`.
"""


@dataclass(frozen=True, slots=True)
class SettingRow:
    """One setting.

    Attributes:
        room: The room it belongs to, such as `chat`.
        name: Its name in the room.
        environment: The variable that sets it.
        allowed: What it may be, in words.
        default: Its default, in words.
        description: What it means.
    """

    room: str
    name: str
    environment: str
    allowed: str
    default: str
    description: str

    @property
    def path(self) -> str:
        """Room and name, such as `chat.model`."""
        return f"{self.room}.{self.name}"


@dataclass(frozen=True, slots=True)
class SettingValue:
    """A setting in force: its row, its value as plain data (secrets masked), and where the value comes from."""

    row: SettingRow
    value: Any
    origin: str


def list_settings() -> list[SettingRow]:
    """Return all settings, by room, in the order in which they are defined."""
    return [_row(room, name, field) for room, model in _rooms() for name, field in model.model_fields.items()]


def list_values(settings: Settings, given: Iterable[str] = ()) -> list[SettingValue]:
    """Return all settings with the values in force.

    Args:
        settings: The values.
        given: Paths, such as `store.data_dir`, of those that the command line gave.
    """
    origins = Settings.find_origins() | dict.fromkeys(given, "command line")
    return [
        SettingValue(row, _shown(getattr(getattr(settings, row.room), row.name)), origins.get(row.path, "default"))
        for row in list_settings()
    ]


def _shown(value: object) -> Any:
    return hide_password(value) if isinstance(value, str) else to_plain(value)


def settings_markdown() -> str:
    """Return the page `docs/settings.md`."""
    rows = list_settings()
    parts = [_HEAD]
    for room, model in _rooms():
        title = (model.__doc__ or "").strip()
        parts.append(f"\n## {room}\n\n{title}\n\n{_markdown_table([row for row in rows if row.room == room])}")
    return "".join(parts)


def _markdown_table(rows: Sequence[SettingRow]) -> str:
    lines = ["| setting | variable | default | allowed | meaning |", "|---|---|---|---|---|"]
    for row in rows:
        cells = (f"`{row.path}`", f"`{row.environment}`", row.default, row.allowed, row.description)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def _rooms() -> list[tuple[str, type[BaseModel]]]:
    kinds = ((room, field.annotation) for room, field in Settings.model_fields.items())
    return [(room, kind) for room, kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)]


def _row(room: str, name: str, field: FieldInfo) -> SettingRow:
    environment = f"HELIOGRAPH_{room}__{name}".upper()
    return SettingRow(room, name, environment, _allowed(field), _default(field.default), field.description or "")


def _allowed(field: FieldInfo) -> str:
    bounds = [
        f"{words} {getattr(item, sign):,}"
        for item in field.metadata
        for sign, words in _BOUNDS.items()
        if hasattr(item, sign)
    ]
    patterns = [f"matches `{item.pattern}`" for item in field.metadata if getattr(item, "pattern", None)]
    return ", ".join([_type(field.annotation), *bounds, *patterns])


def _type(annotation: Any) -> str:
    arguments = get_args(annotation)
    if annotation in _TYPES:
        return _TYPES[annotation]
    if get_origin(annotation) is tuple:
        item = arguments[0]
        if isinstance(item, type) and issubclass(item, BaseModel):
            return "list of tables with " + ", ".join(f"`{name}`" for name in item.model_fields)
        return "list of texts"
    kinds = [item for item in arguments if item is not type(None)]
    if all(isinstance(item, str) for item in kinds):
        return " or ".join(f"`{item}`" if item else "empty" for item in kinds)
    return " or ".join(_type(item) for item in kinds) + " or empty"


def _default(value: Any) -> str:
    plain = to_plain(value)
    if plain is None or plain in ("", []):
        return "empty"
    if isinstance(plain, bool):
        plain = str(plain).lower()
    items = plain if isinstance(plain, list) else [plain]
    return ", ".join(f"`{item}`" for item in items)
