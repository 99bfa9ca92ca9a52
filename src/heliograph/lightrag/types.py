"""Parts of the graph as LightRAG's programs read them: the shapes of the service's replies."""

from __future__ import annotations

from heliograph.wire.graph import KnowledgeGraph, KnowledgeGraphEdge, KnowledgeGraphNode

__all__ = ["KnowledgeGraph", "KnowledgeGraphEdge", "KnowledgeGraphNode"]
