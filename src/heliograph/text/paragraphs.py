"""Where a text may turn to another topic: at its paragraphs.

A heading goes with the paragraph below it; lists, tables, quotations and code go with what stands before them.
"""

from __future__ import annotations

import re

__all__ = ["paragraph_starts"]

_START = re.compile(r"(?:\A|\n[ \t]*\n|\n(?=#{1,6}[ \t]))\s*(?=\S)")
_HEADING_ALONE = re.compile(r"#{1,6}[ \t][^\n]*\s*")
_NO_START = re.compile(r"[-*+•·][ \t]|\d{1,3}(?:[.)][ \t]|、)|[|>]|```|~~~")


def paragraph_starts(text: str) -> list[int]:
    """Return the first character of each paragraph; the first one is where the text begins, whatever that is."""
    starts: list[int] = []
    before = 0
    for match in _START.finditer(text):
        start = match.end()
        stands_below = _HEADING_ALONE.fullmatch(text, before, start) is not None
        if not starts or not (stands_below or _NO_START.match(text, start)):
            starts.append(start)
        before = start
    return starts
