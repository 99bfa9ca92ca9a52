"""Names of constants that programs import from LightRAG."""

from __future__ import annotations

from heliograph.models import FIELD_SEPARATOR

__all__ = ["DEFAULT_CHUNK_TOP_K", "DEFAULT_TOP_K", "GRAPH_FIELD_SEP"]

GRAPH_FIELD_SEP = FIELD_SEPARATOR
DEFAULT_TOP_K = 40
DEFAULT_CHUNK_TOP_K = 20
