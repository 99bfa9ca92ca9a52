"""The headings in force at every place of a text."""

from __future__ import annotations

from bisect import bisect_right

from heliograph.documents.markdown import Heading, find_headings

__all__ = ["HeadingPaths"]


class HeadingPaths:
    """Titles and level of the section around each character.

    Attributes:
        headings: All headings of the text, in order.
    """

    def __init__(self, text: str) -> None:
        self.headings = find_headings(text)
        self._starts = [heading.start for heading in self.headings]
        self._paths: list[tuple[str, ...]] = []
        open_headings: list[Heading] = []
        for heading in self.headings:
            while open_headings and open_headings[-1].level >= heading.level:
                open_headings.pop()
            open_headings.append(heading)
            self._paths.append(tuple(item.title for item in open_headings))

    def at(self, index: int) -> tuple[str, ...]:
        """Return the titles in force at a character, outermost first."""
        place = bisect_right(self._starts, index)
        return self._paths[place - 1] if place else ()

    def level_at(self, index: int) -> int:
        """Return the level of the innermost heading in force at a character; 0 before the first."""
        place = bisect_right(self._starts, index)
        return self.headings[place - 1].level if place else 0
