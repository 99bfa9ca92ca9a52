"""Entities, relations, neighbourhoods and paths, as tables."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from heliograph.cli.flow import FlowText, printable
from heliograph.cli.tables import description_cell, fields_table, make_table
from heliograph.models import FIELD_SEPARATOR, Entity, GraphPath, Relation, Subgraph

__all__ = [
    "render_entities",
    "render_entity",
    "render_neighbourhood",
    "render_paths",
    "render_relation",
    "render_relations",
]


def render_entity(entity: Entity) -> RenderableType:
    """Return one entity whole."""
    rows: list[tuple[str, RenderableType]] = [
        ("name", FlowText(entity.name, "bold")),
        ("type", entity.type),
        ("relations", f"{entity.degree:,}"),
        ("chunks", f"{len(entity.chunk_ids):,}"),
    ]
    rows += [("also called", ", ".join(entity.aliases))] if entity.aliases else []
    return Group(fields_table(rows), Text(), *_fragments(entity.description))


def render_relation(relation: Relation) -> RenderableType:
    """Return one relation whole."""
    rows: list[tuple[str, RenderableType]] = [
        ("between", FlowText(f"{relation.source} - {relation.target}", "bold")),
        ("keywords", ", ".join(relation.keywords)),
        ("weight", f"{relation.weight:g}"),
        ("chunks", f"{len(relation.chunk_ids):,}"),
    ]
    return Group(fields_table(rows), Text(), *_fragments(relation.description))


def _fragments(description: str) -> list[RenderableType]:
    return [FlowText(fragment.strip()) for fragment in description.split(FIELD_SEPARATOR)]


def render_entities(entities: Sequence[Entity], title: str = "") -> RenderableType:
    """Return a table of entities."""
    table = make_table(title)
    table.add_column("entity", min_width=12, max_width=24)
    table.add_column("type", no_wrap=True, style="dim")
    table.add_column("degree", justify="right", no_wrap=True)
    table.add_column("description", ratio=1)
    for item in entities:
        name = FlowText(item.name, "bold")
        table.add_row(name, Text(printable(item.type)), f"{item.degree:,}", description_cell(item.description))
    return table


def render_relations(relations: Sequence[Relation], title: str = "") -> RenderableType:
    """Return a table of relations."""
    table = make_table(title)
    table.add_column("relation", min_width=16, max_width=28)
    table.add_column("weight", justify="right", no_wrap=True)
    table.add_column("description", ratio=1)
    for item in relations:
        pair = Group(FlowText(item.source, "bold"), FlowText(item.target, "bold"))
        about = FlowText(", ".join(item.keywords), "cyan")
        description = description_cell(item.description)
        table.add_row(pair, f"{item.weight:g}", Group(about, description) if item.keywords else description)
    return table


def render_neighbourhood(subgraph: Subgraph) -> RenderableType:
    """Return what lies around an entity."""
    parts: list[RenderableType] = [render_entities(subgraph.entities)]
    if subgraph.relations:
        parts += [Text(), render_relations(subgraph.relations)]
    counts = f"\n{len(subgraph.entities):,} entities, {len(subgraph.relations):,} relations"
    parts.append(Text(counts + (" (cut at --max-entities)" if subgraph.is_truncated else ""), "dim"))
    return Group(*parts)


def render_paths(paths: Sequence[GraphPath]) -> RenderableType:
    """Return paths, each from its first entity down to its last."""
    parts: list[RenderableType] = []
    for number, path in enumerate(paths, 1):
        length = len(path.relations)
        parts.append(Text(f"path {number} of {len(paths)}, {length} relation{'' if length == 1 else 's'}", "dim"))
        parts += _steps(path)
        parts.append(Text())
    return Group(*parts[:-1])


def _steps(path: GraphPath) -> list[RenderableType]:
    table = make_table(with_header=False)
    table.add_column(no_wrap=True, style="dim")
    table.add_column(ratio=1)
    for place, entity in enumerate(path.entities):
        table.add_row("", FlowText(entity.name, "bold"))
        if place < len(path.relations):
            relation = path.relations[place]
            about = FlowText(", ".join(relation.keywords), "cyan")
            table.add_row("|", Group(about, description_cell(relation.description)))
    return [table]
