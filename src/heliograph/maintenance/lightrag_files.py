"""Read the files of a LightRAG working directory, of any version, or of nano-graphrag.

`read_files` reads documents and chunks from the JSON files; `read_graph` streams entities and relations from the
GraphML. Any file may be missing; what a row lacks is taken from elsewhere or noted. Nothing is written.
"""

from __future__ import annotations

import json
import math
import re
from base64 import b64decode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast
from xml.etree import ElementTree as ET

import numpy as np
from numpy.typing import NDArray

from heliograph.documents.markdown import clean_text
from heliograph.errors import InvalidRequestError
from heliograph.maintenance.archive import NoteKind, NoteList
from heliograph.models import FIELD_SEPARATOR, utc_now
from heliograph.text.names import clean_name

# The documents and chunks of a LightRAG working directory, as its JSON files hold them.
#
# Reads `kv_store_full_docs`, `kv_store_doc_status`, `kv_store_text_chunks`, `kv_store_entity_chunks` and
# `kv_store_relation_chunks`, of any version, and of nano-graphrag, whose layout is the same. Any file may be missing;
# what a row lacks is taken from another where it can be. LightRAG keeps these files whole in memory, and so does
# this.

# What LightRAG writes where it was told no path.
_NO_SOURCES = frozenset({"", "unknown_source", "no-file-path"})
# `preprocessed`: in the graph, but for pictures and tables that were to follow.
_FINISHED = frozenset({"", "processed", "preprocessed"})
# Begins a text that only refers to a file elsewhere.
_REFERENCE = "{{LRdoc}}"


@dataclass(frozen=True, slots=True)
class LightragDocument:
    """A document: its id there, its text (empty if it is not kept), its path (empty if unknown), and its state.

    `is_finished` also where no state is kept, as nano-graphrag keeps none. `own` is what an export of ours has said
    of it beside, empty in what LightRAG wrote.
    """

    id: str
    text: str
    source: str
    state: str
    is_finished: bool
    created_at: datetime
    own: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class LightragChunk:
    """A chunk: its id there, that of its document, its place, its text, and the path that it names."""

    id: str
    document_id: str
    order: int
    text: str
    source: str


@dataclass(frozen=True, slots=True)
class EmbeddedRow:
    """A row of a vector file: its id there, its fields, and its vector, of length 1."""

    id: str
    fields: Mapping[str, Any]
    vector: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class LightragVectors:
    """The rows of the three vector files, each empty where the file is missing."""

    chunks: tuple[EmbeddedRow, ...] = ()
    entities: tuple[EmbeddedRow, ...] = ()
    relations: tuple[EmbeddedRow, ...] = ()

    @property
    def rows(self) -> tuple[EmbeddedRow, ...]:
        """All rows."""
        return (*self.chunks, *self.entities, *self.relations)


@dataclass(frozen=True, slots=True)
class LightragFiles:
    """What the files hold.

    Attributes:
        documents: By id.
        chunks: By id, none of them empty.
        entity_chunks: Ids of chunks per entity name, where these are kept apart from the graph.
        relation_chunks: Likewise per pair of names, in ascending order.
        vectors: What was embedded, and the vectors.
    """

    documents: Mapping[str, LightragDocument]
    chunks: Mapping[str, LightragChunk]
    entity_chunks: Mapping[str, tuple[str, ...]]
    relation_chunks: Mapping[tuple[str, str], tuple[str, ...]]
    vectors: LightragVectors


def read_files(folder: Path, notes: NoteList) -> LightragFiles:
    """Read the JSON files of a directory; note what cannot be used.

    Raises:
        InvalidRequestError: A file is no JSON object, or cannot be read.
    """
    texts, states = dict(_rows(folder, "full_docs", notes)), dict(_rows(folder, "doc_status", notes))
    documents = {id_: _document(id_, texts.get(id_, {}), states.get(id_, {})) for id_ in {**texts, **states}}
    chunks: dict[str, LightragChunk] = {}
    vectors = LightragVectors(*(_embedded(folder, name, notes) for name in ("chunks", "entities", "relationships")))
    given = list(_rows(folder, "text_chunks", notes))
    if not given and vectors.chunks:
        # What was embedded is the chunk itself, in the order of the file where its id tells no place.
        given = [
            (row.id, {**row.fields, "chunk_order_index": _place(row.id, index)})
            for index, row in enumerate(vectors.chunks)
        ]
        notes.add(
            NoteKind.REPAIRED, "chunks that are read from their vectors' file, as their own is missing", "", len(given)
        )
    for id_, row in given:
        chunk = _chunk(id_, row)
        if chunk.text:
            chunks[id_] = chunk
        else:
            notes.add(NoteKind.LEFT_OUT, "chunks without a text", id_)
    relation_chunks = {
        (min(ends), max(ends)): _ids(row)
        for name, row in _rows(folder, "relation_chunks", notes)
        if len(ends := name.split(FIELD_SEPARATOR)) == 2
    }
    entity_chunks = {name: _ids(row) for name, row in _rows(folder, "entity_chunks", notes)}
    return LightragFiles(documents, chunks, entity_chunks, relation_chunks, vectors)


def _place(id_: str, index: int) -> int:
    place = id_.rpartition("-chunk-")[2]
    return int(place) if place.isdecimal() and len(place) < 10 else index


def _embedded(folder: Path, name: str, notes: NoteList) -> tuple[EmbeddedRow, ...]:
    """Return the rows of a vector file; one that cannot be read is noted, since vectors can be made anew."""
    path = folder / f"vdb_{name}.json"
    if not path.is_file():
        return ()
    try:
        found = cast("dict[str, Any]", json.loads(path.read_text("utf-8-sig")))
        rows = cast("list[dict[str, Any]]", found["data"])
        matrix = np.frombuffer(b64decode(found["matrix"]), "<f4").astype(np.float32)
        matrix = matrix.reshape(len(rows), int(found["embedding_dim"]))
        norms = np.linalg.norm(matrix, axis=1, keepdims=True)
        whole = np.where(norms > 0, matrix / np.where(norms > 0, norms, 1), 0)
        return tuple(
            EmbeddedRow(str(row["__id__"]), row, vector)
            for row, vector, norm in zip(rows, whole, norms, strict=True)
            if np.isfinite(norm) and norm > 0
        )
    except (ValueError, KeyError, TypeError, RecursionError, OSError) as error:
        notes.add(NoteKind.LEFT_OUT, f"vector files that cannot be read ({type(error).__name__})", path.name)
        return ()


def read_embedded_graph(vectors: LightragVectors) -> Iterator[GraphNode | GraphEdge]:
    """Yield what the vector files say of the graph, where the graph itself is missing; weights are 1."""
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
    """Return keywords and description from what was embedded of a relation: `keywords<TAB>source<LF>target<LF>...`."""
    content = _string(row.fields, "content")
    keywords, tab, rest = content.partition("\t")
    parts = rest.split("\n", 2)
    if tab and len(parts) == 3:
        return keywords, parts[2]
    return _string(row.fields, "keywords"), _string(row.fields, "description")


def _rows(folder: Path, name: str, notes: NoteList) -> Iterator[tuple[str, Mapping[str, Any]]]:
    path = folder / f"kv_store_{name}.json"
    if not path.exists():
        return
    try:
        found: object = json.loads(path.read_text("utf-8-sig"))
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
    )


def _chunk(id_: str, row: Mapping[str, Any]) -> LightragChunk:
    order = row.get("chunk_order_index")
    return LightragChunk(
        id_,
        _string(row, "full_doc_id"),
        order if isinstance(order, int) else 0,
        clean_text(_string(row, "content")).strip(),
        _source(row),
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
            moment = datetime.fromisoformat(value)
            return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        if isinstance(value, int | float):
            return datetime.fromtimestamp(value, UTC)
    except (ValueError, OverflowError, OSError):
        return utc_now()
    return utc_now()


# The graph of a LightRAG working directory: GraphML as NetworkX writes it, read as a stream.
#
# Attributes go by their names, since their ids differ from version to version. Lists are joined by `<SEP>`. Old
# versions, and nano-graphrag, write names, types and descriptions in literal double quotes; these are taken off.

# LightRAG's, nano-graphrag's and those of an export of ours.
_KNOWN_ATTRIBUTES = frozenset(
    {"", "entity_id", "entity_type", "entity_name", "description", "source_id", "file_path", "created_at", "truncate"}
    | {"weight", "keywords", "order", "clusters", "src_id", "tgt_id", "id", "label", "level"}
)
_NO_CHUNKS = frozenset({"", "UNKNOWN", "manual_creation"})
_DECLARATION = re.compile(rb"<\0?!\0?(D\0?O\0?C\0?T\0?Y\0?P\0?E|E\0?N\0?T\0?I\0?T\0?Y)")
_HEAD_BYTES = 65_536
_SHOUTED = re.compile(r"[^\W\d_]{2}")


@dataclass(frozen=True, slots=True)
class GraphNode:
    """An entity.

    Attributes:
        name: Its name, clean; empty if it has none.
        label: Its name as it is written there.
        type: Its type as it is written there, without quotes.
        descriptions: What is said of it, each once, in order.
        chunk_ids: Ids of the chunks that say it, each once, in order.
        is_shouted: Whether an old version has put its name into capitals.
        extra: Attributes that LightRAG itself does not write.
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
    """A relation; `source` and `target` are clean names, `labels` what they are written as; the rest as `GraphNode`."""

    source: str
    target: str
    labels: tuple[str, str]
    keywords: str
    weight: float
    descriptions: tuple[str, ...]
    chunk_ids: tuple[str, ...]
    extra: Mapping[str, str] = field(default_factory=dict[str, str])


def read_graph(path: Path, notes: NoteList) -> Iterator[GraphNode | GraphEdge]:
    """Yield the nodes and edges of a graph in their order; note what is repaired.

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
                    yield _node(element, _values(element, names))
                elif kind == "edge":
                    yield _edge(element, _values(element, names), notes)
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


def _node(element: ET.Element, values: Mapping[str, str]) -> GraphNode:
    label = element.get("id") or values.get("entity_id", "")
    is_quoted = _is_quoted(label)
    name = clean_name(label)
    return GraphNode(
        *(name, label, _plain(values.get("entity_type", ""), is_quoted=True)),
        _parts(values.get("description", ""), is_quoted=is_quoted),
        _chunk_ids(values.get("source_id", "")),
        is_shouted=is_quoted and name == name.upper() and _SHOUTED.search(name) is not None,
        extra=_extra(values),
    )


def _edge(element: ET.Element, values: Mapping[str, str], notes: NoteList) -> GraphEdge:
    labels = element.get("source", ""), element.get("target", "")
    is_quoted = _is_quoted(labels[0])
    said = values.get("keywords", "").replace(FIELD_SEPARATOR, ",")
    keywords = ",".join(clean_text(part).strip(' "') for part in said.split(","))
    return GraphEdge(
        *(clean_name(labels[0]), clean_name(labels[1]), labels, keywords),
        _weight(values.get("weight", ""), " - ".join(labels), notes),
        _parts(values.get("description", ""), is_quoted=is_quoted),
        _chunk_ids(values.get("source_id", "")),
        extra=_extra(values),
    )


def _extra(values: Mapping[str, str]) -> dict[str, str]:
    return {name: clean_text(value) for name, value in values.items() if name not in _KNOWN_ATTRIBUTES and value}


def _weight(text: str, label: str, notes: NoteList) -> float:
    try:
        weight = float(text)
    except ValueError:
        weight = math.nan
    if math.isfinite(weight) and weight > 0:
        return weight
    notes.add(NoteKind.REPAIRED, "weights that are no positive number count as 1", label)
    return 1.0


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
