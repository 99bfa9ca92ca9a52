"""What an import and a migration look like on a terminal."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from heliograph.cli.flow import BriefText, FlowText
from heliograph.cli.tables import fields_table, make_table
from heliograph.maintenance.importing.report import ImportKind, ImportReport
from heliograph.maintenance.migration.report import MigrationReport

__all__ = ["render_import", "render_migration"]

_EXAMPLE_CELLS = 60
_SHOWN = 3


def render_import(report: ImportReport) -> RenderableType:
    """Return what an import took, and a line for each kind of thing that is not here as it was there."""
    rows: list[tuple[str, RenderableType]] = [
        ("documents", f"{report.added:,} added, {report.updated:,} updated, {report.unchanged:,} here already"),
        ("chunks", f"{report.chunks:,}"),
    ]
    if report.failed:
        rows.insert(1, ("not taken in", Text(f"{report.failed:,}", "red")))
    if report.kind is ImportKind.LIGHTRAG:
        graph = report.graph
        said = f"{graph.entities:,} entities, {graph.relations:,} relations, weight {graph.weight:,g} in sum"
        rows.append(("its graph", said))
    else:
        rows.append(("curations", f"{report.curations:,} added"))
        rows.append(("kept replies", f"{report.replies:,} added"))
    fields = fields_table(rows)
    if not report.notes:
        return fields
    table = make_table()
    for name in ("", "count", "what", "for example"):
        table.add_column(name, overflow="fold", justify="right" if name == "count" else "left")
    for note in report.notes:
        examples = Group(*(BriefText(example, _EXAMPLE_CELLS) for example in note.examples[:_SHOWN]))
        table.add_row(note.kind.value, f"{note.count:,}", FlowText(note.text), examples)
    return Group(fields, Text(), table)


def render_migration(report: MigrationReport) -> RenderableType:
    """Return what both stores now hold alike, and what follows the target."""
    table = make_table()
    for name in ("what", "count", "checksum"):
        table.add_column(name, overflow="fold", justify="right" if name == "count" else "left")
    for item in report.kinds:
        table.add_row(item.kind, f"{item.count:,}", item.checksum)
    lines = [f"both stores hold the same; {report.copied:,} things were written by this run"]
    if report.remade_texts:
        lines.append(f"the full text of {report.remade_texts:,} was stale in the source and is right in the target")
    lines += [f"{name} is {lag:,} commits behind" for name, lag in report.lags.items()]
    return Group(table, Text("\n".join(lines)))
