"""Where the pages of a document start in its text, from what a caller hands over to what is stored.

Offsets go in as given, with the text as it came; out come clean text and offsets into it. Page `n` starts at the
offset with index `n - 1`; offsets never go down, and a page without text starts where the next one does.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate, pairwise

from heliograph.documents.cleaning import clean_text
from heliograph.errors import InvalidRequestError

__all__ = ["clean_pages", "page_at"]


def clean_pages(text: str, page_starts: Sequence[int], label: str) -> tuple[str, tuple[int, ...]]:
    """Return the clean text, the same as without pages, and where each page starts in it.

    Args:
        text: As given.
        page_starts: Offsets into it, never going down, between 0 and its length; may be empty.
        label: How errors call the document.

    Raises:
        InvalidRequestError: The offsets are not like that.
    """
    if not page_starts:
        return clean_text(text), ()
    _check(text, page_starts, label)
    cuts = [_outside_pairs(text, start) for start in page_starts]
    pieces = [clean_text(text[start:end]) for start, end in pairwise((0, *cuts, len(text)))]
    return "".join(pieces), tuple(accumulate(len(piece) for piece in pieces[:-1]))


def page_at(page_starts: Sequence[int], index: int) -> int | None:
    """Return the number, from 1, of the page that holds a character; None before the first page or without pages."""
    return bisect_right(page_starts, index) or None


def _check(text: str, page_starts: Sequence[int], label: str) -> None:
    is_number = all(isinstance(start, int) for start in page_starts)  # pyright: ignore[reportUnnecessaryIsInstance]
    if is_number and all(low <= high for low, high in pairwise((0, *page_starts, len(text)))):
        return
    raise InvalidRequestError(
        f"the page_starts of the document {label!r} are not ascending offsets into its {len(text):,} characters; "
        "give the offset at which each page starts, in order"
    )


def _outside_pairs(text: str, start: int) -> int:
    """Return the offset, moved behind two characters that are cleaned as one: CR LF, or a pair of surrogates."""
    before, after = text[max(0, start - 1) : start], text[start : start + 1]
    is_surrogate_pair = "\ud800" <= before <= "\udbff" and "\udc00" <= after <= "\udfff"
    return start + 1 if (before, after) == ("\r", "\n") or is_surrogate_pair else start
