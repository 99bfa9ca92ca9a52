"""What all shapes of the wire have in common: frozen, and read from a record's attributes of the same names."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from heliograph.models import FIELD_SEPARATOR


class Shape(BaseModel):
    """A record as others are shown it: `model_validate(record)` takes the attributes that have its fields' names."""

    model_config = ConfigDict(frozen=True, from_attributes=True)


class EntityHead(Shape):
    """What every shape of an entity has."""

    id: str
    name: str
    type: str


class RelationHead(Shape):
    """What every shape of a relation between two entities has; it has no direction."""

    id: str
    source: str
    target: str
    keywords: tuple[str, ...]
    weight: float


def statements(description: str) -> tuple[str, ...]:
    """Return the statements of a description, which are joined by a separator."""
    return tuple(part for part in description.split(FIELD_SEPARATOR) if part)
