"""Formats that other programs read: GraphML, CSV tables, Markdown pages, and a vault of linked notes.

Each function takes a workspace's `Contents` and a path, writes files, and returns how many things it wrote. File
names are readable, safe on every system, and different for different things. CSV cells that a spreadsheet would run
as a formula get an apostrophe in front.
"""

from __future__ import annotations

import csv
import json
import re
import unicodedata
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from heliograph.maintenance.whole_documents import Contents
from heliograph.models import FIELD_SEPARATOR, Document, Entity, Relation

# File names for entities and documents: readable, safe on every system, and different for different things.

# What some file system refuses, what links of notes are written with, and what cannot be seen or encoded.
_UNSAFE = re.compile(
    r'[\x00-\x1f\x7f-\x9f<>:"/\\|?*#^\[\]\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff\s]+'
)
_MAX_BYTES = 180
# Names that Windows keeps for devices.
_RESERVED = frozenset({"con", "prn", "aux", "nul", *(f"{kind}{n}" for kind in ("com", "lpt") for n in range(10))})


class FileNames:
    """Gives each id one file name, without a suffix; names differ in more than letter case and composition."""

    def __init__(self) -> None:
        self._given: dict[str, str] = {}
        self._taken: set[str] = set()
        self._numbers: dict[str, int] = {}

    def name(self, id_: str, title: str) -> str:
        """Return the name of an id, made from the title that it was first asked for with."""
        if id_ not in self._given:
            base = _safe(title) or _safe(id_) or "unnamed"
            name, number = base, self._numbers.get(base, 1)
            while _key(name) in self._taken:
                number += 1
                name = f"{base} ({number})"
            self._numbers[base] = number
            self._taken.add(_key(name))
            self._given[id_] = name
        return self._given[id_]


def _safe(title: str) -> str:
    text = unicodedata.normalize("NFC", _UNSAFE.sub(" ", title)).strip(" .")
    cut = text.encode("utf-8")[:_MAX_BYTES].decode("utf-8", "ignore").rstrip(" .")
    return f"_{cut}" if cut.casefold().split(".")[0].strip() in _RESERVED else cut


def _key(name: str) -> str:
    return unicodedata.normalize("NFD", name).casefold()


# GraphML, as Gephi, yEd, Cytoscape and NetworkX read it; attributes are named as LightRAG names them.

# Characters that no XML document may hold, escaped or not.
_ILLEGAL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_KEYS = (
    *(("entity_id", "node", "string"), ("entity_type", "node", "string"), ("description", "node", "string")),
    *(("source_id", "node", "string"), ("file_path", "node", "string"), ("created_at", "node", "long")),
    *(("weight", "edge", "double"), ("description", "edge", "string"), ("keywords", "edge", "string")),
    *(("source_id", "edge", "string"), ("file_path", "edge", "string"), ("created_at", "edge", "long")),
)
# A parser makes a line feed of it.
_KEPT = {"\r": "&#13;"}
_IDS = {(name, kind): f"d{number}" for number, (name, kind, _) in enumerate(_KEYS)}


async def export_graphml(
    contents: Contents, path: Path, origin: Callable[[Entity | Relation], tuple[str, str]] | None = None
) -> int:
    """Write the graph into a new file; return how many entities and relations there are.

    Args:
        contents: The workspace.
        path: The file.
        origin: Gives `source_id` and `file_path` of each; None gives ids of chunks, and sources.
    """

    async def told(item: Entity | Relation) -> tuple[str, str]:
        if origin is not None:
            return origin(item)
        return FIELD_SEPARATOR.join(item.chunk_ids), FIELD_SEPARATOR.join(await contents.sources(item.chunk_ids))

    count = 0
    with path.open("x", encoding="utf-8", newline="\n") as file:
        file.write('<?xml version="1.0" encoding="UTF-8"?>\n<graphml xmlns="http://graphml.graphdrawing.org/xmlns">\n')
        for name, kind, type_ in _KEYS:
            file.write(f'  <key id="{_IDS[name, kind]}" for="{kind}" attr.name="{name}" attr.type="{type_}"/>\n')
        file.write('  <graph edgedefault="undirected">\n')
        async for item in contents.entities():
            source_id, file_path = await told(item)
            values = {
                "entity_id": item.name,
                "entity_type": item.type,
                "description": item.description,
                "source_id": source_id,
                "file_path": file_path,
                "created_at": item.created_at,
            }
            file.write(f"    <node id={_quoted(item.name)}>{_data('node', values)}</node>\n")
            count += 1
        async for page in contents.relation_pages():
            for relation in page:
                source_id, file_path = await told(relation)
                values = {
                    "weight": relation.weight,
                    "description": relation.description,
                    "keywords": ",".join(relation.keywords),
                    "source_id": source_id,
                    "file_path": file_path,
                    "created_at": relation.created_at,
                }
                ends = f"source={_quoted(relation.source)} target={_quoted(relation.target)}"
                file.write(f"    <edge {ends}>{_data('edge', values)}</edge>\n")
                count += 1
        file.write("  </graph>\n</graphml>\n")
    return count


def _data(kind: str, values: Mapping[str, Any]) -> str:
    parts = ((_IDS[name, kind], escape(_legal(str(value)), _KEPT)) for name, value in values.items())
    return "".join(f'<data key="{id_}">{value}</data>' for id_, value in parts)


def _quoted(text: str) -> str:
    return quoteattr(_legal(text))


def _legal(text: str) -> str:
    return _ILLEGAL.sub("\ufffd", text)


# CSV: one file each of documents, chunks, entities and relations.
#
# Cells that a spreadsheet would run as a formula get an apostrophe in front.

_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")

Row = Sequence[Any]


async def export_csv(contents: Contents, folder: Path) -> int:
    """Write the four files into a new folder; return how many rows there are."""
    folder.mkdir(parents=True)  # noqa: ASYNC240 (once)
    return (
        await _write(folder / "documents.csv", _DOCUMENTS, _documents(contents))
        + await _write(folder / "chunks.csv", _CHUNKS, _chunks(contents))
        + await _write(folder / "entities.csv", _ENTITIES, _entities(contents))
        + await _write(folder / "relations.csv", _RELATIONS, _relations(contents))
    )


_DOCUMENTS = (
    "id",
    "source",
    "title",
    "status",
    "error",
    "metadata",
    "length",
    "chunk_count",
    "created_at",
    "updated_at",
)
_CHUNKS = ("id", "document_id", "source", "position", "page", "headings", "start", "end", "token_count", "text")
_ENTITIES = ("id", "name", "type", "description", "aliases", "degree", "sources", "chunk_ids")
_RELATIONS = (
    *("id", "source", "target", "source_id", "target_id", "keywords", "description", "weight", "sources", "chunk_ids"),
)


async def _write(path: Path, header: Row, rows: AsyncIterator[Row]) -> int:
    count = 0
    with path.open("x", encoding="utf-8", errors="backslashreplace", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        async for row in rows:
            writer.writerow([_cell(value) for value in row])
            count += 1
    return count


async def _documents(contents: Contents) -> AsyncIterator[Row]:
    async for whole in contents.documents():
        item = whole.document
        moments = item.created_at.isoformat(), item.updated_at.isoformat()
        metadata = json.dumps(dict(item.metadata), ensure_ascii=False)
        counts = item.length, item.chunk_count
        yield (item.id, item.source, item.title, item.status.value, item.error, metadata, *counts, *moments)


async def _chunks(contents: Contents) -> AsyncIterator[Row]:
    async for whole in contents.documents():
        for chunk in whole.chunks:
            place = chunk.position, chunk.page, " > ".join(chunk.headings), chunk.start, chunk.end
            yield (chunk.id, chunk.document_id, whole.document.source, *place, chunk.token_count, chunk.text)


async def _entities(contents: Contents) -> AsyncIterator[Row]:
    async for item in contents.entities():
        sources = FIELD_SEPARATOR.join(await contents.sources(item.chunk_ids))
        aliases, chunk_ids = FIELD_SEPARATOR.join(item.aliases), FIELD_SEPARATOR.join(item.chunk_ids)
        yield (item.id, item.name, item.type, item.description, aliases, item.degree, sources, chunk_ids)


async def _relations(contents: Contents) -> AsyncIterator[Row]:
    async for item in contents.relations():
        sources = FIELD_SEPARATOR.join(await contents.sources(item.chunk_ids))
        keywords, chunk_ids = FIELD_SEPARATOR.join(item.keywords), FIELD_SEPARATOR.join(item.chunk_ids)
        ends = item.source, item.target, item.source_id, item.target_id
        yield (item.id, *ends, keywords, item.description, item.weight, sources, chunk_ids)


def _cell(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA_STARTS) else value


# Markdown: the documents' texts and the graph as pages; and the same as a vault of linked notes for Obsidian.
#
# A vault has a note per entity and per document. Notes of entities link to their neighbours and to the documents that
# speak of them, so that the graph view of the editor shows the graph.

_MAX_RELATIONS = 500
_LINK_SIGNS = re.compile(r"[|\[\]\s]+")


async def export_markdown(contents: Contents, folder: Path) -> int:
    """Write `documents/*.md`, `entities.md` and `relations.md` into a new folder; return how many things there are."""
    (folder / "documents").mkdir(parents=True)
    names, count = FileNames(), 0
    async for whole in contents.documents():
        _write_note(folder / "documents" / f"{_document_name(names, whole.document)}.md", whole.text or "")
        count += 1
    with (folder / "entities.md").open("x", encoding="utf-8", errors="backslashreplace") as file:
        file.write("# Entities\n")
        async for entity in contents.entities():
            sources = ", ".join(await contents.sources(entity.chunk_ids))
            aliases = f"Also: {', '.join(entity.aliases)}\n\n" if entity.aliases else ""
            file.write(f"\n## {entity.name}\n\nType: {entity.type}\n\n{aliases}{_prose(entity.description)}\n")
            file.write(f"\nSources: {sources}\n")
            count += 1
    with (folder / "relations.md").open("x", encoding="utf-8", errors="backslashreplace") as file:
        file.write("# Relations\n")
        async for relation in contents.relations():
            sources = ", ".join(await contents.sources(relation.chunk_ids))
            keywords = f"Keywords: {', '.join(relation.keywords)}\n\n" if relation.keywords else ""
            file.write(f"\n## {relation.source} - {relation.target}\n\n{keywords}{_prose(relation.description)}\n")
            file.write(f"\nWeight: {relation.weight:g}. Sources: {sources}\n")
            count += 1
    return count


async def export_vault(contents: Contents, folder: Path) -> int:
    """Write a vault into a new folder; return how many notes it has."""
    for part in ("entities", "documents"):
        (folder / part).mkdir(parents=True)
    names, documents, count = FileNames(), dict[str, str](), 0
    async for whole in contents.documents():
        name = documents[whole.document.source] = _document_name(names, whole.document)
        front = _front({**whole.document.metadata, "source": whole.document.source, "id": whole.document.id})
        _write_note(folder / "documents" / f"{name}.md", f"{front}\n{whole.text or ''}\n")
        count += 1
    async for entity in contents.entities():
        note = await _entity_note(contents, entity, names, documents)
        _write_note(folder / "entities" / f"{names.name(entity.id, entity.name)}.md", note)
        count += 1
    return count


async def _entity_note(contents: Contents, entity: Entity, names: FileNames, documents: dict[str, str]) -> str:
    front = _front({"type": entity.type, "aliases": list(entity.aliases), "id": entity.id})
    lines = [front, f"# {entity.name}", "", _prose(entity.description)]
    relations = (await contents.relations_of(entity.id))[:_MAX_RELATIONS]
    if relations:
        lines += ["", "## Relations", ""]
    for relation in relations:
        is_source = relation.source_id == entity.id
        other_id, other = (relation.target_id, relation.target) if is_source else (relation.source_id, relation.source)
        said = " ".join(_prose(relation.description).split())
        lines.append(f"- [[{names.name(other_id, other)}|{_LINK_SIGNS.sub(' ', other)}]]: {said}")
    found = [documents[source] for source in await contents.sources(entity.chunk_ids) if source in documents]
    if found:
        lines += ["", "## Documents", "", *(f"- [[{name}]]" for name in found)]
    return "\n".join(lines) + "\n"


def _document_name(names: FileNames, document: Document) -> str:
    return names.name(document.id, document.title or document.source)


def _front(fields: dict[str, object]) -> str:
    # JSON is YAML, and quotes what YAML would misread.
    lines = [f"{json.dumps(str(name))}: {json.dumps(value, ensure_ascii=False)}" for name, value in fields.items()]
    return "\n".join(("---", *lines, "---"))


def _prose(description: str) -> str:
    return "\n\n".join(part.strip() for part in description.split(FIELD_SEPARATOR))


def _write_note(path: Path, text: str) -> None:
    path.write_text(text, "utf-8", errors="backslashreplace", newline="\n")
