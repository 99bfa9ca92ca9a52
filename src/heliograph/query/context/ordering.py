"""The order in which chunks are written into a context, and which of them a budget must spare.

Chunks found by fusion come best first; for reading, what belongs together stands together: a chunk that was reached
over a bridge behind the chunks that led to it, and chunks of one document in the document's order. The chunks
themselves stay ranked; only the text is ordered. In the modes of LightRAG text and ranking are the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from heliograph.models import Chunk

# Hits among which a chain counts as what the question needs.
_HEAD = 5


def evidence_order(chunks: Sequence[Chunk], chains: Mapping[str, Sequence[str]]) -> list[int]:
    """Return the places of the chunks in the order of reading; every place once.

    Args:
        chunks: Chunks, best first.
        chains: Per chunk that was reached over bridges, the chunks passed on the way to it, the first hit first.
    """
    places = {chunk.id: place for place, chunk in enumerate(chunks)}
    of_document: dict[str, list[int]] = {}
    for place, chunk in enumerate(chunks):
        of_document.setdefault(chunk.document_id, []).append(place)
    ends: dict[str, list[str]] = {}
    for chunk in chunks:
        for passed in chains.get(chunk.id, ())[:1]:
            ends.setdefault(passed, []).append(chunk.id)
    order: dict[int, None] = {}
    for chunk in chunks:
        # The chain that leads here, the chunk itself, then the chains that set out from it, the best end first.
        ways = [(*chains.get(chunk.id, ()), chunk.id), *((*chains[end], end) for end in ends.get(chunk.id, ()))]
        group = [places[id_] for way in ways for id_ in way if id_ in places and places[id_] not in order]
        for place in group:
            order.update(
                dict.fromkeys(sorted(of_document[chunks[place].document_id], key=lambda other: chunks[other].position))
            )
    return [*dict.fromkeys(order)]


def needed_chunks(ranked: Sequence[str], chains: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Return the chunks of every hop of the best chain: the first hit, what was passed, and what was reached.

    Empty if none of the first five was reached over a bridge.

    Args:
        ranked: Chunk ids, best first.
        chains: As in `evidence_order`.
    """
    reached = next((id_ for id_ in ranked[:_HEAD] if chains.get(id_)), None)
    return () if reached is None else tuple(dict.fromkeys((*chains[reached], reached)))
