"""What a client does with documents, jobs, workspaces and the graph, for async code; see `sync_rooms`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

import heliograph.client.record_calls as calls
from heliograph.client.calls import Call
from heliograph.client.records import (
    DocumentChange,
    DocumentDetail,
    DocumentInsertion,
    DocumentList,
    DocumentRecord,
    DocumentRemoval,
    EntityDetail,
    GraphAround,
    JobList,
    JobRecord,
    PathRecord,
    RelationDetail,
    WorkspaceCounts,
    WorkspaceRecord,
)
from heliograph.client.waiting import Wait, read_upload

__all__ = ["AsyncDocuments", "AsyncGraph", "AsyncJobs", "AsyncSend", "AsyncWorkspaces"]

T = TypeVar("T")
Metadata = Mapping[str, Any] | None


class AsyncSend(Protocol):
    """Sends a call and returns its result."""

    async def __call__(self, call: Call[T]) -> T:
        """Send it."""
        ...


class AsyncDocuments:
    """Documents of a workspace. All methods raise the errors of `heliograph.errors` that the service tells of.

    Args:
        send: Sends calls.
    """

    def __init__(self, send: AsyncSend) -> None:
        self._send = send

    async def insert(
        self, text: str, *, source: str | None = None, title: str | None = None, metadata: Metadata = None
    ) -> DocumentInsertion:
        """See `Documents.insert`."""
        return await self._send(calls.insert_text(text, source, title, metadata))

    async def insert_many(
        self, texts: Sequence[str], *, sources: Sequence[str] | None = None, metadata: Metadata = None
    ) -> DocumentInsertion:
        """See `Documents.insert_many`."""
        return await self._send(calls.insert_texts(texts, sources, metadata))

    async def insert_url(self, url: str, *, metadata: Metadata = None) -> DocumentInsertion:
        """See `Documents.insert_url`."""
        return await self._send(calls.insert_url(url, metadata))

    async def upload(
        self, file: str | Path | bytes, *, name: str | None = None, metadata: Metadata = None
    ) -> DocumentInsertion:
        """See `Documents.upload`."""
        given = await asyncio.to_thread(read_upload, file, name)
        return await self._send(calls.upload(given.content, given.name, metadata))

    async def list(
        self,
        *,
        status: str | None = None,
        track_id: str | None = None,
        source_prefix: str | None = None,
        filter: Metadata = None,  # noqa: A002 (as `QueryParam` has it)
        offset: int = 0,
        limit: int = 100,
    ) -> DocumentList:
        """Return a page of documents, at most 1,000; all conditions that are given must hold."""
        return await self._send(calls.list_documents(status, track_id, source_prefix, filter, offset, limit))

    async def get(self, document_id: str, *, chunk_offset: int = 0, chunk_limit: int = 50) -> DocumentDetail:
        """See `Documents.get`."""
        return await self._send(calls.document(document_id, chunk_offset, chunk_limit))

    async def text(self, document_id: str) -> str:
        """See `Documents.text`."""
        return await self._send(calls.document_text(document_id))

    async def update(
        self, document_id: str, *, text: str | None = None, title: str | None = None, metadata: Metadata = None
    ) -> DocumentChange:
        """See `Documents.update`."""
        return await self._send(calls.update_document(document_id, text, title, metadata))

    async def change(self, document_id: str, *, title: str | None = None, metadata: Metadata = None) -> DocumentChange:
        """See `Documents.change`."""
        return await self._send(calls.change_document(document_id, title, metadata))

    async def delete(self, document_id: str) -> DocumentRemoval:
        """See `Documents.delete`."""
        return await self._send(calls.delete_document(document_id))

    async def delete_matching(
        self,
        *,
        source_prefix: str | None = None,
        filter: Metadata = None,  # noqa: A002
    ) -> DocumentRemoval:
        """See `Documents.delete_matching`."""
        return await self._send(calls.delete_matching(source_prefix, filter))

    async def wait(self, track_id: str, *, timeout_seconds: float = 300.0) -> tuple[DocumentRecord, ...]:
        """See `Documents.wait`."""
        waiting = Wait(track_id, timeout_seconds)
        while True:
            page = await self.list(track_id=track_id, offset=waiting.offset, limit=waiting.page_size)
            if waiting.take(page):
                return waiting.documents
            await asyncio.sleep(waiting.pause_seconds)


class AsyncJobs:
    """Background work of a workspace.

    Args:
        send: Sends calls.
    """

    def __init__(self, send: AsyncSend) -> None:
        self._send = send

    async def list(self, *, offset: int = 0, limit: int = 100) -> JobList:
        """See `Jobs.list`."""
        return await self._send(calls.jobs(offset, limit))

    async def get(self, job_id: str) -> JobRecord:
        """See `Jobs.get`."""
        return await self._send(calls.job(job_id))

    async def cancel(self, job_id: str) -> JobRecord:
        """See `Jobs.cancel`."""
        return await self._send(calls.cancel_job(job_id))


class AsyncWorkspaces:
    """Workspaces of the service.

    Args:
        send: Sends calls.
    """

    def __init__(self, send: AsyncSend) -> None:
        self._send = send

    async def list(self) -> tuple[WorkspaceRecord, ...]:
        """See `Workspaces.list`."""
        return (await self._send(calls.workspaces())).workspaces

    async def counts(self, name: str) -> WorkspaceCounts:
        """See `Workspaces.counts`."""
        return await self._send(calls.workspace_counts(name))

    async def create(self, name: str, *, exist_ok: bool = False) -> None:
        """See `Workspaces.create`."""
        await self._send(calls.create_workspace(name, exist_ok=exist_ok))

    async def delete(self, name: str) -> None:
        """See `Workspaces.delete`."""
        await self._send(calls.delete_workspace(name))


class AsyncGraph:
    """The graph of a workspace, to be read.

    Args:
        send: Sends calls.
    """

    def __init__(self, send: AsyncSend) -> None:
        self._send = send

    async def search(self, text: str, *, limit: int = 50) -> tuple[str, ...]:
        """See `Graph.search`."""
        return await self._send(calls.search_entities(text, limit))

    async def entity(self, name: str, *, offset: int = 0, limit: int = 20) -> EntityDetail:
        """See `Graph.entity`."""
        return await self._send(calls.entity(name, offset, limit))

    async def relation(self, name: str, other: str, *, offset: int = 0, limit: int = 20) -> RelationDetail:
        """See `Graph.relation`."""
        return await self._send(calls.relation(name, other, offset, limit))

    async def neighbours(self, name: str, *, depth: int = 1, limit: int = 100) -> GraphAround:
        """See `Graph.neighbours`."""
        return await self._send(calls.neighbours(name, depth, limit))

    async def paths(self, name: str, other: str, *, max_length: int = 6, limit: int = 5) -> tuple[PathRecord, ...]:
        """See `Graph.paths`."""
        return (await self._send(calls.paths(name, other, max_length, limit))).paths
