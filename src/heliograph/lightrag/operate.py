"""The module from which older programs import the chunking function; in LightRAG 1.5.7 it is `lightrag.chunker`."""

from heliograph.lightrag.chunker import chunking_by_token_size

__all__ = ["chunking_by_token_size"]
