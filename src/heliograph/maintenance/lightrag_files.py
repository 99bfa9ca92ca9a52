"""Read the files of LightRAG, of any version, nano-graphrag or Microsoft's GraphRAG from a folder; writes nothing.

The first two write JSON files and a GraphML, the third Parquet.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import Iterator, Mapping
from io import BufferedReader
from pathlib import Path
from typing import Any, cast
from xml.etree import ElementTree as ET

import numpy as np

from heliograph.errors import InvalidRequestError, import_optional
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
from heliograph.models import FIELD_SEPARATOR

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
# Bytes that XML forbids; in UTF-8 and Latin encodings they are parts of no other character.
_FORBIDDEN = bytes(code for code in range(32) if code not in b"\t\n\r")
_WITHOUT_FORBIDDEN = bytes.maketrans(_FORBIDDEN, b" " * len(_FORBIDDEN))


def is_lightrag(path: Path) -> bool:
    """Whether a folder looks like a working directory."""
    return any((path / name).is_file() for name in _MARKS)


def read_files(path: Path, notes: NoteList) -> LightragRows:
    """Read a directory, or the one workspace in a folder; note unusable data. Any file may be missing.

    Raises:
        InvalidRequestError: A file is not a JSON object, or cannot be read; for the GraphML, while the graph is read.
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

    Attributes are matched by name, since their ids differ from version to version.

    Raises:
        InvalidRequestError: It is not GraphML, or cannot be read.
    """
    names: dict[str, str] = {}
    try:
        with path.open("rb") as file:
            if _DECLARATION.search(file.read(_HEAD_BYTES)):
                raise InvalidRequestError(f"{str(path)!r} declares a document type, which GraphML has no need of")
            file.seek(0)
            for element in _elements(_Readable(file, path.name, notes)):
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


class _Readable:
    """An XML file with spaces for the control characters that models write and XML forbids.

    NetworkX writes them as they are, and LightRAG cannot open such a graph again.
    """

    def __init__(self, file: BufferedReader, name: str, notes: NoteList) -> None:
        self._file, self._name, self._notes = file, name, notes
        # In UTF-16 every other byte of a name is a zero.
        self._is_wide = b"\0" in file.peek()[:4]

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes, like `BufferedReader.read`."""
        found = self._file.read(size)
        if self._is_wide:
            return found
        count = len(found) - len(found.translate(None, _FORBIDDEN))
        self._notes.add(NoteKind.REPAIRED, "control characters in the graph are spaces", self._name, count)
        return found.translate(_WITHOUT_FORBIDDEN) if count else found


def _elements(file: _Readable) -> Iterator[ET.Element]:
    """Yield finished keys, nodes and edges, and free them."""
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


# The output of Microsoft's GraphRAG, of any version that writes Parquet: its text units are chunks.
#
# Its names are in capitals, and are restored to the spelling in their chunks. Communities, their reports and claims
# have no counterpart here; vectors, which GraphRAG stores elsewhere, are computed again.

# File names of the tables, now and in versions before 1.0.
_TABLE_NAMES = ("{}.parquet", "create_final_{}.parquet")
_NO_COUNTERPART = ("communities", "community_reports", "covariates")

Row = Mapping[str, Any]


def find_graphrag(path: Path) -> Path | None:
    """Return the folder with the tables: the folder itself, or the newest output below it; None if there is none."""
    found = [path, path / "output", *sorted(path.glob("output/*/artifacts"), reverse=True)]
    return next((folder for folder in found if _table(folder, "text_units") and _table(folder, "entities")), None)


def _table(folder: Path, name: str) -> Path | None:
    return next((file for form in _TABLE_NAMES if (file := folder / form.format(name)).is_file()), None)


def read_graphrag(path: Path, notes: NoteList) -> LightragRows:
    """Read an output; note data without a counterpart here.

    Raises:
        InvalidRequestError: There is none, or a table cannot be read.
        MissingDependencyError: pyarrow is not installed.
    """
    if (folder := find_graphrag(path)) is None:
        raise InvalidRequestError(f"{str(path)!r} holds no output of GraphRAG; name the folder with entities.parquet")
    documents: dict[str, Row] = {}
    owners: dict[str, str] = {}
    for row in _table_rows(folder, "documents"):
        id_, text = str(row["id"]), row.get("text") or row.get("raw_content") or ""
        documents[id_] = {"content": text, "file_path": row.get("title") or "", "created_at": row.get("creation_date")}
        notes.add(
            NoteKind.LEFT_OUT, "metadata of documents", documents[id_]["file_path"], int(bool(row.get("metadata")))
        )
        owners |= {str(unit): id_ for unit in row.get("text_unit_ids") or row.get("text_units") or ()}
    chunks: dict[str, Row] = {}
    for place, row in enumerate(_table_rows(folder, "text_units")):
        id_ = str(row["id"])
        several = row.get("document_ids") or ()
        notes.add(NoteKind.REPAIRED, "chunks of several documents count for the first", id_, int(len(several) > 1))
        owner = row.get("document_id") or next(iter(several), owners.get(id_, ""))
        chunks[id_] = {"content": row.get("text") or "", "full_doc_id": str(owner), "chunk_order_index": place}
    graph: list[GraphNode | GraphEdge] = []
    for row in _table_rows(folder, "entities"):
        values = {"entity_type": str(row.get("type") or ""), **_said(row)}
        graph.append(make_node(str(row.get("title") or row.get("name") or ""), values, is_shouted=True))
    for row in _table_rows(folder, "relationships"):
        values = {"weight": str(row.get("weight")), **_said(row)}
        graph.append(make_edge((str(row["source"]), str(row["target"])), values, notes))
    for name in _NO_COUNTERPART:
        kept = len(_table_rows(folder, name))
        notes.add(NoteKind.LEFT_OUT, f"{name.replace('_', ' ')}, which have no counterpart here", "", kept)
    tables = {"full_docs": documents, "text_chunks": chunks}
    return LightragRows(path.resolve().name, str(path), tables, graph=graph)


def _said(row: Row) -> dict[str, str]:
    description = row.get("description") or ""
    told = description if isinstance(description, str) else FIELD_SEPARATOR.join(map(str, description))
    return {"description": told, "source_id": FIELD_SEPARATOR.join(map(str, row.get("text_unit_ids") or ()))}


def _table_rows(folder: Path, name: str) -> list[Row]:
    if (file := _table(folder, name)) is None:
        return []
    parquet, arrow = import_optional("pyarrow.parquet", "graphrag"), import_optional("pyarrow", "graphrag")
    try:
        return cast("list[Row]", parquet.read_table(file).to_pylist())
    except (OSError, arrow.ArrowException) as error:
        raise InvalidRequestError(f"{str(file)!r} cannot be read as Parquet ({error}); copy it again") from error
