"""GraphML, as Gephi, yEd, Cytoscape and NetworkX read it; attributes are named as LightRAG names them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from heliograph.maintenance.export.contents import Contents
from heliograph.models import FIELD_SEPARATOR

__all__ = ["export_graphml"]

# Characters that no XML document may hold, escaped or not.
_ILLEGAL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_KEYS = (
    *(("entity_id", "node", "string"), ("entity_type", "node", "string"), ("description", "node", "string")),
    *(("source_id", "node", "string"), ("file_path", "node", "string"), ("created_at", "node", "long")),
    *(("weight", "edge", "double"), ("description", "edge", "string"), ("keywords", "edge", "string")),
    *(("source_id", "edge", "string"), ("file_path", "edge", "string"), ("created_at", "edge", "long")),
)
# A parser makes a line feed of it.
_KEPT = {"\r": "&#13;"}
_IDS = {(name, kind): f"d{number}" for number, (name, kind, _) in enumerate(_KEYS)}


async def export_graphml(contents: Contents, path: Path) -> int:
    """Write the graph into a new file; return how many entities and relations there are."""
    count = 0
    with path.open("x", encoding="utf-8", newline="\n") as file:
        file.write('<?xml version="1.0" encoding="UTF-8"?>\n<graphml xmlns="http://graphml.graphdrawing.org/xmlns">\n')
        for name, kind, type_ in _KEYS:
            file.write(f'  <key id="{_IDS[name, kind]}" for="{kind}" attr.name="{name}" attr.type="{type_}"/>\n')
        file.write('  <graph edgedefault="undirected">\n')
        async for item in contents.entities():
            values = {
                "entity_id": item.name,
                "entity_type": item.type,
                "description": item.description,
                "source_id": FIELD_SEPARATOR.join(item.chunk_ids),
                "file_path": FIELD_SEPARATOR.join(await contents.sources(item.chunk_ids)),
                "created_at": item.created_at,
            }
            file.write(f"    <node id={_quoted(item.name)}>{_data('node', values)}</node>\n")
            count += 1
        async for page in contents.relation_pages():
            for relation in page:
                values = {
                    "weight": relation.weight,
                    "description": relation.description,
                    "keywords": ",".join(relation.keywords),
                    "source_id": FIELD_SEPARATOR.join(relation.chunk_ids),
                    "file_path": FIELD_SEPARATOR.join(await contents.sources(relation.chunk_ids)),
                    "created_at": relation.created_at,
                }
                ends = f"source={_quoted(relation.source)} target={_quoted(relation.target)}"
                file.write(f"    <edge {ends}>{_data('edge', values)}</edge>\n")
                count += 1
        file.write("  </graph>\n</graphml>\n")
    return count


def _data(kind: str, values: Mapping[str, Any]) -> str:
    parts = ((_IDS[name, kind], escape(_legal(str(value)), _KEPT)) for name, value in values.items())
    return "".join(f'<data key="{id_}">{value}</data>' for id_, value in parts)


def _quoted(text: str) -> str:
    return quoteattr(_legal(text))


def _legal(text: str) -> str:
    return _ILLEGAL.sub("\ufffd", text)
