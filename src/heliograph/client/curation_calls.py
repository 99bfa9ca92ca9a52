"""The calls that correct the graph, undo corrections, and read who said what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from heliograph.client.calls import Call, get, path_of, send
from heliograph.client.curation_records import (
    CurationEdit,
    CurationPage,
    CurationRecord,
    DuplicatesFound,
    HistoryRecord,
)
from heliograph.client.reading import read_as
from heliograph.errors import InvalidRequestError

__all__ = [
    "create_entity",
    "create_relation",
    "curations",
    "delete_entity",
    "delete_relation",
    "duplicates",
    "edit_entity",
    "edit_relation",
    "history",
    "merge_entities",
    "rename_entity",
    "split_entity",
    "undo",
]

_ENTITY_NAME = "entity_name"
_ENDS = ("src_entity", "tgt_entity")


def create_entity(name: str, type_: str, description: str) -> Call[CurationEdit]:
    """Make an entity."""
    data = _given(entity_type=type_ or None, description=description)
    return _edit("POST", "/graph/entity/create", {"entity_name": name, "entity_data": data})


def edit_entity(name: str, type_: str | None, description: str | None) -> Call[CurationEdit]:
    """Change type or description of an entity."""
    data = _given(entity_type=type_, description=description)
    return _edit("POST", "/graph/entity/edit", {"entity_name": name, "updated_data": data})


def rename_entity(
    name: str, new_name: str, type_: str | None, description: str | None, *, allow_merge: bool
) -> Call[CurationEdit]:
    """Give an entity another name, and change it with that."""
    data = _given(entity_name=new_name, entity_type=type_, description=description)
    body = {"entity_name": name, "updated_data": data, "allow_rename": True, "allow_merge": allow_merge}
    return _edit("POST", "/graph/entity/edit", body)


def merge_entities(names: Sequence[str], into: str) -> Call[CurationEdit]:
    """Make several entities one."""
    if isinstance(names, str):
        raise InvalidRequestError(f"names must be a list, got the text {names!r}; put it into one")
    body = {"entities_to_change": list(names), "entity_to_change_into": into}
    return _edit("POST", "/graph/entities/merge", body)


def split_entity(
    name: str, new_name: str, document_ids: Sequence[str], chunk_ids: Sequence[str]
) -> Call[CurationRecord]:
    """Make what some documents or chunks call by a name another entity."""
    ids = {"document_ids": list(document_ids), "chunk_ids": list(chunk_ids)}
    return send("POST", "/graph/entity/split", CurationRecord, {"entity_name": name, "new_name": new_name} | ids)


def delete_entity(name: str) -> Call[CurationEdit]:
    """Hide an entity."""
    return _edit("DELETE", "/graph/entity/delete", {"entity_name": name}, (name,))


def create_relation(
    name: str, other: str, keywords: Sequence[str], description: str, weight: float
) -> Call[CurationEdit]:
    """Make a relation."""
    data = {"description": description, "keywords": _joined(keywords), "weight": weight}
    body = {"source_entity": name, "target_entity": other, "relation_data": data}
    return _edit("POST", "/graph/relation/create", body)


def edit_relation(
    name: str, other: str, keywords: Sequence[str] | None, description: str | None, weight: float | None
) -> Call[CurationEdit]:
    """Change keywords, description or weight of a relation."""
    said = None if keywords is None else _joined(keywords)
    data = _given(description=description, keywords=said, weight=weight)
    return _edit("POST", "/graph/relation/edit", {"source_id": name, "target_id": other, "updated_data": data})


def delete_relation(name: str, other: str) -> Call[CurationEdit]:
    """Hide a relation."""
    body = {"source_entity": name, "target_entity": other}
    return _edit("DELETE", "/graph/relation/delete", body, (name, other))


def undo(curation_id: str) -> Call[CurationRecord]:
    """Take a correction back."""
    return send("POST", path_of("graph", "curations", curation_id, "undo"), CurationRecord)


def curations(name: str | None, offset: int, limit: int, *, includes_undone: bool) -> Call[CurationPage]:
    """Read a page of corrections."""
    # The service reads `true` and `false`, which is how httpx writes these.
    return get("/graph/curations", CurationPage, name=name, includes_undone=includes_undone, offset=offset, limit=limit)


def history(name: str, other: str | None, offset: int, limit: int) -> Call[HistoryRecord]:
    """Read who said what."""
    return get("/graph/history", HistoryRecord, name=name, other=other, offset=offset, limit=limit)


def duplicates(examined: int, limit: int) -> Call[DuplicatesFound]:
    """Read pairs of entities that may be one."""
    return get("/graph/duplicates", DuplicatesFound, examined=examined, limit=limit)


def _edit(method: str, path: str, body: Any, names: tuple[str, ...] = ()) -> Call[CurationEdit]:
    return Call(method, path, lambda reply: _read_edit(reply, names), json=body)


def _read_edit(reply: Any, names: tuple[str, ...]) -> CurationEdit:
    told = read_as(Mapping[str, Any], reply)
    data = read_as(Mapping[str, Any], told.get("data", {}), "reply.data")
    found = tuple(data[key] for key in (_ENTITY_NAME, *_ENDS) if key in data)
    summary = read_as(Mapping[str, Any], told.get("operation_summary", {}), "reply.operation_summary")
    whole = {**told, "names": list(found or names), "is_merged": summary.get("merged", False)}
    return read_as(CurationEdit, whole)


def _joined(keywords: Sequence[str]) -> str:
    return keywords if isinstance(keywords, str) else ",".join(keywords)


def _given(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
