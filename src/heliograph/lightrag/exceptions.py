"""The exceptions that programs written for LightRAG catch by name; our own exceptions are unchanged."""

from __future__ import annotations

from heliograph.lightrag.query_validation import EmptyQueryError, QueryValidationError, RAGQueryTooShortError

__all__ = ["ChunkTokenLimitExceededError", "EmptyQueryError", "QueryValidationError", "RAGQueryTooShortError"]


class ChunkTokenLimitExceededError(ValueError):
    """A piece between two separators is longer than a chunk may be, and may only be split at separators."""

    def __init__(self, chunk_tokens: int, chunk_token_limit: int, chunk_preview: str | None = None) -> None:
        begins = f" (it begins {chunk_preview[:80]!r})" if chunk_preview else ""
        super().__init__(
            f"a piece has {chunk_tokens} tokens, more than {chunk_token_limit}{begins}; raise chunk_token_size, or "
            "leave split_by_character_only out"
        )
        self.chunk_tokens = chunk_tokens
        self.chunk_token_limit = chunk_token_limit
        self.chunk_preview = chunk_preview
