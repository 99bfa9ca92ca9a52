"""The commands about the graph: entities, entity, relation, neighbours, paths."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

from heliograph.cli.filters import MAX_OFFSET
from heliograph.cli.plain import to_plain
from heliograph.cli.render_graph import (
    render_entities,
    render_entity,
    render_neighbourhood,
    render_paths,
    render_relation,
)
from heliograph.cli.session import Session, current_session
from heliograph.errors import NotFoundError
from heliograph.models import Entity
from heliograph.sync import Heliograph

__all__ = ["entities", "entity", "neighbours", "paths", "relation"]

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
