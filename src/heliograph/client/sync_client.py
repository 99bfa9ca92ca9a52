"""The client for code that is not async."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx

from heliograph.client.answers import ClientAnswer, ClientRetrieval, QueryOptions
from heliograph.client.calls import Call, get, query_call, query_data_call, retrieve_call, stream_call
from heliograph.client.streams import StreamReader, SyncAnswerStream
from heliograph.client.sync_curations import Curations
from heliograph.client.sync_rooms import Documents, Graph, Jobs, Workspaces
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

__all__ = ["HeliographClient"]

T = TypeVar("T")


class HeliographClient:
    """A Heliograph service, for one workspace of it.

        with HeliographClient("http://127.0.0.1:9621", api_key="...") as client:
            print(client.query("What does ESP32 speak?").text)

    Safe to use from many threads. All methods raise what the service tells of as the errors of `heliograph.errors`,
    and `ServiceUnavailable` where it cannot be reached or is none.

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
        transport: httpx.BaseTransport | None = None,
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
        self._connection = Connection(base_url, Secret(api_key, username, password, token), options or ClientOptions())
        self._http = httpx.Client(base_url=base_url, timeout=self._connection.options.to_httpx(), transport=transport)
        self._workspace = workspace
        self._owns_http = True
        self._make_rooms()

    def in_workspace(self, name: str) -> HeliographClient:
        """Return a view of the same client for another workspace; it need not be closed."""
        return _View(self._connection, self._http, name)

    def close(self) -> None:
        """Close the connections; a view of another workspace closes nothing."""
        if self._owns_http:
            self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def query(
        self, question: str, mode: ModeName = DEFAULT_MODE.value, options: QueryOptions | None = None
    ) -> ClientAnswer:
        """Answer a question; nothing found is an answer of kind `nothing_found`.

        Raises:
            InvalidRequestError: The question or an option cannot be served.
            HeliographError: What else the service tells of.
        """
        return self._send(query_call(question, mode, options))

    @contextmanager
    def stream(
        self,
        question: str,
        mode: ModeName = DEFAULT_MODE.value,
        options: QueryOptions | None = None,
        *,
        progress: Callable[[str], None] | None = None,
    ) -> Generator[SyncAnswerStream]:
        """Answer a question piece by piece; leaving the block early ends the model's work.

            with client.stream("What does ESP32 speak?") as stream:
                print(stream.references)
                for piece in stream:
                    print(piece, end="")

        Args:
            question: The question.
            mode: As in `query`.
            options: As in `query`.
            progress: Told each stage as it begins.

        Raises:
            HeliographError: What the service tells of, also on the way.
        """
        response = self._open(stream_call(question, mode, options))
        try:
            yield SyncAnswerStream(StreamReader(progress), self._bytes_of(response)).begin()
        finally:
            response.close()

    def retrieve(
        self,
        question: str,
        mode: ModeName = DEFAULT_MODE.value,
        options: QueryOptions | None = None,
        *,
        include_context: bool = False,
    ) -> ClientRetrieval:
        """Return what an answer would be made from; nothing found is status `failure`."""
        return self._send(retrieve_call(question, mode, options, include_context=include_context))

    def query_data(
        self, question: str, mode: ModeName = DEFAULT_MODE.value, options: QueryOptions | None = None
    ) -> Mapping[str, Any]:
        """Return what LightRAG's `/query/data` returns, as it is."""
        return self._send(query_data_call(question, mode, options))

    def health(self) -> Mapping[str, Any]:
        """Return what the service tells of itself."""
        return self._send(get("/health", Mapping[str, Any]))

    def log_out(self) -> None:
        """End the session of the token, with every token renewed from it."""
        self._send(Call("POST", "/logout", lambda _reply: None))
        self._connection.token = None

    def _make_rooms(self) -> None:
        self.documents = Documents(self._send)
        self.jobs = Jobs(self._send)
        self.workspaces = Workspaces(self._send)
        self.graph = Graph(self._send)
        self.curations = Curations(self._send)

    def _send(self, call: Call[T]) -> T:
        response = self._open(call)
        self._read(response)
        return read_reply(call, response)

    def _open(self, call: Call[Any]) -> httpx.Response:
        """Return a good response whose body is not read yet, after as many tries as the call allows."""
        attempts = Attempts(self._connection, call)
        while True:
            if attempts.needs_login:
                self._connection.token = self._send(login_call(self._connection))
            response, error = self._try(call)
            if response is not None and response.is_success:
                return response
            if response is not None:
                self._read(response)
            time.sleep(attempts.wait_seconds(response, error))

    def _try(self, call: Call[Any]) -> tuple[httpx.Response | None, httpx.HTTPError | None]:
        headers = self._connection.headers(self._workspace)
        request = self._http.build_request(**request_arguments(call), headers=headers)
        try:
            response = self._http.send(request, stream=True)
        except httpx.HTTPError as error:
            return None, error
        self._connection.note(response)
        return response, None

    def _read(self, response: httpx.Response) -> None:
        try:
            response.read()
        except httpx.HTTPError as error:
            raise transport_error(self._connection, error) from error
        finally:
            response.close()

    def _bytes_of(self, response: httpx.Response) -> Iterator[bytes]:
        try:
            yield from response.iter_bytes()
        except httpx.HTTPError as error:
            raise transport_error(self._connection, error) from error


class _View(HeliographClient):
    """The same client for another workspace."""

    def __init__(self, connection: Connection, http: httpx.Client, workspace: str) -> None:
        self._connection = connection
        self._http = http
        self._workspace = workspace
        self._owns_http = False
        self._make_rooms()
