"""The commands that look after a workspace, and their reports.

check, rebuild, backup, restore, vacuum, clear, reembed, forget-store and batches; export, import and migrate transfer a
workspace to files, from files, and from one store to another.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from heliograph.cli.options import MAX_OFFSET
from heliograph.cli.output import BriefText, FlowText
from heliograph.cli.rendering import FOLDED, fields_table, local_time, make_table, to_plain
from heliograph.cli.session import EXIT_FAILED, Session
from heliograph.embedding.base import build_embedding_model
from heliograph.engine import with_store
from heliograph.errors import StoreDamaged
from heliograph.maintenance.archive import ExportFormat, ImportKind, ImportReport
from heliograph.maintenance.check import CheckReport, forget_follower
from heliograph.maintenance.migration import migrate_workspace
from heliograph.maintenance.transfer import detect_import
from heliograph.maintenance.workspace import ReembedReport, reembed_workspace, restore_workspace
from heliograph.stores.registry import salvage_store

# The results of checks on a terminal.

_SHOWN = 40


def render_check(report: CheckReport) -> RenderableType:
    """Return the result of a check: counts, and the first problems."""
    looked = (
        f"looked at {report.documents:,} documents, {report.chunks:,} chunks, {report.entities:,} entities and "
        f"{report.relations:,} relations"
    )
    if not report.problem_count:
        return Text(f"{looked}: everything agrees")
    table = make_table(dict.fromkeys(("about", "id", "what is wrong"), FOLDED))
    for problem in report.problems[:_SHOWN]:
        table.add_row(problem.subject, problem.id, FlowText(problem.message))
    hidden = report.problem_count - min(len(report.problems), _SHOWN)
    more = f" ({hidden:,} more are not shown)" if hidden else ""
    verdict = f"{looked}: {report.problem_count:,} problems{more}, {report.repaired:,} put right"
    return Group(table, Text(verdict))


# Roles of an external store.
Role = Literal["graph", "vectors", "text", "cache"]


def check(
    session: Session,
    repair: Annotated[bool, typer.Option("--repair", help="Put right what follows from the documents.")] = False,
) -> None:
    """Compare all derived data with the documents; ends with 1 if something is wrong."""
    try:
        report = _check(session, repair=repair)
    except StoreDamaged:
        # The store cannot be opened.
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
    session: Session,
    role: Annotated[
        Role | None,
        typer.Option("--role", help="Fill only the engine that serves this role anew; a cache is emptied."),
    ] = None,
) -> None:
    """Rebuild entities, relations, vectors and full text from the documents; answers stay the same."""
    with session.engine() as engine, session.output.counting("looking") as progress:
        report = engine.rebuild(role, progress=progress)
    _show_check(session, report)


def forget_store(
    session: Session,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The engine, as 'heliograph doctor' calls it.")],
) -> None:
    """Stop keeping changes for an external store that no setting names any more."""
    asyncio.run(forget_follower(session.settings.store, name))
    session.output.done({"forgotten": name}, f"{name} is forgotten; if a setting names it again, it is filled anew")


def backup(
    session: Session,
    path: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write; it must not be there yet.")],
) -> None:
    """Write the whole workspace into one file; others may go on reading and writing."""
    with session.engine() as engine, session.output.waiting("writing the backup"):
        engine.backup(path)
    size = path.stat().st_size
    session.output.done(
        {"file": str(path), "bytes": size},
        f"{path} holds the workspace ({size:,} bytes); 'heliograph restore' brings it back",
    )


def restore(
    session: Session,
    path: Annotated[Path, typer.Argument(metavar="FILE", help="A file that 'heliograph backup' wrote.")],
) -> None:
    """Make a workspace from a backup; --workspace names it, and there must be none of that name."""
    store = session.settings.store
    with session.output.waiting("reading the backup"):
        asyncio.run(restore_workspace(store, path))
    session.output.done(
        {"workspace": store.workspace, "data_dir": str(store.data_dir)},
        f"{path} is now the workspace {store.workspace!r} in {str(store.data_dir)!r}",
    )


def vacuum(session: Session) -> None:
    """Rewrite the store without deleted data, of which no byte remains in its files."""
    with session.engine() as engine, session.output.waiting("writing the store anew"):
        before = engine.stats().bytes_on_disk
        engine.vacuum()
        after = engine.stats().bytes_on_disk
    session.output.done({"bytes_before": before, "bytes_after": after}, f"{before:,} bytes before, {after:,} after")


def clear(session: Session, yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False) -> None:
    """Delete everything in the workspace."""
    name = session.settings.store.workspace
    with session.engine() as engine:
        documents = sum(engine.stats().documents.values())
        if not yes:
            session.output.confirm(
                f"Delete all {documents:,} documents of the workspace {name!r}, and all that was made of them?"
            )
        engine.clear()
    session.output.done({"deleted_documents": documents}, f"the workspace {name!r} is empty")


def reembed(session: Session) -> None:
    """Re-embed the workspace with the configured embedding; the old vectors serve until all new ones exist."""
    settings = session.settings

    async def work(progress: Callable[[str, int], None]) -> ReembedReport:
        embedding = await build_embedding_model(settings.embedding)
        try:
            has_chat = bool(settings.chat.model)
            return await reembed_workspace(
                settings.store, settings.ingest, embedding, has_chat=has_chat, progress=progress
            )
        finally:
            await embedding.close()

    with session.output.counting("looking") as progress:
        report = asyncio.run(work(progress))
    counts = f"{report.chunks:,} chunks, {report.entities:,} entities and {report.relations:,} relations"
    session.output.done(to_plain(report), f"embedded {counts} anew")


def batches(
    session: Session,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="Batches shown at the most.")] = 20,
    offset: Annotated[int, typer.Option(min=0, max=MAX_OFFSET, help="Batches passed over.")] = 0,
) -> None:
    """List the batches of documents: documents by status, times, tokens spent."""
    with session.engine() as engine:
        found = engine.batches(offset=offset, limit=limit)
    table = make_table(dict.fromkeys(("batch", "documents", "chunks", "tokens", "begun", "last change"), FOLDED))
    for batch in found:
        counts = ", ".join(f"{count:,} {status.value}" for status, count in sorted(batch.documents.items()))
        table.add_row(
            batch.track_id,
            counts,
            f"{batch.chunks:,}",
            f"{batch.usage.input_tokens + batch.usage.output_tokens:,}",
            local_time(batch.created_at),
            local_time(batch.updated_at),
        )
    session.output.result(to_plain(found), lambda: table if found else Text("nothing was taken in yet"))


def _show_check(session: Session, report: CheckReport) -> None:
    session.output.result(to_plain(report) | {"is_clean": report.is_clean}, lambda: render_check(report))
    if not report.is_clean:
        raise typer.Exit(EXIT_FAILED)


# The result of an import on a terminal.

_EXAMPLE_CELLS = 60
_SHOWN_EXAMPLES = 3


def render_import(report: ImportReport) -> RenderableType:
    """Return what was imported, and a line for each kind of thing that differs from the original."""
    rows: list[tuple[str, RenderableType]] = [
        ("documents", f"{report.added:,} added, {report.updated:,} updated, {report.unchanged:,} here already"),
        ("chunks", f"{report.chunks:,}"),
    ]
    if report.failed:
        rows.insert(1, ("not taken in", Text(f"{report.failed:,}", "red")))
    if report.kind is not ImportKind.ARCHIVE:
        graph = report.graph
        said = f"{graph.entities:,} entities, {graph.relations:,} relations, weight {graph.weight:,g} in sum"
        rows.append(("its graph", said))
    else:
        rows.append(("curations", f"{report.curations:,} added"))
        rows.append(("kept replies", f"{report.replies:,} added"))
    fields = fields_table(rows)
    if not report.notes:
        return fields
    table = make_table({"": FOLDED, "count": {**FOLDED, "justify": "right"}, "what": FOLDED, "for example": FOLDED})
    for note in report.notes:
        examples = Group(*(BriefText(example, _EXAMPLE_CELLS) for example in note.examples[:_SHOWN_EXAMPLES]))
        table.add_row(note.kind.value, f"{note.count:,}", FlowText(note.text), examples)
    return Group(fields, Text(), table)


# The commands that transfer a workspace: export, import, and migrate from one store to another.


def export(
    session: Session,
    path: Annotated[Path, typer.Argument(metavar="PATH", help="The file or folder to write; it must not be there.")],
    form: Annotated[
        ExportFormat,
        typer.Option("--format", help="jsonl holds everything and lightrag what LightRAG opens; both can be imported."),
    ] = ExportFormat.JSONL,
) -> None:
    """Write the workspace as an archive, as CSV, GraphML or Markdown, or as a vault for Obsidian."""
    with session.engine() as engine, session.output.waiting("writing the export"):
        count = engine.export(path, form)
    told = f"{count:,} {'documents' if form is ExportFormat.JSONL else 'entries'}"
    plain = {"path": str(path), "format": form.value, "count": count}
    session.output.done(plain, f"{path} holds the workspace as {form.value}: {told}")


def import_(
    session: Session,
    places: Annotated[
        list[str],
        typer.Argument(
            metavar="PLACE...",
            help="An archive by 'heliograph export', a directory, or URLs of servers that LightRAG has written to.",
            show_default=False,
        ),
    ],
) -> None:
    """Import an archive, or the files of LightRAG, nano-graphrag or GraphRAG; calls no chat model."""
    # Checked before the workspace is created, so that a wrong path leaves none behind.
    detect_import(places)
    with session.engine(creates=True) as engine, session.output.counting("reading") as progress:
        report = engine.import_from(places, progress=progress)
    session.output.result(to_plain(report), lambda: render_import(report))
    if report.failed:
        raise typer.Exit(EXIT_FAILED)


def migrate(
    session: Session,
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
    """Copy a workspace into another store as it is, and compare both; an interrupted run continues."""
    settings = session.settings
    url = settings.store.url if source is None else source
    places = (
        with_store(settings, source_data_dir, source_workspace, url).store,
        with_store(settings, target_data_dir, target_workspace, target).store,
    )
    with session.output.counting("looking") as progress:
        report = asyncio.run(migrate_workspace(*places, progress))
    table = make_table({"what": FOLDED, "count": {**FOLDED, "justify": "right"}, "checksum": FOLDED})
    for item in report.kinds:
        table.add_row(item.kind, f"{item.count:,}", item.checksum)
    lines = [f"both stores hold the same; {report.copied:,} things were written by this run"]
    if report.remade_texts:
        lines.append(f"the full text of {report.remade_texts:,} was stale in the source and is right in the target")
    lines += [f"{name} is {lag:,} commits behind" for name, lag in report.lags.items()]
    session.output.result(to_plain(report), lambda: Group(table, Text("\n".join(lines))))
