"""The commands about the graph and its corrections by hand, and their tables.

Entities, entity, relation, neighbours and paths show it. Create, edit, rename, merge, split, hide and undo write
curations; history, duplicates and curations show them; insert-graph inserts a graph from a JSON file.
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
from heliograph.cli.output import FlowText, printable
from heliograph.cli.rendering import (
    FAINT,
    FIGURE,
    FOLDED,
    WIDE,
    WORD,
    amount,
    description_cell,
    fields_table,
    local_time,
    make_table,
    to_plain,
)
from heliograph.cli.session import Session
from heliograph.errors import InvalidRequestError, NotFoundError
from heliograph.ingest.given import parse_given_graph
from heliograph.models import FIELD_SEPARATOR, Curation, Entity, GraphPath, Relation
from heliograph.stores.base import CurationQuery
from heliograph.sync import Heliograph

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the entity, by any spelling or alias.")]

# Entities, relations, neighbourhoods and paths, as tables.


def _described(rows: list[tuple[str, RenderableType]], description: str) -> RenderableType:
    fragments = (FlowText(fragment.strip()) for fragment in description.split(FIELD_SEPARATOR))
    return Group(fields_table(rows), Text(), *fragments)


def render_entities(entities: Sequence[Entity], title: str | None = None) -> RenderableType:
    """Return a table of entities, for `query` and `demo` as well."""
    named = {"min_width": 12, "max_width": 24}
    table = make_table({"entity": named, "type": FAINT, "relations": FIGURE, "description": WIDE}, title)
    for item in entities:
        name = FlowText(item.name, "bold")
        table.add_row(name, Text(printable(item.type)), f"{item.degree:,}", description_cell(item.description))
    return table


def render_relations(relations: Sequence[Relation], title: str | None = None) -> RenderableType:
    """Return a table of relations."""
    named = {"min_width": 16, "max_width": 28}
    table = make_table({"relation": named, "weight": FIGURE, "description": WIDE}, title)
    for item in relations:
        pair = Group(FlowText(item.source, "bold"), FlowText(item.target, "bold"))
        about = FlowText(", ".join(item.keywords), "cyan")
        description = description_cell(item.description)
        table.add_row(pair, f"{item.weight:g}", Group(about, description) if item.keywords else description)
    return table


def render_paths(paths: Sequence[GraphPath]) -> RenderableType:
    """Return paths, each from its first entity down to its last."""
    parts: list[RenderableType] = []
    for number, path in enumerate(paths, 1):
        length = len(path.relations)
        parts.append(Text(f"path {number} of {len(paths)}, {amount(length, 'relation')}", "dim"))
        table = make_table({"way": FAINT, "step": WIDE}, with_header=False)
        for place, entity in enumerate(path.entities):
            table.add_row("", FlowText(entity.name, "bold"))
            if place < length:
                relation = path.relations[place]
                about = FlowText(", ".join(relation.keywords), "cyan")
                table.add_row("|", Group(about, description_cell(relation.description)))
        parts += [table, Text()]
    return Group(*parts[:-1])


def entities(
    session: Session,
    search: Annotated[str, typer.Option(metavar="TEXT", help="Only those with this in a name or alias.")] = "",
    type_: Annotated[str, typer.Option("--type", metavar="TYPE", help="Only those of this type.")] = "",
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="Entities shown at the most.")] = 20,
    offset: Annotated[int, typer.Option(min=0, max=MAX_OFFSET, help="Entities passed over.")] = 0,
) -> None:
    """List the entities, best connected first."""
    with session.engine() as engine:
        found = engine.entities(search=search, type=type_, offset=offset, limit=limit)
    whose = f"no entity of the type {type_!r}" if type_ else "no entity"
    nothing = f"{whose} has {search!r} in a name or alias" if search else whose if type_ else "no entities"
    session.output.result({"entities": to_plain(found)}, lambda: render_entities(found) if found else Text(nothing))


def entity(session: Session, name: Name) -> None:
    """Show one entity whole."""
    with session.engine() as engine:
        found = _require_entity(session, engine, name)
    rows: list[tuple[str, RenderableType]] = [
        ("name", FlowText(found.name, "bold")),
        ("type", found.type),
        ("relations", f"{found.degree:,}"),
        ("chunks", f"{len(found.chunk_ids):,}"),
    ]
    rows += [("also called", ", ".join(found.aliases))] if found.aliases else []
    session.output.result(to_plain(found), lambda: _described(rows, found.description))


def relation(
    session: Session,
    name: Annotated[str, typer.Argument(metavar="A", help="Name of one entity.")],
    other: Annotated[str, typer.Argument(metavar="B", help="Name of the other; the order does not matter.")],
) -> None:
    """Show the relation between two entities whole."""
    with session.engine() as engine:
        found = engine.relation(name, other)
        if found is None:
            _require_entity(session, engine, name)
            _require_entity(session, engine, other)
            raise NotFoundError(
                f"there is no relation between {name!r} and {other!r}; 'heliograph paths' finds longer ways"
            )
    rows: list[tuple[str, RenderableType]] = [
        ("between", FlowText(f"{found.source} - {found.target}", "bold")),
        ("keywords", ", ".join(found.keywords)),
        ("weight", f"{found.weight:g}"),
        ("chunks", f"{len(found.chunk_ids):,}"),
    ]
    session.output.result(to_plain(found), lambda: _described(rows, found.description))


def neighbours(
    session: Session,
    name: Name,
    depth: Annotated[int, typer.Option(min=1, max=10, help="Relations between it and the farthest.")] = 1,
    max_entities: Annotated[int, typer.Option(min=1, max=10_000, help="Entities shown at the most.")] = 50,
) -> None:
    """Show the neighbourhood of an entity, nearest first."""
    with session.engine() as engine:
        found = engine.neighbours(name, depth=depth, max_entities=max_entities)
        if not found.entities:
            _require_entity(session, engine, name)
    parts: list[RenderableType] = [render_entities(found.entities)]
    if found.relations:
        parts += [Text(), render_relations(found.relations)]
    counts = f"\n{len(found.entities):,} entities, {len(found.relations):,} relations"
    parts.append(Text(counts + (" (cut at --max-entities)" if found.is_truncated else ""), "dim"))
    session.output.result(to_plain(found), lambda: Group(*parts))


def paths(
    session: Session,
    name: Annotated[str, typer.Argument(metavar="A", help="Name of one entity.")],
    other: Annotated[str, typer.Argument(metavar="B", help="Name of the other.")],
    max_hops: Annotated[
        int, typer.Option("--max-hops", "--max-length", min=1, max=10, help="Relations in a path at the most.")
    ] = 6,
    limit: Annotated[int, typer.Option(min=1, max=100, help="Paths shown at the most.")] = 5,
) -> None:
    """Show the shortest paths between two entities, strongest first."""
    with session.engine() as engine:
        found = engine.paths(name, other, max_hops=max_hops, limit=limit)
        if not found:
            _require_entity(session, engine, name)
            _require_entity(session, engine, other)
    session.output.result(
        {"paths": to_plain(found)},
        lambda: render_paths(found) if found else Text(f"no path of at most {max_hops} relations"),
    )


def _require_entity(session: Session, engine: Heliograph, name: str) -> Entity:
    found = engine.entity(name)
    if found is None:
        raise NotFoundError(
            f"there is no entity {name!r} in workspace {session.settings.store.workspace!r}; "
            "'heliograph entities --search TEXT' finds one by a part of its name"
        )
    return found


# Curations, histories and pairs of duplicates, as tables.


def render_curations(items: Sequence[Curation], title: str | None = None) -> RenderableType:
    """Return a table of curations."""
    table = make_table({"curation": FAINT, "when": WORD, "by": FOLDED, "what": WIDE}, title)
    for item in items:
        undone = "" if item.is_active else f" (undone by {item.undone_by or 'somebody'})"
        table.add_row(item.id, local_time(item.created_at), item.author, FlowText(_what(item) + undone))
    return table


def _what(item: Curation) -> str:
    """Describe a curation in a few words."""
    said = [("type", item.type), ("description", item.description), ("keywords", ", ".join(item.keywords or ()))]
    details = [f"{name} {value!r}" for name, value in said if value]
    details += [f"weight {item.weight:g}"] if item.weight is not None else []
    details += [f"in {', '.join(item.scope)}"] if item.scope else []
    # Use the name of the command that made it.
    kind = item.kind.value.replace("delete_", "hide_").replace("_", " ")
    return " ".join((kind, " -> ".join(item.names), *details))


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
# `create` and `edit` repeat the same options, because each command's options are read from its own signature.


def create(
    session: Session,
    name: Name,
    other: Other = None,
    type_: Type = None,
    description: Description = None,
    keyword: Keyword = None,
    weight: Weight = None,
    author: Author = _AUTHOR,
) -> None:
    """Create an entity, or with --with a relation, that exists without any document."""
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
    session: Session,
    name: Name,
    other: Other = None,
    type_: Type = None,
    description: Description = None,
    keyword: Keyword = None,
    weight: Weight = None,
    author: Author = _AUTHOR,
) -> None:
    """Override what documents say about an entity, or with --with about a relation."""
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


def hide(session: Session, name: Name, other: Other = None, author: Author = _AUTHOR) -> None:
    """Remove an entity, or with --with a relation, from the graph, whatever documents say."""
    with session.engine() as engine:
        if other is None:
            done = engine.delete_entity(name, author=author)
        else:
            done = engine.delete_relation(name, other, author=author)
    _show(session, done)


def rename(
    session: Session,
    name: Name,
    new_name: Annotated[str, typer.Argument(metavar="NEW", help="Its new name.")],
    allow_merge: Annotated[
        bool, typer.Option("--allow-merge", help="Merge it into the entity that has the new name, if there is one.")
    ] = False,
    author: Author = _AUTHOR,
) -> None:
    """Give an entity another name; the old one stays its alias."""
    with session.engine() as engine:
        done = engine.rename_entity(name, new_name, allow_merge=allow_merge, author=author)
    _show(session, done)


def merge(
    session: Session,
    names: Annotated[list[str], typer.Argument(metavar="NAMES", help="Names of the entities to merge.")],
    into: Annotated[str, typer.Option(metavar="NAME", help="What they become: an entity, or a new name.")],
    author: Author = _AUTHOR,
) -> None:
    """Merge several entities into one."""
    with session.engine() as engine:
        done = engine.merge_entities(names, into, author=author)
    _show(session, done)


def split(
    session: Session,
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
    """Split an entity: its mentions in some documents or chunks become an entity of their own."""
    with session.engine() as engine:
        done = engine.split_entity(name, new_name, document_ids=document or (), chunk_ids=chunk or (), author=author)
    _show(session, done)


def undo(
    session: Session,
    curation_id: Annotated[str, typer.Argument(metavar="ID", help="Id of the curation; 'curations' lists them.")],
    author: Author = _AUTHOR,
) -> None:
    """Undo a correction by hand: the graph becomes what it would be without it."""
    with session.engine() as engine:
        done = engine.undo(curation_id, author=author)
    _show(session, done)


def curations(session: Session, limit: Limit = 20, offset: Offset = 0) -> None:
    """List the corrections of the graph by hand, the latest first."""
    with session.engine() as engine:
        page = engine.curations(CurationQuery(descending=True, offset=offset, limit=limit))
    session.output.result(
        {"curations": to_plain(page.curations), "total": page.total},
        lambda: render_curations(page.curations) if page.curations else Text("no curations"),
    )


def history(
    session: Session,
    name: Name,
    other: Other = None,
    limit: Limit = 20,
    offset: Offset = 0,
) -> None:
    """Show what each chunk and person said about an entity, or with --with about a relation."""
    with session.engine() as engine:
        found = engine.history(name, other, offset=offset, limit=limit)
    if not found.statement_count and not found.curations:
        what = repr(name) if other is None else f"{name!r} and {other!r}"
        raise NotFoundError(f"nothing was ever said of {what} in this workspace")
    source, said_name = {**FOLDED, "max_width": 30}, {**FOLDED, "max_width": 24}
    columns = {"source": source, "chunk": FIGURE, "name": said_name, "what": WIDE}
    table = make_table(columns, f"said by {amount(found.statement_count, 'mention')}")
    for item in found.statements:
        said = " / ".join(part for part in (item.type, ", ".join(item.keywords), item.description) if part)
        table.add_row(item.source, str(item.position), FlowText(" - ".join(item.names)), description_cell(said))
    parts: list[RenderableType] = [table] if found.statements else []
    if found.curations:
        parts += [Text(), render_curations(found.curations, "done by hand")]
    session.output.result(to_plain(found), lambda: Group(*parts))


def duplicates(session: Session, limit: Limit = 20) -> None:
    """List pairs of entities that may be one, the most alike first."""
    with session.engine() as engine, session.output.waiting("comparing entities"):
        found = engine.find_duplicates(limit=limit)
    name = {**FOLDED, "max_width": 28}
    table = make_table({"score": FIGURE, "entity": name, "other": name, "why": WIDE})
    for pair in found:
        table.add_row(f"{pair.score:.2f}", FlowText(pair.name), FlowText(pair.other), FlowText(pair.reason))
    session.output.result({"duplicates": to_plain(found)}, lambda: table if found else Text("no duplicates"))


def insert_graph(
    session: Session,
    path: Annotated[Path, typer.Argument(metavar="FILE", help="JSON with chunks, entities and relationships.")],
) -> None:
    """Insert a ready-made graph as one document whose source is the file."""
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
    session.output.result(
        to_plain(result),
        lambda: Text(f"{result.outcome.value} {result.source} ({amount(result.chunk_count, 'chunk')})"),
    )


def _show(session: Session, done: Curation) -> None:
    rows: list[tuple[str, RenderableType]] = [
        ("curation", done.id),
        ("done" if done.is_active else "undone", FlowText(_what(done), "bold")),
        ("by", done.author if done.is_active else done.undone_by),
    ]
    session.output.result(to_plain(done), lambda: fields_table(rows))


def _refuse_relation_options(keyword: list[str] | None, weight: float | None) -> None:
    if keyword or weight is not None:
        raise InvalidRequestError("--keyword and --weight are of relations; name the other end with --with")


def _refuse_type(type_: str | None) -> None:
    if type_ is not None:
        raise InvalidRequestError("--type is of entities; leave out --with, or give --keyword")
