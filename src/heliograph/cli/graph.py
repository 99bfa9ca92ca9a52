"""The commands about the graph, and their tables: entities, entity, relation, neighbours, paths.

Names of entities come in by any spelling; entities, relations, neighbourhoods and paths come out as tables or JSON.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from heliograph.cli.options import MAX_OFFSET
from heliograph.cli.output import FlowText, printable
from heliograph.cli.rendering import description_cell, fields_table, make_table, to_plain
from heliograph.cli.session import Session, current_session
from heliograph.errors import NotFoundError
from heliograph.models import FIELD_SEPARATOR, Entity, GraphPath, Relation, Subgraph
from heliograph.sync import Heliograph

# Entities, relations, neighbourhoods and paths, as tables.


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


Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the entity; letter case does not matter.")]


def entities(
    ctx: typer.Context,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="Entities shown at the most.")] = 20,
    offset: Annotated[int, typer.Option(min=0, max=MAX_OFFSET, help="Entities passed over.")] = 0,
) -> None:
    """List the entities, best connected first."""
    session = current_session(ctx)
    with session.engine() as engine:
        found = engine.entities(offset=offset, limit=limit)
    if session.output.is_json:
        session.output.json({"entities": to_plain(found)})
    else:
        session.output.show(render_entities(found) if found else Text("no entities"))


def entity(ctx: typer.Context, name: Name) -> None:
    """Show one entity whole."""
    session = current_session(ctx)
    with session.engine() as engine:
        found = _require_entity(session, engine, name)
    if session.output.is_json:
        session.output.json(to_plain(found))
    else:
        session.output.show(render_entity(found))


def relation(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="A", help="Name of one entity.")],
    other: Annotated[str, typer.Argument(metavar="B", help="Name of the other; the order does not matter.")],
) -> None:
    """Show the relation between two entities whole."""
    session = current_session(ctx)
    with session.engine() as engine:
        found = engine.relation(name, other)
        if found is None:
            _require_entity(session, engine, name)
            _require_entity(session, engine, other)
            raise NotFoundError(
                f"there is no relation between {name!r} and {other!r}; 'heliograph paths' finds longer ways"
            )
    if session.output.is_json:
        session.output.json(to_plain(found))
    else:
        session.output.show(render_relation(found))


def neighbours(
    ctx: typer.Context,
    name: Name,
    depth: Annotated[int, typer.Option(min=1, max=10, help="Relations between it and the farthest.")] = 1,
    max_entities: Annotated[int, typer.Option(min=1, max=10_000, help="Entities shown at the most.")] = 50,
) -> None:
    """Show what lies around an entity, nearest first."""
    session = current_session(ctx)
    with session.engine() as engine:
        found = engine.neighbours(name, depth=depth, max_entities=max_entities)
        if not found.entities:
            _require_entity(session, engine, name)
    if session.output.is_json:
        session.output.json(to_plain(found))
    else:
        session.output.show(render_neighbourhood(found))


def paths(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="A", help="Name of one entity.")],
    other: Annotated[str, typer.Argument(metavar="B", help="Name of the other.")],
    max_length: Annotated[int, typer.Option(min=1, max=10, help="Relations in a path at the most.")] = 6,
    limit: Annotated[int, typer.Option(min=1, max=100, help="Paths shown at the most.")] = 5,
) -> None:
    """Show the shortest paths between two entities, strongest first."""
    session = current_session(ctx)
    with session.engine() as engine:
        found = engine.paths(name, other, max_length=max_length, limit=limit)
        if not found:
            _require_entity(session, engine, name)
            _require_entity(session, engine, other)
    if session.output.is_json:
        session.output.json({"paths": to_plain(found)})
    elif found:
        session.output.show(render_paths(found))
    else:
        session.output.show(Text(f"no path of at most {max_length} relations"))


def _require_entity(session: Session, engine: Heliograph, name: str) -> Entity:
    found = engine.entity(name)
    if found is None:
        raise NotFoundError(
            f"there is no entity {name!r} in workspace {session.settings.store.workspace!r}; "
            "'heliograph entities' lists the best connected"
        )
    return found
