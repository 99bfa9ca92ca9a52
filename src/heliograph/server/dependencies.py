"""What routes declare to need: the service, who asks, and the engine of the workspace that the request names.

A route asks for `Reader`, `Writer` or `Admin` and gets a principal that was checked for the workspace, or for
`ReadEngine` or `WriteEngine` and gets the engine as well, lent until the response is finished, streams included.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Annotated, cast

from fastapi import Depends, Request

from heliograph.engine import AsyncHeliograph
from heliograph.service.principal import ANYONE, Principal, Role
from heliograph.service.service import Service

__all__ = ["Admin", "CurrentService", "ReadEngine", "Reader", "Workspace", "WriteEngine", "Writer"]

_HEADERS = ("X-Heliograph-Workspace", "LIGHTRAG-WORKSPACE")


def _service(request: Request) -> Service:
    return cast("Service", request.app.state.service)


CurrentService = Annotated[Service, Depends(_service)]


def _workspace(request: Request, service: CurrentService) -> str:
    named = (request.headers.get(header, "").strip() for header in _HEADERS)
    return next(filter(None, named), service.workspaces.default)


Workspace = Annotated[str, Depends(_workspace)]


def _principal(request: Request) -> Principal:
    return ANYONE


def _reader(principal: Annotated[Principal, Depends(_principal)], workspace: Workspace) -> Principal:
    principal.require(Role.READ, workspace)
    return principal


def _writer(principal: Annotated[Principal, Depends(_principal)], workspace: Workspace) -> Principal:
    principal.require(Role.WRITE, workspace)
    return principal


def _admin(principal: Annotated[Principal, Depends(_principal)]) -> Principal:
    principal.require(Role.ADMIN)
    return principal


Reader = Annotated[Principal, Depends(_reader)]
Writer = Annotated[Principal, Depends(_writer)]
Admin = Annotated[Principal, Depends(_admin)]


async def _read_engine(_: Reader, workspace: Workspace, service: CurrentService) -> AsyncGenerator[AsyncHeliograph]:
    async with service.workspaces.use(workspace) as engine:
        yield engine


async def _write_engine(_: Writer, workspace: Workspace, service: CurrentService) -> AsyncGenerator[AsyncHeliograph]:
    async with service.workspaces.use(workspace, creates=True) as engine:
        yield engine


ReadEngine = Annotated[AsyncHeliograph, Depends(_read_engine)]
WriteEngine = Annotated[AsyncHeliograph, Depends(_write_engine)]
