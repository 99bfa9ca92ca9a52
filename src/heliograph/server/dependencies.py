"""What routes declare to need: the service, who asks, the engine of the workspace that is named, and a turn."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Annotated, TypeVar, cast
from urllib.parse import unquote

from fastapi import Depends, Request

from heliograph.engine import AsyncHeliograph
from heliograph.errors import AuthenticationError
from heliograph.query.answers.answer import AnswerStream
from heliograph.query.answers.models import Answer
from heliograph.query.models import QueryParam, Retrieval
from heliograph.query.payloads import QueryData
from heliograph.server.openapi import responses
from heliograph.server.responses import until_disconnect
from heliograph.service.admission import Admission
from heliograph.service.principal import Principal, Role
from heliograph.service.service import Service

_T = TypeVar("_T")
_HEADERS = ("X-Heliograph-Workspace", "LIGHTRAG-WORKSPACE")


def find_workspace(request: Request, default: str) -> str:
    """Return the workspace that a request names in its headers, and note it for the log."""
    named = (request.headers.get(header, "").strip() for header in _HEADERS)
    name = next(filter(None, named), "")
    # Headers are ASCII, so other letters come as bytes of UTF-8 or percent-encoded.
    with suppress(UnicodeError):
        name = unquote(name.encode("latin-1").decode("utf-8"))
    request.state.workspace = name or default
    return request.state.workspace


def _service_of(request: Request) -> Service:
    return cast("Service", request.app.state.service)


def _principal_of(request: Request) -> Principal:
    principal = getattr(request.state, "principal", None)
    if principal is None:
        # On a path that everybody may reach.
        raise AuthenticationError("No credentials provided. Please login.")
    return cast("Principal", principal)


def _entering(request: Request, role: Role) -> tuple[Principal, str]:
    """Return who asks and in which workspace, if the role is held there."""
    principal, workspace = _principal_of(request), find_workspace(request, _service_of(request).workspaces.default)
    principal.require(role, workspace)
    return principal, workspace


# FastAPI runs what is not async in a thread, which costs more than all of these together; so all are. Each asks the
# request, and none another, since the framework's walk through a tree of them costs more than they do.
async def _service(request: Request) -> Service:
    return _service_of(request)


async def _workspace(request: Request) -> str:
    return find_workspace(request, _service_of(request).workspaces.default)


async def _principal(request: Request) -> Principal:
    return _principal_of(request)


def _with(role: Role) -> Callable[[Request], Awaitable[Principal]]:
    async def principal(request: Request) -> Principal:
        return _entering(request, role)[0]

    return principal


async def _read_engine(request: Request) -> AsyncGenerator[AsyncHeliograph]:
    _, workspace = _entering(request, Role.READ)
    async with _service_of(request).workspaces.use(workspace) as engine:
        yield engine


async def _write_engine(request: Request) -> AsyncGenerator[AsyncHeliograph]:
    principal, workspace = _entering(request, Role.WRITE)
    workspaces = _service_of(request).workspaces
    creates = principal.may_create(workspace) or workspace == workspaces.default
    async with workspaces.use(workspace, creates=creates) as engine:
        yield engine


CurrentService = Annotated[Service, Depends(_service)]
Workspace = Annotated[str, Depends(_workspace)]
CurrentPrincipal = Annotated[Principal, Depends(_principal)]
Reader = Annotated[Principal, Depends(_with(Role.READ))]
Writer = Annotated[Principal, Depends(_with(Role.WRITE))]
Admin = Annotated[Principal, Depends(_with(Role.ADMIN))]
ReadEngine = Annotated[AsyncHeliograph, Depends(_read_engine)]
WriteEngine = Annotated[AsyncHeliograph, Depends(_write_engine)]


# How every route asks: in its turn, and only for as long as the client is there.

# What every route that asks may fail with.
FAILURES = responses(400, 401, 403, 404, 413, 422, 429, 500, 502, 503, 504)


@dataclass(frozen=True, slots=True)
class Asker:
    """Asks one workspace for one client.

    All methods raise `OverloadedError` if too many wait, and what the engine raises.

    Attributes:
        engine: The workspace.
        admission: Gives turns.
        client: Whose turn it is.
        request: The client's request.
    """

    engine: AsyncHeliograph
    admission: Admission
    client: str
    request: Request

    async def answer(self, question: str, param: QueryParam) -> Answer:
        """Return the whole answer.

        Raises:
            ClientGone: The client hung up, and the model's call was cancelled.
        """
        return await self._in_turn(lambda: self.engine.query(question, param))

    async def retrieve(self, question: str, param: QueryParam) -> Retrieval:
        """Return what an answer would be made from.

        Raises:
            ClientGone: The client hung up.
        """
        return await self._in_turn(lambda: self.engine.retrieve(question, param))

    async def query_data(self, question: str, param: QueryParam) -> QueryData:
        """Return the same as a dict, without the text that a chat model would read; raises as `retrieve` does."""
        return await self._in_turn(lambda: self.engine.query_data(question, param))

    @asynccontextmanager
    async def stream(
        self, question: str, param: QueryParam, progress: Callable[[str], None] | None = None
    ) -> AsyncGenerator[AnswerStream]:
        """Retrieve and yield the stream of the answer; the turn lasts until the block is left."""
        async with (
            self.admission.turn(self.client),
            await self.engine.query_stream(question, param, progress=progress) as stream,
        ):
            yield stream

    async def _in_turn(self, ask: Callable[[], Awaitable[_T]]) -> _T:
        async def wait_and_ask() -> _T:
            async with self.admission.turn(self.client):
                return await ask()

        return await until_disconnect(self.request, wait_and_ask())


async def _asker(request: Request, engine: ReadEngine) -> Asker:
    service = _service_of(request)
    await service.access.count_query(request.state.principal)
    return Asker(engine, service.admission, request.state.principal.client, request)


CurrentAsker = Annotated[Asker, Depends(_asker)]
