"""Sharing out LightRAG's entities and relations over the chunks that they come from.

LightRAG keeps what all chunks together say of a thing; here each chunk says its own. So the descriptions of a thing go
to its chunks in canonical order, which is the order that the fold joins them in, and its weight is divided among them
in whole millionths. Folding that again gives the type, the descriptions and the weight that were there.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from heliograph.ids import mention_rank
from heliograph.ingest.mentions import UNKNOWN_TYPE, canonical_extraction
from heliograph.maintenance.importing.lightrag_graph import GraphEdge, GraphNode
from heliograph.models import FIELD_SEPARATOR, Chunk, EntityMention, Extraction, RelationMention
from heliograph.text.names import entity_key

__all__ = ["MentionTable", "restore_spelling"]

_EXTRACTOR = "lightrag"
_MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class _Place:
    chunk_id: str
    rank: int


class MentionTable:
    """What chunks say, gathered thing by thing; memory holds all of it.

    Args:
        chunks: All chunks.
    """

    def __init__(self, chunks: Iterable[Chunk]) -> None:
        self._places = {
            chunk.id: _Place(chunk.id, mention_rank(chunk.document_id, chunk.position, is_subject=False))
            for chunk in chunks
        }
        self._entities: dict[str, list[EntityMention]] = {}
        self._relations: dict[str, list[RelationMention]] = {}

    def add_entity(self, node: GraphNode, name: str, chunk_ids: Sequence[str]) -> None:
        """Let some chunks, at least one, mention an entity by a name."""
        type_ = " ".join(node.type.lower().split()) or UNKNOWN_TYPE
        places = self._in_order(chunk_ids)
        for place, said in zip(places, _share(node.descriptions, len(places)), strict=True):
            mention = EntityMention(place.chunk_id, name, type_, said, place.rank)
            self._entities.setdefault(place.chunk_id, []).append(mention)

    def add_relation(self, edge: GraphEdge, ends: tuple[str, str], chunk_ids: Sequence[str]) -> None:
        """Let some chunks, at least one, mention a relation between two names."""
        places = self._in_order(chunk_ids)
        whole, rest = divmod(max(1, round(edge.weight * _MILLION)), len(places))
        said = _share(edge.descriptions, len(places))
        for index, (place, description) in enumerate(zip(places, said, strict=True)):
            if weight := whole + (index < rest):
                said_by = (place.chunk_id, *ends, (edge.keywords,), description, weight / _MILLION, place.rank)
                self._relations.setdefault(place.chunk_id, []).append(RelationMention(*said_by))

    def extraction(self, chunk_id: str) -> Extraction:
        """Return what a chunk says, canonical."""
        entities, relations = self._entities.get(chunk_id, ()), self._relations.get(chunk_id, ())
        return canonical_extraction(Extraction(chunk_id, _EXTRACTOR, tuple(entities), tuple(relations)))

    def _in_order(self, chunk_ids: Sequence[str]) -> list[_Place]:
        places = (self._places[id_] for id_ in dict.fromkeys(chunk_ids))
        return sorted(places, key=lambda place: (place.rank, place.chunk_id))


def restore_spelling(node: GraphNode, texts: Iterable[str]) -> str:
    """Return the name of an entity as its chunks spell it oftenest, if LightRAG has put it into capitals."""
    if not node.is_shouted:
        return node.name
    pattern = re.compile(rf"(?<!\w){re.escape(node.name)}(?!\w)", re.IGNORECASE)
    found = Counter(match.group() for text in texts for match in pattern.finditer(text))
    found = {name: count for name, count in found.items() if entity_key(name) == entity_key(node.name)}
    # A heading in capitals does not outweigh the one place that spells the name.
    spelled: Mapping[str, int] = {name: count for name, count in found.items() if name != node.name}
    return min(spelled, key=lambda name: (-spelled[name], name)) if spelled else node.name


def _share(descriptions: Sequence[str], count: int) -> list[str]:
    """Part descriptions, in order, into `count` runs; where there are fewer of them, the last runs are empty."""
    runs = min(len(descriptions), count)
    ends = [index * len(descriptions) // runs for index in range(runs + 1)] if runs else []
    shared = [FIELD_SEPARATOR.join(descriptions[start:end]) for start, end in pairwise(ends)]
    return shared + [""] * (count - runs)
