"""The graph as LightRAG's clients read it: nodes named by entity, edges between names, properties in its words.

What LightRAG joins by `<SEP>` or commas is joined so here too. Its `source_id` and `file_path` are the chunks and
sources that mention a thing; at most the first 75 sources are told.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, Field

from heliograph.models import FIELD_SEPARATOR, Entity, Relation

_MOST_SOURCES = 75
_MANUAL = "manual_creation"


class KnowledgeGraphNode(BaseModel):
    """An entity."""

    id: str = Field(description="Name of the entity.")
    labels: list[str] = Field(description="Its name.")
    properties: dict[str, Any] = Field(description="What is known of it.")


class KnowledgeGraphEdge(BaseModel):
    """A relation; it has no direction, though LightRAG calls it directed."""

    id: str = Field(description="Both names, joined by a dash.")
    type: str = Field(description="Always `DIRECTED`.")
    source: str = Field(description="Name of one entity.")
    target: str = Field(description="Name of the other.")
    properties: dict[str, Any] = Field(description="What is known of it.")


class KnowledgeGraph(BaseModel):
    """A part of the graph."""

    nodes: list[KnowledgeGraphNode]
    edges: list[KnowledgeGraphEdge]
    is_truncated: bool = Field(description="Whether `max_nodes` left something out.")


class EntityExists(BaseModel):
    """Whether there is an entity."""

    exists: bool


def told_chunks(items: Iterable[Entity | Relation]) -> list[str]:
    """Return the chunks whose sources are told of these."""
    return list(dict.fromkeys(chunk for item in items for chunk in item.chunk_ids[:_MOST_SOURCES]))


def graph_body(
    entities: Sequence[Entity], relations: Sequence[Relation], sources: Mapping[str, str], *, is_truncated: bool
) -> dict[str, Any]:
    """Return a `KnowledgeGraph` as plain JSON.

    Args:
        entities: Its nodes.
        relations: Its edges; both ends are among the nodes.
        sources: Source per chunk of `told_chunks`.
        is_truncated: Whether something was left out.
    """
    names = {entity.id: entity.name for entity in entities}
    return {
        "nodes": [
            {"id": item.name, "labels": [item.name], "properties": entity_properties(item, sources)}
            for item in entities
        ],
        "edges": [_edge(item, names, sources) for item in relations],
        "is_truncated": is_truncated,
    }


def entity_properties(entity: Entity, sources: Mapping[str, str]) -> dict[str, Any]:
    """Return what LightRAG says of a node, and `aliases` beside it if there are any."""
    properties = {
        "entity_id": entity.name,
        "entity_type": entity.type,
        "description": entity.description,
        **_origin(entity, sources),
    }
    return properties | ({"aliases": FIELD_SEPARATOR.join(entity.aliases)} if entity.aliases else {})


def relation_properties(relation: Relation, sources: Mapping[str, str]) -> dict[str, Any]:
    """Return what LightRAG says of an edge."""
    return {
        "weight": relation.weight,
        "description": relation.description,
        "keywords": ",".join(relation.keywords),
        **_origin(relation, sources),
    }


def _edge(relation: Relation, names: Mapping[str, str], sources: Mapping[str, str]) -> dict[str, Any]:
    source, target = names[relation.source_id], names[relation.target_id]
    return {
        "id": f"{source}-{target}",
        "type": "DIRECTED",
        "source": source,
        "target": target,
        "properties": relation_properties(relation, sources),
    }


def _origin(item: Entity | Relation, sources: Mapping[str, str]) -> dict[str, Any]:
    files = dict.fromkeys(sources[chunk] for chunk in item.chunk_ids[:_MOST_SOURCES] if chunk in sources)
    return {
        "source_id": FIELD_SEPARATOR.join(item.chunk_ids) or _MANUAL,
        "file_path": FIELD_SEPARATOR.join(files) or _MANUAL,
        "created_at": item.created_at,
    }
