"""Curations, histories and pairs of duplicates, as tables."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from heliograph.cli.flow import FlowText
from heliograph.cli.tables import description_cell, fields_table, local_time, make_table
from heliograph.ingest.duplicates import DuplicatePair
from heliograph.ingest.history import History
from heliograph.models import Curation

__all__ = ["render_curation", "render_curations", "render_duplicates", "render_history"]


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
