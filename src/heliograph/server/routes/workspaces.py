"""Workspaces: list, make, count, delete. Credentials that are bound to workspaces see these and no others."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Response

from heliograph.errors import ConflictError, NotFoundError
from heliograph.models import Stats
from heliograph.server.dependencies import CurrentPrincipal, CurrentService
from heliograph.server.openapi import responses
from heliograph.service.principal import Role
from heliograph.wire.service import (
    NewWorkspace,
    WorkspaceList,
    WorkspaceReply,
    WorkspaceRow,
    WorkspaceStats,
)

router = APIRouter(tags=["workspaces"])

_Name = Annotated[str, Path(pattern=r"^[\w][\w.\-]{0,63}$", description="Name of the workspace.")]


@router.get("/workspaces", summary="List workspaces")
async def list_workspaces(principal: CurrentPrincipal, service: CurrentService) -> WorkspaceList:
    """Return the workspaces that the credentials may enter, by name."""
    default = service.workspaces.default
    names = [name for name in await service.workspaces.names() if principal.may_enter(name)]
    rows = tuple(WorkspaceRow(name=name, is_default=name == default) for name in names)
    return WorkspaceList(workspaces=rows, default=default)


@router.post("/workspaces", status_code=201, summary="Make a workspace", responses=responses(409))
async def create_workspace(new: NewWorkspace, principal: CurrentPrincipal, service: CurrentService) -> WorkspaceReply:
    """Make an empty workspace; 409 if there is one of this name."""
    principal.require(Role.ADMIN, new.name)
    await service.workspaces.create(new.name)
    return WorkspaceReply(message="created", name=new.name)


@router.put(
    "/workspaces/{name}",
    summary="Make sure that there is a workspace",
    responses={201: {"model": WorkspaceReply, "description": "It was made."}, **responses(409)},
)
async def ensure_workspace(
    name: _Name, principal: CurrentPrincipal, service: CurrentService, response: Response
) -> WorkspaceReply:
    """Make a workspace if there is none of this name: 201 if it was made, 200 if it was there."""
    principal.require(Role.ADMIN, name)
    try:
        await service.workspaces.create(name)
    except ConflictError:
        if not await service.workspaces.exists(name):
            raise
        return WorkspaceReply(message="was there", name=name)
    response.status_code = 201
    return WorkspaceReply(message="created", name=name)


@router.get("/workspaces/{name}", summary="Count what a workspace holds", responses=responses(404))
async def workspace_stats(name: _Name, principal: CurrentPrincipal, service: CurrentService) -> WorkspaceStats:
    """Return how many documents, chunks, entities and relations a workspace holds."""
    principal.require(Role.READ, name)
    async with service.workspaces.use(name) as engine:
        return _stats(name, await engine.stats())


@router.delete("/workspaces/{name}", summary="Delete a workspace", responses=responses(404, 409))
async def delete_workspace(name: _Name, principal: CurrentPrincipal, service: CurrentService) -> WorkspaceReply:
    """Delete a workspace with everything in it, once requests under way in it are done; never the default one."""
    principal.require(Role.ADMIN, name)
    if not await service.workspaces.exists(name):
        raise NotFoundError(f"there is no workspace {name!r}")
    await service.workspaces.remove(name)
    return WorkspaceReply(message="deleted", name=name)


def _stats(name: str, stats: Stats) -> WorkspaceStats:
    return WorkspaceStats(
        name=name,
        documents={status.value: count for status, count in stats.documents.items() if count},
        chunks=stats.chunks,
        entities=stats.entities,
        relations=stats.relations,
        cached_replies=stats.cached_replies,
        data_version=stats.data_version,
        bytes_on_disk=stats.bytes_on_disk,
    )
