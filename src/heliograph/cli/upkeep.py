"""The commands that look after a workspace: checks and rebuilding, backups, room, other embeddings and engines."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from heliograph.cli.exit_codes import EXIT_FAILED
from heliograph.cli.filters import MAX_OFFSET
from heliograph.cli.plain import to_plain
from heliograph.cli.render_upkeep import render_batches, render_check
from heliograph.cli.session import Session, current_session
from heliograph.embedding.registry import build_embedding_model
from heliograph.errors import StoreDamaged
from heliograph.maintenance.followers import forget_follower
from heliograph.maintenance.problems import CheckReport
from heliograph.maintenance.reembed import ReembedReport
from heliograph.maintenance.workspace import reembed_workspace, restore_workspace
from heliograph.settings import Settings
from heliograph.stores.registry import salvage_store

__all__ = ["backup", "batches", "check", "clear", "forget_store", "rebuild", "reembed", "restore", "vacuum"]


class Role(StrEnum):
    """What another engine may serve."""

    GRAPH = "graph"
    VECTORS = "vectors"
    TEXT = "text"
    CACHE = "cache"


def check(
    ctx: typer.Context,
    repair: Annotated[bool, typer.Option("--repair", help="Put right what follows from the documents.")] = False,
) -> None:
    """Compare everything that is derived with what the documents say; ends with 1 if something is wrong."""
    session = current_session(ctx)
    try:
        report = _check(session, repair=repair)
    except StoreDamaged:
        # It cannot be opened.
        lost = asyncio.run(salvage_store(session.settings.store)) if repair else None
        if lost is None:
            raise
        session.output.warn("the store could not be opened; what was whole of it was saved into a new file")
        for damage in lost:
            session.output.warn(f"{damage.document_id}: {damage.message}".removeprefix(": "))
        report = _check(session, repair=True)
    _show_check(session, report)


def _check(session: Session, *, repair: bool) -> CheckReport:
    with session.engine() as engine, session.output.counting("looking") as progress:
        return engine.check(repair=repair, progress=progress)


def rebuild(
    ctx: typer.Context,
    role: Annotated[
        Role | None,
        typer.Option("--role", help="Fill only the engine that serves this role anew; a cache is emptied."),
    ] = None,
) -> None:
    """Make entities, relations, vectors and full text anew from what the documents say; answers stay the same."""
    session = current_session(ctx)
    with session.engine() as engine, session.output.counting("looking") as progress:
        report = engine.rebuild(role.value if role else None, progress=progress)
    _show_check(session, report)


def forget_store(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The engine, as 'heliograph doctor' calls it.")],
) -> None:
    """Keep nothing more for an engine that no setting names any more."""
    session = current_session(ctx)
    asyncio.run(forget_follower(session.settings.store, name))
    if session.output.is_json:
        session.output.json({"forgotten": name})
    else:
        session.output.note(f"{name} is forgotten; if a setting names it again, it is filled anew")


def backup(
    ctx: typer.Context,
    path: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write; it must not be there yet.")],
) -> None:
    """Write the whole workspace into one file; others may go on reading and writing."""
    session = current_session(ctx)
    with session.engine() as engine, session.output.waiting("writing the backup"):
        engine.backup(path)
    size = path.stat().st_size
    if session.output.is_json:
        session.output.json({"file": str(path), "bytes": size})
    else:
        session.output.note(f"{path} holds the workspace ({size:,} bytes); 'heliograph restore' brings it back")


def restore(
    ctx: typer.Context,
    path: Annotated[Path, typer.Argument(metavar="FILE", help="A file that 'heliograph backup' wrote.")],
) -> None:
    """Make a workspace from a backup; --workspace names it, and there must be none of that name."""
    session = current_session(ctx)
    store = session.settings.store
    with session.output.waiting("reading the backup"):
        asyncio.run(restore_workspace(store, path))
    if session.output.is_json:
        session.output.json({"workspace": store.workspace, "data_dir": str(store.data_dir)})
    else:
        session.output.note(f"{path} is now the workspace {store.workspace!r} in {str(store.data_dir)!r}")


def vacuum(ctx: typer.Context) -> None:
    """Give back the room of what was deleted, to the last byte of it."""
    session = current_session(ctx)
    with session.engine() as engine, session.output.waiting("writing the store anew"):
        before = engine.stats().bytes_on_disk
        engine.vacuum()
        after = engine.stats().bytes_on_disk
    if session.output.is_json:
        session.output.json({"bytes_before": before, "bytes_after": after})
    else:
        session.output.note(f"{before:,} bytes before, {after:,} after")


def clear(ctx: typer.Context, yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False) -> None:
    """Delete everything in the workspace."""
    session = current_session(ctx)
    name = session.settings.store.workspace
    with session.engine() as engine:
        documents = sum(engine.stats().documents.values())
        if not yes:
            question = f"Delete all {documents:,} documents of the workspace {name!r}, and all that was made of them?"
            typer.confirm(question, abort=True, err=True)
        engine.clear()
    if session.output.is_json:
        session.output.json({"deleted_documents": documents})
    else:
        session.output.note(f"the workspace {name!r} is empty")


def reembed(ctx: typer.Context) -> None:
    """Embed the workspace anew with the configured embedding; the old vectors answer until all are there."""
    session = current_session(ctx)
    with session.output.counting("looking") as progress:
        report = asyncio.run(_reembed(session.settings, progress))
    if session.output.is_json:
        session.output.json(to_plain(report))
    else:
        session.output.note(
            f"embedded {report.chunks:,} chunks, {report.entities:,} entities and {report.relations:,} relations anew"
        )


def batches(
    ctx: typer.Context,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="Batches shown at the most.")] = 20,
    offset: Annotated[int, typer.Option(min=0, max=MAX_OFFSET, help="Batches passed over.")] = 0,
) -> None:
    """List what was taken in together: documents by status, moments, tokens spent."""
    session = current_session(ctx)
    with session.engine() as engine:
        found = engine.batches(offset=offset, limit=limit)
    if session.output.is_json:
        session.output.json(to_plain(found))
    else:
        session.output.show(render_batches(found))


async def _reembed(settings: Settings, progress: Callable[[str, int], None]) -> ReembedReport:
    embedding = await build_embedding_model(settings.embedding)
    try:
        has_chat = bool(settings.chat.model)
        return await reembed_workspace(settings.store, settings.ingest, embedding, has_chat=has_chat, progress=progress)
    finally:
        await embedding.close()


def _show_check(session: Session, report: CheckReport) -> None:
    if session.output.is_json:
        session.output.json(to_plain(report) | {"is_clean": report.is_clean})
    else:
        session.output.show(render_check(report))
    if not report.is_clean:
        raise typer.Exit(EXIT_FAILED)
