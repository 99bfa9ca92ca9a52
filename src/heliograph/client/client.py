"""The client of a service for async code, with its methods for documents, jobs, workspaces and the graph.

Each method is one request. `blocking` derives the blocking client from these.
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import Any, Self, TypeVar

import httpx

import heliograph.client.records as records
from heliograph.client.reading import AsyncAnswerStream, StreamReader, answer_from, read_as
from heliograph.client.records import CurationEdit, QueryOptions
from heliograph.client.transport import (
    AsyncTransport,
    Attempts,
    Call,
    ClientOptions,
    Connection,
    Transport,
    get,
    path_of,
    read_reply,
    send,
    transport_error,
)
from heliograph.errors import InvalidRequestError, NotFoundError, ServiceUnavailable
from heliograph.models import DEFAULT_MODE, DocumentSort, ModeName

T = TypeVar("T")
Metadata = Mapping[str, Any] | None

_FIRST_PAUSE_SECONDS = 0.1
_LONGEST_PAUSE_SECONDS = 2.0
_PAGE_SIZE = 1000


class _Resource:
    """One part of a workspace, accessed through its client."""

    def __init__(self, client: AsyncHeliographClient) -> None:
        self._client = client
        self._send = client.send


class AsyncDocuments(_Resource):
    """Documents of a workspace. All methods raise the errors of `heliograph.errors` that the service names."""

    async def insert(
        self, text: str, *, source: str | None = None, title: str | None = None, metadata: Metadata = None
    ) -> records.InsertResponse:
        """Insert a text; the service processes it in the background, and `wait` waits for that.

        A known source is an update. The same text again is `duplicated` and changes nothing.

        Args:
            text: The text.
            source: Its name in citations; None derives an id from the text.
            title: None means the first heading, otherwise from the source.
            metadata: Free JSON, which filters can match.
        """
        body = _given(text=text, file_source=source, title=title, metadata=metadata)
        return await self._send(send("POST", "/documents/text", records.InsertResponse, body))

    async def insert_many(
        self, texts: Sequence[str], *, sources: Sequence[str] | None = None, metadata: Metadata = None
    ) -> records.InsertResponse:
        """Insert several texts, each with its source, and the same metadata for all."""
        body = _given(texts=list(texts), file_sources=None if sources is None else list(sources), metadata=metadata)
        return await self._send(send("POST", "/documents/texts", records.InsertResponse, body))

    async def insert_url(self, url: str, *, metadata: Metadata = None) -> records.InsertResponse:
        """Have the service fetch a web page or file."""
        return await self._send(
            send("POST", "/documents/url", records.InsertResponse, _given(url=url, metadata=metadata))
        )

    async def upload(
        self, file: str | Path | bytes, *, name: str | None = None, metadata: Metadata = None
    ) -> records.InsertResponse:
        """Upload a file.

        Args:
            file: Its path, or its content.
            name: Its name, of which only the last part is sent; needed for bytes.
            metadata: Free JSON.

        Raises:
            InvalidRequestError: Bytes without a name.
            NotFoundError: There is no such file.
        """
        if isinstance(file, bytes):
            if not name:
                raise InvalidRequestError("bytes to upload need a name, whose ending says what they are; give name=")
            content = file
        else:
            try:
                content = await self._client.transport.in_thread(Path(file).read_bytes)
            except OSError as error:
                raise NotFoundError(f"the file {str(file)!r} cannot be read: {error.strerror or error}") from error
        form = {} if metadata is None else {"metadata": json.dumps(metadata)}
        file_part = (PurePath(name or str(file)).name, content)
        call = replace(send("POST", "/documents/upload", records.InsertResponse), form=form, file=file_part)
        return await self._send(call)

    async def list(
        self,
        *,
        status: str | None = None,
        track_id: str | None = None,
        source_prefix: str | None = None,
        filter: Metadata = None,
        sort: DocumentSort = "created_at",
        descending: bool = False,
        offset: int = 0,
        limit: int = 100,
    ) -> records.ListResponse:
        """Return a page of documents, at most 1,000; documents must meet all given conditions."""
        conditions = {"status": status, "track_id": track_id, "source_prefix": source_prefix}
        wanted = None if filter is None else json.dumps(filter)
        page = {"sort": sort, "descending": descending, "offset": offset, "limit": limit}
        return await self._send(get("/documents", records.ListResponse, **conditions, filter=wanted, **page))

    async def get(self, document_id: str, *, chunk_offset: int = 0, chunk_limit: int = 50) -> records.DetailResponse:
        """Return a document and a page of its chunks, at most 500."""
        path = path_of("documents", document_id)
        return await self._send(get(path, records.DetailResponse, chunk_offset=chunk_offset, chunk_limit=chunk_limit))

    async def text(self, document_id: str) -> str:
        """Return a document's text."""
        return (await self._send(get(path_of("documents", document_id, "text"), records.TextResponse))).text

    async def entities(self, document_id: str, *, limit: int = 200) -> records.DocumentEntitiesResponse:
        """Return the entities that a document names, the most mentioned first, and how each is written there."""
        path = path_of("documents", document_id, "entities")
        return await self._send(get(path, records.DocumentEntitiesResponse, limit=limit))

    async def update(
        self, document_id: str, *, text: str | None = None, title: str | None = None, metadata: Metadata = None
    ) -> records.ChangeResponse:
        """Replace text, title or metadata; None leaves a field unchanged."""
        body = _given(text=text, title=title, metadata=metadata)
        return await self._send(send("PUT", path_of("documents", document_id), records.ChangeResponse, body))

    async def change(
        self, document_id: str, *, title: str | None = None, metadata: Metadata = None
    ) -> records.ChangeResponse:
        """Change the title, or single fields of the metadata; a field that is None is removed."""
        body = _given(title=title, metadata=metadata)
        return await self._send(send("PATCH", path_of("documents", document_id), records.ChangeResponse, body))

    async def delete(self, document_id: str) -> records.RemovalResponse:
        """Delete a document and all that only it said."""
        return await self._send(send("DELETE", path_of("documents", document_id), records.RemovalResponse))

    async def delete_matching(
        self, *, source_prefix: str | None = None, filter: Metadata = None
    ) -> records.RemovalResponse:
        """Delete all documents that match; at least one condition is needed."""
        body = _given(source_prefix=source_prefix, filter=filter)
        return await self._send(send("POST", "/documents/delete_matching", records.RemovalResponse, body))

    async def wait(self, track_id: str, *, timeout_seconds: float = 300.0) -> tuple[records.DocumentResponse, ...]:
        """Wait until all documents of a batch are finished, and return them, including failed ones.

        Raises:
            ServiceUnavailable: They are not finished in time; the service continues nevertheless.
        """
        deadline = time.monotonic() + timeout_seconds
        pause_seconds = _FIRST_PAUSE_SECONDS
        found: tuple[records.DocumentResponse, ...] = ()
        while True:
            page = await self.list(track_id=track_id, offset=len(found), limit=_PAGE_SIZE)
            found += page.documents
            is_finished = all(item.is_finished for item in page.documents)
            if is_finished and page.total and len(found) >= page.total:
                return found
            if time.monotonic() > deadline:
                raise ServiceUnavailable(
                    f"the documents of {track_id!r} are not finished after {timeout_seconds:g} seconds; "
                    "they go on; wait again, or see jobs.list()"
                )
            if is_finished and page.documents:
                continue
            found = ()
            await self._client.transport.sleep(pause_seconds)
            pause_seconds = min(_LONGEST_PAUSE_SECONDS, 1.5 * pause_seconds)


class AsyncJobs(_Resource):
    """Background work of a workspace."""

    async def list(self, *, offset: int = 0, limit: int = 100) -> records.JobListResponse:
        """Return a page of jobs, the latest first."""
        return await self._send(get("/documents/jobs", records.JobListResponse, offset=offset, limit=limit))

    async def get(self, job_id: str) -> records.JobResponse:
        """Return a job."""
        return await self._send(get(path_of("documents", "jobs", job_id), records.JobResponse))

    async def cancel(self, job_id: str) -> records.JobResponse:
        """Request a job's cancellation; finished work stays."""
        return await self._send(send("POST", path_of("documents", "jobs", job_id, "cancel"), records.JobResponse))


class AsyncWorkspaces(_Resource):
    """Workspaces of the service."""

    async def list(self) -> tuple[records.WorkspaceRow, ...]:
        """Return the workspaces that the credentials may enter."""
        return (await self._send(get("/workspaces", records.WorkspaceList))).workspaces

    async def counts(self, name: str) -> records.WorkspaceStats:
        """Return the counts of a workspace."""
        return await self._send(get(path_of("workspaces", name), records.WorkspaceStats))

    async def create(self, name: str, *, exist_ok: bool = False) -> None:
        """Create an empty workspace; a `ConflictError` if there is one and `exist_ok` is False."""
        if exist_ok:
            await self._send(Call("PUT", path_of("workspaces", name), _nothing, is_safe=True))
        else:
            await self._send(Call("POST", "/workspaces", _nothing, json={"name": name}))

    async def delete(self, name: str) -> None:
        """Delete a workspace with all its data."""
        await self._send(Call("DELETE", path_of("workspaces", name), _nothing))


class AsyncGraph(_Resource):
    """Read access to the graph of a workspace; `AsyncCurations` corrects it."""

    async def search(self, text: str, *, limit: int = 50) -> tuple[str, ...]:
        """Return names of entities that contain a text, best matches first."""
        return await self._send(get("/graph/label/search", tuple[str, ...], q=text, limit=limit))

    async def entities(
        self, *, search: str = "", type: str = "", offset: int = 0, limit: int = 100
    ) -> records.EntityListResponse:
        """Return a page of the entities of a type, or of all, best connected first.

        With `search`, only those with a name or alias that equals this text, begins with it or contains it, in this
        order.
        """
        call = get("/api/v1/entities", records.EntityListResponse, search=search, type=type, offset=offset, limit=limit)
        return await self._send(call)

    async def entity(self, name: str, *, offset: int = 0, limit: int = 20) -> records.EntityDetail:
        """Return an entity, by any spelling or alias, and a page of the chunks that mention it."""
        return await self._send(get("/graph/entity", records.EntityDetail, name=name, offset=offset, limit=limit))

    async def relation(self, name: str, other: str, *, offset: int = 0, limit: int = 20) -> records.RelationDetail:
        """Return the relation between two entities, in either order, and a page of the chunks that mention it."""
        call = get("/graph/relation", records.RelationDetail, source=name, target=other, offset=offset, limit=limit)
        return await self._send(call)

    async def neighbours(self, name: str, *, depth: int = 1, limit: int = 100) -> records.NeighbourResponse:
        """Return the entities and relations within `depth` relations of an entity."""
        return await self._send(
            get("/graph/neighbours", records.NeighbourResponse, name=name, depth=depth, limit=limit)
        )

    async def paths(
        self, name: str, other: str, *, max_hops: int = 6, limit: int = 5, max_length: int | None = None
    ) -> tuple[records.PathItem, ...]:
        """Return the shortest paths between two entities, strongest first; empty if all are longer than `max_hops`.

        `max_length` is the former name of `max_hops`.
        """
        most = max_hops if max_length is None else max_length
        call = get("/graph/paths", records.PathResponse, source=name, target=other, max_hops=most, limit=limit)
        return (await self._send(call)).paths


class AsyncCurations(_Resource):
    """Corrections of a workspace's graph. A name may be any spelling or alias; the caller is recorded as the author."""

    async def create_entity(self, name: str, *, type: str = "", description: str) -> CurationEdit:
        """Create an entity that exists without any document.

        Raises:
            InvalidRequestError: There is one of this name, or the name or description is empty.
        """
        data = _given(entity_type=type or None, description=description)
        return await self._edit("POST", "/graph/entity/create", {"entity_name": name, "entity_data": data})

    async def edit_entity(self, name: str, *, type: str | None = None, description: str | None = None) -> CurationEdit:
        """Override the type or description that documents give, now and later.

        Raises:
            InvalidRequestError: There is no such entity, or nothing is given.
        """
        data = _given(entity_type=type, description=description)
        return await self._edit("POST", "/graph/entity/edit", {"entity_name": name, "updated_data": data})

    async def rename_entity(
        self,
        name: str,
        new_name: str,
        *,
        type: str | None = None,
        description: str | None = None,
        allow_merge: bool = False,
    ) -> CurationEdit:
        """Rename an entity, and edit its type or description: all in one commit, or nothing.

        Args:
            name: The entity; its old name stays an alias.
            new_name: Its new name.
            type: Overrides the type that documents give; None leaves it.
            description: Likewise.
            allow_merge: Whether to merge it into the entity that has the new name, if there is one.

        Raises:
            InvalidRequestError: There is no such entity, or another has the new name.
        """
        data = _given(entity_name=new_name, entity_type=type, description=description)
        body = {"entity_name": name, "updated_data": data, "allow_rename": True, "allow_merge": allow_merge}
        return await self._edit("POST", "/graph/entity/edit", body)

    async def merge_entities(self, names: Sequence[str], into: str) -> CurationEdit:
        """Merge several entities into one of them, into another entity, or under a new name.

        Raises:
            InvalidRequestError: One of them does not exist, or they are one already.
        """
        if isinstance(names, str):
            raise InvalidRequestError(f"names must be a list, got the text {names!r}; put it into one")
        body = {"entities_to_change": list(names), "entity_to_change_into": into}
        return await self._edit("POST", "/graph/entities/merge", body)

    async def split_entity(
        self, name: str, new_name: str, *, document_ids: Sequence[str] = (), chunk_ids: Sequence[str] = ()
    ) -> records.CurationItem:
        """Split off an entity: the mentions of this name in some documents or chunks.

        Raises:
            ConflictError: There is an entity of the new name.
            InvalidRequestError: None of these mentions the entity.
            NotFoundError: There is no such entity.
        """
        ids = {"document_ids": list(document_ids), "chunk_ids": list(chunk_ids)}
        body = {"entity_name": name, "new_name": new_name} | ids
        return await self._send(send("POST", "/graph/entity/split", records.CurationItem, body))

    async def delete_entity(self, name: str) -> CurationEdit:
        """Hide an entity and its relations, whatever documents say; a `NotFoundError` if there is none."""
        return await self._edit("DELETE", "/graph/entity/delete", {"entity_name": name}, (name,))

    async def create_relation(
        self, name: str, other: str, *, keywords: Sequence[str] = (), description: str, weight: float = 1.0
    ) -> CurationEdit:
        """Create a relation that, with its two ends, exists without any document.

        Raises:
            InvalidRequestError: There is one already, or an end does not exist.
        """
        data = {"description": description, "keywords": _joined(keywords), "weight": weight}
        body = {"source_entity": name, "target_entity": other, "relation_data": data}
        return await self._edit("POST", "/graph/relation/create", body)

    async def edit_relation(
        self,
        name: str,
        other: str,
        *,
        keywords: Sequence[str] | None = None,
        description: str | None = None,
        weight: float | None = None,
    ) -> CurationEdit:
        """Override the keywords, description or weight that documents give.

        Raises:
            InvalidRequestError: There is no such relation, or nothing is given.
        """
        words = None if keywords is None else _joined(keywords)
        data = _given(description=description, keywords=words, weight=weight)
        body = {"source_id": name, "target_id": other, "updated_data": data}
        return await self._edit("POST", "/graph/relation/edit", body)

    async def delete_relation(self, name: str, other: str) -> CurationEdit:
        """Hide a relation, whatever documents say; a `NotFoundError` if there is none."""
        body = {"source_entity": name, "target_entity": other}
        return await self._edit("DELETE", "/graph/relation/delete", body, (name, other))

    async def undo(self, curation_id: str) -> records.CurationItem:
        """Undo a correction: the graph becomes what it would be without it.

        Raises:
            ConflictError: It was undone before.
            NotFoundError: There is no such correction.
        """
        return await self._send(send("POST", path_of("graph", "curations", curation_id, "undo"), records.CurationItem))

    async def list(
        self, *, name: str | None = None, includes_undone: bool = True, offset: int = 0, limit: int = 100
    ) -> records.CurationListResponse:
        """Return a page of corrections, at most 1,000, the latest first; with `name`, those of one entity."""
        wanted: dict[str, Any] = {"name": name, "includes_undone": includes_undone}
        return await self._send(
            get("/graph/curations", records.CurationListResponse, **wanted, offset=offset, limit=limit)
        )

    async def history(
        self, name: str, other: str | None = None, *, offset: int = 0, limit: int = 100
    ) -> records.HistoryResponse:
        """Return the statements and corrections about an entity, or with `other` about a relation.

        Raises:
            NotFoundError: There never were any.
        """
        return await self._send(
            get("/graph/history", records.HistoryResponse, name=name, other=other, offset=offset, limit=limit)
        )

    async def find_duplicates(self, *, examined: int = 500, limit: int = 100) -> tuple[records.DuplicateItem, ...]:
        """Return likely duplicates among the best connected entities, the most similar first."""
        return (
            await self._send(get("/graph/duplicates", records.DuplicateResponse, examined=examined, limit=limit))
        ).pairs

    async def _edit(self, method: str, path: str, body: Any, names: tuple[str, ...] = ()) -> CurationEdit:
        """Send a correction in LightRAG's form; its reply names what it changed, otherwise `names` are returned."""

        def read(reply: Any) -> CurationEdit:
            told = read_as(Mapping[str, Any], reply)
            data = read_as(Mapping[str, Any], told.get("data", {}), "reply.data")
            found = [data[key] for key in ("entity_name", "src_entity", "tgt_entity") if key in data]
            summary = read_as(Mapping[str, Any], told.get("operation_summary", {}), "reply.operation_summary")
            is_merged = summary.get("merged", False)
            return read_as(CurationEdit, {**told, "names": found or list(names), "is_merged": is_merged})

        return await self._send(Call(method, path, read, json=body))


def _joined(keywords: Sequence[str]) -> str:
    return keywords if isinstance(keywords, str) else ",".join(keywords)


def _given(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _nothing(_reply: Any) -> None:
    """Ignore a reply that only confirms success."""


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
        """Store the service's address; nothing is sent yet.

        Args:
            base_url: Its address, including a path prefix if it has one.
            api_key: A key.
            username: Name of an account; the first call logs in.
            password: Its password.
            token: A token, instead of logging in.
            workspace: Name of the workspace; None means the service's default.
            options: Time-outs and retries.
            transport: Replaces httpx's own, for proxies and tests.

        Raises:
            InvalidRequestError: The address is invalid, or a name comes without a password.
        """
        connection = Connection(base_url, options or ClientOptions(), api_key, username, password, token)
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
        """Close the connections; on a view of another workspace, do nothing."""
        await self.transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def query(
        self, question: str, mode: ModeName = DEFAULT_MODE.value, options: QueryOptions | None = None
    ) -> records.ClientAnswer:
        """Answer a question; if nothing is found, the answer's kind is `nothing_found`.

        Raises:
            InvalidRequestError: The question or an option cannot be served.
            HeliographError: Other errors that the service reports.
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
        # With progress enabled, references come before the first piece.
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
    ) -> records.RetrieveResponse:
        """Return the material for an answer; if nothing is found, the status is `failure`."""
        body = _question(question, mode, options) | {"include_context": include_context}
        return await self.send(send("POST", "/api/v1/retrieve", records.RetrieveResponse, body, is_safe=True))

    async def query_data(
        self, question: str, mode: ModeName = DEFAULT_MODE.value, options: QueryOptions | None = None
    ) -> Mapping[str, Any]:
        """Return the reply of LightRAG's `/query/data` unchanged."""
        body = _question(question, mode, options)
        return await self.send(send("POST", "/query/data", Mapping[str, Any], body, is_safe=True))

    async def health(self) -> Mapping[str, Any]:
        """Return the service's health report."""
        return await self.send(get("/health", Mapping[str, Any]))

    async def log_out(self) -> None:
        """End the session of the token, with every token renewed from it."""
        await self.send(Call("POST", "/logout", _nothing))
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
        """Return a successful response whose body is not read yet, after as many attempts as the call allows."""
        attempts = Attempts(self._connection, call)
        while True:
            if attempts.needs_login:
                form = {"username": self._connection.username or "", "password": self._connection.password or ""}
                self._connection.token = await self.send(
                    Call("POST", "/login", lambda reply: read_as(_Login, reply).access_token, form=form, is_login=True)
                )
            response, failure = None, None
            request = self.transport.http.build_request(
                call.method,
                call.path,
                params=call.query or None,
                json=call.json,
                data=call.form or None,
                files={"file": call.file} if call.file else None,
                headers=self._connection.headers(self._workspace),
            )
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
    """A client over an existing connection and transport; closing a view leaves them open."""

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
