"""The command `watch`: a folder kept in step until Ctrl-C."""

from __future__ import annotations

from contextlib import closing
from typing import Annotated, Any, cast

import typer

from heliograph.cli.documents import parse_metadata
from heliograph.cli.exit_codes import EXIT_FAILED
from heliograph.cli.plain import to_plain
from heliograph.cli.render_documents import render_deletion, render_results, summarize_results
from heliograph.cli.session import Session, current_session
from heliograph.ingest.models import Outcome
from heliograph.ingest.watching import FolderChange

__all__ = ["watch"]


def watch(
    ctx: typer.Context,
    folder: Annotated[str, typer.Argument(help="The folder.", show_default=False)],
    include: Annotated[
        list[str] | None,
        typer.Option(metavar="PATTERN", help="Only files that match, such as '**/*.md'; may be repeated."),
    ] = None,
    exclude: Annotated[
        list[str] | None, typer.Option(metavar="PATTERN", help="No files or folders that match; may be repeated.")
    ] = None,
    metadata: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="Kept with every document; may be repeated.")
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Bring into step once, and end.")] = False,
) -> None:
    """Keep what is stored in step with a folder: files that are new, changed, moved or deleted.

    Starts by comparing the folder with what is stored below its path; ends with Ctrl-C, which loses nothing.
    """
    session = current_session(ctx)
    kept = parse_metadata(metadata or [])
    has_failed = False
    with session.engine(creates=True) as engine:
        changes = engine.watch(folder, include=include or (), exclude=exclude or (), metadata=kept or None, once=once)
        if not once:
            session.output.note(f"watching {folder}; Ctrl-C ends it")
        with closing(cast("Any", changes)):
            for change in changes:
                has_failed = _show(session, change) or has_failed
    if once and has_failed:
        raise typer.Exit(EXIT_FAILED)


def _show(session: Session, change: FolderChange) -> bool:
    """Show what was done, and return whether a document failed."""
    results = change.ingest.results if change.ingest else ()
    if session.output.is_json:
        session.output.json(to_plain(change))
        return any(item.error is not None for item in results)
    told = [item for item in results if item.outcome is not Outcome.UNCHANGED]
    if told:
        session.output.show(render_results(told))
    if change.deletion is not None and change.deletion.deleted:
        session.output.show(render_deletion(change.deletion))
        for source in change.removed_sources:
            session.output.note(f"  {source}")
    session.output.note(summarize_results(results, None))
    return any(item.error is not None for item in results)
