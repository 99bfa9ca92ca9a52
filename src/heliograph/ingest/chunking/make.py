"""The chunker that the settings ask for."""

from __future__ import annotations

from collections.abc import Mapping

from heliograph.embedding.base import EmbeddingInfo
from heliograph.ingest.chunking.base import SpanChunker
from heliograph.ingest.chunking.structure import MarkdownChunker, SemanticChunker
from heliograph.ingest.chunking.tokens import TokenChunker
from heliograph.settings import IngestSettings

__all__ = ["make_chunker"]

_STRATEGIES: Mapping[str, type[SpanChunker]] = {
    # Retrieval finds most with it, on Markdown too (`python -m benchmarks chunking`).
    "auto": SemanticChunker,
    "tokens": TokenChunker,
    "semantic": SemanticChunker,
    "markdown": MarkdownChunker,
}
_CHAT_CHUNK_TOKENS = 1200
# Tokens of o200k_base per token of the embedding's window. Measured with multilingual-e5-small on its 512: 99 of 100
# chunks of dense English Markdown fit together with their title, prose and Chinese always do.
_TOKENS_PER_EMBEDDING_TOKEN = 0.68
# The overlap of small chunks is at most this part of them: every shared token is embedded twice.
_LARGEST_OVERLAP_PART = 8


def make_chunker(settings: IngestSettings, embedding: EmbeddingInfo, *, extracts_by_chat: bool) -> SpanChunker:
    """Return the chunker that the settings ask for.

    Without a size of their own, chunks have 1200 tokens where a chat model reads them, else what fits the embedding's
    window; and there the overlap is at most an eighth of a chunk.

    Raises:
        SettingsError: Size, overlap and separator do not go together.
    """
    max_tokens, overlap = settings.chunk_tokens, settings.overlap_tokens
    if not max_tokens:
        fitting = max(1, int(embedding.max_input_tokens * _TOKENS_PER_EMBEDDING_TOKEN))
        max_tokens = _CHAT_CHUNK_TOKENS if extracts_by_chat else min(_CHAT_CHUNK_TOKENS, fitting)
        if max_tokens < _CHAT_CHUNK_TOKENS:
            overlap = min(overlap, max_tokens // _LARGEST_OVERLAP_PART)
    strategy = _STRATEGIES[settings.chunking]
    return strategy(max_tokens, overlap, settings.split_by, split_by_only=settings.split_by_only)
