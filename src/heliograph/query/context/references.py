"""Numbering the documents that a context quotes.

Source: LightRAG. The document with most chunks in the context is reference 1; among equals, the one met first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from heliograph.query.retrieved import Reference

MAX_SOURCES = 75


def number_sources(
    sources: Iterable[str], others: Mapping[str, tuple[str, ...]] | None = None
) -> tuple[Reference, ...]:
    """Return one reference per source, given the source of every chunk in order; an empty source gets none.

    Args:
        sources: One per chunk.
        others: Per source those of documents with the same text.
    """
    # A counter keeps first-met order and its `most_common` is stable.
    counts = Counter(source for source in sources if source).most_common()
    return tuple(
        Reference(str(number), source, count, (others or {}).get(source, ()))
        for number, (source, count) in enumerate(counts, start=1)
    )


def sources_of(chunk_ids: Sequence[str], sources: Mapping[str, str]) -> tuple[str, ...]:
    """Return the sources of an entity's or relation's first 75 chunks, each once, in order."""
    if len(chunk_ids) == 1:
        source = sources.get(chunk_ids[0])
        return (source,) if source else ()
    found = dict.fromkeys(map(sources.get, chunk_ids[:MAX_SOURCES]))
    return tuple([source for source in found if source])


def first_reference(sources: Sequence[str], numbers: Mapping[str, int]) -> str:
    """Return the id of the first reference among these sources, or an empty string if none is one."""
    if len(sources) == 1:
        number = numbers.get(sources[0])
        return str(number) if number else ""
    found = [numbers[source] for source in sources if source in numbers]
    return str(min(found)) if found else ""
