"""The client of a service for async code; `blocking` derives the one that waits."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx

import heliograph.client.records as records
from heliograph.client.reading import read_as
from heliograph.client.records import QueryOptions
from heliograph.client.resources import AsyncCurations, AsyncDocuments, AsyncGraph, AsyncJobs, AsyncWorkspaces
from heliograph.client.streams import AsyncAnswerStream, StreamReader, answer_from
from heliograph.client.transport import (
    AsyncTransport,
    Attempts,
    Call,
    ClientOptions,
    Connection,
    Secret,
    Transport,
    get,
    read_reply,
    request_arguments,
    transport_error,
)
from heliograph.models import DEFAULT_MODE, ModeName

__all__ = ["AsyncHeliographClient", "ClientOver"]

T = TypeVar("T")


class AsyncHeliographClient:
    """A Heliograph service, for one workspace of it.

        async with AsyncHeliographClient("http://127.0.0.1:9621", api_key="...") as client:
            print((await client.query("What does ESP32 speak?")).text)

    Safe to use from many tasks of one event loop. All methods raise what the service reports as the errors of
    `heliograph.errors`, and `ServiceUnavailable` where it cannot be reached or is none.

    Attributes:
        documents: Taking in, reading, changing and deleting documents.
        jobs: Background work.
        workspaces: Workspaces of the service.
        graph: Entities, relations, neighbours, paths.
        curations: Corrections of the graph.
    """

    def __init__(
        self,
        base_url: str,
        *,
        api_key: str | None = None,
        username: str | None = None,
        password: str | None = None,
        token: str | None = None,
        workspace: str | None = None,
        options: ClientOptions | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """Note where the service is; nothing is sent yet.

        Args:
            base_url: Its address, a path prefix included if it has one.
            api_key: A key.
            username: Name of an account; the first call logs in.
            password: Its password.
            token: A token, in place of logging in.
            workspace: Name of the workspace; None means the service's default.
            options: Time-outs and retries.
            transport: In place of httpx's own, for proxies and tests.

        Raises:
            InvalidRequestError: The address is none, or a name comes without a password.
        """
        connection = Connection(base_url, Secret(api_key, username, password, token), options or ClientOptions())
        self._attach(connection, AsyncTransport(base_url, connection.options, transport), workspace)

    def _attach(self, connection: Connection, transport: Transport, workspace: str | None) -> None:
        self._connection = connection
        self._workspace = workspace
        self.transport = transport
        self.documents = AsyncDocuments(self)
        self.jobs = AsyncJobs(self)
        self.workspaces = AsyncWorkspaces(self)
        self.graph = AsyncGraph(self)
        self.curations = AsyncCurations(self)

    def in_workspace(self, name: str) -> AsyncHeliographClient:
        """Return a view of the same client for another workspace; it need not be closed."""
        return ClientOver(self._connection, self.transport, name, is_view=True)

    async def close(self) -> None:
        """Close the connections; a view of another workspace closes nothing."""
        await self.transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def query(
        self, question: str, mode: ModeName = DEFAULT_MODE.value, options: QueryOptions | None = None
    ) -> records.ClientAnswer:
        """Answer a question; nothing found is an answer of kind `nothing_found`.

        Raises:
            InvalidRequestError: The question or an option cannot be served.
            HeliographError: What else the service reports.
        """
        body = _question(question, mode, options) | {"include_references": True}
        return await self.send(Call("POST", "/query", answer_from, json=body, is_safe=True))

    @asynccontextmanager
    async def stream(
        self,
        question: str,
        mode: ModeName = DEFAULT_MODE.value,
        options: QueryOptions | None = None,
        *,
        progress: Callable[[str], None] | None = None,
    ) -> AsyncGenerator[AsyncAnswerStream]:
        """Answer a question piece by piece; leaving the block early ends the model's work.

            async with client.stream("What does ESP32 speak?") as stream:
                print(stream.references)
                async for piece in stream:
                    print(piece, end="")

        Args:
            question: The question.
            mode: As in `query`.
            options: As in `query`.
            progress: Called with each stage as it begins.

        Raises:
            HeliographError: What the service reports, also on the way.
        """
        # With progress asked for, references come before the first piece.
        body = _question(question, mode, options) | {"include_references": True, "include_progress": True}
        response = await self._open(Call("POST", "/query/stream", answer_from, json=body, is_safe=True))
        try:
            async with aclosing(self._pieces(response)) as pieces:
                yield await AsyncAnswerStream(StreamReader(progress), pieces).begin()
        finally:
            await self.transport.release(response)

    async def retrieve(
        self,
        question: str,
        mode: ModeName = DEFAULT_MODE.value,
        options: QueryOptions | None = None,
        *,
        include_context: bool = False,
    ) -> records.ClientRetrieval:
        """Return what an answer would be made from; nothing found is status `failure`."""
        body = _question(question, mode, options) | {"include_context": include_context}
        return await self.send(_asking("/api/v1/retrieve", records.ClientRetrieval, body))

    async def query_data(
        self, question: str, mode: ModeName = DEFAULT_MODE.value, options: QueryOptions | None = None
    ) -> Mapping[str, Any]:
        """Return what LightRAG's `/query/data` returns, as it is."""
        return await self.send(_asking("/query/data", Mapping[str, Any], _question(question, mode, options)))

    async def health(self) -> Mapping[str, Any]:
        """Return what the service reports of itself."""
        return await self.send(get("/health", Mapping[str, Any]))

    async def log_out(self) -> None:
        """End the session of the token, with every token renewed from it."""
        await self.send(Call("POST", "/logout", lambda _reply: None))
        self._connection.token = None

    async def send(self, call: Call[T]) -> T:
        """Send a call and return its result.

        Raises:
            HeliographError: What the service reports.
        """
        response = await self._open(call)
        await self._read(response)
        return read_reply(call, response)

    async def _open(self, call: Call[Any]) -> httpx.Response:
        """Return a good response whose body is not read yet, after as many tries as the call allows."""
        attempts = Attempts(self._connection, call)
        while True:
            if attempts.needs_login:
                self._connection.token = await self._log_in()
            response, failure = None, None
            request = self.transport.build_request(request_arguments(call), self._connection.headers(self._workspace))
            try:
                response = await self.transport.send(request)
            except httpx.HTTPError as error:
                failure = error
            if response is not None:
                self._connection.note(response)
                if response.is_success:
                    return response
                await self._read(response)
            await self.transport.sleep(attempts.wait_seconds(response, failure))

    async def _log_in(self) -> str:
        secret = self._connection.secret
        form = {"username": secret.username or "", "password": secret.password or ""}
        return await self.send(
            Call("POST", "/login", lambda reply: read_as(_Login, reply).access_token, form=form, is_login=True)
        )

    async def _read(self, response: httpx.Response) -> None:
        try:
            await self.transport.read(response)
        except httpx.HTTPError as error:
            raise transport_error(self._connection, error) from error

    async def _pieces(self, response: httpx.Response) -> AsyncGenerator[bytes]:
        try:
            async for piece in self.transport.pieces(response):
                yield piece
        except httpx.HTTPError as error:
            raise transport_error(self._connection, error) from error


class ClientOver(AsyncHeliographClient):
    """A client over a connection and a transport that are there; a view leaves them open."""

    def __init__(
        self, connection: Connection, transport: Transport, workspace: str | None, *, is_view: bool = False
    ) -> None:
        self._is_view = is_view
        self._attach(connection, transport, workspace)

    async def close(self) -> None:
        if not self._is_view:
            await super().close()


@dataclass(frozen=True, slots=True)
class _Login:
    access_token: str


def _question(question: str, mode: str, options: QueryOptions | None) -> dict[str, Any]:
    return {"query": question, "mode": mode} | (options.to_json() if options else {})


def _asking(path: str, kind: type[T], body: Mapping[str, Any]) -> Call[T]:
    return Call("POST", path, lambda reply: read_as(kind, reply), json=body, is_safe=True)
