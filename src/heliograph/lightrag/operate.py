"""Where older programs import the cutting of texts from; in LightRAG 1.5.7 it is `lightrag.chunker`."""

from heliograph.lightrag.chunker import chunking_by_token_size

__all__ = ["chunking_by_token_size"]
