"""The common base of wire shapes: frozen, and read from a record's attributes of the same names."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer

# A moment as ISO 8601 in UTC, written as Python writes it.
Moment = Annotated[datetime, PlainSerializer(datetime.isoformat, return_type=str)]


class Shape(BaseModel):
    """A record's public form, made from its attributes by `model_validate`; a reply has all its fields."""

    model_config = ConfigDict(frozen=True, from_attributes=True, json_schema_serialization_defaults_required=True)

    @classmethod
    def fields_of(cls, *records: object, **given: Any) -> dict[str, Any]:
        """Return its fields by name: as given, otherwise from the first record that has one of this name."""
        return {
            name: given[name] if name in given else next(getattr(item, name) for item in records if hasattr(item, name))
            for name in cls.model_fields
        }

    @classmethod
    def from_records(cls, *records: object, **given: Any) -> Self:
        """Return a shape with the fields from `fields_of`."""
        return cls.model_validate(cls.fields_of(*records, **given))


class ChunkDetails(Shape):
    """The common fields of every chunk shape: the details of `heliograph.models.Chunk`."""

    page: int | None = Field(None, description="Number, from 1, of the page that holds its first character.")
    headings: tuple[str, ...] = Field((), description="Titles of the sections around it, outermost first.")
    columns: tuple[str, ...] = Field((), description="Columns of the table in whose midst it begins.")


class EntityHead(Shape):
    """The common fields of every entity shape."""

    id: str
    name: str
    type: str


class RelationHead(Shape):
    """The common fields of every shape of a relation between two entities; it has no direction."""

    id: str
    source: str = Field(description="Name of one entity.")
    target: str = Field(description="Name of the other.")
    keywords: tuple[str, ...]
    weight: float


class StatsHead(Shape):
    """The common fields of a workspace's counts: the figures of `heliograph.models.Stats` except documents."""

    chunks: int
    entities: int
    relations: int
    cached_replies: int = Field(description="Replies of models that are kept.")
    data_version: int = Field(description="Rises with every commit.")
    bytes_on_disk: int


def may_lack(*names: str) -> Callable[[dict[str, Any]], None]:
    """Return an edit of a schema that makes these fields optional, as replies omit them if they are empty."""

    def edit(schema: dict[str, Any]) -> None:
        schema["required"] = [name for name in schema.get("required", ()) if name not in names]

    return edit
