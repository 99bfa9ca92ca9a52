"""The graph to be looked at, as LightRAG's clients ask for it: labels, which are names of entities, and parts of it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Query, Response

from heliograph.engine import AsyncHeliograph
from heliograph.errors import NotFoundError
from heliograph.models import Entity, Relation
from heliograph.server.dependencies import ReadEngine
from heliograph.server.openapi import responses
from heliograph.server.responses import JsonBody
from heliograph.stores.base import ScanKind
from heliograph.wire.graph import EntityExists, GraphColumns, KnowledgeGraph, graph_body, graph_columns, told_chunks

router = APIRouter(tags=["graph"])

_ALL = "*"
_PAGE = 5_000
_MOST_NODES = 10_000
_MOST_DEPTH = 100
_MOST_DRAWN = 50_000

Label = Annotated[str, Query(max_length=2048, description="Name of an entity, by any spelling or alias.")]


@router.get("/graph/label/list", summary="List the names of all entities", responses=responses(400))
async def list_labels(engine: ReadEngine) -> list[str]:
    """Return all names, sorted. In a large workspace, search or take the popular ones."""
    names: list[str] = []
    after = ""
    while ids := await engine.store.inspection.scan(ScanKind.ENTITIES, after, _PAGE):
        names += (entity.name for entity in await engine.store.graph.get_entities(ids))
        after = ids[-1]
    return sorted(names)


@router.get("/graph/label/popular", summary="List the best connected entities", responses=responses(400))
async def list_popular_labels(
    engine: ReadEngine, limit: Annotated[int, Query(ge=1, le=1000, description="Names at the most.")] = 300
) -> list[str]:
    """Return names, best connected first."""
    return [entity.name for entity in await engine.entities(limit=limit)]


@router.get("/graph/label/search", summary="Find entities by parts of their names", responses=responses(400))
async def search_labels(
    engine: ReadEngine,
    q: Annotated[str, Query(max_length=2048, description="What a name or alias is, begins with, or contains.")],
    limit: Annotated[int, Query(ge=1, le=100, description="Names at the most.")] = 50,
) -> list[str]:
    """Return names: first what is called so, then what begins so, then what contains it; well connected ones first."""
    ids = await engine.store.names.find_names(q, limit)
    return [entity.name for entity in await engine.store.graph.get_entities(ids)]


@router.get(
    "/graphs", summary="Return the graph around an entity", response_model=KnowledgeGraph, responses=responses(400)
)
async def get_graph(
    engine: ReadEngine,
    label: Annotated[str, Query(max_length=2048, description="Name of an entity; `*` means the best connected ones.")],
    max_depth: Annotated[int, Query(ge=1, description="Relations from the entity at the most.")] = 3,
    max_nodes: Annotated[int, Query(ge=1, description="Entities at the most; 10,000 are never exceeded.")] = 1000,
) -> Response:
    """Return entities within `max_depth` relations, nearest and best connected first, and the relations among them.

    No entity of this name is an empty graph.
    """
    most = min(max_nodes, _MOST_NODES)
    if label.strip() == _ALL:
        entities = await engine.entities(limit=most + 1)
        is_truncated, entities = len(entities) > most, entities[:most]
        graph = engine.store.graph
        relations = await graph.name_ends(await graph.find_relations_among([item.id for item in entities]), entities)
        return await _graph(engine, entities, relations, is_truncated=is_truncated)
    found = await engine.neighbours(label, depth=min(max_depth, _MOST_DEPTH), max_entities=most)
    return await _graph(engine, found.entities, found.relations, is_truncated=found.is_truncated)


@router.get(
    "/api/v1/graph",
    summary="Return a part of the graph to be drawn",
    response_model=GraphColumns,
    responses=responses(400, 404),
)
async def draw_graph(
    engine: ReadEngine,
    name: Annotated[
        list[str] | None, Query(max_length=100, description="Entities to begin at; none means the best connected ones.")
    ] = None,
    depth: Annotated[int, Query(ge=1, le=10, description="Relations from these at the most.")] = 1,
    limit: Annotated[int, Query(ge=1, le=_MOST_DRAWN, description="Entities at the most.")] = 2_000,
) -> Response:
    """Return entities and the relations among them column by column, without texts: 20,000 entities in one short body.

    With names, those within `depth` relations of any of them.
    """
    if not name:
        entities = await engine.entities(limit=limit + 1)
        is_truncated, entities = len(entities) > limit, entities[:limit]
        relations = await engine.store.graph.find_relations_among([item.id for item in entities])
        return JsonBody(await asyncio.to_thread(graph_columns, entities, relations, is_truncated=is_truncated))
    parts = [await engine.neighbours(one, depth=depth, max_entities=limit) for one in name]
    found = {entity.id: entity for part in parts for entity in part.entities}
    if not found:
        raise NotFoundError(f"there is no entity {name[0]!r:.200} in this workspace")
    entities = list(found.values())[:limit]
    is_truncated = len(found) > limit or any(part.is_truncated for part in parts)
    if len(parts) == 1:
        relations = parts[0].relations
    else:
        relations = await engine.store.graph.find_relations_among([item.id for item in entities])
    return JsonBody(graph_columns(entities, relations, is_truncated=is_truncated))


@router.get("/graph/entity/exists", summary="Whether there is an entity", responses=responses(400))
async def entity_exists(engine: ReadEngine, name: Label) -> EntityExists:
    """Say whether a name leads to an entity."""
    return EntityExists(exists=await engine.entity(name) is not None)


async def _graph(
    engine: AsyncHeliograph, entities: Sequence[Entity], relations: Sequence[Relation], *, is_truncated: bool
) -> Response:
    sources = await engine.store.records.get_sources(told_chunks((*entities, *relations)))
    return JsonBody(graph_body(entities, relations, sources, is_truncated=is_truncated))
