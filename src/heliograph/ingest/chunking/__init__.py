"""Cutting a document's text into chunks: one contract, three strategies, and the choice between them."""

from heliograph.ingest.chunking.base import Chunker, SpanChunker
from heliograph.ingest.chunking.make import make_chunker
from heliograph.ingest.chunking.structure import MarkdownChunker, SemanticChunker
from heliograph.ingest.chunking.tokens import TokenChunker

__all__ = ["Chunker", "MarkdownChunker", "SemanticChunker", "SpanChunker", "TokenChunker", "make_chunker"]
