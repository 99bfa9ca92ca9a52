"""JSON schemas of arguments and results as clients take them: without references and without `null` branches.

Some clients read neither `$ref` nor `anyOf`; an argument that may be left out says so by not being required.
"""

from __future__ import annotations

from typing import Any, cast

from pydantic import BaseModel

_NULL = {"type": "null"}


def argument_schema(model: type[BaseModel]) -> dict[str, Any]:
    """Return the schema of what a tool takes; an argument that may be null is one that may be left out."""
    schema = _inlined(model.model_json_schema(mode="validation"))
    _drop_nulls(schema)
    return schema


def result_schema(model: type[BaseModel]) -> dict[str, Any]:
    """Return the schema of what a tool returns; fields that are always there are required."""
    return _inlined(model.model_json_schema(mode="serialization"))


def _inlined(schema: dict[str, Any]) -> dict[str, Any]:
    definitions = schema.pop("$defs", {})

    def inline(value: Any) -> Any:
        if isinstance(value, list):
            return [inline(item) for item in cast("list[Any]", value)]
        if not isinstance(value, dict):
            return value
        mapping = cast("dict[str, Any]", value)
        if "$ref" in mapping:
            beside = {name: item for name, item in mapping.items() if name != "$ref"}
            return inline(definitions[mapping["$ref"].rpartition("/")[2]]) | beside
        # Titles that pydantic makes up repeat the name; a property called `title` is an object.
        return {name: inline(item) for name, item in mapping.items() if name != "title" or not isinstance(item, str)}

    return inline(schema)


def _drop_nulls(schema: Any) -> None:
    if isinstance(schema, list):
        for item in cast("list[Any]", schema):
            _drop_nulls(item)
    if not isinstance(schema, dict):
        return
    mapping = cast("dict[str, Any]", schema)
    branches = [branch for branch in mapping.get("anyOf", ()) if branch != _NULL]
    if len(branches) == 1:
        del mapping["anyOf"]
        mapping.update({**branches[0], **mapping})
        if mapping.get("default", ...) is None:
            del mapping["default"]
    for item in mapping.values():
        _drop_nulls(item)
