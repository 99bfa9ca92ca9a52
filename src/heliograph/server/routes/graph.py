"""The graph over HTTP: parts to draw, entities and relations in detail, corrections and their history.

Labels in paths and names are names of entities, as LightRAG's clients call them. A correction is a curation, which
outlasts re-indexing and can be undone. LightRAG's edits report an unknown or taken name by 400, and so do these
routes; only deletions reply 404.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Response

import heliograph.wire.graph as wire
from heliograph.documents.base import WRITTEN_AT, read_date
from heliograph.engine import AsyncHeliograph, best_connected
from heliograph.errors import ConflictError, InvalidRequestError, NotFoundError
from heliograph.filters import Exists
from heliograph.ids import name_to_entity_id
from heliograph.models import Curation, CurationKind, Entity, NameRules, Relation
from heliograph.server.openapi import responses
from heliograph.server.requests import ReadEngine, WriteWork
from heliograph.server.responses import JsonBody
from heliograph.stores.base import CurationQuery, DocumentQuery, ScanKind

router = APIRouter(tags=["graph"])

_ALL = "*"
_PAGE = 5_000
_MOST_NODES = 10_000
_MOST_DEPTH = 100
_MOST_DRAWN = 50_000
_MOST_EXAMINED = 2_000
# Limits for reading the dates that documents state: documents, and chunks of an entity.
_MOST_DATED = 50_000
_CHUNKS_DATED = 20

Name = Annotated[str, Query(max_length=2048, description="Name of an entity, by any spelling or alias.")]
OtherName = Annotated[str | None, Query(max_length=2048, description="The other end, for a relation.")]
Offset = Annotated[int, Query(ge=0, le=1_000_000_000, description="Passed over.")]
Limit = Annotated[int, Query(ge=1, le=1000, description="Returned at the most.")]
SourceLimit = Annotated[int, Query(ge=0, le=200, description="Chunks at the most.")]


@router.get("/graph/label/list", summary="List the names of all entities", responses=responses(400))
async def list_labels(engine: ReadEngine) -> list[str]:
    """Return all names, sorted. In a large workspace, search or take the popular ones."""
    names: list[str] = []
    async for ids in engine.store.inspection.pages(ScanKind.ENTITIES, _PAGE):
        names += (entity.name for entity in await engine.store.graph.get_entities(ids))
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
    """Return names: first those equal to the text, then those that begin with it, then those that contain it.

    Among equals, well connected ones come first.
    """
    return [entity.name for entity in await engine.entities(search=q, limit=limit)] if q.strip() else []


@router.get(
    "/graphs", summary="Return the graph around an entity", response_model=wire.KnowledgeGraph, responses=responses(400)
)
async def get_graph(
    engine: ReadEngine,
    label: Annotated[str, Query(max_length=2048, description="Name of an entity; `*` means the best connected ones.")],
    max_depth: Annotated[int, Query(ge=1, description="Relations from the entity at the most.")] = 3,
    max_nodes: Annotated[int, Query(ge=1, description="Entities at the most; 10,000 are never exceeded.")] = 1000,
) -> Response:
    """Return entities within `max_depth` relations, nearest and best connected first, and the relations among them.

    An unknown name gives an empty graph.
    """
    most = min(max_nodes, _MOST_NODES)
    if label.strip() == _ALL:
        found = await best_connected(engine, most)
    else:
        found = await engine.neighbours(label, depth=min(max_depth, _MOST_DEPTH), max_entities=most)
    sources = await engine.store.records.get_sources(wire.told_chunks((*found.entities, *found.relations)))
    return JsonBody(wire.graph_body(found, sources))


@router.get(
    "/api/v1/graph",
    summary="Return a part of the graph to be drawn",
    response_model=wire.GraphColumns,
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
    """Return entities and their relations by columns, without texts, so that 20,000 entities fit into a small body.

    With names, those within `depth` relations of any of them.
    """
    parts = [await engine.neighbours(one, depth=depth, max_entities=limit) for one in name or ()]
    found = {entity.id: entity for part in parts for entity in part.entities}
    if name and not found:
        raise NotFoundError(f"there is no entity {name[0]!r:.200} in this workspace")
    known = list(found.values()) if name else await engine.entities(limit=limit + 1)
    entities, is_truncated = known[:limit], len(known) > limit or any(part.is_truncated for part in parts)
    if len(parts) == 1:
        relations: Sequence[Relation] = parts[0].relations
    else:
        relations = await engine.store.graph.find_relations_among([item.id for item in entities])
    dates = await _dates(engine, entities)
    return JsonBody(await asyncio.to_thread(wire.graph_columns, entities, relations, dates, is_truncated=is_truncated))


async def _dates(engine: AsyncHeliograph, entities: Sequence[Entity]) -> dict[str, int]:
    """Return, per entity id, the first date that its documents' metadata states, in Unix seconds."""
    records = engine.store.records
    dated = await records.find_documents(DocumentQuery(filter=Exists(WRITTEN_AT), limit=_MOST_DATED))
    dates = ((item.source, read_date(item.metadata[WRITTEN_AT])) for item in dated.documents)
    stated = {source: int(date.timestamp()) for source, date in dates if date}
    if not stated:
        return {}
    chunk_ids = {id_ for entity in entities for id_ in entity.chunk_ids[:_CHUNKS_DATED]}
    sources = await records.get_sources(list(chunk_ids))

    def choose() -> dict[str, int]:
        moments = {
            entity.id: [stated[sources[id_]] for id_ in entity.chunk_ids[:_CHUNKS_DATED] if sources.get(id_) in stated]
            for entity in entities
        }
        return {id_: min(found) for id_, found in moments.items() if found}

    return await asyncio.to_thread(choose)


@router.get("/graph/entity/exists", summary="Whether there is an entity", responses=responses(400))
async def entity_exists(engine: ReadEngine, name: Name) -> wire.EntityExists:
    """Say whether a name leads to an entity."""
    return wire.EntityExists(exists=await engine.entity(name) is not None)


# One entity or relation with its sources, neighbours, and paths between two entities.


@router.get("/api/v1/entities", summary="List entities", responses=responses(400))
async def list_entities(
    engine: ReadEngine,
    search: Annotated[
        str,
        Query(max_length=2048, description="Only those with a name or alias that is this, begins so, or contains it."),
    ] = "",
    type: Annotated[str, Query(max_length=2048, description="Only those of this type.")] = "",
    offset: Offset = 0,
    limit: Limit = 100,
) -> wire.EntityListResponse:
    """Return entities, best connected first; with `search`, first those called so, then those that begin so."""
    found = await engine.entities(search=search, type=type, offset=offset, limit=limit + 1)
    return wire.EntityListResponse(
        entities=tuple(map(wire.EntityItem.model_validate, found[:limit])),
        next_offset=offset + limit if len(found) > limit else None,
    )


@router.get("/graph/entity", summary="Return an entity with its sources", responses=responses(400, 404))
async def get_entity(engine: ReadEngine, name: Name, offset: Offset = 0, limit: SourceLimit = 10) -> wire.EntityDetail:
    """Return an entity, and the chunks that mention it."""
    entity = await _require(engine, name)
    sources = await _sources(engine, entity.chunk_ids[offset : offset + limit])
    return wire.EntityDetail(
        entity=wire.EntityItem.model_validate(entity), sources=sources, source_count=len(entity.chunk_ids)
    )


@router.get("/graph/relation", summary="Return a relation with its sources", responses=responses(400, 404))
async def get_relation(
    engine: ReadEngine, source: Name, target: Name, offset: Offset = 0, limit: SourceLimit = 10
) -> wire.RelationDetail:
    """Return the relation between two entities, and the chunks that mention it."""
    relation = await engine.relation(source, target)
    if relation is None:
        raise NotFoundError(f"there is no relation between {source!r} and {target!r} in this workspace")
    sources = await _sources(engine, relation.chunk_ids[offset : offset + limit])
    return wire.RelationDetail(
        relation=wire.RelationItem.model_validate(relation), sources=sources, source_count=len(relation.chunk_ids)
    )


@router.get("/graph/neighbours", summary="Return what lies around an entity", responses=responses(400, 404))
async def get_neighbours(
    engine: ReadEngine,
    name: Name,
    depth: Annotated[int, Query(ge=1, le=10, description="Relations from the entity at the most.")] = 1,
    limit: Annotated[int, Query(ge=1, le=10_000, description="Entities at the most.")] = 100,
) -> wire.NeighbourResponse:
    """Return entities by distance, then degree, and the relations among them."""
    entity = await _require(engine, name)
    found = await engine.neighbours(entity.name, depth=depth, max_entities=limit)
    return wire.NeighbourResponse.model_validate(found)


@router.get("/graph/paths", summary="Return how two entities are connected", responses=responses(400, 404))
async def get_paths(
    engine: ReadEngine,
    source: Name,
    target: Name,
    max_hops: Annotated[int, Query(ge=1, le=10, description="Relations on the way at the most.")] = 6,
    limit: Annotated[int, Query(ge=1, le=100, description="Paths at the most.")] = 5,
    max_length: Annotated[
        int | None, Query(ge=1, le=10, deprecated=True, description="The former name of `max_hops`.")
    ] = None,
) -> wire.PathResponse:
    """Return the shortest paths; none if all are longer than `max_hops`."""
    ends = await _require(engine, source), await _require(engine, target)
    found = await engine.paths(ends[0].name, ends[1].name, max_hops=max_length or max_hops, limit=limit)
    return wire.PathResponse(paths=tuple(map(wire.PathItem.model_validate, found)))


async def _sources(engine: AsyncHeliograph, chunk_ids: Sequence[str]) -> tuple[wire.SourceChunk, ...]:
    chunks, sources = (
        await engine.store.records.get_chunks(chunk_ids),
        await engine.store.records.get_sources(chunk_ids),
    )
    return tuple(
        wire.SourceChunk.from_records(chunk, chunk_id=chunk.id, file_path=sources.get(chunk.id, "")) for chunk in chunks
    )


async def _require(engine: AsyncHeliograph, name: str) -> Entity:
    entity = await engine.entity(name)
    if entity is None:
        raise NotFoundError(f"there is no entity {name!r} in this workspace")
    return entity


# Corrections by LightRAG's routes.


@router.post("/graph/entity/create", summary="Make an entity", responses=responses(400))
async def create_entity(body: wire.EntityCreateRequest, work: WriteWork) -> wire.EditResponse:
    """Create an entity that exists without any document."""
    description = wire.read_text(body.entity_data, "description", is_needed=True) or ""
    kind = wire.read_text(body.entity_data, "entity_type") or ""
    async with _refusals():
        done = await work.kb.create_entity(
            body.entity_name,
            type=kind,
            description=description,
            author=work.author,
            origin=wire.read_origin(body.entity_data),
        )
    data = await _entity_data(work.kb, done.names[0])
    return wire.EditResponse(
        message=f"Entity '{data['entity_name']}' created successfully", data=data, curation_ids=[done.id]
    )


@router.post("/graph/relation/create", summary="Make a relation", responses=responses(400))
async def create_relation(body: wire.RelationCreateRequest, work: WriteWork) -> wire.EditResponse:
    """Create a relation that exists without any document; both entities must exist."""
    description = wire.read_text(body.relation_data, "description", is_needed=True) or ""
    weight = wire.read_weight(body.relation_data)
    async with _refusals():
        done = await work.kb.create_relation(
            body.source_entity,
            body.target_entity,
            keywords=wire.read_keywords(body.relation_data) or (),
            description=description,
            weight=1.0 if weight is None else weight,
            author=work.author,
            origin=wire.read_origin(body.relation_data),
        )
    return wire.EditResponse(
        message=f"Relation created successfully between '{body.source_entity}' and '{body.target_entity}'",
        data=await _relation_data(work.kb, *done.names),
        curation_ids=[done.id],
    )


@router.post("/graph/entity/edit", summary="Change or rename an entity", responses=responses(400))
async def edit_entity(body: wire.EntityUpdateRequest, work: WriteWork) -> wire.EntityEditResponse:
    """Override the type, description or name that documents give.

    A new name that another entity has is refused, or with `allow_merge` merges the two. Either all is done, or nothing.
    """
    data = body.known_data()
    new_name, kind, said = (
        wire.read_text(data, field, is_needed=field in data) for field in ("entity_name", "entity_type", "description")
    )
    done: list[Curation] = []
    async with _refusals():
        entity = await _require(work.kb, body.entity_name)
        final = entity.name
        is_renamed = new_name is not None and new_name.strip() != entity.name
        if new_name is not None and is_renamed:
            if not body.allow_rename:
                raise InvalidRequestError("renaming is not allowed by this request; set allow_rename to true")
            done = await work.kb.revise_entity(
                entity.name,
                new_name,
                type=kind,
                description=said,
                allow_merge=body.allow_merge,
                author=work.author,
            )
            final = done[-1].names[-1]
            if (found := await work.kb.entity(final)) is not None:
                final = found.name
        elif new_name is None or kind is not None or said is not None:
            done = [await work.kb.edit_entity(entity.name, type=kind, description=said, author=work.author)]
    is_merged = is_renamed and done[-1].kind is CurationKind.MERGE_ENTITIES
    summary = wire.OperationSummary(
        merged=is_merged,
        merge_status="success" if is_merged else "not_attempted",
        operation_status="success",
        target_entity=final if is_merged else None,
        final_entity=final,
        renamed=is_renamed,
    )
    return wire.EntityEditResponse(
        message=f"Entity merged successfully into '{final}'" if is_merged else "Entity updated successfully",
        data=await _entity_data(work.kb, final),
        curation_ids=[item.id for item in done],
        operation_summary=summary,
    )


@router.post("/graph/relation/edit", summary="Change a relation", responses=responses(400))
async def edit_relation(body: wire.RelationUpdateRequest, work: WriteWork) -> wire.EditResponse:
    """Override the keywords, description or weight that documents give."""
    data = body.known_data()
    async with _refusals():
        done = await work.kb.edit_relation(
            body.source_id,
            body.target_id,
            keywords=wire.read_keywords(data),
            description=wire.read_text(data, "description", is_needed="description" in data),
            weight=wire.read_weight(data),
            author=work.author,
        )
    return wire.EditResponse(
        message="Relation updated successfully",
        data=await _relation_data(work.kb, *done.names),
        curation_ids=[done.id],
    )


@router.post("/graph/entities/merge", summary="Make several entities one", responses=responses(400))
async def merge_entities(body: wire.EntityMergeRequest, work: WriteWork) -> wire.EditResponse:
    """Merge entities into one that exists, or under a new name; their relations are united."""
    async with _refusals():
        done = await work.kb.merge_entities(body.entities_to_change, body.entity_to_change_into, author=work.author)
    data = await _entity_data(work.kb, done.names[-1])
    count = len(body.entities_to_change)
    message = f"Successfully merged {count} entities into '{data['entity_name']}'"
    return wire.EditResponse(message=message, data=data, curation_ids=[done.id])


@router.delete("/graph/entity/delete", summary="Hide an entity", responses=responses(404))
@router.delete("/documents/delete_entity", summary="Hide an entity (earlier path)", include_in_schema=False)
async def delete_entity(body: wire.DeleteEntityRequest, work: WriteWork) -> wire.DeletionResult:
    """Hide an entity and its relations, whatever documents say, until this is undone."""
    done = await work.kb.delete_entity(body.entity_name, author=work.author)
    message = f"Entity '{done.names[0]}' and its relationships have been deleted."
    return wire.DeletionResult(message=message, curation_ids=[done.id])


@router.delete("/graph/relation/delete", summary="Hide a relation", responses=responses(404))
@router.delete("/documents/delete_relation", summary="Hide a relation (earlier path)", include_in_schema=False)
async def delete_relation(body: wire.DeleteRelationRequest, work: WriteWork) -> wire.DeletionResult:
    """Hide a relation, whatever documents say, until this is undone."""
    done = await work.kb.delete_relation(body.source_entity, body.target_entity, author=work.author)
    message = f"Relation between '{done.names[0]}' and '{done.names[1]}' deleted successfully"
    return wire.DeletionResult(message=message, curation_ids=[done.id])


@asynccontextmanager
async def _refusals() -> AsyncGenerator[None]:
    """Turn an unknown or taken name into status 400, as LightRAG does."""
    try:
        yield
    except (ConflictError, NotFoundError) as error:
        raise InvalidRequestError(str(error)) from error


async def _entity_data(engine: AsyncHeliograph, name: str) -> dict[str, Any]:
    entity = await engine.entity(name)
    if entity is None:
        return {"entity_name": name, "source_id": None, "graph_data": None}
    sources = await engine.store.records.get_sources(wire.told_chunks([entity]))
    (rules,) = await engine.store.curations.get_rules([entity.id]) or (NameRules(entity.id),)
    own = (item for item in rules.curations if len(item.entity_ids) == 1)
    properties = wire.entity_properties(entity, sources) | wire.given_origin(own)
    return {"entity_name": entity.name, "source_id": properties["source_id"], "graph_data": properties}


async def _relation_data(engine: AsyncHeliograph, name: str, other: str) -> dict[str, Any]:
    relation = await engine.relation(name, other)
    if relation is None:
        return {"src_entity": name, "tgt_entity": other, "source_id": None, "graph_data": None}
    sources = await engine.store.records.get_sources(wire.told_chunks([relation]))
    ends = {relation.source_id, relation.target_id}
    (rules,) = await engine.store.curations.get_rules([relation.source_id]) or (NameRules(relation.source_id),)
    own = (item for item in rules.curations if set(item.entity_ids) == ends)
    properties = wire.relation_properties(relation, sources) | wire.given_origin(own)
    return {"src_entity": name, "tgt_entity": other, "source_id": properties["source_id"], "graph_data": properties}


# History, the list of corrections, undoing one, splitting, and likely duplicates.


@router.post("/graph/entity/split", summary="Split an entity in two", responses=responses(400, 404, 409))
async def split_entity(body: wire.SplitRequest, work: WriteWork) -> wire.CurationItem:
    """Split off an entity: the mentions of a name in some documents or chunks."""
    done = await work.kb.split_entity(
        body.entity_name,
        body.new_name,
        document_ids=body.document_ids,
        chunk_ids=body.chunk_ids,
        author=work.author,
    )
    return wire.CurationItem.model_validate(done)


@router.get("/graph/history", summary="Return who said what", responses=responses(400, 404))
async def get_history(
    engine: ReadEngine, name: Name, other: OtherName = None, offset: Offset = 0, limit: Limit = 100
) -> wire.HistoryResponse:
    """Return chunks' statements and people's corrections about an entity, or with `other` about a relation."""
    history = await engine.history(name, other, offset=offset, limit=limit)
    if not history.statement_count and not history.curations:
        what = f"entity {name!r}" if other is None else f"relation between {name!r} and {other!r}"
        raise NotFoundError(f"nothing was ever said of the {what} in this workspace")
    return wire.HistoryResponse.model_validate(history)


@router.get("/graph/curations", summary="List corrections by hand", responses=responses(400))
async def list_curations(
    engine: ReadEngine,
    name: Annotated[str | None, Query(max_length=2048, description="Only those that name this entity.")] = None,
    includes_undone: Annotated[bool, Query(description="Whether to list those that were taken back, too.")] = True,
    offset: Offset = 0,
    limit: Limit = 100,
) -> wire.CurationListResponse:
    """Return corrections of the graph, the latest first."""
    entity = await engine.entity(name) if name else None
    page = await engine.curations(
        CurationQuery(
            entity_id=entity.id if entity else name_to_entity_id(name) if name else None,
            includes_undone=includes_undone,
            descending=True,
            offset=offset,
            limit=limit,
        )
    )
    return wire.CurationListResponse(
        curations=tuple(map(wire.CurationItem.model_validate, page.curations)), total=page.total
    )


@router.post("/graph/curations/{curation_id}/undo", summary="Undo a correction", responses=responses(404, 409))
async def undo_curation(curation_id: Annotated[str, Path(max_length=200)], work: WriteWork) -> wire.CurationItem:
    """Undo a correction: the graph becomes what it would be without it."""
    return wire.CurationItem.model_validate(await work.kb.undo(curation_id, author=work.author))


@router.get("/graph/duplicates", summary="Find entities that may be one", responses=responses(400))
async def find_duplicates(
    engine: ReadEngine,
    name: Annotated[list[str] | None, Query(max_length=100, description="Look at these entities only.")] = None,
    examined: Annotated[
        int, Query(ge=1, le=_MOST_EXAMINED, description="Without names: how many of the best connected to look at.")
    ] = 500,
    limit: Limit = 100,
) -> wire.DuplicateResponse:
    """Return pairs of entities with similar names and near vectors."""
    names = name or [entity.name for entity in await engine.entities(limit=examined)]
    pairs = await engine.find_duplicates(limit=limit, names=names) if names else []
    return wire.DuplicateResponse(pairs=tuple(map(wire.DuplicateItem.model_validate, pairs)))
