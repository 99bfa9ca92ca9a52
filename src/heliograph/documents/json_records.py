"""JSON and JSON lines: records become sections, their fields a list; long texts become paragraphs.

A list of objects, or one object a line, is a list of records. Each gets a heading from its title, name or id, so that
its chunks say which record they come from. Everything else is one nested list of `key: value`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any, cast

from heliograph.documents.base import Limits, LoadedDocument, Loader, RawDocument
from heliograph.documents.encoding import decode_text
from heliograph.documents.finishing import name_title
from heliograph.errors import IngestError

__all__ = ["JsonLoader"]

_LINE_SUFFIXES = frozenset({".jsonl", ".ndjson"})
_TITLE_KEYS = ("title", "name", "subject", "headline", "id", "_id", "key")
_MAX_TITLE_LENGTH = 120
# From here on a text is a paragraph of its own and not an item of a list.
_PARAGRAPH_CHARACTERS = 200


class JsonLoader(Loader):
    """JSON, and JSON lines."""

    suffixes = frozenset({".json", *_LINE_SUFFIXES})
    mime_types = frozenset({"application/json", "application/x-ndjson", "application/jsonl"})
    runs_isolated = True

    def load(self, raw: RawDocument, limits: Limits) -> LoadedDocument:  # noqa: ARG002 (lengths are checked for all)
        """See `Loader.load`."""
        text = decode_text(raw.data, raw.name, raw.charset)
        value = _parse(text, raw)
        title = name_title(raw.name)
        if not value and not isinstance(value, int | float | bool):
            return LoadedDocument(raw.name, title, "")
        try:
            blocks = [f"# {title}", *_render(value)]
        except RecursionError as error:
            raise IngestError(f"{raw.name!r} nests too deeply; flatten it") from error
        records = {"record_count": len(cast("list[Any]", value))} if isinstance(value, list) else {}
        return LoadedDocument(raw.name, title, "\n\n".join(blocks) + "\n", records)


def _parse(text: str, raw: RawDocument) -> Any:
    is_lines = PurePath(raw.name).suffix.lower() in _LINE_SUFFIXES or raw.mime_type in (
        "application/x-ndjson",
        "application/jsonl",
    )
    try:
        if is_lines:
            return list(_parse_lines(text, raw.name))
        return json.loads(text) if text.strip() else None
    except json.JSONDecodeError as error:
        raise IngestError(f"{raw.name!r} is not JSON ({error}); mend it, or name it .txt to take it as text") from error
    except (RecursionError, ValueError) as error:
        raise IngestError(f"{raw.name!r} is JSON that cannot be read ({error}); flatten it") from error


def _parse_lines(text: str, name: str) -> Iterator[Any]:
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            yield json.loads(line)
        except json.JSONDecodeError as error:
            raise IngestError(f"line {number} of {name!r} is not JSON ({error}); mend it") from error


def _render(value: Any) -> Iterator[str]:
    if isinstance(value, list) and value and all(isinstance(item, dict) for item in cast("list[Any]", value)):
        for number, record in enumerate(cast("list[dict[str, Any]]", value), 1):
            yield f"## {_record_title(record) or f'Record {number}'}"
            yield from _record(record)
    elif isinstance(value, dict):
        yield from _record(cast("dict[str, Any]", value))
    else:
        yield "\n".join(_items(value, 0))


def _record(record: Mapping[str, Any]) -> Iterator[str]:
    """Yield a record's short fields as one list and each long text as a paragraph, in their order."""
    lines: list[str] = []
    for key, value in record.items():
        if isinstance(value, str) and (len(value) > _PARAGRAPH_CHARACTERS or "\n" in value.strip()):
            if lines:
                yield "\n".join(lines)
            lines = []
            yield f"{_line(key)}:\n\n{value.strip()}"
        else:
            lines += _field(key, value, 0)
    if lines:
        yield "\n".join(lines)


def _field(key: str, value: Any, depth: int) -> Iterator[str]:
    mark = "  " * depth + "- "
    if isinstance(value, dict | list):
        if value:
            yield f"{mark}{_line(key)}:"
            yield from _items(value, depth + 1)
    elif value is not None and value != "":
        yield f"{mark}{_line(key)}: {_scalar(value)}"


def _items(value: Any, depth: int) -> Iterator[str]:
    mark = "  " * depth + "- "
    if isinstance(value, dict):
        for key, item in cast("dict[str, Any]", value).items():
            yield from _field(key, item, depth)
    elif isinstance(value, list):
        for number, item in enumerate(cast("list[Any]", value), 1):
            if isinstance(item, dict | list):
                yield from _field(str(number), item, depth)
            elif item is not None:
                yield mark + _scalar(item)
    else:
        yield mark + _scalar(value)


def _scalar(value: Any) -> str:
    return _line(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _line(text: str) -> str:
    return " ".join(text.split())


def _record_title(record: Mapping[str, Any]) -> str:
    known: Sequence[Any] = [record[key] for key in _TITLE_KEYS if key in record]
    named = (item for item in known if isinstance(item, str | int) and not isinstance(item, bool) and str(item).strip())
    return _line(str(next(named, "")))[:_MAX_TITLE_LENGTH].rstrip()
