"""The commands that correct the graph by hand, and their tables.

Create, edit, rename, merge, split, hide and undo write curations; history, duplicates and curations show them;
insert-graph takes a graph from a JSON file.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from heliograph.cli.options import MAX_OFFSET
from heliograph.cli.output import FlowText
from heliograph.cli.rendering import description_cell, fields_table, local_time, make_table, to_plain
from heliograph.cli.session import Session, current_session
from heliograph.curation.graph_curation import DuplicatePair, History
from heliograph.errors import InvalidRequestError, NotFoundError
from heliograph.ingest.given import parse_given_graph
from heliograph.models import Curation
from heliograph.stores.base import CurationQuery

# Curations, histories and pairs of duplicates, as tables.


def render_curation(item: Curation) -> RenderableType:
    """Return one curation."""
    rows: list[tuple[str, RenderableType]] = [
        ("curation", item.id),
        ("done" if item.is_active else "undone", FlowText(_what(item), "bold")),
        ("by", item.author if item.is_active else item.undone_by),
    ]
    return fields_table(rows)


def render_curations(items: Sequence[Curation], title: str = "") -> RenderableType:
    """Return a table of curations."""
    table = make_table(title)
    table.add_column("curation", no_wrap=True, style="dim")
    table.add_column("when", no_wrap=True)
    table.add_column("by", overflow="fold")
    table.add_column("what", ratio=1)
    for item in items:
        undone = "" if item.is_active else f" (undone by {item.undone_by or 'somebody'})"
        table.add_row(item.id, local_time(item.created_at), item.author, FlowText(_what(item) + undone))
    return table


def render_history(history: History) -> RenderableType:
    """Return who said what of one thing."""
    table = make_table(f"said by {history.statement_count:,} mentions")
    table.add_column("source", overflow="fold", max_width=30)
    table.add_column("chunk", justify="right", no_wrap=True)
    table.add_column("name", overflow="fold", max_width=24)
    table.add_column("what", ratio=1)
    for item in history.statements:
        said = " / ".join(part for part in (item.type, ", ".join(item.keywords), item.description) if part)
        table.add_row(item.source, str(item.position), FlowText(" - ".join(item.names)), description_cell(said))
    parts: list[RenderableType] = [table] if history.statements else []
    if history.curations:
        parts += [Text(), render_curations(history.curations, "done by hand")]
    return Group(*parts)


def render_duplicates(pairs: Sequence[DuplicatePair]) -> RenderableType:
    """Return a table of pairs."""
    table = make_table()
    table.add_column("score", justify="right", no_wrap=True)
    table.add_column("entity", overflow="fold", max_width=28)
    table.add_column("other", overflow="fold", max_width=28)
    table.add_column("why", ratio=1)
    for pair in pairs:
        table.add_row(f"{pair.score:.2f}", FlowText(pair.name), FlowText(pair.other), FlowText(pair.reason))
    return table


def _what(item: Curation) -> str:
    """Return what was done, in a few words."""
    said = [("type", item.type), ("description", item.description), ("keywords", ", ".join(item.keywords or ()))]
    details = [f"{name} {value!r}" for name, value in said if value]
    details += [f"weight {item.weight:g}"] if item.weight is not None else []
    details += [f"in {', '.join(item.scope)}"] if item.scope else []
    # As the command that did it is called.
    kind = item.kind.value.replace("delete_", "hide_").replace("_", " ")
    return " ".join((kind, " -> ".join(item.names), *details))


Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the entity, by any spelling or alias.")]
Other = Annotated[
    str | None,
    typer.Option("--with", metavar="NAME", help="The other end, for a relation.", show_default=False),
]
Author = Annotated[str, typer.Option(metavar="NAME", help="Who says so.")]
Description = Annotated[str | None, typer.Option(metavar="TEXT", help="What is said of it.", show_default=False)]
Type = Annotated[str | None, typer.Option("--type", metavar="TYPE", help="Type of an entity.", show_default=False)]
Keyword = Annotated[
    list[str] | None,
    typer.Option(metavar="WORDS", help="Keyword of a relation; may be given again.", show_default=False),
]
Weight = Annotated[float | None, typer.Option(metavar="NUMBER", help="Weight of a relation.", show_default=False)]
Limit = Annotated[int, typer.Option(min=1, max=10_000, help="Shown at the most.")]
Offset = Annotated[int, typer.Option(min=0, max=MAX_OFFSET, help="Passed over.")]

_AUTHOR = "cli"


def create(
    ctx: typer.Context,
    name: Name,
    other: Other = None,
    type_: Type = None,
    description: Description = None,
    keyword: Keyword = None,
    weight: Weight = None,
    author: Author = _AUTHOR,
) -> None:
    """Make an entity, or with --with a relation, that stays without any document."""
    session = current_session(ctx)
    with session.engine() as engine:
        if other is None:
            _refuse_relation_options(keyword, weight)
            done = engine.create_entity(name, type=type_ or "", description=description or "", author=author)
        else:
            _refuse_type(type_)
            done = engine.create_relation(
                *(name, other),
                keywords=keyword or (),
                description=description or "",
                weight=1.0 if weight is None else weight,
                author=author,
            )
    _show(session, done)


def edit(
    ctx: typer.Context,
    name: Name,
    other: Other = None,
    type_: Type = None,
    description: Description = None,
    keyword: Keyword = None,
    weight: Weight = None,
    author: Author = _AUTHOR,
) -> None:
    """Put what you say of an entity, or with --with of a relation, in place of what documents say."""
    session = current_session(ctx)
    with session.engine() as engine:
        if other is None:
            _refuse_relation_options(keyword, weight)
            done = engine.edit_entity(name, type=type_, description=description, author=author)
        else:
            _refuse_type(type_)
            done = engine.edit_relation(
                name, other, keywords=keyword, description=description, weight=weight, author=author
            )
    _show(session, done)


def hide(ctx: typer.Context, name: Name, other: Other = None, author: Author = _AUTHOR) -> None:
    """Take an entity, or with --with a relation, out of the graph whatever documents say."""
    session = current_session(ctx)
    with session.engine() as engine:
        if other is None:
            done = engine.delete_entity(name, author=author)
        else:
            done = engine.delete_relation(name, other, author=author)
    _show(session, done)


def rename(
    ctx: typer.Context,
    name: Name,
    new_name: Annotated[str, typer.Argument(metavar="NEW", help="Its new name.")],
    allow_merge: Annotated[
        bool, typer.Option("--allow-merge", help="Merge it into the entity that has the new name, if there is one.")
    ] = False,
    author: Author = _AUTHOR,
) -> None:
    """Give an entity another name; the old one stays its alias."""
    session = current_session(ctx)
    with session.engine() as engine:
        done = engine.rename_entity(name, new_name, allow_merge=allow_merge, author=author)
    _show(session, done)


def merge(
    ctx: typer.Context,
    names: Annotated[list[str], typer.Argument(metavar="NAMES", help="Names of the entities to merge.")],
    into: Annotated[str, typer.Option(metavar="NAME", help="What they become: an entity, or a new name.")],
    author: Author = _AUTHOR,
) -> None:
    """Make several entities one."""
    session = current_session(ctx)
    with session.engine() as engine:
        done = engine.merge_entities(names, into, author=author)
    _show(session, done)


def split(
    ctx: typer.Context,
    name: Name,
    new_name: Annotated[str, typer.Argument(metavar="NEW", help="Name of the new entity.")],
    document: Annotated[
        list[str] | None,
        typer.Option(metavar="ID", help="A document that means the new one; may be given again.", show_default=False),
    ] = None,
    chunk: Annotated[
        list[str] | None,
        typer.Option(metavar="ID", help="A chunk that means the new one; may be given again.", show_default=False),
    ] = None,
    author: Author = _AUTHOR,
) -> None:
    """Make what some documents or chunks call by a name an entity of its own."""
    session = current_session(ctx)
    with session.engine() as engine:
        done = engine.split_entity(name, new_name, document_ids=document or (), chunk_ids=chunk or (), author=author)
    _show(session, done)


def undo(
    ctx: typer.Context,
    curation_id: Annotated[str, typer.Argument(metavar="ID", help="Id of the curation; 'curations' lists them.")],
    author: Author = _AUTHOR,
) -> None:
    """Take back what was done by hand: the graph becomes what it would be without it."""
    session = current_session(ctx)
    with session.engine() as engine:
        done = engine.undo(curation_id, author=author)
    _show(session, done)


def curations(ctx: typer.Context, limit: Limit = 20, offset: Offset = 0) -> None:
    """List what was done to the graph by hand, the latest first."""
    session = current_session(ctx)
    with session.engine() as engine:
        page = engine.curations(CurationQuery(descending=True, offset=offset, limit=limit))
    if session.output.is_json:
        session.output.json({"curations": to_plain(page.curations), "total": page.total})
    else:
        session.output.show(render_curations(page.curations) if page.curations else Text("no curations"))


def history(
    ctx: typer.Context,
    name: Name,
    other: Other = None,
    limit: Limit = 20,
    offset: Offset = 0,
) -> None:
    """Show which chunk and which person said what of an entity, or with --with of a relation."""
    session = current_session(ctx)
    with session.engine() as engine:
        found = engine.history(name, other, offset=offset, limit=limit)
    if not found.statement_count and not found.curations:
        what = repr(name) if other is None else f"{name!r} and {other!r}"
        raise NotFoundError(f"nothing was ever said of {what} in this workspace")
    if session.output.is_json:
        session.output.json(to_plain(found))
    else:
        session.output.show(render_history(found))


def duplicates(ctx: typer.Context, limit: Limit = 20) -> None:
    """List pairs of entities that may be one, the most alike first."""
    session = current_session(ctx)
    with session.engine() as engine, session.output.waiting("comparing entities"):
        found = engine.find_duplicates(limit=limit)
    if session.output.is_json:
        session.output.json({"duplicates": to_plain(found)})
    else:
        session.output.show(render_duplicates(found) if found else Text("no duplicates"))


def insert_graph(
    ctx: typer.Context,
    path: Annotated[Path, typer.Argument(metavar="FILE", help="JSON with chunks, entities and relationships.")],
) -> None:
    """Take in a graph that is made already, as one document whose source is the file."""
    session = current_session(ctx)
    try:
        data = json.loads(path.read_text("utf-8"))
    except OSError as error:
        message = f"the file {str(path)!r} cannot be read ({error.strerror}); check the path"
        raise InvalidRequestError(message) from error
    except (ValueError, RecursionError) as error:
        raise InvalidRequestError(f"the file {str(path)!r} is not JSON: {error}") from error
    if not isinstance(data, dict):
        raise InvalidRequestError(f"the file {str(path)!r} holds no JSON object with chunks and entities")
    graph = parse_given_graph(data, source=str(path))
    with session.engine(creates=True) as engine:
        result = engine.insert_graph(graph.chunks, graph.entities, graph.relations, source=graph.source)
    if session.output.is_json:
        session.output.json(to_plain(result))
    else:
        session.output.show(Text(f"{result.outcome.value} {result.source} ({result.chunk_count} chunks)"))


def _show(session: Session, done: Curation) -> None:
    if session.output.is_json:
        session.output.json(to_plain(done))
    else:
        session.output.show(render_curation(done))


def _refuse_relation_options(keyword: list[str] | None, weight: float | None) -> None:
    if keyword or weight is not None:
        raise InvalidRequestError("--keyword and --weight are of relations; name the other end with --with")


def _refuse_type(type_: str | None) -> None:
    if type_ is not None:
        raise InvalidRequestError("--type is of entities; leave out --with, or give --keyword")
