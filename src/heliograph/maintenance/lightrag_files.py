"""Read a LightRAG working directory, of any version, or of nano-graphrag: JSON files and a GraphML; writes nothing."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast
from xml.etree import ElementTree as ET

import numpy as np

from heliograph.errors import InvalidRequestError
from heliograph.maintenance.archive import NoteKind, NoteList
from heliograph.maintenance.lightrag_layout import (
    REPLIES,
    TABLES,
    EmbeddedRow,
    GraphEdge,
    GraphNode,
    LightragRows,
    LightragVectors,
    embedded_rows,
    make_edge,
    make_node,
)

_GRAPH = "graph_chunk_entity_relation.graphml"
_MARKS = (
    *(_GRAPH, "kv_store_text_chunks.json", "kv_store_full_docs.json", "kv_store_doc_status.json"),
    *("vdb_chunks.json", "vdb_entities.json"),
)
_LEFT_BEHIND = {
    "kv_store_llm_response_cache.json": REPLIES,
    "kv_store_community_reports.json": "community reports, which have no counterpart here",
}
_DECLARATION = re.compile(rb"<\0?!\0?(D\0?O\0?C\0?T\0?Y\0?P\0?E|E\0?N\0?T\0?I\0?T\0?Y)")
_HEAD_BYTES = 65_536


def is_lightrag(path: Path) -> bool:
    """Whether a folder looks like a working directory."""
    return any((path / name).is_file() for name in _MARKS)


def read_files(path: Path, notes: NoteList) -> LightragRows:
    """Read a directory, or the one workspace in a folder; note what cannot be used. Any file may be missing.

    Raises:
        InvalidRequestError: A file is no JSON object, or cannot be read; of the GraphML, while the graph is read.
    """
    folder = path
    if not is_lightrag(path):
        folder = next(item for item in path.iterdir() if is_lightrag(item))
        notes.add(NoteKind.REMARK, "the folder holds one workspace of LightRAG, which is taken", folder.name)
    for name, reason in _LEFT_BEHIND.items():
        notes.add(NoteKind.LEFT_OUT, f"files of {reason}", name, int((folder / name).is_file()))
    return LightragRows(
        folder.resolve().name,
        str(folder),
        {name: dict(_rows(folder, name, notes)) for name in TABLES},
        LightragVectors(*(_embedded(folder, name, notes) for name in ("chunks", "entities", "relationships"))),
        _read_graph(folder / _GRAPH, notes) if (folder / _GRAPH).is_file() else None,
    )


def _embedded(folder: Path, name: str, notes: NoteList) -> tuple[EmbeddedRow, ...]:
    """Return the rows of a vector file; notes an unreadable one, since vectors can be computed again."""
    path = folder / f"vdb_{name}.json"
    if not path.is_file():
        return ()
    try:
        found = cast("dict[str, Any]", json.loads(path.read_text("utf-8-sig")))
        rows = cast("list[dict[str, Any]]", found["data"])
        matrix = np.frombuffer(b64decode(found["matrix"]), "<f4").astype(np.float32)
        matrix = matrix.reshape(len(rows), int(found["embedding_dim"]))
        return embedded_rows([(str(row["__id__"]), row) for row in rows], matrix)
    except (ValueError, KeyError, TypeError, RecursionError, OSError) as error:
        notes.add(NoteKind.LEFT_OUT, f"vector files that cannot be read ({type(error).__name__})", path.name)
        return ()


def _rows(folder: Path, name: str, notes: NoteList) -> Iterator[tuple[str, Mapping[str, Any]]]:
    path = folder / f"kv_store_{name}.json"
    if not path.exists():
        return
    try:
        text = path.read_text("utf-8-sig")
        if not text.strip():
            notes.add(NoteKind.LEFT_OUT, "files that are empty, as if they were missing", path.name)
            return
        found: object = json.loads(text)
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


def _read_graph(path: Path, notes: NoteList) -> Iterator[GraphNode | GraphEdge]:
    """Yield the nodes and edges of GraphML as NetworkX writes it, in their order; note every repair.

    Attributes go by their names, since their ids differ from version to version.

    Raises:
        InvalidRequestError: It is no GraphML, or cannot be read.
    """
    names: dict[str, str] = {}
    try:
        with path.open("rb") as file:
            if _DECLARATION.search(file.read(_HEAD_BYTES)):
                raise InvalidRequestError(f"{str(path)!r} declares a document type, which GraphML has no need of")
            file.seek(0)
            for element in _elements(file):
                kind = element.tag.rpartition("}")[2]
                if kind == "key":
                    names[element.get("id", "")] = element.get("attr.name", "")
                elif kind == "node":
                    values = _values(element, names)
                    yield make_node(element.get("id") or values.get("entity_id", ""), values)
                elif kind == "edge":
                    ends = element.get("source", ""), element.get("target", "")
                    yield make_edge(ends, _values(element, names), notes)
    except (ET.ParseError, ValueError, LookupError) as error:
        if isinstance(error, InvalidRequestError):
            raise
        raise InvalidRequestError(
            f"{str(path)!r} is broken ({error}); copy the directory again while LightRAG is stopped"
        ) from error
    except OSError as error:
        raise InvalidRequestError(f"{str(path)!r} cannot be read ({error.strerror or error}); check it") from error


def _elements(file: object) -> Iterator[ET.Element]:
    """Yield finished keys, nodes and edges, and forget them."""
    graph: ET.Element | None = None
    events: Iterator[tuple[str, ET.Element]] = ET.iterparse(file, ("start", "end"))  # type: ignore[arg-type]  # noqa: S314
    for event, element in events:
        kind = element.tag.rpartition("}")[2]
        if event == "start" and kind == "graph":
            graph = element
        elif event == "end" and kind in ("key", "node", "edge"):
            yield element
            if graph is not None:
                graph.clear()


def _values(element: ET.Element, names: Mapping[str, str]) -> dict[str, str]:
    return {names.get(data.get("key", ""), ""): data.text or "" for data in element}
