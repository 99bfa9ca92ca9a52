"""What people did to the graph: history, the list of corrections, undoing one, splitting, and likely duplicates."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query

from heliograph.errors import NotFoundError
from heliograph.server.dependencies import ReadEngine, WriteEngine, Writer
from heliograph.server.openapi import responses
from heliograph.stores.base import CurationQuery
from heliograph.text.names import name_to_entity_id
from heliograph.wire.graph import (
    CurationItem,
    CurationListResponse,
    DuplicateItem,
    DuplicateResponse,
    HistoryResponse,
    SplitRequest,
)

router = APIRouter(tags=["graph"])

_MOST_EXAMINED = 2_000

Name = Annotated[str, Query(max_length=2048, description="Name of an entity, by any spelling or alias.")]
OtherName = Annotated[str | None, Query(max_length=2048, description="The other end, for a relation.")]
Offset = Annotated[int, Query(ge=0, le=1_000_000_000, description="Passed over.")]
Limit = Annotated[int, Query(ge=1, le=1000, description="Returned at the most.")]


@router.post("/graph/entity/split", summary="Split an entity in two", responses=responses(400, 404, 409))
async def split_entity(body: SplitRequest, engine: WriteEngine, principal: Writer) -> CurationItem:
    """Make what some documents or chunks call by a name an entity of its own."""
    done = await engine.split_entity(
        body.entity_name,
        body.new_name,
        document_ids=body.document_ids,
        chunk_ids=body.chunk_ids,
        author=principal.name,
    )
    return CurationItem.of(done)


@router.get("/graph/history", summary="Return who said what", responses=responses(400, 404))
async def get_history(
    engine: ReadEngine, name: Name, other: OtherName = None, offset: Offset = 0, limit: Limit = 100
) -> HistoryResponse:
    """Return what chunks say of an entity, or with `other` of a relation, and what people did to it."""
    history = await engine.history(name, other, offset=offset, limit=limit)
    if not history.statement_count and not history.curations:
        what = f"entity {name!r}" if other is None else f"relation between {name!r} and {other!r}"
        raise NotFoundError(f"nothing was ever said of the {what} in this workspace")
    return HistoryResponse.of(history)


@router.get("/graph/curations", summary="List corrections by hand", responses=responses(400))
async def list_curations(
    engine: ReadEngine,
    name: Annotated[str | None, Query(max_length=2048, description="Only those that name this entity.")] = None,
    includes_undone: Annotated[bool, Query(description="Whether to list those that were taken back, too.")] = True,
    offset: Offset = 0,
    limit: Limit = 100,
) -> CurationListResponse:
    """Return what people did to the graph, the latest first."""
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
    return CurationListResponse(curations=tuple(map(CurationItem.of, page.curations)), total=page.total)


@router.post("/graph/curations/{curation_id}/undo", summary="Undo a correction", responses=responses(404, 409))
async def undo_curation(
    curation_id: Annotated[str, Path(max_length=200)], engine: WriteEngine, principal: Writer
) -> CurationItem:
    """Take a correction back: the graph becomes what it would be without it."""
    return CurationItem.of(await engine.undo(curation_id, author=principal.name))


@router.get("/graph/duplicates", summary="Find entities that may be one", responses=responses(400))
async def find_duplicates(
    engine: ReadEngine,
    name: Annotated[list[str] | None, Query(max_length=100, description="Look at these entities only.")] = None,
    examined: Annotated[
        int, Query(ge=1, le=_MOST_EXAMINED, description="Without names: how many of the best connected to look at.")
    ] = 500,
    limit: Limit = 100,
) -> DuplicateResponse:
    """Return pairs of entities with like names and near vectors."""
    names = name or [entity.name for entity in await engine.entities(limit=examined)]
    pairs = await engine.find_duplicates(limit=limit, names=names) if names else []
    return DuplicateResponse(pairs=tuple(map(DuplicateItem.of, pairs)))
