"""The documents and chunks of a LightRAG working directory, as its JSON files hold them.

Reads `kv_store_full_docs`, `kv_store_doc_status`, `kv_store_text_chunks`, `kv_store_entity_chunks` and
`kv_store_relation_chunks`, of any version, and of nano-graphrag, whose layout is the same. Any file may be missing;
what a row lacks is taken from another where it can be. LightRAG keeps these files whole in memory, and so does this.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from heliograph.documents.cleaning import clean_text
from heliograph.errors import InvalidRequestError
from heliograph.maintenance.importing.report import NoteKind, NoteList
from heliograph.models import FIELD_SEPARATOR, utc_now

__all__ = ["LightragChunk", "LightragDocument", "LightragFiles", "read_files"]

# What LightRAG writes where it was told no path.
_NO_SOURCES = frozenset({"", "unknown_source", "no-file-path"})
# `preprocessed`: in the graph, but for pictures and tables that were to follow.
_FINISHED = frozenset({"", "processed", "preprocessed"})
# Begins a text that only refers to a file elsewhere.
_REFERENCE = "{{LRdoc}}"


@dataclass(frozen=True, slots=True)
class LightragDocument:
    """A document: its id there, its text (empty if it is not kept), its path (empty if unknown), and its state.

    `is_finished` also where no state is kept, as nano-graphrag keeps none.
    """

    id: str
    text: str
    source: str
    state: str
    is_finished: bool
    created_at: datetime


@dataclass(frozen=True, slots=True)
class LightragChunk:
    """A chunk: its id there, that of its document, its place, its text, and the path that it names."""

    id: str
    document_id: str
    order: int
    text: str
    source: str


@dataclass(frozen=True, slots=True)
class LightragFiles:
    """What the files hold.

    Attributes:
        documents: By id.
        chunks: By id, none of them empty.
        entity_chunks: Ids of chunks per entity name, where these are kept apart from the graph.
        relation_chunks: Likewise per pair of names, in ascending order.
    """

    documents: Mapping[str, LightragDocument]
    chunks: Mapping[str, LightragChunk]
    entity_chunks: Mapping[str, tuple[str, ...]]
    relation_chunks: Mapping[tuple[str, str], tuple[str, ...]]


def read_files(folder: Path, notes: NoteList) -> LightragFiles:
    """Read the JSON files of a directory; note what cannot be used.

    Raises:
        InvalidRequestError: A file is no JSON object, or cannot be read.
    """
    texts, states = dict(_rows(folder, "full_docs", notes)), dict(_rows(folder, "doc_status", notes))
    documents = {id_: _document(id_, texts.get(id_, {}), states.get(id_, {})) for id_ in {**texts, **states}}
    chunks: dict[str, LightragChunk] = {}
    for id_, row in _rows(folder, "text_chunks", notes):
        chunk = _chunk(id_, row)
        if chunk.text:
            chunks[id_] = chunk
        else:
            notes.add(NoteKind.LEFT_OUT, "chunks without a text", id_)
    relation_chunks = {
        (min(ends), max(ends)): _ids(row)
        for name, row in _rows(folder, "relation_chunks", notes)
        if len(ends := name.split(FIELD_SEPARATOR)) == 2
    }
    entity_chunks = {name: _ids(row) for name, row in _rows(folder, "entity_chunks", notes)}
    return LightragFiles(documents, chunks, entity_chunks, relation_chunks)


def _rows(folder: Path, name: str, notes: NoteList) -> Iterator[tuple[str, Mapping[str, Any]]]:
    path = folder / f"kv_store_{name}.json"
    if not path.exists():
        return
    try:
        found: object = json.loads(path.read_text("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise InvalidRequestError(
            f"{str(path)!r} is not JSON ({error}); it may be cut short, copy the directory again while LightRAG is "
            "stopped"
        ) from error
    except OSError as error:
        raise InvalidRequestError(f"{str(path)!r} cannot be read ({error.strerror or error}); check it") from error
    if not isinstance(found, dict):
        raise InvalidRequestError(f"{str(path)!r} holds no JSON object; it is no file of LightRAG")
    for id_, row in cast("dict[str, object]", found).items():
        if isinstance(row, dict):
            yield id_, cast("dict[str, Any]", row)
        else:
            notes.add(NoteKind.LEFT_OUT, f"rows of {path.name} that are no objects", id_)


def _document(id_: str, text: Mapping[str, Any], state: Mapping[str, Any]) -> LightragDocument:
    content = _string(text, "content") or _string(state, "content")
    return LightragDocument(
        id_,
        "" if content.startswith(_REFERENCE) else clean_text(content),
        _source(text) or _source(state),
        " ".join(f"{_string(state, 'status')} {_string(state, 'error_msg') or _string(state, 'error')}".split()),
        _string(state, "status").lower() in _FINISHED,
        _moment(state.get("created_at") or text.get("create_time")),
    )


def _chunk(id_: str, row: Mapping[str, Any]) -> LightragChunk:
    order = row.get("chunk_order_index")
    return LightragChunk(
        id_,
        _string(row, "full_doc_id"),
        order if isinstance(order, int) else 0,
        clean_text(_string(row, "content")).strip(),
        _source(row),
    )


def _string(row: Mapping[str, Any], name: str) -> str:
    value = row.get(name)
    return value if isinstance(value, str) else ""


def _source(row: Mapping[str, Any]) -> str:
    source = clean_text(_string(row, "file_path")).strip()
    return "" if source in _NO_SOURCES else source


def _ids(row: Mapping[str, Any]) -> tuple[str, ...]:
    found = row.get("chunk_ids")
    return tuple(id_ for id_ in cast("list[object]", found) if isinstance(id_, str)) if isinstance(found, list) else ()


def _moment(value: object) -> datetime:
    try:
        if isinstance(value, str):
            moment = datetime.fromisoformat(value)
            return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        if isinstance(value, int | float):
            return datetime.fromtimestamp(value, UTC)
    except (ValueError, OverflowError, OSError):
        return utc_now()
    return utc_now()
