"""Leaving out what a model thought aloud before it replied.

Reasoning models put their thoughts between `<think>` and `</think>` at the start of a reply when the service does not
separate them. Tags later in a reply are text like any other.
"""

from __future__ import annotations

import re

_OPENINGS = {"<think>": "</think>", "<thinking>": "</thinking>"}


class ReasoningFilter:
    """Filters a reply that comes in pieces.

    However a text is cut into pieces, what comes out adds up to the same. Space before the first word is left out too.
    """

    def __init__(self) -> None:
        self._held = ""
        self._closing = ""
        self._is_passing = False

    def feed(self, piece: str) -> str:
        """Return what can be shown now that this piece has come; often all of it, sometimes nothing."""
        if self._is_passing:
            return piece
        self._held += piece
        while self._advance():
            pass
        return self._release() if self._is_passing else ""

    def finish(self) -> str:
        """Return what was held back in case it became a tag; thoughts that never closed are dropped."""
        return "" if self._closing else self._release()

    def _advance(self) -> bool:
        """Take one step through the held text; return whether another may follow."""
        if self._closing:
            return self._skip_thoughts()
        self._held = self._held.lstrip()
        start = self._held[: max(map(len, _OPENINGS))].lower()
        for opening, closing in _OPENINGS.items():
            if start.startswith(opening):
                self._held, self._closing = self._held[len(opening) :], closing
                return True
        self._is_passing = not any(opening.startswith(start) for opening in _OPENINGS)
        return False

    def _skip_thoughts(self) -> bool:
        found = re.search(re.escape(self._closing), self._held, re.IGNORECASE)
        if found is None:
            # All but what may be the beginning of the closing tag can go.
            self._held = self._held[-(len(self._closing) - 1) :]
            return False
        self._held, self._closing = self._held[found.end() :], ""
        return True

    def _release(self) -> str:
        held, self._held = self._held, ""
        return held


def strip_reasoning(text: str) -> str:
    """Return a whole reply without the thoughts at its start."""
    reasoning = ReasoningFilter()
    return reasoning.feed(text) + reasoning.finish()
