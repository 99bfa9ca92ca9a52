"""The calls of documents, jobs, workspaces and the graph."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

from heliograph.client.calls import Call, get, path_of, send
from heliograph.client.reading import read_as
from heliograph.client.records import (
    DocumentChange,
    DocumentDetail,
    DocumentInsertion,
    DocumentList,
    DocumentRemoval,
    DocumentText,
    EntityDetail,
    GraphAround,
    JobList,
    JobRecord,
    PathsFound,
    RelationDetail,
    WorkspaceCounts,
    WorkspaceList,
)

__all__ = [
    "cancel_job",
    "change_document",
    "create_workspace",
    "delete_document",
    "delete_matching",
    "delete_workspace",
    "document",
    "document_text",
    "entity",
    "insert_text",
    "insert_texts",
    "insert_url",
    "job",
    "jobs",
    "list_documents",
    "neighbours",
    "paths",
    "relation",
    "search_entities",
    "update_document",
    "upload",
    "workspace_counts",
    "workspaces",
]

Metadata = Mapping[str, Any] | None


def insert_text(text: str, source: str | None, title: str | None, metadata: Metadata) -> Call[DocumentInsertion]:
    """Take in a text."""
    body = _given(text=text, file_source=source, title=title, metadata=metadata)
    return send("POST", "/documents/text", DocumentInsertion, body)


def insert_texts(texts: Sequence[str], sources: Sequence[str] | None, metadata: Metadata) -> Call[DocumentInsertion]:
    """Take in several texts."""
    body = _given(texts=list(texts), file_sources=None if sources is None else list(sources), metadata=metadata)
    return send("POST", "/documents/texts", DocumentInsertion, body)


def insert_url(url: str, metadata: Metadata) -> Call[DocumentInsertion]:
    """Take in what a URL leads to."""
    return send("POST", "/documents/url", DocumentInsertion, _given(url=url, metadata=metadata))


def upload(content: bytes, name: str, metadata: Metadata) -> Call[DocumentInsertion]:
    """Upload a file; of its name only the last part is sent."""
    return Call(
        "POST",
        "/documents/upload",
        lambda reply: read_as(DocumentInsertion, reply),
        form={} if metadata is None else {"metadata": json.dumps(metadata)},
        file=(PurePath(name).name, content),
    )


def list_documents(
    status: str | None, track_id: str | None, source_prefix: str | None, filter_: Metadata, offset: int, limit: int
) -> Call[DocumentList]:
    """Read a page of documents."""
    return get(
        "/documents",
        DocumentList,
        status=status,
        track_id=track_id,
        source_prefix=source_prefix,
        filter=None if filter_ is None else json.dumps(filter_),
        offset=offset,
        limit=limit,
    )


def document(document_id: str, chunk_offset: int, chunk_limit: int) -> Call[DocumentDetail]:
    """Read a document and a page of its chunks."""
    path = path_of("documents", document_id)
    return get(path, DocumentDetail, chunk_offset=chunk_offset, chunk_limit=chunk_limit)


def document_text(document_id: str) -> Call[str]:
    """Read a document's text."""
    path = path_of("documents", document_id, "text")
    return Call("GET", path, lambda reply: read_as(DocumentText, reply).text, is_safe=True)


def update_document(document_id: str, text: str | None, title: str | None, metadata: Metadata) -> Call[DocumentChange]:
    """Replace a document's text, title or metadata."""
    body = _given(text=text, title=title, metadata=metadata)
    return send("PUT", path_of("documents", document_id), DocumentChange, body)


def change_document(document_id: str, title: str | None, metadata: Metadata) -> Call[DocumentChange]:
    """Change title, and single fields of the metadata."""
    return send("PATCH", path_of("documents", document_id), DocumentChange, _given(title=title, metadata=metadata))


def delete_document(document_id: str) -> Call[DocumentRemoval]:
    """Delete a document."""
    return send("DELETE", path_of("documents", document_id), DocumentRemoval)


def delete_matching(source_prefix: str | None, filter_: Metadata) -> Call[DocumentRemoval]:
    """Delete the documents that match."""
    body = _given(source_prefix=source_prefix, filter=filter_)
    return send("POST", "/documents/delete_matching", DocumentRemoval, body)


def jobs(offset: int, limit: int) -> Call[JobList]:
    """Read a page of jobs."""
    return get("/documents/jobs", JobList, offset=offset, limit=limit)


def job(job_id: str) -> Call[JobRecord]:
    """Read a job."""
    return get(path_of("documents", "jobs", job_id), JobRecord)


def cancel_job(job_id: str) -> Call[JobRecord]:
    """Cancel a job."""
    return send("POST", path_of("documents", "jobs", job_id, "cancel"), JobRecord)


def workspaces() -> Call[WorkspaceList]:
    """Read the workspaces."""
    return get("/workspaces", WorkspaceList)


def workspace_counts(name: str) -> Call[WorkspaceCounts]:
    """Read what a workspace holds."""
    return get(path_of("workspaces", name), WorkspaceCounts)


def create_workspace(name: str, *, exist_ok: bool) -> Call[None]:
    """Make a workspace."""
    if exist_ok:
        return Call("PUT", path_of("workspaces", name), _nothing, is_safe=True)
    return Call("POST", "/workspaces", _nothing, json={"name": name})


def delete_workspace(name: str) -> Call[None]:
    """Delete a workspace with all that is in it."""
    return Call("DELETE", path_of("workspaces", name), _nothing)


def search_entities(text: str, limit: int) -> Call[tuple[str, ...]]:
    """Read names of entities that contain a text."""
    return get("/graph/label/search", tuple[str, ...], q=text, limit=limit)


def entity(name: str, offset: int, limit: int) -> Call[EntityDetail]:
    """Read an entity and a page of what mentions it."""
    return get("/graph/entity", EntityDetail, name=name, offset=offset, limit=limit)


def relation(name: str, other: str, offset: int, limit: int) -> Call[RelationDetail]:
    """Read the relation between two entities."""
    return get("/graph/relation", RelationDetail, source=name, target=other, offset=offset, limit=limit)


def neighbours(name: str, depth: int, limit: int) -> Call[GraphAround]:
    """Read what lies around an entity."""
    return get("/graph/neighbours", GraphAround, name=name, depth=depth, limit=limit)


def paths(name: str, other: str, max_length: int, limit: int) -> Call[PathsFound]:
    """Read the shortest paths between two entities."""
    return get("/graph/paths", PathsFound, source=name, target=other, max_length=max_length, limit=limit)


def _given(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _nothing(_reply: Any) -> None:
    """Take a reply that says nothing but that it is done."""
