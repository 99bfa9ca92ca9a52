"""Importing a working directory of LightRAG, of any version, or of nano-graphrag: documents, chunks and graph.

All files are read and put together before anything is written, so that a broken directory leaves nothing behind. What
no known chunk says goes into a document of its own, named after the directory. Vectors are made anew. Replies of chat
models and community reports stay behind.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from heliograph.ids import content_hash, document_id, track_id
from heliograph.maintenance.export.contents import WholeDocument
from heliograph.maintenance.importing.documents import DocumentImport
from heliograph.maintenance.importing.lightrag_documents import PlacedDocument, join_chunks, place_documents
from heliograph.maintenance.importing.lightrag_files import LightragFiles, read_files
from heliograph.maintenance.importing.lightrag_graph import GraphEdge, GraphNode, read_graph
from heliograph.maintenance.importing.lightrag_mentions import MentionTable, restore_spelling
from heliograph.maintenance.importing.report import (
    ImportKind,
    ImportProgress,
    ImportReport,
    NoteKind,
    NoteList,
    SourceGraph,
)
from heliograph.maintenance.importing.whole import WholeDocumentIntake
from heliograph.models import Document, DocumentStatus, Extraction
from heliograph.text.names import entity_key, names_to_relation_id

__all__ = ["import_lightrag", "is_lightrag"]

_GRAPH = "graph_chunk_entity_relation.graphml"
_MARKS = (_GRAPH, "kv_store_text_chunks.json", "kv_store_full_docs.json")
_LEFT_BEHIND = {
    "kv_store_llm_response_cache.json": "replies of chat models, which other prompts asked for",
    "kv_store_community_reports.json": "community reports, which have no counterpart here",
    **dict.fromkeys(
        ("vdb_chunks.json", "vdb_entities.json", "vdb_relationships.json"),
        "vectors; all are made anew by the configured embedding",
    ),
}
_MAX_CHUNK_CHARACTERS = 1_200


def is_lightrag(path: Path) -> bool:
    """Whether a folder looks like a working directory."""
    return any((path / name).is_file() for name in _MARKS)


async def import_lightrag(intake: WholeDocumentIntake, path: Path, progress: ImportProgress) -> ImportReport:
    """Import a working directory; see `import_path`."""
    notes = NoteList()
    assembled = await asyncio.to_thread(_assemble, path, notes, progress)
    documents = DocumentImport(intake, notes, progress)
    for placed in assembled.documents:
        await documents.add(assembled.whole(placed))
    await documents.finish()
    return documents.report(ImportKind.LIGHTRAG, path, graph=assembled.graph)


@dataclass(frozen=True, slots=True)
class _Assembled:
    """What a directory holds, as it shall be stored."""

    documents: Sequence[PlacedDocument]
    table: MentionTable
    graph: SourceGraph

    def whole(self, placed: PlacedDocument) -> WholeDocument:
        extractions = tuple(self.table.extraction(chunk.id) for chunk in placed.chunks)
        if placed.document.status is DocumentStatus.PARTIAL:
            extractions = tuple(_unread(item) for item in extractions)
        return WholeDocument(placed.document, placed.text, placed.chunks, extractions)


def _unread(extraction: Extraction) -> Extraction:
    """Mark a chunk in which nothing was found, so that `retry` reads it: LightRAG does not tell which ones it read."""
    is_read = bool(extraction.entities or extraction.relations)
    return extraction if is_read else replace(extraction, error="LightRAG did not finish this document")


@dataclass(slots=True)
class _Graph:
    """What is taken, with the ids of its chunks here: nodes by key, edges by id, and the names that nodes go by."""

    nodes: dict[str, tuple[GraphNode, list[str]]] = field(default_factory=dict[str, tuple[GraphNode, list[str]]])
    edges: dict[str, tuple[GraphEdge, list[str]]] = field(default_factory=dict[str, tuple[GraphEdge, list[str]]])
    names: dict[str, str] = field(default_factory=dict[str, str])


def _assemble(path: Path, notes: NoteList, progress: ImportProgress) -> _Assembled:
    files = read_files(path, notes)
    progress("chunks read", len(files.chunks))
    documents = place_documents(files, track_id("import"), notes)
    places = {
        origin: chunk for placed in documents for origin, chunk in zip(placed.origins, placed.chunks, strict=True)
    }
    texts = {chunk.id: chunk.text for chunk in places.values()}
    ids = {origin: chunk.id for origin, chunk in places.items()}
    graph = _read(path, files, ids, texts, notes)
    progress("entities read", len(graph.nodes))
    alone = _own_document(path.resolve().name, graph, documents, notes)
    if alone is not None:
        documents.append(alone)
    table = MentionTable(chunk for placed in documents for chunk in placed.chunks)
    for node, chunk_ids in graph.nodes.values():
        table.add_entity(node, graph.names[entity_key(node.name)], chunk_ids)
    for edge, chunk_ids in graph.edges.values():
        ends = graph.names[entity_key(edge.source)], graph.names[entity_key(edge.target)]
        table.add_relation(edge, ends, chunk_ids)
    for name, reason in _LEFT_BEHIND.items():
        notes.add(NoteKind.LEFT_OUT, f"files of {reason}", name, int((path / name).is_file()))
    return _Assembled(documents, table, _sum(graph))


def _read(path: Path, files: LightragFiles, ids: dict[str, str], texts: dict[str, str], notes: NoteList) -> _Graph:
    graph = _Graph()
    if not (path / _GRAPH).is_file():
        notes.add(NoteKind.LEFT_OUT, "graphs, since the file is missing; only documents are imported", _GRAPH)
        return graph
    for item in read_graph(path / _GRAPH, notes):
        if isinstance(item, GraphNode):
            more = files.entity_chunks.get(item.label, ())
            chunk_ids = _known((*item.chunk_ids, *more), ids, item.label, notes)
            _add_node(graph, item, chunk_ids, texts, notes)
        else:
            more = files.relation_chunks.get((min(item.labels), max(item.labels)), ())
            chunk_ids = _known((*item.chunk_ids, *more), ids, " - ".join(item.labels), notes)
            _add_edge(graph, item, chunk_ids, notes)
    return graph


def _known(origins: Sequence[str], ids: dict[str, str], label: str, notes: NoteList) -> list[str]:
    distinct = dict.fromkeys(origins)
    unknown = sum(origin not in ids for origin in distinct)
    notes.add(NoteKind.LEFT_OUT, "references to chunks that are not kept", label if unknown else "", unknown)
    return list(dict.fromkeys(ids[origin] for origin in distinct if origin in ids))


def _add_node(graph: _Graph, node: GraphNode, chunk_ids: list[str], texts: dict[str, str], notes: NoteList) -> None:
    if not node.name:
        notes.add(NoteKind.LEFT_OUT, "entities without a name", node.label)
        return
    key = entity_key(node.name)
    known = graph.nodes.get(key)
    if known is not None:
        notes.add(NoteKind.REPAIRED, "entities that are spellings of one name are one entity", node.label)
    name = restore_spelling(node, (texts[id_] for id_ in chunk_ids))
    graph.names.setdefault(key, name)
    if node.label != node.name:
        notes.add(NoteKind.REPAIRED, "names that were in quotes or not clean", node.label)
    if name != node.name:
        notes.add(NoteKind.REPAIRED, "names in capitals that are spelled as their chunks spell them", name)
    graph.nodes[key] = (node, chunk_ids) if known is None else _joined_node(known, (node, chunk_ids))


def _add_edge(graph: _Graph, edge: GraphEdge, chunk_ids: list[str], notes: NoteList) -> None:
    label = " - ".join(edge.labels)
    if not edge.source or not edge.target:
        notes.add(NoteKind.LEFT_OUT, "relations with an end without a name", label)
    elif entity_key(edge.source) == entity_key(edge.target):
        notes.add(NoteKind.LEFT_OUT, "relations of an entity with itself", label)
    else:
        for name in (edge.source, edge.target):
            if entity_key(name) not in graph.names:
                notes.add(NoteKind.REPAIRED, "entities that are only ends of relations", name)
                graph.names[entity_key(name)] = name
        id_ = names_to_relation_id(edge.source, edge.target)
        known = graph.edges.get(id_)
        graph.edges[id_] = (edge, chunk_ids) if known is None else _joined_edge(known, (edge, chunk_ids))


def _joined_node(one: tuple[GraphNode, list[str]], other: tuple[GraphNode, list[str]]) -> tuple[GraphNode, list[str]]:
    """Return what two nodes of one entity say together; its type is that of the one with more chunks."""
    type_ = max(one, other, key=lambda item: len(item[1]))[0].type
    descriptions = tuple(dict.fromkeys((*one[0].descriptions, *other[0].descriptions)))
    return replace(one[0], type=type_, descriptions=descriptions), list(dict.fromkeys((*one[1], *other[1])))


def _joined_edge(one: tuple[GraphEdge, list[str]], other: tuple[GraphEdge, list[str]]) -> tuple[GraphEdge, list[str]]:
    """Return what two edges of one relation say together."""
    descriptions = tuple(dict.fromkeys((*one[0].descriptions, *other[0].descriptions)))
    keywords, weight = f"{one[0].keywords},{other[0].keywords}", one[0].weight + other[0].weight
    joined = replace(one[0], descriptions=descriptions, keywords=keywords, weight=weight)
    return joined, list(dict.fromkeys((*one[1], *other[1])))


def _own_document(
    directory: str, graph: _Graph, documents: Sequence[PlacedDocument], notes: NoteList
) -> PlacedDocument | None:
    """Return a document of what no known chunk says, and give that its chunks; None if there is nothing."""
    lines = [
        (f"{node.name}: {' '.join(node.descriptions)}".rstrip(": "), chunk_ids)
        for node, chunk_ids in graph.nodes.values()
        if not chunk_ids
    ]
    notes.add(NoteKind.REPAIRED, "entities without a chunk are said by a document of their own", directory, len(lines))
    entities = len(lines)
    lines += [
        (f"{edge.source} - {edge.target}: {' '.join(edge.descriptions)}".rstrip(": "), chunk_ids)
        for edge, chunk_ids in graph.edges.values()
        if not chunk_ids
    ]
    relations = len(lines) - entities
    notes.add(NoteKind.REPAIRED, "relations without a chunk are said by a document of their own", directory, relations)
    if not lines:
        return None
    source = directory if all(placed.document.source != directory for placed in documents) else f"{directory} (graph)"
    groups = _pack(lines)
    texts = ["\n".join(line for line, _ in group) for group in groups]
    chunks = join_chunks(document_id(source), texts)
    for chunk, group in zip(chunks, groups, strict=True):
        for _, chunk_ids in group:
            chunk_ids.append(chunk.id)
    text = "\n\n".join(texts)
    document = Document(
        *(document_id(source), source, directory, content_hash(text)),
        status=DocumentStatus.PROCESSED,
        metadata={"lightrag_directory": directory},
        length=len(text),
        chunk_count=len(chunks),
        track_id=documents[0].document.track_id if documents else track_id("import"),
    )
    return PlacedDocument(document, text, chunks)


def _pack(lines: Sequence[tuple[str, list[str]]]) -> list[list[tuple[str, list[str]]]]:
    groups: list[list[tuple[str, list[str]]]] = []
    size = 0
    for line in lines:
        if not groups or size + len(line[0]) > _MAX_CHUNK_CHARACTERS:
            groups.append([])
            size = 0
        groups[-1].append(line)
        size += len(line[0]) + 1
    return groups


def _sum(graph: _Graph) -> SourceGraph:
    return SourceGraph(len(graph.names), len(graph.edges), sum(edge.weight for edge, _ in graph.edges.values()))
