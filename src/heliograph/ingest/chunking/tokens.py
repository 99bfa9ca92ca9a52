"""Windows of tokens: the strategy that looks at nothing but length, as LightRAG cuts."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from heliograph.ingest.chunking.base import Span, SpanChunker, trim
from heliograph.text.tokens import count_tokens, token_ends

__all__ = ["TokenChunker", "token_windows"]


class TokenChunker(SpanChunker):
    """Windows of `max_tokens` tokens that share `overlap_tokens` with the one before."""

    def spans(self, text: str) -> Iterator[Span]:
        """See `SpanChunker`; a tail inside the last overlap is left out."""
        return token_windows(text, self.max_tokens, self.overlap_tokens)


def token_windows(text: str, max_tokens: int, overlap_tokens: int = 0) -> Iterator[Span]:
    """Yield windows of at most `max_tokens` tokens, blank ones left out, that overlap by so many where they can.

    A single character of more tokens is a window all the same.
    """
    ends = token_ends(text)
    first = 0
    while first < len(ends):
        last, span = _window(text, ends, first, max_tokens)
        if span.start < span.end:
            yield span
        first = last if last == len(ends) else max(first + 1, last - overlap_tokens)


def _window(text: str, ends: NDArray[np.int64], first: int, max_tokens: int) -> tuple[int, Span]:
    """Return the window from token `first` on, and one past its last token."""
    last = min(first + max_tokens, len(ends))
    while True:
        start, end = trim(text, int(ends[first - 1]) if first else 0, int(ends[last - 1]))
        token_count = count_tokens(text[start:end])
        # Cut out of its surroundings, a text may encode into more tokens than it had there.
        excess = token_count - max_tokens
        if excess <= 0 or last == first + 1:
            return last, Span(start, end, token_count)
        last = max(first + 1, last - excess)
