"""The client for code that is not async, derived from `AsyncHeliographClient`.

Every method is the async one, run over a blocking transport: its coroutine never suspends, so a single step completes
it, and neither an event loop nor a thread is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

import httpx

import heliograph.client.records as records
from heliograph.calls.tasks import run_at_once
from heliograph.client.client import (
    AsyncCurations,
    AsyncDocuments,
    AsyncGraph,
    AsyncHeliographClient,
    AsyncJobs,
    AsyncWorkspaces,
    ClientOver,
)
from heliograph.client.reading import AsyncAnswerStream
from heliograph.client.records import QueryOptions
from heliograph.client.transport import BlockingTransport, ClientOptions, Connection
from heliograph.models import DEFAULT_MODE, ModeName

__all__ = ["HeliographClient", "SyncAnswerStream"]

A = TypeVar("A")
P = ParamSpec("P")
T = TypeVar("T")


class _Blocking(Generic[A]):
    """The blocking wrapper of an object whose coroutines never suspend."""

    def __init__(self, waiting: A) -> None:
        self._waiting = waiting

    @staticmethod
    def method(method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]) -> Callable[Concatenate[Any, P], T]:
        """Return a method that runs the object's method of this name to its end, with its signature and docstring."""

        @wraps(method)
        def call(self: _Blocking[Any], *args: P.args, **kwargs: P.kwargs) -> T:
            # By name, so that overrides of the object are used.
            return run_at_once(getattr(self._waiting, method.__name__)(*args, **kwargs))

        return call


class Documents(_Blocking[AsyncDocuments]):
    """Documents of a workspace. All methods raise the errors of `heliograph.errors` that the service names."""

    insert = _Blocking.method(AsyncDocuments.insert)
    insert_many = _Blocking.method(AsyncDocuments.insert_many)
    insert_url = _Blocking.method(AsyncDocuments.insert_url)
    upload = _Blocking.method(AsyncDocuments.upload)
    list = _Blocking.method(AsyncDocuments.list)
    get = _Blocking.method(AsyncDocuments.get)
    text = _Blocking.method(AsyncDocuments.text)
    entities = _Blocking.method(AsyncDocuments.entities)
    update = _Blocking.method(AsyncDocuments.update)
    change = _Blocking.method(AsyncDocuments.change)
    delete = _Blocking.method(AsyncDocuments.delete)
    delete_matching = _Blocking.method(AsyncDocuments.delete_matching)
    wait = _Blocking.method(AsyncDocuments.wait)


class Jobs(_Blocking[AsyncJobs]):
    """Background work of a workspace."""

    list = _Blocking.method(AsyncJobs.list)
    get = _Blocking.method(AsyncJobs.get)
    cancel = _Blocking.method(AsyncJobs.cancel)


class Workspaces(_Blocking[AsyncWorkspaces]):
    """Workspaces of the service."""

    list = _Blocking.method(AsyncWorkspaces.list)
    counts = _Blocking.method(AsyncWorkspaces.counts)
    create = _Blocking.method(AsyncWorkspaces.create)
    delete = _Blocking.method(AsyncWorkspaces.delete)


class Graph(_Blocking[AsyncGraph]):
    """The graph of a workspace, to be read; `Curations` corrects it."""

    search = _Blocking.method(AsyncGraph.search)
    entities = _Blocking.method(AsyncGraph.entities)
    entity = _Blocking.method(AsyncGraph.entity)
    relation = _Blocking.method(AsyncGraph.relation)
    neighbours = _Blocking.method(AsyncGraph.neighbours)
    paths = _Blocking.method(AsyncGraph.paths)


class Curations(_Blocking[AsyncCurations]):
    """Corrections of a workspace's graph. A name may be any spelling or alias; the caller is recorded as the author."""

    create_entity = _Blocking.method(AsyncCurations.create_entity)
    edit_entity = _Blocking.method(AsyncCurations.edit_entity)
    rename_entity = _Blocking.method(AsyncCurations.rename_entity)
    merge_entities = _Blocking.method(AsyncCurations.merge_entities)
    split_entity = _Blocking.method(AsyncCurations.split_entity)
    delete_entity = _Blocking.method(AsyncCurations.delete_entity)
    create_relation = _Blocking.method(AsyncCurations.create_relation)
    edit_relation = _Blocking.method(AsyncCurations.edit_relation)
    delete_relation = _Blocking.method(AsyncCurations.delete_relation)
    undo = _Blocking.method(AsyncCurations.undo)
    list = _Blocking.method(AsyncCurations.list)
    history = _Blocking.method(AsyncCurations.history)
    find_duplicates = _Blocking.method(AsyncCurations.find_duplicates)


class HeliographClient(_Blocking[AsyncHeliographClient]):
    """A Heliograph service, for one workspace of it.

        with HeliographClient("http://127.0.0.1:9621", api_key="...") as client:
            print(client.query("What does ESP32 speak?").text)

    Safe to use from many threads. It has the methods, attributes and errors of `AsyncHeliographClient`.
    """

    # The arguments of `AsyncHeliographClient` repeated, except for the transport, which blocks here.
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
        """Store the service's address; `AsyncHeliographClient` explains the arguments."""
        connection = Connection(base_url, options or ClientOptions(), api_key, username, password, token)
        blocking = BlockingTransport(base_url, connection.options, transport)
        self._attach(ClientOver(connection, blocking, workspace))

    def _attach(self, waiting: AsyncHeliographClient) -> None:
        super().__init__(waiting)
        self.documents = Documents(waiting.documents)
        self.jobs = Jobs(waiting.jobs)
        self.workspaces = Workspaces(waiting.workspaces)
        self.graph = Graph(waiting.graph)
        self.curations = Curations(waiting.curations)

    close = _Blocking.method(AsyncHeliographClient.close)
    query = _Blocking.method(AsyncHeliographClient.query)
    retrieve = _Blocking.method(AsyncHeliographClient.retrieve)
    query_data = _Blocking.method(AsyncHeliographClient.query_data)
    health = _Blocking.method(AsyncHeliographClient.health)
    log_out = _Blocking.method(AsyncHeliographClient.log_out)

    def in_workspace(self, name: str) -> HeliographClient:
        """Return a view of the same client for another workspace; it need not be closed."""
        return _View(self._waiting.in_workspace(name))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def stream(
        self,
        question: str,
        mode: ModeName = DEFAULT_MODE.value,
        options: QueryOptions | None = None,
        *,
        progress: Callable[[str], None] | None = None,
    ) -> Generator[SyncAnswerStream]:
        """Answer a question piece by piece, as `AsyncHeliographClient.stream` does.

        with client.stream("What does ESP32 speak?") as stream:
            print(stream.references)
            for piece in stream:
                print(piece, end="")
        """
        block = self._waiting.stream(question, mode, options, progress=progress)
        stream = run_at_once(block.__aenter__())
        try:
            yield SyncAnswerStream(stream)
        finally:
            run_at_once(block.__aexit__(None, None, None))


class _View(HeliographClient):
    def __init__(self, waiting: AsyncHeliographClient) -> None:
        self._attach(waiting)


class SyncAnswerStream(_Blocking[AsyncAnswerStream]):
    """An answer piece by piece: `for piece in stream`; `answer` is the whole afterwards."""

    @property
    def references(self) -> tuple[records.ReferenceItem, ...]:
        """Documents that the answer draws on; known before its first piece."""
        return self._waiting.references

    @property
    def answer(self) -> records.ClientAnswer:
        """The whole answer; an `InvalidRequestError` before the stream has been read to its end."""
        return self._waiting.answer

    def __iter__(self) -> Iterator[str]:
        pieces = aiter(self._waiting)

        async def read() -> str | None:
            return await anext(pieces, None)

        while (piece := run_at_once(read())) is not None:
            yield piece
