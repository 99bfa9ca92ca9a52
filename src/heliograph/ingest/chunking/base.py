"""The contract of chunkers, and what all of them share: the separator, ids, headings and pages.

Clean text goes in; chunks come out in order, each exactly a span of the text without white space at its ends. Together
they cover all that is not white space (but separators they were split on), and none has more than `max_tokens` tokens,
unless a single character has. Ids depend on the document and on a chunk's own text alone, so that an update keeps the
chunks that did not change. Which spans they are is up to the strategy.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from heliograph.errors import IngestError, SettingsError
from heliograph.ids import chunk_id
from heliograph.ingest.chunking.headings import HeadingPaths
from heliograph.ingest.pages import page_at
from heliograph.models import Chunk
from heliograph.text.tokens import count_tokens

__all__ = ["Chunker", "Span", "SpanChunker", "trim", "whole_span"]

# Texts up to this length are first counted as a whole: most of them are one chunk.
_SHORT_CHARACTERS_PER_TOKEN = 8


class Chunker(ABC):
    """Cuts texts. Implementations keep nothing between calls and may run in any thread."""

    @abstractmethod
    def chunk(self, document_id: str, text: str, page_starts: Sequence[int] = ()) -> list[Chunk]:
        """Return the chunks of a text in order; blank text gives none. Takes CPU time in proportion to the text.

        Args:
            document_id: The document that holds them.
            text: Its clean text.
            page_starts: Offsets in it at which pages 1, 2, ... start; empty where it has none.

        Raises:
            IngestError: The text cannot be cut under the rules of this chunker.
        """


@dataclass(frozen=True, slots=True)
class Span:
    """A chunk to be: its first character, one past its last, and the o200k_base tokens between."""

    start: int
    end: int
    token_count: int


class SpanChunker(Chunker):
    """A chunker that only has to find spans; subclasses say how `spans` are found in a text."""

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

    def chunk(self, document_id: str, text: str, page_starts: Sequence[int] = ()) -> list[Chunk]:
        """See `Chunker`.

        Raises:
            IngestError: A piece is too long, and it may be split on the separator only.
        """
        paths = HeadingPaths(text)
        occurrences: Counter[str] = Counter()
        chunks: list[Chunk] = []
        for span in self._all_spans(document_id, text):
            piece = text[span.start : span.end]
            chunks.append(
                Chunk(
                    *(chunk_id(document_id, piece, occurrences[piece]), document_id, len(chunks), piece),
                    *(span.token_count, span.start, span.end, paths.at(span.start), page_at(page_starts, span.start)),
                )
            )
            occurrences[piece] += 1
        return chunks

    @abstractmethod
    def spans(self, text: str) -> Iterator[Span]:
        """Yield the spans of a text, or of a piece between separators, in order."""

    def _all_spans(self, document_id: str, text: str) -> Iterator[Span]:
        for offset, piece in _pieces(text, self._split_by):
            if self._split_by_only and (count := count_tokens(piece.strip())) > self.max_tokens:
                raise IngestError(
                    f"the document {document_id!r} has a piece of {count} tokens at character {offset}, more than "
                    f"{self.max_tokens}; raise ingest.chunk_tokens, or set ingest.split_by_only to false"
                )
            whole = whole_span(piece, self.max_tokens)
            found = self.spans(piece) if whole is None else iter((whole,))
            for span in found:
                if span.token_count:
                    yield Span(offset + span.start, offset + span.end, span.token_count)


def whole_span(text: str, max_tokens: int) -> Span | None:
    """Return the span of all that is not white space, if it is short enough for one chunk; else None."""
    start, end = trim(text, 0, len(text))
    if end - start > max_tokens * _SHORT_CHARACTERS_PER_TOKEN:
        return None
    count = count_tokens(text[start:end])
    return Span(start, end, count) if count <= max_tokens else None


def trim(text: str, start: int, end: int) -> tuple[int, int]:
    """Return a span without the white space at its ends; an empty one if there is nothing else."""
    piece = text[start:end]
    start += len(piece) - len(piece.lstrip())
    return start, start + len(piece.strip())


def _pieces(text: str, separator: str) -> Iterator[tuple[int, str]]:
    start = 0
    for piece in text.split(separator) if separator else (text,):
        yield start, piece
        start += len(piece) + len(separator)
