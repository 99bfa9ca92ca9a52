"""The text that stands for a chunk wherever it is found: by its vector, and by its terms.

A chunk is indexed under its document's title and its section's headings, so that a passage that never names its
subject is still found by it; what the passage says itself is not repeated.
"""

from __future__ import annotations

from heliograph.models import Chunk

__all__ = ["chunk_index_text"]

_MAX_PREFIX_LENGTH = 300


def chunk_index_text(title: str, chunk: Chunk) -> str:
    """Return the text that stands for a chunk: title and headings that it does not contain, a line feed, its text."""
    path = dict.fromkeys(part for part in (title, *chunk.headings) if part and not _says(chunk.text, part))
    prefix = " > ".join(path)[:_MAX_PREFIX_LENGTH].rstrip()
    return f"{prefix}\n{chunk.text}" if prefix else chunk.text


def _says(text: str, title: str) -> bool:
    """Whether a text contains a title, not merely as a part of longer words."""
    start = text.find(title)
    while start >= 0:
        end = start + len(title)
        if not (_is_within_word(text, start) or _is_within_word(text, end)):
            return True
        start = text.find(title, start + 1)
    return False


def _is_within_word(text: str, index: int) -> bool:
    # Chinese has no spaces between words, so only letters of ASCII are taken to belong together.
    around = text[max(0, index - 1) : index + 1]
    return len(around) == 2 and index > 0 and around.isascii() and around.isalnum()
