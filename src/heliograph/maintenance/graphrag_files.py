"""Read the output of Microsoft's GraphRAG, of any version that writes Parquet: its text units are chunks.

Names are in capitals there, and are spelled as their chunks spell them. Communities, their reports and claims have no
counterpart here; vectors, which GraphRAG keeps elsewhere, are made anew. Nothing is written.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from heliograph.errors import InvalidRequestError, import_optional
from heliograph.maintenance.lightrag_layout import GraphEdge, GraphNode, LightragRows, make_edge, make_node
from heliograph.maintenance.whole_documents import NoteKind, NoteList
from heliograph.models import FIELD_SEPARATOR

# What the tables are called, today and in versions before 1.0.
_NAMES = ("{}.parquet", "create_final_{}.parquet")
_LEFT_BEHIND = ("communities", "community_reports", "covariates")

Row = Mapping[str, Any]


def find_graphrag(path: Path) -> Path | None:
    """Return the folder with the tables: a folder itself, or the newest output below it; None where there is none."""
    found = [path, path / "output", *sorted(path.glob("output/*/artifacts"), reverse=True)]
    return next((folder for folder in found if _table(folder, "text_units") and _table(folder, "entities")), None)


def _table(folder: Path, name: str) -> Path | None:
    return next((file for form in _NAMES if (file := folder / form.format(name)).is_file()), None)


def read_graphrag(path: Path, notes: NoteList) -> LightragRows:
    """Read an output; note what has no counterpart here.

    Raises:
        InvalidRequestError: There is none, or a table cannot be read.
        MissingDependencyError: pyarrow is not installed.
    """
    if (folder := find_graphrag(path)) is None:
        raise InvalidRequestError(f"{str(path)!r} holds no output of GraphRAG; name the folder with entities.parquet")
    documents: dict[str, Row] = {}
    owners: dict[str, str] = {}
    for row in _rows(folder, "documents"):
        id_, text = str(row["id"]), row.get("text") or row.get("raw_content") or ""
        documents[id_] = {"content": text, "file_path": row.get("title") or "", "created_at": row.get("creation_date")}
        notes.add(
            NoteKind.LEFT_OUT, "metadata of documents", documents[id_]["file_path"], int(bool(row.get("metadata")))
        )
        owners |= {str(unit): id_ for unit in row.get("text_unit_ids") or row.get("text_units") or ()}
    chunks: dict[str, Row] = {}
    for place, row in enumerate(_rows(folder, "text_units")):
        id_ = str(row["id"])
        several = row.get("document_ids") or ()
        notes.add(NoteKind.REPAIRED, "chunks of several documents count for the first", id_, int(len(several) > 1))
        owner = row.get("document_id") or next(iter(several), owners.get(id_, ""))
        chunks[id_] = {"content": row.get("text") or "", "full_doc_id": str(owner), "chunk_order_index": place}
    graph: list[GraphNode | GraphEdge] = []
    for row in _rows(folder, "entities"):
        values = {"entity_type": str(row.get("type") or ""), **_said(row)}
        graph.append(make_node(str(row.get("title") or row.get("name") or ""), values, is_shouted=True))
    for row in _rows(folder, "relationships"):
        values = {"weight": str(row.get("weight")), **_said(row)}
        graph.append(make_edge((str(row["source"]), str(row["target"])), values, notes))
    for name in _LEFT_BEHIND:
        kept = len(_rows(folder, name))
        notes.add(NoteKind.LEFT_OUT, f"{name.replace('_', ' ')}, which have no counterpart here", "", kept)
    tables = {"full_docs": documents, "text_chunks": chunks}
    return LightragRows(path.resolve().name, str(path), tables, graph=graph)


def _said(row: Row) -> dict[str, str]:
    description = row.get("description") or ""
    told = description if isinstance(description, str) else FIELD_SEPARATOR.join(map(str, description))
    return {"description": told, "source_id": FIELD_SEPARATOR.join(map(str, row.get("text_unit_ids") or ()))}


def _rows(folder: Path, name: str) -> list[Row]:
    if (file := _table(folder, name)) is None:
        return []
    parquet, arrow = import_optional("pyarrow.parquet", "graphrag"), import_optional("pyarrow", "graphrag")
    try:
        return cast("list[Row]", parquet.read_table(file).to_pylist())
    except (OSError, arrow.ArrowException) as error:
        raise InvalidRequestError(f"{str(file)!r} cannot be read as Parquet ({error}); copy it again") from error
