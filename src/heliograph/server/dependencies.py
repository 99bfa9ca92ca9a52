"""What routes declare to need: the service, who asks, and the engine of the workspace that the request names.

A route asks for `Reader`, `Writer` or `Admin` and gets a principal that was checked for the workspace, or for
`ReadEngine` or `WriteEngine` and gets the engine as well, lent until the response is finished, streams included. Who
asks was found out by the guard, before the body was read.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Annotated, cast
from urllib.parse import unquote

from fastapi import Depends, Request

from heliograph.engine import AsyncHeliograph
from heliograph.errors import AuthenticationError
from heliograph.service.principal import Principal, Role
from heliograph.service.service import Service

_HEADERS = ("X-Heliograph-Workspace", "LIGHTRAG-WORKSPACE")


def find_workspace(request: Request, default: str) -> str:
    """Return the workspace that a request names in its headers, and note it for the log."""
    named = (request.headers.get(header, "").strip() for header in _HEADERS)
    name = next(filter(None, map(_read_name, named)), default)
    request.state.workspace = name
    return name


# FastAPI runs what is not async in a thread, which costs more than all of these together; so all are.
async def _service(request: Request) -> Service:
    return cast("Service", request.app.state.service)


CurrentService = Annotated[Service, Depends(_service)]


async def _workspace(request: Request, service: CurrentService) -> str:
    return find_workspace(request, service.workspaces.default)


def _read_name(header: str) -> str:
    """Return a name as it was meant: headers are ASCII, so other letters come as bytes of UTF-8 or percent-encoded."""
    try:
        return unquote(header.encode("latin-1").decode("utf-8"))
    except UnicodeError:
        return header


Workspace = Annotated[str, Depends(_workspace)]


async def _principal(request: Request) -> Principal:
    principal = getattr(request.state, "principal", None)
    if principal is None:
        # On a path that the guard lets everybody reach.
        raise AuthenticationError("No credentials provided. Please login.")
    return cast("Principal", principal)


CurrentPrincipal = Annotated[Principal, Depends(_principal)]


async def _reader(principal: CurrentPrincipal, workspace: Workspace) -> Principal:
    principal.require(Role.READ, workspace)
    return principal


async def _writer(principal: CurrentPrincipal, workspace: Workspace) -> Principal:
    principal.require(Role.WRITE, workspace)
    return principal


async def _admin(principal: CurrentPrincipal, workspace: Workspace) -> Principal:
    principal.require(Role.ADMIN, workspace)
    return principal


Reader = Annotated[Principal, Depends(_reader)]
Writer = Annotated[Principal, Depends(_writer)]
Admin = Annotated[Principal, Depends(_admin)]


async def _read_engine(_: Reader, workspace: Workspace, service: CurrentService) -> AsyncGenerator[AsyncHeliograph]:
    async with service.workspaces.use(workspace) as engine:
        yield engine


async def _write_engine(
    principal: Writer, workspace: Workspace, service: CurrentService
) -> AsyncGenerator[AsyncHeliograph]:
    creates = principal.may_create(workspace) or workspace == service.workspaces.default
    async with service.workspaces.use(workspace, creates=creates) as engine:
        yield engine


ReadEngine = Annotated[AsyncHeliograph, Depends(_read_engine)]
WriteEngine = Annotated[AsyncHeliograph, Depends(_write_engine)]
