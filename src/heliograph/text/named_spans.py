"""A name and where it stands in a text; and many of them, sorted and without overlaps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NameSpan:
    """A name and where it stands.

    Attributes:
        text: The name as it is written there, inner white space included.
        start: First character.
        end: One past the last character.
        type: `person`, `organization`, `location`, `event`, `content` (titles of works), `artifact` (products,
            technology, identifiers), `concept` (quoted and stressed terms), or `unknown`.
    """

    text: str
    start: int
    end: int
    type: str


def without_overlaps(spans: Iterable[NameSpan]) -> list[NameSpan]:
    """Return the spans in order of the text; of two that overlap, the one given first stays."""
    kept: list[NameSpan] = []
    taken: set[int] = set()
    for span in spans:
        places = range(span.start, span.end)
        if taken.isdisjoint(places):
            taken.update(places)
            kept.append(span)
    return sorted(kept, key=lambda span: span.start)


def spans_within(spans: Iterable[NameSpan], bounds: Sequence[tuple[int, int]]) -> Iterator[list[NameSpan]]:
    """Yield, for each `(start, end)`, the spans that lie within it; a span across an end is in none.

    Args:
        spans: Spans in any order.
        bounds: Stretches of text in order, without overlap.
    """
    ordered = sorted(spans, key=lambda span: span.start)
    index = 0
    for start, end in bounds:
        while index < len(ordered) and ordered[index].start < start:
            index += 1
        first = index
        while index < len(ordered) and ordered[index].start < end:
            index += 1
        yield [span for span in ordered[first:index] if span.end <= end]
