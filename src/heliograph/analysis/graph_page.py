"""One HTML file with a graph in it: a question's result, or the neighbourhood of an entity.

The file is self-contained and loads nothing: its policy allows only the one style and the one script inside, by their
hashes. Text of documents is embedded as JSON, in which no character can end the element, and is shown as text only.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

from heliograph.models import Entity, Relation, Subgraph
from heliograph.query.models import Retrieval

# Characters that could end a script element, or a line of one, in some reader.
_ESCAPES = {ord(character): f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"}
_IMPLIED = "unknown"


# Fields of an entity and of a relation on the page, besides its sources.
_NODE = ("id", "name", "type", "description", "aliases")
_EDGE = ("id", "source", "target", "source_id", "target_id", "description", "keywords", "weight")
_Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class DrawnGraph:
    """The nodes and edges of a drawing, best first; `is_start` marks the entity at the centre."""

    title: str
    summary: str
    entities: tuple[_Row, ...]
    relations: tuple[_Row, ...]
    chunks: tuple[_Row, ...] = ()


def draw_retrieval(retrieval: Retrieval, max_entities: int = 300) -> DrawnGraph:
    """Return the graph of a question's result, with its best entities; the summary says whether more were left out.

    An end of a relation that is no entity of the result is drawn without type and description.
    """
    context = retrieval.context
    drawn = {
        item.entity.id: _drawn(item.entity, _NODE, item.sources, is_start=False)
        for item in context.entities[:max_entities]
    }
    relations: list[_Row] = []
    for item in context.relations:
        own = item.relation
        ends = {own.source_id: own.source, own.target_id: own.target}
        new = {
            id_: _drawn(Entity(id_, name, _IMPLIED, ""), _NODE, is_start=False)
            for id_, name in ends.items()
            if id_ not in drawn
        }
        if len(drawn) + len(new) <= max_entities:
            drawn |= new
            relations.append(_drawn(own, _EDGE, item.sources))
    left_out = len(context.entities) - max_entities + len(context.relations) - len(relations)
    chunks = (
        {"reference_id": item.reference_id, "source": item.source}
        | {"headings": item.chunk.headings, "text": item.chunk.text}
        for item in context.chunks
    )
    summary = _summary(f"mode {retrieval.mode.value}, ", len(drawn), len(relations), left_out > 0)
    return DrawnGraph(retrieval.question, summary, tuple(drawn.values()), tuple(relations), tuple(chunks))


def draw_neighbourhood(around: Subgraph) -> DrawnGraph:
    """Return the graph of an entity's neighbourhood; the entity is the subgraph's first."""
    entities = around.entities
    return DrawnGraph(
        title=entities[0].name if entities else "",
        summary=_summary("", len(entities), len(around.relations), around.is_truncated),
        entities=tuple(_drawn(entity, _NODE, is_start=place == 0) for place, entity in enumerate(entities)),
        relations=tuple(_drawn(relation, _EDGE) for relation in around.relations),
    )


def to_html(graph: DrawnGraph) -> str:
    """Return the page."""
    style, script = _part("graph.css"), _part("graph.js")
    data = json.dumps(asdict(graph), ensure_ascii=True).translate(_ESCAPES)
    return Template(_part("graph.html")).substitute(
        # Without lone surrogates, which UTF-8 cannot encode.
        title=escape(graph.title.encode("utf-8", "replace").decode("utf-8")),
        style=style,
        script=script,
        style_hash=_hash(style),
        script_hash=_hash(script),
        data=data,
    )


def _drawn(item: Entity | Relation, names: Sequence[str], sources: Sequence[str] = (), **others: Any) -> _Row:
    return {name: getattr(item, name) for name in names} | {"sources": sources} | others


def _summary(before: str, entities: int, relations: int, is_cut: bool) -> str:
    return f"{before}{entities:,} entities, {relations:,} relations{', the best of more' if is_cut else ''}"


def _part(name: str) -> str:
    return files("heliograph.analysis").joinpath("page", name).read_text("utf-8")


def _hash(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"
