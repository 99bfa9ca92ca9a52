"""What a client does with documents, jobs, workspaces and the graph, as methods that wait for their reply."""

from __future__ import annotations

import time
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

__all__ = ["Documents", "Graph", "Jobs", "Send", "Workspaces"]

T = TypeVar("T")
Metadata = Mapping[str, Any] | None


class Send(Protocol):
    """Sends a call and returns its result."""

    def __call__(self, call: Call[T]) -> T:
        """Send it."""
        ...


class Documents:
    """Documents of a workspace. All methods raise the errors of `heliograph.errors` that the service tells of.

    Args:
        send: Sends calls.
    """

    def __init__(self, send: Send) -> None:
        self._send = send

    def insert(
        self, text: str, *, source: str | None = None, title: str | None = None, metadata: Metadata = None
    ) -> DocumentInsertion:
        """Take in a text; the service processes it in the background, which `wait` waits for.

        A known source is an update. The same text again is `duplicated` and changes nothing.

        Args:
            text: The text.
            source: What citations call it; None derives an id from the text.
            title: None means the first heading, else from the source.
            metadata: Free JSON, which filters can ask for.
        """
        return self._send(calls.insert_text(text, source, title, metadata))

    def insert_many(
        self, texts: Sequence[str], *, sources: Sequence[str] | None = None, metadata: Metadata = None
    ) -> DocumentInsertion:
        """Take in several texts, each with its source, and the same metadata for all."""
        return self._send(calls.insert_texts(texts, sources, metadata))

    def insert_url(self, url: str, *, metadata: Metadata = None) -> DocumentInsertion:
        """Have the service fetch a web page or file."""
        return self._send(calls.insert_url(url, metadata))

    def upload(
        self, file: str | Path | bytes, *, name: str | None = None, metadata: Metadata = None
    ) -> DocumentInsertion:
        """Upload a file.

        Args:
            file: Its path, or what is in it.
            name: What it is called; needed for bytes.
            metadata: Free JSON.

        Raises:
            InvalidRequestError: Bytes without a name.
            NotFoundError: There is no such file.
        """
        given = read_upload(file, name)
        return self._send(calls.upload(given.content, given.name, metadata))

    def list(
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
        return self._send(calls.list_documents(status, track_id, source_prefix, filter, offset, limit))

    def get(self, document_id: str, *, chunk_offset: int = 0, chunk_limit: int = 50) -> DocumentDetail:
        """Return a document and a page of its chunks, at most 500."""
        return self._send(calls.document(document_id, chunk_offset, chunk_limit))

    def text(self, document_id: str) -> str:
        """Return a document's text."""
        return self._send(calls.document_text(document_id))

    def update(
        self, document_id: str, *, text: str | None = None, title: str | None = None, metadata: Metadata = None
    ) -> DocumentChange:
        """Put text, title or metadata in place of what is there; what is None stays."""
        return self._send(calls.update_document(document_id, text, title, metadata))

    def change(self, document_id: str, *, title: str | None = None, metadata: Metadata = None) -> DocumentChange:
        """Change the title, or single fields of the metadata; a field that is None is removed."""
        return self._send(calls.change_document(document_id, title, metadata))

    def delete(self, document_id: str) -> DocumentRemoval:
        """Delete a document and all that only it said."""
        return self._send(calls.delete_document(document_id))

    def delete_matching(
        self,
        *,
        source_prefix: str | None = None,
        filter: Metadata = None,  # noqa: A002
    ) -> DocumentRemoval:
        """Delete all documents that match; at least one condition is needed."""
        return self._send(calls.delete_matching(source_prefix, filter))

    def wait(self, track_id: str, *, timeout_seconds: float = 300.0) -> tuple[DocumentRecord, ...]:
        """Wait until all documents that were taken in together are finished, and return them; failed ones too.

        Raises:
            ServiceUnavailable: They are not finished in time; they go on nevertheless.
        """
        waiting = Wait(track_id, timeout_seconds)
        while True:
            page = self.list(track_id=track_id, offset=waiting.offset, limit=waiting.page_size)
            if waiting.take(page):
                return waiting.documents
            time.sleep(waiting.pause_seconds)


class Jobs:
    """Background work of a workspace.

    Args:
        send: Sends calls.
    """

    def __init__(self, send: Send) -> None:
        self._send = send

    def list(self, *, offset: int = 0, limit: int = 100) -> JobList:
        """Return a page of jobs, the latest first."""
        return self._send(calls.jobs(offset, limit))

    def get(self, job_id: str) -> JobRecord:
        """Return a job."""
        return self._send(calls.job(job_id))

    def cancel(self, job_id: str) -> JobRecord:
        """Ask a job to stop; what it has done stays."""
        return self._send(calls.cancel_job(job_id))


class Workspaces:
    """Workspaces of the service.

    Args:
        send: Sends calls.
    """

    def __init__(self, send: Send) -> None:
        self._send = send

    def list(self) -> tuple[WorkspaceRecord, ...]:
        """Return the workspaces that the credentials may enter."""
        return self._send(calls.workspaces()).workspaces

    def counts(self, name: str) -> WorkspaceCounts:
        """Return what a workspace holds."""
        return self._send(calls.workspace_counts(name))

    def create(self, name: str, *, exist_ok: bool = False) -> None:
        """Make an empty workspace; a `ConflictError` if there is one and `exist_ok` is False."""
        self._send(calls.create_workspace(name, exist_ok=exist_ok))

    def delete(self, name: str) -> None:
        """Delete a workspace with everything in it."""
        self._send(calls.delete_workspace(name))


class Graph:
    """The graph of a workspace, to be read; `Curations` corrects it.

    Args:
        send: Sends calls.
    """

    def __init__(self, send: Send) -> None:
        self._send = send

    def search(self, text: str, *, limit: int = 50) -> tuple[str, ...]:
        """Return names of entities that contain a text, the best first."""
        return self._send(calls.search_entities(text, limit))

    def entity(self, name: str, *, offset: int = 0, limit: int = 20) -> EntityDetail:
        """Return an entity, by any spelling or alias, and a page of the chunks that mention it."""
        return self._send(calls.entity(name, offset, limit))

    def relation(self, name: str, other: str, *, offset: int = 0, limit: int = 20) -> RelationDetail:
        """Return the relation between two entities, in either order, and a page of the chunks that tell of it."""
        return self._send(calls.relation(name, other, offset, limit))

    def neighbours(self, name: str, *, depth: int = 1, limit: int = 100) -> GraphAround:
        """Return what lies within `depth` relations of an entity."""
        return self._send(calls.neighbours(name, depth, limit))

    def paths(self, name: str, other: str, *, max_length: int = 6, limit: int = 5) -> tuple[PathRecord, ...]:
        """Return the shortest paths between two entities, strongest first; none if there is none."""
        return self._send(calls.paths(name, other, max_length, limit)).paths
