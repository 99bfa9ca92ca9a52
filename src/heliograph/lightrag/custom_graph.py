"""A graph that a program made for `ainsert_custom_kg`, checked before anything of it is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from heliograph.ingest.given import GivenChunk, GivenEntity, GivenRelation
from heliograph.lightrag.rows import UNKNOWN, base_name
from heliograph.lightrag.utils import logger, sanitize_text_for_encoding
from heliograph.text.names import clean_name, entity_key

__all__ = ["CustomGraph"]


@dataclass(slots=True)
class CustomGraph:
    """A graph that a program made, checked: chunks by document and file, entities and relations by name.

    What is said by a chunk has its key; what is not has none, and `files` the path it came with.
    """

    documents: dict[tuple[str, str], list[GivenChunk]]
    entities: dict[str, GivenEntity]
    relations: dict[tuple[str, str], GivenRelation]
    files: dict[str, str]

    @classmethod
    def read(cls, given: Mapping[str, Any], full_doc_id: str | None) -> CustomGraph:
        """Read and check what `ainsert_custom_kg` is given.

        Raises:
            ValueError: A name is empty, a relation has one end, or a weight is too small.
        """
        graph = cls({}, {}, {}, {})
        keys: dict[str, str] = {}
        for index, row in enumerate(given.get("chunks", ())):
            source = str(row["source_id"])
            place = full_doc_id or source, base_name(row.get("file_path") or "custom_kg")
            text = sanitize_text_for_encoding(row["content"])
            keys[source] = str(index)
            if text and all(chunk.text != text for chunk in graph.documents.get(place, ())):
                graph.documents.setdefault(place, []).append(GivenChunk(text, str(index)))
        known = {chunk.key for chunks in graph.documents.values() for chunk in chunks}
        keys = {source: key for source, key in keys.items() if key in known}
        for index, row in enumerate(given.get("entities", ())):
            name = _graph_name(row["entity_name"], f"entities[{index}].entity_name")
            type_ = str(row.get("entity_type", ""))
            said = str(row.get("description", "No description provided"))
            key = keys.get(str(row.get("source_id", UNKNOWN)), "")
            if not key:
                logger.warning("the entity %r names no chunk of the graph as its source", name)
            graph.entities[entity_key(name)] = GivenEntity(name, "" if type_ == UNKNOWN else type_, said, key)
            graph.files[name] = base_name(row.get("file_path") or "custom_kg")
        for index, row in enumerate(given.get("relationships", ())):
            label = f"relationships[{index}]"
            ends = [_graph_name(row[name], f"{label}.{name}") for name in ("src_id", "tgt_id")]
            if entity_key(ends[0]) == entity_key(ends[1]):
                raise ValueError(f"Custom KG {label} relates {ends[0]!r} with itself; src_id and tgt_id must differ")
            source = row.get("source_id") or ""
            key = keys.get(str(source), "")
            weight = _graph_weight(row.get("weight", 1.0), label, least=1.0 if key else 0.0)
            words = [word.strip() for word in str(row.get("keywords", "")).split(",") if word.strip()]
            pair = min(map(entity_key, ends)), max(map(entity_key, ends))
            graph.relations[pair] = GivenRelation(ends[0], ends[1], str(row.get("description", "")), words, weight, key)
        return graph


def _graph_name(given: Any, label: str) -> str:
    name = clean_name(given) if isinstance(given, str) else ""
    if not name:
        raise ValueError(f"Custom KG {label} cannot be empty after normalization, got {given!r}")
    return name


def _graph_weight(given: Any, label: str, least: float) -> float:
    try:
        weight = float(given)
    except (TypeError, ValueError):
        weight = -1.0
    if not weight >= least or not weight > 0:
        raise ValueError(f"Custom KG {label} has the weight {given!r}; give a positive number of at least {least:g}")
    return weight
