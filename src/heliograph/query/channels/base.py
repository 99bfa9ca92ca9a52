"""What one channel finds for a question, the same shape for every channel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from heliograph.models import Entity, Relation
from heliograph.stores.base import IncidentRelation

__all__ = ["Findings"]


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
