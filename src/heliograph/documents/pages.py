"""Pages put together into one text, with the place where each starts."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["join_pages"]


def join_pages(pages: Sequence[str]) -> tuple[str, tuple[int, ...]]:
    """Return the text of all pages, blank lines between them, and the offset at which each starts.

    A page without text starts where the next begins, or at the end. No page gives an empty text and no offset.
    """
    starts: list[int] = []
    pieces: list[str] = []
    position = 0
    for page in pages:
        body = page.strip("\n")
        starts.append(position)
        if body:
            pieces += [body, "\n\n"]
            position += len(body) + 2
    text = "".join(pieces)[:-1]
    return text, tuple(min(start, len(text)) for start in starts)
