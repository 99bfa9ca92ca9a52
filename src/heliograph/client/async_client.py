"""The client for async code."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx

from heliograph.client.answers import ClientAnswer, ClientRetrieval, QueryOptions
from heliograph.client.async_curations import AsyncCurations
from heliograph.client.async_rooms import AsyncDocuments, AsyncGraph, AsyncJobs, AsyncWorkspaces
from heliograph.client.calls import Call, get, query_call, query_data_call, retrieve_call, stream_call
from heliograph.client.streams import AsyncAnswerStream, StreamReader
from heliograph.client.transport import (
    Attempts,
    ClientOptions,
    Connection,
    Secret,
    login_call,
    read_reply,
    request_arguments,
    transport_error,
)
from heliograph.models import DEFAULT_MODE, ModeName

__all__ = ["AsyncHeliographClient"]

T = TypeVar("T")


class AsyncHeliographClient:
    """A Heliograph service, for one workspace of it; `HeliographClient` documents it.

        async with AsyncHeliographClient("http://127.0.0.1:9621", api_key="...") as client:
            print((await client.query("What does ESP32 speak?")).text)

    Safe to use from many tasks of one event loop.
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
        """See `HeliographClient`."""
        self._connection = Connection(base_url, Secret(api_key, username, password, token), options or ClientOptions())
        self._http = httpx.AsyncClient(
            base_url=base_url, timeout=self._connection.options.to_httpx(), transport=transport
        )
        self._workspace = workspace
        self._owns_http = True
        self._make_rooms()

    def in_workspace(self, name: str) -> AsyncHeliographClient:
        """Return a view of the same client for another workspace; it need not be closed."""
        return _View(self._connection, self._http, name)

    async def close(self) -> None:
        """Close the connections; a view of another workspace closes nothing."""
        if self._owns_http:
            await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def query(
        self, question: str, mode: ModeName = DEFAULT_MODE.value, options: QueryOptions | None = None
    ) -> ClientAnswer:
        """See `HeliographClient.query`."""
        return await self._send(query_call(question, mode, options))

    @asynccontextmanager
    async def stream(
        self,
        question: str,
        mode: ModeName = DEFAULT_MODE.value,
        options: QueryOptions | None = None,
        *,
        progress: Callable[[str], None] | None = None,
    ) -> AsyncGenerator[AsyncAnswerStream]:
        """See `HeliographClient.stream`."""
        response = await self._open(stream_call(question, mode, options))
        try:
            async with aclosing(self._bytes_of(response)) as chunks:
                yield await AsyncAnswerStream(StreamReader(progress), chunks).begin()
        finally:
            await response.aclose()

    async def retrieve(
        self,
        question: str,
        mode: ModeName = DEFAULT_MODE.value,
        options: QueryOptions | None = None,
        *,
        include_context: bool = False,
    ) -> ClientRetrieval:
        """See `HeliographClient.retrieve`."""
        return await self._send(retrieve_call(question, mode, options, include_context=include_context))

    async def query_data(
        self, question: str, mode: ModeName = DEFAULT_MODE.value, options: QueryOptions | None = None
    ) -> Mapping[str, Any]:
        """See `HeliographClient.query_data`."""
        return await self._send(query_data_call(question, mode, options))

    async def health(self) -> Mapping[str, Any]:
        """See `HeliographClient.health`."""
        return await self._send(get("/health", Mapping[str, Any]))

    async def log_out(self) -> None:
        """See `HeliographClient.log_out`."""
        await self._send(Call("POST", "/logout", lambda _reply: None))
        self._connection.token = None

    def _make_rooms(self) -> None:
        self.documents = AsyncDocuments(self._send)
        self.jobs = AsyncJobs(self._send)
        self.workspaces = AsyncWorkspaces(self._send)
        self.graph = AsyncGraph(self._send)
        self.curations = AsyncCurations(self._send)

    async def _send(self, call: Call[T]) -> T:
        response = await self._open(call)
        await self._read(response)
        return read_reply(call, response)

    async def _open(self, call: Call[Any]) -> httpx.Response:
        """Return a good response whose body is not read yet, after as many tries as the call allows."""
        attempts = Attempts(self._connection, call)
        while True:
            if attempts.needs_login:
                self._connection.token = await self._send(login_call(self._connection))
            response, error = await self._try(call)
            if response is not None and response.is_success:
                return response
            if response is not None:
                await self._read(response)
            await asyncio.sleep(attempts.wait_seconds(response, error))

    async def _try(self, call: Call[Any]) -> tuple[httpx.Response | None, httpx.HTTPError | None]:
        headers = self._connection.headers(self._workspace)
        request = self._http.build_request(**request_arguments(call), headers=headers)
        try:
            response = await self._http.send(request, stream=True)
        except httpx.HTTPError as error:
            return None, error
        self._connection.note(response)
        return response, None

    async def _read(self, response: httpx.Response) -> None:
        try:
            await response.aread()
        except httpx.HTTPError as error:
            raise transport_error(self._connection, error) from error
        finally:
            await response.aclose()

    async def _bytes_of(self, response: httpx.Response) -> AsyncGenerator[bytes]:
        try:
            async for data in response.aiter_bytes():
                yield data
        except httpx.HTTPError as error:
            raise transport_error(self._connection, error) from error


class _View(AsyncHeliographClient):
    """The same client for another workspace."""

    def __init__(self, connection: Connection, http: httpx.AsyncClient, workspace: str) -> None:
        self._connection = connection
        self._http = http
        self._workspace = workspace
        self._owns_http = False
        self._make_rooms()
