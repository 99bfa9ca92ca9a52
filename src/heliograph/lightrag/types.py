"""Parts of the graph as LightRAG's programs read them: nodes and edges with their properties."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field


class KnowledgeGraphNode(BaseModel):
    """An entity; `labels` holds its name."""

    id: str
    labels: list[str]
    properties: dict[str, Any]


class KnowledgeGraphEdge(BaseModel):
    """A relation, which has no direction though its `type` says so."""

    id: str
    type: str | None
    source: str
    target: str
    properties: dict[str, Any]


class KnowledgeGraph(BaseModel):
    """A part of the graph; `is_truncated` says whether a limit left something out."""

    nodes: list[KnowledgeGraphNode] = Field(default_factory=list[KnowledgeGraphNode])
    edges: list[KnowledgeGraphEdge] = Field(default_factory=list[KnowledgeGraphEdge])
    is_truncated: bool = False
