"""Formats that other programs read: GraphML, CSV tables, Markdown pages, and a vault of linked notes.

Each function takes a workspace's `Contents` and a path, writes files, and returns how many items it wrote. File
names are readable, safe on every system, and distinct. CSV cells that a spreadsheet would run as a formula get an
apostrophe in front.
"""

from __future__ import annotations

import asyncio
import csv
import json
import re
import unicodedata
import zlib
from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from hashlib import md5
from pathlib import Path, PurePath
from typing import Any
from xml.sax.saxutils import escape, quoteattr

import numpy as np
from numpy.typing import NDArray

from heliograph.extraction.base import UNKNOWN_TYPE
from heliograph.ids import mention_entity_id, mention_relation_id
from heliograph.maintenance.archive import Contents, WholeDocument
from heliograph.models import (
    CHUNK_DETAILS,
    DOCUMENT_DETAILS,
    FIELD_SEPARATOR,
    MOST_SOURCES,
    Document,
    DocumentStatus,
    Entity,
    Extraction,
    Relation,
    heading_path,
)
from heliograph.stores.changeset import Collection

# File names for entities and documents: readable, safe on every system, and distinct.

# Characters that some file system refuses, that have a meaning in links of notes, or that are invisible or not
# encodable.
_UNSAFE = re.compile(
    r'[\x00-\x1f\x7f-\x9f<>:"/\\|?*#^\[\]\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff\s]+'
)
_MAX_BYTES = 180
# Device names of Windows.
_RESERVED = frozenset({"con", "prn", "aux", "nul", *(f"{kind}{n}" for kind in ("com", "lpt") for n in range(10))})


class FileNames:
    """Gives each id one file name, without a suffix; names differ in more than letter case and composition."""

    def __init__(self) -> None:
        self._given: dict[str, str] = {}
        self._taken: set[str] = set()
        self._numbers: dict[str, int] = {}

    def name(self, id_: str, title: str) -> str:
        """Return the file name of an id, based on the first title given with it."""
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
# An XML parser would turn it into a line feed.
_KEPT = {"\r": "&#13;"}
_IDS = {(name, kind): f"d{number}" for number, (name, kind, _) in enumerate(_KEYS)}


async def export_graphml(
    contents: Contents, path: Path, origin: Callable[[Entity | Relation], tuple[str, str]] | None = None
) -> int:
    """Write the graph into a new file; return how many entities and relations there are.

    `origin` gives `source_id` and `file_path` of each; None gives ids of chunks, and sources.
    """

    async def told(item: Entity | Relation) -> dict[str, Any]:
        if origin is not None:
            source_id, file_path = origin(item)
        else:
            source_id = FIELD_SEPARATOR.join(item.chunk_ids)
            file_path = FIELD_SEPARATOR.join(await contents.sources(item.chunk_ids))
        return {"source_id": source_id, "file_path": file_path, "created_at": item.created_at}

    count = 0
    with path.open("x", encoding="utf-8", newline="\n") as file:
        file.write('<?xml version="1.0" encoding="UTF-8"?>\n<graphml xmlns="http://graphml.graphdrawing.org/xmlns">\n')
        for name, kind, type_ in _KEYS:
            file.write(f'  <key id="{_IDS[name, kind]}" for="{kind}" attr.name="{name}" attr.type="{type_}"/>\n')
        file.write('  <graph edgedefault="undirected">\n')
        async for item in contents.entities():
            values = {
                "entity_id": item.name,
                "entity_type": item.type,
                "description": item.description,
                **await told(item),
            }
            file.write(f"    <node id={_quoted(item.name)}>{_data('node', values)}</node>\n")
            count += 1
        async for item in contents.relations():
            values = {
                "weight": item.weight,
                "description": item.description,
                "keywords": ",".join(item.keywords),
                **await told(item),
            }
            ends = f"source={_quoted(item.source)} target={_quoted(item.target)}"
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

_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")

Row = Sequence[Any]


async def export_csv(contents: Contents, folder: Path) -> int:
    """Write the four files into a new folder; return how many rows there are."""
    folder.mkdir(parents=True)  # noqa: ASYNC240 (once)
    return (
        await _write(folder / "documents.csv", _DOCUMENTS, _documents(contents))
        + await _write(folder / "chunks.csv", _CHUNKS, _chunks(contents))
        + await _write(folder / "entities.csv", _ENTITIES, _said(contents, contents.entities(), _ENTITIES))
        + await _write(folder / "relations.csv", _RELATIONS, _said(contents, contents.relations(), _RELATIONS))
    )


_OF_DOCUMENTS = (
    *("id", "source", "title", "status", "error", "metadata", "length", "chunk_count", "created_at", "updated_at"),
)
# Details that are added to documents or chunks later come last, so that every column keeps its place.
_DOCUMENTS = (*_OF_DOCUMENTS, *(name for name in DOCUMENT_DETAILS if name not in _OF_DOCUMENTS))
_OF_CHUNKS = ("id", "document_id", "source", "position", "page", "headings", "start", "end", "token_count", "text")
_CHUNKS = (*_OF_CHUNKS, *(name for name in CHUNK_DETAILS if name not in _OF_CHUNKS))
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
            # An apostrophe keeps a spreadsheet from running a cell as a formula.
            writer.writerow(
                f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA_STARTS) else value for value in row
            )
            count += 1
    return count


async def _documents(contents: Contents) -> AsyncIterator[Row]:
    async for whole in contents.documents():
        item = whole.document
        written = {
            "status": item.status.value,
            "metadata": json.dumps(dict(item.metadata), ensure_ascii=False),
            "created_at": item.created_at.isoformat(),
            "updated_at": item.updated_at.isoformat(),
        }
        yield tuple(written[name] if name in written else getattr(item, name) for name in _DOCUMENTS)


async def _chunks(contents: Contents) -> AsyncIterator[Row]:
    async for whole in contents.documents():
        for chunk in whole.chunks:
            of_chunk = {"source": whole.document.source} | asdict(chunk)
            of_chunk |= {"headings": heading_path(chunk.headings), "columns": "; ".join(chunk.columns)}
            yield tuple(of_chunk[name] for name in _CHUNKS)


async def _said(
    contents: Contents, items: AsyncIterator[Entity | Relation], names: Sequence[str]
) -> AsyncIterator[Row]:
    async for item in items:
        sources = await contents.sources(item.chunk_ids)
        values = (sources if name == "sources" else getattr(item, name) for name in names)
        yield tuple(FIELD_SEPARATOR.join(value) if isinstance(value, tuple | list) else value for value in values)


# Markdown: the documents' texts and the graph as pages; and the same as a vault of linked notes for Obsidian.
#
# A vault has a note per entity and per document. Notes of entities link to their neighbours and to the documents that
# mention them, so that the graph view of the editor shows the graph.

_MAX_RELATIONS = 500
_LINK_SIGNS = re.compile(r"[|\[\]\s]+")


async def export_markdown(contents: Contents, folder: Path) -> int:
    """Write `documents/*.md`, `entities.md` and `relations.md` into a new folder; return how many items there are."""
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
        front = _front({"type": entity.type, "aliases": list(entity.aliases), "id": entity.id})
        lines = [front, f"# {entity.name}", "", _prose(entity.description)]
        relations = (await contents.relations_of(entity.id))[:_MAX_RELATIONS]
        if relations:
            lines += ["", "## Relations", ""]
        for relation in relations:
            other_id, other = relation.target_id, relation.target
            if other_id == entity.id:
                other_id, other = relation.source_id, relation.source
            said = " ".join(_prose(relation.description).split())
            lines.append(f"- [[{names.name(other_id, other)}|{_LINK_SIGNS.sub(' ', other)}]]: {said}")
        found = [documents[source] for source in await contents.sources(entity.chunk_ids) if source in documents]
        if found:
            lines += ["", "## Documents", "", *(f"- [[{name}]]" for name in found)]
        _write_note(folder / "entities" / f"{names.name(entity.id, entity.name)}.md", "\n".join(lines) + "\n")
        count += 1
    return count


def _document_name(names: FileNames, document: Document) -> str:
    return names.name(document.id, document.title or document.source)


def _front(fields: dict[str, object]) -> str:
    # JSON is valid YAML, and quotes values that YAML would misread.
    lines = [f"{json.dumps(str(name))}: {json.dumps(value, ensure_ascii=False)}" for name, value in fields.items()]
    return "\n".join(("---", *lines, "---"))


def _prose(description: str) -> str:
    return "\n\n".join(part.strip() for part in description.split(FIELD_SEPARATOR))


def _write_note(path: Path, text: str) -> None:
    path.write_text(text, "utf-8", errors="backslashreplace", newline="\n")


# Writes a workspace as a working directory that LightRAG 1.5.7 opens: documents, chunks, graph, vectors, extractions.
#
# Chunks get LightRAG's ids; documents that came from LightRAG keep theirs. The extraction of each chunk is written as a
# cached extraction reply, from which LightRAG rebuilds the graph when a document is deleted. Fields that LightRAG lacks
# (title, metadata, whole path) are under `heliograph` in a document's row, where an import finds them.

_GRAPH = "graph_chunk_entity_relation.graphml"
_MANUAL = "manual_creation"
_SUMMARY_LENGTH = 250
_SEPARATOR = "<|#|>"
_PAGE = 2_000
_STATUSES = {
    DocumentStatus.PARTIAL: "processed",
    DocumentStatus.PARSING: "pending",
    DocumentStatus.PROCESSING: "pending",
}


async def export_lightrag(contents: Contents, folder: Path) -> int:
    """Write the files into a new folder; return how many documents, chunks, entities and relations there are.

    Vectors are those of the workspace: LightRAG must be configured with the same embedding. Cached replies of chat
    models are left out, since they answer other prompts.
    """
    folder.mkdir(parents=True)  # noqa: ASYNC240 (once)
    files = _Files()
    async for whole in contents.documents():
        files.count_name(whole.document)
    async for whole in contents.documents():
        files.add_document(whole)
    for name in ("full_docs", "doc_status", "text_chunks", "llm_response_cache"):
        _write_rows(folder / f"kv_store_{name}.json", files.rows[name])
    count = len(files.rows["full_docs"]) + len(files.rows["text_chunks"])
    chunks = [(id_, name, row) for id_, (name, row) in files.chunks.items()]
    await _write_vectors(
        *(contents, folder / "vdb_chunks.json", Collection.CHUNKS),
        [
            (id_, name, {key: row[key] for key in ("content", "full_doc_id", "file_path")}, row["create_time"])
            for id_, name, row in chunks
        ],
    )
    count += await export_graphml(contents, folder / _GRAPH, files.origin)
    await _write_things(contents, folder, files, contents.entities(), Collection.ENTITIES)
    await _write_things(contents, folder, files, contents.relations(), Collection.RELATIONS)
    return count


@dataclass(slots=True)
class _Files:
    """The documents read so far; ids of chunks and documents are LightRAG's, those of entities and relations ours."""

    rows: dict[str, dict[str, dict[str, Any]]] = field(
        default_factory=lambda: {name: {} for name in ("full_docs", "doc_status", "text_chunks", "llm_response_cache")}
    )
    chunks: dict[str, tuple[str, dict[str, Any]]] = field(default_factory=dict[str, tuple[str, dict[str, Any]]])
    entities: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    relations: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    entities_of: dict[str, dict[str, None]] = field(default_factory=dict[str, dict[str, None]])
    relations_of: dict[str, dict[str, None]] = field(default_factory=dict[str, dict[str, None]])
    _names: dict[str, int] = field(default_factory=dict[str, int])
    _ids: dict[str, str] = field(default_factory=dict[str, str])

    def count_name(self, document: Document) -> None:
        """Register a document before any is written, to find ids and file names that several share."""
        name = _file_name(document.source)
        self._names[name] = self._names.get(name, 0) + 1
        wanted = str(document.metadata.get("lightrag_id") or document.id)
        self._ids[document.id] = document.id if wanted in self._ids.values() else wanted

    def add_document(self, whole: WholeDocument) -> None:
        """Add a document, its chunks, and their extractions."""
        document = whole.document
        id_, path = self._ids.get(document.id, document.id), _file_name(document.source)
        if self._names.get(path, 0) != 1:
            # LightRAG identifies a document by its file name; use the whole source if others have the same.
            path = document.source
        moments = {"create_time": _seconds(document.created_at), "update_time": _seconds(document.updated_at)}
        text = whole.text or ""
        digest = _digest("", text)
        details = document.metadata.get("lightrag")
        if isinstance(details, dict) and details.get("has_given_chunks"):  # pyright: ignore[reportUnknownMemberType]
            names = [_digest("chunk-", chunk.text) for chunk in whole.chunks]
        else:
            names = [f"{id_}-chunk-{chunk.position:03d}" for chunk in whole.chunks]
        # LightRAG has no status for a document of which some chunks could not be read.
        unread = {item.chunk_id for item in whole.extractions if item.error}
        own = {
            "id": document.id,
            "source": document.source,
            **document.details,
            "metadata": dict(document.metadata),
            "page_starts": list(document.page_starts),
            **({"twin_of": document.twin_of} if document.twin_of else {}),
            **({"unread": [chunk.position for chunk in whole.chunks if chunk.id in unread]} if unread else {}),
        }
        if whole.text is not None or document.twin_of:
            self.rows["full_docs"][id_] = {
                "content": text,
                "file_path": path,
                "parse_format": "raw",
                "content_hash": digest,
                "chunk_options": {},
                "heliograph": own,
                **moments,
                "_id": id_,
            }
        self.rows["doc_status"][id_] = {
            "status": _STATUSES.get(document.status, document.status.value),
            "content_summary": text[:_SUMMARY_LENGTH] + ("..." if len(text) > _SUMMARY_LENGTH else ""),
            "content_length": document.length,
            "created_at": document.created_at.isoformat(),
            "updated_at": document.updated_at.isoformat(),
            "file_path": path,
            "track_id": document.track_id,
            "content_hash": digest,
            "metadata": {"parse_format": "raw", "kg_write_state": "graph_mutation_started"},
            "chunks_count": len(whole.chunks),
            "chunks_list": names,
            **({"error_msg": document.error} if document.error else {}),
        }
        readings = {item.chunk_id: item for item in whole.extractions}
        for chunk, name in zip(whole.chunks, names, strict=True):
            reply = f"default:extract:{md5(name.encode(), usedforsecurity=False).hexdigest()}"
            row = {
                "tokens": chunk.token_count,
                "content": chunk.text,
                "chunk_order_index": chunk.position,
                "full_doc_id": id_,
                "file_path": path,
                "llm_cache_list": [reply],
                **moments,
                "_id": name,
            }
            self.rows["text_chunks"][name] = row
            self.chunks[chunk.id] = (name, row)
            if (reading := readings.get(chunk.id)) is not None:
                for found, things, of_document in (
                    (map(mention_entity_id, reading.entities), self.entities, self.entities_of),
                    (map(mention_relation_id, reading.relations), self.relations, self.relations_of),
                ):
                    for thing in found:
                        things.setdefault(thing, []).append(name)
                        of_document.setdefault(id_, {})[thing] = None
                self.rows["llm_response_cache"][reply] = _reply(reply, name, reading, moments)
        self.entities_of.setdefault(id_, {})
        self.relations_of.setdefault(id_, {})

    def origin(self, item: Entity | Relation) -> tuple[str, str]:
        """Return `source_id` and `file_path` of a node or an edge."""
        found = [self.chunks[id_] for id_ in item.chunk_ids if id_ in self.chunks]
        files = dict.fromkeys(row["file_path"] for _, row in found[:MOST_SOURCES])
        return (FIELD_SEPARATOR.join(name for name, _ in found) or _MANUAL, FIELD_SEPARATOR.join(files) or _MANUAL)


def _file_name(source: str) -> str:
    return source if "://" in source else PurePath(source).name or source


def _seconds(moment: datetime) -> int:
    return int(moment.timestamp())


def _reply(key: str, chunk: str, reading: Extraction, moments: Mapping[str, int]) -> dict[str, Any]:
    """Return the reply that would make LightRAG extract the same mentions from a chunk."""
    types = {"": "UNKNOWN", UNKNOWN_TYPE: "UNKNOWN"}
    rows = [("entity", item.name, types.get(item.type, item.type), item.description) for item in reading.entities]
    rows += [
        ("relation", item.source, item.target, ",".join(item.keywords), item.description) for item in reading.relations
    ]
    lines = [_SEPARATOR.join(" ".join(part.split()) for part in row) for row in rows]
    return {
        "return": "\n".join([*lines, "<|COMPLETE|>"]),
        "cache_type": "extract",
        "chunk_id": chunk,
        "original_prompt": "",
        "queryparam": None,
        **moments,
        "_id": key,
    }


async def _write_things(
    contents: Contents, folder: Path, files: _Files, items: AsyncIterator[Entity | Relation], collection: Collection
) -> None:
    """Write the vectors of entities or relations, and the chunks and documents that mention each."""
    is_entity = collection is Collection.ENTITIES
    chunks_of, things_of = (files.entities, files.entities_of) if is_entity else (files.relations, files.relations_of)
    vectors: list[tuple[str, str, dict[str, Any], int]] = []
    tracked: dict[str, dict[str, Any]] = {}
    names: dict[str, Any] = {}
    async for item in items:
        source_id, file_path = files.origin(item)
        if isinstance(item, Entity):
            name = key = item.name
            told = {"entity_name": name, "content": f"{name}\n{item.description}"}
            id_ = _digest("ent-", name)
        else:
            source, target = name = sorted((item.source, item.target))
            key = f"{source}{FIELD_SEPARATOR}{target}"
            content = f"{','.join(item.keywords)}\t{source}\n{target}\n{item.description}"
            told = {"src_id": source, "tgt_id": target, "content": content}
            id_ = _digest("rel-", source + target)
        names[item.id] = name
        vectors.append((item.id, id_, {**told, "source_id": source_id, "file_path": file_path}, item.created_at))
        if chunks := list(dict.fromkeys(chunks_of.get(item.id, ()))):
            moments = {"create_time": item.created_at, "update_time": item.created_at}
            tracked[key] = {"chunk_ids": chunks, "count": len(chunks), **moments, "_id": key}
    anchors: dict[str, dict[str, Any]] = {}
    for id_, found in things_of.items():
        listed = sorted(names[thing] for thing in found if thing in names)
        anchors[id_] = {"entity_names" if is_entity else "relation_pairs": listed, "count": len(listed), "_id": id_}
    one, many = ("entity", "entities") if is_entity else ("relation", "relations")
    _write_rows(folder / f"kv_store_{one}_chunks.json", tracked)
    _write_rows(folder / f"kv_store_full_{many}.json", anchors)
    path = folder / f"vdb_{'entities' if is_entity else 'relationships'}.json"
    await _write_vectors(contents, path, collection, vectors)


def _digest(prefix: str, text: str) -> str:
    return prefix + md5(text.encode("utf-8", "ignore"), usedforsecurity=False).hexdigest()


def _write_rows(path: Path, rows: Mapping[str, Mapping[str, Any]]) -> None:
    text = json.dumps(rows, ensure_ascii=False, indent=2)
    path.write_text(text, "utf-8", errors="replace")


async def _write_vectors(
    contents: Contents, path: Path, collection: Collection, items: Sequence[tuple[str, str, Mapping[str, Any], int]]
) -> None:
    """Write rows and vectors as nano-vectordb does; a row is our id, LightRAG's, its fields and its creation time."""
    rows: list[dict[str, Any]] = []
    matrix: list[NDArray[np.float32]] = []
    for start in range(0, len(items), _PAGE):
        page = items[start : start + _PAGE]
        vectors = await contents.store.vectors.get_vectors(collection, [id_ for id_, *_ in page])
        for place, (id_, name, fields, created_at) in enumerate(page, start):
            if (vector := vectors.get(id_)) is not None:
                packed = b64encode(zlib.compress(vector.astype("<f2").tobytes())).decode()
                rows.append(
                    {
                        "__id__": name,
                        "__created_at__": created_at,
                        "__write_seq__": place + 1,
                        **fields,
                        "vector": packed,
                    }
                )
                matrix.append(vector)
    dimension = contents.dimension or (len(matrix[0]) if matrix else 0)
    whole = np.stack(matrix).astype("<f4") if matrix else np.zeros((0, dimension), "<f4")

    def write() -> None:
        body = {"embedding_dim": dimension, "data": rows, "matrix": b64encode(whole.tobytes()).decode()}
        path.write_text(json.dumps(body, ensure_ascii=False), "utf-8", errors="replace")

    await asyncio.to_thread(write)
