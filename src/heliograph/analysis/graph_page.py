"""One HTML file with a graph in it: a question's result, or what lies around an entity.

The file holds everything it shows and loads nothing: its policy allows only the one style and the one script inside,
by their hashes. What documents say stands in it as JSON, in which no character can end its element, and is shown as
text only.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from html import escape
from importlib.resources import files
from string import Template

from heliograph.models import Entity, Relation, Subgraph
from heliograph.query.models import Retrieval

# Characters that could end a script element, or a line of one, in some reader.
_ESCAPES = {ord(character): f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"}
_IMPLIED = "unknown"


@dataclass(frozen=True, slots=True)
class DrawnEntity:
    """A node; `is_start` marks the entity at the centre."""

    id: str
    name: str
    type: str
    description: str = ""
    aliases: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    is_start: bool = False


@dataclass(frozen=True, slots=True)
class DrawnRelation:
    """An edge between two nodes of the same graph."""

    id: str
    source: str
    target: str
    source_id: str
    target_id: str
    description: str
    keywords: tuple[str, ...]
    weight: float
    sources: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DrawnChunk:
    """A passage beside the graph."""

    reference_id: str
    source: str
    headings: tuple[str, ...]
    text: str


@dataclass(frozen=True, slots=True)
class DrawnGraph:
    """The nodes and edges of a drawing.

    Attributes:
        title: The question, or the name of the entity.
        summary: Counts, and what was left out, in words.
        entities: Nodes, best first.
        relations: Edges; both ends are among `entities`.
        chunks: Passages, best first; none around an entity.
    """

    title: str
    summary: str
    entities: tuple[DrawnEntity, ...]
    relations: tuple[DrawnRelation, ...]
    chunks: tuple[DrawnChunk, ...] = ()


def draw_retrieval(retrieval: Retrieval, max_entities: int = 300) -> DrawnGraph:
    """Return the graph of a question's result.

    An end of a relation that is no entity of the result is drawn without type and description.

    Args:
        retrieval: The result.
        max_entities: Nodes at the most, the best ones; relations of others are left out, and the summary says so.
    """
    context = retrieval.context
    drawn = {
        item.entity.id: _entity(item.entity, item.sources, is_start=False) for item in context.entities[:max_entities]
    }
    relations: list[DrawnRelation] = []
    for item in context.relations:
        own = item.relation
        ends = {own.source_id: own.source, own.target_id: own.target}
        new = {id_: DrawnEntity(id_, name, _IMPLIED) for id_, name in ends.items() if id_ not in drawn}
        if len(drawn) + len(new) <= max_entities:
            drawn |= new
            relations.append(_relation(item.relation, item.sources))
    left_out = len(context.entities) - max_entities + len(context.relations) - len(relations)
    return DrawnGraph(
        title=retrieval.question,
        summary=_summary(f"mode {retrieval.mode.value}, ", len(drawn), len(relations), left_out > 0),
        entities=tuple(drawn.values()),
        relations=tuple(relations),
        chunks=tuple(
            DrawnChunk(item.reference_id, item.source, item.chunk.headings, item.chunk.text) for item in context.chunks
        ),
    )


def draw_neighbourhood(around: Subgraph) -> DrawnGraph:
    """Return the graph of what lies around an entity, which is the first of the subgraph's."""
    entities = [_entity(entity, (), is_start=place == 0) for place, entity in enumerate(around.entities)]
    return DrawnGraph(
        title=entities[0].name if entities else "",
        summary=_summary("", len(entities), len(around.relations), around.is_truncated),
        entities=tuple(entities),
        relations=tuple(_relation(relation, ()) for relation in around.relations),
    )


def to_html(graph: DrawnGraph) -> str:
    """Return the page."""
    style, script = _part("graph.css"), _part("graph.js")
    data = json.dumps(asdict(graph), ensure_ascii=True).translate(_ESCAPES)
    return Template(_part("graph.html")).substitute(
        # As UTF-8 can hold it.
        title=escape(graph.title.encode("utf-8", "replace").decode("utf-8")),
        style=style,
        script=script,
        style_hash=_hash(style),
        script_hash=_hash(script),
        data=data,
    )


def _entity(entity: Entity, sources: Sequence[str], *, is_start: bool) -> DrawnEntity:
    return DrawnEntity(
        entity.id, entity.name, entity.type, entity.description, entity.aliases, tuple(sources), is_start
    )


def _relation(relation: Relation, sources: Sequence[str]) -> DrawnRelation:
    return DrawnRelation(
        id=relation.id,
        source=relation.source,
        target=relation.target,
        source_id=relation.source_id,
        target_id=relation.target_id,
        description=relation.description,
        keywords=relation.keywords,
        weight=relation.weight,
        sources=tuple(sources),
    )


def _summary(before: str, entities: int, relations: int, is_cut: bool) -> str:
    return f"{before}{entities:,} entities, {relations:,} relations{', the best of more' if is_cut else ''}"


def _part(name: str) -> str:
    return files("heliograph.analysis").joinpath("page", name).read_text("utf-8")


def _hash(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"
