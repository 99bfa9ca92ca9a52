"""What checks and batches look like on a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from heliograph.cli.flow import FlowText
from heliograph.cli.tables import local_time, make_table
from heliograph.maintenance.problems import CheckReport
from heliograph.models import Batch

__all__ = ["render_batches", "render_check"]

_SHOWN = 40


def render_check(report: CheckReport) -> RenderableType:
    """Return what a check found: counts, and the first problems."""
    looked = (
        f"looked at {report.documents:,} documents, {report.chunks:,} chunks, {report.entities:,} entities and "
        f"{report.relations:,} relations"
    )
    if not report.problem_count:
        return Text(f"{looked}: everything agrees")
    table = make_table()
    for name in ("about", "id", "what is wrong"):
        table.add_column(name, overflow="fold")
    for problem in report.problems[:_SHOWN]:
        table.add_row(problem.subject, problem.id, FlowText(problem.message))
    hidden = report.problem_count - min(len(report.problems), _SHOWN)
    more = f" ({hidden:,} more are not shown)" if hidden else ""
    verdict = f"{looked}: {report.problem_count:,} problems{more}, {report.repaired:,} put right"
    return Group(table, Text(verdict))


def render_batches(batches: Sequence[Batch]) -> RenderableType:
    """Return batches as a table."""
    if not batches:
        return Text("nothing was taken in yet")
    table = make_table()
    for name in ("batch", "documents", "chunks", "tokens", "begun", "last change"):
        table.add_column(name, overflow="fold")
    for batch in batches:
        counts = ", ".join(f"{count:,} {status.value}" for status, count in sorted(batch.documents.items()))
        table.add_row(
            batch.track_id,
            counts,
            f"{batch.chunks:,}",
            f"{batch.usage.input_tokens + batch.usage.output_tokens:,}",
            local_time(batch.created_at),
            local_time(batch.updated_at),
        )
    return table
