"""The graph over the wire: entities, relations, parts of the graph, and corrections of it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Literal, cast

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

from heliograph.errors import InvalidRequestError
from heliograph.models import (
    FIELD_SEPARATOR,
    MOST_SOURCES,
    Curation,
    CurationKind,
    Entity,
    Relation,
    Subgraph,
    sources_of,
)
from heliograph.wire.base import ChunkDetails, EntityHead, RelationHead, Shape

# The graph as LightRAG's clients read it: nodes named by entity, edges between names, properties in its words.
#
# Lists that LightRAG joins by `<SEP>` or commas are joined so here too. Its `source_id` and `file_path` are the chunks
# and sources that mention an item; at most the first `MOST_SOURCES` are listed.

_MANUAL = "manual_creation"
_ORIGINS = {
    CurationKind.CREATE_ENTITY,
    CurationKind.EDIT_ENTITY,
    CurationKind.CREATE_RELATION,
    CurationKind.EDIT_RELATION,
}


class KnowledgeGraphNode(BaseModel):
    """An entity."""

    id: str = Field(description="Name of the entity.")
    labels: list[str] = Field(description="Its name.")
    properties: dict[str, Any] = Field(description="What is known of it.")


class KnowledgeGraphEdge(BaseModel):
    """A relation; it has no direction, though LightRAG calls it directed."""

    id: str = Field(description="Both names, joined by a dash.")
    type: str = Field(description="Always `DIRECTED`.")
    source: str = Field(description="Name of one entity.")
    target: str = Field(description="Name of the other.")
    properties: dict[str, Any] = Field(description="What is known of it.")


class KnowledgeGraph(BaseModel):
    """A part of the graph."""

    model_config = ConfigDict(json_schema_serialization_defaults_required=True)

    nodes: list[KnowledgeGraphNode] = []
    edges: list[KnowledgeGraphEdge] = []
    is_truncated: bool = Field(False, description="Whether `max_nodes` left something out.")


class EntityExists(BaseModel):
    """Whether there is an entity."""

    exists: bool


def told_chunks(items: Iterable[Entity | Relation]) -> list[str]:
    """Return the ids of chunks whose sources are shown for these entities and relations."""
    return list(dict.fromkeys(chunk for item in items for chunk in item.chunk_ids[:MOST_SOURCES]))


def graph_body(part: Subgraph, sources: Mapping[str, str]) -> dict[str, Any]:
    """Return a `KnowledgeGraph`, whose relations name their ends, as plain JSON; `sources` are by chunk id."""
    return {
        "nodes": [
            {"id": item.name, "labels": [item.name], "properties": entity_properties(item, sources)}
            for item in part.entities
        ],
        "edges": [edge(item, relation_properties(item, sources)) for item in part.relations],
        "is_truncated": part.is_truncated,
    }


def entity_properties(entity: Entity, sources: Mapping[str, str]) -> dict[str, Any]:
    """Return LightRAG's properties of a node, and `aliases` if there are any."""
    properties = {
        "entity_id": entity.name,
        "entity_type": entity.type,
        "description": entity.description,
        **_origin(entity, sources),
    }
    return properties | ({"aliases": FIELD_SEPARATOR.join(entity.aliases)} if entity.aliases else {})


def given_origin(curations: Iterable[Curation]) -> dict[str, str]:
    """Return the origin that people last gave an item: `source_id`, then `file_path`, as far as given."""
    found: dict[str, str] = {}
    for item in curations:
        if item.kind in _ORIGINS and len(item.scope) == 2:
            found |= {name: value for name, value in zip(("source_id", "file_path"), item.scope, strict=True) if value}
    return found


def read_origin(data: Mapping[str, Any]) -> tuple[str, ...]:
    """Return `source_id` and `file_path` of a new entity or relation, empty if neither is given."""
    given = read_text(data, "source_id") or "", read_text(data, "file_path") or ""
    return given if any(given) else ()


def relation_properties(relation: Relation, sources: Mapping[str, str]) -> dict[str, Any]:
    """Return LightRAG's properties of an edge."""
    return {
        "weight": relation.weight,
        "description": relation.description,
        "keywords": ",".join(relation.keywords),
        **_origin(relation, sources),
    }


def edge(relation: Relation, properties: dict[str, Any]) -> dict[str, Any]:
    """Return a `KnowledgeGraphEdge` as plain JSON."""
    ends = {"source": relation.source, "target": relation.target}
    return {"id": f"{relation.source}-{relation.target}", "type": "DIRECTED", **ends, "properties": properties}


def _origin(item: Entity | Relation, sources: Mapping[str, str]) -> dict[str, Any]:
    return {
        "source_id": FIELD_SEPARATOR.join(item.chunk_ids) or _MANUAL,
        "file_path": FIELD_SEPARATOR.join(sources_of(item.chunk_ids, sources)) or _MANUAL,
        "created_at": item.created_at,
    }


# The graph in Heliograph's own words: entities and relations with the chunks that mention them, neighbours and paths.


def _statements(description: str | Iterable[str]) -> tuple[str, ...]:
    # A description from a service is split already.
    return tuple(filter(None, description.split(FIELD_SEPARATOR))) if isinstance(description, str) else (*description,)


def _count(ids: object) -> object:
    return ids if isinstance(ids, int) else len(cast("Sequence[str]", ids))


# Derived from a record: its description, and the chunks that mention it.
_Descriptions = Annotated[
    tuple[str, ...],
    BeforeValidator(_statements),
    Field(
        validation_alias=AliasChoices("descriptions", "description"),
        description="What is said of it, one statement each, or one summary.",
    ),
]
_ChunkCount = Annotated[int, BeforeValidator(_count), Field(validation_alias=AliasChoices("chunk_count", "chunk_ids"))]


class NodeColumns(BaseModel):
    """Entities, one column per field; row numbers identify them."""

    name: list[str]
    type: list[int] = Field(description="Place in `types`.")
    degree: list[int] = Field(description="Relations that touch it in the whole graph.")
    created_at: list[int] = Field(description="When it first appeared, Unix seconds.")
    dated_at: list[int] = Field(
        description="The first date that documents which mention it state (`created_at` in their metadata), Unix "
        "seconds; when it first appeared if none does."
    )


class EdgeColumns(BaseModel):
    """Relations, one column per field."""

    source: list[int] = Field(description="Row of one entity.")
    target: list[int] = Field(description="Row of the other.")
    weight: list[float]


class GraphColumns(BaseModel):
    """A part of the graph, to be drawn."""

    types: list[str] = Field(description="Types of the entities, the most frequent first.")
    nodes: NodeColumns
    edges: EdgeColumns
    is_truncated: bool = Field(description="Whether `limit` left something out.")


def graph_columns(
    entities: Sequence[Entity], relations: Sequence[Relation], dates: Mapping[str, int], *, is_truncated: bool
) -> dict[str, Any]:
    """Return `GraphColumns` as plain JSON; relations with an end that is not among the entities are left out.

    `dates` are the first date of an entity's documents, Unix seconds, by its id; some may lack one.
    """
    counted = Counter(item.type for item in entities)
    types = sorted(counted, key=lambda kind: (-counted[kind], kind))
    places = {kind: place for place, kind in enumerate(types)}
    rows = {item.id: row for row, item in enumerate(entities)}
    drawn = [item for item in relations if item.source_id in rows and item.target_id in rows]
    return {
        "types": types,
        "nodes": {
            "name": [item.name for item in entities],
            "type": [places[item.type] for item in entities],
            "degree": [item.degree for item in entities],
            "created_at": [item.created_at for item in entities],
            "dated_at": [dates.get(item.id, item.created_at) for item in entities],
        },
        "edges": {
            "source": [rows[item.source_id] for item in drawn],
            "target": [rows[item.target_id] for item in drawn],
            "weight": [item.weight for item in drawn],
        },
        "is_truncated": is_truncated,
    }


class EntityItem(EntityHead):
    """An entity."""

    descriptions: _Descriptions
    aliases: tuple[str, ...] = Field(description="Its other names.")
    degree: int = Field(description="Relations that touch it.")
    chunk_count: _ChunkCount = Field(description="Chunks that mention it; 200 stands for more.")
    created_at: int = Field(description="When it first appeared, Unix seconds.")


class RelationItem(RelationHead):
    """A relation between two entities; it has no direction. Its weight is the sum of the evidence."""

    descriptions: _Descriptions
    chunk_count: _ChunkCount = Field(description="Chunks that tell of it; 200 stands for more.")
    created_at: int = Field(description="When it first appeared, Unix seconds.")


class SourceChunk(ChunkDetails):
    """A chunk that mentions an item, and its place in its document.

    Its statement about the item is in `/graph/history`.
    """

    chunk_id: str
    document_id: str
    file_path: str = Field(description="Source of the document.")
    position: int = Field(description="Order index of the chunk in it.")
    text: str
    start: int = Field(description="First character of the chunk in the document's text.")
    end: int = Field(description="One past its last character.")


class EntityDetail(Shape):
    """An entity and one page of the chunks that mention it."""

    entity: EntityItem
    sources: tuple[SourceChunk, ...]
    source_count: int = Field(description="Chunks there are without `limit`, up to `ingest.max_sources`.")


class RelationDetail(Shape):
    """A relation and one page of the chunks that mention it."""

    relation: RelationItem
    sources: tuple[SourceChunk, ...]
    source_count: int = Field(description="Chunks there are without `limit`, up to `ingest.max_sources`.")


class EntityListResponse(Shape):
    """One page of entities."""

    entities: tuple[EntityItem, ...]
    next_offset: int | None = Field(description="`offset` of the next page; null on the last one.")


class NeighbourResponse(Shape):
    """The neighbourhood of an entity."""

    entities: tuple[EntityItem, ...] = Field(description="The entity itself, then by distance, degree and name.")
    relations: tuple[RelationItem, ...] = Field(description="Those with both ends among the entities.")
    is_truncated: bool = Field(description="Whether `limit` left something out.")


class PathItem(Shape):
    """A path from one entity to another."""

    entities: tuple[EntityItem, ...] = Field(description="One more than there are relations.")
    relations: tuple[RelationItem, ...]


class PathResponse(Shape):
    """The shortest paths from one entity to another, strongest first; empty if none is short enough."""

    paths: tuple[PathItem, ...]


# Corrections of the graph as LightRAG's clients send them, and their replies.
#
# Properties come as free JSON, as LightRAG takes them; an invalid one is a 400, as there. `source_id` and `file_path`
# are accepted and not changed: here they follow from the documents.

EntityName = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=2048)]

_KEPT = ("source_id", "file_path")
_ENTITY_FIELDS = ("entity_name", "entity_type", "description", *_KEPT)
_RELATION_FIELDS = ("description", "keywords", "weight", *_KEPT)


class EntityUpdateRequest(BaseModel):
    """What to change of an entity."""

    entity_name: EntityName = Field(description="The entity, by any spelling or alias.")
    updated_data: dict[str, Any] = Field(
        description="`entity_name` (a new name), `entity_type` and `description`; `source_id` and `file_path` are left."
    )
    allow_rename: bool = Field(False, description="Whether the entity may get another name.")
    allow_merge: bool = Field(False, description="Whether it is merged into what has that name, if there is such.")

    def known_data(self) -> Mapping[str, Any]:
        """Return the changes.

        Raises:
            InvalidRequestError: Another property is among them.
        """
        return _only(self.updated_data, _ENTITY_FIELDS, "entity")


class RelationUpdateRequest(BaseModel):
    """What to change of a relation."""

    source_id: EntityName = Field(description="Name of one entity.")
    target_id: EntityName = Field(description="Name of the other.")
    updated_data: dict[str, Any] = Field(
        description="`description`, `keywords` and `weight`; `source_id` and `file_path` are left as they are."
    )

    def known_data(self) -> Mapping[str, Any]:
        """Return the changes.

        Raises:
            InvalidRequestError: Another property is among them.
        """
        return _only(self.updated_data, _RELATION_FIELDS, "relation")


class EntityCreateRequest(BaseModel):
    """A new entity."""

    entity_name: EntityName
    entity_data: dict[str, Any] = Field(description="`description`, which is needed, and `entity_type`.")


class RelationCreateRequest(BaseModel):
    """A new relation between two entities that exist."""

    source_entity: EntityName
    target_entity: EntityName
    relation_data: dict[str, Any] = Field(description="`description`, which is needed, `keywords` and `weight`.")


class EntityMergeRequest(BaseModel):
    """Entities that are one."""

    entities_to_change: Annotated[list[EntityName], Field(min_length=1, max_length=1000)]
    entity_to_change_into: EntityName = Field(description="One of them, another entity, or a new name.")


class DeleteEntityRequest(BaseModel):
    """An entity to hide."""

    entity_name: EntityName


class DeleteRelationRequest(BaseModel):
    """A relation to hide."""

    source_entity: EntityName
    target_entity: EntityName


class EditResponse(BaseModel):
    """The outcome of a correction."""

    status: Literal["success"] = "success"
    message: str
    data: dict[str, Any] = Field(description="The thing as it is now: its names, `source_id` and `graph_data`.")
    curation_ids: list[str] = Field(description="What was recorded, to be undone by these ids.")


class OperationSummary(BaseModel):
    """A summary of an entity's edit."""

    merged: bool
    merge_status: Literal["success", "failed", "not_attempted"]
    merge_error: str | None = None
    operation_status: Literal["success", "partial_success", "failure"]
    target_entity: str | None = None
    final_entity: str
    renamed: bool


class EntityEditResponse(EditResponse):
    """The outcome of an entity's edit."""

    operation_summary: OperationSummary


class DeletionResult(BaseModel):
    """The outcome of a deletion."""

    status: Literal["success"] = "success"
    doc_id: str = Field(default="", description="Always empty.")
    message: str
    status_code: int = 200
    file_path: str | None = None
    curation_ids: list[str] = Field(description="What was recorded, to be undone by this id.")


def read_text(data: Mapping[str, Any], field: str, *, is_needed: bool = False) -> str | None:
    """Return a text property; None if it is not given.

    Raises:
        InvalidRequestError: It is not text, or it is needed and missing or blank.
    """
    value = data.get(field)
    if value is None and not is_needed:
        return None
    if not isinstance(value, str):
        raise InvalidRequestError(f"{field} must be a text, got {type(value).__name__}: {value!r:.80}")
    if is_needed and not value.strip():
        raise InvalidRequestError(f"{field} cannot be empty; say something of it")
    return value


def read_keywords(data: Mapping[str, Any]) -> list[str] | None:
    """Return keywords given as one text, separated by commas; None if there are none.

    Raises:
        InvalidRequestError: They are not text.
    """
    text = read_text(data, "keywords")
    return None if text is None else [word for part in re.split(r"[,，、;；]", text) if (word := part.strip())]


def read_weight(data: Mapping[str, Any]) -> float | None:
    """Return the weight, a number or one written as text; None if it is not given.

    Raises:
        InvalidRequestError: It is not a number.
    """
    value = data.get("weight")
    if value is None:
        return None
    try:
        return float("bool" if isinstance(value, bool) else value)
    except (TypeError, ValueError, OverflowError):
        raise InvalidRequestError(f"weight must be a number, got {value!r:.80}") from None


def _only(data: Mapping[str, Any], fields: tuple[str, ...], kind: str) -> Mapping[str, Any]:
    unknown = sorted(data.keys() - set(fields))
    if unknown:
        raise InvalidRequestError(
            f"{unknown[0]!r:.80} is no property of this {kind} that can be changed; those are {', '.join(fields)}"
        )
    return {key: value for key, value in data.items() if key not in _KEPT}


# Corrections of the graph by hand, the history of an item, and likely duplicates.

_Ids = Annotated[list[Annotated[str, Field(max_length=200)]], Field(max_length=10_000)]


class SplitRequest(BaseModel):
    """The mentions of an entity that belong to another one."""

    entity_name: EntityName
    new_name: EntityName = Field(description="Name of the other one; no entity may have it.")
    document_ids: _Ids = Field(default=[], description="Documents that mean the other one.")
    chunk_ids: _Ids = Field(default=[], description="Chunks that mean the other one.")


class CurationItem(Shape):
    """One correction; it counts until it is undone."""

    id: str
    kind: str = Field(
        description="`create_entity`, `edit_entity`, `rename_entity`, `merge_entities`, `split_entity`, "
        "`delete_entity`, or the same of a relation."
    )
    names: tuple[str, ...] = Field(description="What it was done to; of a merge, last what the others became.")
    type: str | None
    description: str | None
    keywords: tuple[str, ...] | None
    weight: float | None
    scope: tuple[str, ...] = Field(description="Of a split: documents and chunks whose mentions go to the new name.")
    author: str = Field(description="Name of the key or account; `anyone` where none was asked for.")
    created_at: datetime
    undone_by: str
    undone_at: datetime | None = Field(description="None while it counts.")


class CurationListResponse(Shape):
    """One page of corrections, the latest first."""

    curations: tuple[CurationItem, ...]
    total: int = Field(description="How many there are without `limit`.")


class StatementItem(Shape):
    """One chunk's statement about an entity or a relation; the chunk itself is among the sources of either."""

    chunk_id: str
    document_id: str
    file_path: str = Field(validation_alias=AliasChoices("file_path", "source"), description="Source of the document.")
    position: int = Field(description="Order index of the chunk in it.")
    names: tuple[str, ...] = Field(description="The name as written; of a relation both.")
    type: str
    description: str
    keywords: tuple[str, ...]
    weight: float


class HistoryResponse(Shape):
    """The history of an entity or a relation."""

    id: str = Field(description="Id of the entity or relation.")
    statements: tuple[StatementItem, ...] = Field(description="What chunks say, one page of it.")
    statement_count: int = Field(description="Statements there are without `limit`.")
    curations: tuple[CurationItem, ...] = Field(description="What people did, earliest first.")


class DuplicateItem(Shape):
    """Two entities that may be one."""

    name: str = Field(description="The better connected one.")
    other: str
    score: float = Field(description="Mean of the two below, in [0, 1].")
    cosine: float = Field(description="Likeness of their vectors.")
    similarity: float = Field(description="Likeness in spelling, in [0, 1].")
    reason: str


class DuplicateResponse(Shape):
    """Likely duplicates, the most similar first; people decide whether to merge them."""

    pairs: tuple[DuplicateItem, ...]
