"""The graph in detail: one entity or relation with its sources, neighbours, and paths between two entities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Query

from heliograph.engine import AsyncHeliograph
from heliograph.errors import NotFoundError
from heliograph.models import Entity, Relation
from heliograph.server.dependencies import ReadEngine
from heliograph.server.openapi import responses
from heliograph.wire.graph import (
    EntityDetail,
    EntityItem,
    NeighbourResponse,
    PathItem,
    PathResponse,
    RelationDetail,
    RelationItem,
    SourceChunk,
)

router = APIRouter(tags=["graph"])

Name = Annotated[str, Query(max_length=2048, description="Name of an entity, by any spelling or alias.")]
Offset = Annotated[int, Query(ge=0, le=1_000_000_000, description="Passed over.")]
SourceLimit = Annotated[int, Query(ge=0, le=200, description="Chunks at the most.")]


@router.get("/graph/entity", summary="Return an entity with its sources", responses=responses(400, 404))
async def get_entity(engine: ReadEngine, name: Name, offset: Offset = 0, limit: SourceLimit = 10) -> EntityDetail:
    """Return what is known of an entity, and the chunks that mention it."""
    entity = await _require(engine, name)
    sources = await _sources(engine, entity.chunk_ids[offset : offset + limit])
    return EntityDetail(entity=EntityItem.of(entity), sources=sources, source_count=len(entity.chunk_ids))


@router.get("/graph/relation", summary="Return a relation with its sources", responses=responses(400, 404))
async def get_relation(
    engine: ReadEngine, source: Name, target: Name, offset: Offset = 0, limit: SourceLimit = 10
) -> RelationDetail:
    """Return what is known of the relation between two entities, and the chunks that tell of it."""
    relation = await _require_relation(engine, source, target)
    sources = await _sources(engine, relation.chunk_ids[offset : offset + limit])
    return RelationDetail(relation=RelationItem.of(relation), sources=sources, source_count=len(relation.chunk_ids))


@router.get("/graph/neighbours", summary="Return what lies around an entity", responses=responses(400, 404))
async def get_neighbours(
    engine: ReadEngine,
    name: Name,
    depth: Annotated[int, Query(ge=1, le=10, description="Relations from the entity at the most.")] = 1,
    limit: Annotated[int, Query(ge=1, le=10_000, description="Entities at the most.")] = 100,
) -> NeighbourResponse:
    """Return entities by distance, then degree, and the relations among them."""
    entity = await _require(engine, name)
    found = await engine.neighbours(entity.name, depth=depth, max_entities=limit)
    return NeighbourResponse(
        entities=tuple(map(EntityItem.of, found.entities)),
        relations=tuple(map(RelationItem.of, found.relations)),
        is_truncated=found.is_truncated,
    )


@router.get("/graph/paths", summary="Return how two entities are connected", responses=responses(400, 404))
async def get_paths(
    engine: ReadEngine,
    source: Name,
    target: Name,
    max_length: Annotated[int, Query(ge=1, le=10, description="Relations on the way at the most.")] = 6,
    limit: Annotated[int, Query(ge=1, le=100, description="Paths at the most.")] = 5,
) -> PathResponse:
    """Return the shortest paths; none if there is none so short."""
    ends = await _require(engine, source), await _require(engine, target)
    found = await engine.paths(ends[0].name, ends[1].name, max_length=max_length, limit=limit)
    return PathResponse(paths=tuple(map(PathItem.of, found)))


async def _sources(engine: AsyncHeliograph, chunk_ids: Sequence[str]) -> tuple[SourceChunk, ...]:
    records = engine.store.records
    return SourceChunk.of_chunks(await records.get_chunks(chunk_ids), await records.get_sources(chunk_ids))


async def _require(engine: AsyncHeliograph, name: str) -> Entity:
    entity = await engine.entity(name)
    if entity is None:
        raise NotFoundError(f"there is no entity {name!r} in this workspace")
    return entity


async def _require_relation(engine: AsyncHeliograph, source: str, target: str) -> Relation:
    relation = await engine.relation(source, target)
    if relation is None:
        raise NotFoundError(f"there is no relation between {source!r} and {target!r} in this workspace")
    return relation
