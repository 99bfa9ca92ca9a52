"""The graph in Heliograph's own words: entities and relations with what mentions them, neighbours and paths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import BaseModel, Field

from heliograph.models import FIELD_SEPARATOR, Chunk, Entity, GraphPath, Relation


class EntityItem(BaseModel):
    """An entity."""

    id: str
    name: str
    type: str
    descriptions: list[str] = Field(description="What is said of it, one statement each, or one summary.")
    aliases: list[str] = Field(description="Its other names.")
    degree: int = Field(description="Relations that touch it.")
    chunk_count: int = Field(description="Chunks that mention it; 200 stands for more.")
    created_at: int = Field(description="When it first appeared, Unix seconds.")

    @classmethod
    def of(cls, entity: Entity) -> EntityItem:
        """Return what is told of an entity."""
        return cls(
            id=entity.id,
            name=entity.name,
            type=entity.type,
            descriptions=_statements(entity.description),
            aliases=list(entity.aliases),
            degree=entity.degree,
            chunk_count=len(entity.chunk_ids),
            created_at=entity.created_at,
        )


class RelationItem(BaseModel):
    """A relation between two entities; it has no direction."""

    id: str
    source: str = Field(description="Name of one entity.")
    target: str = Field(description="Name of the other.")
    keywords: list[str]
    descriptions: list[str] = Field(description="What is said of it, one statement each, or one summary.")
    weight: float = Field(description="Sum of the evidence.")
    chunk_count: int = Field(description="Chunks that tell of it; 200 stands for more.")
    created_at: int = Field(description="When it first appeared, Unix seconds.")

    @classmethod
    def of(cls, relation: Relation) -> RelationItem:
        """Return what is told of a relation."""
        return cls(
            id=relation.id,
            source=relation.source,
            target=relation.target,
            keywords=list(relation.keywords),
            descriptions=_statements(relation.description),
            weight=relation.weight,
            chunk_count=len(relation.chunk_ids),
            created_at=relation.created_at,
        )


class SourceChunk(BaseModel):
    """A chunk that mentions something, and where it stands in its document."""

    chunk_id: str
    document_id: str
    file_path: str = Field(description="Source of the document.")
    position: int = Field(description="Order index of the chunk in it.")
    text: str
    start: int = Field(description="First character of the chunk in the document's text.")
    end: int = Field(description="One past its last character.")
    page: int | None = Field(description="Page, where known, from 1.")
    headings: list[str] = Field(description="Headings above it, outermost first.")

    @classmethod
    def of(cls, chunks: Sequence[Chunk], sources: Mapping[str, str]) -> list[SourceChunk]:
        """Return what is told of chunks."""
        return [
            cls(
                chunk_id=chunk.id,
                document_id=chunk.document_id,
                file_path=sources.get(chunk.id, ""),
                position=chunk.position,
                text=chunk.text,
                start=chunk.start,
                end=chunk.end,
                page=chunk.page,
                headings=list(chunk.headings),
            )
            for chunk in chunks
        ]


class EntityDetail(BaseModel):
    """An entity and one page of the chunks that mention it."""

    entity: EntityItem
    sources: list[SourceChunk]
    source_count: int = Field(description="Chunks there are without `limit`.")


class RelationDetail(BaseModel):
    """A relation and one page of the chunks that tell of it."""

    relation: RelationItem
    sources: list[SourceChunk]
    source_count: int = Field(description="Chunks there are without `limit`.")


class NeighbourResponse(BaseModel):
    """What lies around an entity."""

    entities: list[EntityItem] = Field(description="The entity itself, then by distance, degree and name.")
    relations: list[RelationItem] = Field(description="Those with both ends among the entities.")
    is_truncated: bool = Field(description="Whether `limit` left something out.")


class PathItem(BaseModel):
    """A way from one entity to another."""

    entities: list[EntityItem] = Field(description="One more than there are relations.")
    relations: list[RelationItem]

    @classmethod
    def of(cls, path: GraphPath) -> PathItem:
        """Return what is told of a path."""
        return cls(
            entities=[EntityItem.of(item) for item in path.entities],
            relations=[RelationItem.of(item) for item in path.relations],
        )


class PathResponse(BaseModel):
    """The shortest ways from one entity to another, strongest first; none if there is none so short."""

    paths: list[PathItem]


def _statements(description: str) -> list[str]:
    return [part for part in description.split(FIELD_SEPARATOR) if part]
