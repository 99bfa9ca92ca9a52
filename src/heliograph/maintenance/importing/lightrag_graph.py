"""The graph of a LightRAG working directory: GraphML as NetworkX writes it, read as a stream.

Attributes go by their names, since their ids differ from version to version. Lists are joined by `<SEP>`. Old versions,
and nano-graphrag, write names, types and descriptions in literal double quotes; these are taken off.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

from heliograph.documents.cleaning import clean_text
from heliograph.errors import InvalidRequestError
from heliograph.maintenance.importing.report import NoteKind, NoteList
from heliograph.models import FIELD_SEPARATOR
from heliograph.text.names import clean_name

__all__ = ["GraphEdge", "GraphNode", "read_graph"]

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
