"""The commands that move knowledge: export, import, and migrate from one store to another."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from heliograph.cli.exit_codes import EXIT_FAILED
from heliograph.cli.plain import to_plain
from heliograph.cli.render_transfer import render_import, render_migration
from heliograph.cli.session import current_session
from heliograph.maintenance.export.registry import ExportFormat
from heliograph.maintenance.importing.detection import detect_import
from heliograph.maintenance.migration.run import migrate_workspace
from heliograph.opening import with_store

__all__ = ["export", "import_", "migrate"]


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


def migrate(
    ctx: typer.Context,
    target: Annotated[str, typer.Option("--to", metavar="URL", help="Where to: sqlite: or postgresql://...")],
    source: Annotated[
        str | None, typer.Option("--from", metavar="URL", help="Where from; store.url if left out.", show_default=False)
    ] = None,
    source_data_dir: Annotated[
        Path | None, typer.Option("--from-data-dir", metavar="FOLDER", help="Folder of the source, for sqlite:.")
    ] = None,
    target_data_dir: Annotated[
        Path | None, typer.Option("--to-data-dir", metavar="FOLDER", help="Folder of the target, for sqlite:.")
    ] = None,
    source_workspace: Annotated[
        str | None, typer.Option("--from-workspace", metavar="NAME", help="Workspace in the source.")
    ] = None,
    target_workspace: Annotated[
        str | None, typer.Option("--to-workspace", metavar="NAME", help="Workspace in the target.")
    ] = None,
) -> None:
    """Copy a workspace into another store as it is, and compare both; a run that was broken off goes on."""
    session = current_session(ctx)
    settings = session.settings
    url = settings.store.url if source is None else source
    places = (
        with_store(settings, source_data_dir, source_workspace, url).store,
        with_store(settings, target_data_dir, target_workspace, target).store,
    )
    with session.output.counting("looking") as progress:
        report = asyncio.run(migrate_workspace(*places, progress))
    if session.output.is_json:
        session.output.json(to_plain(report))
    else:
        session.output.show(render_migration(report))
