"""What becomes of parts that are too small for a chunk: they join a neighbour, and nothing is lost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from heliograph.ingest.chunking.blocks import Strength, heading_strength
from heliograph.ingest.chunking.headings import HeadingPaths

__all__ = ["Core", "Joining"]

# A chunk of less than this part of the longest one is too small.
_SMALL_PART = 5


@dataclass(frozen=True, slots=True)
class Core:
    """A chunk without its overlap.

    Attributes:
        start: First character.
        end: Where the next one starts.
        strength: How good the place before it was for a cut.
    """

    start: int
    end: int
    strength: int


@dataclass(frozen=True, slots=True)
class Joining:
    """The rules by which neighbours are joined.

    Attributes:
        max_tokens: Tokens of a chunk at the most.
        overlap_tokens: Tokens to leave free for the overlap, but in chunks that begin with a section.
        paths: Sections; one may only join what begins in the same parent, or the beginning of that parent.
    """

    max_tokens: int
    overlap_tokens: int
    paths: HeadingPaths

    def is_small(self, token_count: int) -> bool:
        """Whether a chunk of so many tokens should join a neighbour."""
        return token_count < self.max_tokens // _SMALL_PART

    def join(self, cores: Sequence[Core], places: Sequence[int]) -> list[Core]:
        """Return the cores, each small one joined with the neighbour from which it was parted at the weaker place.

        A small one that fits into neither stays as it is.

        Args:
            cores: In order, without gaps.
            places: Tokens before each, and in all.
        """
        joined: list[tuple[int, int]] = []
        for index in range(len(cores)):
            if joined and self._joins(cores, places, joined[-1][0], index):
                joined[-1] = joined[-1][0], index + 1
            else:
                joined.append((index, index + 1))
        return [Core(cores[first].start, cores[last - 1].end, cores[first].strength) for first, last in joined]

    def _joins(self, cores: Sequence[Core], places: Sequence[int], first: int, index: int) -> bool:
        """Whether the core `index` joins the group that begins with `first` and ends before it."""
        if not self._may_join(cores, places, first, index):
            return False
        if self.is_small(places[index] - places[first]):
            return True
        if not self.is_small(places[index + 1] - places[index]):
            return False
        following = index + 1
        is_nearer = following < len(cores) and cores[following].strength < cores[index].strength
        return not (is_nearer and self._may_join(cores, places, index, following))

    def _may_join(self, cores: Sequence[Core], places: Sequence[int], first: int, index: int) -> bool:
        strength = cores[index].strength
        if strength >= Strength.HEADING and heading_strength(self.paths.level_at(cores[first].start)) < strength:
            return False
        begins_section = first == 0 or cores[first].strength >= Strength.HEADING
        limit = self.max_tokens if begins_section else self.max_tokens - self.overlap_tokens
        return places[index + 1] - places[first] < limit
