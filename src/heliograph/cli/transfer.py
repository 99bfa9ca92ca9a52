"""The commands that move knowledge: export and import."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from heliograph.cli.exit_codes import EXIT_FAILED
from heliograph.cli.plain import to_plain
from heliograph.cli.render_transfer import render_import
from heliograph.cli.session import current_session
from heliograph.maintenance.export.registry import ExportFormat
from heliograph.maintenance.importing.detection import detect_import

__all__ = ["export", "import_"]


def export(
    ctx: typer.Context,
    path: Annotated[Path, typer.Argument(metavar="PATH", help="The file or folder to write; it must not be there.")],
    form: Annotated[
        ExportFormat,
        typer.Option("--format", help="jsonl holds everything and can be imported; the others are for reading."),
    ] = ExportFormat.JSONL,
) -> None:
    """Write the workspace as an archive, as CSV, GraphML or Markdown, or as a vault for Obsidian."""
    session = current_session(ctx)
    with session.engine() as engine, session.output.waiting("writing the export"):
        count = engine.export(path, form)
    if session.output.is_json:
        session.output.json({"path": str(path), "format": form.value, "count": count})
    else:
        what = "documents" if form is ExportFormat.JSONL else "entries"
        session.output.note(f"{path} holds the workspace as {form.value}: {count:,} {what}")


def import_(
    ctx: typer.Context,
    path: Annotated[
        Path,
        typer.Argument(metavar="PATH", help="An archive by 'heliograph export', or a working directory of LightRAG."),
    ],
) -> None:
    """Take in an archive, or a working directory of LightRAG or nano-graphrag; calls no chat model."""
    session = current_session(ctx)
    # Before the workspace is made: a wrong path shall leave none behind.
    detect_import(path)
    with session.engine(creates=True) as engine, session.output.counting("reading") as progress:
        report = engine.import_from(path, progress=progress)
    if session.output.is_json:
        session.output.json(to_plain(report))
    else:
        session.output.show(render_import(report))
    if report.failed:
        raise typer.Exit(EXIT_FAILED)
