"""Cutting a document's text into chunks.

Clean text goes in; chunks come out in order, each exactly a span of the text without white space at its ends. Together
they cover all that is not white space (but separators they were split on), and none has more than `max_tokens` tokens.
Ids depend on the document and on a chunk's own text alone, so that an update keeps the chunks that did not change.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from heliograph.documents.markdown import Heading, find_headings
from heliograph.embedding.base import EmbeddingInfo
from heliograph.errors import IngestError, SettingsError
from heliograph.ids import chunk_id
from heliograph.models import Chunk
from heliograph.settings import IngestSettings
from heliograph.text.tokens import count_tokens, token_ends

__all__ = ["Chunker", "TokenChunker", "make_chunker"]

_CHAT_CHUNK_TOKENS = 1200
# Tokens of o200k_base per token of the embedding's window. Measured with multilingual-e5-small on its 512: 99 of 100
# chunks of dense English Markdown fit together with their title, prose and Chinese always do.
_TOKENS_PER_EMBEDDING_TOKEN = 0.68
# Texts up to this length are first counted as a whole: most of them are one chunk.
_SHORT_CHARACTERS_PER_TOKEN = 8
# The overlap of small chunks is at most this part of them: every shared token is embedded twice.
_LARGEST_OVERLAP_PART = 8


class Chunker(ABC):
    """Cuts texts. Implementations keep nothing between calls and may run in any thread."""

    @abstractmethod
    def chunk(self, document_id: str, text: str) -> list[Chunk]:
        """Return the chunks of a text in order; blank text gives none. Takes CPU time in proportion to the text.

        Raises:
            IngestError: The text cannot be cut under the rules of this chunker.
        """


class TokenChunker(Chunker):
    """Windows of `max_tokens` tokens that share `overlap_tokens` with the one before."""

    def __init__(
        self, max_tokens: int, overlap_tokens: int = 0, split_by: str = "", *, split_by_only: bool = False
    ) -> None:
        """Keep the rules.

        Args:
            max_tokens: o200k_base tokens of a chunk at the most.
            overlap_tokens: Tokens shared by neighbours; fewer than `max_tokens`.
            split_by: Split on this first; each piece is cut on its own, and the separator belongs to none.
            split_by_only: Never cut elsewhere.

        Raises:
            SettingsError: These do not go together.
        """
        if max_tokens < 1 or not 0 <= overlap_tokens < max_tokens:
            raise SettingsError(
                f"chunks of {max_tokens} tokens cannot overlap by {overlap_tokens}; "
                "set ingest.overlap_tokens below ingest.chunk_tokens"
            )
        if split_by_only and not split_by:
            raise SettingsError("ingest.split_by_only needs a separator; set ingest.split_by")
        self.max_tokens = max_tokens
        self.overlap_tokens = overlap_tokens
        self._split_by = split_by
        self._split_by_only = split_by_only

    def chunk(self, document_id: str, text: str) -> list[Chunk]:
        """See `Chunker`.

        Raises:
            IngestError: A piece is too long, and it may be split on the separator only.
        """
        paths = _HeadingPaths(text)
        occurrences: Counter[str] = Counter()
        chunks: list[Chunk] = []
        for start, end, token_count in self._spans(document_id, text):
            piece = text[start:end]
            id_ = chunk_id(document_id, piece, occurrences[piece])
            occurrences[piece] += 1
            chunks.append(Chunk(id_, document_id, len(chunks), piece, token_count, start, end, paths.at(start)))
        return chunks

    def _spans(self, document_id: str, text: str) -> Iterator[tuple[int, int, int]]:
        if not self._split_by:
            yield from self._windows(text, 0)
            return
        for start, piece in _pieces(text, self._split_by):
            if self._split_by_only and (count := count_tokens(piece.strip())) > self.max_tokens:
                raise IngestError(
                    f"the document {document_id!r} has a piece of {count} tokens at character {start}, more than "
                    f"{self.max_tokens}; raise ingest.chunk_tokens, or set ingest.split_by_only to false"
                )
            yield from self._windows(piece, start)

    def _windows(self, text: str, offset: int) -> Iterator[tuple[int, int, int]]:
        """Yield (start, end, tokens) per window, shifted by `offset`; a tail inside the last overlap is left out."""
        start, end = _trim(text, 0, len(text))
        if end - start <= self.max_tokens * _SHORT_CHARACTERS_PER_TOKEN:
            token_count = count_tokens(text[start:end])
            if token_count <= self.max_tokens:
                if token_count:
                    yield offset + start, offset + end, token_count
                return
        yield from self._cut(text, offset)

    def _cut(self, text: str, offset: int) -> Iterator[tuple[int, int, int]]:
        ends = token_ends(text)
        first = 0
        while first < len(ends):
            last, start, end, token_count = self._window(text, ends, first)
            if start < end:
                yield offset + start, offset + end, token_count
            first = last if last == len(ends) else max(first + 1, last - self.overlap_tokens)

    def _window(self, text: str, ends: NDArray[np.int64], first: int) -> tuple[int, int, int, int]:
        """Return the window from token `first` on: one past its last token, its span and its tokens."""
        last = min(first + self.max_tokens, len(ends))
        while True:
            start, end = _trim(text, int(ends[first - 1]) if first else 0, int(ends[last - 1]))
            token_count = count_tokens(text[start:end])
            # Cut out of its surroundings, a text may encode into more tokens than it had there.
            excess = token_count - self.max_tokens
            if excess <= 0 or last == first + 1:
                return last, start, end, token_count
            last = max(first + 1, last - excess)


class _HeadingPaths:
    """The headings in force at every place of a text."""

    def __init__(self, text: str) -> None:
        self._starts: list[int] = []
        self._paths: list[tuple[str, ...]] = []
        open_headings: list[Heading] = []
        for heading in find_headings(text):
            while open_headings and open_headings[-1].level >= heading.level:
                open_headings.pop()
            open_headings.append(heading)
            self._starts.append(heading.start)
            self._paths.append(tuple(item.title for item in open_headings))

    def at(self, index: int) -> tuple[str, ...]:
        """Return the titles in force at a character, outermost first."""
        place = bisect_right(self._starts, index)
        return self._paths[place - 1] if place else ()


def make_chunker(settings: IngestSettings, embedding: EmbeddingInfo, *, extracts_by_chat: bool) -> TokenChunker:
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
    return TokenChunker(max_tokens, overlap, settings.split_by, split_by_only=settings.split_by_only)


def _pieces(text: str, separator: str) -> Iterator[tuple[int, str]]:
    start = 0
    for piece in text.split(separator):
        yield start, piece
        start += len(piece) + len(separator)


def _trim(text: str, start: int, end: int) -> tuple[int, int]:
    piece = text[start:end]
    start += len(piece) - len(piece.lstrip())
    return start, start + len(piece.strip())
