"""LightRAG's rows as our `LightragDocument` and `LightragChunk`, and its nodes and edges, from any storage.

Each reader of a storage (`lightrag_files`, `lightrag_servers`) returns `LightragRows`; `read_rows` builds documents and
chunks from them, `make_node` and `make_edge` the graph. Any part may be missing; fields that a row lacks are taken from
other rows or noted.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from heliograph.documents.base import read_date
from heliograph.documents.markdown import clean_text
from heliograph.ids import clean_name
from heliograph.maintenance.archive import NoteKind, NoteList
from heliograph.models import FIELD_SEPARATOR, utc_now

# Documents and chunks, from the rows of the tables `full_docs`, `doc_status`, `text_chunks`, `entity_chunks` and
# `relation_chunks`, of any version, and of nano-graphrag, whose tables are the same. Fields that a row lacks are taken
# from another where possible. All of it is in memory at once, as in the embedded LightRAG.

# The tables by LightRAG's names; its other tables are derived from these, or have no counterpart here.
TABLES = ("full_docs", "doc_status", "text_chunks", "entity_chunks", "relation_chunks")
REPLIES = "replies of chat models, which other prompts asked for"

# Placeholders that LightRAG writes if it was given no path.
_NO_SOURCES = frozenset({"", "unknown_source", "no-file-path"})
# `preprocessed`: in the graph, except for pictures and tables that were to follow.
_FINISHED = frozenset({"", "processed", "preprocessed"})
# Prefix of a text that only refers to a file elsewhere.
_REFERENCE = "{{LRdoc}}"


# The limit of LightRAG's tables; indexes of servers cannot hold longer names.
_MOST_TRACK_CHARACTERS = 255


@dataclass(frozen=True, slots=True)
class LightragDocument:
    """A document: its id there, its text (empty if missing), its path (empty if unknown), and its state.

    `is_finished` is also true if there is no state, as nano-graphrag stores none. `own` are extra fields of our own
    export, empty for LightRAG's own data; `error` is why it failed; `track_id` is its batch.
    """

    id: str
    text: str
    source: str
    state: str
    is_finished: bool
    created_at: datetime
    own: Mapping[str, Any] = field(default_factory=dict[str, Any])
    error: str = ""
    track_id: str = ""


@dataclass(frozen=True, slots=True)
class LightragChunk:
    """A chunk: its id there, its document's id, its position, its text, and the path that it names."""

    id: str
    document_id: str
    order: int
    text: str
    source: str


@dataclass(frozen=True, slots=True)
class EmbeddedRow:
    """An embedded row: its id there, its fields by the names of the files, and its vector, of length 1."""

    id: str
    fields: Mapping[str, Any]
    vector: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class LightragVectors:
    """The embedded rows of the three kinds, each empty if missing."""

    chunks: tuple[EmbeddedRow, ...] = ()
    entities: tuple[EmbeddedRow, ...] = ()
    relations: tuple[EmbeddedRow, ...] = ()

    @property
    def rows(self) -> tuple[EmbeddedRow, ...]:
        """All rows."""
        return (*self.chunks, *self.entities, *self.relations)


@dataclass(frozen=True, slots=True)
class LightragRows:
    """The rows of one storage of LightRAG, by id, per table of `TABLES`; a workspace may be spread over several.

    A document for items that no chunk mentions is called `name`. The graph is read lazily; None if there is none.
    """

    name: str
    label: str
    tables: Mapping[str, Mapping[str, Mapping[str, Any]]]
    vectors: LightragVectors = LightragVectors()
    graph: Iterable[GraphNode | GraphEdge] | None = None


def join_rows(found: Sequence[LightragRows], notes: NoteList) -> LightragRows:
    """Return the joined rows of several storages of one workspace; if two have the same, the first counts."""
    tables = {
        name: {id_: row for rows in reversed(found) for id_, row in rows.tables.get(name, {}).items()}
        for name in TABLES
    }
    graphs = [rows for rows in found if rows.graph is not None]
    for rows in graphs[1:]:
        notes.add(NoteKind.LEFT_OUT, "graphs, since another place that was named before has one", rows.label)
    return LightragRows(
        found[0].name,
        " ".join(rows.label for rows in found),
        tables,
        LightragVectors(
            *(
                next((kept for rows in found if (kept := getattr(rows.vectors, kind))), ())
                for kind in ("chunks", "entities", "relations")
            )
        ),
        graphs[0].graph if graphs else None,
    )


@dataclass(frozen=True, slots=True)
class LightragContents:
    """The documents and chunks of a LightRAG workspace, and their graph and vectors.

    Ids of chunks per name, or pair of names in ascending order, are present if they are stored apart from the graph.
    """

    documents: Mapping[str, LightragDocument]
    chunks: Mapping[str, LightragChunk]
    entity_chunks: Mapping[str, tuple[str, ...]]
    relation_chunks: Mapping[tuple[str, str], tuple[str, ...]]
    vectors: LightragVectors


def read_rows(rows: LightragRows, notes: NoteList) -> LightragContents:
    """Build documents and chunks from rows; note unusable ones."""
    texts, states = rows.tables.get("full_docs", {}), rows.tables.get("doc_status", {})
    documents = {id_: _document(id_, texts.get(id_, {}), states.get(id_, {})) for id_ in {**texts, **states}}
    chunks: dict[str, LightragChunk] = {}
    given = list(rows.tables.get("text_chunks", {}).items())
    if not given and rows.vectors.chunks:
        # An embedded row holds the chunk itself; if its id has no position, use the order of the file.
        for index, row in enumerate(rows.vectors.chunks):
            place = row.id.rpartition("-chunk-")[2]
            order = int(place) if place.isdecimal() and len(place) < 10 else index
            given.append((row.id, {**row.fields, "chunk_order_index": order}))
        notes.add(
            NoteKind.REPAIRED, "chunks that are read from their vectors' file, as their own is missing", "", len(given)
        )
    for id_, row in given:
        order = row.get("chunk_order_index")
        place = order if isinstance(order, int) else 0
        if text := clean_text(_string(row, "content")).strip():
            chunks[id_] = LightragChunk(id_, _string(row, "full_doc_id"), place, text, _source(row))
        else:
            notes.add(NoteKind.LEFT_OUT, "chunks without a text", id_)
    relation_chunks = {
        (min(ends), max(ends)): _ids(row)
        for name, row in rows.tables.get("relation_chunks", {}).items()
        if len(ends := name.split(FIELD_SEPARATOR)) == 2
    }
    entity_chunks = {name: _ids(row) for name, row in rows.tables.get("entity_chunks", {}).items()}
    return LightragContents(documents, chunks, entity_chunks, relation_chunks, rows.vectors)


def embedded_rows(
    found: Sequence[tuple[str, Mapping[str, Any]]], matrix: NDArray[np.float32]
) -> tuple[EmbeddedRow, ...]:
    """Return rows with their vectors, `(rows, dimension)`, normalised to length 1; zero vectors are left out."""
    norms = np.linalg.norm(matrix, axis=1, keepdims=True)
    whole = np.where(norms > 0, matrix / np.where(norms > 0, norms, 1), 0)
    return tuple(
        EmbeddedRow(id_, fields, vector)
        for (id_, fields), vector, norm in zip(found, whole, norms, strict=True)
        if np.isfinite(norm) and norm > 0
    )


def read_embedded_graph(vectors: LightragVectors) -> Iterator[GraphNode | GraphEdge]:
    """Yield the graph as far as the vector files hold it, if the graph itself is missing; weights are 1."""
    for row in vectors.entities:
        label = _string(row.fields, "entity_name")
        content = _string(row.fields, "content")
        said = content.partition("\n")[2] if content.startswith(label) else content
        chunk_ids = _chunk_ids(_string(row.fields, "source_id"))
        is_quoted = _is_quoted(label)
        yield GraphNode(clean_name(label), label, "", _parts(said, is_quoted=is_quoted), chunk_ids, is_shouted=False)
    for row in vectors.relations:
        labels = _string(row.fields, "src_id"), _string(row.fields, "tgt_id")
        is_quoted = _is_quoted(labels[0])
        keywords, said = _embedded_relation(row)
        yield GraphEdge(
            *(clean_name(labels[0]), clean_name(labels[1]), labels, keywords, 1.0),
            _parts(said, is_quoted=is_quoted),
            _chunk_ids(_string(row.fields, "source_id")),
        )


def embedded_keywords(vectors: LightragVectors) -> dict[tuple[str, str], str]:
    """Return the keywords of relations as they were embedded, per pair of names as written, in ascending order."""
    found: dict[tuple[str, str], str] = {}
    for row in vectors.relations:
        ends = _string(row.fields, "src_id"), _string(row.fields, "tgt_id")
        found[min(ends), max(ends)] = _embedded_relation(row)[0]
    return found


def _embedded_relation(row: EmbeddedRow) -> tuple[str, str]:
    """Return keywords and description from the embedded text of a relation: `keywords<TAB>source<LF>target<LF>...`."""
    content = _string(row.fields, "content")
    keywords, tab, rest = content.partition("\t")
    parts = rest.split("\n", 2)
    if tab and len(parts) == 3:
        return keywords, parts[2]
    return _string(row.fields, "keywords"), _string(row.fields, "description")


def _document(id_: str, text: Mapping[str, Any], state: Mapping[str, Any]) -> LightragDocument:
    content = _string(text, "content") or _string(state, "content")
    return LightragDocument(
        id_,
        "" if content.startswith(_REFERENCE) else clean_text(content),
        _source(text) or _source(state),
        " ".join(f"{_string(state, 'status')} {_string(state, 'error_msg') or _string(state, 'error')}".split()),
        _string(state, "status").lower() in _FINISHED,
        _moment(state.get("created_at") or text.get("create_time")),
        cast("dict[str, Any]", own) if isinstance(own := text.get("heliograph"), dict) else {},
        _string(state, "error_msg"),
        clean_text(_string(state, "track_id")).strip()[:_MOST_TRACK_CHARACTERS],
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
            return read_date(value) or utc_now()
        if isinstance(value, int | float):
            return datetime.fromtimestamp(value, UTC)
    except (ValueError, OverflowError, OSError):
        return utc_now()
    return utc_now()


# The graph: nodes and edges from attributes by name.
#
# Lists are joined by `<SEP>`. Old versions, and nano-graphrag, write names, types and descriptions in literal double
# quotes; these are removed.

# LightRAG's, nano-graphrag's and those of our own export.
_KNOWN_ATTRIBUTES = frozenset(
    {"", "entity_id", "entity_type", "entity_name", "description", "source_id", "file_path", "created_at", "truncate"}
    | {"weight", "keywords", "order", "clusters", "src_id", "tgt_id", "id", "label", "level"}
)
_NO_CHUNKS = frozenset({"", "UNKNOWN", "manual_creation"})
_SHOUTED = re.compile(r"[^\W\d_]{2}")


@dataclass(frozen=True, slots=True)
class GraphNode:
    """An entity: its clean name (empty if it has none) and its name as written, its descriptions, and their chunks.

    An old version may have put its name into capitals; `extra` are attributes that LightRAG itself does not write.
    """

    name: str
    label: str
    type: str
    descriptions: tuple[str, ...]
    chunk_ids: tuple[str, ...]
    is_shouted: bool
    extra: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class GraphEdge:
    """A relation; `source` and `target` are clean names, `labels` the names as written; the rest as `GraphNode`."""

    source: str
    target: str
    labels: tuple[str, str]
    keywords: str
    weight: float
    descriptions: tuple[str, ...]
    chunk_ids: tuple[str, ...]
    extra: Mapping[str, str] = field(default_factory=dict[str, str])


def make_node(label: str, values: Mapping[str, str], *, is_shouted: bool = False) -> GraphNode:
    """Return a node from its attributes; `is_shouted` if all names are in capitals, as quoted ones are, too."""
    is_quoted = _is_quoted(label)
    name = clean_name(label)
    return GraphNode(
        *(name, label, _plain(values.get("entity_type", ""), is_quoted=True)),
        _parts(values.get("description", ""), is_quoted=is_quoted),
        _chunk_ids(values.get("source_id", "")),
        is_shouted=(is_quoted or is_shouted) and name == name.upper() and _SHOUTED.search(name) is not None,
        extra=_extra(values),
    )


def make_edge(labels: tuple[str, str], values: Mapping[str, str], notes: NoteList) -> GraphEdge:
    """Return an edge from its attributes; notes repairs."""
    is_quoted = _is_quoted(labels[0])
    said = values.get("keywords", "").replace(FIELD_SEPARATOR, ",")
    keywords = ",".join(clean_text(part).strip(' "') for part in said.split(","))
    try:
        weight = float(values.get("weight", ""))
    except ValueError:
        weight = math.nan
    if not (math.isfinite(weight) and weight > 0):
        notes.add(NoteKind.REPAIRED, "weights that are no positive number count as 1", " - ".join(labels))
        weight = 1.0
    return GraphEdge(
        *(clean_name(labels[0]), clean_name(labels[1]), labels, keywords),
        weight,
        _parts(values.get("description", ""), is_quoted=is_quoted),
        _chunk_ids(values.get("source_id", "")),
        extra=_extra(values),
    )


def _extra(values: Mapping[str, str]) -> dict[str, str]:
    return {name: clean_text(value) for name, value in values.items() if name not in _KNOWN_ATTRIBUTES and value}


def _parts(text: str, *, is_quoted: bool) -> tuple[str, ...]:
    parts = (_plain(part, is_quoted=is_quoted) for part in text.split(FIELD_SEPARATOR))
    return tuple(dict.fromkeys(part for part in parts if part))


def _chunk_ids(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(id_ for part in text.split(FIELD_SEPARATOR) if (id_ := part.strip()) not in _NO_CHUNKS))


def _is_quoted(text: str) -> bool:
    return len(text) > 1 and text.startswith('"') and text.endswith('"')


def _plain(text: str, *, is_quoted: bool) -> str:
    clean = clean_text(text).strip()
    return clean[1:-1].strip() if is_quoted and _is_quoted(clean) else clean
