"""What all shapes of the wire have in common: frozen, and read from a record's attributes of the same names."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer

# A moment as ISO 8601 in UTC, written as Python writes it.
Moment = Annotated[datetime, PlainSerializer(datetime.isoformat, return_type=str)]


class Shape(BaseModel):
    """A record as others are shown it, made of its attributes by `model_validate`; a reply has all its fields."""

    model_config = ConfigDict(frozen=True, from_attributes=True, json_schema_serialization_defaults_required=True)

    @classmethod
    def fields_of(cls, *records: object, **given: Any) -> dict[str, Any]:
        """Return its fields by name: as given, else as the first record that has one of this name says."""
        return {
            name: given[name] if name in given else next(getattr(item, name) for item in records if hasattr(item, name))
            for name in cls.model_fields
        }

    @classmethod
    def from_records(cls, *records: object, **given: Any) -> Self:
        """Return a shape of what `fields_of` finds."""
        return cls.model_validate(cls.fields_of(*records, **given))


class ChunkDetails(Shape):
    """What every shape of a chunk has: the details of `heliograph.models.Chunk`."""

    page: int | None = Field(None, description="Number, from 1, of the page that holds its first character.")
    headings: tuple[str, ...] = Field((), description="Titles of the sections around it, outermost first.")
    columns: tuple[str, ...] = Field((), description="Columns of the table in whose midst it begins.")


class EntityHead(Shape):
    """What every shape of an entity has."""

    id: str
    name: str
    type: str


class RelationHead(Shape):
    """What every shape of a relation between two entities has; it has no direction."""

    id: str
    source: str = Field(description="Name of one entity.")
    target: str = Field(description="Name of the other.")
    keywords: tuple[str, ...]
    weight: float


class StatsHead(Shape):
    """What every shape of a workspace's counts has: the figures of `heliograph.models.Stats` but documents."""

    chunks: int
    entities: int
    relations: int
    cached_replies: int = Field(description="Replies of models that are kept.")
    data_version: int = Field(description="Rises with every commit.")
    bytes_on_disk: int


def may_lack(*names: str) -> Callable[[dict[str, Any]], None]:
    """Return an edit of a schema: these fields are optional, as replies leave them out where they hold nothing."""

    def edit(schema: dict[str, Any]) -> None:
        schema["required"] = [name for name in schema.get("required", ()) if name not in names]

    return edit
