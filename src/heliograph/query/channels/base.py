"""What one channel finds for a question, the same shape for every channel."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from heliograph.models import Entity, Relation
from heliograph.stores.base import IncidentRelation


@dataclass(frozen=True, slots=True)
class Findings:
    """Lists of one channel, each best first and without repeats.

    Attributes:
        entities: Entities, read.
        relations: Relations, ranked; there may be very many, so few are read.
        relations_read: Those that were read anyway, by id.
        chunk_ids: Chunks, by id.
    """

    entities: Sequence[Entity] = ()
    relations: Sequence[IncidentRelation] = ()
    relations_read: Mapping[str, Relation] = field(default_factory=dict[str, Relation])
    chunk_ids: Sequence[str] = ()


def with_degrees(relations: Iterable[Relation], entities: Iterable[Entity]) -> list[IncidentRelation]:
    """Return relations that were read, in order, as ranked ones; `entities` are their ends."""
    degrees = {entity.id: entity.degree for entity in entities}
    return [
        IncidentRelation(
            relation.id, degrees.get(relation.source_id, 0) + degrees.get(relation.target_id, 0), relation.weight
        )
        for relation in relations
    ]
