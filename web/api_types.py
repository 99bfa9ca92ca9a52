"""Writes `src/api-types.ts`: the shapes of the service's OpenAPI document as TypeScript.

`python web/api_types.py` writes the file; `tests/house/test_page.py` holds it to the document, so that a change of the
wire fails the build of the page where it matters.
"""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from heliograph.server.app import create_app
from heliograph.settings import Settings

TARGET = Path(__file__).parent / "src" / "api-types.ts"
_HEAD = "// Made by web/api_types.py from the OpenAPI document; not to be edited.\n"
_SCALARS = {"integer": "number", "number": "number", "boolean": "boolean", "null": "null", "string": "string"}


def render_types() -> str:
    """Return the file as the document of this version has it."""
    with TemporaryDirectory() as folder:
        document = create_app(Settings.load(store={"data_dir": folder})).openapi()
    schemas = document["components"]["schemas"]
    shapes = (f"  {json.dumps(name)}: {_type_of(schemas[name], '  ')};" for name in sorted(schemas))
    return "\n".join([_HEAD, "export interface Schemas {", *shapes, "}", ""])


def _type_of(schema: dict[str, Any], indent: str) -> str:
    if "$ref" in schema:
        return f"Schemas[{json.dumps(schema['$ref'].rpartition('/')[2])}]"
    if "const" in schema:
        return json.dumps(schema["const"])
    if "enum" in schema:
        return " | ".join(json.dumps(value) for value in schema["enum"])
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return " | ".join(dict.fromkeys(_type_of(part, indent) for part in schema[key]))
    if "allOf" in schema:
        return " & ".join(_type_of(part, indent) for part in schema["allOf"])
    kind = schema.get("type")
    if kind == "array":
        return f"({_type_of(schema.get('items', {}), indent)})[]"
    if kind == "object" or "properties" in schema:
        return _object(schema, indent)
    return _SCALARS.get(str(kind), "unknown")


def _object(schema: dict[str, Any], indent: str) -> str:
    properties = schema.get("properties", {})
    if not properties:
        more = schema.get("additionalProperties")
        return f"Record<string, {_type_of(more, indent) if isinstance(more, dict) else 'unknown'}>"
    needed = set(schema.get("required", ()))
    lines = ["{"]
    for name, value in properties.items():
        if text := value.get("description"):
            lines.append(f"{indent}  /** {text} */")
        # What has a default is always in a reply; requests are typed as `Partial` where they are made.
        mark = "" if name in needed or "default" in value else "?"
        key = name if name.isidentifier() else json.dumps(name)
        lines.append(f"{indent}  {key}{mark}: {_type_of(value, indent + '  ')};")
    return "\n".join([*lines, f"{indent}}}"])


if __name__ == "__main__":
    TARGET.write_text(render_types(), "utf-8")
