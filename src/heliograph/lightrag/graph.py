"""The methods of `LightRAG` that edit the graph by hand, and those that export it.

Every change is a curation: it outlasts re-indexing and can be undone (`heliograph undo`). Refusals are `ValueError`s,
as LightRAG raises them, and deletions return their outcome.
"""

from __future__ import annotations

import asyncio
import csv
import zipfile
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from xml.sax.saxutils import escape

from heliograph.engine import AsyncHeliograph
from heliograph.errors import ConflictError, InvalidRequestError, NotFoundError
from heliograph.ids import clean_name, entity_key
from heliograph.ingest.given import GivenChunk, GivenEntity, GivenRelation
from heliograph.lightrag.base import DeletionResult
from heliograph.lightrag.rows import UNKNOWN, Rows, base_name, entity_vector, relation_vector
from heliograph.lightrag.storages import GraphView
from heliograph.lightrag.types import KnowledgeGraph
from heliograph.lightrag.utils import blocking, logger, sanitize_text_for_encoding, warn_once
from heliograph.models import CurationKind

_ENTITY_FIELDS = frozenset({"entity_name", "entity_type", "description", "source_id", "file_path"})
_RELATION_FIELDS = frozenset({"description", "keywords", "source_id", "file_path", "weight"})
Format = Literal["csv", "excel", "md", "txt", "graphml"]


class GraphMethods(ABC):
    """Reading, editing and exporting the graph; `LightRAG` inherits them."""

    max_graph_nodes: int

    @abstractmethod
    async def _opened(self) -> tuple[AsyncHeliograph, Rows]: ...

    @abstractmethod
    def _opened_beside(self) -> AbstractAsyncContextManager[tuple[AsyncHeliograph, Rows]]: ...

    @property
    def chunk_entity_relation_graph(self) -> GraphView:
        """The graph, for reading by names."""
        return GraphView(self._opened, self._opened_beside)

    # Reading

    async def get_graph_labels(self) -> list[str]:
        """Return the names of all entities, sorted."""
        return await self.chunk_entity_relation_graph.get_all_labels()

    async def get_knowledge_graph(
        self, node_label: str, max_depth: int = 3, max_nodes: int | None = None
    ) -> KnowledgeGraph:
        """Return the neighbourhood of an entity, or with `*` the best connected entities; at most `max_graph_nodes`."""
        most = self.max_graph_nodes if max_nodes is None else min(max_nodes, self.max_graph_nodes)
        return await self.chunk_entity_relation_graph.get_knowledge_graph(node_label, max_depth, most)

    async def get_entity_info(self, entity_name: str, include_vector_data: bool = False) -> dict[str, Any]:
        """Return `entity_name`, `source_id` and `graph_data`, the last two None if there is no such entity."""
        graph = self.chunk_entity_relation_graph
        data = await graph.get_node(entity_name) if clean_name(entity_name) else None
        info = {"entity_name": entity_name, "source_id": data["source_id"] if data else None, "graph_data": data}
        if include_vector_data:
            info["vector_data"] = entity_vector(data) if data else None
        return info

    async def get_relation_info(
        self, src_entity: str, tgt_entity: str, include_vector_data: bool = False
    ) -> dict[str, Any]:
        """Return `src_entity`, `tgt_entity`, `source_id` and `graph_data`, the last two None where there is none."""
        is_named = clean_name(src_entity) and clean_name(tgt_entity)
        data = await self.chunk_entity_relation_graph.get_edge(src_entity, tgt_entity) if is_named else None
        info = {
            "src_entity": src_entity,
            "tgt_entity": tgt_entity,
            "source_id": data["source_id"] if data else None,
            "graph_data": data,
        }
        if include_vector_data:
            info["vector_data"] = relation_vector(src_entity, tgt_entity, data) if data else None
        return info

    # Editing

    async def acreate_entity(self, entity_name: str, entity_data: dict[str, Any]) -> dict[str, Any]:
        """Create an entity.

        Raises:
            ValueError: The name exists already, or the description is empty.
        """
        description = _needed(entity_data, "description", f"Entity '{entity_name}'")
        name = _name(entity_name)
        kb, _ = await self._opened()
        async with _refusals():
            try:
                await kb.create_entity(
                    name,
                    type=str(entity_data.get("entity_type", UNKNOWN)),
                    description=description,
                    origin=_origin(entity_data),
                )
            except ConflictError as error:
                raise ValueError(f"Entity '{name}' already exists") from error
        return await self.get_entity_info(name)

    async def aedit_entity(
        self, entity_name: str, updated_data: dict[str, Any], allow_rename: bool = True, allow_merge: bool = False
    ) -> dict[str, Any]:
        """Change the attributes of an entity, or its name.

        Returns:
            As `get_entity_info`, and `operation_summary`.

        Raises:
            ValueError: There is no such entity, a field is none of an entity's, or the new name is taken and
                `allow_merge` is False.
        """
        _check_fields("entity", updated_data, _ENTITY_FIELDS)
        if "description" in updated_data:
            _needed(updated_data, "description", f"Entity '{entity_name}'")
        kb, _ = await self._opened()
        entity = await kb.entity(_name(entity_name))
        new_name = _name(updated_data.get("entity_name", entity_name))
        if entity is None:
            raise ValueError(f"Entity '{entity_name}' does not exist")
        is_renaming = new_name != entity.name
        if is_renaming and not allow_rename:
            raise ValueError("Entity renaming is not allowed. Set allow_rename=True to enable this feature")
        type_, said = updated_data.get("entity_type"), updated_data.get("description")
        final, merged = entity.name, False
        async with _refusals():
            if is_renaming:
                try:
                    done = await kb.revise_entity(
                        entity.name, new_name, type=type_, description=said, allow_merge=allow_merge
                    )
                except ConflictError as error:
                    raise ValueError(f"Entity name '{new_name}' already exists, cannot rename") from error
                merged = done[-1].kind is CurationKind.MERGE_ENTITIES
                found = await kb.entity(done[-1].names[-1])
                final = found.name if found else new_name
            elif type_ is not None or said is not None:
                await kb.edit_entity(entity.name, type=type_, description=said)
            if origin := _origin(updated_data):
                await kb.edit_entity(final, origin=origin)
        return await self.get_entity_info(final) | {
            "operation_summary": {
                "merged": merged,
                "merge_status": "success" if merged else "not_attempted",
                "merge_error": None,
                "operation_status": "success",
                "target_entity": final if merged else None,
                "final_entity": final,
                "renamed": is_renaming,
            }
        }

    async def acreate_relation(
        self, source_entity: str, target_entity: str, relation_data: dict[str, Any]
    ) -> dict[str, Any]:
        """Create a relation between two existing entities.

        Raises:
            ValueError: One of them does not exist, they are the same or already related, or the description is empty.
        """
        description = _needed(relation_data, "description", f"Relation '{source_entity}' -> '{target_entity}'")
        weight = _weight(relation_data.get("weight", 1.0), str(relation_data.get("source_id", "")))
        source, target = _name(source_entity), _name(target_entity)
        if source == target:
            raise ValueError(f"a relation needs two entities; '{source_entity}' cannot be related with itself")
        kb, _ = await self._opened()
        async with _refusals():
            for kind, name in (("Source", source), ("Target", target)):
                if await kb.entity(name) is None:
                    raise ValueError(f"{kind} entity '{name}' does not exist")
            if await kb.relation(source, target) is not None:
                raise ValueError(f"Relation from '{source}' to '{target}' already exists")
            await kb.create_relation(
                source,
                target,
                keywords=_keywords(relation_data.get("keywords", "")),
                description=description,
                weight=weight,
                origin=_origin(relation_data),
            )
        return await self.get_relation_info(source, target)

    async def aedit_relation(
        self, source_entity: str, target_entity: str, updated_data: dict[str, Any]
    ) -> dict[str, Any]:
        """Change the attributes of a relation.

        Raises:
            ValueError: There is no such relation, or a field is none of a relation's.
        """
        _check_fields("relation", updated_data, _RELATION_FIELDS)
        if "description" in updated_data:
            _needed(updated_data, "description", f"Relation '{source_entity}' -> '{target_entity}'")
        source, target = _name(source_entity), _name(target_entity)
        kb, rows = await self._opened()
        relation = await kb.relation(source, target)
        if relation is None:
            raise ValueError(f"Relation from '{source}' to '{target}' does not exist")
        weight = updated_data.get("weight")
        if weight is not None:
            known = (await rows.relations([relation]))[0]["source_id"] if relation.chunk_ids else ""
            weight = _weight(weight, str(updated_data.get("source_id", known)))
        keywords = updated_data.get("keywords")
        if updated_data:
            async with _refusals():
                await kb.edit_relation(
                    source,
                    target,
                    keywords=None if keywords is None else _keywords(keywords),
                    description=updated_data.get("description"),
                    weight=weight,
                    origin=_origin(updated_data),
                )
        return await self.get_relation_info(source, target)

    async def amerge_entities(
        self,
        source_entities: Sequence[str],
        target_entity: str,
        merge_strategy: Mapping[str, str] | None = None,
        target_entity_data: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Merge several entities; their descriptions are united, and `target_entity_data` overrides the result.

        Raises:
            ValueError: One of them does not exist, or none is given.
        """
        if not source_entities:
            raise ValueError("At least one source entity is required for merge")
        if merge_strategy:
            warn_once("merge_strategy has no effect: descriptions, sources and keywords of merged entities are united")
        data = dict(target_entity_data or {})
        _check_fields("entity", data, _ENTITY_FIELDS)
        kb, _ = await self._opened()
        target = _name(target_entity)
        async with _refusals():
            names = [_name(name) for name in source_entities]
            for name in names:
                if await kb.entity(name) is None:
                    raise ValueError(f"Source entity '{name}' does not exist")
            found = await kb.entity(target)
            if found is None or any(clean_name(name) != found.name for name in names):
                await kb.merge_entities(names, target)
            type_, said = data.get("entity_type"), data.get("description")
            if type_ is not None or said is not None or _origin(data):
                await kb.edit_entity(target, type=type_, description=said, origin=_origin(data))
        return await self.get_entity_info(target)

    async def adelete_by_entity(self, entity_name: str) -> DeletionResult:
        """Remove an entity and its relations; `not_found` if there is none, or none of this name any more."""
        kb, _ = await self._opened()
        missing = DeletionResult("not_found", entity_name, f"Entity '{entity_name}' not found.", 404)
        entity = await kb.entity(entity_name) if clean_name(entity_name) else None
        if entity is None:
            return missing
        try:
            await kb.delete_entity(entity_name)
        except NotFoundError:
            return missing
        message = f"Entity Delete: remove '{entity_name}' and its {entity.degree} relations"
        return DeletionResult("success", entity_name, message, 200)

    async def adelete_by_relation(self, source_entity: str, target_entity: str) -> DeletionResult:
        """Remove a relation; `not_found` if there is none."""
        label = f"{source_entity} -> {target_entity}"
        kb, _ = await self._opened()
        ends = sorted((source_entity, target_entity))
        try:
            await kb.delete_relation(_name(source_entity), _name(target_entity))
        except (ValueError, NotFoundError, InvalidRequestError):
            message = f"Relation from '{ends[0]}' to '{ends[1]}' does not exist"
            return DeletionResult("not_found", label, message, 404)
        message = f"Relation Delete: `{ends[0]}`~`{ends[1]}` deleted successfully"
        return DeletionResult("success", label, message, 200)

    # Exporting the graph

    async def aexport_data(
        self, output_path: str, file_format: Format = "csv", include_vector_data: bool = False
    ) -> None:
        """Write entities, relations and the embedded texts of relations into one file, each as a table.

        Args:
            output_path: The file; an existing one is replaced.
            file_format: `csv`, `excel`, `md` or `txt`; or `graphml`, the graph as LightRAG stores it in its folder.
            include_vector_data: Whether rows include their embedded text.

        Raises:
            ValueError: There is no such format.
        """
        if file_format == "graphml":
            kb, _ = await self._opened()
            await asyncio.to_thread(Path(output_path).unlink, missing_ok=True)
            await kb.export(output_path, "graphml")
            return
        if file_format not in _WRITERS:
            raise ValueError(f"Unsupported file format: {file_format}. Choose from: csv, excel, md, txt")
        tables = await self._tables(include_vector_data)
        await asyncio.to_thread(_WRITERS[file_format], Path(output_path), tables)

    async def _tables(self, include_vector_data: bool) -> dict[str, list[dict[str, str]]]:
        graph = self.chunk_entity_relation_graph
        entities: list[dict[str, str]] = []
        for node in sorted(await graph.get_all_nodes(), key=lambda item: item["id"]):
            data = {name: value for name, value in node.items() if name != "id"}
            row = {"entity_name": node["id"], "source_id": data["source_id"], "graph_data": str(data)}
            entities.append(row | ({"vector_data": str(entity_vector(data))} if include_vector_data else {}))
        relations: list[dict[str, str]] = []
        relationships: list[dict[str, str]] = []
        for edge in await graph.get_all_edges():
            ends = edge["source"], edge["target"]
            data = {name: value for name, value in edge.items() if name not in ("source", "target")}
            vector = relation_vector(*ends, data)
            # A relation has no direction, and LightRAG lists it once from each end.
            for one, other in (ends, ends[::-1]):
                row = {
                    "src_entity": one,
                    "tgt_entity": other,
                    "source_id": data["source_id"],
                    "graph_data": str(data),
                }
                relations.append(row | ({"vector_data": str(vector)} if include_vector_data else {}))
            relationships.append({"relationship_id": vector["id"], "data": str(vector)})
        relations.sort(key=lambda row: (row["src_entity"], row["tgt_entity"]))
        return {"Entities": entities, "Relations": relations, "Relationships": relationships}

    # The same methods for code that is not async

    create_entity = blocking(acreate_entity)
    edit_entity = blocking(aedit_entity)
    create_relation = blocking(acreate_relation)
    edit_relation = blocking(aedit_relation)
    merge_entities = blocking(amerge_entities)
    delete_by_entity = blocking(adelete_by_entity)
    delete_by_relation = blocking(adelete_by_relation)
    export_data = blocking(aexport_data)


# Checks of a program's arguments, by LightRAG's rules.


def _name(given: Any) -> str:
    if not isinstance(given, str):
        raise ValueError("Entity name must be a string")  # noqa: TRY004 (LightRAG's)
    name = clean_name(given)
    if not name:
        raise ValueError("Entity name cannot be empty after normalization")
    return name


def _needed(data: Mapping[str, Any], field: str, label: str) -> str:
    value = data.get(field)
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{label} needs a {field} that is not empty")
    return value


def _check_fields(kind: str, data: Mapping[str, Any], known: frozenset[str]) -> None:
    if unknown := sorted(set(data) - known):
        raise ValueError(
            f"{', '.join(map(repr, unknown))} cannot be edited of a {kind}; give {', '.join(sorted(known))}"
        )


def _origin(data: Mapping[str, Any]) -> tuple[str, ...]:
    given = str(data.get("source_id") or ""), str(data.get("file_path") or "")
    return given if any(given) else ()


def _keywords(given: Any) -> list[str]:
    return [word.strip() for word in str(given).split(",") if word.strip()]


def _weight(given: Any, source_id: str) -> float:
    try:
        weight = float(given)
    except (TypeError, ValueError):
        raise ValueError(f"weight is {given!r}; give a number") from None
    least = len({part for part in source_id.split("<SEP>") if part and part not in (UNKNOWN, "manual_creation")})
    if not weight >= least or weight <= 0:
        raise ValueError(f"weight is {given!r}; it must be positive and at least {least}, one for each source")
    return weight


@asynccontextmanager
async def _refusals() -> AsyncGenerator[None]:
    """Turn errors about unknown, taken or invalid names into those that LightRAG raises."""
    try:
        yield
    except (ConflictError, NotFoundError, InvalidRequestError) as error:
        raise ValueError(str(error)) from error


# A graph that a program passes to `ainsert_custom_kg`, checked before anything is written.


@dataclass(slots=True)
class CustomGraph:
    """A checked graph from a program: chunks by document and file, entities and relations by name.

    An entity or relation from a chunk has the chunk's key; others have none, and `files` has their file path.
    """

    documents: dict[tuple[str, str], list[GivenChunk]]
    entities: dict[str, GivenEntity]
    relations: dict[tuple[str, str], GivenRelation]
    files: dict[str, str]

    @classmethod
    def read(cls, given: Mapping[str, Any], full_doc_id: str | None) -> CustomGraph:
        """Read and check the argument of `ainsert_custom_kg`.

        Raises:
            ValueError: A name is empty, a relation has one end, or a weight is too small.
        """
        graph = cls({}, {}, {}, {})
        keys: dict[str, str] = {}
        for index, row in enumerate(given.get("chunks", ())):
            source = str(row["source_id"])
            place = full_doc_id or source, base_name(row.get("file_path") or "custom_kg")
            text = sanitize_text_for_encoding(row["content"])
            keys[source] = str(index)
            if text and all(chunk.text != text for chunk in graph.documents.get(place, ())):
                graph.documents.setdefault(place, []).append(GivenChunk(text, str(index)))
        known = {chunk.key for chunks in graph.documents.values() for chunk in chunks}
        keys = {source: key for source, key in keys.items() if key in known}
        for index, row in enumerate(given.get("entities", ())):
            name = _graph_name(row["entity_name"], f"entities[{index}].entity_name")
            type_ = str(row.get("entity_type", ""))
            said = str(row.get("description", "No description provided"))
            key = keys.get(str(row.get("source_id", UNKNOWN)), "")
            if not key:
                logger.warning("the entity %r names no chunk of the graph as its source", name)
            graph.entities[entity_key(name)] = GivenEntity(name, "" if type_ == UNKNOWN else type_, said, key)
            graph.files[name] = base_name(row.get("file_path") or "custom_kg")
        for index, row in enumerate(given.get("relationships", ())):
            label = f"relationships[{index}]"
            ends = [_graph_name(row[name], f"{label}.{name}") for name in ("src_id", "tgt_id")]
            if entity_key(ends[0]) == entity_key(ends[1]):
                raise ValueError(f"Custom KG {label} relates {ends[0]!r} with itself; src_id and tgt_id must differ")
            source = row.get("source_id") or ""
            key = keys.get(str(source), "")
            given_weight, least = row.get("weight", 1.0), 1.0 if key else 0.0
            try:
                weight = float(given_weight)
            except (TypeError, ValueError):
                weight = -1.0
            if not weight >= least or not weight > 0:
                raise ValueError(
                    f"Custom KG {label} has the weight {given_weight!r}; give a positive number of at least {least:g}"
                )
            words = _keywords(row.get("keywords", ""))
            pair = min(map(entity_key, ends)), max(map(entity_key, ends))
            graph.relations[pair] = GivenRelation(ends[0], ends[1], str(row.get("description", "")), words, weight, key)
        return graph


def _graph_name(given: Any, label: str) -> str:
    name = clean_name(given) if isinstance(given, str) else ""
    if not name:
        raise ValueError(f"Custom KG {label} cannot be empty after normalization, got {given!r}")
    return name


# The formats of an export. CSV and Excel leave out empty tables; the other formats show them as empty.

Tables = Mapping[str, Sequence[Mapping[str, str]]]


def _write_csv(path: Path, tables: Tables) -> None:
    with path.open("w", encoding="utf-8", errors="replace", newline="") as file:
        for title, rows in tables.items():
            if rows:
                file.write(f"# {title.upper()}\n")
                writer = csv.DictWriter(file, list(rows[0]))
                writer.writeheader()
                writer.writerows(rows)
                file.write("\n\n")


def _write_markdown(path: Path, tables: Tables) -> None:
    parts = ["# LightRAG Data Export", ""]
    for title, rows in tables.items():
        parts += [f"## {title}", ""]
        if rows:
            parts += [_line(rows[0]), _line(["---"] * len(rows[0])), *(_line(row.values()) for row in rows), "", ""]
        else:
            parts += [f"*No {title.lower().removesuffix('s')} data available*", ""]
    path.write_text("\n".join(parts), "utf-8", errors="replace")


def _line(cells: Any) -> str:
    return f"| {' | '.join(str(cell) for cell in cells)} |"


def _write_text(path: Path, tables: Tables) -> None:
    parts = ["LIGHTRAG DATA EXPORT", "=" * 80, ""]
    for title, rows in tables.items():
        parts += [title.upper(), "-" * 80]
        if rows:
            widths = {name: max(len(name), *(len(row[name]) for row in rows)) for name in rows[0]}
            header = "  ".join(name.ljust(width) for name, width in widths.items())
            lines = ("  ".join(row[name].ljust(width) for name, width in widths.items()) for row in rows)
            parts += [header, "-" * len(header), *lines, "", ""]
        else:
            parts += [f"No {title.lower().removesuffix('s')} data available", ""]
    path.write_text("\n".join(parts), "utf-8", errors="replace")


# An Excel file is a ZIP of a few XML files; sheets of plain text need no library.

_XML = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
_SHEETS = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_SHEET_TYPE = "application/vnd.openxmlformats-officedocument.spreadsheetml"
_MOST_CELL = 32_767


def _write_excel(path: Path, tables: Tables) -> None:
    sheets = [(title, rows) for title, rows in tables.items() if rows] or [("Entities", [])]
    types = named = links = ""
    for number, (title, _) in enumerate(sheets, 1):
        types += f'<Override PartName="/xl/worksheets/sheet{number}.xml" ContentType="{_SHEET_TYPE}.worksheet+xml"/>'
        named += f'<sheet name="{title}" sheetId="{number}" r:id="rId{number}"/>'
        links += f'<Relationship Id="rId{number}" Type="{_RELATIONS}/worksheet" Target="worksheets/sheet{number}.xml"/>'
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr(
            "[Content_Types].xml",
            f'{_XML}<Types xmlns="{_PACKAGE}/content-types"><Default Extension="rels" '
            f'ContentType="application/vnd.openxmlformats-package.relationships+xml"/><Default Extension="xml" '
            f'ContentType="application/xml"/><Override PartName="/xl/workbook.xml" '
            f'ContentType="{_SHEET_TYPE}.sheet.main+xml"/>{types}</Types>',
        )
        file.writestr(
            "_rels/.rels",
            f'{_XML}<Relationships xmlns="{_PACKAGE}/relationships"><Relationship Id="rId1" '
            f'Type="{_RELATIONS}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        )
        file.writestr(
            "xl/workbook.xml",
            f'{_XML}<workbook xmlns="{_SHEETS}" xmlns:r="{_RELATIONS}"><sheets>{named}</sheets></workbook>',
        )
        file.writestr(
            "xl/_rels/workbook.xml.rels",
            f'{_XML}<Relationships xmlns="{_PACKAGE}/relationships">{links}</Relationships>',
        )
        for number, (_, rows) in enumerate(sheets, 1):
            lines = [list(rows[0]), *(list(row.values()) for row in rows)] if rows else []
            told = "".join(f"<row>{''.join(map(_cell, line))}</row>" for line in lines)
            file.writestr(
                f"xl/worksheets/sheet{number}.xml",
                f'{_XML}<worksheet xmlns="{_SHEETS}"><sheetData>{told}</sheetData></worksheet>',
            )


def _cell(text: str) -> str:
    legal = "".join(sign for sign in str(text)[:_MOST_CELL] if sign >= " " or sign in "\t\n")
    return f'<c t="inlineStr"><is><t xml:space="preserve">{escape(legal)}</t></is></c>'


_WRITERS: Mapping[str, Callable[[Path, Tables], None]] = {
    "csv": _write_csv,
    "excel": _write_excel,
    "md": _write_markdown,
    "txt": _write_text,
}
