"""Read the files of a LightRAG working directory, of any version, or of nano-graphrag.

`read_files` reads documents and chunks from the JSON files; `read_graph` streams entities and relations from the
GraphML. Any file may be missing; what a row lacks is taken from elsewhere or noted. Nothing is written.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast
from xml.etree import ElementTree as ET

from heliograph.documents.markdown import clean_text
from heliograph.errors import InvalidRequestError
from heliograph.maintenance.whole_documents import NoteKind, NoteList
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

    `is_finished` also where no state is kept, as nano-graphrag keeps none.
    """

    id: str
    text: str
    source: str
    state: str
    is_finished: bool
    created_at: datetime


@dataclass(frozen=True, slots=True)
class LightragChunk:
    """A chunk: its id there, that of its document, its place, its text, and the path that it names."""

    id: str
    document_id: str
    order: int
    text: str
    source: str


@dataclass(frozen=True, slots=True)
class LightragFiles:
    """What the files hold.

    Attributes:
        documents: By id.
        chunks: By id, none of them empty.
        entity_chunks: Ids of chunks per entity name, where these are kept apart from the graph.
        relation_chunks: Likewise per pair of names, in ascending order.
    """

    documents: Mapping[str, LightragDocument]
    chunks: Mapping[str, LightragChunk]
    entity_chunks: Mapping[str, tuple[str, ...]]
    relation_chunks: Mapping[tuple[str, str], tuple[str, ...]]


def read_files(folder: Path, notes: NoteList) -> LightragFiles:
    """Read the JSON files of a directory; note what cannot be used.

    Raises:
        InvalidRequestError: A file is no JSON object, or cannot be read.
    """
    texts, states = dict(_rows(folder, "full_docs", notes)), dict(_rows(folder, "doc_status", notes))
    documents = {id_: _document(id_, texts.get(id_, {}), states.get(id_, {})) for id_ in {**texts, **states}}
    chunks: dict[str, LightragChunk] = {}
    for id_, row in _rows(folder, "text_chunks", notes):
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
    return LightragFiles(documents, chunks, entity_chunks, relation_chunks)


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
    """

    name: str
    label: str
    type: str
    descriptions: tuple[str, ...]
    chunk_ids: tuple[str, ...]
    is_shouted: bool


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
    )


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
