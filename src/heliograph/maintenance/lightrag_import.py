"""Import a LightRAG workspace: its documents, chunks and graph become whole documents with mentions.

Each chunk is located in its document's text. LightRAG stores merged descriptions; they are distributed over the chunks
in canonical order, so that merging restores them. Items that no known chunk mentions go into a document named after the
directory or workspace. All is read before anything is written. Vectors are kept if the workspace is empty and the
embedding is the same, which embedding a sample again proves; otherwise they are computed again.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import md5
from itertools import chain, pairwise
from pathlib import PurePath
from typing import Any, cast

import numpy as np

from heliograph.documents.markdown import clean_text, find_title
from heliograph.extraction.base import UNKNOWN_TYPE, canonical_extraction
from heliograph.ids import (
    clean_name,
    content_hash,
    document_id,
    entity_key,
    mention_rank,
    name_to_entity_id,
    names_to_relation_id,
    track_id,
    written_type,
)
from heliograph.ingest.chunking import JOINT, Span, joined, place_chunks
from heliograph.ingest.commit import KeptVectors
from heliograph.ingest.merging import IndexEntry, Indexing, entity_entry, make_vectors
from heliograph.maintenance.archive import (
    DocumentImport,
    ImportKind,
    ImportReport,
    NoteKind,
    NoteList,
    SourceGraph,
    WholeDocument,
    WholeDocumentIntake,
)
from heliograph.maintenance.lightrag_layout import (
    EmbeddedRow,
    GraphEdge,
    GraphNode,
    LightragChunk,
    LightragContents,
    LightragDocument,
    LightragRows,
    LightragVectors,
    embedded_keywords,
    read_embedded_graph,
    read_rows,
)
from heliograph.models import (
    DOCUMENT_DETAILS,
    FIELD_SEPARATOR,
    Chunk,
    Document,
    DocumentStatus,
    Entity,
    EntityMention,
    Extraction,
    RelationMention,
    utc_now,
)
from heliograph.observing import TellCount
from heliograph.stores.base import DocumentQuery
from heliograph.stores.changeset import Collection
from heliograph.text.tokens import count_tokens

# From LightRAG's documents and chunks to ours: locating each chunk in the text, and deriving ids.
#
# Each chunk is searched for in its document's text; if one of a document is not found, or the text is missing, the
# chunks are joined as the text. Documents that were never read are imported as waiting, those that were not read to the
# end as partial.

_MAX_STATE_LENGTH = 1_000
# The replacement character that a tokenizer leaves where a cut splits a character.
_TORN = "\ufffd"


@dataclass(frozen=True, slots=True)
class PlacedDocument:
    """A document as it will be stored.

    `origins` are LightRAG's ids of its chunks, in their order; `unread` are positions of chunks that could not be read,
    None if LightRAG does not say.
    """

    document: Document
    text: str
    chunks: tuple[Chunk, ...]
    origins: tuple[str, ...] = ()
    unread: frozenset[int] | None = None


def place_documents(
    contents: LightragContents, track_id: str, notes: NoteList, taken: frozenset[str] = frozenset()
) -> list[PlacedDocument]:
    """Return all documents with a text or with chunks; notes repairs and omissions.

    They keep their ids, except those that are `taken` by documents that did not come from LightRAG. Documents without a
    batch get `track_id`.
    """
    by_document: dict[str, list[LightragChunk]] = {}
    for chunk in contents.chunks.values():
        by_document.setdefault(chunk.document_id, []).append(chunk)
    placed: list[PlacedDocument] = []
    for id_ in dict.fromkeys((*contents.documents, *by_document)):
        named = (item.source for item in (contents.documents.get(id_), *by_document.get(id_, ())) if item)
        source = next(filter(None, named), "")
        known = contents.documents.get(id_)
        chunks = sorted(by_document.get(id_, ()), key=lambda item: (item.order, item.id))
        if not chunks and (known is None or not known.text):
            state = f" ({known.state[:120]})" if known and known.state else ""
            notes.add(
                NoteKind.LEFT_OUT, "documents of which neither text nor chunks are kept", f"{source or id_}{state}"
            )
            continue
        name = source or id_
        kept = clean_text(id_)
        target_id = document_id(f"{name}#{id_}") if kept in taken or not kept else kept
        if known and (own_id := clean_text(str(known.own.get("id") or ""))):
            target_id = own_id
        # Ids derived from the chunk's content mean chunks inserted by a program, or an old version.
        is_given = bool(chunks) and all(
            chunk.id == f"chunk-{md5(chunk.text.encode('utf-8', 'ignore'), usedforsecurity=False).hexdigest()}"
            for chunk in chunks
        )
        target = Document(
            *(target_id, name, PurePath(name).stem if name != id_ else "", ""),
            status=DocumentStatus.PENDING,
            metadata={"lightrag_id": id_, **({"lightrag": {"has_given_chunks": True}} if is_given else {})},
            track_id=(known.track_id if known else "") or track_id,
        )
        placed.append(_place(known, chunks, target, notes))
    return placed


def _place(
    known: LightragDocument | None, chunks: Sequence[LightragChunk], target: Document, notes: NoteList
) -> PlacedDocument:
    """Return a document with its text and located chunks; `target` has its id, source, track and metadata."""
    text = known.text if known else ""
    spans = _find_spans(text, chunks, target.source, notes) if text else None
    if spans is not None and chunks:
        placed = [(text[span.start : span.end], span) for span in spans]
    else:
        texts = [chunk.text for chunk in chunks]
        if chunks:
            reason = "not all of which are found in the text" if text else "since their text is not kept"
            notes.add(NoteKind.REPAIRED, f"documents whose text is made of their chunks, {reason}", target.source)
            text = JOINT.join(texts)
        placed = list(joined(texts))
    status, error = DocumentStatus.PENDING, ""
    # LightRAG stores chunks before it reads them.
    if chunks and (known is None or known.is_finished):
        status = DocumentStatus.PROCESSED
    elif chunks and known:
        status, state = DocumentStatus.PARTIAL, known.state[:_MAX_STATE_LENGTH]
        error = f"LightRAG did not finish this document ({state}); retry reads what is left"
    document = replace(
        target,
        title=find_title(text) or target.title,
        content_hash=content_hash(text),
        status=status,
        error=error,
        length=len(text),
        chunk_count=len(chunks),
        created_at=known.created_at if known else utc_now(),
    )
    unread = None
    if known and known.own:
        document = _restored(document, known.own)
        unread = frozenset(_numbers(known.own["unread"])) if "unread" in known.own else None
        if unread and chunks and document.status is DocumentStatus.PROCESSED:
            document = replace(document, status=DocumentStatus.PARTIAL, error=known.error)
    return PlacedDocument(
        document, text, tuple(place_chunks(target.id, placed)), tuple(chunk.id for chunk in chunks), unread
    )


def _restored(document: Document, own: Mapping[str, Any]) -> Document:
    """Return a document with the extra fields that our own export stored with it."""
    metadata, starts = own.get("metadata"), _numbers(own.get("page_starts"))
    is_sound = all(0 <= start <= document.length for start in starts)
    twin_of = clean_text(str(own.get("twin_of") or ""))
    return replace(
        document,
        source=clean_text(str(own.get("source") or document.source)),
        **{name: clean_text(str(own.get(name) or "")) for name in DOCUMENT_DETAILS},
        metadata=cast("dict[str, Any]", metadata) if isinstance(metadata, dict) else document.metadata,
        page_starts=tuple(starts) if is_sound else (),
        twin_of="" if document.chunk_count else twin_of,
        status=DocumentStatus.PROCESSED if twin_of and not document.chunk_count else document.status,
    )


def _numbers(given: object) -> list[int]:
    return [item for item in cast("list[object]", given) if isinstance(item, int)] if isinstance(given, list) else []


def _find_spans(text: str, chunks: Sequence[LightragChunk], source: str, notes: NoteList) -> list[Span] | None:
    """Return the spans of the chunks in the text, or None if one of them is not found."""
    spans: list[Span] = []
    begin, torn = 0, 0
    for chunk in chunks:
        for part in (chunk.text, chunk.text.strip(_TORN).strip()):
            start = text.find(part, begin) if part else -1
            start = text.find(part) if part and start < 0 else start
            if start >= 0:
                spans.append(Span(start, start + len(part), count_tokens(part)))
                begin = start + 1
                break
            torn += 1
        else:
            return None
    notes.add(NoteKind.REPAIRED, "chunks that were cut within a character", source, torn)
    return spans


# Distributing LightRAG's entities and relations over the chunks that they come from.
#
# LightRAG stores the merged statements of all chunks about an item; here each chunk has its own. So the descriptions of
# an item are assigned to its chunks in canonical order, in which the fold joins them, and its weight is divided among
# them in whole millionths. Folding them restores the type, the descriptions and the weight.

_EXTRACTOR = "lightrag"
_MILLION = 1_000_000


class MentionTable:
    """Mentions by chunk, gathered item by item; memory holds all of them."""

    def __init__(self, chunks: Iterable[Chunk]) -> None:
        self._ranks = {chunk.id: mention_rank(chunk.document_id, chunk.position, is_subject=False) for chunk in chunks}
        self._entities: dict[str, list[EntityMention]] = {}
        self._relations: dict[str, list[RelationMention]] = {}

    def add_entity(self, node: GraphNode, name: str, chunk_ids: Sequence[str]) -> None:
        """Add mentions of an entity by a name to some chunks, at least one."""
        type_ = written_type(node.type) or UNKNOWN_TYPE
        places = self._in_order(chunk_ids)
        for (rank, chunk_id), said in zip(places, _share(node.descriptions, len(places)), strict=True):
            self._entities.setdefault(chunk_id, []).append(EntityMention(chunk_id, name, type_, said, rank))

    def add_relation(self, edge: GraphEdge, ends: tuple[str, str], chunk_ids: Sequence[str]) -> None:
        """Add mentions of a relation between two names to some chunks, at least one."""
        places = self._in_order(chunk_ids)
        whole, rest = divmod(max(1, round(edge.weight * _MILLION)), len(places))
        said = _share(edge.descriptions, len(places))
        for index, ((rank, chunk_id), description) in enumerate(zip(places, said, strict=True)):
            if weight := whole + (index < rest):
                said_by = (chunk_id, *ends, (edge.keywords,), description, weight / _MILLION, rank)
                self._relations.setdefault(chunk_id, []).append(RelationMention(*said_by))

    def extraction(self, chunk_id: str) -> Extraction:
        """Return the canonical extraction of a chunk."""
        entities, relations = self._entities.get(chunk_id, ()), self._relations.get(chunk_id, ())
        return canonical_extraction(Extraction(chunk_id, _EXTRACTOR, tuple(entities), tuple(relations)))

    def _in_order(self, chunk_ids: Sequence[str]) -> list[tuple[int, str]]:
        return sorted((self._ranks[id_], id_) for id_ in dict.fromkeys(chunk_ids))


def restore_spelling(node: GraphNode, texts: Iterable[str]) -> str:
    """Return an entity's name in its chunks' most frequent spelling, if LightRAG has put it into capitals."""
    if not node.is_shouted:
        return node.name
    pattern = re.compile(rf"(?<!\w){re.escape(node.name)}(?!\w)", re.IGNORECASE)
    found = Counter(match.group() for text in texts for match in pattern.finditer(text))
    found = {name: count for name, count in found.items() if entity_key(name) == entity_key(node.name)}
    # A heading in capitals must not outweigh the one place with the normal spelling.
    spelled: Mapping[str, int] = {name: count for name, count in found.items() if name != node.name}
    return min(spelled, key=lambda name: (-spelled[name], name)) if spelled else node.name


def _share(descriptions: Sequence[str], count: int) -> list[str]:
    """Split descriptions, in order, into `count` runs; if there are fewer of them, the last runs are empty."""
    runs = min(len(descriptions), count)
    ends = [index * len(descriptions) // runs for index in range(runs + 1)] if runs else []
    shared = [FIELD_SEPARATOR.join(descriptions[start:end]) for start, end in pairwise(ends)]
    return shared + [""] * (count - runs)


# Importing the rows of LightRAG: all are read before anything is written, so that broken ones leave nothing.

# Number of vectors to compute again, and the cosine above which the embedding counts as the same.
_SAMPLE = 12
_SAME = 0.999
_MAX_CHUNK_CHARACTERS = 1_200


async def import_lightrag(
    intake: WholeDocumentIntake, kind: ImportKind, rows: LightragRows, notes: NoteList, progress: TellCount
) -> ImportReport:
    """Import a LightRAG workspace; see `import_places`."""
    contents = await asyncio.to_thread(read_rows, rows, notes)
    progress("chunks read", len(contents.chunks))
    here = await intake.records.get_documents([id_ for id_ in map(clean_text, contents.documents) if id_])
    taken = frozenset(document.id for document in here if "lightrag_id" not in document.metadata)
    assembled = await asyncio.to_thread(_assemble, rows, contents, taken, notes, progress)
    reason = await _why_made_anew(intake, contents.vectors) if contents.vectors.rows else "there are none"
    kept = {} if reason else _kept_vectors(contents.vectors, assembled)
    documents = DocumentImport(intake, notes, progress)
    with intake.committer.keeping(kept):
        # Originals come before their twins.
        for placed in sorted(assembled.documents, key=lambda item: bool(item.document.twin_of)):
            await documents.add(assembled.whole(placed))
        await documents.finish()
    # If all documents existed already, no vector is computed or kept.
    if contents.vectors.rows and documents.has_changes:
        if reason:
            notes.add(NoteKind.LEFT_OUT, f"vectors; all are made anew, as {reason}", "", len(contents.vectors.rows))
        else:
            told = "vectors are kept: the embedding gives the same for a sample of them"
            notes.add(NoteKind.REMARK, told, "", len(contents.vectors.rows))
    return documents.report(kind, rows.label, graph=assembled.graph)


@dataclass(frozen=True, slots=True)
class _Assembled:
    """The contents of a directory, as they will be stored."""

    documents: Sequence[PlacedDocument]
    table: MentionTable
    graph: SourceGraph

    def whole(self, placed: PlacedDocument) -> WholeDocument:
        extractions = tuple(self.table.extraction(chunk.id) for chunk in placed.chunks)
        if placed.document.status is DocumentStatus.PARTIAL:
            extractions = tuple(
                # LightRAG does not say which chunks it read: `retry` reads those without any mention.
                replace(item, error="LightRAG did not finish this document")
                if (placed.unread is None or chunk.position in placed.unread) and not (item.entities or item.relations)
                else item
                for chunk, item in zip(placed.chunks, extractions, strict=True)
            )
        return WholeDocument(placed.document, placed.text, placed.chunks, extractions)


@dataclass(slots=True)
class _Graph:
    """The imported graph with our chunk ids: nodes by key, edges by id, and names by node."""

    nodes: dict[str, tuple[GraphNode, list[str]]] = field(default_factory=dict[str, tuple[GraphNode, list[str]]])
    edges: dict[str, tuple[GraphEdge, list[str]]] = field(default_factory=dict[str, tuple[GraphEdge, list[str]]])
    names: dict[str, str] = field(default_factory=dict[str, str])


def _kept_vectors(vectors: LightragVectors, assembled: _Assembled) -> KeptVectors:
    """Return the vectors by our ids."""
    chunk_ids = {
        origin: chunk.id
        for placed in assembled.documents
        for origin, chunk in zip(placed.origins, placed.chunks, strict=False)
    }
    entities = {clean_name(str(row.fields.get("entity_name", ""))): row.vector for row in vectors.entities}
    relations = {
        names_to_relation_id(*ends): row.vector
        for row in vectors.relations
        if all(ends := [clean_name(str(row.fields.get(name, ""))) for name in ("src_id", "tgt_id")])
    }
    return {
        Collection.CHUNKS: {chunk_ids[row.id]: row.vector for row in vectors.chunks if row.id in chunk_ids},
        Collection.ENTITIES: {name_to_entity_id(name): vector for name, vector in entities.items() if name},
        Collection.RELATIONS: relations,
    }


async def _why_made_anew(intake: WholeDocumentIntake, vectors: LightragVectors) -> str:
    """Return why vectors cannot be kept; empty if they can. Raises `ModelError`."""
    embedding = intake.committer.embedding
    dimension = len(vectors.rows[0].vector)
    if dimension != embedding.info.dimension:
        return f"they are of length {dimension} and those of {embedding.info.name!r} of {embedding.info.dimension}"
    if (await intake.records.find_documents(DocumentQuery(limit=1))).total:
        return "the workspace holds other documents, whose entities may be the same"
    # Entities are embedded the same way there and here, and short texts are not truncated.
    told = [row for row in vectors.entities or vectors.rows if row.fields.get("content")]
    sample = sorted(told, key=lambda row: len(str(row.fields["content"])))[:_SAMPLE]
    if not sample:
        return "it is not told what they are of"
    chunks = {row.id: row.vector for row in vectors.chunks}
    ways = [[IndexEntry.of(str(row.fields["content"])) for row in sample], [_from_chunks(row) for row in sample]]
    texts = list(dict.fromkeys(text for entries in ways for item in entries for text in item.embedded))
    again = dict(zip(texts, (await embedding.embed(texts, "document")).vectors, strict=True))
    made = [make_vectors({str(n): item for n, item in enumerate(entries)}, again, chunks).vectors for entries in ways]
    stored = np.stack([row.vector for row in sample])
    # Another model would match none of them; single texts may differ as they were truncated before embedding.
    same = np.max([np.sum(stored * vectors, axis=1) for vectors in made], axis=0) >= _SAME
    return (
        ""
        if 3 * same.sum() >= len(sample)
        else f"the embedding {embedding.info.name!r} gives others for the same texts"
    )


def _from_chunks(row: EmbeddedRow) -> IndexEntry:
    """Return the embedded text of a row of our own export, for an item that a local extractor found."""
    name, content = str(row.fields.get("entity_name", "")), str(row.fields["content"])
    chunk_ids = tuple(filter(None, str(row.fields.get("source_id", "")).split(FIELD_SEPARATOR)))
    entity = Entity("", name, "", content, chunk_ids=chunk_ids)
    return entity_entry(entity, Indexing(len(content), from_chunks=True)) if name else IndexEntry.of(content)


def _assemble(
    rows: LightragRows, contents: LightragContents, taken: frozenset[str], notes: NoteList, progress: TellCount
) -> _Assembled:
    batch = track_id("import")
    documents = place_documents(contents, batch, notes, taken)
    places = {
        origin: chunk for placed in documents for origin, chunk in zip(placed.origins, placed.chunks, strict=True)
    }
    texts = {chunk.id: chunk.text for chunk in places.values()}
    ids = {origin: chunk.id for origin, chunk in places.items()}
    graph = _read(rows, contents, ids, texts, notes)
    progress("entities read", len(graph.nodes))
    alone = _own_document(rows.name, graph, documents, batch, notes)
    if alone is not None:
        documents.append(alone)
    documents = _with_attributes(documents, graph, notes)
    table = MentionTable(chunk for placed in documents for chunk in placed.chunks)
    for node, chunk_ids in graph.nodes.values():
        table.add_entity(node, graph.names[entity_key(node.name)], chunk_ids)
    for edge, chunk_ids in graph.edges.values():
        ends = graph.names[entity_key(edge.source)], graph.names[entity_key(edge.target)]
        table.add_relation(edge, ends, chunk_ids)
    weight = sum(edge.weight for edge, _ in graph.edges.values())
    return _Assembled(documents, table, SourceGraph(len(graph.names), len(graph.edges), weight))


def _read(
    rows: LightragRows, contents: LightragContents, ids: dict[str, str], texts: dict[str, str], notes: NoteList
) -> _Graph:
    graph = _Graph()
    items = iter(rows.graph or ())
    first = next(items, None)
    if first is None and (rows.graph is None or contents.vectors.entities):
        why = "none is there" if rows.graph is None else "the one that is there is empty"
        what = "what was embedded of them is imported" if contents.vectors.entities else "only documents are imported"
        notes.add(NoteKind.LEFT_OUT, f"graphs, since {why}; {what}", rows.label)
        items = read_embedded_graph(contents.vectors)
    keywords = embedded_keywords(contents.vectors)
    for item in items if first is None else chain((first,), items):
        if isinstance(item, GraphEdge) and not item.keywords.strip(" ,"):
            pair = min(item.labels), max(item.labels)
            if found := keywords.get(pair, "").strip():
                notes.add(NoteKind.REPAIRED, "keywords that only the vectors' file has", " - ".join(pair))
                item = replace(item, keywords=found)
        if isinstance(item, GraphNode):
            more = contents.entity_chunks.get(item.label, ())
            chunk_ids = _known((*item.chunk_ids, *more), ids, item.label, notes)
            _add_node(graph, item, chunk_ids, texts, notes)
        else:
            more = contents.relation_chunks.get((min(item.labels), max(item.labels)), ())
            chunk_ids = _known((*item.chunk_ids, *more), ids, " - ".join(item.labels), notes)
            _add_edge(graph, item, chunk_ids, notes)
    return graph


def _known(origins: Sequence[str], ids: dict[str, str], label: str, notes: NoteList) -> list[str]:
    unknown = len({origin for origin in origins if origin not in ids})
    notes.add(NoteKind.LEFT_OUT, "references to chunks that are not kept", label if unknown else "", unknown)
    return list(dict.fromkeys(ids[origin] for origin in origins if origin in ids))


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
    if known is not None:
        # Take the type of the node with more chunks.
        type_ = node.type if len(chunk_ids) > len(known[1]) else known[0].type
        descriptions = tuple(dict.fromkeys((*known[0].descriptions, *node.descriptions)))
        node = replace(known[0], type=type_, descriptions=descriptions)
        chunk_ids = list(dict.fromkeys((*known[1], *chunk_ids)))
    graph.nodes[key] = node, chunk_ids


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
        if (known := graph.edges.get(id_)) is not None:
            descriptions = tuple(dict.fromkeys((*known[0].descriptions, *edge.descriptions)))
            keywords, weight = f"{known[0].keywords},{edge.keywords}", known[0].weight + edge.weight
            edge = replace(known[0], descriptions=descriptions, keywords=keywords, weight=weight)
            chunk_ids = list(dict.fromkeys((*known[1], *chunk_ids)))
        graph.edges[id_] = edge, chunk_ids


def _with_attributes(documents: Sequence[PlacedDocument], graph: _Graph, notes: NoteList) -> list[PlacedDocument]:
    """Return documents whose metadata keeps attributes that only a fork of LightRAG writes for their items."""
    owners = {chunk.id: placed.document.id for placed in documents for chunk in placed.chunks}
    found: dict[str, dict[str, dict[str, str]]] = {}
    told = [(node.name, node.extra, ids) for node, ids in graph.nodes.values()]
    told += [(f"{edge.source} - {edge.target}", edge.extra, ids) for edge, ids in graph.edges.values()]
    for label, extra, chunk_ids in told:
        if extra and chunk_ids:
            found.setdefault(owners[chunk_ids[0]], {})[label] = dict(extra)
            names = ", ".join(sorted(extra))
            notes.add(NoteKind.REMARK, f"attributes that are kept in the metadata of documents: {names}", label)
    return [
        replace(
            placed,
            document=replace(
                placed.document, metadata={**placed.document.metadata, "lightrag_attributes": found[placed.document.id]}
            ),
        )
        if placed.document.id in found
        else placed
        for placed in documents
    ]


def _own_document(
    directory: str, graph: _Graph, documents: Sequence[PlacedDocument], batch: str, notes: NoteList
) -> PlacedDocument | None:
    """Return a document for items that no known chunk mentions, and give them its chunk ids; None if there are none."""
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
    chunks = tuple(place_chunks(document_id(source), joined(texts)))
    for chunk, group in zip(chunks, groups, strict=True):
        for _, chunk_ids in group:
            chunk_ids.append(chunk.id)
    text = JOINT.join(texts)
    document = Document(
        *(document_id(source), source, directory, content_hash(text)),
        status=DocumentStatus.PROCESSED,
        metadata={"lightrag_directory": directory},
        length=len(text),
        chunk_count=len(chunks),
        track_id=batch,
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
